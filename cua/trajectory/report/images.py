"""Screenshots reduced in size for embedding in a page."""

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from cua.errors import TrajectoryError
from cua.images import decode_image, is_still_png
from cua.models.wire import data_url
from cua.trajectory.run_record import RunRecord

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Format = Literal["small", "png"]

_BUDGET_BYTES = 18 * 1024 * 1024
"""Limit of all images of a page together, before base64 makes them a third larger."""

_SIZES = ((None, 82, 60_000), (1280, 74, 30_000), (960, 62, 12_000), (640, 50, 6_000), (400, 40, 0))
"""Width in px, JPEG quality, and the budget in bytes below which the size is not tried: finest first."""

_MANY = 400
"""Number of images from which thumbnails are smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageImage:
    """Image of a page: two `data:` URLs, "" if the image is missing."""

    full: str
    thumbnail: str


LOST = PageImage(full="", thumbnail="")


def page_images(record: RunRecord, indices: Sequence[int], form: Format = "small") -> dict[int, PageImage]:
    """Return the images of some steps.

    Args:
        record: Record of the run.
        indices: Step numbers.
        form: `png` keeps the bytes that the model saw; `small` re-encodes large images, so that all
            images take less than 30 MB for any number of steps.

    Returns:
        An image for each number; a missing one is empty.
    """
    budget_bytes = _BUDGET_BYTES // max(1, len(indices))
    thumbnail_px = (96, 72) if len(indices) >= _MANY else (176, 128)
    make = partial(_page_image, record, form=form, budget_bytes=budget_bytes, thumbnail_px=thumbnail_px)
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:  # the codecs release the GIL
        return dict(zip(indices, pool.map(make, indices), strict=True))


def _page_image(
    record: RunRecord, index: int, *, form: Format, budget_bytes: int, thumbnail_px: tuple[int, int]
) -> PageImage:
    try:
        png = record.image(index)
    except TrajectoryError:
        return LOST
    return make_page_image(png, form=form, budget_bytes=budget_bytes, thumbnail_px=thumbnail_px)


def make_page_image(
    png: bytes, *, form: Format, budget_bytes: int = 2 * 2**20, thumbnail_px: tuple[int, int] = (176, 128)
) -> PageImage:
    """Make one image for a page; an unreadable one is empty."""
    from PIL import Image

    pixels = decode_image(png)
    if pixels is None:
        return LOST
    image = Image.fromarray(pixels)
    is_kept = is_still_png(png) and (form == "png" or len(png) <= budget_bytes // 2)
    full = data_url(png, "image/png") if is_kept else _small(image, budget_bytes)
    image.thumbnail(thumbnail_px, Image.Resampling.BILINEAR, reducing_gap=2.0)
    return PageImage(full=full, thumbnail=data_url(_jpeg(image, 68), "image/jpeg"))


def _small(image: "PillowImage", budget_bytes: int) -> str:
    from PIL import Image

    data = b""
    for width_px, quality, worth_bytes in _SIZES:
        if budget_bytes < worth_bytes:
            continue
        if width_px is not None and width_px < image.width:
            height_px = max(1, image.height * width_px // image.width)
            image = image.resize((width_px, height_px), Image.Resampling.BILINEAR, reducing_gap=2.0)
        data = _jpeg(image, quality)
        if len(data) <= budget_bytes:
            break
    return data_url(data, "image/jpeg")


def _jpeg(image: "PillowImage", quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()
