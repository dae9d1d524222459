"""Input on a display that is not ours: a person at the mouse or the keyboard, or another program that stands for one.

The server reports each input as a raw event of XInput 2, also those that we send by XTEST, one for one (measured with
Xvfb 21.1: moves, also to the same place, buttons, the wheel, keys, also of lent characters). So what is reported beyond
what we have sent is somebody else's. Which key it was is not read.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from envs.desktop.x11.connection import InputKind, SentInputs, open_display
from envs.env import Touch
from envs.errors import require

# Source: XI2.h, XIAllMasterDevices and the numbers of raw events; X.h, GenericEvent
_ALL_MASTER_DEVICES = 1
_RAW_EVENTS: dict[int, InputKind] = {13: "key", 14: "key", 15: "button", 16: "button", 17: "motion"}
_GENERIC_EVENT = 35
_VERSION = (2, 2)  # from 2.1 on raw events come also while somebody has grabbed the device
_MOTIONS, _WINDOW_S = 3, 1.0
"""So many moves within the time are a hand; one alone may be a table that shakes."""
_QUIET_S = 1.0


class TouchSensor:
    """Tells of other people's input, over a connection of its own; used from one thread.

    Args:
        name: The display.
        xauthority: Its cookie file; None takes the environment's.
        sent: Counts ours.

    Raises:
        EnvSetupError: No connection.
    """

    def __init__(self, name: str, xauthority: Path | None, sent: SentInputs) -> None:
        self._sent = sent
        self._display: Any = open_display(name, xauthority)
        self._seen, _ = sent.now()
        self._moves: list[float] = []
        self.is_working = self._select()

    def poll(self) -> Touch | None:
        """What was touched since the last call.

        Raises:
            Xlib.error.ConnectionClosedError: The display is gone.
        """
        for _ in range(self._display.pending_events()):
            event = self._display.next_event()
            kind = _RAW_EVENTS.get(getattr(event, "evtype", 0)) if event.type == _GENERIC_EVENT else None
            if kind is not None:
                self._seen[kind] += 1
        sent, quiet_s = self._sent.now()
        strange = self._seen - sent  # positive numbers only
        if strange or quiet_s > _QUIET_S:  # once ours have surely come back, what never did is forgotten
            self._seen = Counter(sent) if quiet_s > _QUIET_S else self._seen - strange
        now = time.monotonic()
        self._moves = [at for at in self._moves if now - at < _WINDOW_S] + [now] * strange["motion"]
        if strange["key"]:
            return "keyboard"
        if strange["button"] or len(self._moves) >= _MOTIONS:
            self._moves.clear()
            return "mouse"
        return None

    def close(self) -> None:
        """Disconnect, also from a server that is gone."""
        try:
            self._display.close()
        except (require("Xlib.error", "desktop").ConnectionClosedError, OSError):
            pass

    def _select(self) -> bool:
        """Ask for raw events; False where the server has none of them."""
        xinput = require("Xlib.ext.xinput", "desktop")
        if not self._display.has_extension(xinput.extname):
            return False
        opcode = self._display.display.get_extension_major(xinput.extname)
        reply = xinput.XIQueryVersion(
            display=self._display.display, opcode=opcode, major_version=_VERSION[0], minor_version=_VERSION[1]
        )
        mask = sum(1 << number for number in _RAW_EVENTS)
        self._display.screen().root.xinput_select_events([(_ALL_MASTER_DEVICES, mask)])
        self._display.sync()
        return (reply.major_version, reply.minor_version) >= _VERSION
