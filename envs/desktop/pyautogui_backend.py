"""Backend for the screen of any system through pyautogui, for macOS and Windows.

It is limited to what pyautogui can do: text with characters that pyautogui drops is pasted from the clipboard, and it
is unknown when a window has processed its input.
"""

import sys
from typing import Any

from envs.actions import Button
from envs.desktop.backend import Cursor, InterruptibleClock, ScreenFrame, ScreenLostError, ScreenRegion
from envs.desktop.screenshot import Grabber
from envs.errors import ActionError, require

_EXTRA = "desktop"
_PASTE_S = 0.1  # time for a program to process a paste before the clipboard is restored


class PyAutoGuiBackend:
    """Backend for the screen of the system.

    Args:
        pyautogui: The module, or an object with the same interface; None imports it.
        clipboard: An object with `copy` and `paste`; None is the module `pyperclip`.
        grabber: Captures the screen; None uses mss.
    """

    def __init__(
        self,
        pyautogui: object = None,
        clipboard: object = None,
        grabber: Grabber | None = None,
        *,
        system: str = sys.platform,
    ) -> None:
        module: Any = require("pyautogui", _EXTRA) if pyautogui is None else pyautogui
        self._gui = module
        self._clipboard = clipboard
        self._grabber = grabber or Grabber()
        self._paste_key = "command" if system == "darwin" else "ctrl"
        module.PAUSE = 0
        module.FAILSAFE = False
        self.lost: tuple[type[Exception], ...] = (ScreenLostError,)

    def screen(self) -> ScreenRegion:
        """Return the main screen."""
        width, height = self._gui.size()
        return ScreenRegion(left_px=0, top_px=0, width_px=width, height_px=height)

    def monitors(self) -> tuple[ScreenRegion, ...]:
        """Return only the main screen, since pyautogui knows no other."""
        return (self.screen(),)

    def grab(self, region: ScreenRegion) -> ScreenFrame:
        """Capture the pixels of a region."""
        return self._grabber.grab(region)

    def cursor(self) -> Cursor | None:
        """Return None, since the image is unknown; an arrow is drawn instead."""
        return None

    def pointer_px(self) -> tuple[int, int]:
        """Return the position of the pointer."""
        x_px, y_px = self._gui.position()
        return int(x_px), int(y_px)

    def move(self, x_px: int, y_px: int) -> None:
        """Move the pointer to a point."""
        self._gui.moveTo(x_px, y_px)

    def press_button(self, button: Button, *, down: bool) -> None:
        """Press or release a mouse button."""
        (self._gui.mouseDown if down else self._gui.mouseUp)(button=button)

    def scroll(self, dx: int, dy: int) -> None:
        """Scroll by notches."""
        if dy:
            self._gui.scroll(dy)
        if dx:
            self._gui.hscroll(dx)

    def press_key(self, key: str, *, down: bool) -> None:
        """Press or release a key."""
        if not self._gui.isValidKey(key):
            raise ActionError(f"the key {key!r} does not exist on this system")
        (self._gui.keyDown if down else self._gui.keyUp)(key)

    def type_text(self, text: str, interval_s: float, clock: InterruptibleClock) -> None:
        """Type ASCII text; paste any other."""
        text = text.replace("\r\n", "\n")
        if text.isascii() and all(self._gui.isValidKey(character) for character in set(text)):
            for character in text:
                self._gui.write(character)
                clock.pause(interval_s)
            return
        before = self.get_clipboard()
        self.set_clipboard(text)
        self._gui.hotkey(self._paste_key, "v")
        clock.pause(_PASTE_S)
        self.set_clipboard(before)

    def wait_processed(self, timeout_s: float, *, typed_only: bool = False) -> bool | None:
        """Return None, since the system does not provide it."""
        return None

    def has_window_manager(self) -> bool:
        """Return True, since these systems have one."""
        return True

    def num_windows(self) -> int | None:
        """Return None, since the system does not provide it."""
        return None

    def active_title(self) -> str | None:
        """Return the title of the active window, if pyautogui provides it."""
        read = getattr(self._gui, "getActiveWindowTitle", None)
        return (read() or None) if read is not None else None

    def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Return None, since the system does not provide it."""
        return None

    def get_clipboard(self) -> str:
        """Return the text of the clipboard."""
        return str(self._open_clipboard().paste())

    def set_clipboard(self, text: str) -> None:
        """Put text on the clipboard."""
        self._open_clipboard().copy(text)

    def release(self) -> None:
        """Do nothing, since typing changes nothing."""

    def close(self) -> None:
        """Close the connection to the screen."""
        self._grabber.close()

    def _open_clipboard(self) -> Any:
        if self._clipboard is None:
            self._clipboard = require("pyperclip", _EXTRA)
        return self._clipboard
