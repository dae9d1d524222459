"""Measure the share of each colour in a pie, in bars, or in any image (`color_share`).

The parts of a drawn image are identified first: the backgrounds, the areas to measure, the legend, the text.

Text is matched to colours by a legend's swatches, or by its position next to the sectors of a pie.
"""

import functools
import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.areas import Area, Areas, border_of, find_areas
from visual_tools.colors.bars import find_bars, join_cut_bars, split_touching_bars, weigh_bars
from visual_tools.colors.palette import NO_COLOR, Palette, apply_lut, find_flat, find_palette
from visual_tools.colors.photo import find_main_colors
from visual_tools.colors.pies import Pie, find_pie
from visual_tools.colors.shares import ColorMeasurement, ColorShares, make_shares
from visual_tools.colors.words import ColorLike, parse_color, to_lab
from visual_tools.errors import ImageError, MissingPackageError
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ocr import TextLine, read_text
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
_MAX_SWATCH_AREA = 0.006
_MIN_SWATCH_FILL = 0.75
_MIN_RATIO = 2.5
_MIN_NAMED = 0.8
_GAPS_PX = (3, 8)
_MIN_ALONE = 0.95
_MAX_READ_PX = 2600


def find_swatches(areas: Areas, candidates: list[Area], grounds: Collection[int]) -> list[Area]:
    """Find legend swatches: isolated small filled boxes or dots whose colour a much larger area has too."""
    largest: dict[int, int] = {}
    for item in candidates:
        largest[item.color] = max(largest.get(item.color, 0), item.area_px)
    return [
        item
        for item in candidates
        if item.area_px <= _MAX_SWATCH_AREA * areas.map.size
        and item.area_px * _MIN_RATIO <= largest[item.color]
        and item.area_px >= _MIN_SWATCH_FILL * item.box_px.area
        and 0.4 <= item.box_px.width / item.box_px.height <= 5
        and _is_alone(areas, item, grounds)
    ]


def _is_alone(areas: Areas, item: Area, grounds: Collection[int]) -> bool:
    """Return True if the pixels around an area, or around its outline, are background."""
    height, width = areas.map.shape
    for gap in _GAPS_PX:
        box, inner = (item.box_px.padded(size).clipped(width, height) for size in (gap, gap - _GAPS_PX[0]))
        around = areas.map[box.top : box.bottom, box.left : box.right] != item.number
        around[inner.top - box.top : inner.bottom - box.top, inner.left - box.left : inner.right - box.left] = False
        colors = areas.colors[box.top : box.bottom, box.left : box.right][around]
        if np.isin(colors, list(grounds)).mean() > _MIN_ALONE:
            return True
    return False


def read_lines(image: NDArray[np.uint8], candidates: list[Area], swatches: list[Area]) -> list[TextLine]:
    """Read the text of an image, or of its legend only if that names most colours (which is much faster).

    Returns no lines if no OCR package is installed, or the image is too large to read quickly.
    """
    box = Box(0, 0, image.shape[1], image.shape[0])
    named = {swatch.color for swatch in swatches}
    area = sum(item.area_px for item in candidates if item.color in named)
    if len(named) > 1 and area > _MIN_NAMED * sum(item.area_px for item in candidates):
        legend = functools.reduce(Box.union, (swatch.box_px for swatch in swatches))
        margin = max(swatch.box_px.height for swatch in swatches)
        box = Box(legend.left, legend.top - margin, box.right, legend.bottom + margin).clipped(box.right, box.bottom)
    if max(box.width, box.height) > _MAX_READ_PX or min(box.width, box.height) < 16:
        return []
    try:
        lines = read_text(np.ascontiguousarray(image[box.top : box.bottom, box.left : box.right]))
    except MissingPackageError:
        return []
    return [line.moved(box.left, box.top) for line in lines]


def match_swatches(swatches: list[Area], lines: list[TextLine]) -> dict[int, str]:
    """Return the text right of the swatch, for each colour with a swatch."""
    labels: dict[int, str] = {}
    for swatch in swatches:
        box = swatch.box_px
        text = _text_right_of(box, [other.box_px for other in swatches if other is not swatch], lines)
        if text:
            labels.setdefault(swatch.color, text)
    return labels


def _text_right_of(box: Box, others: list[Box], lines: list[TextLine]) -> str:
    """Return the text that starts directly right of a box, up to the next swatch of the row."""
    limit = min(
        (other.left for other in others if other.overlap_y(box) > 0 and other.left >= box.right), default=1 << 30
    )
    reach = 2.5 * max(box.height, box.width)
    parts = []
    for line in lines:
        if line.box_px.overlap_y(box) < 0.4 * min(box.height, line.box_px.height):
            continue
        words = [
            (word, place) for word, place in line.words if place.left >= box.right - 2 and place.right <= limit + 2
        ]
        if words and words[0][1].left - box.right <= reach:
            parts.append((words[0][1].left, " ".join(word for word, _ in words)))
    return min(parts)[1] if parts else ""


def match_sectors(pie: Pie, lines: list[TextLine]) -> dict[int, str]:
    """Return for each sector (by the number of its area) the text outside the rim in the direction of its center."""
    labels: dict[int, tuple[float, str]] = {}
    radius = pie.circle.radius_px
    for line in lines:
        if not any(character.isalpha() for character in line.text):
            continue
        x, y = _nearest_point(line.box_px, pie.circle.x_px, pie.circle.y_px)
        away = np.hypot(x - pie.circle.x_px, y - pie.circle.y_px)
        if not 0.97 * radius < away < 1.45 * radius:
            continue
        for sector in pie.sectors:
            tip = (
                sector.apex_px[0] + 1.1 * radius * np.cos(sector.direction_rad),
                sector.apex_px[1] + 1.1 * radius * np.sin(sector.direction_rad),
            )
            near = _nearest_point(line.box_px, *tip)
            gap = float(np.hypot(near[0] - tip[0], near[1] - tip[1]))
            if gap < 0.15 * radius and gap < labels.get(sector.area.number, (np.inf, ""))[0]:
                labels[sector.area.number] = gap, line.text
    return {number: text for number, (_, text) in labels.items()}


def _nearest_point(box: Box, x: float, y: float) -> tuple[float, float]:
    return float(np.clip(x, box.left, box.right)), float(np.clip(y, box.top, box.bottom))


# Heuristics without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
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
RequestedKind = Literal["auto", "pie", "area", "bars"]
_CLOSENESS = (1.0, 0.6, 0.35)
_MAX_PIXELS = 4_000_000
_MIN_MAIN = 0.55
_MAX_TEXT_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedImage:
    """Drawn image divided into its parts.

    Attributes:
        image: (H, W, 3) uint8 RGB.
        palette: Colours of the image.
        areas: Areas of the image.
        background: Number of the background's colour.
        grounds: Numbers of the colours behind everything: the background and a chart's tinted plot area.
        candidates: Areas that may be measured.
        swatches: Candidates that explain a colour in a legend.
        lines: Text lines.
    """

    image: NDArray[np.uint8] = field(repr=False)
    palette: Palette
    areas: Areas
    background: int | None
    grounds: frozenset[int]
    candidates: list[Area]
    swatches: list[Area]
    lines: list[TextLine] = field(repr=False)


def segment_image(
    image: NDArray[np.uint8], palette: Palette, areas: Areas, background: ColorLike | None, *, read_labels: bool
) -> SegmentedImage:
    """Separate backgrounds, legend and text from the areas to measure."""
    ground = _find_background(areas, palette) if background is None else find_color(palette, background)
    candidates = [item for item in areas.items if item.color != ground]
    panel = _find_panel(candidates, areas, palette) if background is None else None
    candidates = [item for item in candidates if item.color != panel] or candidates
    grounds = frozenset(color for color in (ground, panel) if color is not None)
    swatches = find_swatches(areas, candidates, grounds)
    lines = read_lines(image, candidates, swatches) if read_labels else []
    limit_px = _MAX_TEXT_SHARE * min(image.shape[:2])  # a row of bars can be read as a word
    lines = [line for line in lines if min(line.box_px.width, line.box_px.height) < limit_px]
    return SegmentedImage(
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
    """Return the number of the requested colour; None if none is close, or for `"none"`."""
    if isinstance(wanted, str) and wanted == "none":
        return None
    away = np.linalg.norm(palette.lab - to_lab(np.array([parse_color(wanted)], np.uint8)), axis=1)
    return int(np.argmin(away)) if away.min() < _MAX_MEANT_DELTA_E else None


def _find_background(areas: Areas, palette: Palette) -> int | None:
    """Return the number of the background's colour: white, grey or black along most of the border."""
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
    """Return the number of the plot area's colour: colourless, along a whole side, with the other areas inside it."""
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
    """Return True if an area is part of a text line."""
    return line.box_px.contains(item.box_px, 3) and item.area_px < 0.5 * line.box_px.area


def color_share(
    image: ImageSource,
    *,
    num_colors: int | None = None,
    box: Box | None = None,
    background: ColorLike | None = None,
    kind: RequestedKind = "auto",
    read_labels: bool = True,
) -> ColorShares:
    """Measure the share of each colour in a pie, in bars, in stacked areas, or in a photograph.

    Titles, labels, legends, axes, grid lines, outlines, shadows and the background are left out; text on a sector
    counts for the sector. Pies are measured by the angles of their sectors, bars by their rectangles, everything else
    by its pixels. `method` of the result names the method used. Above 4 megapixels a downscaled copy is measured.

    Args:
        image: Image (array, path, bytes).
        num_colors: Number of colours without the background; None to detect it.
        box: Part of the image to measure.
        background: Colour to leave out; None uses a white, grey or black border as background; `"none"` leaves nothing
            out.
        kind: Type of the image; `"auto"` detects it, `"area"` counts pixels.
        read_labels: True to read the legend or the text next to the sectors (half a second); needs an OCR package,
            without it there are no labels.

    Raises:
        ImageError: If the image is empty, of the wrong type, or has no pie or bars although `kind` requests them.

    Example:
        >>> color_share(load_image("pie.png"))
        <red (rent) 45.9 %, green (food) 30.7 %, blue (rest) 23.4 %; pie, by the angles of its sectors>
    """
    image = load_image(image)
    if kind not in ("auto", "pie", "area", "bars"):
        raise ImageError(f"found kind={kind!r}; expected 'auto', 'pie', 'area' or 'bars'")
    if num_colors is not None and not 1 <= num_colors <= 64:
        raise ImageError(f"found num_colors={num_colors}; expected 1 to 64, or None to find out")
    frame = Box(0, 0, image.shape[1], image.shape[0]) if box is None else box.clipped(image.shape[1], image.shape[0])
    if frame.width < 1 or frame.height < 1:
        raise ImageError(f"found {box}, which is not on this image of {image.shape[1]} x {image.shape[0]} pixels")
    crop = np.ascontiguousarray(image[frame.top : frame.bottom, frame.left : frame.right])
    request = _Request(num_colors=num_colors, background=background, kind=kind, read_labels=read_labels)
    measured = _measure(_shrink(crop), request)
    return make_shares(measured, frame, image.shape[:2], num_colors)


def _shrink(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a large image reduced by an integer factor, or the image itself."""
    step = math.ceil(math.sqrt(image.shape[0] * image.shape[1] / _MAX_PIXELS))
    height, width = image.shape[0] // step, image.shape[1] // step
    if step <= 1 or min(height, width) < 1:
        return image
    cut = image[: height * step, : width * step]
    small: NDArray[np.uint8] = cv2.resize(cut, (width, height), interpolation=cv2.INTER_AREA)
    return small


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    num_colors: int | None
    background: ColorLike | None
    kind: RequestedKind
    read_labels: bool


def _measure(image: NDArray[np.uint8], request: _Request) -> ColorMeasurement:
    flat = find_flat(image)
    best: ColorMeasurement | None = None
    for closeness in _CLOSENESS:
        palette = find_palette(image, flat, closeness=closeness)
        areas = find_areas(image, palette) if palette is not None else None
        if palette is None or areas is None:
            break
        scene = segment_image(image, palette, areas, request.background, read_labels=request.read_labels)
        measured = _measure_drawing(scene, request.kind)
        if best is None or len(measured.colors) > len(best.colors):
            best = measured
        if request.num_colors is None or len(best.colors) >= request.num_colors:
            return best
    if best is not None:
        return best
    if request.kind in ("pie", "bars"):
        raise ImageError(
            f"found a photograph, whose colours run into each other; expected a drawn chart ({request.kind})"
        )
    return _measure_photo(image, request)


def _measure_drawing(scene: SegmentedImage, kind: RequestedKind) -> ColorMeasurement:
    measured = None
    if kind in ("auto", "pie"):
        measured = _measure_pie(scene, is_asked=kind == "pie")
    if measured is None and kind in ("auto", "bars"):
        measured = _measure_bars(scene)
    if measured is None and kind in ("pie", "bars"):
        raise ImageError(f"found no {kind.rstrip('s')} here; try kind='auto', or cut the chart out with box=Box(...)")
    return measured if measured is not None else _measure_pixels(scene)


def _measure_pie(scene: SegmentedImage, *, is_asked: bool) -> ColorMeasurement | None:
    pie = find_pie(scene.areas, scene.grounds)
    if pie is None or not (is_asked or pie.is_closed):
        return None
    inside = sum(sector.area.area_px for sector in pie.sectors)
    if not is_asked and inside < _MIN_MAIN * sum(item.area_px for item in scene.candidates):
        return None
    weights = [sector.angle_rad if pie.is_closed else float(sector.area.area_px) for sector in pie.sectors]
    return ColorMeasurement(
        areas=pie.areas,
        items=[sector.area for sector in pie.sectors],
        weights=weights,
        rgb=scene.palette.rgb,
        background=scene.background,
        color_labels=match_swatches(scene.swatches, scene.lines),
        item_labels=match_sectors(pie, scene.lines),
        kind="pie",
        method=f"pie, by the {'angles' if pie.is_closed else 'pixels'} of its sectors",
    )


def _measure_bars(scene: SegmentedImage) -> ColorMeasurement | None:
    areas, candidates = join_cut_bars(scene.image, scene.palette, scene.areas, scene.candidates)
    bars = find_bars(scene.image, scene.palette.rgb, areas, candidates, scene.swatches)
    is_split = not bars and len({item.color for item in candidates}) == 1
    if is_split:
        areas, candidates = split_touching_bars(areas, candidates)
        bars = find_bars(scene.image, scene.palette.rgb, areas, candidates, scene.swatches)
    if not bars:
        return None
    return ColorMeasurement(
        areas=areas,
        items=[bar.area for bar in bars],
        weights=weigh_bars(bars),
        rgb=scene.palette.rgb,
        background=scene.background,
        color_labels=match_swatches(scene.swatches, scene.lines),
        item_labels={},
        kind="bars",
        method="bars, by their rectangles"
        + ("; they touch, so that equal neighbours may count as one" if is_split else ""),
    )


def _measure_pixels(scene: SegmentedImage) -> ColorMeasurement:
    labels = match_swatches(scene.swatches, scene.lines)
    items = [item for item in scene.candidates if item not in scene.swatches] or list(scene.areas.items)
    return ColorMeasurement(
        areas=scene.areas,
        items=items,
        weights=[float(item.area_px) for item in items],
        rgb=scene.palette.rgb,
        background=scene.background,
        color_labels=labels,
        item_labels={},
        kind="area",
        method="areas, by their pixels",
    )


def _measure_photo(image: NDArray[np.uint8], request: _Request) -> ColorMeasurement:
    palette = find_main_colors(image, request.num_colors)
    colors = apply_lut(image, palette.lut)
    background = None if request.background is None else find_color(palette, request.background)
    areas, items = _one_area_each(colors, len(palette.rgb))
    items = [item for item in items if item.color != background]
    return ColorMeasurement(
        areas=areas,
        items=items,
        weights=[float(item.area_px) for item in items],
        rgb=palette.rgb,
        background=background,
        color_labels={},
        item_labels={},
        kind="area",
        method="main colours, by k-means of the histogram in L*a*b*",
    )


def _one_area_each(colors: NDArray[np.uint8], num_colors: int) -> tuple[Areas, list[Area]]:
    """Return all pixels of a colour as one area."""
    items = []
    for color in range(num_colors):
        mask = colors == color
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            box = Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
            items.append(Area(number=color, color=color, area_px=int(mask.sum()), box_px=box, thickness_px=1.0))
    assert NO_COLOR not in {item.color for item in items}
    return Areas(map=colors.astype(np.int32), colors=colors, items=tuple(items)), items
