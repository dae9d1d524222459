"""Live view of a desktop for people who watch, and detection of input by people at the desktop.

Each uses a separate connection and thread.
"""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from envs.desktop.backend import ScreenFrame, ScreenLostError
from envs.desktop.running_desktop import RunningDesktop
from envs.desktop.screenshot import Grabber
from envs.env import InputDevice
from envs.errors import EnvError
from envs.observation import LiveFrame

if TYPE_CHECKING:
    from envs.desktop.x11.user_input import UserInputSensor

_QUALITY = 70  # JPEG for a person who watches: bandwidth against sharpness
_AWAY_S = 0.1
_SLOWER, _IDLE_S = 1.5, 0.5
"""Factor by which the polling interval of an unchanged screen grows, and its maximum."""


async def watch_desktop(find_desktop: Callable[[], RunningDesktop | None], max_fps: float) -> AsyncIterator[LiveFrame]:
    """Yield frames of the region that observations show, whenever it has changed.

    Args:
        find_desktop: Returns the desktop of the current episode, None between two.
        max_fps: Maximum number of frames per second.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "desktop-screencast") as thread:
        reader: _FrameReader | None = None
        wait_s = 1.0 / max_fps
        try:
            while True:
                desktop = find_desktop()
                if desktop is None or not hasattr(desktop, "region"):  # not started yet
                    await asyncio.sleep(_AWAY_S)
                    continue
                if reader is None or reader.desktop is not desktop:
                    reader = _FrameReader(desktop)
                began_s = time.monotonic()
                image = await loop.run_in_executor(thread, reader.read)
                wait_s = 1.0 / max_fps if image else min(wait_s * _SLOWER, max(_IDLE_S, 1.0 / max_fps))
                if image:
                    yield LiveFrame(image=image)
                await asyncio.sleep(max(0.0, began_s + wait_s - time.monotonic()))
        finally:
            if reader is not None:
                thread.submit(reader.close)


async def watch_user_input(find_desktop: Callable[[], RunningDesktop | None]) -> AsyncIterator[InputDevice]:
    """Yield input of other people on the display as it happens.

    Args:
        find_desktop: Returns the desktop of the current episode, None between two.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "desktop-user-input") as thread:
        reader: _UserInputReader | None = None
        try:
            while True:
                desktop = find_desktop()
                if desktop is not None and hasattr(desktop, "region"):
                    if reader is None or reader.desktop is not desktop:
                        if reader is not None:
                            thread.submit(reader.close)
                        reader = _UserInputReader(desktop)
                    touch = await loop.run_in_executor(thread, reader.read)
                    if touch is not None:
                        yield touch
                await asyncio.sleep(_AWAY_S)
        finally:
            if reader is not None:
                thread.submit(reader.close)


class _UserInputReader:
    """Reader of people's input on one desktop; used from one thread."""

    def __init__(self, desktop: RunningDesktop) -> None:
        self.desktop = desktop
        self._sensor: UserInputSensor | None = None
        self._is_open = False

    def read(self) -> InputDevice | None:
        """Return the input since the last call; None also if it cannot be detected (any more)."""
        try:
            if not self._is_open:
                self._is_open = True
                self._sensor = self.desktop.open_input_sensor()
            return self._sensor.poll() if self._sensor is not None else None
        except Exception as error:
            if not isinstance(error, (EnvError, OSError, *self.desktop.lost)):
                raise
            self.close()
            return None

    def close(self) -> None:
        """Disconnect."""
        sensor, self._sensor = self._sensor, None
        if sensor is not None:
            sensor.close()


class _FrameReader:
    """Reader of the screen of one desktop; used from one thread."""

    def __init__(self, desktop: RunningDesktop) -> None:
        self.desktop = desktop
        self._grabber: Grabber | None = None
        self._last: ScreenFrame | None = None

    def read(self) -> bytes | None:
        """Return the screen as JPEG; None if it is unchanged or gone."""
        try:
            if self._grabber is None:
                self._grabber = self.desktop.open_grabber()
            frame = self._grabber.grab(self.desktop.region)
        except (ScreenLostError, OSError):
            self.close()
            return None
        last, self._last = self._last, frame
        if last is not None and last.size_px == frame.size_px and last.bgrx == frame.bgrx:
            return None
        return _to_jpeg(frame)

    def close(self) -> None:
        """Disconnect."""
        grabber, self._grabber = self._grabber, None
        if grabber is not None:
            grabber.close()


def _to_jpeg(frame: ScreenFrame) -> bytes:
    import numpy as np
    from PIL import Image

    buffer = io.BytesIO()
    image = Image.frombuffer("RGB", frame.size_px, np.frombuffer(frame.bgrx, np.uint8), "raw", "BGRX", 0, 1)
    image.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
