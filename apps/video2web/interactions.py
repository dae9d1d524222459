"""Interactions of a recorded page as replayable acts: hovers, clicks, typing, scrolling, waiting."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from apps.video2web.pixels import RgbImage
from apps.video2web.recording.types import PageState, Storyboard, Transition
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ocr import read_text

MAX_INTERACTIONS = 20  # each is replayed in every round: bounds the time
_MAX_BY_ITSELF, _MAX_WAIT_S = 2, 6.0
_MAX_SCROLLS, _MIN_SCROLL_PX = 3, 40
_MAX_TYPED = 200
_REDUCED, _NEAR_ROWS = 4, 5
Trigger = Literal["hover", "click", "type", "scroll", "wait"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAction:
    """One action, in pixels of a window that is scrolled down by `scroll_px`.

    Attributes:
        trigger: `hover` or `click` with the pointer, `type` into the element there, `scroll` to `scroll_px`, or `wait`.
        x_px: Column of the pointer.
        y_px: Row of the pointer.
        scroll_px: Scroll offset of the window.
        text: Text to type.
    """

    trigger: Trigger
    x_px: int
    y_px: int
    scroll_px: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """Recorded change of a page.

    Attributes:
        kind: Name of the kind (`hover`, `menu`, `navigation`, ...).
        page: Index of the page on which it begins, from 0.
        acts: Actions; the last one causes the change, the earlier ones lead to the required state.
        box_px: Box that changes, in the viewport.
        before: The box before, (h, w, 3) uint8 RGB.
        after: The box after.
        duration_s: Duration of the change.
        easing: CSS easing; "" if unknown.
        wait_s: For a change without an act: delay after the page is shown.
        leads_to: Index of the page that it leads to; None for a change within the page.
        end_page: Full page after the change, (H, W, 3); None if the change is reverted.
        end_state: Number of the state of the page after the change; equal states share a number.
        end_row_px: Row of the page at which `end_page` begins.
    """

    kind: str
    page: int
    acts: tuple[PageAction, ...]
    box_px: Box
    before: RgbImage = field(repr=False)
    after: RgbImage = field(repr=False)
    duration_s: float = 0.0
    easing: str = ""
    wait_s: float = 0.0
    leads_to: int | None = None
    end_page: RgbImage | None = field(default=None, repr=False)
    end_state: int | None = None
    end_row_px: int = 0

    @property
    def act(self) -> PageAction:
        """Act that causes the change."""
        return self.acts[-1]

    @property
    def name(self) -> str:
        """Description in words."""
        match self.act.trigger:
            case "scroll":
                return f"scroll to row {self.act.scroll_px}: {self.kind}"
            case "wait":
                return f"after {self.wait_s:.1f} s: {self.kind}"
            case trigger:
                return f"{trigger} at ({self.act.x_px}, {self.act.y_px + self.act.scroll_px}): {self.kind}"


def pages_of(board: Storyboard) -> list[int]:
    """Return the states that are pages: the first one, and the targets of navigations."""
    led = [
        transition.after
        for transition in board.transitions
        if transition.kind == "navigation" and transition.after != transition.before
    ]
    return list(dict.fromkeys([0, *led]))


_Ways = dict[int, tuple[int, tuple[PageAction, ...]]]


def interactions_of(board: Storyboard) -> list[Interaction]:
    """Return the interactions that a recording shows, each with the acts that lead to it from a page."""
    pages = pages_of(board)
    ways: _Ways = {state: (page, ()) for page, state in enumerate(pages)}
    interactions: list[Interaction] = []
    for transition in board.transitions:
        if transition.before not in ways:
            continue
        match transition.trigger:
            case "hover" | "click":
                interactions += _by_pointer(transition, board, ways, pages)
            case "typing":
                interactions += _by_keys(transition, board, ways)
            case "scroll":
                interactions += _by_scrolling(transition, board, ways)
            case "time" if transition.kind == "carousel":
                interactions += _by_itself(transition, board, ways)
    return _thinned(interactions)


def _thinned(interactions: Sequence[Interaction]) -> list[Interaction]:
    """Limit the number of interactions per trigger; automatic changes and scrolls have lower limits."""
    limits = {"wait": _MAX_BY_ITSELF, "scroll": _MAX_SCROLLS}
    counts: dict[str, int] = {}
    kept = []
    for interaction in interactions:
        name = interaction.act.trigger if interaction.kind != "reveal" else "reveal"
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= limits.get(name, MAX_INTERACTIONS):
            kept.append(interaction)
    return kept


def _by_pointer(transition: Transition, board: Storyboard, ways: _Ways, pages: Sequence[int]) -> Iterator[Interaction]:
    crops = _crops_of(transition, board)
    if crops is None or (transition.pointer_px is None and transition.trigger == "hover"):
        return
    before, after, scroll = crops
    page, acts = ways[transition.before]
    x, y = transition.pointer_px or (round(transition.box_px.center[0]), round(transition.box_px.center[1]))
    trigger: Trigger = "hover" if transition.trigger == "hover" else "click"
    act = PageAction(trigger=trigger, x_px=x, y_px=y, scroll_px=scroll)
    is_kept = transition.after != transition.before
    if is_kept:
        ways.setdefault(transition.after, (page, (*acts, act)))
    leads_to = (
        pages.index(transition.after)
        if is_kept and transition.kind == "navigation" and transition.after in pages
        else None
    )
    yield Interaction(
        kind=transition.kind,
        page=page,
        acts=(*acts, act),
        box_px=transition.box_px,
        before=before,
        after=after,
        duration_s=transition.duration_s,
        easing=transition.easing,
        leads_to=leads_to,
        end_page=board.states[transition.after].full_page if is_kept else None,
        end_state=transition.after if is_kept else None,
        end_row_px=max(scroll - board.states[transition.after].top_px, 0) if is_kept else 0,
    )


def _by_keys(transition: Transition, board: Storyboard, ways: _Ways) -> Iterator[Interaction]:
    """Yield an interaction that types the recorded text at the recorded position."""
    crops = _crops_of(transition, board)
    if crops is None:
        return
    before, after, scroll = crops
    framed = np.pad(after, ((10, 10), (10, 10), (0, 0)), mode="edge")  # space around a line improves recognition
    text = " ".join(line.text for line in read_text(framed))[:_MAX_TYPED]
    if not text:
        return
    page, acts = ways[transition.before]
    box = transition.box_px
    place = transition.pointer_px
    if place is None or not box.padded(12).has_point(*place):
        place = box.left + 3, round(box.center[1])
    act = PageAction(trigger="type", x_px=place[0], y_px=place[1], scroll_px=scroll, text=text)
    if transition.after != transition.before:
        ways.setdefault(transition.after, (page, (*acts, act)))
    yield Interaction(
        kind="typing",
        page=page,
        acts=(*acts, act),
        box_px=box,
        before=before,
        after=after,
        end_state=transition.after,
    )


def _by_scrolling(transition: Transition, board: Storyboard, ways: _Ways) -> Iterator[Interaction]:
    """Yield a scroll, or what it reveals, with the window before and after; nothing if its rows are unknown."""
    if transition.before_image is None or transition.after_image is None:
        return
    page, acts = ways[transition.before]
    state, box = board.states[transition.before], transition.box_px
    end = _find_scroll(transition.after_image, box, state)
    if transition.kind != "reveal":
        start = _find_scroll(transition.before_image, box, state)
        if abs(end - start) < _MIN_SCROLL_PX:
            return
        acts = acts if start == 0 and not acts else (*acts, _scrolled(start, box))
    yield Interaction(
        kind=transition.kind,
        page=page,
        acts=(*acts, _scrolled(end, box)),
        box_px=box,
        before=transition.before_image,
        after=transition.after_image,
        duration_s=transition.duration_s,
        easing=transition.easing,
    )


def _scrolled(row: int, box: Box) -> PageAction:
    return PageAction(trigger="scroll", x_px=round(box.center[0]), y_px=round(box.center[1]), scroll_px=row)


def _by_itself(transition: Transition, board: Storyboard, ways: _Ways) -> Iterator[Interaction]:
    """Yield a change that happens without an act, some time after the page is shown."""
    crops, state = _crops_of(transition, board), board.states[transition.before]
    wait_s = transition.start_s - state.first_s
    page, acts = ways[transition.before]
    if crops is None or acts or not 0 <= wait_s <= _MAX_WAIT_S:
        return
    before, after, scroll = crops
    box = transition.box_px
    act = PageAction(trigger="wait", x_px=round(box.center[0]), y_px=round(box.center[1]), scroll_px=scroll)
    yield Interaction(
        kind=transition.kind,
        page=page,
        acts=(act,),
        box_px=box,
        before=before,
        after=after,
        duration_s=transition.duration_s,
        easing=transition.easing,
        wait_s=round(wait_s, 2),
    )


def _crops_of(transition: Transition, board: Storyboard) -> tuple[RgbImage, RgbImage, int] | None:
    """Return the box of a transition before and after, and the scroll offset; None if the offset is unknown."""
    box, states = transition.box_px, (board.states[transition.before], board.states[transition.after])
    before, after, size = transition.before_image, transition.after_image, (box.height, box.width)
    if before is not None and after is not None and before.shape[:2] == after.shape[:2] == size:
        return before, after, _find_scroll(before, box, states[0])
    if transition.before == transition.after:
        return None
    box = box.clipped(states[0].image.shape[1], states[0].image.shape[0])
    before, after = (state.image[box.slices] for state in states)
    return before, after, states[0].top_px


def _find_scroll(before: RgbImage, box: Box, state: PageState) -> int:
    """Find the scroll offset at which a box looked like this: coarse search, then row by row."""
    cv2 = require("cv2", "visual")
    page, stays = state.full_page, state.fixed.get("top", 0)
    if box.top < stays < box.bottom - _REDUCED:  # a fixed header is at every offset and gives no information
        before, box = before[stays - box.top :], Box(box.left, stays, box.right, box.bottom)
    width = min(before.shape[1], page.shape[1] - box.left)
    strip, crop = page[:, max(box.left, 0) : box.left + width], before[:, :width]
    if width < _REDUCED or len(strip) <= len(crop) or len(crop) < _REDUCED:
        return 0
    small = [
        cv2.resize(image, (max(width // _REDUCED, 1), len(image) // _REDUCED), interpolation=cv2.INTER_AREA)
        for image in (strip, crop)
    ]
    scores = cv2.matchTemplate(small[0], small[1], cv2.TM_SQDIFF)[:, 0]
    best = int(scores.argmin())
    at_top = min(max(box.top, 0) // _REDUCED, len(scores) - 1)
    if scores[at_top] <= scores[best] * 1.05 + 1:
        return 0
    rows = range(max(_REDUCED * best - _NEAR_ROWS, 0), min(_REDUCED * best + _NEAR_ROWS, len(strip) - len(crop)) + 1)
    sparse = crop[::2, ::3].astype(np.int16)
    off = {row: int(np.abs(strip[row : row + len(crop)][::2, ::3] - sparse).sum()) for row in rows}
    return max(min(off, key=lambda row: off[row]) - box.top, 0)
