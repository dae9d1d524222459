"""Data classes of requests to a model and its replies."""

from dataclasses import dataclass, field
from typing import Literal

from cua.json_text import JsonMapping

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Text of a message."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkPart:
    """Reasoning of an assistant message, separate from its text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """Image in the encoding `media_type`."""

    data: bytes = field(repr=False)
    media_type: Literal["image/png", "image/jpeg", "image/webp"] = "image/png"


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoPart:
    """Video file in the encoding `media_type`."""

    data: bytes = field(repr=False)
    media_type: str = "video/mp4"


Part = TextPart | ThinkPart | ImagePart | VideoPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Tool call of the model; `arguments` is unvalidated JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """Result of a tool call.

    Attributes:
        parts: Parts that the model gets.
        is_error: True if the call failed.
        display: Text for the person, if it differs from the text of `parts`.
        data: Data for programs, such as a cell's code and outputs; JSON values.
    """

    parts: tuple[Part, ...]
    is_error: bool = False
    display: str | None = None
    data: JsonMapping = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """All text parts joined, without images."""
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
        """All text parts joined, without reasoning and images."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and cost, added with `+`. `cost_usd` is None if any price is unknown."""

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
class TokenMedia:
    """Image, or chunk of a video, in the token ids of a prompt.

    Attributes:
        media_hash: Hash of its pixels, as the server gives it.
        offset: Index of its first placeholder.
        num_tokens: Number of its placeholders.
    """

    media_hash: str
    offset: int
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTokens:
    """Tokens of one reply as the server reports them, for training without tokenizing again.

    Attributes:
        prompt_ids: Ids of the prompt.
        ids: Ids of the reply, including the end token.
        logprobs: Natural logarithm of the probability of each of `ids` under the distribution that it was sampled from
            (ours, and vLLM with `--logprobs-mode processed_logprobs`), or under the model's distribution (other
            servers); 0 for greedy sampling. Empty if the server gives none.
        sampled: True for each of `ids` that the model sampled; False if no other token was possible: the end of a
            thought that reached its budget, a position where a grammar allows one token. Empty if not given.
        kept_ids: Kept sets of all of `ids`, one after the other: the tokens that could be drawn where top-p, top-k,
            min-p or a grammar left others out. `logprobs` are normalized over them.
        num_kept: Number of `kept_ids` of each of `ids`; 0 if it was not sampled, or nothing was left out. Empty if not
            given.
        media: Media in `prompt_ids`, in order.
        versions: Versions of the weights that computed `ids`, in order, each with its number of ids. Empty if not
            given.
        processor: Name of the server's conversion of media to pixels; "" for a server that takes no ids in turn.
    """

    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    sampled: tuple[bool, ...] = ()
    kept_ids: tuple[int, ...] = ()
    num_kept: tuple[int, ...] = ()
    media: tuple[TokenMedia, ...] = ()
    versions: tuple[tuple[str, int], ...] = ()
    processor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Reply of a model.

    Attributes:
        content: Visible text.
        reasoning: Reasoning, if the server sends it separately.
        tool_calls: Calls, in the order in which they were written.
        usage: Tokens and cost.
        finish_reason: Finish reason.
        model: Name of the model, as the server gives it.
        duration_s: Seconds from request to last byte.
        tokens: Ids and log-probabilities, if they were requested and the server gives them.
        model_version: Version of the weights, as the server gives it; "" if it gives none.
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
    """Sampling settings; fields that are None are left out of the request, as some servers require.

    Attributes:
        temperature: 0 to 2.
        top_p: 0 to 1.
        max_tokens: Limit on output tokens.
        seed: Random seed; the same seed and request give the same reply, on servers that support it.
        stop: Texts at which the reply ends.
        with_tokens: True to request `Reply.tokens`.
        extra_body: Server-specific fields, merged into the request (such as thinking on/off).
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    with_tokens: bool = False
    extra_body: JsonMapping = field(default_factory=dict)
