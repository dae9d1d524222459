"""Runs the episodes of a batch, N at a time, and retries episodes after infrastructure failures."""

import asyncio
import contextlib
import heapq
import itertools
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from cua.batch.episode import Episode, EpisodeResult, Player, classify_end, classify_error, ending_of
from cua.batch.episode_log import EpisodeLog
from cua.errors import ConfigError
from cua.run.budget import CapReachedError, Caps
from cua.run.control import StoppedError
from cua.run.end import RunResult
from cua.run.scope import RunScope
from cua.trajectory.run_files import show_run_dir
from envs.foreign import (
    ForeignCodeError,
    abandon,
    contained_result,
    contained_task,
    describe_error,
    kept_directory,
    working_directory,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Options of a batch.

    Attributes:
        num_parallel: Number of episodes at a time.
        max_attempts: Attempts at an episode whose environment or model failed; an agent's failure is never retried, nor
            is an episode whose environment keeps the effects of the agent (`Episode.no_retry_reason`).
        backoff_s: Seconds before the second attempt; doubled for each further attempt up to `max_backoff_s`, with
            jitter.
        max_backoff_s: See `backoff_s`.
        timeout_s: Timeout of an episode in seconds, including the start of its environment and its verdict; None: no
            limit.
        close_s: Seconds that a cancelled episode has to close its parts; after that it is abandoned.
        caps: Limits of each episode.
    """

    num_parallel: int = 1
    max_attempts: int = 3
    backoff_s: float = 2.0
    max_backoff_s: float = 60.0
    timeout_s: float | None = None
    close_s: float = 30.0
    caps: Caps = field(default_factory=Caps)

    def __post_init__(self) -> None:
        for name in ("num_parallel", "max_attempts"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """State of a batch when `run_batch` returns.

    Attributes:
        results: Results of the finished episodes, in the order in which they were given.
        num_unfinished: Number of unfinished episodes; another run of the batch continues with them.
        why_stopped: Reason why there are unfinished episodes: a limit of the batch, or a person; "" if there are none.
    """

    results: tuple[EpisodeResult, ...]
    num_unfinished: int
    why_stopped: str


async def run_batch(
    episodes: Iterable[Episode],
    play: Player,
    *,
    log: EpisodeLog,
    scope: RunScope | None = None,
    options: BatchOptions | None = None,
    listener: Callable[[EpisodeResult], None] | None = None,
) -> BatchSummary:
    """Run every episode that the episode log does not have yet.

    Args:
        episodes: All episodes of the batch, in order, with unique keys.
        play: Player of one episode.
        log: Results of earlier processes; gets the results of this one.
        scope: Limits and control of the whole batch: a stop ends it, all episodes share its budget.
        options: Options of the batch.
        listener: Called with the result of each attempt, including retried ones.

    Returns:
        Results of the finished episodes, and the number of unfinished ones.

    Raises:
        ConfigError: If two episodes have the same key, or parallel episodes would share one environment.
        TrajectoryError: If the episode log cannot be written; running episodes are stopped.
    """
    batch = _Batch(tuple(episodes), play, log, scope or RunScope(caps=Caps(max_steps=None)), options, listener)
    return await batch.run()


class _Batch:
    def __init__(
        self,
        episodes: tuple[Episode, ...],
        play: Player,
        log: EpisodeLog,
        scope: RunScope,
        options: BatchOptions | None,
        listener: Callable[[EpisodeResult], None] | None,
    ) -> None:
        keys = {episode.key for episode in episodes}
        if len(keys) < len(episodes):
            twice = next(
                left.key for left, right in itertools.pairwise(sorted(episodes, key=str)) if left.key == right.key
            )
            raise ConfigError(f"the batch has {twice} twice; an episode is identified by task, seed and repeat")
        options = options or BatchOptions()
        reason = next((episode.exclusive_reason for episode in episodes if episode.exclusive_reason), "")
        if reason and options.num_parallel > 1:
            raise ConfigError(f"{options.num_parallel} episodes at a time would share one environment: {reason}. Use 1")
        self._episodes = episodes
        self._play = play
        self._log = log
        self._scope = scope
        self._options = options
        self._listener = listener or (lambda result: None)
        self._not_started: Iterator[Episode] = (episode for episode in episodes if episode.key not in log.results)
        self._retries: list[tuple[float, int, Episode]] = []
        self._order = itertools.count()
        self._num_running = 0
        self._changed = asyncio.Condition()
        self._why_stopped = ""
        self._directory = working_directory()

    async def run(self) -> BatchSummary:
        self._scope.control.attach()
        loop = asyncio.get_running_loop()
        earlier = loop.get_task_factory()
        loop.set_task_factory(contained_task)  # background tasks of third-party code cannot end the process
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._options.num_parallel, max(1, len(self._episodes)))):
                    group.create_task(self._work())
        except ExceptionGroup as failed:  # the episode log failed: results can no longer be recorded
            raise failed.exceptions[0] from None
        finally:
            loop.set_task_factory(earlier)
            self._scope.control.clock.end()
        by_key = self._log.results
        results = tuple(by_key[episode.key] for episode in self._episodes if episode.key in by_key)
        return BatchSummary(
            results=results, num_unfinished=len(self._episodes) - len(results), why_stopped=self._why_stopped
        )

    async def _work(self) -> None:
        """Run episodes until there are none left; unfinished ones are returned to the queue."""
        while (episode := await self._take()) is not None:
            is_over = False
            try:
                is_over = await self._attempt(episode)
            finally:
                async with self._changed:
                    self._num_running -= 1
                    if not is_over and not self._why_stopped:
                        self._give_back(episode)
                    self._changed.notify(1 if self._num_running else self._options.num_parallel)

    async def _take(self) -> Episode | None:
        async with self._changed:
            while not self._is_stopped():
                now = time.monotonic()
                episode = heapq.heappop(self._retries)[2] if self._retries and self._retries[0][0] <= now else None
                episode = episode or next(self._not_started, None)
                if episode is not None:
                    self._num_running += 1
                    return episode
                if not self._retries and not self._num_running:
                    return None
                await self._wait(self._retries[0][0] - now if self._retries else None)
        return None

    async def _wait(self, timeout_s: float | None) -> None:
        """Wait until an episode ends, a retry is due, or one second has passed, after which a stop is checked."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(1.0, timeout_s if timeout_s is not None else 1.0)):
                await self._changed.wait()

    def _is_stopped(self) -> bool:
        """Return True if no more episodes may start, and store the reason."""
        control = self._scope.control
        try:
            if control.is_stopped:
                raise StoppedError(control.stop_reason)
            control.check_time()
            self._scope.budget.check()
        except (StoppedError, CapReachedError) as error:
            self._why_stopped = self._why_stopped or str(error)
        return bool(self._why_stopped)

    def _give_back(self, episode: Episode) -> None:
        options = self._options
        wait_s = min(options.max_backoff_s, options.backoff_s * 2 ** (self._log.num_begun(episode.key) - 1))
        due = time.monotonic() + wait_s * random.uniform(0.5, 1.0)  # jitter
        heapq.heappush(self._retries, (due, next(self._order), episode))

    async def _attempt(self, episode: Episode) -> bool:
        """Run one attempt; return True if the episode is finished."""
        number = await self._log.begun(episode)
        result = _without_replay(await self._play_episode(episode, number), episode.no_retry_reason)
        is_over = result.kind != "stopped" and (not result.is_retryable or number >= self._options.max_attempts)
        await (self._log.ended(result) if is_over else self._log.tried(result))
        self._listener(result)
        return is_over

    async def _play_episode(self, episode: Episode, number: int) -> EpisodeResult:
        """Run an episode; exceptions of its code become its result."""
        started = time.monotonic()
        template = EpisodeResult(
            task_id=episode.task_id,
            seed=episode.seed,
            repeat=episode.repeat,
            kind="stopped",
            score=None,
            reason="",
            num_tries=number,
        )
        episode_scope = self._scope.make_run(self._options.caps)
        try:
            with kept_directory(self._directory):  # the episode's code may change the working directory
                run = await _within(self._options, self._play(episode, episode_scope))
        except Exception as error:  # it runs tasks of third parties
            used, took_s = episode_scope.budget, time.monotonic() - started
            run_dir = show_run_dir(self._log.folder, episode_scope.run_dir)
            template = replace(template, num_steps=used.num_steps, usage=used.usage, duration_s=took_s, run_dir=run_dir)
            return self._failed(template, error)
        kind, score = classify_end(run.end)
        if run.end.status == "capped" and self._is_stopped():  # a limit of the whole batch
            kind, score = "stopped", None
        if kind == "stopped" and not self._is_stopped():  # stopped by the episode's own code
            return self._failed(template, StoppedError(run.end.reason))
        return replace(
            template,
            kind=kind,
            score=score,
            reason=run.end.reason or "no reason given",
            num_steps=run.num_steps,
            usage=run.usage,
            duration_s=time.monotonic() - started,
            run_dir=show_run_dir(self._log.folder, run.run_dir),
            ending=ending_of(run.end),
            is_retryable=kind in ("env_error", "model_error") and run.end.retryable,
            other_scores=dict(run.end.other_scores) if kind == "scored" else {},
            info=dict(run.end.info),
        )

    def _failed(self, template: EpisodeResult, error: Exception) -> EpisodeResult:
        """Return the result of an episode that raised an exception."""
        if isinstance(error, _OverdueError):
            return replace(template, kind="timeout", reason=str(error))
        if self._is_stopped() and isinstance(error, CapReachedError | StoppedError):
            return replace(template, kind="stopped", reason=describe_error(error))
        kind, reason, is_retryable = classify_error(error)
        return replace(template, kind=kind, reason=reason, is_retryable=is_retryable)


def _without_replay(result: EpisodeResult, no_retry_reason: str) -> EpisodeResult:
    """Make an error permanent if another attempt would start in the state that this one has left behind."""
    if not (no_retry_reason and result.is_retryable and result.num_steps):
        return result
    return replace(result, is_retryable=False, reason=f"{result.reason}; not tried again: {no_retry_reason}")


class _OverdueError(Exception):
    """Raised when an episode reaches its timeout."""


async def _within(options: BatchOptions, work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Await an episode in its own task, so that its code cannot end or cancel the batch.

    Raises:
        _OverdueError: If the timeout is reached.
        ForeignCodeError: If the episode's code tried to end the process, or cancelled itself.
        Exception: If the episode raises it.
    """
    task = asyncio.ensure_future(contained_result(work))
    try:
        await asyncio.wait({task}, timeout=options.timeout_s)
        is_overdue = not task.done()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=options.close_s)
            abandon(task)  # one that does not end is no longer awaited
        if task.done() and not task.cancelled():
            task.exception()  # retrieve the exception, so that asyncio does not report it as lost
    if is_overdue:
        raise _OverdueError(f"over {options.timeout_s:g} s")
    if task.cancelled():
        raise ForeignCodeError("CancelledError: the episode's own code cancelled its task")
    return task.result()
