"""Frames are shown as a player shows them: the right way up, in the right shape and in the right colours."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import visual_tools as vt
from tests.visual_tools.video.making import Picture, Recipe, make_video, read_number

COLORS = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (200, 120, 40), (90, 90, 90)]


def make_corners(size: tuple[int, int] = (128, 96)) -> Picture:
    """Red upper left, green upper right, blue lower left, white lower right."""
    width_px, height_px = size
    image = np.zeros((height_px, width_px, 3), np.uint8)
    image[: height_px // 2, : width_px // 2] = (255, 0, 0)
    image[: height_px // 2, width_px // 2 :] = (0, 255, 0)
    image[height_px // 2 :, : width_px // 2] = (0, 0, 255)
    image[height_px // 2 :, width_px // 2 :] = (255, 255, 255)
    return image


def name_corners(image: Picture) -> str:
    """The colours upper left, upper right, lower left, lower right as letters."""
    height_px, width_px = image.shape[:2]
    letters = {(1, 0, 0): "r", (0, 1, 0): "g", (0, 0, 1): "b", (1, 1, 1): "w"}
    places = [(y, x) for y in (height_px // 4, height_px * 3 // 4) for x in (width_px // 4, width_px * 3 // 4)]
    return "".join(letters[tuple((image[place] > 127).astype(int).tolist())] for place in places)


@pytest.mark.parametrize(
    ("degrees", "is_flipped", "corners"),
    [
        (0, False, "rgbw"),
        (-90, False, "brwg"),  # clockwise
        (90, False, "gwrb"),
        (180, False, "wbgr"),
        (0, True, "grwb"),
        (90, True, "wgbr"),
    ],
)
def test_turned_and_mirrored(tmp_path: Path, degrees: int, is_flipped: bool, corners: str) -> None:
    recipe = Recipe(prepare=lambda stream: stream.set_display_rotation(degrees, hflip=is_flipped))
    path = make_video(tmp_path, [make_corners()] * 3, recipe)
    info = vt.probe(path)
    size = (96, 128) if degrees % 180 else (128, 96)
    assert (info.width_px, info.height_px) == size
    assert (info.native_width_px, info.native_height_px) == (128, 96)
    assert [name_corners(frame.image) for frame in vt.sample_frames(path, n=3)] == [corners] * 3
    assert name_corners(vt.sample_frames(path, n=1, max_side_px=50)[0].image) == corners
    if not is_flipped:
        assert info.rotation_deg == -degrees % 360


def test_pixels_that_are_not_square(tmp_path: Path) -> None:
    def widen(stream: object) -> None:
        stream.codec_context.sample_aspect_ratio = Fraction(3, 2)  # type: ignore[attr-defined]

    path = make_video(tmp_path, 3, Recipe(prepare=widen))
    info = vt.probe(path)
    assert (info.width_px, info.height_px, info.native_width_px) == (192, 96, 128)
    frames = vt.sample_frames(path, n=3)
    assert [frame.image.shape for frame in frames] == [(96, 192, 3)] * 3
    assert [read_number(frame.image) for frame in frames] == [0, 1, 2]
    assert vt.sample_frames(path, n=1, max_side_px=64)[0].image.shape == (32, 64, 3)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (131, 97), (16, 400)])
@pytest.mark.parametrize("pix_fmt", ["rgb24", "gray"])
def test_odd_sizes(tmp_path: Path, size: tuple[int, int], pix_fmt: str) -> None:
    grey = np.full((size[1], size[0], 3), 120, np.uint8)
    path = make_video(tmp_path, [grey] * 3, Recipe(name="a.mov", codec="png", pix_fmt=pix_fmt, options={}, size=size))
    frames = vt.sample_frames(path, n=3)
    assert [frame.image.shape for frame in frames] == [(size[1], size[0], 3)] * 3
    assert frames[2].image.min() >= 118 and frames[2].image.max() <= 122
    assert max(vt.sample_frames(path, n=1, max_side_px=2)[0].image.shape[:2]) <= 2


def test_odd_sizes_of_halved_color(tmp_path: Path) -> None:
    recipe = Recipe(name="a.mkv", codec="ffv1", options={}, size=(131, 97))
    assert [read_number(frame.image) for frame in vt.sample_frames(make_video(tmp_path, 4, recipe))] == [0, 1, 2, 3]


@dataclass(frozen=True)
class Matrix:
    """How colours are written down; the weights of red and blue are those of the recommendations."""

    red: float
    blue: float
    tag: int
    is_full: bool = False
    bits: int = 8

    def encode(self, color: tuple[int, int, int]) -> tuple[int, int, int]:
        """Y, Cb and Cr of a colour, by ITU-R BT.601 and BT.709."""
        r, g, b = (part / 255 for part in color)
        luma = self.red * r + (1 - self.red - self.blue) * g + self.blue * b
        parts = luma, (b - luma) / (2 - 2 * self.blue), (r - luma) / (2 - 2 * self.red)
        scales, offsets = ((255, 255, 255), (0, 128, 128)) if self.is_full else ((219, 224, 224), (16, 128, 128))
        step = 2 ** (self.bits - 8)
        top = 2**self.bits - 1
        pairs = zip(parts, scales, offsets, strict=True)
        return tuple(min(round((part * scale + offset) * step), top) for part, scale, offset in pairs)  # type: ignore


def write_flat(path: Path, color: tuple[int, int, int], matrix: Matrix, size: tuple[int, int]) -> None:
    pix_fmt = "yuv420p" if matrix.bits == 8 else "yuv420p10le"
    frame = av.VideoFrame(*size, pix_fmt)
    for plane, value in zip(frame.planes, matrix.encode(color), strict=True):
        kind = np.uint8 if matrix.bits == 8 else np.uint16
        plane.update(np.full(plane.buffer_size // kind().itemsize, value, kind).tobytes())
    with av.open(str(path), "w") as out:
        stream = out.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = *size, pix_fmt
        for one in (stream.codec_context, frame):
            one.colorspace, one.color_range = matrix.tag, 2 if matrix.is_full else 1
        frame.pts = 0
        out.mux([*stream.encode(frame), *stream.encode(None)])


@pytest.mark.slow
@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("max_side_px", [None, 40])
@pytest.mark.parametrize(
    ("matrix", "size"),
    [
        (Matrix(0.2126, 0.0722, 1), (128, 96)),
        (Matrix(0.299, 0.114, 6), (128, 96)),
        (Matrix(0.299, 0.114, 5), (1280, 720)),
        (Matrix(0.2126, 0.0722, 1, is_full=True), (128, 96)),
        (Matrix(0.2126, 0.0722, 1, bits=10), (128, 96)),
        (Matrix(0.2627, 0.0593, 9, bits=10), (128, 96)),
        (Matrix(0.299, 0.114, 2), (720, 576)),  # does not say: by size
        (Matrix(0.2126, 0.0722, 2), (1280, 720)),
    ],
    ids=["bt709", "bt601", "bt601 hd", "full", "ten bits", "bt2020", "sd", "hd"],
)
def test_colors(
    tmp_path: Path, matrix: Matrix, size: tuple[int, int], max_side_px: int | None, color: tuple[int, int, int]
) -> None:
    path = tmp_path / "flat.mkv"
    write_flat(path, color, matrix, size)
    image = vt.sample_frames(path, n=1, max_side_px=max_side_px)[0].image
    assert np.abs(image.astype(int) - color).max() <= 3


def test_colors_of_motion_jpeg_are_of_full_range(tmp_path: Path) -> None:
    recipe = Recipe(name="a.avi", codec="mjpeg", pix_fmt="yuvj420p", options={"qscale": "1"})
    flat = np.full((96, 128, 3), (200, 120, 40), np.uint8)
    image = vt.sample_frames(make_video(tmp_path, [flat], recipe), n=1)[0].image
    assert np.abs(image.astype(int) - (200, 120, 40)).max() <= 4


def test_alpha_lies_on_white(tmp_path: Path) -> None:
    picture = np.zeros((32, 32, 4), np.uint8)
    picture[:16] = (255, 0, 0, 255)
    picture[16:24] = (255, 0, 0, 128)
    path = tmp_path / "clear.mov"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("png", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "rgba"
        out.mux([*stream.encode(av.VideoFrame.from_ndarray(picture, "rgba")), *stream.encode(None)])
    image = vt.sample_frames(path, n=1)[0].image
    assert image[[4, 20, 28], 5].tolist() == [[255, 0, 0], [255, 127, 127], [255, 255, 255]]


def test_interlaced_is_left_as_it_is(tmp_path: Path) -> None:
    recipe = Recipe(
        name="combed.mpg", codec="mpeg2video", rate=Fraction(25), options={"flags": "+ildct+ilme", "b": "4M"}
    )
    path = make_video(tmp_path, 5, recipe)
    assert [read_number(frame.image) for frame in vt.sample_frames(path, n=5)] == [0, 1, 2, 3, 4]
