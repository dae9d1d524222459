"""Requests to a model and its replies, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Text of a message."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkPart:
    """Reasoning of an assistant message, kept apart from what it says."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """An image, encoded as `media_type` says."""

    data: bytes = field(repr=False)
    media_type: Literal["image/png", "image/jpeg", "image/webp"] = "image/png"


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoPart:
    """A video file, encoded as `media_type` says."""

    data: bytes = field(repr=False)
    media_type: str = "video/mp4"


Part = TextPart | ThinkPart | ImagePart | VideoPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model wrote: `arguments` is its JSON text, not yet checked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What came of a tool call.

    Attributes:
        parts: What the model gets back.
        is_error: Whether the call failed.
        display: What the person sees, where that is not the text of `parts`.
        data: Facts for programs, such as a cell's code and outputs; JSON values.
    """

    parts: tuple[Part, ...]
    is_error: bool = False
    display: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """All text parts joined; images left out."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Role
    parts: tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def text(self) -> str:
        """All text parts joined; reasoning and images left out."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and money; add them up with `+`. `cost_usd` is None as soon as one price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )

    @property
    def total_tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTokens:
    """The tokens of one reply as the server has them, for training; nothing is tokenised again.

    Attributes:
        prompt_ids: Ids of the prompt.
        ids: Ids of the reply, end token included.
        logprobs: Natural logarithm of the probability of each of `ids` under the distribution that it was sampled from
            (ours, and vLLM with `--logprobs-mode processed_logprobs`), or that the model gave (other servers); 0 where
            sampling was greedy. Empty when the server gives none.
        sampled: Whether each of `ids` was sampled by the model; False where no other token could come: the end of a
            thought that ran out of budget, a place where a grammar allows one token. Empty when the server is silent.
    """

    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    sampled: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a model.

    Attributes:
        content: The visible text.
        reasoning: The thinking, when the server keeps it apart.
        tool_calls: Calls, in the order in which they were written.
        usage: What it cost.
        finish_reason: Why it ended.
        model: The name that the server gave.
        duration_s: Seconds from request to last byte.
        tokens: Ids and log-probabilities, where they were asked for and the server gives them.
        model_version: What the server says of the weights behind the name; "" when it says nothing.
    """

    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    finish_reason: FinishReason = "stop"
    model: str = ""
    duration_s: float = 0.0
    tokens: ReplyTokens | None = None
    model_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling settings; None means "leave it out of the request", which some servers insist on.

    Attributes:
        temperature: 0 to 2.
        top_p: 0 to 1.
        max_tokens: Limit on output tokens.
        seed: The same seed and request give the same reply, on servers that can.
        stop: Texts at which the reply ends.
        with_tokens: Ask for `Reply.tokens`.
        extra_body: Server-specific fields, merged into the request (thinking on/off and the like).
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    with_tokens: bool = False
    extra_body: Mapping[str, Any] = field(default_factory=dict)
