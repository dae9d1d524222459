"""Windows of an X display, and whether they have processed their input, by EWMH and ICCCM.

Source: EWMH, _NET_REQUEST_FRAME_EXTENTS and _NET_WM_PING.
"""

import select
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from envs.desktop.x11.connection import Connection, unless_gone
from envs.errors import require

_MAX_DEPTH = 32  # nested windows


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

    def active(self) -> Any | None:
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

    def _is_managed(self, window: Any) -> bool:
        return bool(self._connection.read_numbers(window, "WM_STATE"))

    def _name(self, window: Any) -> str:
        return f'window "{self._title(window) or self._class(window) or "untitled"}"'

    def _stack_at(self, x_px: int, y_px: int) -> Iterator[Any]:
        """Yield the windows at a point, from the outermost to the innermost, without the root."""
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
        self._asker: Any = None

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

    def _is_answer(self, event: Any, data: list[int]) -> bool:
        return event.type == self._x.ClientMessage and list(event.data[1][:2]) == data[:2]

    def _is_end(self, event: Any, window: Any) -> bool:
        return event.type == self._x.DestroyNotify and bool(event.window == window)

    def _await(self, is_it: Callable[[Any], bool], deadline: float) -> bool:
        """Wait for an event; return False if it does not arrive in time."""
        self._connection.display.flush()
        while not any(is_it(event) for event in self._connection.drain()):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            select.select([self._connection.display.fileno()], [], [], left_s)
        return True
