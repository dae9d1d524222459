"""Watching of spans in separate processes, a limited number at a time, with the estimated remaining seconds."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from apps.video_showcase.spans import VideoSpan
from cua.errors import CuaError
from cua.models.gate import reported_wait
from visual_tools.video.timeline import save_timeline

_MIN_TIME_S = 300.0
_TIME_FACTOR = 3.0
_ERROR_CHARS = 400


class WatchError(CuaError):
    """Error for a span that could not be watched; the message says why."""


def count_cores() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(slots=True)
class WatchProgress:
    """Progress of all spans together.

    Attributes:
        whole_s: Seconds of video to watch.
        num_spans: Number of spans.
        done_s: Seconds of the finished spans, by span number.
        open_s: Seconds watched of the spans in progress, by span number.
    """

    whole_s: float
    num_spans: int
    done_s: dict[int, float] = field(default_factory=dict)
    open_s: dict[int, float] = field(default_factory=dict)
    _began_at: float = 0.0
    _before_s: float = 0.0

    @property
    def watched_s(self) -> float:
        """Seconds of video watched so far."""
        return sum(self.done_s.values()) + sum(self.open_s.values())

    def begin(self) -> None:
        """Start the clock with the first span of this process; earlier results do not count for the speed."""
        if not self._began_at:
            self._began_at, self._before_s = time.monotonic(), self.watched_s

    def left_s(self) -> float | None:
        """Estimate the seconds until all is watched, at the speed so far; None while unknown."""
        gone_s, seen_s = time.monotonic() - self._began_at, self.watched_s - self._before_s
        if not self._began_at or gone_s < 2 or seen_s <= 0:
            return None
        return max(self.whole_s - self.watched_s, 0.0) * gone_s / seen_s

    def speed(self) -> float:
        """Return the seconds of video watched per second."""
        gone_s = time.monotonic() - self._began_at
        return (self.watched_s - self._before_s) / gone_s if self._began_at and gone_s > 0 else 0.0


class Watchers:
    """Processes that watch spans.

    Args:
        progress: Progress, kept up to date.
        num_parallel: Maximum number of processes at the same time.
        listener: Callback for every change of the progress.

    Attributes:
        folder: Folder for the frame times of the files; None to keep none.
    """

    def __init__(
        self,
        progress: WatchProgress,
        *,
        num_parallel: int | None = None,
        listener: Callable[[WatchProgress], None] | None = None,
    ) -> None:
        self.progress = progress
        self._places = asyncio.Semaphore(num_parallel or count_cores())
        self._listener = listener or (lambda _: None)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.folder: Path | None = None

    async def watch(self, span: VideoSpan, detectors: tuple[str, ...], template: str, folder: Path) -> dict[str, Any]:
        """Return what the detectors find in a span; an existing result in the folder is read instead of recomputed.

        Args:
            span: Span to watch.
            detectors: Names of the detectors.
            template: File of an image to find, or "".
            folder: Folder for the job and its result.

        Raises:
            WatchError: If the process died, or took far longer than the span.
            VideoInputError: If the file is missing or was changed.
        """
        timeline = await self._timeline(span)
        job = {"span": asdict(span), "detectors": list(detectors), "template": template, "timeline": timeline}
        stem = f"{span.name}-{'-'.join(detectors)}"
        job_file, result_file = folder / f"{stem}.order.json", folder / f"{stem}.json"
        if _is_done(job_file, result_file, job):
            self._done(span)
            return _read(result_file)
        async with reported_wait("a free decoder"):
            await self._places.acquire()
        try:
            self.progress.begin()
            job_file.write_text(json.dumps(job), "utf-8")
            code, message = await self._run(span, job_file, result_file)
            if code < 0:  # a signal, for example out of memory: a retry may succeed
                code, message = await self._run(span, job_file, result_file)
            if code != 0:
                await asyncio.to_thread(span.source.check_unchanged)
                raise WatchError(
                    f"{span.describe()} cannot be watched (exit code {code}): {message or 'no error message'}"
                )
        finally:
            self.progress.open_s.pop(span.number, None)
            self._places.release()
        self._done(span)
        return _read(result_file)

    async def _timeline(self, span: VideoSpan) -> str:
        """Return the file with the frame times of the span's file, computed once for all of its spans."""
        await asyncio.to_thread(span.source.check_unchanged)
        if self.folder is None or not span.source.has_video:
            return ""
        target = self.folder / f"{span.source.digest[:16]}.npz"
        async with self._locks[span.source.path]:
            if not target.is_file():
                await asyncio.to_thread(_save, span.source.path, target)
        return str(target)

    async def _run(self, span: VideoSpan, job_file: Path, result_file: Path) -> tuple[int, str]:
        """Run one attempt and return its exit code and error message."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "apps.video_showcase.watch", str(job_file), str(result_file)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the run, which ends its watchers itself
        )
        try:
            limit_s = _MIN_TIME_S + _TIME_FACTOR * (span.end_s - span.start_s)
            errors = asyncio.create_task(_tail(process.stderr))
            try:
                async with asyncio.timeout(limit_s):
                    await self._follow(span, process)
                    code = await process.wait()
            except TimeoutError:
                raise WatchError(
                    f"{span.describe()} was not watched within {limit_s:.0f} s; the process was stopped"
                ) from None
            message = await errors
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return code, message

    async def _follow(self, span: VideoSpan, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                reached_s = float(json.loads(line)["time_s"])
                self.progress.open_s[span.number] = min(max(reached_s - span.start_s, 0.0), span.end_s - span.start_s)
                self._listener(self.progress)

    def _done(self, span: VideoSpan) -> None:
        self.progress.open_s.pop(span.number, None)
        self.progress.done_s[span.number] = span.end_s - span.start_s
        self._listener(self.progress)


def _save(path: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".part")
    save_timeline(path, partial)
    partial.replace(target)


def _is_done(job_file: Path, result_file: Path, job: dict[str, Any]) -> bool:
    try:
        return result_file.is_file() and json.loads(job_file.read_text("utf-8")) == json.loads(json.dumps(job))
    except (OSError, ValueError):
        return False


def _read(result_file: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(result_file.read_text("utf-8"))
    return result


def _environment() -> dict[str, str]:
    """Return an environment with one thread per library, since the processes share the processors."""
    single_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_THREAD_LIMIT"), "1")
    return {**os.environ, **single_thread, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


async def _tail(stream: asyncio.StreamReader | None) -> str:
    """Return the last line of a process's stderr, truncated."""
    last = b""
    while stream is not None and (piece := await stream.read(4096)):
        last = (last + piece)[-4 * _ERROR_CHARS :]
    lines = last.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_ERROR_CHARS] if lines else ""
