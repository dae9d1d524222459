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

from cua.errors import ConfigError, TrajectoryError
from cua.json_text import Json, JsonMapping, read_object
from cua.rollouts.mismatch import PolicyMismatch
from cua.rollouts.rollout import STOPPED, Rollout, RolloutEnd, RolloutEndKind
from cua.rollouts.samples import SampledRollout, SampleWriter
from cua.trajectory.disk import AppendOnlyLines, RunLock, sync_folder, translate_os_errors, whole_size
from cua.trajectory.journal import Committer
from cua.trajectory.run_files import show_run_dir

FILE = "rollouts.jsonl"
VERSION = 1
MAX_REASON_CHARS = 500
_FLUSH_S = 0.005
_MAX_LINE_BYTES = 2**20
_KINDS: tuple[RolloutEndKind, ...] = ("scored", "excluded", "stale", "error")


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
    """Read the journal of a folder; a torn last line is left out, and so are lines that are not JSON.

    Raises:
        TrajectoryError: If it is not a journal of rollouts, or cannot be read.
    """
    path = folder / FILE
    content = JournalContent()
    with translate_os_errors("read", folder), path.open("rb") as file:
        first = read_object(file.readline(_MAX_LINE_BYTES)) or {}
        if (first.get("event"), first.get("version")) != ("rollouts", VERSION):
            raise TrajectoryError(f"{path} is not a journal of rollouts of version {VERSION}; name another folder")
        number = 1
        while (line := file.readline(_MAX_LINE_BYTES)).endswith(b"\n"):
            number += 1
            try:
                if (entry := read_object(line)) is not None:  # else a line of another program
                    _apply(entry, content)
            except (KeyError, TypeError, ValueError) as error:
                raise TrajectoryError(f"{path}, line {number}, is not a line of a journal ({error!r})") from error
    return content


def _apply(entry: Json, content: JournalContent) -> None:
    match entry.get("event"):
        case None:
            content.open.add(entry["id"])
            content.ends.pop(entry["id"], None)
            if entry["state"] != "queued":
                content.attempts[entry["id"]] = int(entry["try"])
        case "ended":
            end = RolloutEnd(**{name: entry[name] for name in RolloutEnd.__slots__})
            if end.kind not in _KINDS:
                raise ValueError(f"the end {end.kind!r}")
            if end.reason == STOPPED:
                content.open.add(entry["id"])
            else:
                content.open.discard(entry["id"])
                content.ends[entry["id"]] = end
        case "group":
            content.groups[entry["group"]] = {"size": entry["size"], "draws": entry["draws"]}
        case "taken":
            content.taken[entry["group"]] = content.version
        case "version":
            content.version = int(entry["number"])
        case "mismatch":
            found = PolicyMismatch(**{name: entry[name] for name in PolicyMismatch.__slots__})
            content.mismatches[int(entry["number"])] = found
        case "images":
            content.image_effect = float(entry["effect"])


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
        shown |= {"reason": end.reason[:MAX_REASON_CHARS], "run_dir": show_run_dir(self.folder, end.run_dir)}
        self._write({"event": "ended", "id": id, **shown})

    def submitted(self, group: str, size: int, draws: JsonMapping) -> None:
        """Record a group, unless an earlier process has.

        Raises:
            ConfigError: If the earlier process had a group of another size, or other draws.
        """
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
        """Write the samples of a rollout, before the line of its end.

        Raises:
            SampleError: If a trainer must not use them.
            TrajectoryError: If they cannot be written.
        """
        samples = self._samples
        if samples is not None:
            await self._committer.write(lambda: samples.append(rollout))

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
