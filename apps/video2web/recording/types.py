"""What is found in a recording."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box

KINDS = (
    "hover",
    "tooltip",
    "menu",
    "modal",
    "accordion",
    "tabs",
    "carousel",
    "toggle",
    "theme",
    "toast",
    "typing",
    "reveal",
    "scroll",
    "navigation",
    "change",
)
TRIGGERS = ("hover", "click", "scroll", "typing", "time")


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerPlace:
    """Where the pointer is.

    Attributes:
        time_s: When, in seconds of the video.
        x_px: Column of its tip, in the cut frame.
        y_px: Row of its tip.
    """

    time_s: float
    x_px: int
    y_px: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the page looks like between two transitions that it does not take back.

    Attributes:
        index: Its number, 0 is the first.
        image: The viewport, (H, W, 3) uint8 RGB.
        full_page: The viewport and all that scrolling showed, (H, W, 3) uint8 RGB.
        top_px: Row of `full_page` at which `image` begins.
        first_s: When it is seen first.
        last_s: When it is seen last.
        fixed: Sides (`top`, `bottom`, `left`, `right`) where something stays while the page scrolls, with its depth.
    """

    index: int
    image: NDArray[np.uint8] = field(repr=False)
    full_page: NDArray[np.uint8] = field(repr=False)
    top_px: int
    first_s: float
    last_s: float
    fixed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of what is seen.

    Attributes:
        kind: One of `KINDS`; `change` where none of the others fits.
        trigger: One of `TRIGGERS`.
        box_px: What changes, in the viewport.
        start_s: When it begins, in seconds of the video.
        duration_s: How long it takes; 0 where no frame lies between before and after.
        easing: The CSS curve that fits best; "" where there are too few frames to tell.
        before: Number of the state before.
        after: Number of the state after; the same where the change is taken back (hover, tooltip, toast).
        pointer_px: Where the pointer is then; None where there is none.
        confidence: 0 to 1.
        undone_s: When it begins to be taken back; None where it is not.
        shift_px: How far contents move, columns and rows: of a carousel, an accordion, a scroll.
        before_image: The box before, (h, w, 3) uint8 RGB; None for a scroll that is not among the first ones.
        after_image: The box after.
    """

    kind: str
    trigger: str
    box_px: Box
    start_s: float
    duration_s: float
    easing: str
    before: int
    after: int
    pointer_px: tuple[int, int] | None
    confidence: float
    undone_s: float | None = None
    shift_px: tuple[int, int] = (0, 0)
    before_image: NDArray[np.uint8] | None = field(default=None, repr=False)
    after_image: NDArray[np.uint8] | None = field(default=None, repr=False)

    @property
    def end_s(self) -> float:
        """When it is over."""
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Storyboard:
    """What is found in a recording.

    Attributes:
        path: The video.
        states: In order of their first time.
        transitions: In order of time.
        size_px: Width and height of the viewport, in pixels of the images.
        scale: Pixels of the images for one pixel of the video.
        crop_px: What is the page, in pixels of the video: without letterbox and browser.
        duration_s: Of the video.
        palette: The colours of the states, largest share first, as #rrggbb.
        pointer: Where the pointer rests or turns; empty where none is seen.
        warnings: What is not as it should be.
    """

    path: Path
    states: tuple[State, ...]
    transitions: tuple[Transition, ...]
    size_px: tuple[int, int]
    scale: float
    crop_px: Box
    duration_s: float
    palette: tuple[str, ...] = ()
    pointer: tuple[PointerPlace, ...] = ()
    warnings: tuple[str, ...] = ()
