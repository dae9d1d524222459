"""Accumulator that builds a reply from the JSON objects of a complete answer or a stream.

Each field is parsed separately, so that an invalid field loses only its own value; required fields are checked at the
end of the reply.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from cua.errors import ModelError, UnusableReplyError
from cua.json_text import JsonMapping, well_formed
from cua.messages import FinishReason, ReplyTokens, TokenMedia, ToolCall

_MAX_COUNT = 2**53  # largest whole number that JSON readers represent exactly
_TEXT_PARTS = (None, "text", "output_text")


def text_of(value: object) -> str:
    """Return the text of a string, a number, a text part, or a list of these."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(text_of(part) for part in value)
    if isinstance(value, dict):
        return text_of(value.get("text")) if value.get("type") in _TEXT_PARTS else ""
    return json.dumps(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def name_of(value: object) -> str:
    """Return a name or an id as text; some servers send ids as integers."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def count_of(value: object) -> int | None:
    """Return a non-negative integer, also from a float or a string of digits; else None."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _MAX_COUNT else None


def number_of(value: object) -> float | None:
    """Return a number as a float, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_COUNT
    return float(value) if is_number else None  # type: ignore[arg-type]


def object_of(value: object) -> JsonMapping:
    """Return an object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return a list; a single object becomes a list of one item, any other value an empty list."""
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def json_of(value: object) -> str:
    """Return JSON text: a string unchanged, any other value serialized, an empty text for None."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


class GrowingText:
    """Text built from pieces. Half a surrogate pair is held until its other half arrives; alone it becomes U+FFFD."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        self._half = ""

    def add(self, piece: str) -> str:
        """Append a piece and return the text that became complete."""
        piece = self._half + piece
        self._half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        whole = well_formed(piece[:-1] if self._half else piece)
        self._written.write(whole)
        return whole

    @property
    def is_empty(self) -> bool:
        """True if no text has been added."""
        return not (self._written.tell() or self._half)

    def __str__(self) -> str:
        return self._written.getvalue() + well_formed(self._half)


_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
"""Known finish reasons of various servers, mapped to ours; any other value counts as unknown."""

_BROKEN_OFF = frozenset({"abort", "aborted", "error", "cancelled", "canceled", "timeout"})
"""Finish reasons of servers that aborted a reply; a retry may help."""

MAX_TEXT_CHARS = 4 * 2**20
"""Limit on text, reasoning and arguments together: about a million tokens, four times the context of K2.5."""

MAX_CALLS = 512
"""Limit on the tool calls of one reply; an orchestrator may assign 300 tasks in one."""
MAX_NAME_CHARS = 256  # of a tool's name or id; bounds what a broken server sends
_MAX_ID = 2**31  # of a token
MAX_KEPT_IDS = 8 * 2**20
"""Limit on the kept ids of a reply: 8,192 tokens of 1,024 ids, or the whole context of K2.5 with 32 each."""
_CHARS_PER_ID = 8  # what a token id counts against the limit on a reply's size
_MAX_REASON_CHARS = 40  # of finish_reason, which is one word

EMPTY_REMARK = "Your reply was empty: no text and no tool call. Answer again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Piece of a growing reply, for live display.

    Attributes:
        kind: `restart` means that the pieces so far are invalid, because the call is repeated.
        text: Text of the piece.
    """

    kind: Literal["reasoning", "content", "tool_call", "restart"]
    text: str = ""


class _GrowingCall:
    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments = GrowingText()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts:
    """Token counts of a reply. Moonshot sends `cached_tokens` at the top level, OpenAI in `prompt_tokens_details`."""

    num_input: int = 0
    num_output: int = 0
    num_cached: int = 0

    @classmethod
    def of(cls, value: object) -> "UsageCounts | None":
        """Parse a `usage` object; None if it has no counts."""
        usage = object_of(value)
        cached = object_of(usage.get("prompt_tokens_details")).get("cached_tokens")
        counts = cls(
            num_input=count_of(usage.get("prompt_tokens")) or 0,
            num_output=count_of(usage.get("completion_tokens")) or 0,
            num_cached=count_of(cached) or count_of(usage.get("cached_tokens")) or 0,
        )
        return counts if counts != cls() else None


class StreamAccumulator:
    """Accumulator of the chunks of a reply.

    The OpenAI SDK's stream helpers (tested with 3.54) are not used: with streams of other servers they merge two calls
    numbered 0, duplicate names and ids that are repeated in each chunk, refuse calls without a number, and keep only
    the token ids of the first chunk.

    Attributes:
        reasoning_field: Name of the field in which the server sends reasoning.
        finish_reason: Finish reason of the server in lower case, "" until it arrives.
        usage: Token counts; None if the server sends none.
        model: Name of the model, as the server gives it.
        model_version: Version of the weights, if the server gives one.
        num_events: Number of JSON objects that were read.
        has_choices: True if any of them had a choice.
    """

    def __init__(self, on_delta: Callable[[Delta], None] | None = None) -> None:
        self._content, self._reasoning, self._refusal = GrowingText(), GrowingText(), GrowingText()
        self.reasoning_field: str | None = None
        self.finish_reason = ""
        self.usage: UsageCounts | None = None
        self.model = self.model_version = ""
        self._prompt_ids: list[int] = []
        self._ids: list[int] = []
        self._kept_ids: list[int] = []
        self._num_kept: list[int] = []
        self._media: tuple[TokenMedia, ...] = ()
        self._versions: list[tuple[str, int]] = []
        self._processor = ""
        self._has_bad_ids = False
        self._logprobs: list[float] = []
        self._sampled: list[bool] = []
        self.num_events = 0
        self.has_choices = False
        self._choice_index = 0
        self.num_chars = 0
        self._calls: list[_GrowingCall] = []
        self._on_delta = on_delta

    @property
    def content(self) -> str:
        """Visible text."""
        return str(self._content)

    @property
    def reasoning(self) -> str:
        """Reasoning text."""
        return str(self._reasoning)

    @property
    def refusal(self) -> str:
        """Refusal text of the server, sent instead of an answer."""
        return str(self._refusal)

    @property
    def is_empty(self) -> bool:
        """True if the reply has neither text nor reasoning nor tool calls."""
        texts = (self._content, self._reasoning, self._refusal)
        return all(text.is_empty for text in texts) and not self._calls

    @property
    def known_finish_reason(self) -> FinishReason:
        """Finish reason, mapped to one of ours."""
        return _FINISH_REASONS.get(self.finish_reason, "unknown")

    def take(self, answer: JsonMapping, field: Literal["message", "delta"]) -> None:
        """Add a complete answer or one event of a stream.

        Raises:
            ModelError: If the reply exceeds the size limit.
            UnusableReplyError: If the reply has too many tool calls.
        """
        self.num_events += 1
        self.model = name_of(answer.get("model")) or self.model
        version = name_of(answer.get("weight_version")) or name_of(answer.get("system_fingerprint"))
        self.model_version = version or self.model_version
        self.usage = UsageCounts.of(answer.get("usage")) or self.usage
        choice = self._choice_of(answer)
        for source in (answer, choice or {}):
            self._prompt_ids = self._prompt_ids or self._ids_in(source)
            self._media = self._media or self._media_in(source)
            self._processor = self._processor or name_of(source.get("processor"))
        if choice is None:
            return
        self.usage = UsageCounts.of(choice.get("usage")) or self.usage
        reason = choice.get("finish_reason")
        self.finish_reason = json_of(reason).strip().lower()[:_MAX_REASON_CHARS] or self.finish_reason
        self._take_tokens(choice)
        # Some servers stream "message", or send a complete answer as "delta".
        message = choice.get(field) or choice.get("message") or choice.get("delta")
        self._take_message(object_of(message), field == "message")

    def tool_calls(self, num_earlier: int) -> tuple[ToolCall, ...]:
        """Return the tool calls; a call without an id gets one in K2.5's format."""
        return tuple(
            ToolCall(
                id=call.id or f"functions.{call.name}:{num_earlier + position}",
                name=call.name,
                arguments=str(call.arguments) or "{}",
            )
            for position, call in enumerate(self._calls)
        )

    def tokens(self) -> ReplyTokens | None:
        """Return token ids and log-probabilities; None if the server sent no ids or invalid ones.

        Raises:
            ModelError: If the numbers of log-probabilities and ids differ, which would silently corrupt training.
        """
        if not self._ids or self._has_bad_ids:
            return None
        if any(values and len(values) != len(self._ids) for values in (self._logprobs, self._sampled, self._num_kept)):
            raise ModelError(
                f"the server gave {len(self._ids)} token ids and {len(self._logprobs)} log-probabilities",
                retryable=False,
            )
        if sum(self._num_kept) != len(self._kept_ids):
            raise ModelError(
                f"the server gave {len(self._kept_ids)} kept ids, and counts that add up to {sum(self._num_kept)}",
                retryable=False,
            )
        return ReplyTokens(
            prompt_ids=tuple(self._prompt_ids),
            ids=tuple(self._ids),
            logprobs=tuple(self._logprobs),
            sampled=tuple(self._sampled),
            kept_ids=tuple(self._kept_ids),
            num_kept=tuple(self._num_kept),
            media=self._media,
            versions=tuple(self._versions) if sum(num for _, num in self._versions) == len(self._ids) else (),
            processor=self._processor,
        )

    def check_end(self) -> None:
        """Check that the reply ended with a known finish reason.

        Raises:
            UnusableReplyError: If the finish reason is missing or unknown, or the reply is empty.
            ModelError: If the server aborted the reply.
        """
        if self.finish_reason in _BROKEN_OFF:
            raise ModelError(
                f"the server broke the reply off after {self.num_chars} characters "
                f"(finish_reason {self.finish_reason!r})",
                retryable=True,
            )
        if self.known_finish_reason == "unknown":
            reason = f"finish_reason {self.finish_reason!r}" if self.finish_reason else "no finish_reason"
            raise UnusableReplyError(
                f"the reply ends with {reason}, so it may not be whole; expected stop, tool_calls, length or "
                "content_filter"
            )
        if self.is_empty and self.known_finish_reason not in ("length", "content_filter"):
            raise UnusableReplyError("the reply is empty: no text, no reasoning, no tool call", remark=EMPTY_REMARK)

    def _choice_of(self, answer: JsonMapping) -> JsonMapping | None:
        """Return the choice to read: the lowest index known when the reply begins."""
        numbered: dict[int, JsonMapping] = {}
        for choice in map(object_of, list_of(answer.get("choices"))):
            numbered.setdefault(count_of(choice.get("index")) or 0, choice)
        if numbered and (not self.has_choices or (self.is_empty and min(numbered) < self._choice_index)):
            self.has_choices, self._choice_index, self.finish_reason = True, min(numbered), ""
        return numbered.get(self._choice_index)

    def _ids_in(self, value: JsonMapping, name: str = "prompt_token_ids") -> list[int]:
        """Return the token ids of vLLM, SGLang and our own server (`return_token_ids`)."""
        ids = self._numbers_in(value, name)
        self._grow(len(ids) * _CHARS_PER_ID)
        return ids

    def _numbers_in(self, value: JsonMapping, name: str) -> list[int]:
        """Return a list of ids or counts; it is empty, and the reply's ids are not used, if one is not a number."""
        numbers = list_of(value.get(name))
        is_good = not numbers or (set(map(type, numbers)) == {int} and min(numbers) >= 0 and max(numbers) < _MAX_ID)
        self._has_bad_ids |= not is_good
        return numbers if is_good else []

    def _media_in(self, value: JsonMapping) -> tuple[TokenMedia, ...]:
        """Return the media of the prompt, as our own server describes them."""
        media = []
        for item in map(object_of, list_of(value.get("media"))):
            media_hash, offset, num_tokens = (
                item.get("media_hash"),
                count_of(item.get("offset")),
                item.get("num_tokens"),
            )
            if not isinstance(media_hash, str) or offset is None or count_of(num_tokens) is None:
                self._has_bad_ids = True
                return ()
            media.append(TokenMedia(media_hash=media_hash, offset=offset, num_tokens=count_of(num_tokens) or 0))
        self._grow(len(media) * _CHARS_PER_ID)
        return tuple(media)

    def _take_tokens(self, choice: JsonMapping) -> None:
        self._ids += self._ids_in(choice, "token_ids")
        for span in map(object_of, list_of(choice.get("weight_versions"))):
            version, num_tokens = name_of(span.get("version")), count_of(span.get("num_tokens"))
            if self._versions and self._versions[-1][0] == version:
                num_tokens = (num_tokens or 0) + self._versions.pop()[1]
            self._versions.append((version, num_tokens or 0))
        self._kept_ids += self._numbers_in(choice, "kept_token_ids")
        self._num_kept += self._numbers_in(choice, "num_kept")
        if len(self._kept_ids) > MAX_KEPT_IDS:
            raise ModelError(
                f"the kept sets of the reply have more than {MAX_KEPT_IDS >> 20} million ids; set top_k, or a lower "
                "top_p or temperature",
                retryable=False,
            )
        entries = [object_of(entry) for entry in list_of(object_of(choice.get("logprobs")).get("content"))]
        self._grow(len(entries) * _CHARS_PER_ID)
        self._logprobs += [value for entry in entries if (value := number_of(entry.get("logprob"))) is not None]
        self._sampled += [flag for entry in entries if isinstance(flag := entry.get("sampled"), bool)]

    def _take_message(self, message: JsonMapping, is_whole: bool) -> None:
        for name in ("reasoning_content", "reasoning"):
            text = text_of(message.get(name))
            if text:
                self.reasoning_field = name
                self._emit("reasoning", self._add(self._reasoning, text))
                break
        self._emit("content", self._add(self._content, text_of(message.get("content"))))
        self._add(self._refusal, text_of(message.get("refusal")))
        pieces = [object_of(piece) for piece in list_of(message.get("tool_calls"))]
        if not pieces and isinstance(message.get("function_call"), dict):
            pieces = [{"index": 0, "function": message["function_call"]}]
        for piece in pieces:
            self._take_call(piece, is_new=is_whole or (len(pieces) > 1 and not _is_numbered(piece)))

    def _take_call(self, piece: JsonMapping, *, is_new: bool) -> None:
        function = piece if "function" not in piece else object_of(piece["function"])
        name, call_id = name_of(function.get("name"))[:MAX_NAME_CHARS], name_of(piece.get("id"))[:MAX_NAME_CHARS]
        call = self._new_call(piece) if is_new else self._call_of(piece, name, call_id)
        call.id = call.id or call_id
        # Some servers repeat the full name in every chunk.
        call.name = (call.name + ("" if name == call.name else name))[:MAX_NAME_CHARS]
        self._emit("tool_call", name + self._add(call.arguments, json_of(function.get("arguments"))))

    def _call_of(self, piece: JsonMapping, name: str, call_id: str) -> _GrowingCall:
        """Return the call of a chunk: by index, or by id if a server numbers all calls 0 or none."""
        index, is_numbered = count_of(piece.get("index")), _is_numbered(piece)
        for call in reversed(self._calls):
            is_same = index in (None, call.index) and (not call_id or not call.id or call_id == call.id)
            is_other = not is_numbered and name not in ("", call.name) and not call.arguments.is_empty
            if is_same and not is_other:
                return call
        return self._new_call(piece)

    def _new_call(self, piece: JsonMapping) -> _GrowingCall:
        if len(self._calls) >= MAX_CALLS:
            raise UnusableReplyError(
                f"the reply has more than {MAX_CALLS} tool calls",
                remark=(
                    f"Your reply had more than {MAX_CALLS} tool calls; none of them was executed. "
                    "Make fewer calls per reply."
                ),
            )
        index = count_of(piece.get("index"))
        self._calls.append(_GrowingCall(len(self._calls) if index is None else index))
        return self._calls[-1]

    def _add(self, text: GrowingText, piece: str) -> str:
        self._grow(len(piece))
        return text.add(piece) if piece else ""

    def _grow(self, num_chars: int) -> None:
        self.num_chars += num_chars
        if self.num_chars > MAX_TEXT_CHARS:
            raise ModelError(
                f"the reply has more than {MAX_TEXT_CHARS // 2**20} million characters, more than any model writes; "
                "set a limit with --max-tokens",
                retryable=False,
            )

    def _emit(self, kind: Literal["reasoning", "content", "tool_call"], text: str) -> None:
        if self._on_delta is not None and text:
            self._on_delta(Delta(kind=kind, text=text))


def _is_numbered(piece: JsonMapping) -> bool:
    return bool(name_of(piece.get("id"))) or count_of(piece.get("index")) is not None
