"""Palette of an image: clusters of its colour histogram, and masks of single colours."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.words import ColorLike, cell_lab, color_name, is_plain_word, parse_color, to_lab, word_lut
from visual_tools.errors import ImageError, require
from visual_tools.images.files import ImageSource, load_image
from visual_tools.ink import any_channel, largest_channel
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
NO_COLOR = 255

_MAX_COLORS = 254
_FLAT_RANGE = 10
_LINK_DELTA_E = 5.0
_REACH_DELTA_E = 7.0
_TAIL_DELTA_E = 9.0
_TAIL_SHARE = 0.02
_JOIN_DELTA_E = 7.0
_JOIN_SLOPE = 5.0
_SPECK_SHARE = 0.005
_SPECK_DELTA_E = 5.0
_JOIN_SHARE = 0.3
_CLEAN_CLOSENESS = 0.6
_NOISE_SHARE = 0.005
_SHADE_DELTA_E = 30.0
_SHADE_PX = 9
_SHADE_SHARE = 0.98
_MAX_SHADED = 16
_MIN_CELL_PIXELS = 6
_STRIP_PIXELS = 1 << 20
_TOLERANCE_DELTA_E = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours of an image.

    Attributes:
        rgb: (N, 3) uint8.
        lab: L*a*b* of the colours, (N, 3) float32.
        lut: Colour number of each of the 64 x 64 x 64 cells of RGB, `NO_COLOR` if none is close; (64, 64, 64) uint8.
    """

    rgb: NDArray[np.uint8] = field(repr=False)
    lab: NDArray[np.float32] = field(repr=False)
    lut: NDArray[np.uint8] = field(repr=False)


def find_flat(image: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return pixels similar to their eight neighbours: inside areas, without edges, text and thin lines."""
    spread = cv2.morphologyEx(image, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    flat: NDArray[np.bool_] = largest_channel(spread) <= _FLAT_RANGE
    return flat


def find_palette(image: NDArray[np.uint8], flat: NDArray[np.bool_], *, closeness: float = 1.0) -> Palette | None:
    """Find the colours of a drawn image; None for a photograph, whose colours blend into each other.

    The flat pixels are counted in cells of RGB; cells that exceed their surroundings are linked if they are close in
    L*a*b*. So a light gradient stays one colour, and two blues stay two.

    Args:
        image: (H, W, 3) uint8 RGB.
        flat: Result of `find_flat`.
        closeness: Values below 1 separate closer colours; without JPEG noise closer colours are separated anyway.
    """
    spatial, csgraph, sparse = (require(f"scipy.{name}", "visual") for name in ("spatial", "sparse.csgraph", "sparse"))
    if flat.mean() < 0.5:
        return None
    is_noisy = _is_noisy(image, flat)
    if not is_noisy:
        closeness *= _CLEAN_CLOSENESS
    counts = count_cells(image, flat)
    cells = np.flatnonzero(counts >= _MIN_CELL_PIXELS)
    if not len(cells):
        return None
    lab, weights = cell_lab()[cells], counts[cells]
    cells, lab, weights = _drop_tails(cells, lab, weights)
    pairs = spatial.cKDTree(lab).query_pairs(_LINK_DELTA_E * closeness, output_type="ndarray")
    graph = sparse.coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(cells), len(cells)))
    num_colors, color_of = csgraph.connected_components(graph, directed=False)
    totals: NDArray[np.float64] = np.bincount(color_of, weights, num_colors).astype(np.float64)
    color_of, totals = _join_specks(lab, weights, color_of, totals, closeness)
    order = np.argsort(-totals)[: min(_MAX_COLORS, np.count_nonzero(totals))]
    if _is_spread_out(lab, weights, color_of, order):
        return None
    rank = np.full(num_colors, NO_COLOR)
    rank[order] = np.arange(len(order))
    lut = _make_lut(count_cells(image), lab, rank[color_of], _REACH_DELTA_E * min(closeness, 1.0))
    rgb = _measure_colors(image, flat, lut, len(order))
    if is_noisy:
        lut, rgb = _join_shades(image, lut, rgb, closeness)
    return Palette(rgb=rgb, lab=to_lab(rgb), lut=lut)


def apply_lut(image: NDArray[np.uint8], lut: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Look up each pixel in a table (64, 64, 64) uint8, (H, W) uint8."""
    labels = np.empty(image.shape[:2], np.uint8)
    table = lut.ravel()
    height = max(_STRIP_PIXELS // max(image.shape[1], 1), 1)
    for top in range(0, image.shape[0], height):
        rows = slice(top, top + height)
        labels[rows] = table[_cell_of(image[rows])]
    return labels


def count_cells(image: NDArray[np.uint8], mask: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """Count the pixels in each of the 64 x 64 x 64 cells of RGB, as (262144,), red slowest."""
    counts = cv2.calcHist(
        [np.ascontiguousarray(image)],
        [0, 1, 2],
        None if mask is None else mask.astype(np.uint8),
        [64, 64, 64],
        [0, 256, 0, 256, 0, 256],
    )
    result: NDArray[np.float64] = counts.ravel().astype(np.float64)
    return result


def _is_noisy(image: NDArray[np.uint8], flat: NDArray[np.bool_]) -> bool:
    """Return True if flat pixels often differ from their neighbour, as after JPEG compression."""
    pairs = flat[:, 1:] & flat[:, :-1]
    differs = any_channel(image[:, 1:] != image[:, :-1]) & pairs
    return bool(differs.sum() > _NOISE_SHARE * max(pairs.sum(), 1))


def _drop_tails(
    cells: NDArray[np.intp], lab: NDArray[np.float32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float64]]:
    """Remove cells that are noise of a much stronger one nearby."""
    tree = require("scipy.spatial", "visual").cKDTree(lab)
    strongest = np.argsort(-weights)
    is_kept = np.ones(len(cells), bool)
    for index in strongest[: 4 * _MAX_COLORS]:
        if is_kept[index]:
            near = np.asarray(tree.query_ball_point(lab[index], _TAIL_DELTA_E))
            is_kept[near[weights[near] < _TAIL_SHARE * weights[index]]] = False
    return cells[is_kept], lab[is_kept], weights[is_kept]


def _join_specks(
    lab: NDArray[np.float32],
    weights: NDArray[np.float64],
    color_of: NDArray[np.intp],
    totals: NDArray[np.float64],
    closeness: float,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Join clusters with a more frequent cluster of almost the same colour (JPEG shifts whole blocks)."""
    count = len(totals)
    sums = [np.bincount(color_of, weights * lab[:, axis], count).astype(np.float64) for axis in range(3)]
    means = np.stack(sums, axis=1) / totals[:, None]
    target = np.arange(count)
    order = np.argsort(-totals)
    for position, color in enumerate(order[1 : 4 * _MAX_COLORS], start=1):
        larger = order[:position]
        away = np.linalg.norm(means[larger] - means[color], axis=1)
        part = totals[color] / totals[larger]
        limit = _JOIN_DELTA_E - _JOIN_SLOPE * part + np.where(part < _SPECK_SHARE, _SPECK_DELTA_E, 0)
        close = larger[(away < limit * closeness) & (part < _JOIN_SHARE)]
        if len(close):
            target[color] = target[close[0]]
    return target[color_of], np.bincount(target, totals, count).astype(np.float64)


def _is_spread_out(
    lab: NDArray[np.float32], weights: NDArray[np.float64], color_of: NDArray[np.intp], order: NDArray[np.intp]
) -> bool:
    """Return True if a main cluster fills much of the colour space, like the tones of a photograph."""
    for color in order[:3]:
        members = color_of == color
        middle = np.average(lab[members], axis=0, weights=weights[members])
        away = np.linalg.norm(lab[members] - middle, axis=1)
        if np.average(away, weights=weights[members]) > 12.0:
            return True
    return False


def _make_lut(
    counts: NDArray[np.float64], lab: NDArray[np.float32], colors: NDArray[np.intp], reach: float
) -> NDArray[np.uint8]:
    spatial = require("scipy.spatial", "visual")
    used = np.flatnonzero(counts)
    away, nearest = spatial.cKDTree(lab).query(cell_lab()[used], distance_upper_bound=reach)
    lut = np.full(64**3, NO_COLOR, np.uint8)
    is_reached = np.isfinite(away)
    lut[used[is_reached]] = colors[nearest[is_reached]]
    return lut.reshape(64, 64, 64)


def _measure_colors(
    image: NDArray[np.uint8], flat: NDArray[np.bool_], lut: NDArray[np.uint8], num_colors: int
) -> NDArray[np.uint8]:
    """Return the median of each colour's flat pixels."""
    places = np.flatnonzero(flat)
    pixels = image.reshape(-1, 3)[places[:: max(len(places) // 400_000, 1)]]
    labels = lut.ravel()[_cell_of(pixels)]
    rgb = np.zeros((num_colors, 3), np.uint8)
    for color in range(num_colors):
        members = pixels[labels == color]
        if len(members):
            rgb[color] = np.median(members, axis=0)
    return rgb


def _join_shades(
    image: NDArray[np.uint8], lut: NDArray[np.uint8], rgb: NDArray[np.uint8], closeness: float
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Join colours that occur only within some pixels of a similar, more common one with that one.

    JPEG blurs the colour of a line over the blocks that it crosses and creates bands of another shade along it.
    """
    lab, labels, number = to_lab(rgb), apply_lut(image, lut), np.arange(len(rgb))
    totals = np.maximum(np.bincount(labels.ravel(), minlength=NO_COLOR + 1), 1)
    target = number.copy()
    for color in range(min(len(rgb), _MAX_SHADED)):
        around = cv2.dilate((labels == color).astype(np.uint8), np.ones((_SHADE_PX, _SHADE_PX), np.uint8)) > 0
        near = np.bincount(labels[around], minlength=NO_COLOR + 1) / totals
        is_close = np.linalg.norm(lab - lab[color], axis=1) < _SHADE_DELTA_E * closeness
        target[is_close & (near[number] > _SHADE_SHARE) & (target == number) & (number > color)] = target[color]
    kept = target == number
    rank = np.full(NO_COLOR + 1, NO_COLOR, np.uint8)
    rank[number] = (np.cumsum(kept) - 1)[target]
    return rank[lut], rgb[kept]


def _cell_of(pixels: NDArray[np.uint8]) -> NDArray[np.int32]:
    high = (pixels >> 2).astype(np.int32)
    cell: NDArray[np.int32] = (high[..., 0] << 12) | (high[..., 1] << 6) | high[..., 2]
    return cell


@dataclass(frozen=True, slots=True, kw_only=True)
class ColorMask:
    """Pixels of one colour.

    Attributes:
        mask: (H, W) bool.
        color_rgb: Mean colour of these pixels; the requested one if there are none.
        color_name: Common name of the requested colour.
        area_px: Number of pixels.
        share: Share of the whole image, 0 to 1.
        box_px: Tight bounding box; None if there are no pixels.
    """

    mask: NDArray[np.bool_] = field(repr=False)
    color_rgb: tuple[int, int, int]
    color_name: str
    area_px: int
    share: float
    box_px: Box | None


def color_mask(image: ImageSource, color: ColorLike, *, tolerance: float | None = None) -> ColorMask:
    """Find the pixels of one colour.

    Args:
        image: Image (array, path, bytes).
        color: A common name like `"red"` selects all shades with that name, light and dark; `"#1f77b4"`, a CSS name or
            three numbers select similar colours.
        tolerance: Maximum distance in L*a*b* (CIE76: 2 is just visible, 10 a different shade, 50 another colour); None
            is 15, and a common name is then treated as a name.

    Raises:
        ImageError: If it is not an image or not a colour, or the tolerance is negative.

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
