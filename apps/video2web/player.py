"""How an episode of a suite of sites is played: by an author in the loop of `cua web build`, or by a baseline."""

import asyncio
import base64
import contextlib
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.video2web.build import Author, Build, Judge, build
from apps.video2web.layout.pieces import read_page
from apps.video2web.model_author import make_author
from apps.video2web.report import write_build_report
from apps.video2web.rounds import BuildFolder, Order, Proposal, Round
from apps.video2web.suite import SiteTask
from cua.batch import Episode
from cua.errors import ConfigError, CuaError, TaskError
from cua.run.budget import Caps
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.run_files import make_run_dir
from envs.errors import did_you_mean
from visual_tools.ink import find_background

Pixels = NDArray[np.uint8]
_DONE = "it changes nothing"
_BASELINE = "baseline:"


def write_blank(image: Pixels) -> str:
    """Nothing."""
    return "<!doctype html><title>blank</title>"


def write_background(image: Pixels) -> str:
    """The image itself, without a word."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(image).save(written, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
    height, width = image.shape[:2]
    style = f"margin:0;width:{width}px;height:{height}px;background:url({url})"
    return f'<!doctype html><title>image</title><body style="{style}">'


def write_text(image: Pixels) -> str:
    """What is read, in black, each line at its place, on the page's colour."""
    red, green, blue = find_background(image).tolist()
    spans = "".join(
        f'<p style="position:absolute;margin:0;white-space:nowrap;left:{line.box_px.left}px;top:{line.box_px.top}px;'
        f'font:{line.box_px.height}px/1 sans-serif">{escape(line.text)}</p>'
        for line in read_page(image)
    )
    return f'<!doctype html><body style="margin:0;background:rgb({red},{green},{blue})">{spans}'


WRITERS: Mapping[str, Callable[[Pixels], str]] = {
    "null": write_blank,
    "image": write_background,
    "text": write_text,
}
"""By the name of the baseline."""


class BaselineAuthor:
    """Writes each page by one of `WRITERS`, and leaves it so.

    Args:
        kind: Which.
    """

    def __init__(self, kind: str) -> None:
        self.name = f"baseline:{kind}"
        self._write = WRITERS[kind]

    async def draft(self, order: Order) -> Proposal:
        """The pages."""
        files = {
            name: (await asyncio.to_thread(self._write, page.image)).encode()
            for name, page in zip(order.names, order.pages, strict=True)
        }
        return Proposal(files=files, said=f"written by {self.name}", stop=_DONE)

    async def mend(self, order: Order, best: Round, last: Round, folder: Path) -> Proposal:
        """The same again: nothing is gained."""
        return Proposal(files=best.proposal.files, said=_DONE, stop=_DONE)

    async def close(self) -> None:
        """Nothing to let go."""


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
                score = await task.evaluate(judge)
            finally:
                await task.teardown(judge)
        with contextlib.suppress(CuaError):
            await asyncio.to_thread(write_build_report, folder, made.reason)
        return End(
            status="succeeded" if score >= 1 else "failed",
            score=score,
            reason=made.reason,
            other_scores=task.other_scores,
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
