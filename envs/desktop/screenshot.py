"""Screenshots of a screen: grab its pixels, draw the pointer in, encode them as PNG."""

import functools
import struct
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from envs.desktop.backend import Backend, Cursor, Frame, Region, ScreenLostError
from envs.require import require

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FILTER_UP = 2
_PHOTO_SHARE = 0.35  # of the raw size: above it the "up" filter is tried
_ARROW_ROWS = """
X
XX
X.X
X..X
X...X
X....X
X.....X
X......X
X.......X
X........X
X.....XXXXX
X..X..X
X.X X..X
XX  X..X
X    X..X
     X..X
      XX
""".strip("\n").splitlines()
_ARROW_WIDTH = max(map(len, _ARROW_ROWS))
_ARROW_PIXELS = {"X": b"\0\0\0\xff", ".": b"\xff\xff\xff\xff", " ": b"\0\0\0\0"}
_ARROW_BGRA = b"".join(_ARROW_PIXELS[pixel] for row in _ARROW_ROWS for pixel in row.ljust(_ARROW_WIDTH))


def encode_png(bgrx: bytes | bytearray, size_px: tuple[int, int]) -> bytes:
    """Encode an image without loss.

    Args:
        bgrx: Pixels, (height, width, 4) uint8, blue green red unused, rows without padding.
        size_px: Width and height.

    Returns:
        A PNG file, 8-bit RGB.
    """
    from PIL import Image

    deflate = _find_deflate()
    width, height = size_px
    image = Image.frombuffer("RGB", size_px, bgrx, "raw", "BGRX", 0, 1)
    # One zero byte after each row: moved to the front, that is the filter byte "none" of the next one.
    rows = b"\0" + image.tobytes("raw", "RGB", width * 3 + 1)[:-1]
    data = deflate(rows, 1)
    if len(data) > _PHOTO_SHARE * len(rows):
        data = min(data, deflate(_filtered_up(rows, size_px), 1), key=len)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return _PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


@functools.cache
def _find_deflate() -> Callable[[bytes, int], bytes]:
    try:
        from isal import isal_zlib
    except ModuleNotFoundError:  # same pixels, three times the time
        return zlib.compress
    compress: Callable[[bytes, int], bytes] = isal_zlib.compress
    return compress


def _filtered_up(rows: bytes, size_px: tuple[int, int]) -> bytes:
    import numpy as np

    width, height = size_px
    plain = np.frombuffer(rows, np.uint8).reshape(height, width * 3 + 1)
    filtered = plain.copy()
    filtered[1:] -= plain[:-1]
    filtered[:, 0] = _FILTER_UP
    return filtered.tobytes()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def arrow_at(x_px: int, y_px: int) -> Cursor:
    """A white arrow with a black edge whose tip is at a point of the screen frame."""
    return Cursor(bgra=_ARROW_BGRA, size_px=(_ARROW_WIDTH, len(_ARROW_ROWS)), left_px=x_px, top_px=y_px)


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


class Camera:
    """Makes screenshots of one region of a screen.

    Args:
        backend: The screen.
        region: The part of it that is shown.
        draw_cursor: Whether the pointer is in the screenshot.
    """

    def __init__(self, backend: Backend, region: Region, *, draw_cursor: bool) -> None:
        self._backend = backend
        self._region = region
        self._draw_cursor = draw_cursor

    def grab(self) -> Frame:
        """The region's pixels now, without the pointer."""
        return self._backend.grab(self._region)

    def develop(self, frame: Frame, pointer_px: tuple[int, int]) -> bytes:
        """The PNG file of a grab; draws the pointer into the grab in place."""
        if self._draw_cursor:
            draw_cursor(frame, self._region, self._backend.cursor() or arrow_at(*pointer_px))
        return encode_png(frame.bgrx, frame.size_px)


def draw_cursor(frame: Frame, region: Region, cursor: Cursor) -> None:
    """Draw the pointer into a grab, in place.

    Args:
        frame: The grab of `region`.
        region: Where the grab is on the screen.
        cursor: The pointer's image and place in the screen frame.
    """
    import numpy as np

    width, height = frame.size_px
    cursor_width, cursor_height = cursor.size_px
    left = round((cursor.left_px - region.left_px) * width / region.width_px)
    top = round((cursor.top_px - region.top_px) * height / region.height_px)
    x_begin, x_end = max(left, 0), min(left + cursor_width, width)
    y_begin, y_end = max(top, 0), min(top + cursor_height, height)
    if x_begin >= x_end or y_begin >= y_end:
        return
    screen = np.frombuffer(frame.bgrx, np.uint8).reshape(height, width, 4)[y_begin:y_end, x_begin:x_end, :3]
    pointer = np.frombuffer(cursor.bgra, np.uint8).reshape(cursor_height, cursor_width, 4)
    shown = pointer[y_begin - top : y_end - top, x_begin - left : x_end - left].astype(np.uint16)
    behind = screen * (255 - shown[:, :, 3:]) // 255
    screen[:] = np.minimum(shown[:, :, :3] + behind, 255).astype(np.uint8)
