"""Bodies of answers, and the OpenAPI document of all routes: answers do not pass through FastAPI's own models."""

from typing import Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from model_runtime.engine.contract import LogprobsMode
from model_runtime.json_types import Json
from model_runtime.server.schemas import ChatRequest, DetokenizeRequest, TextRequest, TokenizeRequest, UpdateRequest

FinishReason = Literal["stop", "length", "tool_calls"]


class ErrorFields(BaseModel):
    """An error: found, expected, and remedy, in one line."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """Body of every answer of 400 and above."""

    error: ErrorFields


class PromptDetails(BaseModel):
    """Prompt tokens from the prefix cache."""

    cached_tokens: int


class CompletionDetails(BaseModel):
    """Reasoning tokens."""

    reasoning_tokens: int


class UsageAnswer(BaseModel):
    """Token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class CalledFunction(BaseModel):
    """A function and its arguments as JSON text; the model wrote them, so validate them."""

    name: str
    arguments: str


class CallAnswer(BaseModel):
    """A tool call."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class MessageAnswer(BaseModel):
    """The assistant's message; content is null if it has only reasoning or calls."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallAnswer] | None = None


class MediaAnswer(BaseModel):
    """An image or a chunk of a video in the prompt; may be sent as it is in `media` of a later request."""

    type: Literal["media_hash"]
    media_hash: str
    offset: int
    num_tokens: int


class VersionSpan(BaseModel):
    """Consecutive tokens of a reply that one version of the weights computed."""

    version: str
    num_tokens: int


class ChatChoiceAnswer(BaseModel):
    """One choice."""

    index: int
    message: MessageAnswer
    finish_reason: FinishReason
    stop_reason: str | int | None
    logprobs: Json | None
    token_ids: list[int] | None = None
    weight_versions: list[VersionSpan] | None = None
    kept_token_ids: list[int] | None = None
    num_kept: list[int] | None = None


class SamplingAnswer(BaseModel):
    """Sampling parameters as used, defaults included; `seed` null for a random one, `max_tokens` for the context."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    seed: int | None
    max_tokens: int | None
    min_tokens: int
    thinking_budget: int | None
    logprobs_mode: LogprobsMode


class Headed(BaseModel):
    """First fields of every answer."""

    id: str
    created: int
    model: str
    system_fingerprint: str
    sampling: SamplingAnswer
    weight_version: str
    usage: UsageAnswer


class ChatAnswer(Headed):
    """A complete chat answer."""

    object: Literal["chat.completion"]
    choices: list[ChatChoiceAnswer]
    prompt_token_ids: list[int] | None = None
    media: list[MediaAnswer] | None = None
    processor: str | None = None


class TextChoiceAnswer(BaseModel):
    """One choice; lists of `logprobs` and `token_ids` have an entry for each token."""

    index: int
    text: str
    finish_reason: FinishReason
    stop_reason: str | int | None
    logprobs: dict[str, list[object]] | None
    token_ids: list[int] | None = None
    weight_versions: list[VersionSpan] | None = None
    kept_token_ids: list[int] | None = None
    num_kept: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    media: list[MediaAnswer] | None = None
    processor: str | None = None
    prompt_logprobs: list[Json | None] | None = None


class TextAnswer(Headed):
    """A complete completion."""

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
    """A tokenized prompt."""

    count: int
    max_model_len: int
    tokens: list[int]


class DetokenizedAnswer(BaseModel):
    """The text of token ids."""

    prompt: str


class UpdatedAnswer(BaseModel):
    """Version of the weights after an update."""

    weight_version: str


class HealthAnswer(BaseModel):
    """Health of a server that accepts requests."""

    status: Literal["ok"]


class VersionAnswer(BaseModel):
    """Version of the package."""

    version: str


_REF = "#/components/schemas/{model}"
_BODIES: tuple[type[BaseModel], ...] = (*(ChatRequest, TextRequest, TokenizeRequest, DetokenizeRequest, UpdateRequest),)


def body_of(model: type[BaseModel]) -> Json:
    """Return a route's `openapi_extra` for a JSON body."""
    schema = {"$ref": _REF.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def answers_of(model: type[BaseModel] | None, *statuses: int, text: str | None = None) -> dict[int | str, Json]:
    """Return a route's `responses`: answers in JSON or of media type `text`, and errors of 401 and these statuses."""
    content: Json = {text: {"schema": {"type": "string"}}} if text else {}
    ok: Json = (
        {"description": "The answer"} | ({"model": model} if model else {}) | ({"content": content} if text else {})
    )
    errors: dict[int | str, Json] = {
        status: {"model": ErrorAnswer, "description": "An error"} for status in (401, *statuses)
    }
    return {200: ok, **errors}


def describe(app: FastAPI, *, has_keys: bool) -> Json:
    """Return the whole document; `has_keys` is True if requests need a key."""
    document: Json = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    _, definitions = models_json_schema([(model, "validation") for model in _BODIES], ref_template=_REF)
    document.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
    if has_keys:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    return document
