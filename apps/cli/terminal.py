"""Everything that `cua` prints goes through here: what models, pages and files say cannot steer a terminal.

Control characters (escape codes in both their forms, carriage returns, bells), marks that turn the direction of
writing and invisible ones are shown as pictures; colours are added behind that.
"""

import contextlib
import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import typer

_OURS = re.compile(r"(\x1b\[[0-9;]*m)")
"""Colours, as `typer` writes them."""
_MAX_LINE_BYTES = 4096
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, cleaned."""
    typer.echo(safe_lines(text), err=err, nl=nl)


def echo_err(line: str) -> None:
    """Print a line on stderr, cleaned."""
    echo(line, err=True)


def secho(
    text: str, *, err: bool = False, nl: bool = True, fg: str | None = None, bold: bool = False, dim: bool = False
) -> None:
    """Print a text, cleaned, in a colour."""
    typer.secho(safe_lines(text), err=err, nl=nl, fg=fg, bold=bold or None, dim=dim or None)


def rewrite_line(text: str, *, width: int = 78) -> None:
    """Print a text, cleaned, in the place of the line that stands on stderr; `echo(err=True)` goes on below it."""
    print(f"\r{safe_lines(text):<{width}}", end="", file=sys.__stderr__, flush=True)


def echo_json(value: Any) -> None:
    """Print a value as one line of JSON on stdout."""
    typer.echo(to_json(value))


def to_json(value: Any) -> str:
    r"""JSON on one line in which control characters of any kind stand as `\uXXXX`; all other letters as they are."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if text.isascii() and text.isprintable():
        return text
    unsafe = {char for char in set(text) if unicodedata.category(char) in _UNSAFE}
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in unsafe})


def safe_lines(text: str) -> str:
    """A text without control characters but the ends of its lines."""
    from cua.trajectory.describe import printable

    return "\n".join(printable(line) for line in text.replace("\r\n", "\n").split("\n"))


def clean_stderr() -> None:
    """From here on stderr is cleaned whoever writes to it: usage errors and tracebacks repeat foreign words too."""
    stream = sys.stderr
    if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Cleaned):
        stream.flush()
        sys.stderr = _Cleaned(stream.buffer, stream.encoding, "backslashreplace", write_through=True)


def keep_stdout() -> Callable[[], None]:
    """Remember where stdout goes; what is returned goes back to it, also after foreign code has closed it."""
    stream = sys.stdout
    try:
        kept = os.dup(1)
        place = os.fstat(kept)
    except OSError:  # there is none
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
    """Text without control characters; colours pass."""

    def write(self, text: str) -> int:
        pieces = _OURS.split(text)
        super().write("".join(piece if number % 2 else safe_lines(piece) for number, piece in enumerate(pieces)))
        return len(text)


async def ask_line(question: str) -> str:
    """Print a question on stderr and return the line that is typed; empty at the end of the input.

    Input from before the question is discarded. The call can be cancelled, unlike a thread that reads, which would
    delay the end of the process.
    """
    import asyncio  # not needed for the help
    import termios  # of Unix

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
