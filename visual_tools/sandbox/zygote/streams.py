"""sys.stdout and sys.stderr of a kernel: in the order of writing, with what subprocesses print before a cell ends."""

import array
import codecs
import contextlib
import fcntl
import os
import termios
import threading
from functools import cache
from typing import Any

_MARK_WAIT_S = 0.3
_READ_BYTES = 1 << 16
_MARK_BYTES = 16
_SEND_CHARS = 1 << 16  # at most this much waits to be sent


@cache
def stream_class() -> type[Any]:
    """A stream that lets go of the other stream's text before it takes its own."""
    from ipykernel.iostream import OutStream

    class OrderedStream(OutStream):
        """What arrives through the file descriptor comes by a pipe and a thread; `drain` waits for that thread."""

        last: "OrderedStream | None" = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._mark = b"\0" + os.urandom(_MARK_BYTES) + b"\0"
            self._seen = threading.Event()
            self._num_waiting = 0
            super().__init__(*args, **kwargs)

        def write(self, string: str) -> int | None:
            if not isinstance(string, str):
                return super().write(string)
            if self._should_watch and threading.current_thread() is not self.watch_fd_thread and self._has_pending():
                self.drain()
            other, OrderedStream.last = OrderedStream.last, self
            if other is not None and other is not self and not other.closed:
                other.flush()
            for begin in range(0, len(string), _SEND_CHARS):
                piece = string[begin : begin + _SEND_CHARS]
                super().write(piece)
                self._num_waiting += len(piece)
                if self._num_waiting >= _SEND_CHARS:
                    self.flush()
            return len(string)

        def _has_pending(self) -> bool:
            """Whether a subprocess has written what was not read yet."""
            count = array.array("i", [0])
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._fid, termios.FIONREAD, count)
            return count[0] > 0

        def flush(self) -> None:
            self._num_waiting = 0
            super().flush()

        def drain(self) -> None:
            """Wait until what subprocesses and C code have written has been passed on."""
            if not self._should_watch:
                return
            self._seen.clear()
            with contextlib.suppress(OSError):
                os.write(self._original_stdstream_fd, self._mark)
                self._seen.wait(_MARK_WAIT_S)

        def _watch_pipe_fd(self) -> None:
            decode = codecs.getincrementaldecoder("utf-8")("replace").decode
            held = b""
            with contextlib.suppress(OSError, ValueError):
                while data := os.read(self._fid, _READ_BYTES):
                    *parts, held = (held + data).split(self._mark)
                    for part in parts:
                        self._pass_on(decode(part))
                        self._seen.set()
                    num_held = overlap(held, self._mark)
                    self._pass_on(decode(held[: len(held) - num_held]))
                    held = held[len(held) - num_held :]

        def _pass_on(self, text: str) -> None:
            if text:
                self.write(text)

    return OrderedStream


def overlap(data: bytes, mark: bytes) -> int:
    """How many bytes at the end of `data` may be the beginning of `mark`."""
    longest = min(len(data), len(mark) - 1)
    return next((count for count in range(longest, 0, -1) if data.endswith(mark[:count])), 0)
