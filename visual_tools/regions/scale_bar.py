"""Find the scale bar of an image: a horizontal bar with its length written next to it."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images import ImageSource
from visual_tools.regions.inputs import RgbImage, to_image
from visual_tools.require import require

_UNITS = {
    **{name: name for name in ("nm", "mm", "cm", "m", "km", "in", "ft", "mi")},
    **dict.fromkeys(("µm", "μm", "um", "pm", "jm", "micron", "microns"), "µm"),
}
"""As read to as meant: the letter mu is often read as u, p or j, and no image has a bar of picometres."""

_LABEL = re.compile(r"^[^\d]{0,3}(\d+(?:[.,]\d+)?)\s*([a-zA-Zµμ]{1,7})\.?$")
_MIN_ASPECT = 4.0
_MIN_LENGTH_SHARE = 0.02
_MAX_LENGTH_SHARE = 0.8
_REACH_HEIGHTS = 3.0
"""How far from its bar a label stands, in heights of the label."""

_MIN_CONTRAST_LEVELS = 40
_MIN_FILL = 0.8
_TICK_FILL = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleBar:
    """A scale bar.

    Attributes:
        length_px: Its length; with ticks at its ends, from the middle of one to the middle of the other.
        value: What it stands for, in `unit`.
        unit: "nm", "µm", "mm", "cm", "m", "km", "in", "ft" or "mi".
        units_per_px: How long one pixel is.
        bar_px: Where the bar is.
        label_px: Where its text is.
    """

    length_px: float
    value: float
    unit: str
    units_per_px: float
    bar_px: Box
    label_px: Box

    def covers(self, box: Box) -> bool:
        """Whether something lies mainly on the bar or its label."""
        own = max(self.bar_px.padded(2).intersection(box), self.label_px.padded(4).intersection(box))
        return own > 0.5 * box.area


def find_scale_bar(image: ImageSource) -> ScaleBar:
    """Find the scale bar and read its length.

    Args:
        image: Anything `load_image` takes.

    Raises:
        ImageError: No text such as "50 µm", or no bar next to it; then measure the bar yourself and give
            `scale_bar=(length_px, value, unit)`.
    """
    pixels = to_image(image)
    labels = _find_labels(pixels)
    if not labels:
        raise ImageError(
            'found no text such as "50 µm" or "1 cm"; measure the bar and give scale_bar=(length_px, value, unit)'
        )
    for label, value, unit in labels:
        found = _find_bar(pixels, label)
        if found is not None:
            bar, length_px = found
            scale = value / length_px
            return ScaleBar(length_px=length_px, value=value, unit=unit, units_per_px=scale, bar_px=bar, label_px=label)
    texts = ", ".join(f"{value:g} {unit}" for _, value, unit in labels)
    raise ImageError(f"found the text {texts}, but no bar near it; give scale_bar=(length_px, value, unit)")


def _find_labels(image: RgbImage) -> list[tuple[Box, float, str]]:
    """Texts that are a length: place, value, unit; number and unit may have been read apart."""
    from visual_tools.ocr import read_text

    lines = [(line.text.strip(), line.box_px) for line in read_text(image)]
    joined = [
        (f"{number} {unit}", left.union(right))
        for number, left in lines
        for unit, right in lines
        if left.overlap_y(right) > 0.3 * left.height and 0 < -left.overlap_x(right) < 3 * left.height
        if left.right <= right.left
    ]
    found = []
    for text, box in [*lines, *joined]:
        match = _LABEL.match(text)
        if match is None or match[2].lower() not in _UNITS:
            continue
        value, unit = float(match[1].replace(",", ".")), _UNITS[match[2].lower()]
        if value > 0:
            found.append((box, value, unit))
    return found


def _find_bar(image: RgbImage, label: Box) -> tuple[Box, float] | None:
    """The longest horizontal bar near a label, dark or light, and its length in pixels."""
    height, width = image.shape[:2]
    reach = round(_REACH_HEIGHTS * label.height)
    area = label.padded(round(_MAX_LENGTH_SHARE * width), reach).clipped(width, height)
    grey = image[area.top : area.bottom, area.left : area.right].astype(np.int16).mean(axis=2)
    middle = float(np.median(grey))
    found: list[tuple[Box, float]] = []
    for sign in (1, -1):
        away = sign * (grey - middle)
        strongest = float(np.percentile(away, 99.8))
        if strongest >= _MIN_CONTRAST_LEVELS:
            mask = np.asarray(away > strongest / 2)
            found += [(bar.moved(area.left, area.top), bar.width - _tick_width(mask, bar)) for bar in _find_bars(mask)]
    near = [one for one in found if _is_beside(one[0], label, reach) and one[0].width <= _MAX_LENGTH_SHARE * width]
    return max(near, key=lambda one: one[1], default=None)


def _find_bars(mask: NDArray[np.bool_]) -> list[Box]:
    """Filled rectangles that are much longer than high, with or without ticks at their ends."""
    cv2 = require("cv2", "visual")
    shortest = max(round(_MIN_LENGTH_SHARE * mask.shape[1]), 8) | 1
    runs = cv2.morphologyEx(mask.view(np.uint8), cv2.MORPH_OPEN, np.ones((1, shortest), np.uint8))
    num, _, stats, _ = cv2.connectedComponentsWithStats(runs, connectivity=8)
    return [
        Box(left, top, left + width, top + height)
        for left, top, width, height, pixels in stats[1:num].tolist()
        if width >= _MIN_ASPECT * height and pixels >= _MIN_FILL * width * height
    ]


def _tick_width(mask: NDArray[np.bool_], bar: Box) -> int:
    """Width of the ticks at a bar's ends, 0 without; a bar with ticks is measured from middle to middle of these."""
    tall = bar.padded(0, max(bar.height, 2)).clipped(mask.shape[1], mask.shape[0])
    is_tick = mask[tall.top : tall.bottom, bar.left : bar.right].mean(axis=0) > _TICK_FILL
    ends = [int(np.argmin(side)) for side in (is_tick[: bar.width // 4], is_tick[::-1][: bar.width // 4])]
    return min(ends)


def _is_beside(bar: Box, label: Box, reach_px: int) -> bool:
    """Whether a bar is above or below a label, or left or right of it on the same height."""
    overlaps = bar.overlap_x(label) > 0.3 * min(bar.width, label.width)
    gap = -bar.overlap_y(label)
    if overlaps:
        return -1 <= gap <= reach_px
    return bar.overlap_y(label) > 0 and -bar.overlap_x(label) <= reach_px
