"""Many frames on one image, each with its time."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from visual_tools.errors import VideoError
from visual_tools.video.sample import sample_frames
from visual_tools.video.types import Frame, Frames, format_time

_GAP_PX = 4
_BACKGROUND = (32, 32, 32)
_MAX_PIXELS = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Frames side by side, row by row in order of time.

    Attributes:
        image: The image, (H, W, 3) uint8 RGB.
        timestamps_s: When each frame is shown, in seconds from the first of the video.
        indices: The frames' numbers in the video.
        columns: Frames of a row.
        rows: Rows.
        warnings: What is not as asked or not as usual.
    """

    image: NDArray[np.uint8] = field(repr=False)
    timestamps_s: tuple[float, ...]
    indices: tuple[int, ...]
    columns: int
    rows: int
    warnings: tuple[str, ...] = ()


def contact_sheet(
    video: str | os.PathLike[str] | Frames | Sequence[Frame],
    *,
    n: int | None = None,
    columns: int | None = None,
    rows: int | None = None,
    tile_px: int = 320,
    start_s: float = 0.0,
    end_s: float | None = None,
) -> Sheet:
    """A video at a glance: frames spread evenly, or those given, on one image, each with its time burnt in.

    Args:
        video: A file, or frames from `sample_frames` or `keyframes`.
        n: How many frames of a file; `columns` times `rows` where both are given, else 16.
        columns: Frames of a row; as square as may be where left out.
        rows: Rows, where `columns` or `n` is left out.
        tile_px: Longest side of each frame on the sheet.
        start_s: Where the frames of a file begin.
        end_s: Where they end; None is the last frame.

    Raises:
        VideoError: The file cannot be read, there is nothing to show, or the sheet would be too large.

    Example:
        >>> sheet = contact_sheet("talk.mp4", columns=4, rows=3)
        >>> middles_s = [scene.middle_s for scene in scenes("talk.mp4")]
        >>> one_a_scene = contact_sheet(sample_frames("talk.mp4", timestamps_s=middles_s))
    """
    if any(one is not None and one < 1 for one in (n, columns, rows)) or not 16 <= tile_px <= 4096:
        raise VideoError(f"n {n}, columns {columns}, rows {rows} must be 1 or more, tile_px {tile_px} from 16 to 4096")
    warnings: tuple[str, ...] = ()
    if isinstance(video, str | os.PathLike):
        count = n or (columns * rows if columns and rows else 16)
        found = sample_frames(video, n=count, start_s=start_s, end_s=end_s, max_side_px=tile_px)
        shown, warnings = list(found), found.warnings
    else:
        shown = list(video)
    if not shown:
        raise VideoError("there is no frame to put on the sheet")
    columns = columns or (math.ceil(len(shown) / rows) if rows else _find_columns(shown))
    return Sheet(
        image=_lay_out([_make_tile(frame, tile_px) for frame in shown], columns),
        timestamps_s=tuple(frame.timestamp_s for frame in shown),
        indices=tuple(frame.index for frame in shown),
        columns=columns,
        rows=math.ceil(len(shown) / columns),
        warnings=warnings,
    )


def _find_columns(frames: Sequence[Frame]) -> int:
    """Columns that make the sheet about as wide as high, or wider."""
    height_px, width_px = frames[0].image.shape[:2]
    return min(max(math.ceil(math.sqrt(len(frames) * height_px / width_px) - 1e-9), 1), len(frames))


def _make_tile(frame: Frame, tile_px: int) -> Image.Image:
    tile = Image.fromarray(frame.image)
    tile.thumbnail((tile_px, tile_px), Image.Resampling.BICUBIC, reducing_gap=3)
    text = format_time(frame.timestamp_s)
    size_px = max(round(tile.height * 0.09), 11)
    font = ImageFont.load_default(size_px)
    draw = ImageDraw.Draw(tile)
    while size_px > 7 and draw.textlength(text, font) > tile.width - 6:
        size_px -= 1
        font = ImageFont.load_default(size_px)
    left, top, right, bottom = draw.textbbox((0, 0), text, font)
    draw.rectangle((0, tile.height - (bottom - top) - 7, right - left + 7, tile.height), fill=(0, 0, 0))
    draw.text((3 - left, tile.height - bottom - 4), text, fill=(255, 255, 255), font=font)
    return tile


def _lay_out(tiles: Sequence[Image.Image], columns: int) -> NDArray[np.uint8]:
    width_px, height_px = max(tile.width for tile in tiles), max(tile.height for tile in tiles)
    rows, columns_used = math.ceil(len(tiles) / columns), min(columns, len(tiles))
    size = (columns_used * (width_px + _GAP_PX) + _GAP_PX, rows * (height_px + _GAP_PX) + _GAP_PX)
    if size[0] * size[1] > _MAX_PIXELS:
        raise VideoError(f"the sheet would be {size[0]}x{size[1]} px: take fewer frames or a smaller tile_px")
    sheet = Image.new("RGB", size, _BACKGROUND)
    for position, tile in enumerate(tiles):
        row, column = divmod(position, columns)
        sheet.paste(tile, (_GAP_PX + column * (width_px + _GAP_PX), _GAP_PX + row * (height_px + _GAP_PX)))
    return np.array(sheet)
