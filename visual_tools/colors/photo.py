"""The main colours of a photograph: k-means on the cells of its histogram instead of on its pixels."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.colors.palette import NO_COLOR, Palette, count_cells
from visual_tools.colors.words import cell_lab, to_lab
from visual_tools.require import require

_START_COLORS = 10
_MIN_DELTA_E = 14.0
_MIN_SHARE = 0.01
_MAX_ROUNDS = 60
_SETTLED_DELTA_E = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Weighted cluster centres.

    Attributes:
        lab: Centres in L*a*b*, (N, 3) float32.
        label_of: Cluster of each point that was given.
        inertia: Sum over points of weight times squared distance to the centre.
    """

    lab: NDArray[np.float32] = field(repr=False)
    label_of: NDArray[np.intp] = field(repr=False)
    inertia: float


def cluster_weighted(lab: NDArray[np.float32], weights: NDArray[np.float64], num_colors: int) -> Clusters:
    """Lloyd's k-means of weighted points, started far apart from each other; the same answer each time.

    Args:
        lab: Points, (N, 3).
        weights: How many pixels each stands for, (N,).
        num_colors: Clusters.

    Source:
        The start is Arthur and Vassilvitskii (2007), k-means++, with the most probable next centre
        instead of a random one.
    """
    spatial = require("scipy.spatial", "visual")
    centers = _spread_centers(lab, weights, min(num_colors, len(lab)))
    label_of = np.zeros(len(lab), np.intp)
    away = np.zeros(len(lab))
    for _ in range(_MAX_ROUNDS):
        away, label_of = spatial.cKDTree(centers).query(lab)
        totals = np.bincount(label_of, weights, len(centers))
        sums = np.stack([np.bincount(label_of, weights * lab[:, axis], len(centers)) for axis in range(3)], axis=1)
        moved = np.where(totals[:, None] > 0, sums / np.maximum(totals, 1e-9)[:, None], centers).astype(np.float32)
        step = float(np.abs(moved - centers).max())
        centers = moved
        if step < _SETTLED_DELTA_E:
            break
    return Clusters(lab=centers, label_of=label_of, inertia=float((weights * away**2).sum()))


def find_main_colors(image: NDArray[np.uint8], num_colors: int | None) -> Palette:
    """The main colours of any picture, each cell of RGB given to the nearest.

    Args:
        image: (H, W, 3) uint8 RGB.
        num_colors: How many; None merges colours that look alike and drops those under 1 %.
    """
    counts = count_cells(image)
    used = np.flatnonzero(counts)
    lab, weights = cell_lab()[used], counts[used]
    clusters = cluster_weighted(lab, weights, num_colors or _START_COLORS)
    centers, label_of = clusters.lab, clusters.label_of
    if num_colors is None:
        centers = _merge_alike(centers, np.bincount(label_of, weights, len(centers)))
        label_of = require("scipy.spatial", "visual").cKDTree(centers).query(lab)[1]
    totals = np.bincount(label_of, weights, len(centers))
    order = np.argsort(-totals)
    order = order[totals[order] > 0]
    rank = np.full(len(centers), NO_COLOR)
    rank[order] = np.arange(len(order))
    lut = np.full(64**3, NO_COLOR, np.uint8)
    lut[used] = rank[label_of]
    rgb = _to_rgb(centers[order])
    return Palette(rgb=rgb, lab=to_lab(rgb), is_flat=False, lut=lut.reshape(64, 64, 64))


def _spread_centers(
    lab: NDArray[np.float32], weights: NDArray[np.float64], num_colors: int
) -> NDArray[np.float32]:
    chosen = [int(np.argmax(weights))]
    away = ((lab - lab[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < num_colors:
        chosen.append(int(np.argmax(away * weights)))
        away = np.minimum(away, ((lab - lab[chosen[-1]]) ** 2).sum(axis=1))
    result: NDArray[np.float32] = lab[chosen]
    return result


def _merge_alike(centers: NDArray[np.float32], totals: NDArray[np.float64]) -> NDArray[np.float32]:
    """Join the two most alike until all differ, then drop what is rare."""
    whole = totals.sum()
    while len(centers) > 1:
        gaps = np.linalg.norm(centers[:, None] - centers[None], axis=2)
        np.fill_diagonal(gaps, np.inf)
        first, second = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
        if gaps[first, second] >= _MIN_DELTA_E:
            break
        joined = np.average(centers[[first, second]], axis=0, weights=totals[[first, second]] + 1e-9)
        centers[first], totals[first] = joined, totals[[first, second]].sum()
        centers, totals = np.delete(centers, second, axis=0), np.delete(totals, second)
    common = totals >= _MIN_SHARE * whole
    return centers[common] if common.any() else centers


def _to_rgb(lab: NDArray[np.float32]) -> NDArray[np.uint8]:
    cv2 = require("cv2", "visual")
    rgb = cv2.cvtColor(np.ascontiguousarray(lab).reshape(1, -1, 3), cv2.COLOR_LAB2RGB)[0]
    result: NDArray[np.uint8] = np.rint(np.clip(rgb, 0, 1) * 255).astype(np.uint8)
    return result
