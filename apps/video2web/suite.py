"""The suite `video2web`: copy a page from its image, or a site from its recording.

Authors see images only. A page is then scored against its HTML, a recording against its pages and interactions;
docs/web.md describes the score. An author of `cua web build`, or a baseline, plays an episode in its own folder.
"""

import asyncio
import base64
import contextlib
import functools
import io
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from html import escape
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from apps.video2web.build import Author, Build, SiteEvaluator, build
from apps.video2web.inputs import find_demo, read_inputs
from apps.video2web.layout.reading import read_page
from apps.video2web.model_author import make_author
from apps.video2web.pixels import RgbImage
from apps.video2web.render import Renderer, Rendering, SiteFiles
from apps.video2web.report import write_build_report
from apps.video2web.rounds import BuildFolder, BuildRequest, Proposal, Round, viewport_of
from apps.video2web.score import PARTS, SiteScore, no_page, read_reference, rendered_reference, score_page
from apps.video2web.site_files import Files
from cua.batch import Episode
from cua.errors import ConfigError, CuaError, TaskError
from cua.run.budget import Caps
from cua.run.end import End, RunResult
from cua.run.scope import RunScope
from cua.trajectory.disk import translate_os_errors
from cua.trajectory.run_files import make_run_dir
from envs.env import EnvSpec, Task, TaskSpec, TaskVerdict
from envs.errors import did_you_mean
from envs.suite import FAMILY, LABELS, Baseline, Suite
from visual_tools.ink import find_background

REVISION = "2"  # 2: the score has the part `kept`
KINDS = tuple("landing shop dashboard form article table gallery pricing dark right-to-left phone".split())
DRAWN_SEEDS = (100, 101, 102, 103)
"""Seeds of the pages in `data/pages`, which are held out while rules are developed."""

RECORDINGS = ("cards", "menus", "dialog", "accordion", "tabs", "carousel", "sidebar", "demo")
ROUNDS, EPISODE_S = 4, 900.0
_VIEWPORT_PX, _PHONE_PX = (1280, 720), (390, 844)
_HERE = "see docs/web.md"
Begin = Callable[[Renderer], Awaitable[tuple[BuildRequest, Rendering | None]]]
"""Function that returns the order, and the rendered original page if it is known."""

_PAGES = "cua eval video2web --suite-option packages=FOLDER --tasks 'drawn/*' --tasks 'packages/*' --baseline"
_BASELINES = {
    "null": Baseline(score=0.0, num_episodes=68, command=f"{_PAGES} null"),  # nothing of a page is kept
}
_DONE = "it changes nothing"
_BASELINE = "baseline:"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """Page from a third-party package.

    Attributes:
        name: Name of its task.
        package: Name and version as in its registry.
        page: Its file, relative to `root`.
        root: Folder that its URLs start from, relative to the package's.
        licence: Licence of the package.
    """

    name: str
    package: str
    page: str
    root: str
    licence: str


async def _begin_page(
    root: Path, path: str, viewport_px: tuple[int, int], renderer: Renderer
) -> tuple[BuildRequest, Rendering]:
    """Return an order for the image of an HTML page, and the rendered page as ground truth."""
    truth = await renderer.render(SiteFiles(root), viewport_px, path=path)
    page = await asyncio.to_thread(read_reference, truth.image, "page.png")
    return BuildRequest(pages=(page,), viewport_px=viewport_px, goal=1, max_rounds=ROUNDS), truth


async def _begin_recording(path: Path, renderer: Renderer) -> tuple[BuildRequest, None]:
    """Return an order for a recording, whose acts are replayed."""
    given = await asyncio.to_thread(read_inputs, [path], None)
    request = BuildRequest(
        pages=given.pages, viewport_px=given.viewport_px, goal=1, max_rounds=ROUNDS, interactions=given.interactions
    )
    return request, None


class SiteTask(Task):
    """Task to build one site. Its environment is a `SiteEvaluator`, since there is no screen.

    Args:
        spec: Specification of the task.
        begin: Function that renders or reads the original.

    Attributes:
        request: Order of the site; available after `setup`.
        site: Built site; the player sets it before `evaluate`.
    """

    instruction = "Build a site that looks like the images of its pages, and does what was recorded."

    def __init__(self, spec: TaskSpec, begin: Begin) -> None:
        self.spec = spec
        self.request: BuildRequest | None = None
        self.site: Files = {}
        self._begin = begin
        self._truth: Rendering | None = None

    async def setup(self, env: SiteEvaluator) -> None:
        """Render or read the original.

        Raises:
            CuaError: If the original cannot be shown.
        """
        self.request, self._truth = await self._begin(env.renderer)

    async def evaluate(self, env: SiteEvaluator) -> TaskVerdict:
        """Return the score of `site` and its parts: against the HTML of the page, or the recording."""
        assert self.request is not None, "setup comes first"
        if self._truth is None:
            score, _, _ = await env.score_site(self.request, self.site)
        else:
            reference = await asyncio.to_thread(rendered_reference, self._truth, "page")
            try:
                ours = await env.render(self.site, self.request.names[0], viewport_of(self.request, reference))
            except CuaError as error:
                page = no_page(reference, str(error))
            else:
                page = await asyncio.to_thread(score_page, reference, ours)
            score = SiteScore(pages=(page,))
        return TaskVerdict(min(score.score, 1.0), other_scores=dict(_parts(score)))


def _parts(score: SiteScore) -> Iterator[tuple[str, float]]:
    pages = [page.to_json() for page in score.pages]
    for part in PARTS:
        known = [page[part] for page in pages if page.get(part) is not None]
        if known:
            yield part, min(sum(known) / len(known), 1.0)
    if score.interactions is not None:
        yield "interactions", score.interactions


# ------------------------------------------------------------------ the suite


def make_suite(packages: str = "", recordings: str = "yes") -> Suite:
    """Make a suite of pages and recordings to copy: from this package, and pages of other installed packages.

    Args:
        packages: Folder with npm packages, each under its own name, as `python -m benchmarks.video2web fetch FOLDER`
            creates it; "": only pages of Python packages.
        recordings: `yes`, or `no` to leave them out.

    Raises:
        ValueError: If a value is not supported.
    """
    if recordings not in ("yes", "no"):
        raise ValueError(f"recordings is {recordings!r}, expected yes or no")
    if packages and not Path(packages).is_dir():
        raise ValueError(f"packages is {packages!r}, which is not a folder; create it with: python -m "
                         f"benchmarks.video2web fetch {packages}")  # fmt: skip
    package_pages = dict(_find_pages(Path(packages) if packages else None))
    missing = [page for page in known_pages() if page.name not in package_pages]
    drawn = [f"drawn/{kind}-{seed}" for kind in KINDS for seed in DRAWN_SEEDS]
    brought = [f"packages/{name}" for name in package_pages]
    recorded = [f"recordings/{name}" for name in RECORDINGS] if recordings == "yes" else []
    return Suite(
        name="video2web",
        about=f"Sites from images: {len(drawn)} pages drawn, {len(brought)} of packages, {len(recorded)} recordings",
        task_ids=(*drawn, *brought, *recorded),
        make_task=functools.partial(_make_task, package_pages),
        revision=REVISION,
        max_steps=ROUNDS,
        max_time_s=EPISODE_S,
        left_out=f"{len(missing)} pages of packages that are not here, such as {missing[0].package}; {_HERE}"
        if missing
        else "",
        agents=("web",),
        baselines=_BASELINES,
    )


def _make_task(package_pages: dict[str, tuple[Path, str]], task_id: str, seed: int | None) -> SiteTask:
    family, _, name = task_id.partition("/")
    kind, _, number = name.rpartition("-")
    begin: Begin
    if family == "drawn" and kind in KINDS and number in map(str, DRAWN_SEEDS):
        window = _PHONE_PX if kind == "phone" else _VIEWPORT_PX
        begin = functools.partial(_begin_page, _data("pages"), f"/{name}.html", window)
    elif family == "packages" and name in package_pages:
        root, path = package_pages[name]
        begin, kind = functools.partial(_begin_page, root, f"/{path}", _VIEWPORT_PX), name
    elif family == "recordings" and name in RECORDINGS:
        film = find_demo() if name == "demo" else _data(f"{name}.webm")
        begin, kind = functools.partial(_begin_recording, film), name
    else:
        raise ValueError(f"the suite video2web has no task {task_id!r} here; expected one such as 'drawn/landing-100'")
    metadata = {FAMILY: family, LABELS: {"kind": kind}} if family == "drawn" else {FAMILY: family}
    return SiteTask(TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="browser"), metadata=metadata), begin)


def known_pages() -> tuple[KnownPage, ...]:
    """Return the pages of packages that the suite includes if the packages are installed."""
    return tuple(KnownPage(**entry) for entry in json.loads(_data("packages.json").read_text("utf-8")))


def _data(*names: str) -> Path:
    return Path(str(resources.files("apps.video2web").joinpath("data", *names)))


def _find_pages(folder: Path | None) -> Iterator[tuple[str, tuple[Path, str]]]:
    """Yield the task name, root folder and file of the available pages."""
    for page in known_pages():
        registry, _, package = page.package.partition(":")
        name = package.rpartition("@")[0]
        if registry == "pypi":
            try:
                base = Path(str(metadata.distribution(name).locate_file("")))
            except metadata.PackageNotFoundError:
                continue
        elif folder is not None:
            base = folder / package
        else:
            continue
        root = base / page.root
        if (root / page.page).is_file():
            yield page.name, (root, page.page)


def write_blank(image: RgbImage) -> str:
    """Return an empty page."""
    return "<!doctype html><title>blank</title>"


def write_background(image: RgbImage) -> str:
    """Return a page with the image itself, without text."""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(image).save(written, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
    height, width = image.shape[:2]
    style = f"margin:0;width:{width}px;height:{height}px;background:url({url})"
    return f'<!doctype html><title>image</title><body style="{style}">'


def write_text(image: RgbImage) -> str:
    """Return a page with the text read from the image, in black, each line at its position, on the page's colour."""
    red, green, blue = find_background(image).tolist()
    spans = "".join(
        f'<p style="position:absolute;margin:0;white-space:nowrap;left:{line.box_px.left}px;top:{line.box_px.top}px;'
        f'font:{line.box_px.height}px/1 sans-serif">{escape(line.text)}</p>'
        for line in read_page(image)
    )
    return f'<!doctype html><body style="margin:0;background:rgb({red},{green},{blue})">{spans}'


WRITERS: Mapping[str, Callable[[RgbImage], str]] = {"null": write_blank, "image": write_background, "text": write_text}
"""Writers by name of the baseline."""


class BaselineAuthor:
    """Writes each page with one of `WRITERS`, without further changes.

    Args:
        kind: Name of the writer.
    """

    def __init__(self, kind: str) -> None:
        self.name = f"baseline:{kind}"
        self._write = WRITERS[kind]

    async def draft(self, request: BuildRequest) -> Proposal:
        """Write the pages."""
        files = {
            name: (await asyncio.to_thread(self._write, page.image)).encode()
            for name, page in zip(request.names, request.pages, strict=True)
        }
        return Proposal(files=files, summary=f"written by {self.name}", stop=_DONE)

    async def revise(self, request: BuildRequest, best: Round, last: Round, folder: Path) -> Proposal:
        """Return the draft again, without any gain."""
        return Proposal(files=best.proposal.files, summary=_DONE, stop=_DONE)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""


class SitePlayer:
    """`Player` for authors of sites. The steps of an episode are its rounds after the draft.

    Args:
        runs_dir: Folder of the builds.
        model: `literal`, `baseline:KIND`, or a model as in the settings.
        max_steps: Rounds after the draft; None: the task's limit.
        max_time: Time limit of an episode in seconds.
        settings: Settings of the model and its agent, by name.
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
        """Build one site and score it.

        Raises:
            CuaError: If a setting is wrong, or the folder cannot be written.
            EnvError: If there is no browser.
        """
        task = episode.make_task()
        if not isinstance(task, SiteTask):
            raise ConfigError(f"the task {episode.task_id!r} does not build a site")
        with translate_os_errors("write", self._runs_dir):
            folder = BuildFolder(make_run_dir(self._runs_dir, episode.task_id, time.time()))
        run = scope.make_run(Caps(max_steps=None, max_time_s=self._time_s))
        run.begin(task.instruction)
        rounds: list[Build] = []
        end = await run.run_to_end(lambda: run.control.unless_stopped(self._play(task, folder, run, rounds)))
        result = await run.finish(end, len(rounds[0].rounds) - 1 if rounds else 0)
        return replace(result, run_dir=str(folder.path))

    async def _play(self, task: SiteTask, folder: BuildFolder, run: RunScope, rounds: list[Build]) -> End:
        async with SiteEvaluator() as evaluator:
            try:
                await task.setup(evaluator)
            except CuaError as error:
                raise TaskError(f"the task cannot be set up: {error}") from error
            try:
                result = await self._build(folder, task, evaluator, run)
                rounds.append(result)
                task.site = await asyncio.to_thread(folder.site, result.best)
                verdict = await task.evaluate(evaluator)
            finally:
                await task.teardown(evaluator)
        with contextlib.suppress(CuaError):
            await asyncio.to_thread(write_build_report, folder, result.reason)
        return End(
            status="succeeded" if verdict.score == 1 else "failed",
            score=verdict.score,
            reason=result.reason,
            other_scores=verdict.other_scores,
        )

    async def _build(self, folder: BuildFolder, task: SiteTask, evaluator: SiteEvaluator, run: RunScope) -> Build:
        assert task.request is not None
        rounds = task.request.max_rounds if self._rounds is None else self._rounds
        request = replace(task.request, max_rounds=rounds)
        await asyncio.to_thread(folder.begin, request, {"author": self._model})
        author: Author
        if self._model.startswith(_BASELINE):
            author = BaselineAuthor(self._model.removeprefix(_BASELINE))
        else:
            runs_dir = folder.path / "runs"
            author = make_author(evaluator, model=self._model, scope=run, runs_dir=runs_dir, **self._settings)
        try:
            return await build(folder, request, author, evaluator, lambda line: None)
        finally:
            await author.close()
