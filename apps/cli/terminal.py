"""Output of `cua`: text from models, pages and files cannot control the terminal.

Control characters (escape codes in both their forms, carriage returns, bells), bidirectional control marks and
invisible characters are replaced by visible ones; colours are added after that.
"""

import contextlib
import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import asyncio

_OURS = re.compile(r"(\x1b\[[0-9;]*m)")
"""Colour codes as written by `typer`."""
_MAX_LINE_BYTES = 4096  # a terminal in line mode accepts lines up to this length (N_TTY)
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a sanitized text."""
    typer.echo(safe_lines(text), err=err, nl=nl)


def echo_err(line: str) -> None:
    """Print a sanitized line on stderr."""
    echo(line, err=True)


def secho(
    text: str, *, err: bool = False, nl: bool = True, fg: str | None = None, bold: bool = False, dim: bool = False
) -> None:
    """Print a sanitized text in a colour."""
    typer.secho(safe_lines(text), err=err, nl=nl, fg=fg, bold=bold or None, dim=dim or None)


def rewrite_line(text: str, *, width: int = 78) -> None:
    """Replace the current line on stderr by a sanitized text; `echo(err=True)` continues below it."""
    print(f"\r{safe_lines(text):<{width}}", end="", file=sys.__stderr__, flush=True)


def cursor_up() -> None:
    """Move the cursor of the real stderr up by one line, also while a live display replaces `sys.stderr`."""
    print("\x1b[1A", end="", file=sys.__stderr__, flush=True)


def echo_json(value: object) -> None:
    """Print a value as one line of JSON on stdout."""
    typer.echo(to_json(value))


def to_json(value: object) -> str:
    r"""Return JSON on one line with control characters of any kind as `\uXXXX` and all other letters unchanged."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if text.isascii() and text.isprintable():
        return text
    unsafe = {char for char in set(text) if unicodedata.category(char) in _UNSAFE}
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in unsafe})


def safe_lines(text: str) -> str:
    """Return a text without control characters except line ends."""
    from cua.trajectory.describe import printable

    return "\n".join(printable(line) for line in text.replace("\r\n", "\n").split("\n"))


def clean_stderr() -> None:
    """Sanitize everything written to stderr from now on, as usage errors and tracebacks also contain foreign text."""
    stream = sys.stderr
    if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Cleaned):
        stream.flush()
        sys.stderr = _Cleaned(stream.buffer, stream.encoding, "backslashreplace", write_through=True)


def keep_stdout() -> Callable[[], None]:
    """Remember stdout; return a function that restores it, even after foreign code has closed it."""
    stream = sys.stdout
    try:
        kept = os.dup(1)
        place = os.fstat(kept)
    except OSError:  # no stdout
        return lambda: None

    def restore() -> None:
        try:
            is_there = not stream.closed and os.path.samestat(place, os.fstat(1))
        except OSError:
            is_there = False
        if not is_there:
            sys.stdout = open(kept, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        elif sys.stdout is None or sys.stdout.closed:
            sys.stdout = stream

    return restore


class _Cleaned(io.TextIOWrapper):
    """Text stream that replaces control characters, except colour codes."""

    def write(self, text: str) -> int:
        pieces = _OURS.split(text)
        super().write("".join(piece if number % 2 else safe_lines(piece) for number, piece in enumerate(pieces)))
        return len(text)


class LineReader:
    """Reader of lines that the user types while something else is displayed; used on a running event loop.

    Args:
        on_line: Called with each line, without its end.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line

    def start(self) -> None:
        """Read lines from now on."""
        _running_loop().add_reader(sys.stdin.fileno(), self._take)

    def stop(self) -> None:
        """Leave the keyboard to another reader."""
        _running_loop().remove_reader(sys.stdin.fileno())

    def _take(self) -> None:
        descriptor, line = sys.stdin.fileno(), b""
        if _is_in_background(descriptor):  # reading would suspend the process
            self.stop()
            return
        with contextlib.suppress(OSError):  # the terminal is gone
            line = os.read(descriptor, _MAX_LINE_BYTES)
        if line:
            self._on_line(line.decode(errors="replace").strip())
        else:
            self.stop()


def _running_loop() -> "asyncio.AbstractEventLoop":
    import asyncio  # not needed for the help

    return asyncio.get_running_loop()


def _is_in_background(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:  # not the terminal that controls the process
        return False


async def ask_line(question: str) -> str:
    """Print a question on stderr and return the typed line; empty at the end of the input.

    Input from before the question is discarded. Unlike a reading thread, which would delay the end of the process, the
    call can be cancelled.
    """
    import asyncio  # not needed for the help
    import termios  # Unix only

    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        loop.remove_reader(descriptor)
        if not typed.done():
            typed.set_result(os.read(descriptor, _MAX_LINE_BYTES))

    with contextlib.suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)
    echo(question, err=True, nl=False)
    loop.add_reader(descriptor, take)
    try:
        return (await typed).decode(errors="replace").strip()
    finally:
        loop.remove_reader(descriptor)
