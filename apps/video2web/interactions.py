"""Interactions of a recorded page as replayable acts: hovers, clicks, typing, scrolling, waiting."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ocr import read_text

MAX_INTERACTIONS = 20
_MAX_BY_ITSELF, _MAX_WAIT_S = 2, 6.0
_MAX_SCROLLS, _MIN_SCROLL_PX = 3, 40
_MAX_TYPED = 200
_REDUCED, _NEAR_ROWS = 4, 5
Trigger = Literal["hover", "click", "type", "scroll", "wait"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
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
    acts: tuple[Act, ...]
    box_px: Box
    before: NDArray[np.uint8] = field(repr=False)
    after: NDArray[np.uint8] = field(repr=False)
    duration_s: float = 0.0
    easing: str = ""
    wait_s: float = 0.0
    leads_to: int | None = None
    end_page: NDArray[np.uint8] | None = field(default=None, repr=False)
    end_state: int | None = None
    end_row_px: int = 0

    @property
    def act(self) -> Act:
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


class Board(Protocol):
    """Part of a storyboard that is read here (`recording.types.Storyboard`)."""

    @property
    def states(self) -> Sequence[Any]:
        """States in order of first appearance."""
        ...

    @property
    def transitions(self) -> Sequence[Any]:
        """Transitions in order of time."""
        ...


def pages_of(board: Board) -> list[int]:
    """Return the states that are pages: the first one, and the targets of navigations."""
    led = [one.after for one in board.transitions if one.kind == "navigation" and one.after != one.before]
    return list(dict.fromkeys([0, *led]))


_Ways = dict[int, tuple[int, tuple[Act, ...]]]


def interactions_of(board: Board) -> list[Interaction]:
    """Return the interactions that a recording shows, each with the acts that lead to it from a page."""
    pages = pages_of(board)
    ways: _Ways = {state: (page, ()) for page, state in enumerate(pages)}
    found: list[Interaction] = []
    for one in board.transitions:
        if one.before not in ways:
            continue
        match one.trigger:
            case "hover" | "click":
                found += _by_pointer(one, board, ways, pages)
            case "typing":
                found += _by_keys(one, board, ways)
            case "scroll":
                found += _by_scrolling(one, board, ways)
            case "time" if one.kind == "carousel":
                found += _by_itself(one, board, ways)
    return _thinned(found)


def _thinned(found: Sequence[Interaction]) -> list[Interaction]:
    """Limit the number of interactions per trigger; automatic changes and scrolls have lower limits."""
    limits = {"wait": _MAX_BY_ITSELF, "scroll": _MAX_SCROLLS}
    counts: dict[str, int] = {}
    kept = []
    for one in found:
        name = one.act.trigger if one.kind != "reveal" else "reveal"
        counts[name] = counts.get(name, 0) + 1
        if counts[name] <= limits.get(name, MAX_INTERACTIONS):
            kept.append(one)
    return kept


def _by_pointer(one: Any, board: Board, ways: _Ways, pages: Sequence[int]) -> list[Interaction]:
    crops = _crops_of(one, board)
    if crops is None or (one.pointer_px is None and one.trigger == "hover"):
        return []
    before, after, scroll = crops
    page, acts = ways[one.before]
    x, y = one.pointer_px or (round(one.box_px.center[0]), round(one.box_px.center[1]))
    act = Act(trigger=one.trigger, x_px=x, y_px=y, scroll_px=scroll)
    is_kept = one.after != one.before
    if is_kept:
        ways.setdefault(one.after, (page, (*acts, act)))
    leads_to = pages.index(one.after) if is_kept and one.kind == "navigation" and one.after in pages else None
    return [
        Interaction(
            kind=one.kind,
            page=page,
            acts=(*acts, act),
            box_px=one.box_px,
            before=before,
            after=after,
            duration_s=one.duration_s,
            easing=one.easing,
            leads_to=leads_to,
            end_page=board.states[one.after].full_page if is_kept else None,
            end_state=one.after if is_kept else None,
            end_row_px=max(scroll - board.states[one.after].top_px, 0) if is_kept else 0,
        )
    ]


def _by_keys(one: Any, board: Board, ways: _Ways) -> list[Interaction]:
    """Return an interaction that types the recorded text at the recorded position."""
    crops = _crops_of(one, board)
    if crops is None:
        return []
    before, after, scroll = crops
    text = " ".join(line.text for line in read_text(_framed(after)))[:_MAX_TYPED]
    if not text:
        return []
    page, acts = ways[one.before]
    box = one.box_px
    place = one.pointer_px
    if place is None or not box.padded(12).has_point(*place):
        place = box.left + 3, round(box.center[1])
    act = Act(trigger="type", x_px=place[0], y_px=place[1], scroll_px=scroll, text=text)
    if one.after != one.before:
        ways.setdefault(one.after, (page, (*acts, act)))
    return [
        Interaction(
            kind="typing", page=page, acts=(*acts, act), box_px=box, before=before, after=after, end_state=one.after
        )
    ]


def _framed(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a line of text padded with space, which improves recognition."""
    return np.pad(image, ((10, 10), (10, 10), (0, 0)), mode="edge")


def _by_scrolling(one: Any, board: Board, ways: _Ways) -> list[Interaction]:
    """Return a scroll, or what it reveals, with the window before and after; empty if its rows are unknown."""
    if one.before_image is None or one.after_image is None:
        return []
    page, acts = ways[one.before]
    state, box = board.states[one.before], one.box_px
    end = _find_scroll(one.after_image, box, state)
    if one.kind != "reveal":
        start = _find_scroll(one.before_image, box, state)
        if abs(end - start) < _MIN_SCROLL_PX:
            return []
        acts = acts if start == 0 and not acts else (*acts, _scrolled(start, box))
    return [
        Interaction(
            kind=one.kind,
            page=page,
            acts=(*acts, _scrolled(end, box)),
            box_px=box,
            before=one.before_image,
            after=one.after_image,
            duration_s=one.duration_s,
            easing=one.easing,
        )
    ]


def _scrolled(row: int, box: Box) -> Act:
    return Act(trigger="scroll", x_px=round(box.center[0]), y_px=round(box.center[1]), scroll_px=row)


def _by_itself(one: Any, board: Board, ways: _Ways) -> list[Interaction]:
    """Return a change that happens without an act, some time after the page is shown."""
    crops, state = _crops_of(one, board), board.states[one.before]
    wait_s = one.start_s - state.first_s
    page, acts = ways[one.before]
    if crops is None or acts or not 0 <= wait_s <= _MAX_WAIT_S:
        return []
    before, after, scroll = crops
    box = one.box_px
    act = Act(trigger="wait", x_px=round(box.center[0]), y_px=round(box.center[1]), scroll_px=scroll)
    return [
        Interaction(
            kind=one.kind,
            page=page,
            acts=(act,),
            box_px=box,
            before=before,
            after=after,
            duration_s=one.duration_s,
            easing=one.easing,
            wait_s=round(wait_s, 2),
        )
    ]


def _crops_of(one: Any, board: Board) -> tuple[NDArray[np.uint8], NDArray[np.uint8], int] | None:
    """Return the box of a transition before and after, and the scroll offset; None if the offset is unknown."""
    box, states = one.box_px, (board.states[one.before], board.states[one.after])
    images = one.before_image, one.after_image
    if all(image is not None and image.shape[:2] == (box.height, box.width) for image in images):
        return *images, _find_scroll(images[0], box, states[0])
    if one.before == one.after:
        return None
    box = box.clipped(states[0].image.shape[1], states[0].image.shape[0])
    before, after = (state.image[box.slices] for state in states)
    return before, after, states[0].top_px


def _find_scroll(before: NDArray[np.uint8], box: Box, state: Any) -> int:
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
