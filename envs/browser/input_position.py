"""Comparison of the region around an input with the screenshot that the input was decided on."""

import io
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from envs.actions import Action, Click, Drag, KeyDown, KeyUp, MouseDown, Move, Wait
from envs.browser.generations import ANOTHER_PAGE, NOTHING_DONE
from envs.browser.observer import Observer
from envs.browser.session import BrowserSession
from envs.observation import Generation

if TYPE_CHECKING:
    from PIL.Image import Image

_FRESH_S = 0.25
"""Age up to which a screenshot is not compared, unless the tab has loaded another document since."""
_REGION_PX = (48, 32)  # surroundings of the point that are compared: a control, not the page around it
_MAX_LEVELS = 20  # differences up to this are anti-aliasing and compression
_MAX_CHANGED = 0.025  # share of changed pixels that is still the same place: a blinking caret or a hover effect
_CARET_PX = 3  # a narrower change is a caret


class PositionCheck:
    """Check that refuses pointer input at a position that has changed since the screenshot.

    The page is captured once before such an input if the screenshot is more than 0.25 s old: 17 ms at 1280x720 (see
    `envs.browser.camera`), and half as long again if the two screenshots differ anywhere. Measured with ten busy
    processes on two cores: 69 and 34 ms.

    Args:
        session: Session with the tabs and their documents.
        observer: Keeps the last screenshot, and captures another one.
    """

    def __init__(self, session: BrowserSession, observer: Observer) -> None:
        self._session = session
        self._observer = observer
        self._has_refused = False

    async def why_changed(
        self, actions: Sequence[Action], pointer_px: tuple[int, int], decided_on: Generation
    ) -> str | None:
        """Return why the first input of a step must be refused; None if its position still looks the same.

        A region that always changes can be used: after a refusal the next step is not compared. Another document counts
        as the same page if it has the same URL and looks the same there.

        Args:
            actions: First input and the actions after it.
            pointer_px: Pointer position, viewport CSS pixels.
            decided_on: Generation of the screenshot that the step was decided on.
        """
        is_compared, self._has_refused = not self._has_refused, False
        generations, page = self._session.generations, self._session.tabs.active
        document = generations.document_of(page)
        is_reloaded = document[1] != decided_on.navigation
        unknown = ANOTHER_PAGE if is_reloaded else None
        shot, place = self._observer.last_shot, _input_point(actions, pointer_px)
        if place is None or shot is None or self._session.overlay is not None:
            return unknown
        if is_reloaded and _without_fragment(page.url) != _without_fragment(shot.url):
            return unknown
        if not is_reloaded and (not is_compared or time.monotonic() - shot.taken_s <= _FRESH_S):
            return None
        now = await self._observer.capture_again(page)
        if generations.document_of(page) != document:
            return ANOTHER_PAGE
        if now is None:
            return unknown
        if not has_changed(shot.screenshot, now, place, self._observer.viewport_px):
            return None
        self._has_refused = not is_reloaded
        return unknown or f"what is at {place} has changed since the screenshot, {NOTHING_DONE}"


def has_changed(before: bytes, now: bytes, point_px: tuple[int, int], viewport_px: tuple[int, int]) -> bool:
    """Return True if two screenshots clearly differ around a point.

    48x32 CSS px are compared; a pixel counts if it differs by more than 20 levels in a channel. Measured: another word
    of 2 to 6 letters 4 to 13 %, a page that moved by a row 3 %, an overlay or a dimmed page 15 to 100 %; but one digit
    of a badge 2 %, and a step of a progress bar 2 %. A caret is ignored by its width.

    Args:
        before: First screenshot, PNG.
        now: Second screenshot, PNG.
        point_px: Point to compare around, viewport CSS pixels.
        viewport_px: Size of the viewport, CSS pixels.
    """
    if before == now:
        return False
    from PIL import ImageChops

    first, second = (_region(screenshot, point_px, viewport_px) for screenshot in (before, now))
    if first.size != second.size:
        return True
    red, green, blue = ImageChops.difference(first, second).split()
    levels = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    changed = levels.point(lambda level: 255 * (level > _MAX_LEVELS))
    box = changed.getbbox()
    if box is None or box[2] - box[0] <= _CARET_PX:
        return False
    return changed.histogram()[255] > _MAX_CHANGED * changed.width * changed.height


def _region(screenshot: bytes, point_px: tuple[int, int], viewport_px: tuple[int, int]) -> "Image":
    from PIL import Image

    image = Image.open(io.BytesIO(screenshot))
    scale = image.width / viewport_px[0]
    left, right, top, bottom = (
        min(max(point_px[axis] + side * _REGION_PX[axis] // 2, 0), viewport_px[axis]) * scale
        for axis in (0, 1)
        for side in (-1, 1)
    )
    return image.crop((round(left), round(top), round(right), round(bottom))).convert("RGB")


def _input_point(actions: Sequence[Action], pointer_px: tuple[int, int]) -> tuple[int, int] | None:
    """Return the point where the first input of a step presses a button; None for another kind of input."""
    x_px, y_px = pointer_px
    for action in actions:
        match action:
            case Move():
                x_px, y_px = action.x_px, action.y_px
            case Click() | MouseDown():
                return x_px if action.x_px is None else action.x_px, y_px if action.y_px is None else action.y_px
            case Drag():
                return x_px, y_px
            case Wait() | KeyDown() | KeyUp():
                continue
            case _:
                return None
    return None


def _without_fragment(url: str) -> str:
    return url.partition("#")[0]
