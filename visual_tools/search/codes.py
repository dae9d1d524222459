"""Read barcodes and two-dimensional codes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.images.files import ImageSource, load_image
from visual_tools.packages import cv2
from visual_tools.results import ResultSequence

if TYPE_CHECKING:
    from zxingcpp import Barcode

_BORDER_PX = 40  # quiet zone that is added: readers need a light margin around a code
_ENLARGEMENTS = (2, 3)  # tried in this order; codes of one or two pixels per module are read only enlarged
_MAX_ENLARGED_PIXELS = 30_000_000  # bounds time and memory of the enlarged search


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Decoded barcode or two-dimensional code.

    Attributes:
        text: Decoded text.
        format: Format of the code, such as "QR Code", "EAN-13", "Data Matrix".
        box: Bounding box of its corners, in pixels of the image.
        corners_px: x and y of its top left, top right, bottom right and bottom left corner, as the code is printed
            (on a rotated code the first is not at the top left of the image).
        data: Bytes of the content, for codes that do not contain text.
    """

    text: str
    format: str
    box: Box
    corners_px: tuple[tuple[int, int], ...] = field(repr=False)
    data: bytes = field(repr=False, default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes(ResultSequence[Code]):
    """Codes of an image, from top to bottom; may be indexed and iterated."""

    _items = "codes"
    codes: tuple[Code, ...]

    def __iter__(self) -> Iterator[Code]:
        return iter(self.codes)


def read_codes(image: ImageSource) -> Codes:
    """Read all barcodes (EAN, UPC, Code 128, Code 39, ITF...) and codes (QR, Data Matrix, Aztec, PDF417...).

    They may be rotated, light on dark, and of any size; if none is found, the image is searched again with a
    white border and enlarged.

    Args:
        image: Anything `load_image` takes.

    Returns:
        The codes; empty if there are none, which is not an error.
    """
    grey = cv2.cvtColor(load_image(image), cv2.COLOR_RGB2GRAY)
    for scale, border_px in ((1, 0), (1, _BORDER_PX), *((scale, _BORDER_PX) for scale in _ENLARGEMENTS)):
        if scale > 1 and grey.size * scale**2 > _MAX_ENLARGED_PIXELS:
            break
        codes = _read(_prepare(grey, scale, border_px), scale, border_px, grey.shape)
        if codes:
            return Codes(codes=tuple(sorted(codes, key=lambda code: (code.box.top, code.box.left))))
    return Codes(codes=())


def _prepare(grey: NDArray[np.uint8], scale: int, border_px: int) -> NDArray[np.uint8]:
    if scale > 1:
        grey = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    return np.pad(grey, border_px, constant_values=255) if border_px else np.ascontiguousarray(grey)


def _read(grey: NDArray[np.uint8], scale: int, border_px: int, shape: tuple[int, ...]) -> list[Code]:
    zxing = require("zxingcpp", "visual")
    return [_make_code(read, scale, border_px, shape) for read in zxing.read_barcodes(grey) if read.valid]


def _make_code(read: "Barcode", scale: int, border_px: int, shape: tuple[int, ...]) -> Code:
    place = read.position
    corners = tuple(
        (round((point.x - border_px) / scale), round((point.y - border_px) / scale))
        for point in (place.top_left, place.top_right, place.bottom_right, place.bottom_left)
    )
    columns, rows = zip(*corners, strict=True)
    left, top = min(columns), min(rows)
    box = Box(left, top, max(*columns, left + 1), max(*rows, top + 1)).clipped(shape[1], shape[0])
    name = str(read.format).rpartition(".")[2]
    return Code(text=read.text, format=name, box=box, corners_px=corners, data=bytes(read.bytes))
