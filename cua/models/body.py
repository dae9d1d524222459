"""Reads the body of an answer, whole or streamed, whatever the content type says.

Push bytes in with `BodyReader.feed`, take the result with `finish`. The first character decides: `{` is a
whole JSON answer, `<` a web page, anything else an event stream.
"""

from collections.abc import Callable
from typing import Literal

from pydantic import ValidationError

from cua.errors import ModelError
from cua.models.draft import Delta, Draft
from cua.models.failures import stream_failure
from cua.models.wire_types import CompletionIn

MAX_BODY_BYTES = 128 * 2**20
"""A stream spends up to 300 bytes on a token, so that this is some 400,000 tokens."""

MAX_PIECE_BYTES = 16 * 2**20
"""Limit on one event, and on a whole answer."""

_SHOWN_CHARS = 160
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class BodyReader:
    """One answer in the making.

    Args:
        on_delta: Told each piece of text as it arrives.
    """

    def __init__(self, on_delta: Callable[[Delta], None] | None = None) -> None:
        self.draft = Draft(on_delta)
        self._kind: Literal["unknown", "json", "page", "events"] = "unknown"
        self._buffer = bytearray()
        self._event: list[str] = []
        self._start = b""
        self.num_bytes = 0
        self._has_done_mark = False

    @property
    def is_complete(self) -> bool:
        """Whether the reply is all there, even if the connection broke now."""
        return self._has_done_mark or (self._kind == "events" and self.draft.finish_reason is not None)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises:
            ModelError: An event is unreadable or carries an error, or the body is absurdly long.
        """
        self.num_bytes += len(chunk)
        if self.num_bytes > MAX_BODY_BYTES:
            raise ModelError(
                f"the reply is longer than {MAX_BODY_BYTES // 2**20} MiB: this is no chat model", retryable=False
            )
        if len(self._start) < _SHOWN_CHARS:
            self._start += chunk[:_SHOWN_CHARS]
        self._buffer += chunk
        if len(self._buffer) > MAX_PIECE_BYTES:
            raise ModelError(
                f"a single piece of the reply is longer than {MAX_PIECE_BYTES // 2**20} MiB", retryable=False
            )
        if self._kind == "unknown":
            self._buffer = self._buffer.removeprefix(_BYTE_ORDER_MARK)
            self._kind = _kind_of(self._buffer)
        if self._kind == "events" and b"\n" in chunk:
            self._take_lines()

    def finish(self) -> Draft:
        """The body is over: check that the reply is whole.

        Returns:
            The finished draft.

        Raises:
            ModelError: Nothing came, not our format, half a stream, no choices, or nothing in them.
        """
        if self._kind == "page":
            raise ModelError(
                f"the server answered with a web page ({self._shown()}): the base URL does not point at an "
                "OpenAI-compatible API; it usually ends in /v1",
                retryable=False,
            )
        if self._kind == "json":
            self._take_json(bytes(self._buffer), "message")
        elif self._kind == "events":
            self._buffer += b"\n\n"
            self._take_lines()
        if self.num_bytes == 0 or not (self._start.strip()):
            raise ModelError("the server closed the connection without sending a reply", retryable=True)
        self._check_whole()
        return self.draft

    def _check_whole(self) -> None:
        if self.draft.num_events == 0 and not self._has_done_mark:
            raise ModelError(f"the reply is neither JSON nor an event stream: {self._shown()}", retryable=True)
        if not self.draft.has_choices:
            raise ModelError("the reply has no choices", retryable=True)
        if self._kind == "events" and not self.is_complete:
            raise ModelError(
                f"the stream ended in the middle of the reply, after {self.draft.num_chars} characters", retryable=True
            )
        if self.draft.is_empty and self.draft.finish_reason not in ("length", "content_filter"):
            raise ModelError("the reply is empty: no text, no reasoning, no tool call", retryable=True)

    def _take_lines(self) -> None:
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            self._take_line(bytes(line).removesuffix(b"\r"))

    def _take_line(self, line: bytes) -> None:
        if not line:
            data, self._event = "\n".join(self._event), []
            if data.strip() == "[DONE]":
                self._has_done_mark = True
            elif data and not self._has_done_mark:
                self._take_json(data.encode(), "delta")
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._event.append(value.removeprefix(b" ").decode("utf-8", "replace"))

    def _take_json(self, data: bytes, field: Literal["message", "delta"]) -> None:
        try:
            answer = CompletionIn.model_validate_json(data)
        except ValidationError as error:
            shown = data[:_SHOWN_CHARS].decode("utf-8", "replace")
            reason = error.errors(include_url=False)[0]["msg"]
            raise ModelError(f"the reply cannot be read ({reason}): {shown!r}", retryable=True) from None
        if answer.error:
            raise stream_failure(answer.error)
        self.draft.take(answer, field)

    def _shown(self) -> str:
        return repr(self._start[:_SHOWN_CHARS].decode("utf-8", "replace").strip())


def _kind_of(start: bytearray) -> Literal["unknown", "json", "page", "events"]:
    first = start.lstrip()[:1]
    if not first:
        return "unknown"
    return "json" if first == b"{" else "page" if first == b"<" else "events"
