"""How an episode of a suite of sites is played: by an author in the loop of `cua web build`, in its own folder."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from apps.video2web.baselines import WRITERS, BaselineAuthor
from apps.video2web.build import Author, Build, Judge, build
from apps.video2web.model_author import make_author
from apps.video2web.report import write_build_report
from apps.video2web.rounds import BuildFolder
from apps.video2web.suite import SiteTask
from cua.batch import Episode
from cua.errors import ConfigError, CuaError, TaskError
from cua.run.budget import Caps
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.run_files import make_run_dir
from envs.errors import did_you_mean

_BASELINE = "baseline:"


class SitePlayer:
    """The `Player` of authors of sites. The steps of an episode are its rounds after the draft.

    Args:
        runs_dir: Folder of the builds.
        model: `literal`, `baseline:KIND`, or a model as in the settings.
        max_steps: Rounds after the draft; None: those of the task.
        max_time: Seconds of an episode.
        settings: Of the model and its agent, by name.
    """

    def __init__(
        self,
        runs_dir: Path,
        *,
        model: str,
        max_steps: int | None = None,
        max_time: float | None = None,
        **settings: Any,
    ) -> None:
        kind = model.removeprefix(_BASELINE)
        if model.startswith(_BASELINE) and kind not in WRITERS:
            raise ConfigError(
                f"there is no baseline {kind!r} for sites; expected one of {', '.join(WRITERS)}"
                f"{did_you_mean(kind, tuple(WRITERS))}"
            )
        self._runs_dir, self._model = runs_dir, model
        self._rounds, self._time_s = max_steps, max_time
        self._settings: Mapping[str, Any] = settings

    async def __call__(self, episode: Episode, scope: RunScope) -> RunResult:
        """Build one site and judge it.

        Raises:
            CuaError: A setting is wrong, or the folder cannot be written.
            EnvError: There is no browser.
        """
        task = episode.make_task()
        if not isinstance(task, SiteTask):
            raise ConfigError(f"the task {episode.task_id!r} is no site to build")
        with translate_os_errors("write", self._runs_dir):
            folder = BuildFolder(make_run_dir(self._runs_dir, episode.task_id, time.time()))
        run = scope.make_run(Caps(max_steps=None, max_time_s=self._time_s))
        run.begin(task.instruction)
        rounds: list[Build] = []
        end = await run.to_the_end(lambda: run.control.unless_stopped(self._play(task, folder, run, rounds)))
        result = await run.finish(end, len(rounds[0].rounds) - 1 if rounds else 0)
        return replace(result, run_dir=str(folder.path))

    async def _play(self, task: SiteTask, folder: BuildFolder, run: RunScope, rounds: list[Build]) -> End:
        async with Judge() as judge:
            try:
                await task.setup(judge)
            except CuaError as error:
                raise TaskError(f"the task cannot be set up: {error}") from error
            try:
                made = await self._build(folder, task, judge, run)
                rounds.append(made)
                task.site = await asyncio.to_thread(folder.site, made.best)
                verdict = await task.evaluate(judge)
            finally:
                await task.teardown(judge)
        with contextlib.suppress(CuaError):
            await asyncio.to_thread(write_build_report, folder, made.reason)
        return End(
            status="succeeded" if verdict.score == 1 else "failed",
            score=verdict.score,
            reason=made.reason,
            other_scores=verdict.other_scores,
        )

    async def _build(self, folder: BuildFolder, task: SiteTask, judge: Judge, run: RunScope) -> Build:
        assert task.order is not None
        rounds = task.order.max_rounds if self._rounds is None else self._rounds
        order = replace(task.order, max_rounds=rounds)
        await asyncio.to_thread(folder.begin, order, {"author": self._model})
        author: Author
        if self._model.startswith(_BASELINE):
            author = BaselineAuthor(self._model.removeprefix(_BASELINE))
        else:
            runs_dir = folder.path / "runs"
            author = make_author(judge, model=self._model, scope=run, runs_dir=runs_dir, **self._settings)
        try:
            return await build(folder, order, author, judge, lambda line: None)
        finally:
            await author.close()
