"""Windows of an X display, as its window manager tells of them (EWMH and ICCCM)."""

import select
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from envs.desktop.x11.connection import Connection, unless_gone
from envs.require import require

_MAX_TEXT = 4096  # bytes of a title that are read, in units of 4
_MAX_DEPTH = 32  # windows inside windows


class Windows:
    """Looks at windows; a window that goes away meanwhile is no error.

    Args:
        connection: The connection to ask through.
    """

    def __init__(self, connection: Connection) -> None:
        self._x = require("Xlib.X", "desktop")
        self._client_message = require("Xlib.protocol.event", "desktop").ClientMessage
        self._connection = connection
        self._display = connection.display
        self._root = connection.root
        self._pings = 0

    def has_manager(self) -> bool:
        """Whether a window manager has announced itself."""
        return bool(self._numbers(self._root, "_NET_SUPPORTING_WM_CHECK"))

    def num_open(self) -> int:
        """How many windows programs show: managed ones, or without a manager visible top-level ones."""
        if self.has_manager():
            return len(self._numbers(self._root, "_NET_CLIENT_LIST"))
        return sum(1 for child in self._root.query_tree().children if self._is_shown(child))

    def active_title(self) -> str | None:
        """Title of the active window, None without one."""
        window = self._active()
        return None if window is None else self._title(window)

    def describe_point(self, x_px: int, y_px: int) -> str | None:
        """`window "TITLE"` of what is at a point, `popup of "CLASS"` for menus, `the desktop` for the background."""
        found = None
        for window in self._stack_at(x_px, y_px):
            found = window
            if self._numbers(window, "WM_STATE"):
                return f'window "{self._title(window) or self._class(window) or "untitled"}"'
        if found is None:
            return "the desktop"
        owner = self._class(found)
        return f'popup of "{owner}"' if owner else "a window without a name"

    def wait_processed(self, timeout_s: float) -> bool:
        """Ping the active window (EWMH _NET_WM_PING): a program answers once it has taken its earlier input.

        Returns:
            True when it has answered; False when it does not in time, or does not know pings.
        """
        window = self._active()
        if window is None or self._atom("_NET_WM_PING") not in self._numbers(window, "WM_PROTOCOLS"):
            return False
        self._pings = self._pings % 0x7FFFFFFF + 1
        self._root.change_attributes(event_mask=self._x.SubstructureNotifyMask)
        try:
            data = (32, [self._atom("_NET_WM_PING"), self._pings, window.id, 0, 0])
            protocols = self._atom("WM_PROTOCOLS")
            window.send_event(self._client_message(window=window, client_type=protocols, data=data))
            self._display.flush()
            return self._await_pong(window, time.monotonic() + timeout_s)
        finally:
            self._root.change_attributes(event_mask=0)
            self._display.flush()

    def _await_pong(self, window: Any, deadline: float) -> bool:
        while True:
            for event in self._connection.drain():
                if event.type == self._x.ClientMessage and list(event.data[1][:2]) == [
                    self._atom("_NET_WM_PING"),
                    self._pings,
                ]:
                    return True
                if event.type == self._x.DestroyNotify and event.window == window:
                    return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            select.select([self._display.fileno()], [], [], left_s)

    def _active(self) -> Any | None:
        ids = self._numbers(self._root, "_NET_ACTIVE_WINDOW")
        if ids and ids[0]:
            return self._display.create_resource_object("window", ids[0])
        return None

    def _stack_at(self, x_px: int, y_px: int) -> Iterator[Any]:
        """Windows at a point, from the outermost to the innermost, without the root."""
        window = self._root
        for _ in range(_MAX_DEPTH):
            reply = unless_gone(partial(window.translate_coords, self._root, x_px, y_px))
            if reply is None or not reply.child:
                return
            window = reply.child
            yield window

    def _is_shown(self, window: Any) -> bool:
        attributes = unless_gone(window.get_attributes)
        geometry = unless_gone(window.get_geometry)
        if attributes is None or geometry is None:
            return False
        return bool(attributes.map_state == self._x.IsViewable and geometry.width > 1 and geometry.height > 1)

    def _title(self, window: Any) -> str | None:
        return self._text(window, "_NET_WM_NAME") or self._text(window, "WM_NAME")

    def _class(self, window: Any) -> str | None:
        text = self._text(window, "WM_CLASS")
        return text.rstrip("\0").split("\0")[-1] if text else None

    def _text(self, window: Any, name: str) -> str | None:
        value = self._property(window, name, _MAX_TEXT)
        if value is None or value.format != 8:
            return None
        encoding = "latin-1" if value.property_type == self._atom("STRING") else "utf-8"
        return bytes(value.value).decode(encoding, errors="replace") or None

    def _numbers(self, window: Any, name: str) -> list[int]:
        value = self._property(window, name, _MAX_TEXT)
        return [] if value is None or value.format != 32 else list(value.value)

    def _property(self, window: Any, name: str, length: int) -> Any | None:
        return unless_gone(lambda: window.get_property(self._atom(name), self._x.AnyPropertyType, 0, length))

    def _atom(self, name: str) -> int:
        return int(self._display.get_atom(name))
