"""Screen pixels through mss, which reads X11 (shared memory), Windows and macOS screens."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from envs.desktop.backend import Frame, Region, ScreenLostError
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
        # mss asserts that a server answers; without assertions it meets a null pointer, a ValueError.
        self._failures = (self._mss.exception.ScreenShotError, AssertionError, ValueError)
        self._display = display
        self._connecting = connecting
        self._screen: Any = self._open()

    def grab(self, region: Region) -> Frame:
        """The pixels of a region.

        Raises:
            ScreenLostError: The screen is gone.
        """
        box = {
            "left": region.left_px,
            "top": region.top_px,
            "width": region.width_px,
            "height": region.height_px,
        }
        try:
            shot = self._screen.grab(box) if self._screen is not None else self._grab_anew(box)
        except self._failures:  # the screen may have changed its size: look once more
            shot = self._grab_anew(box)
        return Frame(bgrx=shot.raw, size_px=(shot.width, shot.height))

    def close(self) -> None:
        """Disconnect, also from a screen that is gone."""
        # Closing an mss object twice frees its connection twice when the server was gone at the first time.
        screen, self._screen = self._screen, None
        try:
            if screen is not None:
                screen.close()
        except self._failures:
            pass

    def _grab_anew(self, box: dict[str, int]) -> Any:
        self.close()
        try:
            self._screen = self._open()
            return self._screen.grab(box)
        except self._failures as error:
            raise ScreenLostError(str(error)) from error

    def _open(self) -> Any:
        with self._connecting():
            return self._mss.MSS() if self._display is None else self._mss.MSS(display=self._display)
