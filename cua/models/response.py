"""Parser of a server's answer, complete or streamed, from its bytes.

`ResponseReader.feed` takes the bytes, `finish` returns the result. The first character decides the format, regardless
of the content type: `{` is a complete JSON answer, `<` a web page, anything else an event stream.
"""

from collections.abc import Callable
from typing import Literal

from cua.errors import ModelError, UnusableReplyError
from cua.json_text import JsonMapping, read_json, well_formed
from cua.models.accumulator import Delta, StreamAccumulator
from cua.models.failures import stream_failure

MAX_BODY_BYTES = 128 * 2**20
"""Limit on a whole body. A stream needs up to 300 bytes per token, so this is about 400,000 tokens."""

MAX_PIECE_BYTES = 16 * 2**20
"""Limit on one event, and on a complete answer."""

MAX_PIECE_VALUES = 2**20
"""Limit on the number of values in one event or complete answer: each needs up to 70 bytes of memory."""

_SHOWN_CHARS = 160  # beginning of a reply that is shown in an error text
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def too_long() -> ModelError:
    """Return the error for a body larger than `MAX_BODY_BYTES`."""
    return ModelError(
        f"the reply is longer than {MAX_BODY_BYTES // 2**20} MiB, more than any model writes", retryable=False
    )


class ResponseReader:
    """Incremental parser of one answer."""

    def __init__(self, on_delta: Callable[[Delta], None] | None = None) -> None:
        self.draft = StreamAccumulator(on_delta)
        self._kind: Literal["unknown", "json", "page", "events"] = "unknown"
        self._buffer = bytearray()
        self._event: list[str] = []
        self._num_pending_bytes = 0
        self._start = b""
        self.num_bytes = 0
        self._has_done_mark = False

    @property
    def is_complete(self) -> bool:
        """True if the reply is complete, even if the connection breaks now."""
        return self._has_done_mark or (self._kind == "events" and bool(self.draft.finish_reason))

    def feed(self, chunk: bytes) -> None:
        """Parse the next bytes.

        Raises:
            ModelError: If an event is unreadable or reports an error, or the body exceeds the size limit.
        """
        self.num_bytes += len(chunk)
        if self.num_bytes > MAX_BODY_BYTES:
            raise too_long()
        if len(self._start) < _SHOWN_CHARS:
            self._start += chunk[:_SHOWN_CHARS]
        self._buffer += chunk
        self._check_piece(len(self._buffer))
        if self._kind == "unknown":
            self._buffer = self._buffer.removeprefix(_BYTE_ORDER_MARK)
            self._kind = _kind_of(self._buffer)
        if self._kind == "events" and b"\n" in chunk:
            self._take_lines()

    def finish(self) -> StreamAccumulator:
        """Finish parsing after the last byte, and check that the reply is complete.

        Returns:
            The accumulator with the finished reply.

        Raises:
            UnusableReplyError: If the format is unknown, choices are missing or empty, or the finish reason is unknown.
            ModelError: If the body is empty, the stream is incomplete, or the server aborted the reply.
        """
        if self._kind == "page":
            raise UnusableReplyError(
                f"the server answered with a web page ({self._shown()}): the base URL does not point at an "
                "OpenAI-compatible API; it usually ends in /v1"
            )
        if self._kind == "json":
            body, self._buffer = self._buffer.decode("utf-8", "replace"), bytearray()
            self._take_json(body, "message")
        elif self._kind == "events":
            self._buffer += b"\n\n"
            self._take_lines()
        if self.num_bytes == 0 or not (self._start.strip()):
            raise ModelError("the server closed the connection without sending a reply", retryable=True)
        self._check_whole()
        self.draft.check_end()
        return self.draft

    def _check_whole(self) -> None:
        if self.draft.num_events == 0 and not self._has_done_mark:
            raise UnusableReplyError(f"the reply is neither JSON nor an event stream: {self._shown()}")
        if not self.draft.has_choices:
            raise UnusableReplyError(f"the reply has no choices: {self._shown()}")
        if self._kind == "events" and not self.is_complete:
            raise ModelError(
                f"the stream ended in the middle of the reply, after {self.draft.num_chars} characters", retryable=True
            )

    def _check_piece(self, num_bytes: int) -> None:
        if num_bytes > MAX_PIECE_BYTES:
            raise ModelError(
                f"a single piece of the reply is longer than {MAX_PIECE_BYTES // 2**20} MiB", retryable=False
            )

    def _take_lines(self) -> None:
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._take_line(bytes(line).removesuffix(b"\r"))

    def _take_line(self, line: bytes) -> None:
        """Parse a line; a complete JSON object is parsed at once, as some servers send no empty line after events."""
        name, _, value = line.partition(b":")
        if name == b"data" and not self._has_done_mark:
            data = value.decode("utf-8", "replace").removeprefix(" ").removeprefix("\ufeff")
            if not self._event and data.strip() == "[DONE]":
                self._has_done_mark = True
            elif self._event or not self._is_taken(data):
                self._num_pending_bytes += len(line)
                self._check_piece(self._num_pending_bytes)
                self._event.append(data)
        elif not line and self._event:
            data, self._event, self._num_pending_bytes = "\n".join(self._event), [], 0
            if data.strip():
                self._take_json(data, "delta")

    def _is_taken(self, data: str) -> bool:
        if not (data.startswith("{") and data.rstrip().endswith("}")):
            return False
        try:
            answer = _read_object(data)
        except ValueError:
            return False
        self._take_answer(answer, "delta")
        return True

    def _take_json(self, data: str, field: Literal["message", "delta"]) -> None:
        try:
            answer = _read_object(data)
        except ValueError as error:
            shown = well_formed(data[:_SHOWN_CHARS])
            raise UnusableReplyError(
                f"the reply cannot be read ({error}): {shown!r}",
                remark=f"Your last reply arrived as broken JSON ({error}). Answer again, in plain characters.",
            ) from None
        self._take_answer(answer, field)

    def _take_answer(self, answer: JsonMapping, field: Literal["message", "delta"]) -> None:
        error = answer.get("error")
        if isinstance(error, dict) and not any(error.values()):
            error = None
        if error or (answer.get("object") == "error" and not answer.get("choices")):
            raise stream_failure(error or answer)
        self.draft.take(answer, field)

    def _shown(self) -> str:
        return repr(self._start[:_SHOWN_CHARS].decode("utf-8", "replace").strip())


def _read_object(data: str) -> JsonMapping:
    """Parse a JSON object of bounded size."""
    if data.count(",") + data.count("[") + data.count("{") > MAX_PIECE_VALUES:
        raise ValueError(f"it has more than {MAX_PIECE_VALUES} values")
    answer = read_json(data, strict=False)
    if not isinstance(answer, dict):
        raise ValueError(f"expected a JSON object, found {type(answer).__name__}")
    return answer


def _kind_of(start: bytearray) -> Literal["unknown", "json", "page", "events"]:
    first = start.lstrip()[:1]
    if not first:
        return "unknown"
    return "json" if first == b"{" else "page" if first == b"<" else "events"
