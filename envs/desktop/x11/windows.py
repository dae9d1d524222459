"""Windows of an X display, as its window manager tells of them (EWMH and ICCCM)."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from envs.desktop.x11.connection import Connection, unless_gone
from envs.require import require

_MAX_DEPTH = 32  # windows inside windows


class Windows:
    """Looks at windows; a window that goes away meanwhile is no error.

    Args:
        connection: The connection to ask through.
    """

    def __init__(self, connection: Connection) -> None:
        self._viewable = require("Xlib.X", "desktop").IsViewable
        self._connection = connection
        self._root = connection.root

    def has_manager(self) -> bool:
        """Whether a window manager has announced itself."""
        marks = ("_NET_SUPPORTING_WM_CHECK", "_NET_SUPPORTED")
        return all(self._connection.read_numbers(self._root, name) for name in marks)

    def num_open(self) -> int:
        """How many windows programs show: managed ones, or without a manager visible top-level ones."""
        if self.has_manager():
            return len(self._connection.read_numbers(self._root, "_NET_CLIENT_LIST"))
        return sum(1 for child in self._root.query_tree().children if self._is_shown(child))

    def active(self) -> Any | None:
        """The active window, None without one."""
        ids = self._connection.read_numbers(self._root, "_NET_ACTIVE_WINDOW")
        if ids and ids[0]:
            return self._connection.display.create_resource_object("window", ids[0])
        return None

    def active_title(self) -> str | None:
        """Title of the active window, None without one."""
        window = self.active()
        return None if window is None else self._title(window)

    def describe_point(self, x_px: int, y_px: int) -> str | None:
        """`window "TITLE"` of what is at a point, `popup of "CLASS"` for menus, `the desktop` for the background."""
        found = None
        for window in self._stack_at(x_px, y_px):
            found = window
            if self._connection.read_numbers(window, "WM_STATE"):
                return f'window "{self._title(window) or self._class(window) or "untitled"}"'
        if found is None:
            return "the desktop"
        owner = self._class(found)
        return f'popup of "{owner}"' if owner else "a window without a name"

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
        size = unless_gone(window.get_geometry)
        if attributes is None or size is None:
            return False
        return bool(attributes.map_state == self._viewable and size.width > 1 and size.height > 1)

    def _title(self, window: Any) -> str | None:
        return self._connection.read_text(window, "_NET_WM_NAME") or self._connection.read_text(window, "WM_NAME")

    def _class(self, window: Any) -> str | None:
        text = self._connection.read_text(window, "WM_CLASS")
        return text.rstrip("\0").split("\0")[-1] if text else None
