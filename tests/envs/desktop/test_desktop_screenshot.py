import io
import zlib

import numpy as np
import pytest
from PIL import Image

from envs.desktop import screenshot
from envs.desktop.backend import Cursor, ScreenFrame, ScreenRegion
from envs.desktop.screenshot import drawn_cursor


def noise(width: int, height: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (height, width, 4), dtype=np.uint8)


def slope(width: int, height: int) -> np.ndarray:
    """An image like a photograph: every pixel differs a little from its neighbours."""
    y, x = np.mgrid[0:height, 0:width]
    wave = (127 + 120 * np.sin(x / 37.0 + y / 91.0)).astype(np.uint8)
    grain = np.random.default_rng(7).integers(0, 4, (height, width), dtype=np.uint8)
    return np.stack([wave + grain, wave // 2 + grain, 255 - wave, wave], axis=2).astype(np.uint8)


@pytest.mark.parametrize("picture", [noise(1, 1), noise(1, 5), noise(7, 1), noise(321, 123), slope(640, 480)])
@pytest.mark.parametrize("deflate", ["isal", "zlib"])
def test_pixels_survive(picture: np.ndarray, deflate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if deflate == "zlib":
        monkeypatch.setattr(screenshot, "_find_deflate", lambda: zlib.compressobj)
    height, width = picture.shape[:2]
    data = screenshot.encode_png(bytearray(picture.tobytes()), (width, height))
    image = Image.open(io.BytesIO(data))
    image.verify()
    image = Image.open(io.BytesIO(data))
    assert (image.mode, image.size) == ("RGB", (width, height))
    assert np.array_equal(np.asarray(image), picture[:, :, 2::-1])


def test_a_photograph_is_filtered() -> None:
    picture = slope(640, 480)
    data = screenshot.encode_png(picture.tobytes(), (640, 480))
    plain = screenshot._deflate(row[:, 2::-1].tobytes() + b"\0" for row in picture)
    assert len(data) < 0.9 * len(plain)


@pytest.mark.parametrize("at", [(0, 0), (-1, -1), (2, 3), (4, 3), (50, 50), (-9, 0)])
def test_the_pointer_is_blended_where_it_overlaps(at: tuple[int, int]) -> None:
    width, height, left, top = 5, 4, 100, 200
    frame = ScreenFrame(bgrx=bytearray(b"\x40\x80\xc0\x00" * (width * height)), size_px=(width, height))
    region = ScreenRegion(left_px=left, top_px=top, width_px=width, height_px=height)
    pixels = [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x10\x20\x30\x80", b"\0\0\0\xff"]  # white, clear, half, black
    cursor = Cursor(bgra=b"".join(pixels), size_px=(2, 2), left_px=left + at[0], top_px=top + at[1])
    bare = bytes(frame.bgrx)
    with drawn_cursor(frame, region, cursor):
        found = np.frombuffer(bytes(frame.bgrx), np.uint8).reshape(height, width, 4)[:, :, :3]
    assert frame.bgrx == bare
    shown = {(0, 0): (255, 255, 255), (1, 0): (0x40, 0x80, 0xC0), (1, 1): (0, 0, 0)}
    shown[0, 1] = (0x10 + 0x40 * 127 // 255, 0x20 + 0x80 * 127 // 255, 0x30 + 0xC0 * 127 // 255)
    for y in range(height):
        for x in range(width):
            expected = shown.get((x - at[0], y - at[1]), (0x40, 0x80, 0xC0))
            assert tuple(found[y, x]) == expected, (x, y)
