"""Connected regions of a mask, with their size, position and outline."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.files import ImageSource
from visual_tools.packages import cv2
from visual_tools.regions.binary import binarize
from visual_tools.regions.inputs import Mask, to_mask
from visual_tools.results import ResultSequence

Outline = NDArray[np.int32]
# Heuristics without another source; measured together in benchmarks/visual/README.md, "Counting and size".
_FRAME_SPAN = 0.95
_FRAME_FILL = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One connected region.

    Attributes:
        label: Number in `Components.labels`, from 1.
        area_px: Number of pixels.
        box_px: Smallest box around it.
        centroid_px: Mean x and y of its pixels.
    """

    label: int
    area_px: int
    box_px: Box
    centroid_px: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Components(ResultSequence[Component]):
    """All connected regions of a mask; behaves as a sequence of `Component`.

    Attributes:
        labels: (H, W) int32, 0 is background, n is the nth component.
        areas_px: (N,) int, number of pixels of each component.
        boxes_px: (N, 4) int: left, top, right, bottom of each.
        centroids_px: (N, 2) float: x and y of each.
    """

    _items = "components"
    labels: NDArray[np.int32]
    areas_px: NDArray[np.int64]
    boxes_px: NDArray[np.int64]
    centroids_px: NDArray[np.float64]
    _cache: list[tuple[Component, ...]] = field(default_factory=list)

    @property
    def components(self) -> tuple[Component, ...]:
        """All components as objects, created on first use; the arrays are faster for many thousands."""
        if not self._cache:
            rows = zip(self.areas_px.tolist(), self.boxes_px.tolist(), self.centroids_px.tolist(), strict=True)
            self._cache.append(
                tuple(
                    Component(label=index, area_px=area, box_px=Box(*box), centroid_px=(centre[0], centre[1]))
                    for index, (area, box, centre) in enumerate(rows, start=1)
                )
            )
        return self._cache[0]

    @property
    def largest(self) -> Component | None:
        """Component with the most pixels."""
        return self.components[int(np.argmax(self.areas_px))] if len(self) else None

    def mask(self, label: int) -> NDArray[np.bool_]:
        """Return the mask of one component, (H, W) bool."""
        return np.asarray(self.labels == label)

    def __len__(self) -> int:
        return len(self.areas_px)

    def __repr__(self) -> str:
        if not len(self):
            return "Components(0)"
        low, middle, high = np.percentile(self.areas_px, (0, 50, 100))
        return f"Components({len(self)}, area_px from {low:.0f} over {middle:.0f} (median) to {high:.0f})"


def find_components(
    image: ImageSource, *, connectivity: int = 8, min_area_px: int = 0, max_area_px: int | None = None
) -> Components:
    """Find the connected regions of a mask, or of the foreground of an image.

    Args:
        image: A mask (H, W) bool, or an image (anything `load_image` takes), which is binarized first.
        connectivity: 8 connects pixels at sides and corners, 4 at sides only.
        min_area_px: Minimum area; smaller regions are left out (and are 0 in `labels`).
        max_area_px: Maximum area; larger regions are left out.

    Raises:
        ImageError: If it is neither a mask nor an image, or `connectivity` is not 4 or 8.

    Example:
        >>> find_components(np.eye(3, dtype=bool), connectivity=4)
        Components(3, area_px from 1 over 1 (median) to 1)
    """
    if connectivity not in (4, 8):
        raise ImageError(f"found connectivity={connectivity}, expected 4 or 8")
    mask = to_mask(image)
    if mask is None:
        mask = binarize(image).mask
    _, labels, stats, centroids = cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=connectivity)
    areas = stats[1:, cv2.CC_STAT_AREA].astype(np.int64)
    boxes = stats[1:, :4].astype(np.int64)
    boxes[:, 2:] += boxes[:, :2]
    components = Components(labels=labels, areas_px=areas, boxes_px=boxes, centroids_px=centroids[1:])
    keep = areas >= min_area_px
    if max_area_px is not None:
        keep &= areas <= max_area_px
    return components if keep.all() else _only(components, keep)


def _only(components: Components, keep: NDArray[np.bool_]) -> Components:
    numbers = np.zeros(len(keep) + 1, dtype=np.int32)
    numbers[1:][keep] = np.arange(1, int(keep.sum()) + 1, dtype=np.int32)
    return Components(
        labels=numbers[components.labels],
        areas_px=components.areas_px[keep],
        boxes_px=components.boxes_px[keep],
        centroids_px=components.centroids_px[keep],
    )


def trace_outline(region: Mask, left: int = 0, top: int = 0) -> Outline:
    """Trace the outermost pixels of the largest piece of a mask at (left, top): x and y in order, (N, 2) int32."""
    contours, _ = cv2.findContours(
        np.ascontiguousarray(region).view(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE, offset=(left, top)
    )
    if not contours:
        return np.zeros((0, 2), dtype=np.int32)
    outline: Outline = max(contours, key=len).reshape(-1, 2)
    return outline


def hull_area(outline: Outline) -> float:
    """Return the pixels of the convex hull of an outline, half a pixel larger because points are pixel centers."""
    hull = cv2.convexHull(outline)
    return float(cv2.contourArea(hull)) + float(cv2.arcLength(hull, True)) / 2 + 1


def is_frame(area_px: int, box: Box, width: int, height: int) -> bool:
    """Return True if a region with this area and box is a thin frame around an image of this size."""
    spans = box.width >= _FRAME_SPAN * width and box.height >= _FRAME_SPAN * height
    return spans and area_px < _FRAME_FILL * box.area
