"""Build loop of a site: draft, render, compare, fix, until the goal, no further gain, or the budget is reached.

Every round is kept in the build's folder. A round that does not raise the score is rolled back; the result is the site
of the best round.
"""

import asyncio
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from apps.video2web.compare import PageDifferences, find_differences
from apps.video2web.render import Renderer, Rendering, SitePages, open_page
from apps.video2web.replay import replay
from apps.video2web.rounds import BuildFolder, BuildRequest, Proposal, Round, Verdict, best_number, viewport_of
from apps.video2web.score import PARTS, PageScore, SiteScore, no_page, score_page
from apps.video2web.site_files import Files
from cua.errors import CuaError

PATIENCE = 2
"""Rounds without gain after which the build ends."""

MIN_GAIN = 0.0001  # of the score; smaller gains are noise of rendering and OCR
_AXE_S = 30.0  # a page with many elements takes seconds
_AXE_JS = "() => axe.run().then(({violations}) => violations.map((v) => [v.id, v.nodes.length]))"


class Author(Protocol):
    """Author of a site: rules or a model.

    Attributes:
        name: Name used in reports.
    """

    name: str

    async def draft(self, request: BuildRequest) -> Proposal:
        """Write a first version."""
        ...

    async def revise(self, request: BuildRequest, best: Round, last: Round, folder: Path) -> Proposal:
        """Change the best version to reduce the differences.

        Args:
            request: The pages to build.
            best: The version to start from.
            last: The latest round: the best one, or one that was rolled back.
            folder: The folder of the build, with the images of the best round.
        """
        ...

    async def close(self) -> None:
        """Release all resources. May be called twice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Result of a build.

    Attributes:
        rounds: All rounds as recorded in the folder.
        best: Number of the best round.
        reason: Reason why the build ended.
        is_goal_met: True if the best score reaches the goal and a reader of the page would miss nothing.
        folder: The folder of the build.
    """

    rounds: tuple[dict[str, Any], ...]
    best: int
    reason: str
    is_goal_met: bool
    folder: Path

    @property
    def score(self) -> float:
        """Score of the best round."""
        return float(self.rounds[self.best]["score"]["score"])


class SiteEvaluator:
    """Renders sites and scores them; use it with `async with`. A browser that a page blocks is replaced."""

    def __init__(self) -> None:
        self._renderer: Renderer | None = None

    async def __aenter__(self) -> "SiteEvaluator":
        self._renderer = await Renderer().__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        renderer, self._renderer = self._renderer, None
        if renderer is not None:
            await renderer.__aexit__()

    @property
    def renderer(self) -> Renderer:
        """Current browser."""
        if self._renderer is None:
            raise RuntimeError("use a SiteEvaluator with `async with`")
        return self._renderer

    async def score_site(
        self, request: BuildRequest, files: Files
    ) -> tuple[SiteScore, tuple[PageDifferences, ...], tuple[Rendering | None, ...]]:
        """Return the score, findings and images of a site, page by page."""
        scores: list[PageScore] = []
        findings: list[PageDifferences] = []
        renderings: list[Rendering | None] = []
        for reference, name in zip(request.pages, request.names, strict=True):
            try:
                ours = await self.render(files, name, viewport_of(request, reference))
            except CuaError as error:
                scores.append(no_page(reference, str(error)))
                height, width = reference.image.shape[:2]
                sizes = (width, height), (0, 0)
                findings.append(PageDifferences(page=reference.name, size_px=sizes, problems=(str(error),)))
                renderings.append(None)
                continue
            scores.append(await asyncio.to_thread(score_page, reference, ours))
            findings.append(await asyncio.to_thread(find_differences, reference, ours, scores[-1]))
            renderings.append(ours)
        acts = request.interactions
        replays = (
            await replay(self.renderer, SitePages(files), acts, request.names, request.viewport_px) if acts else ()
        )
        return SiteScore(pages=tuple(scores), replays=replays), tuple(findings), tuple(renderings)

    async def find_violations(self, files: Files, name: str, viewport_px: tuple[int, int]) -> list[str] | None:
        """Return the accessibility violations that axe-core finds; None where axe-core is not installed.

        Raises:
            CuaError: If the page cannot be shown.
        """
        if importlib.util.find_spec("axe_playwright_python") is None:
            return None
        axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(_AXE_S), self.renderer.context(SitePages(files), viewport_px) as context:
                page = await open_page(context, f"/{name}")
                await page.look(f"() => {{ {axe}; window.axe = axe; }}")
                violations = await page.look(_AXE_JS)
        except (Error, TimeoutError) as error:
            raise CuaError(
                f"{name} cannot be examined: {str(error).splitlines()[0] if str(error) else 'it hangs'}"
            ) from error
        return [f"{rule}: {count} elements" for rule, count in violations]

    async def render(self, files: Files, name: str, viewport_px: tuple[int, int]) -> Rendering:
        """Render a page of a site.

        Raises:
            CuaError: If the page does not exist or cannot be shown.
        """
        if name not in files:
            raise CuaError(f"there is no {name}; found {', '.join(sorted(files)[:5]) or 'no files'}")
        renderer = self.renderer
        try:
            return await renderer.render(SitePages(files), viewport_px, path=f"/{name}")
        except Exception as error:
            await self.__aexit__()
            await self.__aenter__()
            if isinstance(error, CuaError):
                raise
            from playwright.async_api import Error

            if not isinstance(error, Error):
                raise
            raise CuaError(f"the page {name} cannot be shown: {error.message.splitlines()[0]}") from error


Say = Callable[[str], None]


async def build(
    folder: BuildFolder, request: BuildRequest, author: Author, evaluator: SiteEvaluator, say: Say = print
) -> Build:
    """Build a site, or resume a build.

    Args:
        folder: Folder on which `begin` was called; rounds that it holds count.
        request: The pages to build.
        author: Author of the site.
        evaluator: Evaluator that scores the site.
        say: Callback for each line of progress.

    Raises:
        CuaError: If there is no draft.
    """
    kept = folder.rounds()
    best = last = await _load_best(folder, request, evaluator, kept)
    if best is None or last is None:
        started = time.monotonic()
        best = last = await _score_round(request, evaluator, await author.draft(request), 0, None, started)
        kept.append(folder.keep(best, request))
        say(_describe_round(kept[-1]))
    while not (reason := _why_over(request, kept, best)):
        started = time.monotonic()
        proposal = await author.revise(request, best, last, folder.path)
        last = await _score_round(request, evaluator, proposal, len(kept), best, started)
        kept.append(folder.keep(last, request))
        if last.verdict == "kept":
            best = last
        say(_describe_round(kept[-1]))
    for line in best.score.missing():
        say(f"not reproduced: {line}")
    if best.score.losses:
        reason += f"; a reader would miss: {best.score.losses}"
    is_met = _is_goal_met(request, best)
    return Build(rounds=tuple(kept), best=best.number, reason=reason, is_goal_met=is_met, folder=folder.path)


def _is_goal_met(request: BuildRequest, best: Round) -> bool:
    return best.score.score >= request.goal and not best.score.losses


async def examine(request: BuildRequest, evaluator: SiteEvaluator, files: Files) -> tuple[tuple[str, ...] | None, ...]:
    """Return what axe-core finds on each page; None for a page that cannot be shown, and without axe-core."""
    violations: list[tuple[str, ...] | None] = []
    for reference, name in zip(request.pages, request.names, strict=True):
        try:
            lines = (
                await evaluator.find_violations(files, name, viewport_of(request, reference)) if name in files else None
            )
        except CuaError:
            lines = None
        violations.append(None if lines is None else tuple(lines))
    return tuple(violations)


async def _score_round(
    request: BuildRequest, evaluator: SiteEvaluator, proposal: Proposal, number: int, best: Round | None, started: float
) -> Round:
    """Score a proposal and return its round; without a best round it is the draft, which is always kept."""
    score, findings, renderings = await evaluator.score_site(request, proposal.files)
    is_better = best is None or score.score >= best.score.score + MIN_GAIN
    verdict: Verdict = "kept" if is_better else "rolled back"
    if any(rendering is None for rendering in renderings) and verdict == "rolled back":
        verdict = "failed"
    return Round(
        number=number,
        base=best.number if best is not None else 0,
        verdict=verdict,
        score=score,
        proposal=proposal,
        findings=findings,
        renderings=renderings,
        violations=await examine(request, evaluator, proposal.files) if verdict == "kept" else (),
        seconds=time.monotonic() - started,
    )


async def _load_best(
    folder: BuildFolder, request: BuildRequest, evaluator: SiteEvaluator, kept: Sequence[Mapping[str, Any]]
) -> Round | None:
    """Render the best round of an earlier process again and return it; None if there is none."""
    number = best_number(kept)
    if number is None:
        return None
    facts, files = kept[number], folder.site(number)
    score, findings, renderings = await evaluator.score_site(request, files)
    return Round(
        number=number,
        base=int(facts["base"]),
        verdict="kept",
        score=score,
        proposal=Proposal(files=files, summary=str(facts["said"]), memory=facts["memory"]),
        findings=findings,
        renderings=renderings,
    )


def _why_over(request: BuildRequest, kept: Sequence[Mapping[str, Any]], best: Round) -> str:
    if _is_goal_met(request, best):
        return f"the goal of {request.goal:g} is reached"
    if kept[-1]["stop"]:
        return str(kept[-1]["stop"])
    without = len(kept) - 1 - best.number
    if without >= PATIENCE:
        return f"no gain in {without} rounds"
    if len(kept) > request.max_rounds:
        return f"all {request.max_rounds} rounds are used"
    return ""


def _describe_round(facts: Mapping[str, Any]) -> str:
    parts = facts["score"]["pages"][0]
    shown = " ".join(f"{name} {parts[name]:.3f}" for name in PARTS if parts.get(name) is not None)
    name = f"round {facts['number']}" if facts["number"] else "draft"
    verdict = "" if facts["verdict"] == "kept" else f", {facts['verdict']}"
    return f"{name}: {facts['score']['score']:.4f} ({shown}){verdict}, {facts['seconds']:.1f} s: {facts['said']}"
