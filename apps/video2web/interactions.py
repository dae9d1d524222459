"""What a recorded page does, done again on ours: is it there, by the same act, with the same end?

An interaction counts when the act changes the region that changed in the recording, and the region then is nearer to
the recorded end than half of the way from the recorded start. Acts that are replayed are `hover` and `click`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from apps.video2web.render import Renderer, Site, open_page
from cua.errors import CuaError
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images import load_image

if TYPE_CHECKING:
    from playwright.async_api import Page

MAX_INTERACTIONS = 20
_MIN_CLOSENESS, _MIN_CHANGE = 0.5, 0.6
_REDUCED = 4
_AT_ONCE = 3
_SETTLE_S, _MAX_WAIT_S, _LIMIT_S = 0.25, 2.0, 20.0
Trigger = Literal["hover", "click"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What the pointer does, in pixels of a window that is scrolled down by `scroll_px`."""

    trigger: Trigger
    x_px: int
    y_px: int
    scroll_px: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """A change of a page that was recorded.

    Attributes:
        kind: What it is called (`hover`, `menu`, `navigation`, ...).
        page: The page on which it begins, counted from 0.
        acts: What is done; the last act brings the change, those before it the state in which it is possible.
        box_px: What changes, in the window.
        before: The box before, (h, w, 3) uint8 RGB.
        after: The box after.
        duration_s: How long it takes.
        leads_to: The page that it leads to; None for a change within the page.
        end_page: The whole page in its end, where it is not taken back, (H, W, 3); None otherwise.
    """

    kind: str
    page: int
    acts: tuple[Act, ...]
    box_px: Box
    before: NDArray[np.uint8] = field(repr=False)
    after: NDArray[np.uint8] = field(repr=False)
    duration_s: float = 0.0
    leads_to: int | None = None
    end_page: NDArray[np.uint8] | None = field(default=None, repr=False)

    @property
    def act(self) -> Act:
        """What brings the change."""
        return self.acts[-1]

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"{self.act.trigger} at ({self.act.x_px}, {self.act.y_px + self.act.scroll_px}): {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of an interaction on our page.

    Attributes:
        interaction: What was done.
        is_there: Whether the page does the same.
        closeness: 1 where the region is as in the recorded end, 0 as in its start, less where it is neither.
        why: Why it does not count; "" when it does.
    """

    interaction: Interaction
    is_there: bool
    closeness: float
    why: str = ""


async def replay(
    renderer: Renderer,
    site: Site,
    interactions: Sequence[Interaction],
    names: Sequence[str],
    viewport_px: tuple[int, int],
) -> tuple[Replay, ...]:
    """Do what was recorded on a site, each interaction on a fresh page.

    Args:
        renderer: Shows it.
        site: Its files.
        interactions: What was recorded; the first `MAX_INTERACTIONS` count.
        names: The files of the pages.
        viewport_px: Width and height of the window.
    """
    places = asyncio.Semaphore(_AT_ONCE)

    async def try_one(one: Interaction) -> Replay:
        try:
            async with places, asyncio.timeout(_LIMIT_S):
                before, after = await _play(renderer, site, one, names[one.page], viewport_px)
        except (CuaError, TimeoutError) as error:
            return Replay(interaction=one, is_there=False, closeness=0, why=str(error) or "the page hangs")
        return judge_change(one, before, after)

    return tuple(await asyncio.gather(*(try_one(one) for one in interactions[:MAX_INTERACTIONS])))


async def _play(
    renderer: Renderer, site: Site, one: Interaction, name: str, viewport_px: tuple[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The window right before the act, the pointer in place for a click, and after it."""
    from playwright.async_api import Error

    try:
        async with renderer.context(site, viewport_px) as context:
            page = (await open_page(context, f"/{name}")).page
            for act in one.acts[:-1]:
                await _do(page, act)
                await _settle(page, _SETTLE_S)
            await _point(page, one.act, is_away=one.act.trigger == "hover")
            await _settle(page, _SETTLE_S)
            before = load_image(await page.screenshot())
            await _do(page, one.act)
            await _settle(page, min(one.duration_s, _MAX_WAIT_S) + _SETTLE_S)
            return before, load_image(await page.screenshot())
    except Error as error:
        raise CuaError(error.message.splitlines()[0]) from error


async def _point(page: "Page", act: Act, *, is_away: bool) -> None:
    await page.evaluate("top => window.scrollTo(0, top)", act.scroll_px)
    await page.mouse.move(*((0, 0) if is_away else (act.x_px, act.y_px)))


async def _do(page: "Page", act: Act) -> None:
    await _point(page, act, is_away=False)
    if act.trigger == "click":
        await page.mouse.down()
        await page.mouse.up()


async def _settle(page: "Page", seconds: float) -> None:
    await page.wait_for_timeout(1000 * seconds)
    await page.wait_for_load_state("load")


def judge_change(one: Interaction, before: NDArray[np.uint8], after: NDArray[np.uint8]) -> Replay:
    """Whether the window changed as it was recorded.

    Args:
        one: What was recorded.
        before: Our window before the act, (H, W, 3).
        after: Our window after it.
    """
    box = one.box_px.clipped(before.shape[1], before.shape[0])
    height, width = min(box.height, len(one.after)), min(box.width, one.after.shape[1])
    if min(height, width) < 1:
        return Replay(interaction=one, is_there=False, closeness=0, why="it lies outside of the window")
    ours = [image[box.top : box.top + height, box.left : box.left + width] for image in (before, after)]
    start, end = (image[:height, :width] for image in (one.before, one.after))
    recorded = max(_distance(start, end), 1e-6)
    closeness = 1 - _distance(ours[1], end) / recorded
    if _distance(*ours) < min(_MIN_CHANGE, recorded / 4):
        return Replay(interaction=one, is_there=False, closeness=closeness, why="nothing happens")
    if closeness < _MIN_CLOSENESS:
        return Replay(interaction=one, is_there=False, closeness=closeness, why="it ends differently")
    return Replay(interaction=one, is_there=True, closeness=closeness)


def _distance(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Mean difference of two crops of one size, reduced so that a pixel's shift counts little."""
    cv2 = require("cv2", "visual")
    size = max(first.shape[1] // _REDUCED, 1), max(first.shape[0] // _REDUCED, 1)
    small = [cv2.resize(image, size, interpolation=cv2.INTER_AREA).astype(np.float32) for image in (first, second)]
    return float(np.abs(small[0] - small[1]).mean())


def share_there(replays: Sequence[Replay]) -> float | None:
    """Share of interactions that are there; None where none was recorded."""
    return sum(each.is_there for each in replays) / len(replays) if replays else None


# ------------------------------------------------------------------ recordings


class Board(Protocol):
    """What is read of a storyboard (`recording.types.Storyboard`)."""

    @property
    def states(self) -> Sequence[Any]:
        """In order of their first time."""
        ...

    @property
    def transitions(self) -> Sequence[Any]:
        """In order of time."""
        ...


def pages_of(board: Board) -> list[int]:
    """The states that are pages of their own: the first one, and those that a navigation leads to."""
    led = [one.after for one in board.transitions if one.kind == "navigation" and one.after != one.before]
    return list(dict.fromkeys([0, *led]))


def interactions_of(board: Board) -> list[Interaction]:
    """The hovers and clicks of a recording, each with the acts that lead to it from a page."""
    pages = pages_of(board)
    ways: dict[int, tuple[int, tuple[Act, ...]]] = {state: (page, ()) for page, state in enumerate(pages)}
    found: list[Interaction] = []
    for one in board.transitions:
        if one.trigger not in ("hover", "click") or one.pointer_px is None or one.before not in ways:
            continue
        crops = _crops_of(one, board)
        if crops is None:
            continue
        before, after, scroll = crops
        page, acts = ways[one.before]
        x, y = one.pointer_px
        act = Act(trigger=one.trigger, x_px=x, y_px=y, scroll_px=scroll)
        is_kept = one.after != one.before
        if is_kept:
            ways.setdefault(one.after, (page, (*acts, act)))
        found.append(
            Interaction(
                kind=one.kind,
                page=page,
                acts=(*acts, act),
                box_px=one.box_px,
                before=before,
                after=after,
                duration_s=one.duration_s,
                leads_to=pages.index(one.after) if is_kept and one.after in pages else None,
                end_page=board.states[one.after].full_page if is_kept else None,
            )
        )
    return found


def _crops_of(one: Any, board: Board) -> tuple[NDArray[np.uint8], NDArray[np.uint8], int] | None:
    """The box of a transition before and after, and how far the window was scrolled; None where that is not known."""
    box, states = one.box_px, (board.states[one.before], board.states[one.after])
    images = one.before_image, one.after_image
    if all(image is not None and image.shape[:2] == (box.height, box.width) for image in images):
        return *images, _find_scroll(images[0], box, states[0].full_page)
    if one.before == one.after:
        return None
    box = box.clipped(states[0].image.shape[1], states[0].image.shape[0])
    before, after = (state.image[box.top : box.bottom, box.left : box.right] for state in states)
    return before, after, states[0].top_px


def _find_scroll(before: NDArray[np.uint8], box: Box, page: NDArray[np.uint8]) -> int:
    """How far the window was scrolled down when a box looked like this."""
    cv2 = require("cv2", "visual")
    width = min(before.shape[1], page.shape[1] - box.left)
    strip = page[:, box.left : box.left + width]
    if width < 1 or len(strip) <= len(before):
        return 0
    scores = cv2.matchTemplate(strip, before[:, :width], cv2.TM_SQDIFF)[:, 0]
    best = int(scores.argmin())
    at_top = min(max(box.top, 0), len(scores) - 1)
    return 0 if scores[at_top] <= scores[best] * 1.05 + 1 else max(best - box.top, 0)
