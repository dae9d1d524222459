"""How alike two screenshots look, without weights: structure, edges, colours."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visual_tools.diff.maps import find_structure
from visual_tools.images import ImageSource, load_image
from visual_tools.packages import cv2

_WIDTH_PX = 640
"""Both pages are compared at this width: a shift of a pixel or two does not count."""

_MAX_HEIGHT_PX = 6400
_EDGE_REACH_PX = 2
_GRID_PX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class VisualSimilarity:
    """How alike two screenshots look, each part in [0, 1]; what one page has below the other's end counts as different.

    Attributes:
        structure: Mean SSIM of the grey images.
        edges: F1 of the edges, each edge counted as met by one at most two pixels away.
        colors: Mean of 1 minus the distance of the mean colours of cells, of 100 CIE76 at most.
    """

    structure: float
    edges: float
    colors: float

    @property
    def score(self) -> float:
        """Mean of the three."""
        return (self.structure + self.edges + self.colors) / 3


def visual_similarity(reference: ImageSource, page: ImageSource) -> VisualSimilarity:
    """Compare two screenshots of pages; both are scaled to one width, the shorter one is continued in its last row.

    Args:
        reference: Any image.
        page: Any image.

    Raises:
        ImageError: One cannot be read.
    """
    first, second = (_scaled(load_image(source)) for source in (reference, page))
    height = max(first.shape[0], second.shape[0])
    share = min(first.shape[0], second.shape[0]) / height
    first, second = (_continued(image, height) for image in (first, second))
    grey = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (first, second)]
    structure = max(0.0, float(find_structure(grey[0], grey[1]).mean()))
    return VisualSimilarity(
        structure=structure * share, edges=_edge_f1(grey[0], grey[1]) * share, colors=_alike(first, second) * share
    )


def _scaled(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height = min(max(round(image.shape[0] * _WIDTH_PX / image.shape[1]), 8), _MAX_HEIGHT_PX)
    scaled: NDArray[np.uint8] = cv2.resize(image, (_WIDTH_PX, height), interpolation=cv2.INTER_AREA)
    return scaled


def _continued(image: NDArray[np.uint8], height: int) -> NDArray[np.uint8]:
    return np.pad(image, ((0, height - image.shape[0]), (0, 0), (0, 0)), mode="edge")


def _edge_f1(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    edges = [cv2.Canny(image, 40, 120) for image in (first, second)]
    if not edges[0].any() and not edges[1].any():
        return 1.0
    side = 2 * _EDGE_REACH_PX + 1
    near = [cv2.dilate(image, np.ones((side, side), np.uint8)) for image in edges]
    precise = np.count_nonzero(edges[1] & near[0]) / max(int(np.count_nonzero(edges[1])), 1)
    recalled = np.count_nonzero(edges[0] & near[1]) / max(int(np.count_nonzero(edges[0])), 1)
    return float(2 * precise * recalled / (precise + recalled)) if precise + recalled else 0.0


def _alike(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    size = _WIDTH_PX // _GRID_PX * 2, max(first.shape[0] // _GRID_PX * 2, 1)
    labs = []
    for image in (first, second):
        cells = cv2.resize(image, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
        labs.append(cv2.cvtColor(cells, cv2.COLOR_RGB2LAB))
    distance = np.linalg.norm(labs[0] - labs[1], axis=2)
    return float(np.maximum(0, 1 - distance / 100).mean())
