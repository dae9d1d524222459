"""sys.stdout and sys.stderr of a kernel: what Python, C code and subprocesses write, in the order of writing."""

import array
import codecs
import contextlib
import fcntl
import importlib
import os
import select
import sys
import termios
import threading
from functools import cache
from typing import Any

_READ_BYTES = 1 << 16
_SEND_CHARS = 1 << 16  # at most this much waits to be sent


@cache
def stream_class() -> type[Any]:
    """A stream that first lets go of what was written before: by the other stream, or past Python."""
    base: Any = importlib.import_module("ipykernel.iostream").OutStream

    class OrderedStream(base):  # type: ignore[misc]
        """What is written past Python comes by a pipe, which a thread empties, or whoever writes next."""

        last: "OrderedStream | None" = None

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._pipe_lock = threading.RLock()
            self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
            self._num_waiting = 0
            super().__init__(*args, **kwargs)

        def write(self, string: str) -> int:
            drain(sys.stdout, sys.stderr)
            return self._send(string)

        def _send(self, text: str) -> int:
            other, OrderedStream.last = OrderedStream.last, self
            if other is not None and other is not self and not other.closed:
                other.flush()
            for begin in range(0, len(text) or 1, _SEND_CHARS):
                piece = text[begin : begin + _SEND_CHARS]
                super().write(piece)
                self._num_waiting += len(piece)
                if self._num_waiting >= _SEND_CHARS:
                    self.flush()
            return len(text)

        def flush(self) -> None:
            self._num_waiting = 0
            super().flush()

        def empty_pipe(self) -> None:
            """Pass on what is in the pipe."""
            if not self._should_watch or os.getpid() != self._master_pid:
                return
            with self._pipe_lock:  # whoever has read has passed it on
                while _count_waiting(self._fid):
                    text = self._decode(os.read(self._fid, _READ_BYTES))
                    if text:
                        self._send(text)

        def _watch_pipe_fd(self) -> None:
            poll = select.poll()
            poll.register(self._fid, select.POLLIN)
            with contextlib.suppress(OSError, ValueError):
                while all(event & select.POLLIN for _, event in poll.poll()):  # until the code closes it
                    self.empty_pipe()

    return OrderedStream


def _count_waiting(pipe: int) -> int:
    count = array.array("i", [0])
    with contextlib.suppress(OSError):
        fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def drain(*streams: Any) -> None:
    """Pass on what subprocesses and C code have written to these streams so far."""
    for stream in streams:
        empty_pipe = getattr(stream, "empty_pipe", None)
        if empty_pipe is not None:
            empty_pipe()
