"""One-coloured areas of a drawn image; edges, thin lines and text are assigned to the surrounding areas.

Edges are located with subpixel accuracy: the mixture of colours of a pixel, and the end of a box's side.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.colors.palette import NO_COLOR, Palette, apply_lut
from visual_tools.errors import require
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
_NOISE = 20.0
_INWARDS_PX = 12
_OUTWARDS_PX = 5
_MIN_EDGE = 12.0
_MIN_LINE = 30.0
_PURE = 0.85
_MUCH = 0.5
_MIN_REACH = 0.0015
_LINE_WIDTH = 0.0018
_LINE_SLENDERNESS = 60.0
_LINE_FILL = 0.35
_LINE_CHROMA = 10.0
_EDGE_PX = 4.0
_STRIP_PX = 8.0
_MIXTURE = 0.2
_MIN_MIXTURE = 12.0
_MAX_GROUND = 0.7


def unmix(
    own: NDArray[np.float32], first: NDArray[np.float32], second: NDArray[np.float32], third: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the proportions of three colours whose mixture is closest to a pixel.

    If the three are collinear, or the third equals one of the other two, the pixel is treated as a mixture of the
    first two.

    Args:
        own: Colours of the pixels, (N, 3).
        first: First colour, (N, 3) or (3,).
        second: Second colour, (N, 3) or (3,).
        third: Third colour, (N, 3) or (3,).

    Returns:
        The proportions, (3, N), which add up to 1 and are outside 0 to 1 for colours that are not a mixture; and the
        distance of the mixture from the pixel, (N,), in levels of 0 to 255.

    Source:
        Least squares for own = first + x (second - first) + y (third - first), with a ridge on y.
    """
    is_two = (first == third).all(axis=-1) | (second == third).all(axis=-1)
    step, turn = second - first, np.where(is_two[..., None], 0, third - first)
    own = own - first
    step_step, step_turn = (step**2).sum(axis=-1) + 1, (step * turn).sum(axis=-1)
    turn_turn = (turn**2).sum(axis=-1) + _NOISE**2
    own_step, own_turn = (own * step).sum(axis=-1), (own * turn).sum(axis=-1)
    scale = step_step * turn_turn - step_turn**2
    x = (turn_turn * own_step - step_turn * own_turn) / scale
    y = (step_step * own_turn - step_turn * own_step) / scale
    beside = np.linalg.norm(own - x[:, None] * step - y[:, None] * turn, axis=-1)
    return np.stack([1 - x - y, x, y]), beside


def find_edge_shift(image: NDArray[np.uint8], box: Box, side: str, inner_rgb: NDArray[np.uint8]) -> float:
    """Return the true end of the colour at one side of a box, in pixels outside (positive) or inside.

    If a line is drawn on the edge, the edge is at its center. Otherwise the pixels between the inner and the outer
    colour are mixtures of them. Parts of a grid or of text that are further in or out are ignored.

    Args:
        image: (H, W, 3) uint8 RGB.
        box: Approximate area of one colour.
        side: `"top"`, `"bottom"`, `"left"` or `"right"`.
        inner_rgb: The colour.
    """
    profile, inner = _across(image, box, side), inner_rgb.astype(np.float32)
    at = len(profile) - _OUTWARDS_PX
    outer = np.median(profile[at + 2 :], axis=0)
    if np.linalg.norm(outer - inner) < _MIN_EDGE:
        return 0.0
    parts, beside = unmix(profile, inner, outer, inner)
    start = int(np.flatnonzero(parts[0, : at + 2] > _PURE).max(initial=0))
    end = start + 1 + int((parts[1, start + 1 :] > _PURE).argmax())
    peak = start + int(beside[start : end + 1].argmax())
    if beside[peak] > _MIN_LINE:
        return _find_middle(unmix(profile, inner, outer, profile[peak])[0][2], peak) - at
    return start + 1 + float(np.clip(parts[0, start + 1 : end], 0, 1).sum()) - at


def _find_middle(line: NDArray[np.float32], peak: int) -> float:
    """Return the center of a line that contributes to every pixel and dominates one of them."""
    below = np.flatnonzero(line < _MUCH)
    first, last = below[below < peak].max(initial=0), below[below > peak].min(initial=len(line) - 1)
    weights = np.clip(line[first : last + 1], 0, 1)
    return float(np.average(np.arange(first, last + 1) + 0.5, weights=weights))


def _across(image: NDArray[np.uint8], box: Box, side: str) -> NDArray[np.float32]:
    """Return the colours from inside a bar across one of its edges to outside, as the median along the edge; (N, 3).

    The edge of the box is before the last `_OUTWARDS_PX` of them.
    """
    is_level = side in ("top", "bottom")
    depth, length = (box.height, box.width) if is_level else (box.width, box.height)
    inwards = min(_INWARDS_PX, max(depth // 2, 1))
    trim = length // 8
    at = getattr(box, side)
    pixels = image if is_level else image.transpose(1, 0, 2)
    low = (box.left if is_level else box.top) + trim
    high = (box.right if is_level else box.bottom) - trim
    is_end = side in ("bottom", "right")
    around = np.arange(at - inwards, at + _OUTWARDS_PX) if is_end else np.arange(at - _OUTWARDS_PX, at + inwards)[::-1]
    around = np.clip(around, 0, pixels.shape[0] - 1)
    profile: NDArray[np.float32] = np.median(pixels[around, low:high].astype(np.float32), axis=1)
    return profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Connected area of one colour.

    Attributes:
        number: Number in `Areas.map`.
        color: Number in the palette.
        area_px: Number of pixels.
        box_px: Tight bounding box.
        thickness_px: Typical thickness; of a strip its width.
    """

    number: int
    color: int
    area_px: int
    box_px: Box
    thickness_px: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Areas:
    """Image divided completely into one-coloured areas.

    Attributes:
        map: Number of the area of each pixel, (H, W) int32.
        colors: Number of the colour of each pixel, (H, W) uint8.
        items: All areas, largest first.
    """

    map: NDArray[np.int32] = field(repr=False)
    colors: NDArray[np.uint8] = field(repr=False)
    items: tuple[Area, ...]

    def mask(self, area: Area) -> NDArray[np.bool_]:
        """Return the pixels of an area within its box."""
        box = area.box_px
        mask: NDArray[np.bool_] = self.map[box.top : box.bottom, box.left : box.right] == area.number
        return mask


def find_areas(image: NDArray[np.uint8], palette: Palette) -> Areas | None:
    """Divide a drawn image into areas; None if there are none.

    An area starts where one colour is some pixels thick. Other pixels (anti-aliased edges, outlines, grid lines,
    letters) are assigned to the neighbouring area that dominates their mixture, or to the nearest one.
    """
    labels = _drop_thin_lines(apply_lut(image, palette.lut), palette)
    first = _measure(labels, max(1.5, _MIN_REACH * min(labels.shape)))
    kept = [area for area in first.items if area.color != NO_COLOR and not _is_line(area, palette.lab[area.color])]
    if not kept:
        return None
    seeds = _mark(first, kept)
    return _measure(_hand_out(labels, seeds, image, palette))


def _drop_thin_lines(labels: NDArray[np.uint8], palette: Palette) -> NDArray[np.uint8]:
    """Remove black, grey or white grid lines and letters from the labels, even if an area has the same colour."""
    side = 1 + 2 * max(1, round(_LINE_WIDTH * min(labels.shape)))
    kernel = np.ones((side, side), np.uint8)
    for color in np.flatnonzero(np.hypot(palette.lab[:, 1], palette.lab[:, 2]) < _LINE_CHROMA):
        mask = (labels == color).astype(np.uint8)
        thick = cv2.dilate(cv2.morphologyEx(mask, cv2.MORPH_OPEN, kernel), np.ones((3, 3), np.uint8))
        labels[(mask > 0) & (thick == 0)] = NO_COLOR
    return labels


def fill_from(areas: Areas, kept: Iterable[Area]) -> Areas:
    """Keep only these areas and assign every other pixel to the nearest of them."""
    seeds = _mark(areas, kept)
    _, nearest = cv2.distanceTransformWithLabels(
        (~seeds).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    color_of = np.full(int(nearest.max()) + 1, NO_COLOR, np.uint8)
    color_of[nearest[seeds]] = areas.colors[seeds]
    return _measure(color_of[nearest])


def _mark(areas: Areas, kept: Iterable[Area]) -> NDArray[np.bool_]:
    is_kept = np.zeros(int(areas.map.max()) + 1, bool)
    is_kept[[area.number for area in kept]] = True
    marked: NDArray[np.bool_] = is_kept[areas.map]
    return marked


def _hand_out(
    labels: NDArray[np.uint8], seeds: NDArray[np.bool_], image: NDArray[np.uint8], palette: Palette
) -> NDArray[np.uint8]:
    """Assign every pixel outside the seeds to one of the two nearest colours.

    A pixel at an edge that is a mixture of the two is assigned to the dominant one; an outline, a letter or a grid line
    is not a mixture and is assigned to the closer one.
    """
    open_pixels = np.flatnonzero(~seeds)
    if not len(open_pixels):
        return labels
    filled = np.where(seeds, labels, NO_COLOR)
    nearest, away = _find_nearest(filled, open_pixels)
    # a strip separated by a line is too thin for an area, but close to the rest of its own area
    is_strip = (labels.ravel()[open_pixels] == nearest[1]) & (away[1] < _STRIP_PX)
    filled.ravel()[open_pixels] = np.where(is_strip, nearest[1], nearest[0])
    at_edge = away[1] < _EDGE_PX
    open_pixels, nearest = open_pixels[at_edge], nearest[:, at_edge]
    rgb = palette.rgb.astype(np.float32)
    first, second = rgb[nearest]
    # two areas drawn one after the other do not hide the background at the edge between them
    ground = rgb[np.bincount(border_of(labels), minlength=NO_COLOR + 1)[:NO_COLOR].argmax()]
    parts, beside = unmix(image.reshape(-1, 3)[open_pixels].astype(np.float32), first, second, ground)
    tolerance = np.maximum(_MIXTURE * np.linalg.norm(second - first, axis=1), _MIN_MIXTURE)
    is_mixture = (parts[:2].min(axis=0) > -_MIXTURE) & (parts[2] < _MAX_GROUND) & (beside < tolerance)
    is_second = is_mixture & (parts[1] > parts[0])
    filled.ravel()[open_pixels[is_second]] = nearest[1, is_second]
    return filled


def border_of(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the outermost pixels of an image, the corners twice."""
    return np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])


def _find_nearest(labels: NDArray[np.uint8], pixels: NDArray[np.intp]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Return the two nearest colours of each of these pixels and their distances, (2, N) both, nearest first."""
    away = np.full((2, len(pixels)), np.inf, np.float32)
    nearest = np.zeros((2, len(pixels)), np.uint8)
    for color in np.unique(labels[labels != NO_COLOR]):
        distance = cv2.distanceTransform((labels != color).astype(np.uint8), cv2.DIST_L2, 5).ravel()[pixels]
        is_first, is_second = distance < away[0], distance < away[1]
        away[1], nearest[1] = np.where(is_second, distance, away[1]), np.where(is_second, color, nearest[1])
        away[1], nearest[1] = np.where(is_first, away[0], away[1]), np.where(is_first, nearest[0], nearest[1])
        away[0], nearest[0] = np.where(is_first, distance, away[0]), np.where(is_first, color, nearest[0])
    return nearest, away


def _measure(labels: NDArray[np.uint8], min_reach_px: float = 0.0) -> Areas:
    """Return the connected areas of equal labels; only sufficiently thick ones are listed."""
    ndimage, measure = (require(name, "visual") for name in ("scipy.ndimage", "skimage.measure"))
    numbers = measure.label(labels, background=-1, connectivity=1).astype(np.int32)
    sizes = np.bincount(numbers.ravel())
    is_edge = np.zeros(labels.shape, bool)
    is_edge[:, 1:] |= numbers[:, 1:] != numbers[:, :-1]
    is_edge[1:] |= numbers[1:] != numbers[:-1]
    away = cv2.distanceTransform((~is_edge).astype(np.uint8), cv2.DIST_L2, 3)
    reaches = np.zeros(len(sizes), np.float32)
    np.maximum.at(reaches, numbers.ravel(), away.ravel())
    # on average the pixels of a strip are a quarter of its width from its edges
    thick = np.maximum(4 * np.bincount(numbers.ravel(), away.ravel()) / np.maximum(sizes, 1), 1)
    color_of = np.zeros(len(sizes), np.uint8)
    color_of[numbers] = labels
    slices = ndimage.find_objects(numbers)
    items = []
    for number in (1 + np.flatnonzero(reaches[1:] >= min_reach_px)).tolist():
        rows, columns = slices[number - 1]
        items.append(
            Area(
                number=number,
                color=int(color_of[number]),
                area_px=int(sizes[number]),
                box_px=Box(columns.start, rows.start, columns.stop, rows.stop),
                thickness_px=float(thick[number]),
            )
        )
    items.sort(key=lambda area: -area.area_px)
    return Areas(map=numbers, colors=labels, items=tuple(items))


def _is_line(area: Area, lab: NDArray[np.float32]) -> bool:
    """Return True for an outline, a frame or a grid: long, thin, hollow and colourless."""
    return bool(
        area.area_px / area.thickness_px**2 > _LINE_SLENDERNESS
        and area.area_px < _LINE_FILL * area.box_px.area
        and np.hypot(lab[1], lab[2]) < _LINE_CHROMA
    )
