"""Journal of rollouts: a line for each transition, written outside of the event loop, many at a time.

A line is in the file at most `_FLUSH_S` seconds after the transition. A group is handed out only after the ends of its
members are on disk, so that a process that is killed neither loses nor repeats one that was handed out.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cua.errors import ConfigError, TrajectoryError
from cua.json_text import Json, JsonMapping, read_object, well_formed
from cua.rollouts.mismatch import PolicyMismatch
from cua.rollouts.rollout import STOPPED, Rollout, RolloutEnd, RolloutEndKind, RolloutState
from cua.rollouts.samples import SampledRollout, SampleWriter, describe_invalid
from cua.trajectory.disk import AppendOnlyLines, RunLock, sync_folder, translate_os_errors, whole_size
from cua.trajectory.journal import Committer
from cua.trajectory.run_files import show_run_dir

FILE = "rollouts.jsonl"
VERSION = 1
MAX_REASON_CHARS = 500
MAX_GROUP_SIZE = 100_000
_FLUSH_S = 0.005
_MAX_LINE_BYTES = 2**20


@dataclass(slots=True, kw_only=True)
class JournalContent:
    """Content of a journal, written by one or more processes.

    Attributes:
        attempts: Number of attempts that were started, by rollout.
        ends: Ends by rollout.
        open: Rollouts without an end.
        groups: Sizes and draws of the groups, by key.
        taken: Version of the policy when a group was handed out, by its key.
        version: Last version of the policy.
        mismatches: Differences between the engine's and the trainer's log-probabilities, by version of the policy.
        image_effect: Result of the last `check_images`; None without one.
    """

    attempts: Counter[str] = field(default_factory=Counter)
    ends: dict[str, RolloutEnd] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    groups: dict[str, Json] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    version: int = 0
    mismatches: dict[int, PolicyMismatch] = field(default_factory=dict)
    image_effect: float | None = None

    def find_end(self, id: str, group: str) -> RolloutEnd | None:
        """Return the end of a group's rollout; None if it has to run: an error counts only if the group was taken."""
        end = self.ends.get(id)
        return None if end is not None and end.kind == "error" and group not in self.taken else end


def read_journal(folder: Path) -> JournalContent:
    """Read the journal of a folder, which is untrusted; a torn last line is left out.

    Raises:
        TrajectoryError: If it is not a journal of rollouts, a line is damaged, or it cannot be read.
    """
    path = folder / FILE
    content = JournalContent()
    with translate_os_errors("read", folder), path.open("rb") as file:
        first = read_object(file.readline(_MAX_LINE_BYTES)) or {}
        if (first.get("event"), first.get("version")) != ("rollouts", VERSION):
            raise TrajectoryError(f"{path} is not a journal of rollouts of version {VERSION}; name another folder")
        number = 1
        while line := file.readline(_MAX_LINE_BYTES):
            number += 1
            is_whole = line.endswith(b"\n")
            if not is_whole and len(line) < _MAX_LINE_BYTES:
                break
            problem = _apply(line, content) if is_whole else f"over {_MAX_LINE_BYTES} bytes"
            if problem:
                raise TrajectoryError(f"{path}, line {number}, is not a line of a journal ({problem})")
    return content


def _apply(line: bytes, content: JournalContent) -> str:
    """Apply a line; return why it is damaged, or ""."""
    entry = read_object(line)
    if entry is None:
        return "not a JSON object"
    event = entry.get("event")
    kind = _LINES.get(event) if event is None or isinstance(event, str) else None
    if kind is None:
        return "an unknown event"
    try:
        kind.model_validate(entry).apply(content)
    except ValidationError as error:
        return describe_invalid(error)
    return ""


_Count = Annotated[int, Field(ge=0, lt=2**32)]
_Share = Annotated[float, Field(ge=0, le=1)]


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    def apply(self, content: JournalContent) -> None:
        """Change the content; a line that is for people only has no effect."""


class _Moved(_Line):
    id: str
    state: RolloutState
    attempt: _Count = Field(alias="try")

    def apply(self, content: JournalContent) -> None:
        content.open.add(self.id)
        content.ends.pop(self.id, None)
        if self.state != "queued":
            content.attempts[self.id] = self.attempt


class _Ended(_Line):
    id: str
    kind: RolloutEndKind
    reason: str
    score: _Share | None
    is_truncated: bool
    num_attempts: _Count
    version: _Count
    run_dir: str | None

    def apply(self, content: JournalContent) -> None:
        if self.reason == STOPPED:
            content.open.add(self.id)
        else:
            content.open.discard(self.id)
            content.ends[self.id] = RolloutEnd(**self.model_dump(exclude={"id"}))


class _Group(_Line):
    group: str
    size: Annotated[int, Field(ge=1, le=MAX_GROUP_SIZE)]
    draws: Json

    def apply(self, content: JournalContent) -> None:
        content.groups[self.group] = {"size": self.size, "draws": self.draws}


class _Taken(_Line):
    group: str

    def apply(self, content: JournalContent) -> None:
        content.taken[self.group] = content.version


class _Version(_Line):
    number: _Count

    def apply(self, content: JournalContent) -> None:
        content.version = self.number


class _Mismatch(_Line):
    number: _Count
    num_tokens: Annotated[int, Field(ge=1, lt=2**63)]
    k1: float
    k3: float
    sequence_ratio: float
    abs_p99: float
    abs_max: float
    share_below: _Share
    share_above: _Share

    def apply(self, content: JournalContent) -> None:
        content.mismatches[self.number] = PolicyMismatch(**self.model_dump(exclude={"number"}))


class _Images(_Line):
    effect: float

    def apply(self, content: JournalContent) -> None:
        content.image_effect = self.effect


_LINES: dict[str | None, type[_Line]] = {
    None: _Moved,
    "ended": _Ended,
    "group": _Group,
    "taken": _Taken,
    "version": _Version,
    "mismatch": _Mismatch,
    "images": _Images,
    "stuck": _Line,
}


class RolloutJournal:
    """Append-only journal of a folder, for one process and one event loop.

    Args:
        folder: Folder of the journal; created if missing.
        samples: Writer of the samples; its lines are on disk before the ends of their rollouts.

    Attributes:
        folder: Folder of the journal.
        earlier: Content that earlier processes have written.

    Raises:
        TrajectoryError: If another process writes it, it cannot be written, or it is not a journal of rollouts.
    """

    def __init__(self, folder: Path, samples: SampleWriter | None = None) -> None:
        self.folder = folder.absolute()
        self.is_grouped = False
        self._samples = samples
        self._waiting: list[bytes] = []
        self._flush: asyncio.TimerHandle | None = None
        self._is_durable = False
        path = self.folder / FILE
        with translate_os_errors("write", self.folder), contextlib.ExitStack() as stack:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = RunLock(self.folder)
            stack.callback(self._lock.release)
            size_bytes = whole_size(path) if path.exists() else 0
            self.earlier = read_journal(self.folder) if size_bytes else JournalContent()
            self._lines = AppendOnlyLines(path, keep_bytes=size_bytes)
            stack.callback(self._lines.close)
            if not size_bytes:
                self._append(_encode({"event": "rollouts", "version": VERSION}))
                self._lines.sync()
                sync_folder(self.folder)
            stack.pop_all()
        self._committer = Committer(self)

    def moved(self, rollout: Rollout) -> None:
        """Record that a rollout has entered its state."""
        self._write({"id": rollout.id, "state": rollout.state, "try": rollout.attempt, "version": rollout.version})

    def ended(self, id: str, end: RolloutEnd) -> None:
        """Record the end of a rollout."""
        shown: Json = {name: getattr(end, name) for name in RolloutEnd.__slots__}
        reason = well_formed(end.reason[:MAX_REASON_CHARS])
        shown |= {"reason": reason, "run_dir": show_run_dir(self.folder, end.run_dir)}
        self._write({"event": "ended", "id": id, **shown})

    def submitted(self, group: str, size: int, draws: JsonMapping) -> None:
        """Record a group, unless an earlier process has.

        Raises:
            ConfigError: If the group is too large, or the earlier process had one of another size or other draws.
        """
        if size > MAX_GROUP_SIZE:
            raise ConfigError(f"the group {group} has {size:,} rollouts, at most {MAX_GROUP_SIZE:,}")
        values = {"size": size, "draws": dict(draws)}
        earlier = self.earlier.groups.get(group)
        if earlier is None:
            self._write({"event": "group", "group": group, **values})
        elif earlier != json.loads(json.dumps(values)):
            raise ConfigError(f"the group {group} was submitted as {earlier}, now as {values}; use another folder")

    def measured(self, version: int, mismatch: PolicyMismatch) -> None:
        """Record how far the trainer's log-probabilities are from those of a version of the engine."""
        self._write({"event": "mismatch", "number": version, **asdict(mismatch)})

    def measured_images(self, effect: float) -> None:
        """Record the result of `check_images`."""
        self._write({"event": "images", "effect": effect})

    def note(self, event: str, **values: object) -> None:
        """Record something that is not a transition: a version, a report of the watchdog."""
        self._write({"event": event, **values})

    async def sampled(self, rollout: SampledRollout) -> None:
        """Write the samples of a rollout, after the lines of its attempt and before the line of its end.

        Raises:
            SampleError: If a trainer must not use them.
            TrajectoryError: If they cannot be written.
        """
        samples = self._samples
        if samples is None:
            return
        write_lines = self._drain()

        def write() -> None:
            write_lines()
            samples.append(rollout)

        await self._committer.write(write)

    async def take(self, group: str) -> None:
        """Record that a group was handed out, and wait until this process may be killed without losing that."""
        self._write({"event": "taken", "group": group})
        await self._committer.write(self._drain())

    async def commit(self) -> None:
        """Wait until all earlier lines and samples are on disk."""
        write = self._drain()

        def write_durably() -> None:
            self._is_durable = True
            write()

        await self._committer.write(write_durably)

    async def close(self) -> None:
        """Write what is waiting, close the file and release the lock."""
        if self._flush is not None:
            self._flush.cancel()
        try:
            await self.commit()
        finally:
            await asyncio.to_thread(self._committer.close)
            self._lines.close()
            self._lock.release()

    def sync(self) -> None:
        """Wait until all lines are on disk; called by the writing thread after each group of writes."""
        if self._is_durable:
            self._is_durable = False
            with translate_os_errors("write", self.folder):
                if self._samples is not None:
                    self._samples.sync()
                self._lines.sync()

    def _write(self, values: Json) -> None:
        self._waiting.append(_encode(values))
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_later(_FLUSH_S, self._flush_later)

    def _flush_later(self) -> None:
        self._flush = None
        self._committer.write_later(self._drain())

    def _drain(self) -> Callable[[], None]:
        """Return a write of the lines that are waiting."""
        lines, self._waiting = self._waiting, []
        return lambda: self._append(b"".join(lines)) if lines else None

    def _append(self, lines: bytes) -> None:
        with translate_os_errors("write", self.folder):
            self._lines.append(lines, is_durable=False)


def _encode(values: Json) -> bytes:
    return json.dumps({**values, "at": round(time.time(), 3)}, allow_nan=False).encode() + b"\n"
