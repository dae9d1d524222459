"""Edges of an image, and outlines of its foreground."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.binary import binarize, otsu_threshold
from visual_tools.regions.components import Outline
from visual_tools.regions.inputs import Mask, to_image, to_mask
from visual_tools.results import ResultSequence

_LOW_SHARE = 0.4
"""Low threshold as a share of the high one, for the weak continuation of a strong edge.

Source: J. Canny, A Computational Approach to Edge Detection, 1986, recommends a ratio of two to three.
"""

_MIN_HIGH = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Thin lines where colour changes.

    Attributes:
        mask: (H, W) bool, lines one pixel wide.
        low: Threshold where a line may continue, in grey levels per pixel.
        high: Threshold where a line may start, in grey levels per pixel.
        share: Share of the image that is edge, 0 to 1.
    """

    mask: Mask = field(repr=False)
    low: float
    high: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contour:
    """One closed outline.

    Attributes:
        number: Number from 1, largest first.
        points_px: (N, 2) int, x and y of its pixels in order.
        area_px: Number of enclosed pixels, including the outline.
        length_px: Length through the centers of its pixels.
        box_px: Smallest upright box.
        center_px: Mean x and y of its points.
        is_hole: True if it bounds a hole of the surrounding region.
        parent: Number of the directly enclosing contour, 0 for none.
    """

    number: int
    points_px: Outline = field(repr=False, compare=False)
    area_px: float
    length_px: float
    box_px: Box
    center_px: tuple[float, float]
    is_hole: bool
    parent: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Contours(ResultSequence[Contour]):
    """Closed outlines, largest first; behaves as a sequence of `Contour`."""

    _items = "contours"
    contours: tuple[Contour, ...]

    def __repr__(self) -> str:
        holes = sum(contour.is_hole for contour in self.contours)
        largest = f", largest {self.contours[0].area_px:.0f} px²" if self.contours else ""
        return f"Contours({len(self)}, {holes} of them holes{largest})"


def detect_edges(
    image: ImageSource, *, low: float | None = None, high: float | None = None, blur_px: float = 1.0
) -> Edges:
    """Find edges by Canny's method; thresholds that are not given are derived from the image.

    Args:
        image: Anything `load_image` takes; at each pixel the channel with the largest change is used.
        low: Threshold where an edge may continue, in grey levels per pixel.
        high: Threshold where an edge may start, in grey levels per pixel.
        blur_px: Sigma of the smoothing before detection, in pixels; 0 for none, larger for noisy images.

    Raises:
        ImageError: If it is not an image, or the thresholds are negative or in the wrong order.
    """
    pixels = to_image(image)
    if blur_px > 0:
        pixels = cv2.GaussianBlur(pixels, (0, 0), blur_px)
    across = cv2.Sobel(pixels, cv2.CV_16S, 1, 0)
    down = cv2.Sobel(pixels, cv2.CV_16S, 0, 1)
    strongest = np.argmax(np.abs(across) + np.abs(down), axis=2)[:, :, None]
    across = np.take_along_axis(across, strongest, axis=2)[:, :, 0]
    down = np.take_along_axis(down, strongest, axis=2)[:, :, 0]
    if high is None:
        steep = np.hypot(across[::2, ::2].astype(np.float32), down[::2, ::2].astype(np.float32)) / 4
        high = max(otsu_threshold(steep)[0], low or 0.0, _MIN_HIGH / 4)
    low = _LOW_SHARE * high if low is None else low
    if not 0 <= low <= high:
        raise ImageError(f"found low={low:g} and high={high:g}, expected 0 <= low <= high")
    # Sobel's sums are four times the grey levels per pixel.
    edges = cv2.Canny(np.ascontiguousarray(across), np.ascontiguousarray(down), 4 * low, 4 * high, L2gradient=True)
    mask = np.asarray(edges > 0)
    return Edges(mask=mask, low=round(low, 2), high=round(high, 2), share=round(float(mask.mean()), 6))


def find_contours(image: ImageSource, *, min_area_px: float = 4.0, with_holes: bool = True) -> Contours:
    """Trace the outlines of a mask, or of the foreground of an image.

    Args:
        image: A mask (H, W) bool, or an image (anything `load_image` takes), which is binarized first.
        min_area_px: Minimum area; smaller outlines are left out.
        with_holes: True to include the outlines of holes.

    Raises:
        ImageError: If it is neither a mask nor an image.
    """
    mask = to_mask(image)
    if mask is None:
        mask = binarize(image).mask
    traced, tree = cv2.findContours(np.ascontiguousarray(mask).view(np.uint8), cv2.RETR_TREE, cv2.CHAIN_APPROX_NONE)
    parents = tree[0, :, 3].tolist() if len(traced) else []
    depths: list[int] = []
    for parent in parents:  # a parent always precedes its children
        depths.append(0 if parent < 0 else depths[parent] + 1)
    rows = []
    for index, points in enumerate(traced):
        area = float(cv2.contourArea(points)) + len(points) / 2 + 1
        if area >= min_area_px and (with_holes or depths[index] % 2 == 0):
            rows.append((area, index))
    rows.sort(key=lambda row: -row[0])
    number_of = {index: number for number, (_, index) in enumerate(rows, start=1)}
    return Contours(
        contours=tuple(
            _make_contour(
                traced[index], area, number_of[index], number_of.get(parents[index], 0), depths[index] % 2 == 1
            )
            for area, index in rows
        )
    )


def _make_contour(points: NDArray[np.int32], area_px: float, number: int, parent: int, is_hole: bool) -> Contour:
    left, top, width, height = cv2.boundingRect(points)
    outline = points.reshape(-1, 2)
    x_px, y_px = outline.mean(axis=0).tolist()
    return Contour(
        number=number,
        points_px=outline,
        area_px=round(area_px, 1),
        length_px=round(float(cv2.arcLength(points, True)), 2),
        box_px=Box(left, top, left + width, top + height),
        center_px=(round(x_px, 2), round(y_px, 2)),
        is_hole=is_hole,
        parent=parent,
    )
