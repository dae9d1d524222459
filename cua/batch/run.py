"""Run the episodes of a batch, N at a time; where the infrastructure failed an episode is tried again."""

import asyncio
import contextlib
import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from cua.batch.episode import Episode, EpisodeKind, EpisodeResult, Player, judge_end
from cua.batch.journal import EpisodeJournal
from cua.errors import ConfigError, CuaError, ModelError, describe_defect
from cua.run.budget import CapReachedError, Caps
from cua.run.control import StoppedError
from cua.run.scope import RunScope
from envs import EnvError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How a batch is run.

    Attributes:
        num_parallel: Episodes at a time.
        max_tries: Tries at an episode whose environment or model failed; an agent's failure is never tried again.
        backoff_s: Seconds before the second try; doubled for each further one, at most `max_backoff_s`, with jitter.
        max_backoff_s: See `backoff_s`.
        timeout_s: Longest an episode may take, the start of its environment and its verdict included; None: no limit.
        caps: Limits of each episode.
    """

    num_parallel: int = 1
    max_tries: int = 3
    backoff_s: float = 2.0
    max_backoff_s: float = 60.0
    timeout_s: float | None = None
    caps: Caps = field(default_factory=Caps)

    def __post_init__(self) -> None:
        for name in ("num_parallel", "max_tries"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}, expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """How a batch stands when `run_batch` returns.

    Attributes:
        results: Of the episodes that are over, in the order in which they were given.
        num_unfinished: Episodes that are not over; running the batch again goes on with them.
        why_stopped: Why there are such: a limit of the whole batch, or a person; "" when there are none.
    """

    results: tuple[EpisodeResult, ...]
    num_unfinished: int
    why_stopped: str


async def run_batch(
    episodes: Iterable[Episode],
    play: Player,
    *,
    journal: EpisodeJournal,
    scope: RunScope | None = None,
    options: BatchOptions | None = None,
    listener: Callable[[EpisodeResult], None] | None = None,
) -> BatchSummary:
    """Run every episode that the journal does not have yet.

    Args:
        episodes: All of the batch, in order; each key once.
        play: Plays one.
        journal: Has the results of earlier processes, and gets those of this one.
        scope: Limits and switches of the whole batch: a stop ends it, its budget is shared by all episodes.
        options: How it is run.
        listener: Told each try that ended, also one that is made again.

    Returns:
        What is over, and how many episodes are not.

    Raises:
        ConfigError: Two episodes have one key.
        TrajectoryError: The journal cannot be written; what was going on is stopped.
    """
    batch = _Batch(tuple(episodes), play, journal, scope or RunScope(caps=Caps(max_steps=None)), options, listener)
    return await batch.run()


class _Batch:
    def __init__(
        self,
        episodes: tuple[Episode, ...],
        play: Player,
        journal: EpisodeJournal,
        scope: RunScope,
        options: BatchOptions | None,
        listener: Callable[[EpisodeResult], None] | None,
    ) -> None:
        keys = {episode.key for episode in episodes}
        if len(keys) < len(episodes):
            twice = next(
                one.key for one, next_ in itertools.pairwise(sorted(episodes, key=str)) if one.key == next_.key
            )
            raise ConfigError(f"the batch has {twice} twice; an episode is told by task, seed and repeat")
        self._episodes = episodes
        self._play = play
        self._journal = journal
        self._scope = scope
        self._options = options or BatchOptions()
        self._listener = listener or (lambda result: None)
        self._fresh: Iterator[Episode] = (one for one in episodes if one.key not in journal.ended)
        self._again: list[tuple[float, int, Episode]] = []
        self._order = itertools.count()
        self._num_running = 0
        self._changed = asyncio.Condition()
        self._why_stopped = ""

    async def run(self) -> BatchSummary:
        self._scope.control.attach()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._options.num_parallel, max(1, len(self._episodes)))):
                    group.create_task(self._work())
        except ExceptionGroup as failed:  # the journal: nothing can be accounted for any more
            raise failed.exceptions[0] from None
        finally:
            self._scope.control.clock.end()
        results = tuple(self._journal.ended[one.key] for one in self._episodes if one.key in self._journal.ended)
        return BatchSummary(
            results=results, num_unfinished=len(self._episodes) - len(results), why_stopped=self._why_stopped
        )

    async def _work(self) -> None:
        """Take episodes until there are none; what is taken is given back when it is not over."""
        while (episode := await self._take()) is not None:
            is_over = False
            try:
                is_over = await self._try(episode)
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
                episode = heapq.heappop(self._again)[2] if self._again and self._again[0][0] <= now else None
                episode = episode or next(self._fresh, None)
                if episode is not None:
                    self._num_running += 1
                    return episode
                if not self._again and not self._num_running:
                    return None
                await self._wait(self._again[0][0] - now if self._again else None)
        return None

    async def _wait(self, timeout_s: float | None) -> None:
        """Until an episode ended, one is due again, or a second has passed, in which somebody may have stopped it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(1.0, timeout_s if timeout_s is not None else 1.0)):
                await self._changed.wait()

    def _is_stopped(self) -> bool:
        """Whether nothing more may begin; remembers why."""
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
        wait_s = min(options.max_backoff_s, options.backoff_s * 2 ** (self._journal.num_begun(episode.key) - 1))
        due = time.monotonic() + wait_s * random.uniform(0.5, 1.0)  # not all at once
        heapq.heappush(self._again, (due, next(self._order), episode))

    async def _try(self, episode: Episode) -> bool:
        """One try; whether the episode is over."""
        number = await self._journal.begun(episode)
        result = await self._played(episode, number)
        is_over = result.kind != "stopped" and (not result.is_retryable or number >= self._options.max_tries)
        await (self._journal.over(result) if is_over else self._journal.tried(result))
        self._listener(result)
        return is_over

    async def _played(self, episode: Episode, number: int) -> EpisodeResult:
        started = time.monotonic()
        named = EpisodeResult(
            task_id=episode.task_id,
            seed=episode.seed,
            repeat=episode.repeat,
            kind="stopped",
            score=None,
            reason="",
            num_tries=number,
        )
        limit = asyncio.timeout(self._options.timeout_s)
        part = self._scope.make_run(self._options.caps)
        try:
            async with limit:
                run = await self._play(episode, part)
        except Exception as error:  # it runs tasks that others wrote
            used = part.budget
            took_s = time.monotonic() - started
            named = replace(named, num_steps=used.num_steps, usage=used.usage, duration_s=took_s)
            if limit.expired():
                return replace(named, kind="timeout", reason=f"over {self._options.timeout_s:g} s")
            is_cut_short = isinstance(error, CapReachedError) and self._is_stopped()  # by a limit of the whole batch
            kind: EpisodeKind = "stopped" if is_cut_short else _kind_of(error)
            is_retryable = kind in ("env_error", "model_error") and bool(getattr(error, "retryable", False))
            return replace(named, kind=kind, reason=_line(error), is_retryable=is_retryable)
        kind, score = judge_end(run.end)
        if run.end.status == "capped" and self._is_stopped():  # by a limit of the whole batch
            kind, score = "stopped", None
        return replace(
            named,
            kind=kind,
            score=score,
            reason=run.end.reason,
            num_steps=run.num_steps,
            usage=run.usage,
            duration_s=time.monotonic() - started,
            run_dir=_within(self._journal.folder, run.run_dir),
            is_retryable=kind in ("env_error", "model_error") and run.end.retryable,
            other_scores=dict(run.end.other_scores) if kind == "scored" else {},
            info=dict(run.end.info),
        )


def _within(folder: Path, run_dir: str | None) -> str | None:
    """Where a run lies, as the batch's folder sees it, so that the folder can be moved."""
    if run_dir is None or not Path(run_dir).is_relative_to(folder):
        return run_dir
    return Path(run_dir).relative_to(folder).as_posix()


def _kind_of(error: Exception) -> EpisodeKind:
    if isinstance(error, StoppedError):
        return "stopped"
    if isinstance(error, CapReachedError) and error.cap == "time":
        return "timeout"
    if isinstance(error, ModelError):
        return "model_error"
    return "env_error" if isinstance(error, EnvError) else "evaluator_error"


def _line(error: Exception) -> str:
    """What was raised; of what should not have been also where."""
    is_ours = isinstance(error, EnvError | CuaError | CapReachedError | StoppedError)
    return f"{type(error).__name__}: {error}".splitlines()[0][:500] if is_ours else describe_defect(error)
