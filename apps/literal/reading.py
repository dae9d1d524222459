"""Read an instruction in a process of its own, which ends after a bounded time of computing.

The grammar's regular expressions take more than linear time on some texts, and a match in progress holds the
interpreter's lock, so that neither a thread nor a deadline between two matches bounds it.
"""

import os
import pickle
import signal
import subprocess
import sys
from functools import lru_cache

from apps.literal.grammar import FORMS, parse_instruction
from apps.literal.steps import PlainStep, Unreadable

_CPU_S = 0.2
_MAX_CHARS = 20_000
_MAX_START_S = 30.0
"""Limit for the process as a whole, most of which is its start; the only one where there are no CPU timers."""


@lru_cache(maxsize=64)
def read_instruction(instruction: str) -> tuple[PlainStep | Unreadable, ...]:
    """The steps of an instruction, as `parse_instruction` returns them.

    Raises:
        ValueError: The instruction is too long, or takes too long to read.
    """
    if len(instruction) > _MAX_CHARS:
        raise ValueError(_explain(instruction, f"the limit is {_MAX_CHARS} characters"))
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        process = subprocess.run(
            command,
            input=instruction.encode(errors="replace"),
            capture_output=True,
            env=environment,
            timeout=_MAX_START_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(_explain(instruction, f"reading it took longer than {_MAX_START_S:g} s")) from error
    except subprocess.CalledProcessError as error:
        if error.returncode == -signal.SIGVTALRM:
            raise ValueError(_explain(instruction, f"reading it took longer than {_CPU_S:g} s")) from error
        lines = error.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {error.returncode}"]
        raise ValueError(f"the instruction could not be read: {lines[-1]}") from error
    steps: tuple[PlainStep | Unreadable, ...] = pickle.loads(process.stdout)
    return steps


def serve() -> None:
    """Read one instruction from standard input and write its steps, pickled; the system ends it when it takes long."""
    instruction = sys.stdin.buffer.read().decode()
    if hasattr(signal, "setitimer"):  # the signal's default action ends the process, also within a match
        signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_S)
    sys.stdout.buffer.write(pickle.dumps(tuple(parse_instruction(instruction))))


def _explain(instruction: str, limit: str) -> str:
    return (
        f"the instruction ({len(instruction)} characters) cannot be read as plain steps: {limit}. Write short steps, "
        f"one a line, such as: {'; '.join(FORMS)}"
    )
