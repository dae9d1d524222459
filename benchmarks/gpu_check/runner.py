"""Runs the parts one after the other, each within its time, and keeps what became of them."""

import ctypes
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from benchmarks.gpu_check.parts import Command, Part, Setting

ROOT = Path(__file__).parents[2]
CODE = ("model_runtime", "benchmarks/kernels", "benchmarks/gpu_check", "scripts/compile_gate", "tests/model_runtime")
TERM_S = 5.0
"""Between asking a process to end and ending it."""

TAIL_CHARS = 3000
STATE_FILE = "gpu-check.json"

State = Literal["passed", "failed", "timed out", "cut off", "running", "skipped"]
ENDED: tuple[State, ...] = ("passed", "failed", "timed out")
"""What is not run again. `cut off` is a part that the time of the whole run, or a signal, ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What parts run on; `name` is None where torch finds no GPU."""

    name: str | None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Of results that may stand side by side."""
        return self.name or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a part.

    Attributes:
        part: Its name.
        state: How it ended.
        version: Of the code.
        device: On which it ran.
        seconds: It took.
        note: Why it failed or was skipped, in a line.
        tail: The last lines that it said, where it did not pass.
        figures: Files that it wrote.
    """

    part: str
    state: State
    version: str
    device: str
    seconds: float = 0.0
    note: str = ""
    tail: str = ""
    figures: tuple[str, ...] = ()


class Results:
    """Outcomes by part, in a file that is whole at any time.

    Args:
        folder: Of the results; made when it is missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.outcomes = _read_outcomes(folder / STATE_FILE)

    def put(self, outcome: Outcome, device: Device) -> None:
        """Keep an outcome, in place of an older one of its part; that a part did not run takes no result away."""
        known = self.outcomes.get(outcome.part)
        if known is None or outcome.state not in ("skipped", "cut off") or known.state not in ENDED:
            self.outcomes[outcome.part] = outcome
        values = {
            "device": {"name": device.name, **device.details},
            "parts": {name: asdict(one) for name, one in self.outcomes.items()},
        }
        part = self.folder / f".{STATE_FILE}.part"
        part.write_text(json.dumps(values, indent=1) + "\n", "utf-8")
        part.replace(self.folder / STATE_FILE)

    def is_done(self, part: Part, version: str, device: Device) -> bool:
        """Whether the part has ended for this code on this device."""
        known = self.outcomes.get(part.name)
        return known is not None and (known.version, known.device) == (version, device.key) and known.state in ENDED


def _read_outcomes(path: Path) -> dict[str, Outcome]:
    """What an earlier run left; nothing where there is none or it cannot be read."""
    try:
        parts = json.loads(path.read_text("utf-8"))["parts"]
        return {name: Outcome(**{**values, "figures": tuple(values["figures"])}) for name, values in parts.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run.

    Attributes:
        parts: In order.
        setting: Where.
        device: On what.
        version: Of the code.
        limit_s: Seconds for everything.
        again: Names of parts that are run even if they have ended.
        emit: Told what goes on, line by line.
    """

    parts: Sequence[Part]
    setting: Setting
    device: Device
    version: str
    limit_s: float
    again: frozenset[str] = frozenset()
    emit: Callable[[str], None] = print


def run_parts(plan: Plan, results: Results) -> list[Outcome]:
    """Run what has not ended yet.

    Returns:
        The outcome of each part of the plan, also of those that had ended before.
    """
    deadline = time.monotonic() + plan.limit_s
    outcomes = []
    for part in plan.parts:
        if part.name not in plan.again and results.is_done(part, plan.version, plan.device):
            outcomes.append(results.outcomes[part.name])
            plan.emit(f"{part.name}: {outcomes[-1].state} before, for the same code and device; see --again")
            continue
        left_s = deadline - time.monotonic()
        if obstacle := find_obstacle(part, plan):
            outcome = make_outcome(part, plan, "skipped", note=obstacle)
        elif left_s <= 0:
            outcome = make_outcome(part, plan, "cut off", note="the time of the whole run is spent")
        else:
            plan.emit(f"{part.name}: {part.title} (at most {min(left_s, part.limit_s):.0f} s)")
            results.put(make_outcome(part, plan, "running"), plan.device)
            outcome = run_part(part, plan, min(left_s, part.limit_s))
        outcomes.append(outcome)
        results.put(outcome, plan.device)
        plan.emit(f"{part.name}: {outcome.state}{f', {outcome.note}' if outcome.note else ''}")
    return outcomes


def make_outcome(part: Part, plan: Plan, state: State, **more: Any) -> Outcome:
    """An outcome of this run."""
    return Outcome(part=part.name, state=state, version=plan.version, device=plan.device.key, **more)


def find_obstacle(part: Part, plan: Plan) -> str | None:
    """Why a part cannot run here, or None."""
    if plan.device.name is None:
        return "no GPU"
    missing = [name for name in part.modules if importlib.util.find_spec(name) is None]
    if missing:
        return f"these packages are not installed: {', '.join(missing)} (extra runtime-dev)"
    if part.program and not plan.setting.is_rehearsal and shutil.which(part.program) is None:
        return f"{part.program} is not on PATH"
    return None


def run_part(part: Part, plan: Plan, limit_s: float) -> Outcome:
    """Its commands, the next one also after one that failed, until the time is over."""
    started, faults, end = time.monotonic(), [], time.monotonic() + limit_s
    log_path = plan.setting.folder / f"{part.name}.log"
    for name in part.figures:  # of an earlier run
        (plan.setting.folder / name).unlink(missing_ok=True)
    state: State = "passed"
    try:
        with log_path.open("wb") as log:
            for command in part.commands(plan.setting):
                left_s = end - time.monotonic()
                code = run_command(command, log, left_s) if left_s > 0 else None
                if code is None:
                    faults.append(f"{limit_s:.0f} s were not enough")
                    state = "timed out" if limit_s >= part.limit_s else "cut off"
                    break
                if not _is_success(command, code):
                    faults.append(f"{_name_of(command)} {describe_exit(code)}")
                    state = "failed"
    except (KeyboardInterrupt, SystemExit):
        outcome = make_outcome(part, plan, "cut off", note="interrupted", seconds=time.monotonic() - started)
        Results(plan.setting.folder).put(outcome, plan.device)
        raise
    return make_outcome(
        part,
        plan,
        state,
        seconds=round(time.monotonic() - started, 1),
        note="; ".join(faults),
        tail="" if state == "passed" else read_tail(log_path),
        figures=tuple(name for name in part.figures if (plan.setting.folder / name).exists()),
    )


NO_TESTS = 5
"""pytest's exit code where no test was chosen: a folder without tests for a GPU."""


def _is_success(command: Command, code: int) -> bool:
    return code == 0 or ("pytest" in command.argv and code == NO_TESTS)


def _name_of(command: Command) -> str:
    """The command without the interpreter and its options, short."""
    words = [word for word in command.argv if word not in (sys.executable, "-m")]
    return " ".join(words[:3])


def describe_exit(code: int) -> str:
    """How a process ended."""
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def run_command(command: Command, log: IO[bytes], limit_s: float) -> int | None:
    """Its exit code; None when it was ended because of its time. Nothing of it is left running."""
    log.write(f"$ {' '.join(command.argv)}\n".encode())
    log.flush()
    process = subprocess.Popen(
        command.argv,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env={**os.environ, **command.env},
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        log.write(f"\n[ended after {limit_s:.0f} s]\n".encode())
        return None
    finally:
        _end_group(process)


_PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h


def _die_with_parent() -> None:
    """In the child: killed when the run is killed, so that nothing holds the GPU afterwards."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process with all that it started."""
    for number, wait_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=wait_s)


def read_tail(path: Path) -> str:
    """The end of a log."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_CHARS))
        return file.read().decode("utf-8", "replace")


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: the part under way is ended and written down."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def find_version(root: Path = ROOT) -> str:
    """The content of all code that results depend on; whether it is committed does not matter."""
    digest = hashlib.sha256()
    for folder in CODE:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".json") and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


ASK_DEVICE = """
import json, torch
values = {"torch": torch.__version__, "cuda": torch.version.cuda, "name": None}
try:
    import triton
    values["triton"] = triton.__version__
except ImportError:
    pass
if torch.cuda.is_available():
    one = torch.cuda.get_device_properties(0)
    values |= {"name": one.name, "count": torch.cuda.device_count(), "memory_gb": round(one.total_memory / 1e9, 1)}
    values |= {"multiprocessors": one.multi_processor_count, "capability": f"{one.major}.{one.minor}"}
print(json.dumps(values))
"""


def find_device() -> Device:
    """What torch sees, asked in a process of its own, which leaves no context on the GPU."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK_DEVICE], capture_output=True, text=True, timeout=120, check=True, cwd=ROOT
        )
        values = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return Device(name=None, details={"torch": f"cannot be asked: {type(error).__name__}"})
    return Device(name=values.pop("name"), details=values)
