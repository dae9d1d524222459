"""Acts of a recording, done on the page built from it: the check of the score's part `interactions`.

    python -m benchmarks.video2web acts [NAME ...] [--forms playwright,5,10,25] [--folder FOLDER]

The pages are those of `benchmarks/web_recordings/acts`, recorded by Playwright (`record_video_dir`), and the same
videos encoded at constant rates. The site is the draft of the rules. Each act of the recording is done at the same
place on the built page, in order, in one window. An act works if the words that it brings on the original are visible
in their place, the words that it takes away are not, and the others remain. Neither the score nor the facts are used.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from apps.video2web.build import SiteEvaluator
from apps.video2web.inputs import SiteInputs, read_inputs
from apps.video2web.render import ORIGIN, Renderer, SitePages
from apps.video2web.rounds import BuildRequest
from apps.video2web.rules_author import LiteralAuthor
from benchmarks.web_recordings.filming import VideoForm
from benchmarks.web_recordings.playwright_video import (
    DoneAct,
    VisibleWord,
    do_act,
    page_names,
    record_acts,
    see_words,
    take_ffmpegs_place,
    write_form,
)
from cua.errors import CuaError

FORMS = ("playwright", "5", "10", "25")
_POINTERS = ("arrow", "dark arrow", "hand", "none")
_SAME_PX, _NEAR_PX, _ALONG_PX = 6, 24, 70
_ALIKE = 0.7
_MIN_COME, _MAX_LEFT, _MIN_KEPT = 0.8, 0.2, 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class ActResult:
    """Result of an act on the built page.

    Attributes:
        come: Share of the words brought by the act on the original that are in their place.
        left: Share of the words taken away by it that are still in their place.
        kept: Share of the other words that are in their place.
    """

    come: float
    left: float
    kept: float

    @property
    def works(self) -> bool:
        """True if a reader finds the same."""
        return self.come >= _MIN_COME and self.left <= _MAX_LEFT and self.kept >= _MIN_KEPT


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResult:
    """Results of a recording.

    Attributes:
        name: Name of the page, and the form of its video.
        acts: Results of the acts.
        interactions: Part `interactions` of the score; None if no interaction was found.
        why: Reason why there is no site; "" if there is one.
        seconds: Time to read the recording and to write the site.
    """

    name: str
    acts: tuple[ActResult, ...]
    interactions: float | None = None
    why: str = ""
    seconds: float = 0.0


def compare_words(act: DoneAct, ours: Sequence[VisibleWord]) -> ActResult:
    """Compare the words visible after an act with those of the original."""
    come = [word for word in act.after if not _is_among(word, act.before, _SAME_PX, _SAME_PX, 1.0)]
    gone = [word for word in act.before if not _is_among(word, act.after, _SAME_PX, _SAME_PX, 1.0)]
    kept = [word for word in act.after if _is_among(word, act.before, _SAME_PX, _SAME_PX, 1.0)]
    gone = [word for word in gone if not _is_among(word, act.after, _NEAR_PX, _ALONG_PX, _ALIKE)]
    return ActResult(come=_share(come, ours, 1.0), left=_share(gone, ours, 0.0), kept=_share(kept, ours, 1.0))


def _share(words: Sequence[VisibleWord], ours: Sequence[VisibleWord], empty: float) -> float:
    """Return the share of the letters in words that are found in their place; `empty` without words."""
    found = sum(len(word.text) for word in words if _is_among(word, ours, _NEAR_PX, _ALONG_PX, _ALIKE))
    return found / sum(len(word.text) for word in words) if words else empty


def _is_among(word: VisibleWord, others: Sequence[VisibleWord], down_px: float, along_px: float, alike: float) -> bool:
    return any(
        abs(other.y_px - word.y_px) <= down_px
        and abs(other.x_px - word.x_px) <= along_px
        and (
            other.text == word.text
            or (alike < 1 and SequenceMatcher(None, word.text, other.text).ratio() >= alike)
            or (alike < 1 and len(word.text) > 3 and word.text in other.text)
        )
        for other in others
    )


async def try_acts(
    renderer: Renderer, files: dict[str, bytes], acts: Sequence[DoneAct], viewport_px: tuple[int, int]
) -> tuple[ActResult, ...]:
    """Do the acts of a recording on a site, in order, and compare what is visible after each."""
    results = []
    async with renderer.context(SitePages(files), viewport_px) as context:
        page = await context.new_page()
        await page.goto(ORIGIN)
        await asyncio.sleep(0.5)
        for act in acts:
            await do_act(page, act.how, (act.x_px, act.y_px), act.by_px)
            results.append(compare_words(act, await see_words(page)))
    return tuple(results)


async def _measure(evaluator: SiteEvaluator, name: str, video: Path, acts: Sequence[DoneAct]) -> PageResult:
    began = time.monotonic()
    try:
        given: SiteInputs = await asyncio.to_thread(read_inputs, [video], None)
    except CuaError as error:
        return PageResult(name=name, acts=tuple(ActResult(come=0, left=1, kept=0) for _ in acts), why=str(error))
    request = BuildRequest(
        pages=given.pages, viewport_px=given.viewport_px, interactions=given.interactions, recorded=given.recorded
    )
    files = dict((await LiteralAuthor().draft(request)).files)
    seconds = time.monotonic() - began
    score, _, _ = await evaluator.score_site(request, files)
    results = await try_acts(evaluator.renderer, files, acts, given.viewport_px)
    return PageResult(name=name, acts=results, interactions=score.interactions, seconds=seconds)


def tell(results: Sequence[PageResult]) -> str:
    """Return the table of the results."""
    lines = ["| recording | acts that work | interactions of the score | seconds |", "|---|---:|---:|---:|"]
    for one in results:
        worked = f"{sum(act.works for act in one.acts)} of {len(one.acts)}"
        score = "none found" if one.interactions is None else f"{one.interactions:.3f}"
        lines.append(f"| {one.name} | {worked} | {one.why or score} | {one.seconds:.0f} |")
    lines.append("")
    for form in dict.fromkeys(one.name.split(", ")[1] for one in results):
        acts = [act.works for one in results if one.name.endswith(f", {form}") for act in one.acts]
        lines.append(f"{form}: {sum(acts)} of {len(acts)} acts work ({100 * sum(acts) / max(len(acts), 1):.0f} %)")
    return "\n".join(lines)


async def run_acts(names: Sequence[str], forms: Sequence[str], folder: Path | None) -> None:
    """Record the pages, build them and print the table."""
    with tempfile.TemporaryDirectory() as scratch:
        home = folder or Path(scratch)
        home.mkdir(parents=True, exist_ok=True)
        take_ffmpegs_place(home / "playwright")
        results = []
        async with SiteEvaluator() as evaluator:
            for name in names or page_names():
                pointer = _POINTERS[page_names().index(name) % len(_POINTERS)]
                video, acts = await record_acts(evaluator.renderer, name, home, pointer)
                for form in forms:
                    path = video
                    if form != "playwright":
                        wanted = VideoForm(codec="h264", fps=int(form))
                        path = await asyncio.to_thread(write_form, video, wanted, home / f"{name}-{form}.mp4")
                    title = "Playwright" if form == "playwright" else f"{form} fps"
                    results.append(await _measure(evaluator, f"{name} ({pointer}), {title}", path, acts))
                    print(tell(results[-1:]).splitlines()[2], results[-1].acts, flush=True)
    print(tell(results))
