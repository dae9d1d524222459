"""What is answered, for the OpenAPI document; answers themselves are written as plain JSON."""

from typing import Any, Literal

from pydantic import BaseModel

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
