"""Areas whose colour changes evenly from one side to the other, as painted by CSS `linear-gradient`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.video2web.pixels import Mask, RgbImage
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.widgets import Rectangle

Rgb = tuple[int, int, int]

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_GRID = 64
_MIN_RANGE, _MAX_ERROR = 20.0, 5.0
_MIN_SHARE = 0.35
_ROUNDS = 6
_SMOOTH_STEP = 3
_MIN_AREA_PX = 1500
_MAX_SHADOW, _MAX_TINT = 0.3, 0.04


@dataclass(frozen=True, slots=True)
class Gradient:
    """Gradient of two colours over a box.

    Attributes:
        start: First colour.
        end: Last colour.
        angle_deg: CSS angle: 0 is up, 90 to the right, 180 down.
    """

    start: Rgb
    end: Rgb
    angle_deg: int

    @property
    def middle(self) -> Rgb:
        """Colour at the midpoint."""
        red, green, blue = ((a + b) // 2 for a, b in zip(self.start, self.end, strict=True))
        return red, green, blue


def find_gradients(image: RgbImage, rectangles: Sequence[Rectangle]) -> dict[Box, Gradient]:
    """Find boxes with a gradient: the page, and rectangles on it.

    Args:
        image: (H, W, 3) uint8 RGB.
        rectangles: Result of `find_rectangles`, which treats slow changes of colour as flat.
    """
    page = Box(0, 0, image.shape[1], image.shape[0])
    gradients = {}
    for box in {page: None} | {each.box_px: None for each in rectangles if each.box_px.area >= _MIN_AREA_PX}:
        on_it = [each.box_px for each in rectangles if each.box_px != box and box.contains(each.box_px)]
        gradient = find_gradient(image, box, on_it)
        if gradient is not None:
            gradients[box] = gradient
    return gradients


def paint_ground(
    image: RgbImage, background: Rgb, rectangles: Sequence[Rectangle], gradients: Mapping[Box, Gradient]
) -> RgbImage:
    """Paint the flat areas and gradients of a page, with the shadows on them: (H, W, 3)."""
    height, width = image.shape[:2]
    ground = np.empty_like(image)
    ground[:] = background
    is_shaded = np.zeros((height, width), bool)
    page = Box(0, 0, width, height)
    colors = {page: background} | {
        each.box_px: each.colour for each in sorted(rectangles, key=lambda rectangle: -rectangle.box_px.area)
    }
    for box, color in colors.items():
        here = box.slices
        gradient = gradients.get(box)
        ground[here] = color if gradient is None else _paint_gradient(gradient, box.width, box.height)
        is_shaded[here] = gradient is not None
    is_plain = _find_smooth(image) & (is_shaded | _find_shadows(image, ground))
    ground[is_plain] = image[is_plain]
    return ground


def _find_shadows(image: RgbImage, ground: RgbImage) -> Mask:
    """Find pixels that are slightly darker than the ground by the same share in all channels: (H, W)."""
    lost = 1 - image.astype(np.float32) / np.maximum(ground, 1)
    shadows: Mask = (lost.min(axis=2) >= 0) & (lost.max(axis=2) < _MAX_SHADOW) & (np.ptp(lost, axis=2) < 0.04)
    return shadows


def find_gradient(image: RgbImage, box: Box, covers: Sequence[Box] = ()) -> Gradient | None:
    """Return the gradient of a part of an image; None where it is flat or something else.

    Args:
        image: (H, W, 3) uint8 RGB.
        box: Area of the part.
        covers: Boxes known to lie on it; of the rest, less than two thirds may be text or shadows.
    """
    x, y = (
        np.unique(np.linspace(low, high - 1, _GRID).astype(int))
        for low, high in ((box.left, box.right), (box.top, box.bottom))
    )
    if min(len(x), len(y)) < 2:
        return None
    is_bare = np.ones((len(y), len(x)), bool)
    for cover in covers:
        is_bare[np.ix_((y >= cover.top) & (y < cover.bottom), (x >= cover.left) & (x < cover.right))] = False
    colors = image[np.ix_(y, x)][is_bare].astype(float)
    if len(colors) < _GRID or np.ptp(colors, axis=0).max() < _MIN_RANGE:
        return None
    across, down = (each[is_bare] for each in np.meshgrid(x + 0.5 - box.left, y + 0.5 - box.top))
    fit = _fit_plane(np.stack([np.ones_like(across), across, down], axis=1), colors)
    return None if fit is None else _to_gradient(fit, box)


def _fit_plane(
    places: NDArray[np.floating[Any]], colors: NDArray[np.floating[Any]]
) -> NDArray[np.floating[Any]] | None:
    """Fit a plane through most points, (3, 3): colour at the corner, change per pixel right, change per pixel down."""
    rng, best, most = np.random.default_rng(0), None, _MIN_SHARE * len(colors)
    for _ in range(40):  # RANSAC: three points define a plane; the plane with most points wins
        chosen = rng.choice(len(colors), 3, replace=False)
        if abs(np.linalg.det(places[chosen])) < 1e-6:
            continue
        is_on = _find_errors(places, colors, np.linalg.solve(places[chosen], colors[chosen])) <= _MAX_ERROR
        if is_on.sum() > most:
            best, most = is_on, int(is_on.sum())
    if best is None:
        return None
    for _ in range(_ROUNDS):
        fit: NDArray[np.floating[Any]] = np.linalg.lstsq(places[best], colors[best], rcond=None)[0]
        best = _find_errors(places, colors, fit) <= _MAX_ERROR
        if best.sum() < _MIN_SHARE * len(colors):
            return None
    return fit


def _find_errors(
    places: NDArray[np.floating[Any]], colors: NDArray[np.floating[Any]], fit: NDArray[np.floating[Any]]
) -> NDArray[np.floating[Any]]:
    errors: NDArray[np.floating[Any]] = np.abs(places @ fit - colors).max(axis=1)
    return errors


def _to_gradient(fit: NDArray[np.floating[Any]], box: Box) -> Gradient | None:
    """Return the gradient of a plane, in the direction of the channel that changes most.

    Source: CSS Images Module Level 3, section 3.1, for the length and start of the gradient line.
    """
    channel = int(np.argmax(np.hypot(fit[1], fit[2])))
    angle = math.degrees(math.atan2(fit[1, channel], -fit[2, channel])) % 360
    angle = round(angle / 5) * 5 % 360
    right, down = math.sin(math.radians(angle)), -math.cos(math.radians(angle))
    half = (abs(box.width * right) + abs(box.height * down)) / 2
    middle = fit[0] + fit[1] * box.width / 2 + fit[2] * box.height / 2
    change = half * (fit[1] * right + fit[2] * down)
    if 2 * np.abs(change).max() < _MIN_RANGE:
        return None
    if angle < 90 or angle >= 270:  # prefer "down" and "to the right" where both directions are possible
        angle, change = (angle + 180) % 360, -change
    return Gradient(start=_round_color(middle - change), end=_round_color(middle + change), angle_deg=angle)


def _round_color(values: NDArray[np.floating[Any]]) -> Rgb:
    red, green, blue = (int(level) for level in np.clip(np.rint(values), 0, 255))
    return red, green, blue


def _paint_gradient(gradient: Gradient, width: int, height: int) -> RgbImage:
    """Paint a gradient on a box of the given size as a browser does: (height, width, 3)."""
    angle = math.radians(gradient.angle_deg)
    right, down = math.sin(angle), -math.cos(angle)
    length = abs(width * right) + abs(height * down)
    x, y = np.meshgrid(np.arange(width) + 0.5 - width / 2, np.arange(height) + 0.5 - height / 2)
    share = np.clip((x * right + y * down) / length + 0.5, 0, 1)[..., None]
    mixed = (1 - share) * np.array(gradient.start) + share * np.array(gradient.end)
    painted: RgbImage = np.rint(mixed).astype(np.uint8)
    return painted


def _find_smooth(image: RgbImage) -> Mask:
    """Find pixels where colours change slowly, as in the shadow of a card: (H, W)."""
    cv2 = require("cv2", "visual")
    around = np.ones((3, 3), np.uint8)
    steps = (cv2.dilate(image, around) - cv2.erode(image, around)).max(axis=2)
    smooth: Mask = steps <= _SMOOTH_STEP
    return smooth
