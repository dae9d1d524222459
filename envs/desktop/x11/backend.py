"""X11 implementation of `Backend`: input by XTEST, the pointer by XFIXES, captures by shared memory."""

from functools import partial
from pathlib import Path
from typing import Any

from envs.actions import Button
from envs.desktop.backend import Cursor, InterruptibleClock, ScreenFrame, ScreenLostError, ScreenRegion
from envs.desktop.screenshot import Grabber
from envs.desktop.x11.clipboard import X11Clipboard
from envs.desktop.x11.connection import Connection, cookie_from
from envs.desktop.x11.keyboard import X11Keyboard
from envs.desktop.x11.user_input import UserInputSensor
from envs.desktop.x11.windows import InputFlusher, Windows
from envs.errors import EnvSetupError, require

_GET_CURSOR_IMAGE = 4  # Source: fixesproto.txt, request GetCursorImage, version 1
_BUTTONS: dict[Button, int] = {"left": 1, "middle": 2, "right": 3}
_UP, _DOWN, _LEFT, _RIGHT = 4, 5, 6, 7  # buttons of the wheel
_MIN_MANAGER_PATIENCE_S, _MAX_MANAGER_PATIENCE_S = 0.01, 2.0
# Keys without a symbol that are used for other characters; few on a display with a person's programs
_SPARE_KEYS_PRIVATE, _SPARE_KEYS_SHARED = 64, 8


class CursorReader:
    """Reader of the pointer image of a display.

    Args:
        display: python-xlib `Display`.
    """

    def __init__(self, display: Any) -> None:
        xfixes = require("Xlib.ext.xfixes", "desktop")
        self._display = display
        self._available = bool(display.has_extension(xfixes.extname))
        if self._available:
            self._request = _make_request(require("Xlib.protocol.rq", "desktop"))
            self._opcode = display.display.get_extension_major(xfixes.extname)
            display.xfixes_query_version()  # the protocol requires a version query first

    def read(self) -> Cursor | None:
        """Return the current image; None if the server does not provide it."""
        if not self._available:
            return None
        reply = self._request(display=self._display.display, opcode=self._opcode)
        size_px = (reply.width, reply.height)
        return Cursor(
            bgra=bytes(reply.pixels), size_px=size_px, left_px=reply.x - reply.x_hot, top_px=reply.y - reply.y_hot
        )


def _make_request(rq: Any) -> Any:
    class GetCursorImage(rq.ReplyRequest):  # type: ignore[misc]
        _request = rq.Struct(rq.Card8("opcode"), rq.Opcode(_GET_CURSOR_IMAGE), rq.RequestLength())
        _reply = rq.Struct(
            rq.ReplyCode(),
            rq.Pad(1),
            rq.Card16("sequence_number"),
            rq.ReplyLength(),
            rq.Int16("x"),
            rq.Int16("y"),
            rq.Card16("width"),
            rq.Card16("height"),
            rq.Card16("x_hot"),
            rq.Card16("y_hot"),
            rq.Card32("serial"),
            rq.Pad(8),
            rq.Binary("pixels"),
        )

    return GetCursorImage


class X11Backend:
    """Backend with two connections to a display, for input and for captures, and a third once the clipboard is used.

    Args:
        name: The display, `":7"`.
        xauthority: Its cookie file; None uses the environment's.
        is_private: True if only this env uses the display, so that more of its keys may be remapped to characters.

    Raises:
        EnvSetupError: If the connection fails, or the server lacks the XTEST extension.
    """

    def __init__(self, name: str, xauthority: Path | None = None, *, is_private: bool = False) -> None:
        self._name = name
        self._xauthority = xauthority
        self.lost: tuple[type[Exception], ...] = (
            require("Xlib.error", "desktop").ConnectionClosedError,
            ScreenLostError,
        )
        self._connection = Connection(name, xauthority)
        self._display: Any = self._connection.display
        if not self._display.has_extension("XTEST"):
            raise EnvSetupError(f"the X server of {name!r} lacks the XTEST extension, which input needs")
        self._windows = Windows(self._connection)
        self._flusher = InputFlusher(self._connection, self._windows)
        spare = _SPARE_KEYS_PRIVATE if is_private else _SPARE_KEYS_SHARED
        self._keyboard = X11Keyboard(self._connection, partial(self._flusher.wait, typed_only=True), spare)
        self._cursor = CursorReader(self._display)
        self._grabber = Grabber(name, lambda: cookie_from(xauthority))
        self._clipboard: X11Clipboard | None = None
        self._manager_patience_s = _MIN_MANAGER_PATIENCE_S

    def screen(self) -> ScreenRegion:
        """Return the region of the root window."""
        size = self._connection.root.get_geometry()
        return ScreenRegion(left_px=0, top_px=0, width_px=size.width, height_px=size.height)

    def monitors(self) -> tuple[ScreenRegion, ...]:
        """Return the monitors that RandR 1.5 lists; the whole screen if it lists none."""
        if not self._display.has_extension("RANDR"):
            return (self.screen(),)
        monitors = self._connection.root.xrandr_get_monitors().monitors
        return tuple(
            ScreenRegion(left_px=at.x, top_px=at.y, width_px=at.width_in_pixels, height_px=at.height_in_pixels)
            for at in monitors
        ) or (self.screen(),)

    def grab(self, region: ScreenRegion) -> ScreenFrame:
        """Capture the pixels of a region, without the pointer."""
        return self._grabber.grab(region)

    def cursor(self) -> Cursor | None:
        """Return the pointer image."""
        return self._cursor.read()

    def pointer_px(self) -> tuple[int, int]:
        """Return the position of the pointer."""
        reply = self._connection.root.query_pointer()
        return reply.root_x, reply.root_y

    def move(self, x_px: int, y_px: int) -> None:
        """Move the pointer to a point."""
        self._connection.send_motion(x_px, y_px)
        self._display.sync()

    def press_button(self, button: Button, *, down: bool) -> None:
        """Press or release a mouse button."""
        self._connection.send_button(_BUTTONS[button], down=down)
        self._display.sync()

    def scroll(self, dx: int, dy: int) -> None:
        """Scroll by notches, with buttons 4 to 7."""
        for number, notches in ((_UP, dy), (_DOWN, -dy), (_RIGHT, dx), (_LEFT, -dx)):
            for _ in range(notches):
                self._connection.send_button(number, down=True)
                self._connection.send_button(number, down=False)
        self._display.sync()

    def press_key(self, key: str, *, down: bool) -> None:
        """Press or release a key."""
        self._keyboard.press_key(key, down=down)

    def type_text(self, text: str, interval_s: float, clock: InterruptibleClock) -> None:
        """Type any Unicode text."""
        self._keyboard.type_text(text, interval_s, clock)

    def wait_processed(self, timeout_s: float, *, typed_only: bool = False) -> bool | None:
        """Wait until the active window has processed its input; None if it cannot report that."""
        return self._flusher.wait(timeout_s, typed_only=typed_only)

    def has_window_manager(self) -> bool:
        """Return True if a window manager is running and has finished starting."""
        if not self._windows.has_manager():
            return False
        # It marks the root window before it listens, so only an answer proves that it is ready. A request sent before
        # that is lost, hence the short first waits; on a loaded machine answers take long, hence the longer later ones.
        self._manager_patience_s = min(2 * self._manager_patience_s, _MAX_MANAGER_PATIENCE_S)
        return self._flusher.wait_for_manager(self._manager_patience_s) or not self._flusher.manager_can_answer()

    def num_windows(self) -> int | None:
        """Return the number of windows that programs show; None if the system does not provide it."""
        return self._windows.num_open()

    def active_title(self) -> str | None:
        """Return the title of the active window."""
        self._connection.drain()
        return self._windows.active_title()

    def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Describe what is at a point."""
        return self._windows.describe_point(x_px, y_px)

    def get_clipboard(self) -> str:
        """Return the text of the clipboard."""
        return self._open_clipboard().get()

    def set_clipboard(self, text: str) -> None:
        """Put text on the clipboard; it is available while the env is open."""
        self._open_clipboard().set(text)

    def make_input_sensor(self) -> UserInputSensor:
        """Make a sensor of input by others; the caller closes it."""
        return UserInputSensor(self._name, self._xauthority, self._connection.sent)

    def release(self) -> None:
        """Restore the keys that were remapped to characters."""
        self._keyboard.release()

    def close(self) -> None:
        """Disconnect."""
        if self._clipboard is not None:
            self._clipboard.close()
        self._grabber.close()
        self._connection.close()

    def _open_clipboard(self) -> X11Clipboard:
        if self._clipboard is None or not self._clipboard.is_alive():
            self._clipboard = X11Clipboard(self._name, self._xauthority)
        return self._clipboard
