"""Interface to the screen, mouse and keyboard of a system, small enough to implement for any system."""

import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from envs.actions import Button


class PauseInterrupted(Exception):
    """Interruption of a pause because the env closes or its step was cancelled."""


class InterruptibleClock:
    """Monotonic time and pauses, used in one thread and interrupted from another."""

    def __init__(self) -> None:
        self._interrupted = threading.Event()

    def now_s(self) -> float:
        """Return the seconds of a monotonic clock."""
        return time.perf_counter()

    def pause(self, duration_s: float) -> None:
        """Wait for a duration.

        Raises:
            Interrupted: If `interrupt` was called.
        """
        if self._interrupted.is_set():
            raise PauseInterrupted
        if duration_s > 0 and self._interrupted.wait(duration_s):
            raise PauseInterrupted

    def interrupt(self) -> None:
        """Make the current and every later pause raise."""
        self._interrupted.set()

    def resume(self) -> None:
        """Allow pauses again."""
        self._interrupted.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenRegion:
    """Rectangle of the screen frame, in pixels."""

    left_px: int
    top_px: int
    width_px: int
    height_px: int

    def contains(self, x_px: int, y_px: int) -> bool:
        """Return True if a point is in the rectangle."""
        return 0 <= x_px - self.left_px < self.width_px and 0 <= y_px - self.top_px < self.height_px


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenFrame:
    """Captured pixels as (height, width, 4) uint8, blue green red unused, without padding.

    Its size is the region's size in pixels of the screenshot, which on a high-density screen is larger than the
    region's size in the screen frame.
    """

    bgrx: bytearray = field(repr=False)
    size_px: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Pointer image, (height, width, 4) uint8 premultiplied BGRA, and its top left corner in the screen frame."""

    bgra: bytes = field(repr=False)
    size_px: tuple[int, int]
    left_px: int
    top_px: int


def typing_limit_s(text: str, interval_s: float) -> float:
    """Return the maximum duration of typing a text; a program that takes longer counts as stuck."""
    return 30.0 + len(text) * (interval_s + 0.2)


class ScreenLostError(Exception):
    """Loss of the screen: it no longer provides pixels."""


class Backend(Protocol):
    """Screen, mouse, keyboard, windows and clipboard of a system.

    Attributes:
        lost: Exceptions that mean that the screen is gone for good.
    """

    lost: tuple[type[Exception], ...]

    def screen(self) -> ScreenRegion:
        """Return the whole screen, all monitors together."""
        ...

    def monitors(self) -> tuple[ScreenRegion, ...]:
        """Return the monitors, in the system's order; at least one."""
        ...

    def grab(self, region: ScreenRegion) -> ScreenFrame:
        """Capture the pixels of a region, without the pointer."""
        ...

    def cursor(self) -> Cursor | None:
        """Return the pointer image; None if the system does not provide it."""
        ...

    def pointer_px(self) -> tuple[int, int]:
        """Return the position of the pointer."""
        ...

    def move(self, x_px: int, y_px: int) -> None:
        """Move the pointer to a point."""
        ...

    def press_button(self, button: Button, *, down: bool) -> None:
        """Press (`down`) or release a mouse button at the pointer."""
        ...

    def scroll(self, dx: int, dy: int) -> None:
        """Scroll by notches: up and right are positive."""
        ...

    def press_key(self, key: str, *, down: bool) -> None:
        """Press or release a key, a name of `envs.actions`.

        Raises:
            ActionError: If the key does not exist on this system.
        """
        ...

    def type_text(self, text: str, interval_s: float, clock: InterruptibleClock) -> None:
        """Type any Unicode text into the focused window; return when it was sent.

        Raises:
            ActionError: If a character cannot be typed.
        """
        ...

    def wait_processed(self, timeout_s: float, *, typed_only: bool = False) -> bool | None:
        """Wait until the active window has processed its input.

        Args:
            timeout_s: Timeout.
            typed_only: True if the input was only text.

        Returns:
            True if it has, False after the timeout; None if the window cannot report it.
        """
        ...

    def has_window_manager(self) -> bool:
        """Return True if a window manager is running."""
        ...

    def num_windows(self) -> int | None:
        """Return the number of windows that programs show; None if the system does not provide it."""
        ...

    def active_title(self) -> str | None:
        """Return the title of the active window."""
        ...

    def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Describe what is at a point: `window "Untitled 1 - Mousepad"`."""
        ...

    def get_clipboard(self) -> str:
        """Return the text of the clipboard, `""` if there is none."""
        ...

    def set_clipboard(self, text: str) -> None:
        """Put text on the clipboard."""
        ...

    def release(self) -> None:
        """Undo changes that typing has made to the system's keyboard."""
        ...

    def close(self) -> None:
        """Disconnect from the system; does not raise if it is gone."""
        ...
