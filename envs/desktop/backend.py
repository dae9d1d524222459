"""What an env needs from a system's screen, mouse and keyboard, small enough to be written for any system."""

import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from envs.actions import Button


class Interrupted(Exception):
    """A pause was cut short because the env closes or its step was cancelled."""


class Clock:
    """Seconds and pauses, used from one thread and interrupted from another."""

    def __init__(self) -> None:
        self._interrupted = threading.Event()

    def now_s(self) -> float:
        """Seconds of a clock that never jumps."""
        return time.perf_counter()

    def pause(self, duration_s: float) -> None:
        """Wait.

        Raises:
            Interrupted: `interrupt` was called.
        """
        if self._interrupted.is_set():
            raise Interrupted
        if duration_s > 0 and self._interrupted.wait(duration_s):
            raise Interrupted

    def interrupt(self) -> None:
        """Make the current and every later pause raise."""
        self._interrupted.set()

    def resume(self) -> None:
        """Allow pauses again."""
        self._interrupted.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A rectangle of the screen frame, in pixels."""

    left_px: int
    top_px: int
    width_px: int
    height_px: int

    def contains(self, x_px: int, y_px: int) -> bool:
        """Whether a point lies in the rectangle."""
        return 0 <= x_px - self.left_px < self.width_px and 0 <= y_px - self.top_px < self.height_px


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A grab: pixels as (height, width, 4) uint8, blue green red unused, without padding.

    Its size is that of the region in pixels of the screenshot, which on a dense screen is more than
    the region's size in the screen frame.
    """

    bgrx: bytearray = field(repr=False)
    size_px: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The pointer's image: (height, width, 4) uint8 premultiplied BGRA; its top left corner in the screen frame."""

    bgra: bytes = field(repr=False)
    size_px: tuple[int, int]
    left_px: int
    top_px: int


def typing_limit_s(text: str, interval_s: float) -> float:
    """How long typing a text may take: a program that takes it more slowly than that is stuck."""
    return 30.0 + len(text) * (interval_s + 0.2)


class ScreenLostError(Exception):
    """The screen does not hand out pixels any more."""


class Backend(Protocol):
    """One system's screen, mouse, keyboard, windows and clipboard.

    Attributes:
        lost: Exceptions that mean that the screen is gone for good.
    """

    lost: tuple[type[Exception], ...]

    def screen(self) -> Region:
        """The whole screen, all monitors together."""
        ...

    def monitors(self) -> tuple[Region, ...]:
        """The monitors, in the system's order; at least one."""
        ...

    def grab(self, region: Region) -> Frame:
        """The pixels of a region, without the pointer."""
        ...

    def cursor(self) -> Cursor | None:
        """The pointer's image; None when the system does not tell."""
        ...

    def pointer_px(self) -> tuple[int, int]:
        """Where the pointer is."""
        ...

    def move(self, x_px: int, y_px: int) -> None:
        """Put the pointer somewhere."""
        ...

    def press_button(self, button: Button, *, down: bool) -> None:
        """Press (`down`) or release a mouse button where the pointer is."""
        ...

    def scroll(self, dx: int, dy: int) -> None:
        """Turn the wheel by notches: up and right are positive."""
        ...

    def press_key(self, key: str, *, down: bool) -> None:
        """Press or release a key, a name of `envs.actions`.

        Raises:
            ActionError: This system has no such key.
        """
        ...

    def type_text(self, text: str, interval_s: float, clock: Clock) -> None:
        """Type any Unicode text into the focused window; returns when it was taken.

        Raises:
            ActionError: A character cannot be typed.
        """
        ...

    def wait_processed(self, timeout_s: float, *, typed_only: bool = False) -> bool | None:
        """Wait until the active window has worked off its input.

        Args:
            timeout_s: Longest wait.
            typed_only: Whether the input was text alone.

        Returns:
            Whether it has; None when the window does not tell.
        """
        ...

    def has_window_manager(self) -> bool:
        """Whether somebody manages the windows."""
        ...

    def num_windows(self) -> int | None:
        """How many windows programs show; None when the system does not tell."""
        ...

    def active_title(self) -> str | None:
        """Title of the active window."""
        ...

    def describe_point(self, x_px: int, y_px: int) -> str | None:
        """What is at a point: `window "Untitled 1 - Mousepad"`."""
        ...

    def get_clipboard(self) -> str:
        """The clipboard's text, `""` when it holds none."""
        ...

    def set_clipboard(self, text: str) -> None:
        """Put text on the clipboard."""
        ...

    def release(self) -> None:
        """Undo what typing has changed in the system's keyboard."""
        ...

    def close(self) -> None:
        """Let go of the system; never raises because it is gone."""
        ...
