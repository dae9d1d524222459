"""Editing of an existing site by a model on request; a change that breaks a page is rolled back."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from apps.video2web.build import Build, Say, SiteEvaluator
from apps.video2web.inputs import MAX_PAGES, VIEWPORT_PX
from apps.video2web.model_author import SITE, ModelAuthor
from apps.video2web.render import Rendering
from apps.video2web.rounds import BuildFolder, BuildRequest, Proposal, Round
from apps.video2web.score import rendered_reference
from apps.video2web.site_files import Files, read_site, write_site

MAX_TRIES = 2  # a model that breaks the site twice is not asked again


async def edit_site(
    site: Path,
    instruction: str,
    folder: BuildFolder,
    author: ModelAuthor,
    evaluator: SiteEvaluator,
    *,
    viewport_px: tuple[int, int] = VIEWPORT_PX,
    say: Say = print,
) -> Build:
    """Let a model change a site. The score of a round measures how much looks as before, not how good it is.

    Args:
        site: The site's folder; written only when the change is accepted.
        instruction: The requested change, in words.
        folder: Folder for the rounds; not begun yet.
        author: The model.
        evaluator: Renders the pages before and after.
        viewport_px: Width and height of the viewport.
        say: Callback for each line of progress.

    Raises:
        CuaError: If the site cannot be read, or a page cannot be shown.
    """
    files = read_site(site)
    request, before = await request_for_site(files, evaluator, viewport_px, instruction)
    folder.begin(request, {"author": author.name})
    start = await _score_round(request, evaluator, Proposal(files=files, summary="the site before"), 0)
    kept = [folder.keep(start, request)]
    images, question, reason = _shown(folder), _question(request), "the change was taken back"
    for number in range(1, MAX_TRIES + 1):
        started = time.monotonic()
        proposal = await author.propose(request, files, question, images)
        tried = await _score_round(request, evaluator, proposal, number, started)
        why = _why_refused(files, proposal.files, before, tried.renderings)
        tried = replace(tried, verdict="rolled back") if why else tried
        kept.append(folder.keep(tried, request))
        say(f"try {number}: {why or 'kept'}: {proposal.summary}")
        if not why:
            write_site(proposal.files, site)
            return _make_build(kept, number, "the change was made", folder)
        reason = f"the change was taken back: {why}"
        if proposal.stop:
            return _make_build(kept, 0, f"{reason}; {proposal.stop}", folder)
        question, images = f"The change was taken back: {why}. {SITE}/ is as before; try again. {question}", []
    return _make_build(kept, 0, reason, folder)


async def request_for_site(
    files: Files, evaluator: SiteEvaluator, viewport_px: tuple[int, int], instruction: str = ""
) -> tuple[BuildRequest, tuple[Rendering, ...]]:
    """Return the pages of a site as an order to preserve, and their renderings.

    Raises:
        CuaError: If a page cannot be shown.
    """
    names = [name for name in files if name.endswith(".html") and "/" not in name]
    names = sorted(names, key=lambda name: (name != "index.html", name))[:MAX_PAGES]
    shown = tuple([await evaluator.render(files, name, viewport_px) for name in names])
    pages = tuple(rendered_reference(page, name) for page, name in zip(shown, names, strict=True))
    request = BuildRequest(
        pages=pages, viewport_px=viewport_px, goal=1, max_rounds=MAX_TRIES, instruction=instruction, files=tuple(names)
    )
    return request, shown


def _make_build(kept: Sequence[dict[str, Any]], best: int, reason: str, folder: BuildFolder) -> Build:
    return Build(rounds=tuple(kept), best=best, reason=reason, is_goal_met=best > 0, folder=folder.path)


async def _score_round(
    request: BuildRequest, evaluator: SiteEvaluator, proposal: Proposal, number: int, started: float | None = None
) -> Round:
    score, findings, renderings = await evaluator.score_site(request, proposal.files)
    return Round(
        number=number,
        base=0,
        verdict="kept",
        score=score,
        proposal=proposal,
        findings=findings,
        renderings=renderings,
        seconds=time.monotonic() - started if started is not None else 0.0,
    )


def _why_refused(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    shown_before: Sequence[Rendering],
    shown_after: Sequence[Rendering | None],
) -> str:
    if dict(before) == dict(after):
        return "nothing was changed"
    for old, new in zip(shown_before, shown_after, strict=True):
        if new is None:
            return "a page cannot be shown any more"
        fresh = [problem for problem in new.problems if problem not in old.problems]
        if fresh:
            return f"the browser complains: {fresh[0]}"
        if new.overflow_px > old.overflow_px:
            return f"a page is {new.overflow_px} px wider than its window"
    return ""


def _question(request: BuildRequest) -> str:
    listed = ", ".join(f"{SITE}/{name}" for name in request.names)
    return (
        f"{listed} in the working folder are a site that is in use; its images are above. The user wishes this change: "
        f"{request.instruction}\nCarry it out, and leave all else as it is. compare_site shows the difference from the "
        "site before: nothing but what the wish asks for should. Then say in one sentence what you changed."
    )


def _shown(folder: BuildFolder) -> list[Path]:
    return [path for path in sorted(folder.round_dir(0).glob("*.png")) if "difference" not in path.name]
