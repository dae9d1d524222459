"""Input by others on a display: a person at the mouse or the keyboard, or another program that sends input.

The server reports each input as a raw event of XInput 2, including inputs that this program sends by XTEST, one for one
(measured with Xvfb 21.1: moves, also to the same place, buttons, the wheel, keys, also of lent characters). Events
beyond the number sent come from others. The pressed key is not read.
"""

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from envs.desktop.x11.connection import InputKind, SentInputs, open_display
from envs.env import InputDevice
from envs.errors import require

if TYPE_CHECKING:
    from Xlib.display import Display

# Source: XI2.h, XIAllMasterDevices and the numbers of raw events; X.h, GenericEvent
_ALL_MASTER_DEVICES = 1
_RAW_EVENTS: dict[int, InputKind] = {13: "key", 14: "key", 15: "button", 16: "button", 17: "motion"}
_GENERIC_EVENT = 35
_VERSION = (2, 2)  # since 2.1 raw events are also sent while another client has grabbed the device
_MOTIONS, _WINDOW_S = 3, 1.0
"""Number of moves within a time that indicate a person; a single one may be a shaking table."""
_QUIET_S = 1.0  # longer than the X server takes to report own input, also on a busy machine


class UserInputSensor:
    """Sensor of input by other people, over its own connection; used from one thread.

    Args:
        name: The display.
        xauthority: Its cookie file; None uses the environment's.
        sent: Counter of the inputs sent by this program.

    Raises:
        EnvSetupError: If the connection fails.
    """

    def __init__(self, name: str, xauthority: Path | None, sent: SentInputs) -> None:
        self._sent = sent
        self._display: Display = open_display(name, xauthority)
        self._seen, _ = sent.now()
        self._moves: list[float] = []
        self.is_working = self._select()

    def poll(self) -> InputDevice | None:
        """Return the device used since the last call.

        Raises:
            Xlib.error.ConnectionClosedError: If the display is gone.
        """
        for _ in range(self._display.pending_events()):
            event = self._display.next_event()
            kind = _RAW_EVENTS.get(getattr(event, "evtype", 0)) if event.type == _GENERIC_EVENT else None
            if kind is not None:
                self._seen[kind] += 1
        sent, quiet_s = self._sent.now()
        strange = self._seen - sent  # drops negative counts
        if strange or quiet_s > _QUIET_S:  # after a quiet period all own events have arrived or never will
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
        """Disconnect, even if the server is gone."""
        try:
            self._display.close()
        except (require("Xlib.error", "desktop").ConnectionClosedError, OSError):
            pass

    def _select(self) -> bool:
        """Subscribe to raw events; return False if the server does not support them."""
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
