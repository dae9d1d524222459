"""The suite `video2web`: copy a page from its image, or a site from its recording.

Authors see images only. A page is then judged against its HTML, a recording against what was seen in it; the score is
that of docs/web.md.
"""

import asyncio
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Any, Protocol

from apps.video2web.build import Judge
from apps.video2web.inputs import find_demo, read_inputs
from apps.video2web.render import Renderer, Rendering, SiteFiles
from apps.video2web.rounds import Order, viewport_of
from apps.video2web.score import PARTS, SiteScore, no_page, read_reference, rendered_reference, score_page
from apps.video2web.site_files import Files
from cua.errors import CuaError
from envs.env import EnvSpec, TaskSpec
from envs.suite import FAMILY, LABELS, Baseline, Suite

REVISION = "1"
KINDS = ("landing shop dashboard form article table gallery pricing dark right-to-left phone").split()
DRAWN_SEEDS = (100, 101, 102, 103)
"""Seeds of the pages in `data/pages`, which are not looked at while rules are written."""

RECORDINGS = ("cards", "menus", "dialog", "accordion", "tabs", "carousel", "sidebar", "demo")
ROUNDS, EPISODE_S = 4, 900.0
_VIEWPORT_PX, _PHONE_PX = (1280, 720), (390, 844)
_HERE = "see docs/web.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """A page that somebody else's package brings.

    Attributes:
        name: What its task is called.
        package: Name and version, as its registry has them.
        page: Its file, below the folder that its addresses start from.
        root: That folder, below the package's.
        licence: The package's.
    """

    name: str
    package: str
    page: str
    root: str
    licence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A task that was set up: what is ordered, and the page as it is in truth, where that is known."""

    order: Order
    truth: Rendering | None = None


class Source(Protocol):
    """Where a task's page comes from."""

    async def begin(self, renderer: Renderer) -> Begun:
        """Render or read what is to be copied."""
        ...


@dataclass(frozen=True, slots=True)
class PageSource:
    """An HTML file of this package or of another one."""

    site: SiteFiles
    path: str
    viewport_px: tuple[int, int]

    async def begin(self, renderer: Renderer) -> Begun:
        """Its image is ordered, its HTML the truth."""
        truth = await renderer.render(self.site, self.viewport_px, path=self.path)
        return Begun(order=await asyncio.to_thread(_order_of, truth, self.viewport_px), truth=truth)


def _order_of(truth: Rendering, viewport_px: tuple[int, int]) -> Order:
    return Order(pages=(read_reference(truth.image, "page.png"),), viewport_px=viewport_px, goal=1, max_rounds=ROUNDS)


@dataclass(frozen=True, slots=True)
class RecordingSource:
    """A recording of this package, ordered as it is read; its acts are replayed."""

    path: Path

    async def begin(self, renderer: Renderer) -> Begun:
        """Read it."""
        given = await asyncio.to_thread(read_inputs, [self.path], None)
        order = Order(
            pages=given.pages,
            viewport_px=given.viewport_px,
            goal=1,
            max_rounds=ROUNDS,
            interactions=given.interactions,
        )
        return Begun(order=order)


class SiteTask:
    """One site to build; implements `envs.env.Task`. Its environment is a `Judge`, since there is no screen.

    Args:
        spec: Which task it is.
        source: Where its page comes from.

    Attributes:
        order: What is to be built; after `setup`.
        site: What was built; whoever plays sets it before `evaluate`.
        other_scores: The parts of the score.
    """

    instruction = "Build a site that looks like the images of its pages, and does what was recorded."

    def __init__(self, spec: TaskSpec, source: Source) -> None:
        self.spec = spec
        self.order: Order | None = None
        self.site: Files = {}
        self.other_scores: dict[str, float] = {}
        self._source = source
        self._truth: Rendering | None = None

    async def setup(self, env: Judge) -> None:
        """Render or read what is to be copied.

        Raises:
            CuaError: It cannot be shown.
        """
        begun = await self._source.begin(env.renderer)
        self.order, self._truth = begun.order, begun.truth

    async def evaluate(self, env: Judge) -> float:
        """The score of `site`: against the HTML of the page, or the recording."""
        assert self.order is not None, "setup comes first"
        if self._truth is None:
            score, _, _ = await env.judge(self.order, self.site)
        else:
            reference = await asyncio.to_thread(rendered_reference, self._truth, "page")
            try:
                ours = await env.render(self.site, self.order.names[0], viewport_of(self.order, reference))
            except CuaError as error:
                page = no_page(reference, str(error))
            else:
                page = await asyncio.to_thread(score_page, reference, ours)
            score = SiteScore(pages=(page,))
        self.other_scores = dict(_parts(score))
        return min(score.score, 1.0)

    async def teardown(self, env: Any) -> None:
        """Nothing is left."""


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
    """Pages and recordings to copy: those of this package, and pages of other packages that are there.

    Args:
        packages: Folder with packages of npm, each below its own name, as `python -m benchmarks.video2web fetch FOLDER`
            puts them there; "": only what Python packages bring.
        recordings: `yes`, or `no` to leave them out.

    Raises:
        ValueError: A value that is not taken.
    """
    if recordings not in ("yes", "no"):
        raise ValueError(f"recordings is {recordings!r}, expected yes or no")
    if packages and not Path(packages).is_dir():
        raise ValueError(f"packages is {packages!r}, which is no folder; fill one with: python -m benchmarks.video2web "
                         f"fetch {packages}")  # fmt: skip
    found = dict(_find_pages(Path(packages) if packages else None))
    missing = [page for page in known_pages() if page.name not in found]
    drawn = [f"drawn/{kind}-{seed}" for kind in KINDS for seed in DRAWN_SEEDS]
    brought = [f"packages/{name}" for name in found]
    recorded = [f"recordings/{name}" for name in RECORDINGS] if recordings == "yes" else []
    return Suite(
        name="video2web",
        about=f"Sites from images: {len(drawn)} pages drawn, {len(brought)} of packages, {len(recorded)} recordings",
        task_ids=(*drawn, *brought, *recorded),
        make_task=functools.partial(_make_task, found),
        revision=REVISION,
        max_steps=ROUNDS,
        max_time_s=EPISODE_S,
        left_out=f"{len(missing)} pages of packages that are not here, such as {missing[0].package}; {_HERE}"
        if missing
        else "",
        agents=("web",),
        baselines=_BASELINES,
    )


_PAGES = "cua eval video2web --suite-option packages=FOLDER --tasks 'drawn/*' --tasks 'packages/*' --baseline"
_BASELINES = {
    "null": Baseline(score=0.080, num_episodes=68, command=f"{_PAGES} null"),
    "image": Baseline(score=0.200, num_episodes=68, command=f"{_PAGES} image"),
}


def _make_task(found: dict[str, tuple[Path, str]], task_id: str, seed: int | None) -> SiteTask:
    family, _, name = task_id.partition("/")
    kind, _, number = name.rpartition("-")
    source: Source
    if family == "drawn" and kind in KINDS and number in map(str, DRAWN_SEEDS):
        window = _PHONE_PX if kind == "phone" else _VIEWPORT_PX
        source = PageSource(SiteFiles(_data("pages")), f"/{name}.html", window)
    elif family == "packages" and name in found:
        root, path = found[name]
        source, kind = PageSource(SiteFiles(root), f"/{path}", _VIEWPORT_PX), name
    elif family == "recordings" and name in RECORDINGS:
        film = find_demo() if name == "demo" else _data(f"{name}.mp4")
        source, kind = RecordingSource(film), name
    else:
        raise ValueError(f"the suite video2web has no task {task_id!r} here; expected one such as 'drawn/landing-100'")
    told = {FAMILY: family, LABELS: {"kind": kind}} if family == "drawn" else {FAMILY: family}
    return SiteTask(TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="browser"), metadata=told), source)


def known_pages() -> tuple[KnownPage, ...]:
    """The pages of packages that the suite has where the packages are there."""
    return tuple(KnownPage(**entry) for entry in json.loads(_data("packages.json").read_text("utf-8")))


def _data(*names: str) -> Path:
    return Path(str(resources.files("apps.video2web").joinpath("data", *names)))


def _find_pages(folder: Path | None) -> Iterator[tuple[str, tuple[Path, str]]]:
    """Root folder and file of the pages that are here, by the name of their task."""
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
