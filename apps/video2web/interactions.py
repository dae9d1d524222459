"""Interactions of a recorded page as replayable acts: hovers, clicks, typing, scrolling, waiting.

Every transition of a recording is an interaction. One that cannot be replayed names the reason, and scores 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from apps.video2web.pixels import RgbImage
from apps.video2web.recording.scrolling import max_difference
from apps.video2web.recording.types import PageState, Storyboard, Transition
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ocr import read_text
from visual_tools.widgets import find_rectangles

MAX_INTERACTIONS = 40  # each is replayed in every round: bounds the time
_MAX_WAIT_S = 10.0
_HEADER_PX, _LABEL_PX = 20, 100  # middle of a header's label: above what unfolds, right of its edge
_MAX_TYPED = 200
_BUTTON_PX, _MAX_BUTTON = (18, 72), 6  # sides of a button, also its distance from what it changes, and its proportions
_REDUCED, _NEAR_ROWS = 4, 5
_EDGE_LEVELS, _SCROLL_BAR_PX, _FIXED_EDGE_PX = 64, 16, 2  # of 255, above codec noise; widths
_MIN_LIKE = 0.8  # correlation; at rest 0.91 to 0.99 on the scrolled pages of web_recordings/acts, 0.3 if stitched wrong
_AROUND_S = 0.2  # between the start or end of a change and the frames in which it is seen
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
        is_guess: True for a click at a guessed place: no pointer is seen in the recording.
    """

    trigger: Trigger
    x_px: int
    y_px: int
    scroll_px: int = 0
    text: str = ""
    is_guess: bool = False


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
        lost: Reason why it cannot be replayed; "" if it can.
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
    lost: str = ""

    @property
    def is_guess(self) -> bool:
        """True if a click is at a guessed place: it is built there, and a replay would only repeat the guess."""
        return any(act.is_guess for act in self.acts)

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


_TRIGGERS: dict[str, Trigger] = {"hover": "hover", "click": "click", "typing": "type", "scroll": "scroll"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeadingActs:
    """Acts that lead to a state.

    Attributes:
        page: Index of the page on which they begin.
        acts: Acts; none for a page itself.
        row_px: Row of that page at which the picture of the state begins.
    """

    page: int
    acts: tuple[PageAction, ...] = ()
    row_px: int = 0


_LeadsByState = dict[int, _LeadingActs]


def interactions_of(board: Storyboard) -> list[Interaction]:
    """Return an interaction for every transition of a recording, with the acts that lead to it from a page."""
    pages = pages_of(board)
    ways: _LeadsByState = {state: _LeadingActs(page=page) for page, state in enumerate(pages)}
    entered_s = {0: board.states[0].first_s} if board.states else {}
    interactions: list[Interaction] = []
    for transition in board.transitions:
        try:
            if transition.before not in ways:
                raise _LostError("the acts that lead to its state are not known")
            match transition.trigger:
                case "hover" | "click":
                    interaction = _by_pointer(transition, board, ways, pages)
                case "typing":
                    interaction = _by_keys(transition, board, ways)
                case "scroll":
                    interaction = _by_scrolling(transition, board, ways)
                case _:
                    wait_s = transition.start_s - entered_s.get(transition.before, transition.start_s)
                    interaction = _by_itself(transition, board, ways, wait_s)
            if len(interactions) >= MAX_INTERACTIONS:
                raise _LostError(f"only {MAX_INTERACTIONS} interactions are replayed")
        except _LostError as error:
            interaction = _make_lost(transition, str(error))
        interactions.append(interaction)
        if transition.after != transition.before:
            entered_s[transition.after] = transition.start_s + transition.duration_s
    return interactions


class _LostError(Exception):
    """A transition that cannot be replayed; the message says why."""


def _make_lost(transition: Transition, why: str) -> Interaction:
    x, y = transition.pointer_px or (round(transition.box_px.center[0]), round(transition.box_px.center[1]))
    trigger = _TRIGGERS.get(transition.trigger, "wait")
    nothing = np.zeros((1, 1, 3), np.uint8)
    return Interaction(
        kind=transition.kind,
        page=0,
        acts=(PageAction(trigger=trigger, x_px=x, y_px=y),),
        box_px=transition.box_px,
        before=nothing if transition.before_image is None else transition.before_image,
        after=nothing if transition.after_image is None else transition.after_image,
        wait_s=transition.start_s,
        lost=why,
    )


def _by_pointer(transition: Transition, board: Storyboard, ways: _LeadsByState, pages: Sequence[int]) -> Interaction:
    if transition.pointer_px is None and transition.trigger == "hover":
        raise _LostError("no pointer is seen")
    before, after, row = _crops_of(transition, board)
    way = ways[transition.before]
    x, y = transition.pointer_px or _guess_place(transition, board)
    act = PageAction(
        trigger="hover" if transition.trigger == "hover" else "click",
        x_px=x,
        y_px=y,
        scroll_px=way.row_px + row,
        is_guess=transition.pointer_px is None,
    )
    interaction = Interaction(
        kind=transition.kind,
        page=way.page,
        acts=(*way.acts, act),
        box_px=transition.box_px,
        before=before,
        after=after,
        duration_s=transition.duration_s,
        easing=transition.easing,
    )
    if transition.after == transition.before:
        return interaction
    end = _lead_to(transition.after, board, ways, interaction)
    depth = end.fixed.get("top", 0) if ways[transition.after].row_px else 0  # a header that covers other rows there
    is_page = transition.kind == "navigation" and transition.after in pages
    return replace(
        interaction,
        leads_to=pages.index(transition.after) if is_page else None,
        end_page=end.full_page[depth:],
        end_state=transition.after,
        end_row_px=ways[transition.after].row_px + depth,
    )


def _lead_to(number: int, board: Storyboard, ways: _LeadsByState, interaction: Interaction) -> PageState:
    """Return a state, to which an interaction leads unless a way is already known."""
    state = board.states[number]
    row = max(interaction.act.scroll_px - state.top_px, 0)
    ways.setdefault(number, _LeadingActs(page=interaction.page, acts=interaction.acts, row_px=row))
    return state


def _guess_place(transition: Transition, board: Storyboard) -> tuple[int, int]:
    """Return where a click without a visible pointer is likely: on a button, the header of what unfolds, or the change.

    A carousel's buttons are two that stay as they are next to it; the right one leads to states not seen before.
    """
    box = transition.box_px
    if transition.kind in ("accordion", "menu") and box.top >= _HEADER_PX:
        return box.left + min(round(box.width / 4), _LABEL_PX), box.top - _HEADER_PX
    center = round(box.center[0]), round(box.center[1])
    if transition.kind == "carousel" and transition.after != transition.before:
        buttons = _find_buttons(box, board.states[transition.before].image, board.states[transition.after].image)
        if len(buttons) == 2:
            x, y = buttons[transition.after > transition.before].center
            return round(x), round(y)
    return center


def _find_buttons(box: Box, before: RgbImage, after: RgbImage) -> list[Box]:
    """Return the boxes of button size in or near a box that look the same in two windows, from left to right."""
    found = [
        each.box_px
        for each in find_rectangles(before)
        if _BUTTON_PX[0] <= each.box_px.height <= _BUTTON_PX[1]
        and _BUTTON_PX[0] <= each.box_px.width <= _MAX_BUTTON * each.box_px.height
        and box.padded(_BUTTON_PX[1]).contains(each.box_px)
        and int(max_difference(before[each.box_px.slices], after[each.box_px.slices]).max()) <= _EDGE_LEVELS
    ]
    outer = [each for each in found if not any(other != each and other.contains(each) for other in found)]
    return sorted(outer, key=lambda each: each.left)


def _by_keys(transition: Transition, board: Storyboard, ways: _LeadsByState) -> Interaction:
    """Return an interaction that types the recorded text at the recorded position."""
    before, after, row = _crops_of(transition, board)
    framed = np.pad(after, ((10, 10), (10, 10), (0, 0)), mode="edge")  # space around a line improves recognition
    text = " ".join(line.text for line in read_text(framed))[:_MAX_TYPED]
    if not text:
        raise _LostError("the typed text cannot be read")
    way = ways[transition.before]
    box = transition.box_px
    place = transition.pointer_px
    if place is None or not box.padded(12).has_point(*place):
        place = box.left + 3, round(box.center[1])
    act = PageAction(trigger="type", x_px=place[0], y_px=place[1], scroll_px=way.row_px + row, text=text)
    interaction = Interaction(
        kind="typing",
        page=way.page,
        acts=(*way.acts, act),
        box_px=box,
        before=before,
        after=after,
        end_state=transition.after,
    )
    if transition.after != transition.before:
        _lead_to(transition.after, board, ways, interaction)
    return interaction


def _by_scrolling(transition: Transition, board: Storyboard, ways: _LeadsByState) -> Interaction:
    """Return a scroll, or what it reveals, with the window before and after."""
    if transition.before_image is None or transition.after_image is None:
        raise _LostError("the window before and after it is not kept")
    way = ways[transition.before]
    acts, state, box = way.acts, board.states[transition.before], transition.box_px
    end = _find_scroll(transition.after_image, box, state)
    if transition.kind != "reveal":
        start = _find_scroll(transition.before_image, box, state)
        end_s = transition.start_s + transition.duration_s
        windows = (transition.before_image, start, transition.start_s), (transition.after_image, end, end_s)
        if end == start or not all(
            _is_moving(board, at) or _is_on_page(window, row, state) for window, row, at in windows
        ):
            raise _LostError("the rows that it shows are not found on the page")
        acts = acts if start == 0 and not acts else (*acts, _scrolled(way.row_px + start, box))
    return Interaction(
        kind=transition.kind,
        page=way.page,
        acts=(*acts, _scrolled(way.row_px + end, box)),
        box_px=box,
        before=transition.before_image,
        after=transition.after_image,
        duration_s=transition.duration_s,
        easing=transition.easing,
    )


def _scrolled(row: int, box: Box) -> PageAction:
    return PageAction(trigger="scroll", x_px=round(box.center[0]), y_px=round(box.center[1]), scroll_px=row)


def _by_itself(transition: Transition, board: Storyboard, ways: _LeadsByState, wait_s: float) -> Interaction:
    """Return a change that happens without an act, some time after its state is shown."""
    if not 0 <= wait_s <= _MAX_WAIT_S:
        raise _LostError(f"it happens by itself more than {_MAX_WAIT_S:g} s after an act")
    before, after, row = _crops_of(transition, board)
    way = ways[transition.before]
    box = transition.box_px
    act = PageAction(trigger="wait", x_px=round(box.center[0]), y_px=round(box.center[1]), scroll_px=way.row_px + row)
    return Interaction(
        kind=transition.kind,
        page=way.page,
        acts=(*way.acts, act),
        box_px=box,
        before=before,
        after=after,
        duration_s=transition.duration_s,
        easing=transition.easing,
        wait_s=round(wait_s, 2),
    )


def _crops_of(transition: Transition, board: Storyboard) -> tuple[RgbImage, RgbImage, int]:
    """Return the box of a transition before and after, and the window's first row on the picture of the state."""
    box, states = transition.box_px, (board.states[transition.before], board.states[transition.after])
    before, after, size = transition.before_image, transition.after_image, (box.height, box.width)
    if before is not None and after is not None and before.shape[:2] == after.shape[:2] == size:
        scroll = _find_scroll(before, box, states[0])
        if transition.before != transition.after:  # the state at rest: the transition may be seen only in part
            top = box.top + min(states[1].top_px, scroll)
            end = states[1].full_page[top : top + box.height, box.left : box.right]
            after = end if end.shape == after.shape else after
        return before, after, scroll
    if transition.before == transition.after:
        raise _LostError("its window before and after is the same")
    box = box.clipped(states[0].image.shape[1], states[0].image.shape[0])
    before, after = (state.image[box.slices] for state in states)
    return before, after, states[0].top_px


def _is_moving(board: Storyboard, time_s: float) -> bool:
    """Return whether contents appear at a time: a window is then not what the page shows at rest."""
    reveals = (each for each in board.transitions if each.kind == "reveal")
    return any(each.start_s - _AROUND_S <= time_s <= each.start_s + each.duration_s + _AROUND_S for each in reveals)


def _is_on_page(window: RgbImage, row: int, state: PageState) -> bool:
    """Return whether a recorded window is what the stitched page shows at a row: its edges, without fixed parts.

    The page may show more, such as contents that appear later. A page that is stitched wrong does not show all of its
    windows.
    """
    cv2 = require("cv2", "visual")
    page = state.full_page[row : row + len(window)]
    if page.shape != window.shape:
        return False
    levels = [cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY) for image in (window, page)]
    edges = cv2.morphologyEx(levels[0], cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > _EDGE_LEVELS
    around = cv2.dilate(edges.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    top, bottom, left, right = (state.fixed.get(side, 0) for side in ("top", "bottom", "left", "right"))
    inner = (slice(top + _FIXED_EDGE_PX, len(page) - bottom), slice(left, page.shape[1] - max(right, _SCROLL_BAR_PX)))
    theirs, ours = (image[inner][around[inner]].astype(np.float64) for image in levels)
    if not theirs.size:
        return True
    norm = float(theirs.std() * ours.std())
    return norm > 0 and float(((theirs - theirs.mean()) * (ours - ours.mean())).mean()) >= _MIN_LIKE * norm


def _find_scroll(before: RgbImage, box: Box, state: PageState) -> int:
    """Find the scroll offset at which a box looked like this: coarse search, then row by row."""
    cv2 = require("cv2", "visual")
    stays, most = state.fixed.get("top", 0), len(state.full_page) - len(state.image)  # rows that can be scrolled
    page = state.full_page[: max(box.bottom, 0) + most]
    if not most:
        return 0
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
