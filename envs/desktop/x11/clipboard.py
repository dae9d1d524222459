"""X clipboard: text of any size, from and for any program.

Source: ICCCM sections 2.2 (selection owners), 2.4 (requestors) and 2.7.2 (INCR, for large texts).
"""

import os
import queue
import select
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from envs.desktop.x11.connection import Connection, unless_gone
from envs.errors import require

if TYPE_CHECKING:
    from Xlib.display import Display
    from Xlib.protocol.rq import Event
    from Xlib.xobject.drawable import Window

_CHUNK = 60_000  # bytes in one property
_TIMEOUT_S = 3.0  # the owner of the clipboard may hang
_DELETED, _NEW_VALUE = 1, 0  # Source: X11/X.h PropertyDelete, PropertyNewValue


class X11Clipboard:
    """Clipboard with its own connection and thread, since programs may request its text at any time.

    Args:
        name: The display, `":7"`.
        xauthority: Its cookie file; None uses the environment's.
    """

    def __init__(self, name: str, xauthority: Path | None) -> None:
        x = require("Xlib.X", "desktop")
        self._lost = require("Xlib.error", "desktop").ConnectionClosedError
        self._connection = Connection(name, xauthority)
        window = self._connection.root.create_window(0, 0, 1, 1, 0, x.CopyFromParent, event_mask=x.PropertyChangeMask)
        self._owner = _Owner(self._connection.display, window)
        self._reader = _Reader(self._connection.display, window)
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="desktop-clipboard", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Return True if the server is still connected."""
        return self._thread.is_alive()

    def get(self) -> str:
        """Return the text of the clipboard, `""` if there is none or its owner does not answer in time."""
        result: Future[str] = Future()
        self._post(lambda: self._reader.ask(result))
        try:
            return result.result(_TIMEOUT_S)
        except TimeoutError:
            return ""

    def set(self, text: str) -> None:
        """Offer text to all programs."""
        done: Future[None] = Future()

        def offer() -> None:
            self._owner.offer(text)
            done.set_result(None)

        self._post(offer)
        done.result(_TIMEOUT_S)

    def close(self) -> None:
        """Stop serving; the offered text becomes unavailable."""
        if self.is_alive():
            self._post(None)
            self._thread.join(_TIMEOUT_S)
        os.close(self._wake_write)
        os.close(self._wake_read)

    def _post(self, request: Callable[[], None] | None) -> None:
        self._requests.put(request)
        os.write(self._wake_write, b"x")

    def _serve(self) -> None:
        try:
            while self._serve_once():
                pass
        except (self._lost, OSError):
            pass  # the server is gone, and the clipboard with it
        finally:
            self._connection.close()

    def _serve_once(self) -> bool:
        """Wait for requests and events and process them; return False when it is time to stop."""
        display = self._connection.display
        # Sending may also have read events, which select does not report.
        if display.pending_events() == 0:
            ready, _, _ = select.select([display.fileno(), self._wake_read], [], [])
        else:
            ready = []
        if self._wake_read in ready:
            os.read(self._wake_read, 1)
            request = self._requests.get()
            if request is None:
                return False
            request()
        while events := self._connection.drain():
            for event in events:
                self._owner.take(event)
                self._reader.take(event)
        return True


class _Owner:
    """Clipboard owner that sends its text to requestors."""

    def __init__(self, display: "Display", window: "Window") -> None:
        self._x = require("Xlib.X", "desktop")
        self._notify = require("Xlib.protocol.event", "desktop").SelectionNotify
        self._display = display
        self._window = window
        self._atom = display.get_atom
        self._text = ""
        self._rest: dict[tuple[int, int], tuple[int, bytes]] = {}

    def offer(self, text: str) -> None:
        self._text = text
        self._window.set_selection_owner(self._atom("CLIPBOARD"), self._x.CurrentTime)
        self._display.sync()

    def take(self, event: "Event") -> None:
        if event.type == self._x.SelectionRequest:
            # Very old programs leave the property unset.
            written = unless_gone(lambda: self._hand_out(event, event.property or event.target))
            fields = {name: getattr(event, name) for name in ("time", "requestor", "selection", "target")}
            event.requestor.send_event(self._notify(property=written or 0, **fields))
        elif event.type == self._x.PropertyNotify and event.state == _DELETED:
            self._hand_out_next(event.window, event.atom)

    def _hand_out(self, event: "Event", name: int) -> int | None:
        """Write the requested data into the requestor's property; return None if the target is not supported."""
        targets = [self._atom(target) for target in ("UTF8_STRING", "text/plain;charset=utf-8", "TEXT", "STRING")]
        if event.target == self._atom("TARGETS"):
            event.requestor.change_property(name, self._atom("ATOM"), 32, [event.target, *targets])
            return name
        if event.target not in targets:
            return None
        kind = targets[0] if event.target == self._atom("TEXT") else event.target
        encoding = "latin-1" if kind == self._atom("STRING") else "utf-8"
        data = self._text.encode(encoding, errors="replace")
        if len(data) > _CHUNK:
            event.requestor.change_attributes(event_mask=self._x.PropertyChangeMask)
            self._rest[event.requestor.id, name] = kind, data
            event.requestor.change_property(name, self._atom("INCR"), 32, [len(data)])
        else:
            event.requestor.change_property(name, kind, 8, data)
        return name

    def _hand_out_next(self, requestor: "Window", name: int) -> None:
        if (requestor.id, name) in self._rest:
            kind, data = self._rest.pop((requestor.id, name))
            requestor.change_property(name, kind, 8, data[:_CHUNK])
            if data:  # the last, empty part signals the end
                self._rest[requestor.id, name] = kind, data[_CHUNK:]


class _Reader:
    """Requestor of the text of the current clipboard owner."""

    def __init__(self, display: "Display", window: "Window") -> None:
        self._x = require("Xlib.X", "desktop")
        self._display = display
        self._window = window
        self._atom = display.get_atom
        self._name = display.get_atom("K25_CLIPBOARD")
        self._result: Future[str] | None = None
        self._parts: list[bytes] | None = None
        self._encoding = "utf-8"

    def ask(self, result: "Future[str]") -> None:
        self._result, self._parts = result, None
        self._convert("UTF8_STRING", "utf-8")

    def take(self, event: "Event") -> None:
        if self._result is None:
            return
        if event.type == self._x.SelectionNotify and event.requestor == self._window:
            if event.property:
                self._take_first()
            elif self._encoding == "utf-8":
                self._convert("STRING", "latin-1")
            else:
                self._finish([])
        elif self._parts is not None and self._is_next_part(event):
            part, _ = self._read()
            self._parts.append(part)
            if not part:
                self._finish(self._parts)

    def _is_next_part(self, event: "Event") -> bool:
        if event.type != self._x.PropertyNotify or event.state != _NEW_VALUE:
            return False
        return bool(event.window == self._window and event.atom == self._name)

    def _convert(self, target: str, encoding: str) -> None:
        self._encoding = encoding
        clipboard = self._atom("CLIPBOARD")
        self._window.convert_selection(clipboard, self._atom(target), self._name, self._x.CurrentTime)

    def _take_first(self) -> None:
        data, kind = self._read()
        if kind == self._atom("INCR"):
            self._parts = []  # reading deletes the property, which requests the first part
        else:
            self._finish([data])

    def _read(self) -> tuple[bytes, int]:
        prop = self._window.get_full_property(self._name, self._x.AnyPropertyType, sizehint=_CHUNK)
        self._window.delete_property(self._name)
        if prop is None or prop.format != 8:
            return b"", 0 if prop is None else prop.property_type
        return bytes(prop.value), prop.property_type

    def _finish(self, parts: list[bytes]) -> None:
        if self._result is not None and not self._result.done():
            self._result.set_result(b"".join(parts).decode(self._encoding, errors="replace"))
        self._result = self._parts = None
