"""Convert decoded frames to images: upright, with correct colours, in the requested size."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visual_tools.errors import require

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

_UNSPECIFIED, _BT709, _BT601 = 2, 1, 5  # Source: ITU-T H.273, matrix coefficients
_HD_WIDTH_PX, _HD_HEIGHT_PX = 1280, 576  # as in libplacebo, pl_color_system_guess_ycbcr


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameShape:
    """Display geometry of a frame.

    Attributes:
        width_px: Columns as displayed: pixels made square, turned upright.
        height_px: Rows as displayed.
        turn: Clockwise quarter turns from the stored image to the displayed one.
        is_flipped: True if the stored image is mirrored left to right before it is turned.
    """

    width_px: int
    height_px: int
    turn: int = 0
    is_flipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameScaling:
    """Image size and scaling filter.

    Attributes:
        find_size: Function from columns and rows as displayed to those of the image.
        is_bicubic: True to downscale with Pillow's bicubic filter, which is slower; False to average areas during the
            colour conversion.
    """

    find_size: Callable[[int, int], tuple[int, int]]
    is_bicubic: bool = False


def fit_side(max_side_px: int | None) -> FrameScaling:
    """Return a fit with the longest side at most `max_side_px` and never larger than the video; None keeps its size."""

    def find_size(width_px: int, height_px: int) -> tuple[int, int]:
        longest_px = max(width_px, height_px)
        if max_side_px is None or longest_px <= max_side_px:
            return width_px, height_px
        scale = Fraction(max_side_px, longest_px)
        return max(round(width_px * scale), 1), max(round(height_px * scale), 1)

    return FrameScaling(find_size=find_size)


def find_shape(frame: "VideoFrame", sample_aspect_ratio: Fraction | None) -> FrameShape:
    """Return the display geometry of a decoded frame from its display matrix and the shape of its pixels."""
    turn, is_flipped = _find_turn(frame)
    width_px, height_px = frame.width, frame.height
    if sample_aspect_ratio:
        width_px = max(round(width_px * sample_aspect_ratio), 1)
    if turn % 2:
        width_px, height_px = height_px, width_px
    return FrameShape(width_px=width_px, height_px=height_px, turn=turn, is_flipped=is_flipped)


class Painter:
    """Converter from decoded frames to images that reuses its scaler. Not thread-safe."""

    def __init__(self) -> None:
        self._reformatter = require("av.video.reformatter", "visual").VideoReformatter()

    def paint(self, frame: "VideoFrame", shape: FrameShape, fit: FrameScaling) -> NDArray[np.uint8]:
        """Convert a frame to an (H, W, 3) uint8 RGB image, as displayed, in the size of `fit`; alpha on white."""
        size = fit.find_size(shape.width_px, shape.height_px)
        if fit.is_bicubic and size != (shape.width_px, shape.height_px):
            whole = Image.fromarray(self._convert(frame, shape, (shape.width_px, shape.height_px)))
            return np.array(whole.resize(size, Image.Resampling.BICUBIC))
        return self._convert(frame, shape, size)

    def _convert(self, frame: "VideoFrame", shape: FrameShape, size: tuple[int, int]) -> NDArray[np.uint8]:
        width_px, height_px = (size[1], size[0]) if shape.turn % 2 else size
        has_alpha = frame.format.name == "pal8" or any(part.is_alpha for part in frame.format.components)
        converted = self._reformatter.reformat(
            frame,
            width=width_px,
            height=height_px,
            format="rgba" if has_alpha else "rgb24",
            src_colorspace=_find_colorspace(frame),
            interpolation=_find_interpolation(frame, width_px, height_px),
            threads=1,
        )
        pixels: NDArray[np.uint8] = converted.to_ndarray()
        image = _lay_on_white(pixels) if has_alpha else pixels
        if shape.is_flipped:
            image = image[:, ::-1]
        return np.ascontiguousarray(np.rot90(image, -shape.turn))


def _lay_on_white(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    alpha = pixels[:, :, 3:].astype(np.uint16)
    return ((pixels[:, :, :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def _find_colorspace(frame: "VideoFrame") -> int | None:
    """Return the colour matrix; if the file does not specify it, guess by size, as players do."""
    if frame.colorspace != _UNSPECIFIED or frame.format.is_rgb:
        return None
    return _BT709 if frame.width >= _HD_WIDTH_PX or frame.height > _HD_HEIGHT_PX else _BT601


def _find_interpolation(frame: "VideoFrame", width_px: int, height_px: int) -> int:
    kinds = require("av.video.reformatter", "visual").Interpolation
    is_smaller = width_px < frame.width or height_px < frame.height
    return int((kinds.AREA if is_smaller else kinds.BICUBIC) | kinds.ACCURATE_RND | kinds.FULL_CHR_H_INT)


def _find_turn(frame: Any) -> tuple[int, bool]:
    """Return clockwise quarter turns and mirroring from the display matrix (16.16 fixed point, 3 x 3, row by row).

    Source: FFmpeg libavutil/display.h, the layout of the matrix: (x, y) goes to (a x + c y, b x + d y).
    """
    kind = require("av.sidedata.sidedata", "visual").Type.DISPLAYMATRIX
    data = frame.side_data.get(kind)
    if data is None:
        return 0, False
    a, b, _, c, d = np.frombuffer(bytes(data), np.int32)[:5].astype(np.int64)
    is_flipped = bool(a * d - b * c < 0)
    if is_flipped:  # mirrored first: the turn is the remainder
        a, b = -a, -b
    return round(math.degrees(math.atan2(b, a)) / 90) % 4, is_flipped
