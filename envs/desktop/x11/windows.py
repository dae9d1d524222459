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
        """What is at a point.

        Returns:
            `window "TITLE"`, `frame of window "TITLE"` (title bar and borders), `popup of "CLASS"` (menus),
            or `the desktop`.
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

    def _is_managed(self, window: Any) -> bool:
        return bool(self._connection.read_numbers(window, "WM_STATE"))

    def _name(self, window: Any) -> str:
        return f'window "{self._title(window) or self._class(window) or "untitled"}"'

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
