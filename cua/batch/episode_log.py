"""Journal of a batch: a line for the start and end of each attempt, and a durable line for each finished episode."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Self

from cua.batch.episode import Episode, EpisodeResult
from cua.errors import TrajectoryError
from cua.json_text import Json, read_object
from cua.messages import Usage
from cua.trajectory.disk import AppendOnlyLines, RunLock, sync_folder, translate_os_errors, whole_lines
from cua.trajectory.journal import Committer

FILE = "episodes.jsonl"
VERSION = 1

_Key = tuple[str, int | None, int]


class EpisodeLog:
    """Append-only log of episodes; one process writes, outside of the event loop, with one sync for many lines.

    `begun`, `tried` and `ended` write the event of that name.

    Attributes:
        folder: Folder of the batch.
        results: Results of the finished episodes, by key, including results of earlier processes.
    """

    def __init__(self, folder: Path) -> None:
        """Open or create the episode log of a folder; a torn last line is dropped, a line that is not JSON is skipped.

        The content of such a line is unknown, so its episode counts as unfinished.

        Raises:
            TrajectoryError: If another process writes it, it cannot be written, or it is not an episode log.
        """
        self.folder = folder.absolute()
        self.results: dict[_Key, EpisodeResult] = {}
        self._num_begun: Counter[_Key] = Counter()
        self.is_grouped = True
        self._is_synced = True
        path = self.folder / FILE
        with translate_os_errors("write", self.folder), contextlib.ExitStack() as stack:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = RunLock(self.folder)
            stack.callback(self._lock.release)
            lines = whole_lines(path) if path.exists() else []
            self._read(lines)
            self._lines = AppendOnlyLines(path, keep_bytes=sum(len(line) + 1 for line in lines))
            stack.callback(self._lines.close)
            if not lines:
                self._write({"event": "batch", "version": VERSION})
                self.sync()
                sync_folder(self.folder)
            stack.pop_all()
        self._committer = Committer(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def num_begun(self, key: _Key) -> int:
        """Return the number of attempts at an episode that were started, in this and in earlier processes."""
        return self._num_begun[key]

    async def begun(self, episode: Episode) -> int:
        """Record the start of an attempt, and return its number, from 1."""
        self._num_begun[episode.key] += 1
        number = self._num_begun[episode.key]
        names = dict(zip(("task_id", "seed", "repeat"), episode.key, strict=True))
        line = {"event": "begun", **names, "try": number}
        await self._committer.write(lambda: self._write(line, is_durable=False))
        return number

    async def tried(self, result: EpisodeResult) -> None:
        """Record an attempt that failed or was interrupted; the episode is not finished."""
        await self._committer.write(lambda: self._write({"event": "tried", **result.to_json()}, is_durable=False))

    async def ended(self, result: EpisodeResult) -> None:
        """Record the result of a finished episode. It is on disk when this returns."""
        await self._committer.write(lambda: self._write({"event": "ended", **result.to_json()}))
        self.results[result.key] = result

    async def aclose(self) -> None:
        """Close without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Write queued lines, close the file and release the lock. Can be called twice."""
        self._committer.close()
        self._lines.close()
        self._lock.release()

    def sync(self) -> None:
        """Wait until all lines are on disk; called by the writing thread."""
        if not self._is_synced:
            with translate_os_errors("write", self.folder):
                self._lines.sync()
            self._is_synced = True

    def _write(self, line: Json, *, is_durable: bool = True) -> None:
        text = json.dumps({**line, "at": round(time.time(), 3)}, ensure_ascii=False, allow_nan=False)
        with translate_os_errors("write", self.folder):
            self._lines.append(text.encode("utf-8", "replace") + b"\n", is_durable=False)
        self._is_synced = self._is_synced and not is_durable

    def _read(self, lines: list[bytes]) -> None:
        for number, line in enumerate(lines, start=1):
            entry = read_object(line)  # None for a line that another program has written
            if number > 1 and entry is None:
                continue
            try:
                if entry is None:
                    raise ValueError("no JSON object")
                if number == 1 and (entry["event"], entry["version"]) != ("batch", VERSION):
                    raise ValueError(f"version {entry['version']!r}, expected {VERSION}")
                if entry["event"] == "begun":
                    self._num_begun[entry["task_id"], entry["seed"], entry["repeat"]] = entry["try"]
                if entry["event"] == "ended":
                    result = _from_json(entry)
                    self.results[result.key] = result
            except (ValueError, KeyError, TypeError) as error:
                raise TrajectoryError(
                    f"{self.folder / FILE}, line {number}, is not a line of an episode log ({error}); "
                    "name another folder, or remove the file"
                ) from error


def _from_json(entry: Json) -> EpisodeResult:
    usage = Usage(input_tokens=entry["input_tokens"], output_tokens=entry["output_tokens"], cost_usd=entry["cost_usd"])
    names = set(EpisodeResult.__slots__) - {"usage", "other_scores", "info", "ending"}
    extra: Json = {name: entry.get(name) or {} for name in ("other_scores", "info")}
    extra["ending"] = entry.get("ending", "")
    return EpisodeResult(usage=usage, **extra, **{name: entry[name] for name in names})
