"""X11 implementation of `Backend`: input by XTEST, the pointer by XFIXES, captures by shared memory.

Windows are found, and asked whether they have processed their input, by EWMH and ICCCM.

Source: EWMH, _NET_REQUEST_FRAME_EXTENTS and _NET_WM_PING.
"""

import select
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.actions import Button
from envs.desktop.backend import Cursor, InterruptibleClock, ScreenFrame, ScreenLostError, ScreenRegion
from envs.desktop.screenshot import Grabber
from envs.desktop.x11.clipboard import X11Clipboard
from envs.desktop.x11.connection import Connection, cookie_from, unless_gone
from envs.desktop.x11.keyboard import X11Keyboard
from envs.desktop.x11.user_input import UserInputSensor
from envs.errors import EnvSetupError, require

if TYPE_CHECKING:
    from Xlib.display import Display
    from Xlib.protocol.rq import Event
    from Xlib.xobject.drawable import Window

_MAX_DEPTH = 32  # nested windows
_GET_CURSOR_IMAGE = 4  # Source: fixesproto.txt, request GetCursorImage, version 1
_BUTTONS: dict[Button, int] = {"left": 1, "middle": 2, "right": 3}
_UP, _DOWN, _LEFT, _RIGHT = 4, 5, 6, 7  # buttons of the wheel
_MIN_MANAGER_PATIENCE_S, _MAX_MANAGER_PATIENCE_S = 0.01, 2.0
# Keys without a symbol that are used for other characters; few on a display with a person's programs
_SPARE_KEYS_PRIVATE, _SPARE_KEYS_SHARED = 64, 8


class Windows:
    """Queries about windows; a window that disappears during a query is not an error.

    Args:
        connection: Connection for the queries.
    """

    def __init__(self, connection: Connection) -> None:
        self._viewable = require("Xlib.X", "desktop").IsViewable
        self._connection = connection
        self._root = connection.root

    def has_manager(self) -> bool:
        """Return True if a window manager has announced itself."""
        marks = ("_NET_SUPPORTING_WM_CHECK", "_NET_SUPPORTED")
        return all(self._connection.read_numbers(self._root, name) for name in marks)

    def num_open(self) -> int:
        """Return the number of windows of programs: managed ones, or visible top-level ones without a manager."""
        if self.has_manager():
            return len(self._connection.read_numbers(self._root, "_NET_CLIENT_LIST"))
        return sum(1 for child in self._root.query_tree().children if self._is_shown(child))

    def active(self) -> "Window | None":
        """Return the active window, or None."""
        ids = self._connection.read_numbers(self._root, "_NET_ACTIVE_WINDOW")
        if ids and ids[0]:
            return self._connection.display.create_resource_object("window", ids[0])
        return None

    def active_title(self) -> str | None:
        """Return the title of the active window, or None."""
        window = self.active()
        return None if window is None else self._title(window)

    def describe_point(self, x_px: int, y_px: int) -> str | None:
        """Describe what is at a point.

        Returns:
            `window "TITLE"`, `frame of window "TITLE"` (title bar and borders), `popup of "CLASS"` (menus), or
            `the desktop`.
        """
        stack = list(self._stack_at(x_px, y_px))
        if not stack:
            return "the desktop"
        managed = next(filter(self._is_managed, stack), None)
        if managed is not None:
            return self._name(managed)
        inside = unless_gone(stack[0].query_tree)
        framed = next(filter(self._is_managed, inside.children), None) if inside else None
        if framed is not None:
            return f"frame of {self._name(framed)}"
        attributes = unless_gone(stack[0].get_attributes)
        if attributes is not None and attributes.override_redirect:
            owner = next(filter(None, map(self._class, stack)), None)
            return f'popup of "{owner}"' if owner else "a popup"
        return self._name(stack[0])

    def _is_managed(self, window: "Window") -> bool:
        return bool(self._connection.read_numbers(window, "WM_STATE"))

    def _name(self, window: "Window") -> str:
        return f'window "{self._title(window) or self._class(window) or "untitled"}"'

    def _stack_at(self, x_px: int, y_px: int) -> "Iterator[Window]":
        """Yield the windows at a point, from the outermost to the innermost, without the root."""
        window = self._root
        for _ in range(_MAX_DEPTH):
            reply = unless_gone(partial(window.translate_coords, self._root, x_px, y_px))
            if reply is None or not reply.child:
                return
            window = reply.child
            yield window

    def _is_shown(self, window: "Window") -> bool:
        attributes = unless_gone(window.get_attributes)
        size = unless_gone(window.get_geometry)
        if attributes is None or size is None:
            return False
        return bool(attributes.map_state == self._viewable and size.width > 1 and size.height > 1)

    def _title(self, window: "Window") -> str | None:
        return self._connection.read_text(window, "_NET_WM_NAME") or self._connection.read_text(window, "WM_NAME")

    def _class(self, window: "Window") -> str | None:
        text = self._connection.read_text(window, "WM_CLASS")
        return text.rstrip("\0").split("\0")[-1] if text else None


class InputFlusher:
    """Round trips to other programs, which answer in the order in which they received their events.

    A click passes through the window manager to the window, so both are queried.

    Args:
        connection: Connection for the queries.
        windows: Finds the active window.
    """

    def __init__(self, connection: Connection, windows: Windows) -> None:
        x = require("Xlib.X", "desktop")
        self._x = x
        self._message = require("Xlib.protocol.event", "desktop").ClientMessage
        self._connection = connection
        self._windows = windows
        self._root = connection.root
        self._num_pings = 0
        self._asker: Window | None = None

    def wait(self, timeout_s: float, *, typed_only: bool = False) -> bool | None:
        """Wait until the input sent so far was processed.

        Args:
            timeout_s: Timeout.
            typed_only: True if it was only text, which does not pass through the window manager.

        Returns:
            True if the active window confirmed it in time; None if it does not answer pings.
        """
        deadline = time.monotonic() + timeout_s
        if not typed_only:
            self.wait_for_manager(timeout_s)
        return self._wait_for_window(deadline)

    def manager_can_answer(self) -> bool:
        """Return True if the window manager answers requests for frame extents."""
        wanted = self._connection.atom("_NET_REQUEST_FRAME_EXTENTS")
        return wanted in self._connection.read_numbers(self._root, "_NET_SUPPORTED")

    def wait_for_manager(self, timeout_s: float) -> bool:
        """Wait until the window manager has processed its input; return False if it does not confirm in time."""
        if not self.manager_can_answer():
            return False
        x, atom = self._x, self._connection.atom
        # A new window for each request, created before the last one is destroyed, so that late answers are ignored.
        asker = self._root.create_window(0, 0, 1, 1, 0, x.CopyFromParent, event_mask=x.PropertyChangeMask)
        if self._asker is not None:
            self._asker.destroy()
        self._asker = asker
        request = self._message(window=asker, client_type=atom("_NET_REQUEST_FRAME_EXTENTS"), data=(32, [0] * 5))
        self._root.send_event(request, event_mask=x.SubstructureRedirectMask | x.SubstructureNotifyMask)
        answer = (x.PropertyNotify, atom("_NET_FRAME_EXTENTS"), asker)
        return self._await(
            lambda event: event.type == answer[0] and (event.type, event.atom, event.window) == answer,
            time.monotonic() + timeout_s,
        )

    def _wait_for_window(self, deadline: float) -> bool | None:
        atom, window = self._connection.atom, self._windows.active()
        if window is None or atom("_NET_WM_PING") not in self._connection.read_numbers(window, "WM_PROTOCOLS"):
            return None
        self._num_pings = self._num_pings % 0x7FFFFFFF + 1
        data = [atom("_NET_WM_PING"), self._num_pings, window.id, 0, 0]
        self._root.change_attributes(event_mask=self._x.SubstructureNotifyMask)
        try:
            window.send_event(self._message(window=window, client_type=atom("WM_PROTOCOLS"), data=(32, data)))
            return self._await(lambda event: self._is_answer(event, data) or self._is_end(event, window), deadline)
        finally:
            self._root.change_attributes(event_mask=0)
            self._connection.display.flush()

    def _is_answer(self, event: "Event", data: list[int]) -> bool:
        return event.type == self._x.ClientMessage and list(event.data[1][:2]) == data[:2]

    def _is_end(self, event: "Event", window: "Window") -> bool:
        return event.type == self._x.DestroyNotify and bool(event.window == window)

    def _await(self, is_it: "Callable[[Event], bool]", deadline: float) -> bool:
        """Wait for an event; return False if it does not arrive in time."""
        self._connection.display.flush()
        while not any(is_it(event) for event in self._connection.drain()):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            select.select([self._connection.display.fileno()], [], [], left_s)
        return True


class CursorReader:
    """Reader of the pointer image of a display.

    Args:
        display: python-xlib `Display`.
    """

    def __init__(self, display: "Display") -> None:
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
        self._display: Display = self._connection.display
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
