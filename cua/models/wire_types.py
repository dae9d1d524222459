"""What a server may send, as far as we read it. Unknown fields are ignored, null is taken everywhere."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class FunctionIn(_Foreign):
    """The function of a tool call; in a stream, a piece of it."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCallIn(_Foreign):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: FunctionIn = FunctionIn()


class ContentPartIn(_Foreign):
    """A part of a content list; only text is read."""

    text: str | None = None


class MessageIn(_Foreign):
    """A message, or the delta of one."""

    content: str | list[ContentPartIn] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallIn] | None = None

    @property
    def said(self) -> str:
        """The visible text."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class CachedIn(_Foreign):
    """Details of the input tokens."""

    cached_tokens: int | None = None


class UsageIn(_Foreign):
    """Token counts; Moonshot puts `cached_tokens` on top, OpenAI under the details."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    prompt_tokens_details: CachedIn | None = None

    @property
    def num_cached(self) -> int:
        """Input tokens that came from the server's cache."""
        details = self.prompt_tokens_details
        return (details.cached_tokens if details else None) or self.cached_tokens or 0


class ChoiceIn(_Foreign):
    """A choice; only the first one is read."""

    message: MessageIn | None = None
    delta: MessageIn | None = None
    finish_reason: str | None = None
    usage: UsageIn | None = None


class CompletionIn(_Foreign):
    """A whole answer, or one event of a stream."""

    model: str | None = None
    choices: list[ChoiceIn] | None = None
    usage: UsageIn | None = None
    error: dict[str, Any] | str | None = Field(default=None)
