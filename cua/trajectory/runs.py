"""Runs on this machine: list and find them."""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cua.errors import TrajectoryError
from cua.run.end import RunResult
from cua.trajectory.codec import from_line
from cua.trajectory.disk import is_locked
from cua.trajectory.events import AgentMode, EndedEvent, RunEvent, RunHeader
from cua.trajectory.load import load_run
from cua.trajectory.run_files import MAX_RECORD_BYTES, TRAJECTORY, default_runs_dir, open_inside
from envs.errors import nearest

Fits = Callable[[Path, RunHeader], bool]
"""Predicate of folder and header: True for the runs that a command can resume."""
_NAME = re.compile(r"\d{8}-\d{6}-")
_TAIL_BYTES = 65536  # the last lines of a record, with the end of the run, without reading all of it
_MAX_FIRST_BYTES = 16 * 2**20  # the header has instruction and settings; bounds memory


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Summary of one run.

    Attributes:
        run_dir: The run's folder; its name is the run's id.
        started_at: Unix time in seconds, 0 when unknown.
        instruction: Instruction of the agent.
        model: Name of the model.
        env: Kind of environment.
        mode: Mode of the run; "" when unknown.
        status: Status of its end, or `running`, `interrupted` (its process died), `damaged` (unreadable).
        reason: Reason of the status, one line.
        num_steps: Number of finished steps.
        total_tokens: Number of tokens of all replies.
        cost_usd: Cost in US dollars; None if a price is unknown.
        duration_s: Seconds; from the first to the last event if the run has no end.
    """

    run_dir: Path
    started_at: float = 0.0
    instruction: str = ""
    model: str = ""
    env: str = ""
    mode: AgentMode | Literal[""] = ""
    status: str
    reason: str = ""
    num_steps: int = 0
    total_tokens: int = 0
    cost_usd: float | None = 0.0
    duration_s: float = 0.0

    @property
    def id(self) -> str:
        """Name of the run's folder."""
        return self.run_dir.name


def list_runs(runs_dir: Path | None = None, limit: int | None = None) -> list[RunSummary]:
    """Return all runs, newest first."""
    return [summarize(run_dir) for run_dir in _run_dirs(runs_dir or default_runs_dir())[:limit]]


def summarize(run_dir: Path) -> RunSummary:
    """Summarize one run. Reads only the first and last lines of a run that ended."""
    if not _has_record(run_dir):
        status = "running" if is_locked(run_dir) else "damaged"
        return RunSummary(run_dir=run_dir, status=status, reason="it has no record: not one line of it was written")
    try:
        header, result = _first_and_last(run_dir)
    except (OSError, ValueError, TrajectoryError) as error:
        return RunSummary(run_dir=run_dir, status="damaged", reason=str(error))
    if result is None:
        return _summarize_whole(run_dir)
    return _ended(run_dir, header.header, result)


def _ended(run_dir: Path, header: RunHeader, result: RunResult) -> RunSummary:
    return RunSummary(
        run_dir=run_dir,
        started_at=header.started_at,
        instruction=header.instruction,
        model=header.model,
        env=header.env,
        mode=header.mode,
        status=result.end.status,
        reason=result.end.reason,
        num_steps=result.num_steps,
        total_tokens=result.usage.total_tokens,
        cost_usd=result.usage.cost_usd,
        duration_s=result.duration_s,
    )


def find_run(name: str, runs_dir: Path | None = None, fits: Fits | None = None) -> Path:
    """Return the folder of a run.

    Args:
        name: Id, a unique beginning or end of it, a path (of the folder or a file in it), or `last`.
        runs_dir: Folder of all runs; None for the default one.
        fits: Filter of the runs for `last`; None for all.

    Raises:
        TrajectoryError: If no run or several match, or it has no record yet; the message names the nearest ones.
    """
    path = _expanded(name)
    for folder in (path, path.parent):
        if os.sep in name and (folder / TRAJECTORY).is_file():
            return folder.absolute()
    runs_dir = runs_dir or default_runs_dir()
    by_id = {run_dir.name: run_dir for run_dir in _run_dirs(runs_dir)}
    if not by_id:
        raise TrajectoryError(f'there are no runs in {runs_dir} yet. Start one with: cua task "..."')
    if name == "last":
        return _find_last(list(by_id.values()), fits)
    fitting = [id for id in by_id if id.startswith(name) or id.endswith(name)] if name else []
    if name in by_id or len(fitting) == 1:
        return _with_record(by_id[name if name in by_id else fitting[0]], list(by_id.values()))
    if fitting:
        raise TrajectoryError(f"{len(fitting)} runs fit {name!r}: {_some(fitting)}. Type more of the one you mean")
    near = nearest(name, by_id, 3) or list(by_id)[:3]
    raise TrajectoryError(f"there is no run {name!r} in {runs_dir}. Nearest: {_some(near)}. `cua runs` lists all")


def _find_last(run_dirs: Sequence[Path], fits: Fits | None) -> Path:
    """Return the newest run that fits; a run without a record raises, as it may be the intended one."""
    for run_dir in run_dirs:
        try:
            if fits is None or fits(run_dir, _first_and_last(_with_record(run_dir, run_dirs))[0].header):
                return _with_record(run_dir, run_dirs)
        except (OSError, ValueError):
            return run_dir  # damaged: loading it reports the error
    raise TrajectoryError(f"none of the {len(run_dirs)} runs in {run_dirs[0].parent} can be continued by this command")


def _with_record(run_dir: Path, run_dirs: Sequence[Path]) -> Path:
    if _has_record(run_dir):
        return run_dir
    others = [other.name for other in run_dirs if _has_record(other)]
    raise TrajectoryError(
        f"the run {run_dir.name} has no record: its first line was not written yet, or the run ended before that. "
        + (f"Runs that have one: {_some(others)}" if others else "No run has one")
    )


def _has_record(run_dir: Path) -> bool:
    path = run_dir / TRAJECTORY
    return path.is_file() and path.stat().st_size > 0


def check_own(run_dir: Path, runs_dir: Path | None = None) -> None:
    """Check that a record was made on this machine: resuming it starts programs with its settings.

    Raises:
        TrajectoryError: If it lies outside the folder of runs.
    """
    runs_dir = runs_dir or default_runs_dir()
    if run_dir.resolve().parent != runs_dir.resolve():
        raise TrajectoryError(
            f"{run_dir} is not in your folder of runs, {runs_dir}. A record says which program, address, files and "
            "approval to go on with, so only your own are carried out. If you trust it, move it into that folder"
        )


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # `~name` of an unknown user
        return Path(name)


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:4]) + (", ..." if len(ids) > 4 else "")


def _run_dirs(runs_dir: Path) -> list[Path]:
    """Return folders of runs, newest first: the name begins with the time, the file system breaks ties."""
    try:
        folders = [
            entry
            for entry in runs_dir.iterdir()
            if (entry / TRAJECTORY).is_file() or (_NAME.match(entry.name) and entry.is_dir())
        ]
    except OSError:
        return []
    return sorted(folders, key=lambda run_dir: (run_dir.name[:15], _made_at(run_dir)), reverse=True)


def _made_at(run_dir: Path) -> float:
    """Return the time when the first line was written."""
    try:
        with open_inside(run_dir, TRAJECTORY, max_bytes=MAX_RECORD_BYTES) as file:
            return from_line(file.readline(_MAX_FIRST_BYTES)).at
    except (OSError, ValueError, TrajectoryError):
        return 0.0


def _first_and_last(run_dir: Path) -> tuple[RunEvent, RunResult | None]:
    with open_inside(run_dir, TRAJECTORY, max_bytes=MAX_RECORD_BYTES) as file:
        first = from_line(file.readline(_MAX_FIRST_BYTES))
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - _TAIL_BYTES))
        tail = file.read().split(b"\n")
    if not isinstance(first, RunEvent):
        raise ValueError(f"{run_dir / TRAJECTORY} does not begin with a 'run' event")
    last = next((line for line in reversed(tail[:-1]) if not line.startswith(b'{"event":"sealed"')), b"")
    event = from_line(last) if last.startswith(b'{"event":"ended"') else None
    return first, event.result if isinstance(event, EndedEvent) else None


def _summarize_whole(run_dir: Path) -> RunSummary:
    """Summarize a run whose end is not in its last lines."""
    try:
        record = load_run(run_dir, images=0)
    except TrajectoryError as error:
        return RunSummary(run_dir=run_dir, status="damaged", reason=str(error))
    if record.result is not None:
        return _ended(run_dir, record.header, record.result)
    is_running = is_locked(run_dir)
    until = time.time() if is_running else record.last_at
    return RunSummary(
        run_dir=run_dir,
        started_at=record.header.started_at,
        instruction=record.header.instruction,
        model=record.header.model,
        env=record.header.env,
        mode=record.header.mode,
        status="running" if is_running else "interrupted",
        reason="it is being written" if is_running else "its process ended before the run did; --resume goes on",
        num_steps=record.num_steps,
        total_tokens=record.usage.total_tokens,
        cost_usd=record.usage.cost_usd,
        duration_s=max(0.0, until - record.header.started_at),
    )
