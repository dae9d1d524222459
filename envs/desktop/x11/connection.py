"""Connections to an X server."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from envs.errors import EnvSetupError, require

if TYPE_CHECKING:
    from Xlib.display import Display
    from Xlib.protocol.request import GetProperty
    from Xlib.protocol.rq import Event
    from Xlib.xobject.drawable import Window

T = TypeVar("T")
InputKind = Literal["key", "button", "motion"]
_ANY_TYPE = 0  # Source: X11/X.h AnyPropertyType
_MAX_LENGTH = 4096  # of a property, in units of 4 bytes
_environment = threading.Lock()


@contextmanager
def cookie_from(xauthority: Path | None) -> Iterator[None]:
    """Set the cookie file of connections made in the block.

    X libraries read it only from the environment, so the variable is set temporarily, for one connection of this
    process at a time.
    """
    if xauthority is None:
        yield
        return
    with _environment:
        before = os.environ.get("XAUTHORITY")
        os.environ["XAUTHORITY"] = str(xauthority)
        try:
            yield
        finally:
            if before is None:
                del os.environ["XAUTHORITY"]
            else:
                os.environ["XAUTHORITY"] = before


def open_display(name: str, xauthority: Path | None) -> "Display":
    """Open a python-xlib `Display`; its asynchronous errors are ignored instead of printed.

    Raises:
        EnvSetupError: If no X server answers at that name, or it refuses the connection.
        MissingDependencyError: If python-xlib is not installed.
    """
    display_module = require("Xlib.display", "desktop")
    error = require("Xlib.error", "desktop")
    try:
        with cookie_from(xauthority):
            display = display_module.Display(name)
    except (error.DisplayError, error.ConnectionClosedError, OSError) as cause:
        raise EnvSetupError(
            f"cannot connect to the X display {name!r}: {cause}. Expected a running X server that lets this user in; "
            "check DISPLAY and XAUTHORITY, or leave the display out to start a private one"
        ) from cause
    display.set_error_handler(lambda *_: None)
    return display


class SentInputs:
    """Thread-safe counter of the inputs sent to a display; they are counted before they are sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: Counter[InputKind] = Counter()
        self._last_s = 0.0

    def count(self, kind: InputKind) -> None:
        """Count one input."""
        with self._lock:
            self._numbers[kind] += 1
            self._last_s = time.monotonic()

    def now(self) -> tuple[Counter[InputKind], float]:
        """Return the counts, and the seconds since the last input."""
        with self._lock:
            return self._numbers.copy(), time.monotonic() - self._last_s


class Connection:
    """Connection to a display for requests and the few relevant events.

    Attributes:
        display: python-xlib `Display`.
        root: Its root window.
        mapping_changed: True if the keyboard mapping was changed; the reader resets it.
        sent: Counter of the sent inputs.
    """

    def __init__(self, name: str, xauthority: Path | None) -> None:
        self.display = open_display(name, xauthority)
        self.root = self.display.screen().root
        self.mapping_changed = False
        self.sent = SentInputs()
        x = require("Xlib.X", "desktop")
        self._mapping_notify = x.MappingNotify
        self._key, self._button, self._motion = (
            (x.KeyRelease, x.KeyPress),
            (x.ButtonRelease, x.ButtonPress),
            x.MotionNotify,
        )

    def drain(self) -> "list[Event]":
        """Return all events that have arrived, which would otherwise accumulate in memory."""
        events = [self.display.next_event() for _ in range(self.display.pending_events())]
        self.mapping_changed |= any(event.type == self._mapping_notify for event in events)
        return events

    def send_key(self, keycode: int, *, down: bool) -> None:
        """Press or release a key by XTEST."""
        self.sent.count("key")
        self.display.xtest_fake_input(self._key[down], keycode)

    def send_button(self, number: int, *, down: bool) -> None:
        """Press or release a mouse button by XTEST."""
        self.sent.count("button")
        self.display.xtest_fake_input(self._button[down], number)

    def send_motion(self, x_px: int, y_px: int) -> None:
        """Move the pointer by XTEST."""
        self.sent.count("motion")
        self.display.xtest_fake_input(self._motion, 0, x=x_px, y=y_px)

    def atom(self, name: str) -> int:
        """Return the server's number for a name."""
        return int(self.display.get_atom(name))

    def read_numbers(self, window: "Window", name: str) -> list[int]:
        """Return a property of 32-bit numbers; empty if the window has none or is gone."""
        value = self._read(window, name)
        return [] if value is None or value.format != 32 else list(value.value)

    def read_text(self, window: "Window", name: str) -> str | None:
        """Return a property of text; None if the window has none or is gone."""
        value = self._read(window, name)
        if value is None or value.format != 8:
            return None
        encoding = "latin-1" if value.property_type == self.atom("STRING") else "utf-8"
        return bytes(value.value).decode(encoding, errors="replace") or None

    def _read(self, window: "Window", name: str) -> "GetProperty | None":
        return unless_gone(partial(window.get_property, self.atom(name), _ANY_TYPE, 0, _MAX_LENGTH))

    def close(self) -> None:
        """Disconnect, even if the server is gone."""
        error = require("Xlib.error", "desktop")
        try:
            self.display.close()
        except (error.ConnectionClosedError, OSError):
            pass


def unless_gone(look: Callable[[], T]) -> T | None:
    """Return the result of a request about a window; None if the window is gone."""
    try:
        return look()
    except require("Xlib.error", "desktop").XError:
        return None
