"""`color_mask`: the pixels of one colour."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.palette import apply_lut
from visual_tools.colors.words import ColorLike, cell_lab, color_name, is_plain_word, parse_color, to_lab, word_lut
from visual_tools.errors import ImageError
from visual_tools.images.load import ImageSource, load_image

_TOLERANCE_DELTA_E = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColorMask:
    """Where a colour is.

    Attributes:
        mask: (H, W) bool.
        color_rgb: The mean colour of these pixels; the one asked for where there are none.
        color_name: A plain word for the colour asked for.
        area_px: How many pixels.
        share: Of the whole picture, 0 to 1.
        box_px: Tight around them; None where there are none.
    """

    mask: NDArray[np.bool_] = field(repr=False)
    color_rgb: tuple[int, int, int]
    color_name: str
    area_px: int
    share: float
    box_px: Box | None


def color_mask(image: ImageSource, color: ColorLike, *, tolerance: float | None = None) -> ColorMask:
    """The pixels of one colour.

    Args:
        image: Picture (array, path, bytes).
        color: A plain word like `"red"` takes everything that a person would call so, light and dark;
            `"#1f77b4"`, a CSS name or three numbers take what is close to it.
        tolerance: Distance in L*a*b* (CIE76: 2 is just visible, 10 a different shade, 50 another colour) up to
            which a pixel counts; None is 15, and a plain word is taken as a word.

    Raises:
        ImageError: Not a picture, not a colour, or a negative tolerance.

    Source:
        CIE 1976 colour difference, the Euclidean distance in L*a*b*.

    Example:
        >>> color_mask(image, "red")
        ColorMask(color_rgb=(214, 39, 40), color_name='red', area_px=5120, share=0.0167, box_px=Box(...))
    """
    image = load_image(image)
    if tolerance is not None and tolerance < 0:
        raise ImageError(f"found tolerance={tolerance}; expected a distance of 0 or more, or None")
    wanted = parse_color(color)
    if tolerance is None and is_plain_word(color):
        chosen = word_lut(color)
    else:
        away = np.linalg.norm(cell_lab() - to_lab(np.array([wanted], np.uint8)), axis=1)
        chosen = (away <= (_TOLERANCE_DELTA_E if tolerance is None else tolerance)).reshape(64, 64, 64)
    mask = apply_lut(image, chosen.astype(np.uint8)).astype(bool)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = None if not len(rows) else Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
    mean = image[mask].mean(axis=0).round().astype(int) if len(rows) else wanted
    return ColorMask(
        mask=mask,
        color_rgb=(int(mean[0]), int(mean[1]), int(mean[2])),
        color_name=str(color) if is_plain_word(color) else color_name(wanted),
        area_px=int(mask.sum()),
        share=float(mask.mean()),
        box_px=box,
    )
