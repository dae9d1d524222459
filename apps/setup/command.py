"""Run another program with a timeout, and forward its output."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envs.supervisor import supervisor_command

Say = Callable[[str], None]
"""Function that is called with each line of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Result of a program; `tail` has the last lines of its output."""

    code: int
    tail: tuple[str, ...]
    is_timeout: bool = False

    @property
    def why(self) -> str:
        """First line of the tail that mentions an error, else the last line."""
        if self.is_timeout:
            return "it took too long"
        telling = [line for line in self.tail if "error" in line.lower() or line.startswith("E:")]
        return (telling[:1] or list(self.tail) or [f"exit status {self.code}"])[-1].strip()


async def run_command(
    argv: Sequence[str],
    *,
    timeout_s: float,
    say: Say = lambda line: None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> CommandResult:
    """Run `argv` without a shell and without stdin; its child processes end with it, and with this process.

    Args:
        argv: Program and arguments.
        timeout_s: Time limit, after which it is killed.
        say: Called with each line of its output; by default only its last lines are kept, in the result.
        environment: Variables in addition to this process's.
        folder: Working folder.
    """
    process = await asyncio.create_subprocess_exec(
        *supervisor_command(*argv),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        cwd=folder,
        start_new_session=True,
        limit=1 << 20,
    )
    tail: deque[str] = deque(maxlen=40)
    try:
        await asyncio.wait_for(_pass_on(process, tail, say), timeout_s)
    except TimeoutError:
        return CommandResult(code=-1, tail=tuple(tail), is_timeout=True)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    return CommandResult(code=process.returncode or 0, tail=tuple(tail))


async def _pass_on(process: asyncio.subprocess.Process, tail: deque[str], say: Say) -> None:
    assert process.stdout is not None
    async for raw in process.stdout:
        line = raw.decode("utf-8", "replace").rstrip().rsplit("\r", 1)[-1]
        if line.strip():
            tail.append(line)
            say(f"    {line}")
    await process.wait()
