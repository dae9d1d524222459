"""The OpenAPI document, with schemas of what is asked and answered: neither passes through FastAPI's own models."""

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from model_runtime.server.schemas import ChatRequest, DetokenizeRequest, TextRequest, TokenizeRequest

FinishReason = Literal["stop", "length", "tool_calls"]


class ErrorFields(BaseModel):
    """What went wrong: found, expected, and what to do, in one line."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """Every answer of 400 and above."""

    error: ErrorFields


class PromptDetails(BaseModel):
    """Tokens of the prompt that the prefix cache had."""

    cached_tokens: int


class CompletionDetails(BaseModel):
    """Tokens of the reasoning."""

    reasoning_tokens: int


class UsageAnswer(BaseModel):
    """Token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class CalledFunction(BaseModel):
    """A function and its arguments as JSON text; the model wrote them, so check them."""

    name: str
    arguments: str


class CallAnswer(BaseModel):
    """A tool call."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class MessageAnswer(BaseModel):
    """The assistant's message; content is null while it only reasons or calls."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallAnswer] | None = None


class ChatChoiceAnswer(BaseModel):
    """One choice."""

    index: int
    message: MessageAnswer
    finish_reason: FinishReason
    stop_reason: str | int | None
    logprobs: dict[str, Any] | None
    token_ids: list[int] | None = None


class Headed(BaseModel):
    """What every answer begins with."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    usage: UsageAnswer


class ChatAnswer(Headed):
    """A whole chat answer."""

    object: Literal["chat.completion"]
    choices: list[ChatChoiceAnswer]
    prompt_token_ids: list[int] | None = None


class TextChoiceAnswer(BaseModel):
    """One choice; lists of `logprobs` and `token_ids` have an entry for each token."""

    index: int
    text: str
    finish_reason: FinishReason
    stop_reason: str | int | None
    logprobs: dict[str, list[Any]] | None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, Any] | None] | None = None


class TextAnswer(Headed):
    """A whole completion."""

    object: Literal["text_completion"]
    choices: list[TextChoiceAnswer]


class ModelAnswer(BaseModel):
    """A model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int


class ModelsAnswer(BaseModel):
    """All models."""

    object: Literal["list"]
    data: list[ModelAnswer]


class TokensAnswer(BaseModel):
    """A tokenised prompt."""

    count: int
    max_model_len: int
    tokens: list[int]


class DetokenizedAnswer(BaseModel):
    """The text of token ids."""

    prompt: str


class HealthAnswer(BaseModel):
    """The server takes requests."""

    status: Literal["ok"]


class VersionAnswer(BaseModel):
    """The version of the package."""

    version: str


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
