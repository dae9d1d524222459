"""Find the scale bar of a picture: a horizontal bar with its length written next to it."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.regions.inputs import Picture, to_picture
from visual_tools.require import require

_UNITS = {
    **{name: name for name in ("nm", "mm", "cm", "m", "km", "in", "ft", "mi")},
    **dict.fromkeys(("µm", "μm", "um", "pm", "jm", "micron", "microns"), "µm"),
}
"""As read to as meant: the letter mu is often read as u, p or j, and no picture has a bar of picometres."""

_LABEL = re.compile(r"^[^\d]{0,3}(\d+(?:[.,]\d+)?)\s*([a-zA-Zµμ]{1,7})\.?$")
_MIN_ASPECT = 4.0
_MIN_LENGTH_SHARE = 0.02
_MAX_LENGTH_SHARE = 0.8
_REACH_HEIGHTS = 3.0
"""How far from its bar a label stands, in heights of the label."""

_MIN_CONTRAST_LEVELS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleBar:
    """A scale bar.

    Attributes:
        length_px: Its length.
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


def find_scale_bar(image: NDArray[np.generic]) -> ScaleBar:
    """Find the scale bar and read what it stands for.

    Args:
        image: (H, W, 3) uint8 RGB.

    Raises:
        ImageError: No text such as "50 µm", or no bar next to it; then measure the bar yourself and give
            `scale_bar=(length_px, value, unit)`.
    """
    from visual_tools.ocr import read_text

    picture = to_picture(image)
    labels = []
    for line in read_text(picture):
        parsed = _parse_label(line.text)
        if parsed is not None:
            labels.append((line.box_px, *parsed))
    if not labels:
        raise ImageError(
            'found no text such as "50 µm" or "1 cm"; measure the bar and give scale_bar=(length_px, value, unit)'
        )
    for label, value, unit in labels:
        bar = _find_bar(picture, label)
        if bar is not None:
            return ScaleBar(
                length_px=bar.width,
                value=value,
                unit=unit,
                units_per_px=value / bar.width,
                bar_px=bar,
                label_px=label,
            )
    texts = ", ".join(f"{value:g} {unit}" for _, value, unit in labels)
    raise ImageError(f"found the text {texts}, but no bar near it; give scale_bar=(length_px, value, unit)")


def _parse_label(text: str) -> tuple[float, str] | None:
    match = _LABEL.match(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        return None
    value = float(match[1].replace(",", "."))
    return (value, _UNITS[match[2].lower()]) if value > 0 else None


def _find_bar(picture: Picture, label: Box) -> Box | None:
    """The longest horizontal bar near a label, dark or light."""
    height, width = picture.shape[:2]
    reach = round(_REACH_HEIGHTS * label.height)
    area = label.padded(round(_MAX_LENGTH_SHARE * width), reach).clipped(width, height)
    grey = picture[area.top : area.bottom, area.left : area.right].astype(np.int16).mean(axis=2)
    middle = float(np.median(grey))
    found: list[Box] = []
    for sign in (1, -1):
        away = sign * (grey - middle)
        strongest = float(np.percentile(away, 99.8))
        if strongest >= _MIN_CONTRAST_LEVELS:
            found += _find_bars(np.asarray(away > strongest / 2), area)
    near = [box for box in found if _is_beside(box, label, reach) and box.width <= _MAX_LENGTH_SHARE * width]
    return max(near, key=lambda box: box.width, default=None)


def _find_bars(mask: NDArray[np.bool_], area: Box) -> list[Box]:
    """Filled rectangles that are much longer than high, with or without ticks at their ends."""
    cv2 = require("cv2", "visual")
    shortest = max(round(_MIN_LENGTH_SHARE * mask.shape[1]), 8)
    runs = cv2.morphologyEx(mask.view(np.uint8), cv2.MORPH_OPEN, np.ones((1, shortest), np.uint8))
    num, _, stats, _ = cv2.connectedComponentsWithStats(runs, connectivity=8)
    bars = []
    for left, top, width, height, pixels in stats[1:num].tolist():
        if width >= _MIN_ASPECT * height and pixels >= 0.8 * width * height:
            bars.append(Box(left, top, left + width, top + height).moved(area.left, area.top))
    return bars


def _is_beside(bar: Box, label: Box, reach_px: int) -> bool:
    """Whether a bar is above or below a label, or left or right of it on the same height."""
    overlaps = bar.overlap_x(label) > 0.3 * min(bar.width, label.width)
    gap = -bar.overlap_y(label)
    if overlaps:
        return -1 <= gap <= reach_px
    return bar.overlap_y(label) > 0 and -bar.overlap_x(label) <= reach_px
