"""The OpenAPI document: bodies are read by ourselves, so their schemas are put in here."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from model_runtime.server.schemas.answers import ErrorAnswer
from model_runtime.server.schemas.chat import ChatRequest
from model_runtime.server.schemas.text import DetokenizeRequest, TextRequest, TokenizeRequest

_REF = "#/components/schemas/{model}"
_BODIES: tuple[type[BaseModel], ...] = (ChatRequest, TextRequest, TokenizeRequest, DetokenizeRequest)

Json = dict[str, Any]


def body_of(model: type[BaseModel]) -> Json:
    """A route's `openapi_extra` for a JSON body."""
    schema = {"$ref": _REF.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answers_of(model: type[BaseModel] | None, *statuses: int, text: str | None = None) -> dict[int | str, Json]:
    """A route's `responses`: what it answers, and with which errors.

    Args:
        model: Of an answer in JSON.
        statuses: Of errors, beside 401.
        text: Media type of an answer that is text: instead of JSON, or beside it.
    """
    content: Json = {text: {"schema": {"type": "string"}}} if text else {}
    ok: Json = (
        {"description": "The answer"} | ({"model": model} if model else {}) | ({"content": content} if text else {})
    )
    errors: dict[int | str, Json] = {
        status: {"model": ErrorAnswer, "description": "An error"} for status in (401, *statuses)
    }
    return {200: ok, **errors}


def describe(app: FastAPI, *, has_keys: bool) -> Json:
    """The whole document; `has_keys` says that requests need one."""
    document: Json = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    _, definitions = models_json_schema([(model, "validation") for model in _BODIES], ref_template=_REF)
    document.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
    if has_keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    return document
