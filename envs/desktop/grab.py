"""Screen pixels through mss, which reads X11 (shared memory), Windows and macOS screens."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from envs.desktop.backend import Frame, Region
from envs.require import require


class Grabber:
    """One persistent mss instance. Use it from one thread only.

    Args:
        display: X display to read; None for the system's own screen.
        connecting: Makes a context that is entered around each connection to the screen.
    """

    def __init__(
        self,
        display: str | None = None,
        connecting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._mss = require("mss", "desktop")
        self._display = display
        self._connecting = connecting
        self._screen = self._open()

    def grab(self, region: Region) -> Frame:
        """The pixels of a region.

        Raises:
            mss.exception.ScreenShotError: The screen is gone.
        """
        box = {
            "left": region.left_px,
            "top": region.top_px,
            "width": region.width_px,
            "height": region.height_px,
        }
        try:
            shot = self._screen.grab(box)
        except self._mss.exception.ScreenShotError:  # the screen may have changed its size: look once more
            self.close()
            self._screen = self._open()
            shot = self._screen.grab(box)
        return Frame(bgrx=shot.raw, size_px=(shot.width, shot.height))

    def close(self) -> None:
        """Disconnect, also from a screen that is gone."""
        try:
            self._screen.close()
        except self._mss.exception.ScreenShotError:
            pass

    def _open(self) -> Any:
        with self._connecting():
            return self._mss.MSS() if self._display is None else self._mss.MSS(display=self._display)
