"""Code prepended to every cell of a check: makes attempts and reports their results.

It is sent as source text, so it may import only the standard library. Only an `OSError` counts as a refusal:
any other exception ends the cell, and the check reports that the attempt could not be made.
"""

import ctypes
import errno
import json
import os
import signal
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

MARK = "@@check "
NUMBERS: dict[str, int] = {}
planted: Any = SimpleNamespace()
_libc = ctypes.CDLL(None, use_errno=True)


def tell(kind: str, name: str, detail: object = "") -> None:
    """Print one line for the check; `kind` is open, refused or fact."""
    print(MARK + json.dumps([kind, name, detail if isinstance(detail, int | list) else str(detail)[:300]]), flush=True)


def attempt(name: str, action: Callable[[], object], *, past: tuple[int, ...] = ()) -> None:
    """Try an action that must fail; an error in `past` shows that the permission check was passed."""
    try:
        value = action()
    except OSError as error:
        tell("open" if error.errno in past else "refused", name, f"{type(error).__name__}: {error}")
    else:
        tell("open", name, repr(value))


def syscall(name: str, *arguments: object) -> int:
    """Make a system call by name; a result of -1 is raised as `OSError`."""
    if name not in NUMBERS:
        raise OSError(errno.ENOSYS, "no such call on this machine")
    passed = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    status: int = _libc.syscall(ctypes.c_long(NUMBERS[name]), *passed)
    if status == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return status


def others() -> list[int]:
    """Return the processes other than the kernel: its parent, process 1, the planted process, the checker."""
    return sorted({1, os.getppid(), planted.victim, planted.checker} - {0, os.getpid()})


def in_child(action: Callable[[], int | None], limit_s: float = 5.0) -> int:
    """Run an action in a forked child and return its value.

    Its `OSError` is raised again; if a signal ended it, the error names the signal.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(int(limit_s))
        try:
            answer = struct.pack("=iq", 0, action() or 0)
        except OSError as error:
            answer = struct.pack("=iq", error.errno or -1, 0)
        os.write(writing, answer)
        os._exit(0)
    os.close(writing)
    answer = os.read(reading, 12)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if len(answer) < 12:
        raise OSError(errno.EPERM, f"the child ended with status {status}")
    code, value = struct.unpack("=iq", answer)
    if code:
        raise OSError(code, os.strerror(code))
    return int(value)


def until(is_there: Callable[[], bool], limit_s: float = 5.0) -> bool:
    """Wait until a condition is true; return False on timeout."""
    end = time.monotonic() + limit_s
    while not is_there() and time.monotonic() < end:
        time.sleep(0.02)
    return is_there()
