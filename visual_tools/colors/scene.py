"""What a drawn picture holds: the grounds, the areas that may count, the legend, the writing."""

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.areas import Area, Areas, border_of
from visual_tools.colors.legend import find_swatches, read_lines
from visual_tools.colors.palette import Palette
from visual_tools.colors.words import ColorLike, parse_color, to_lab
from visual_tools.ocr import TextLine

_MIN_BORDER = 0.6
_MAX_PAPER_CHROMA = 12.0
_MIN_TINTED_LIGHTNESS = 85.0
_MAX_MEANT_DELTA_E = 25.0
_MIN_PANEL_PIECE = 0.002
_MIN_PANEL_SIDE = 0.8
_MAX_PANEL_FILL = 0.93
_PANEL_INSET_PX = 4
_MIN_PAPER_LIGHTNESS = 78.0
_MAX_INK_LIGHTNESS = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A drawn picture, cut up.

    Attributes:
        image: (H, W, 3) uint8 RGB.
        palette: Its colours.
        areas: It, cut into areas.
        background: Number of the background's colour.
        grounds: Numbers of the colours that everything lies on: the background and a chart's tinted ground.
        candidates: The areas that may count.
        swatches: Those of them that explain a colour in a legend.
        lines: The writing.
    """

    image: NDArray[np.uint8] = field(repr=False)
    palette: Palette
    areas: Areas
    background: int | None
    grounds: frozenset[int]
    candidates: list[Area]
    swatches: list[Area]
    lines: list[TextLine] = field(repr=False)


def make_scene(
    image: NDArray[np.uint8], palette: Palette, areas: Areas, background: ColorLike | None, *, read_labels: bool
) -> Scene:
    """Tell grounds, legend and writing from what may count.

    Args:
        image: (H, W, 3) uint8 RGB.
        palette: Its colours.
        areas: It, cut into areas.
        background: The colour to leave out; None finds out, `"none"` leaves nothing out.
        read_labels: Read the writing.
    """
    ground = _find_background(areas, palette) if background is None else find_color(palette, background)
    candidates = [item for item in areas.items if item.color != ground]
    panel = _find_panel(candidates, areas, palette) if background is None else None
    candidates = [item for item in candidates if item.color != panel] or candidates
    grounds = frozenset(color for color in (ground, panel) if color is not None)
    swatches = find_swatches(areas, candidates, grounds)
    lines = read_lines(image, candidates, swatches) if read_labels else []
    return Scene(
        image=image,
        palette=palette,
        areas=areas,
        background=ground,
        grounds=grounds,
        candidates=[item for item in candidates if not any(_is_letter(item, line) for line in lines)],
        swatches=swatches,
        lines=lines,
    )


def find_color(palette: Palette, wanted: ColorLike) -> int | None:
    """Number of the colour that somebody means; None when none is near, or for `"none"`."""
    if isinstance(wanted, str) and wanted == "none":
        return None
    away = np.linalg.norm(palette.lab - to_lab(np.array([parse_color(wanted)], np.uint8)), axis=1)
    return int(np.argmin(away)) if away.min() < _MAX_MEANT_DELTA_E else None


def _find_background(areas: Areas, palette: Palette) -> int | None:
    """Number of the background's colour: white, grey or black along most of the border."""
    border = border_of(areas.colors)
    counts = np.bincount(border)
    color = int(np.argmax(counts))
    chroma = float(np.hypot(*palette.lab[color, 1:]))
    is_paper = chroma < _MAX_PAPER_CHROMA or (
        palette.lab[color, 0] > _MIN_TINTED_LIGHTNESS and chroma < 2 * _MAX_PAPER_CHROMA
    )
    is_alone = len({item.color for item in areas.items}) == 1
    return color if counts[color] >= _MIN_BORDER * len(border) and is_paper and not is_alone else None


def _find_panel(candidates: list[Area], areas: Areas, palette: Palette) -> int | None:
    """Number of the colour of a chart's tinted ground: colourless, along a whole side, with the rest cut out of it."""
    large = [item for item in candidates if item.area_px >= _MIN_PANEL_PIECE * areas.map.size]
    if not large:
        return None
    whole = _cut(areas.colors, _box_around(large).padded(-_PANEL_INSET_PX))
    if not whole.size:
        return None
    for color in {item.color for item in large}:
        lightness, chroma = palette.lab[color, 0], float(np.hypot(*palette.lab[color, 1:]))
        if chroma > _MAX_PAPER_CHROMA or _MAX_INK_LIGHTNESS < lightness < _MIN_PAPER_LIGHTNESS:
            continue
        sides = [float((side == color).mean()) for side in (whole[0], whole[-1], whole[:, 0], whole[:, -1])]
        own = _cut(areas.colors, _box_around([item for item in large if item.color == color]))
        if max(sides) > _MIN_PANEL_SIDE and (own == color).mean() < _MAX_PANEL_FILL:
            return color
    return None


def _box_around(items: list[Area]) -> Box:
    return functools.reduce(Box.union, (item.box_px for item in items))


def _cut(array: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
    return array[box.top : box.bottom, box.left : box.right]


def _is_letter(item: Area, line: TextLine) -> bool:
    """Whether an area is part of a written line."""
    return line.box_px.contains(item.box_px, 3) and item.area_px < 0.5 * line.box_px.area
