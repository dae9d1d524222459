"""Execution of an evaluation: the batch of its episodes, the reports of their runs, and the folder of results."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from apps.evals.episodes import load_episodes, load_failed_attempts
from apps.evals.page import write_page
from apps.evals.plan import EvalPlan, find_checkout, plan_keys
from apps.evals.players import find_player_kind, find_recorded_kind
from apps.evals.results import RUNS, Evaluation, save_results
from apps.evals.text import describe_score_so_far
from cua.assemble import PACKAGES, env_spec, make_secrets, make_settings_model, versions_of
from cua.batch.episode import Episode, EpisodeResult, Player, make_episodes
from cua.batch.episode_log import EpisodeLog
from cua.batch.executor import EnvProvider, ExecutorKind, make_env_provider
from cua.batch.run import BatchOptions, BatchSummary, run_batch
from cua.config import Settings, load_settings
from cua.errors import ConfigError, TrajectoryError
from cua.model import Model
from cua.run.budget import Caps
from cua.run.control import Control
from cua.run.end import RunResult
from cua.run.scope import RunScope
from cua.trajectory.describe import describe_duration
from envs.registry import EnvSecrets
from envs.remote import SuiteRef

SOURCE = Path(__file__).parents[2]
MARGIN_S = 120.0
"""Time for the start of an environment and the evaluation, in addition to the agent's own time."""
# Times after a stop: until episodes are cancelled, until they are given up, between two checks, to close environments
_STOP_S, _CANCEL_S, _CHECK_S, _CLOSE_S = 3.0, 0.5, 0.1, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions:
    """Execution options of an evaluation, which do not affect its results.

    Attributes:
        num_parallel: Number of concurrent episodes.
        executor: Where the environments run: in this process, in other processes, or on a Ray cluster.
        ray_address: Address of the cluster, for `ray`; None starts one on this machine.
        caps: Limits of all episodes together.
        max_attempts: Maximum attempts of an episode whose environment or model fails.
        with_reports: True to write the report of each run, an HTML page.
    """

    num_parallel: int = 1
    executor: ExecutorKind = "local"
    ray_address: str | None = None
    caps: Caps = field(default_factory=lambda: Caps(max_steps=None))
    max_attempts: int = 3
    with_reports: bool = True


@dataclass(slots=True, kw_only=True)
class EvaluationProgress:
    """Progress of an evaluation.

    Attributes:
        plan: Plan of the evaluation.
        results: Finished episodes; those of earlier processes come first.
        num_earlier: Number of episodes that were finished before this process began.
        num_running: Number of running episodes.
        num_failed_attempts: Number of failed or interrupted attempts that are repeated.
        started: Start of this process, monotonic seconds.
    """

    plan: EvalPlan
    results: list[EpisodeResult]
    num_earlier: int
    num_running: int = 0
    num_failed_attempts: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def eta_s(self) -> float | None:
        """Estimated remaining seconds at the rate of this process; None before its first finished episode."""
        num_done = len(self.results) - self.num_earlier
        if not num_done:
            return None
        return (time.monotonic() - self.started) / num_done * (self.plan.num_episodes - len(self.results))

    def describe(self) -> str:
        """Return `2 running, 1 error, score 58.3 % (41.0 to 74.1 %), about 3 min 05 s left`."""
        errors = sum(result.score is None for result in self.results)
        again = f", {self.num_failed_attempts} tried again" if self.num_failed_attempts else ""
        left = f", about {describe_duration(self.eta_s)} left" if self.eta_s else ""
        counts = f"{self.num_running} running, {errors} error{'' if errors == 1 else 's'}{again}"
        return f"{counts}, {describe_score_so_far(self.results)}{left}"


Listener = Callable[[EvaluationProgress, EpisodeResult | None], None]
"""Called with the progress when an episode begins (result None) or an attempt ends."""


async def run_evaluation(
    evaluation: Evaluation,
    suite: SuiteRef,
    settings: Mapping[str, object],
    options: EvalOptions,
    *,
    listener: Listener,
    on_control: Callable[[Control], None] = lambda control: None,
) -> Evaluation:
    """Play every unfinished episode. However it ends, the folder contains all results so far.

    Args:
        evaluation: Plan and folder; the results are read from the folder.
        suite: Suite of the tasks.
        settings: Settings of the agent by name, as for `cua.run_task`.
        options: Execution options.
        listener: Called with the progress.
        on_control: Called with the control that can stop it.

    Raises:
        CuaError: If a setting is wrong, or the folder cannot be written.
        EnvError: If the suite or the cluster does not exist.
    """
    async with AsyncExitStack() as stack:
        agent_settings, plan = load_settings(settings).settings, evaluation.plan
        kind = find_player_kind(plan.agent)
        make_model = await stack.enter_async_context(_no_models() if kind.makes_models else _models(agent_settings))
        secrets = make_secrets(agent_settings)
        env_provider = make_env_provider(
            options.executor if kind.uses_envs else "local",
            suite,
            max_idle=options.num_parallel,  # environments kept for the next episode
            ray_address=options.ray_address,
            secrets=EnvSecrets(masked_texts=secrets.values, http_logins=secrets.logins),
        )
        stack.push_async_callback(_close_in_time, env_provider)
        episodes = make_episodes(
            plan_keys(plan),
            make_task=env_provider.make_task,
            take_env=env_provider.take_env,
            make_model=make_model,
            env=env_spec(agent_settings),
        )
        log = EpisodeLog(evaluation.folder)
        stack.push_async_callback(log.aclose)
        chosen = {name: value for name, value in settings.items() if name not in ("model", "env", "runs_dir")}
        limits = {"max_steps": plan.max_steps, "max_time": plan.max_time_s}
        settings_used = {**chosen, **limits} | ({"model": plan.model} if kind.makes_models else {})
        player = await stack.enter_async_context(kind.make(evaluation.folder / RUNS, settings_used))
        return await _RunningEvaluation(evaluation, player, log, options, listener).play(episodes, on_control)


class _RunningEvaluation:
    """Evaluation whose episodes are being played."""

    def __init__(
        self,
        evaluation: Evaluation,
        player: Player,
        log: EpisodeLog,
        options: EvalOptions,
        listener: Listener,
    ) -> None:
        self._evaluation = replace(
            evaluation, status="running", versions=versions_of((*PACKAGES, "ray")), checkout=find_checkout(SOURCE)
        )
        self._player = player
        self._log = log
        self._options = options
        self._listener = listener
        plan = evaluation.plan
        kept = [log.results[key] for key in plan_keys(plan) if key in log.results]
        self._progress = EvaluationProgress(plan=plan, results=kept, num_earlier=len(kept))
        self._reports = _ReportWriter(evaluation.folder, find_player_kind(plan.agent).write_run_report)

    async def play(self, episodes: Sequence[Episode], on_control: Callable[[Control], None]) -> Evaluation:
        """Play all episodes, or until it is stopped."""
        plan, scope = self._evaluation.plan, RunScope(caps=self._options.caps)
        save_results(replace(self._evaluation, results=tuple(self._progress.results)))
        on_control(scope.control)
        options = BatchOptions(
            num_parallel=self._options.num_parallel,
            max_attempts=self._options.max_attempts,
            timeout_s=plan.max_time_s + MARGIN_S if plan.max_time_s else None,
            caps=Caps(max_steps=None),
        )
        batch = run_batch(episodes, self._play, log=self._log, scope=scope, options=options, listener=self._notify)
        why_stopped = "cancelled"
        try:
            async with self._reports:
                summary = await _unless_stuck(batch, scope.control)
                why_stopped = summary.why_stopped if summary else scope.control.stop_reason
                if not scope.control.is_stopped:
                    await self._reports.drain()
        finally:
            self._evaluation = finish(self._evaluation, why_stopped)
        return self._evaluation

    async def _play(self, episode: Episode, scope: RunScope) -> RunResult:
        self._progress.num_running += 1
        self._listener(self._progress, None)
        try:
            return await self._player(episode, scope)
        finally:
            self._progress.num_running -= 1

    def _notify(self, result: EpisodeResult) -> None:
        if result.key in self._log.results:
            self._progress.results.append(result)
        else:
            self._progress.num_failed_attempts += 1
        if self._options.with_reports and result.run_dir is not None:
            self._reports.add(result.run_dir)
        self._listener(self._progress, result)


def finish(evaluation: Evaluation, why_stopped: str = "") -> Evaluation:
    """Write results and page of the finished episodes; return the updated evaluation.

    Args:
        evaluation: Evaluation to finish; its results are read from the folder.
        why_stopped: Reason why episodes are missing, if any.

    Raises:
        TrajectoryError: If the folder cannot be read or written.
    """
    results = load_episodes(evaluation.folder, evaluation.plan)
    is_whole = len(results) == evaluation.plan.num_episodes
    ended = replace(
        evaluation,
        results=results,
        failed_attempts=load_failed_attempts(evaluation.folder, evaluation.plan),
        status="finished" if is_whole else "unfinished",
        why_stopped="" if is_whole else why_stopped,
        ended_at=time.time(),
    )
    save_results(ended)
    write_page(ended)
    return ended


def write_missing_reports(evaluation: Evaluation) -> int:
    """Write the missing reports of runs and return their number; skip records that cannot be read."""
    count, write_report = 0, find_recorded_kind(evaluation.plan.agent).write_run_report
    for result in (*evaluation.results, *evaluation.failed_attempts):
        run = evaluation.find_run(result)
        if run is not None and evaluation.find_report(result) is None:
            with contextlib.suppress(TrajectoryError):
                write_report(evaluation.folder / run)
                count += 1
    return count


class _ReportWriter:
    """Writer of run reports, one at a time, outside the event loop."""

    def __init__(self, folder: Path, write: Callable[[Path], Path]) -> None:
        self._folder, self._write = folder, write
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def add(self, run_dir: str) -> None:
        self._queue.put_nowait(run_dir)

    async def drain(self) -> None:
        await self._queue.join()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _work(self) -> None:
        while True:
            run_dir = await self._queue.get()
            with contextlib.suppress(TrajectoryError):
                await asyncio.to_thread(self._write, self._folder / run_dir)
            self._queue.task_done()


@asynccontextmanager
async def _models(settings: Settings) -> AsyncIterator[Callable[[], Model]]:
    """Return a factory of the model of each episode: one for all, or each its own if it is a script."""
    if settings.model.startswith("scripted"):
        yield lambda: make_settings_model(settings)
        return
    model = make_settings_model(settings)
    try:
        yield lambda: model
    finally:
        await model.close()


@asynccontextmanager
async def _no_models() -> AsyncIterator[Callable[[], Model]]:
    def make_model() -> Model:
        raise ConfigError("these episodes make their models themselves")

    yield make_model


async def _unless_stuck(work: Coroutine[object, object, BatchSummary], control: Control) -> BatchSummary | None:
    """Await a batch; after a stop, wait for its end, then cancel it. Return None if it had to be abandoned."""
    task = asyncio.ensure_future(work)
    stopped_at: float | None = None
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_CHECK_S)
            if control.is_stopped and stopped_at is None:
                stopped_at = time.monotonic()
            if stopped_at is not None and time.monotonic() - stopped_at > _STOP_S:
                return None
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_S)


async def _close_in_time(env_provider: EnvProvider) -> None:
    """Close the provider with a timeout; parts that are still open then are abandoned."""
    await asyncio.wait({asyncio.ensure_future(env_provider.close())}, timeout=_CLOSE_S)
