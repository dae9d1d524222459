"""Screenshots of a screen: capture, pointer drawing, PNG encoding, and waiting until the screen settles."""

import functools
import struct
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from envs.desktop.backend import Backend, Cursor, InterruptibleClock, ScreenFrame, ScreenLostError, ScreenRegion
from envs.errors import require

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FILTER_UP = 2
_BAND_ROWS = 32
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
    """Encode an image losslessly.

    Args:
        bgrx: Pixels, (height, width, 4) uint8, blue green red unused, rows without padding.
        size_px: Width and height.

    Returns:
        A PNG file, 8-bit RGB.
    """
    width, height = size_px
    data = _deflate(_rows(bgrx, size_px))
    if len(data) > _PHOTO_SHARE * height * (width * 3 + 1):
        rows = b"".join(_rows(bgrx, size_px))
        data = min(data, _deflate([_filtered_up(rows, size_px)], _FILTER_UP), key=len)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return _PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _rows(bgrx: bytes | bytearray, size_px: tuple[int, int]) -> Iterator[bytes]:
    """Yield the rows of the image as RGB, some at a time, each row followed by the filter byte of the next one.

    A few rows fit in the processor's cache, and the memory for them is reused.
    """
    import numpy as np
    from PIL import Image

    width, height = size_px
    pixels = np.frombuffer(bgrx, np.uint8).reshape(height, width * 4)
    for top in range(0, height, _BAND_ROWS):
        band = pixels[top : top + _BAND_ROWS]
        # Read as RGBX and written as BGR: no copy on input, and red and blue are swapped on output.
        image = Image.frombuffer("RGBX", (width, len(band)), band, "raw", "RGBX", 0, 1)
        yield image.tobytes("raw", "BGR", width * 3 + 1)  # one zero byte after each row


def _deflate(bands: Iterable[bytes], first_filter: int = 0) -> bytes:
    """Compress rows that end with the filter byte of the next row; the last byte is dropped."""
    stream = _find_deflate()(1)
    parts = [stream.compress(bytes([first_filter]))]
    last = b""
    for band in bands:
        parts.append(stream.compress(last))
        last = band
    return b"".join([*parts, stream.compress(memoryview(last)[:-1]), stream.flush()])


@functools.cache
def _find_deflate() -> Callable[[int], Any]:
    """Return `zlib.compressobj` or a faster equivalent."""
    try:
        from isal import isal_zlib
    except ModuleNotFoundError:  # same pixels, three times slower
        return zlib.compressobj
    make: Callable[[int], Any] = isal_zlib.compressobj
    return make


def _filtered_up(rows: bytes, size_px: tuple[int, int]) -> bytes:
    """Return each row minus the one above, followed by the filter byte `up`."""
    import numpy as np

    width, height = size_px
    plain = np.frombuffer(rows, np.uint8).reshape(height, width * 3 + 1)
    filtered = plain.copy()
    filtered[1:] -= plain[:-1]
    filtered[:, -1] = _FILTER_UP
    return filtered.tobytes()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def arrow_at(x_px: int, y_px: int) -> Cursor:
    """Return a white arrow with a black edge and its tip at a point of the screen frame."""
    return Cursor(bgra=_ARROW_BGRA, size_px=(_ARROW_WIDTH, len(_ARROW_ROWS)), left_px=x_px, top_px=y_px)


class Grabber:
    """Persistent mss instance. Use it from one thread only.

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
        # mss asserts that a server answers; without assertions it gets a null pointer, a ValueError.
        self._failures = (self._mss.exception.ScreenShotError, AssertionError, ValueError)
        self._display = display
        self._connecting = connecting
        self._screen: Any = self._open()

    def grab(self, region: ScreenRegion) -> ScreenFrame:
        """Capture the pixels of a region.

        Raises:
            ScreenLostError: If the screen is gone.
        """
        box = {
            "left": region.left_px,
            "top": region.top_px,
            "width": region.width_px,
            "height": region.height_px,
        }
        try:
            shot = self._screen.grab(box) if self._screen is not None else self._reopen_and_grab(box)
        except self._failures:  # the screen size may have changed: reconnect and retry once
            shot = self._reopen_and_grab(box)
        return ScreenFrame(bgrx=shot.raw, size_px=(shot.width, shot.height))

    def close(self) -> None:
        """Disconnect, even if the screen is gone."""
        # Closing an mss object twice frees its connection twice if the server was gone the first time.
        screen, self._screen = self._screen, None
        try:
            if screen is not None:
                screen.close()
        except self._failures:
            pass

    def _reopen_and_grab(self, box: dict[str, int]) -> Any:
        self.close()
        try:
            self._screen = self._open()
            return self._screen.grab(box)
        except self._failures as error:
            raise ScreenLostError(str(error)) from error

    def _open(self) -> object:
        with self._connecting():
            return self._mss.MSS() if self._display is None else self._mss.MSS(display=self._display)


class ScreenCamera:
    """Camera for one region of a screen.

    Args:
        backend: The screen.
        region: Region to capture.
        draw_cursor: True to draw the pointer into the screenshot.
    """

    def __init__(self, backend: Backend, region: ScreenRegion, *, draw_cursor: bool) -> None:
        self._backend = backend
        self._region = region
        self._draw_cursor = draw_cursor
        # Kept so that a new frame finds the memory of an old one: with fewer frames left, the allocator returns it to
        # the system, and 6,000 page faults per step take a third of its processor time.
        self._recent: deque[ScreenFrame] = deque(maxlen=2)
        self._prepared: tuple[ScreenFrame, Cursor | None, bytes] | None = None

    def grab(self) -> ScreenFrame:
        """Capture the current pixels of the region, without the pointer."""
        frame = self._backend.grab(self._region)
        self._recent.append(frame)
        return frame

    def prepare(self, frame: ScreenFrame) -> None:
        """Encode a captured frame ahead of `encode`, unless that was done and the pointer has not changed since."""
        cursor = self._cursor()
        if self._prepared is None or self._prepared[0] is not frame or self._prepared[1] != cursor:
            with nullcontext() if cursor is None else drawn_cursor(frame, self._region, cursor):
                self._prepared = (frame, cursor, encode_png(frame.bgrx, frame.size_px))

    def encode(self, frame: ScreenFrame) -> bytes:
        """Encode a captured frame with the pointer as PNG."""
        self.prepare(frame)
        assert self._prepared is not None
        png, self._prepared = self._prepared[2], None
        return png

    def _cursor(self) -> Cursor | None:
        if not self._draw_cursor:
            return None
        return self._backend.cursor() or arrow_at(*self._backend.pointer_px())


@contextmanager
def drawn_cursor(frame: ScreenFrame, region: ScreenRegion, cursor: Cursor) -> Iterator[None]:
    """Draw the pointer into a captured frame, in place, until the context ends.

    Args:
        frame: Captured frame of `region`.
        region: Region of the frame on the screen.
        cursor: Image and position of the pointer in the screen frame.
    """
    import numpy as np

    width, height = frame.size_px
    cursor_width, cursor_height = cursor.size_px
    left = round((cursor.left_px - region.left_px) * width / region.width_px)
    top = round((cursor.top_px - region.top_px) * height / region.height_px)
    columns = slice(max(left, 0), max(left + cursor_width, 0))
    rows = slice(max(top, 0), max(top + cursor_height, 0))
    screen = np.frombuffer(frame.bgrx, np.uint8).reshape(height, width, 4)[rows, columns, :3]
    behind = screen.copy()
    pointer = np.frombuffer(cursor.bgra, np.uint8).reshape(cursor_height, cursor_width, 4)
    visible = (slice(rows.start - top, None), slice(columns.start - left, None))
    shown = pointer[visible][: len(screen), : screen.shape[1]].astype(np.uint16)
    covered = behind * (255 - shown[:, :, 3:]) // 255
    screen[:] = np.minimum(shown[:, :, :3] + covered, 255).astype(np.uint8)
    yield
    screen[:] = behind


_TILE_PX = 40  # unit of comparison: smaller tiles send less of a change, larger ones cost less time
_EFFECT_S = 0.08  # for programs that draw the effect of a click only when they are idle
_PATIENCE_S = 0.15  # afterwards, small changes (a blinking caret, a spinner) no longer count
_SMALL_SHARE = 0.004  # of the screen's tiles: a caret, a spinner, a clock
_RESTLESS_SHARE = 0.5  # of the frames: a tile that changes more often never settles


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledFrame:
    """Last captured frame, and whether the screen had settled by then."""

    frame: ScreenFrame
    is_quiet: bool


class ScreenSettler:
    """Detector of a settled screen: no relevant change for `quiet_s`.

    A change is ignored once `_PATIENCE_S` have passed and it covers few tiles, or only tiles that kept changing during
    an earlier wait (a film): that wait takes its full time once.

    Args:
        grab: Captures a frame.
        clock: Provides time and pauses.
        quiet_s: Time for which the screen must not change.
        timeout_s: Timeout.
        prepare: Called in a pause with a frame that is probably the result: it shows an effect of the input, or did not
            change during the last pause.
    """

    def __init__(
        self,
        grab: Callable[[], ScreenFrame],
        clock: InterruptibleClock,
        quiet_s: float,
        timeout_s: float,
        prepare: Callable[[ScreenFrame], object] = lambda frame: None,
    ) -> None:
        self._grab = grab
        self._clock = clock
        self._quiet_s = quiet_s
        self._timeout_s = timeout_s
        self._prepare = prepare
        self._restless: frozenset[tuple[int, int]] = frozenset()

    def wait(self, before: ScreenFrame | None = None) -> SettledFrame:
        """Wait until the screen has settled; an idle screen takes `quiet_s` and three captures.

        Args:
            before: Frame from before some input, which then gets more time to show an effect.
        """
        begin = still_since = self._clock.now_s()
        last = self._grab()
        has_effect = before is None or bool(changed_tiles(before, last))
        changes: Counter[tuple[int, int]] = Counter()
        tiles: frozenset[tuple[int, int]] = frozenset()
        num_grabs = 0
        while True:
            now = self._clock.now_s()
            quiet_s = self._quiet_s if has_effect else max(self._quiet_s, _EFFECT_S)
            if now - still_since >= quiet_s and num_grabs >= 2:
                return SettledFrame(frame=last, is_quiet=True)
            if now - begin >= self._timeout_s:
                self._restless = frozenset(
                    tile for tile, count in changes.items() if count > _RESTLESS_SHARE * num_grabs
                )
                return SettledFrame(frame=last, is_quiet=False)
            until = now + min(self._quiet_s / 2, max(0.001, still_since + quiet_s - now))
            if not tiles and (has_effect or num_grabs):
                self._prepare(last)
            self._clock.pause(max(0.0, until - self._clock.now_s()))
            frame = self._grab()
            num_grabs += 1
            tiles = changed_tiles(last, frame)
            changes.update(tiles)
            has_effect = has_effect or bool(tiles)
            if tiles:  # else the prepared frame stays
                last = frame
            if tiles and not (self._clock.now_s() - begin > _PATIENCE_S and self._is_noise(tiles, frame)):
                still_since = self._clock.now_s()

    def _is_noise(self, tiles: frozenset[tuple[int, int]], frame: ScreenFrame) -> bool:
        width, height = frame.size_px
        num_tiles = -(-width // _TILE_PX) * -(-height // _TILE_PX)
        return len(tiles - self._restless) <= max(2, _SMALL_SHARE * num_tiles)


def changed_tiles(before: ScreenFrame, after: ScreenFrame) -> frozenset[tuple[int, int]]:
    """Return the tiles (column, row) of 40x40 px that differ between two frames; every tile if the size differs."""
    if before.size_px == after.size_px and before.bgrx == after.bgrx:
        return frozenset()
    import numpy as np

    width, height = after.size_px
    if before.size_px != after.size_px:
        return frozenset((x, y) for x in range(-(-width // _TILE_PX)) for y in range(-(-height // _TILE_PX)))
    old, new = (np.frombuffer(frame.bgrx, np.uint32).reshape(height, width) for frame in (before, after))
    differs = old != new
    by_row = np.logical_or.reduceat(differs, np.arange(0, height, _TILE_PX), axis=0)
    by_tile = np.logical_or.reduceat(by_row, np.arange(0, width, _TILE_PX), axis=1)
    rows, columns = np.nonzero(by_tile)
    return frozenset(zip(columns.tolist(), rows.tolist(), strict=True))
