"""Main colours of a photograph, by k-means on the cells of its histogram."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visual_tools.colors.palette import NO_COLOR, Palette, count_cells
from visual_tools.colors.words import cell_lab, to_lab
from visual_tools.packages import cv2

# Heuristics without another source; measured together in benchmarks/visual/README.md, "Shares of colours".
_START_COLORS = 10
_MIN_DELTA_E = 14.0
_MIN_SHARE = 0.01
_MAX_ROUNDS = 60
_FIRST_ROUNDS = 12
_NUM_STARTS = 5
_MAX_POINTS = 8000
_SETTLED_DELTA_E = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Weighted cluster centers.

    Attributes:
        lab: Centers in L*a*b*, (N, 3) float32.
        weights: Weight of each, (N,).
        inertia: Sum over points of weight times squared distance to the center.
    """

    lab: NDArray[np.float32] = field(repr=False)
    weights: NDArray[np.float64] = field(repr=False)
    inertia: float


def cluster_weighted(lab: NDArray[np.float32], weights: NDArray[np.float64], num_colors: int) -> Clusters:
    """Cluster points (N, 3) with weights (N,) by Lloyd's k-means, best of several starts; deterministic.

    Source:
        Initialization of Arthur and Vassilvitskii (2007), k-means++.
    """
    rng = np.random.default_rng(0)
    draws = [np.ones(num_colors), *rng.uniform(size=(_NUM_STARTS - 1, num_colors))]
    starts = [_spread_centers(lab, weights, draw[: len(lab)]) for draw in draws]
    tried = [_settle(lab, weights, centers, _FIRST_ROUNDS) for centers in starts]
    best = min(tried, key=lambda clusters: clusters.inertia)
    return _settle(lab, weights, best.lab, _MAX_ROUNDS)


def _settle(
    lab: NDArray[np.float32], weights: NDArray[np.float64], centers: NDArray[np.float32], num_rounds: int
) -> Clusters:
    weighted = np.column_stack([weights, weights[:, None] * lab])
    totals: NDArray[np.float64] = np.zeros(len(centers))
    inertia = 0.0
    for _ in range(num_rounds):
        label_of, away = _nearest(lab, centers)
        sums = np.stack([np.bincount(label_of, column, len(centers)) for column in weighted.T], axis=1)
        totals, inertia = sums[:, 0].astype(np.float64), float((weights * away).sum())
        moved = np.where(totals[:, None] > 0, sums[:, 1:] / np.maximum(totals, 1e-9)[:, None], centers)
        step = float(np.abs(moved - centers).max())
        centers = moved.astype(np.float32)
        if step < _SETTLED_DELTA_E:
            break
    return Clusters(lab=centers, weights=totals, inertia=inertia)


def find_main_colors(image: NDArray[np.uint8], num_colors: int | None) -> Palette:
    """Return the main colours of an image; with `num_colors` None, similar ones are joined, those under 1 % dropped."""
    counts = count_cells(image)
    used = np.flatnonzero(counts)
    lab, weights = cell_lab()[used], counts[used]
    clusters = cluster_weighted(*_thin_out(used, lab, weights), num_colors or _START_COLORS)
    centers = clusters.lab
    if num_colors is None:
        centers = _merge_alike(centers, clusters.weights)
    label_of = _nearest(lab, centers)[0]
    totals = np.bincount(label_of, weights, len(centers))
    order = np.argsort(-totals)
    order = order[totals[order] > 0]
    rank = np.full(len(centers), NO_COLOR)
    rank[order] = np.arange(len(order))
    lut = np.full(64**3, NO_COLOR, np.uint8)
    lut[used] = rank[label_of]
    rgb = _to_rgb(centers[order])
    return Palette(rgb=rgb, lab=to_lab(rgb), lut=lut.reshape(64, 64, 64))


def _thin_out(
    used: NDArray[np.intp], lab: NDArray[np.float32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Join neighbouring cells until few remain; return their means and weights."""
    for bits in (0, 1, 2):
        red, green, blue = used >> 12 >> bits, (used >> 6 & 63) >> bits, (used & 63) >> bits
        coarse, group = np.unique((red << 12) | (green << 6) | blue, return_inverse=True)
        if len(coarse) <= _MAX_POINTS or bits == 2:
            break
    totals = np.bincount(group, weights).astype(np.float64)
    means = np.stack([np.bincount(group, weights * lab[:, axis]) for axis in range(3)], axis=1) / totals[:, None]
    return means.astype(np.float32), totals


def _nearest(lab: NDArray[np.float32], centers: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the nearest center of each point and its squared distance."""
    middle = centers.mean(axis=0)
    points, targets = lab - middle, centers - middle
    scores = points @ (-2 * targets.T) + (targets**2).sum(axis=1)
    label_of = scores.argmin(axis=1)
    away = np.take_along_axis(scores, label_of[:, None], axis=1)[:, 0] + (points**2).sum(axis=1)
    return label_of, np.maximum(away, 0)


def _spread_centers(
    lab: NDArray[np.float32], weights: NDArray[np.float64], draws: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Choose points one by one, with probability proportional to weight and squared distance to the others.

    A draw of 1 selects the most probable one.
    """
    chosen: list[int] = []
    away = np.ones(len(lab))
    for draw in draws:
        chances = away * weights
        if chances.max() <= 0:
            break
        index = chances.argmax() if draw == 1 else np.searchsorted(np.cumsum(chances), draw * chances.sum())
        chosen.append(min(int(index), len(lab) - 1))
        fresh = ((lab - lab[chosen[-1]]) ** 2).sum(axis=1)
        away = fresh if len(chosen) == 1 else np.minimum(away, fresh)
    result: NDArray[np.float32] = lab[chosen]
    return result


def _merge_alike(centers: NDArray[np.float32], totals: NDArray[np.float64]) -> NDArray[np.float32]:
    """Join the two most similar centers until all differ, then drop rare ones."""
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
    rgb = cv2.cvtColor(np.ascontiguousarray(lab).reshape(1, -1, 3), cv2.COLOR_LAB2RGB)[0]
    result: NDArray[np.uint8] = np.rint(np.clip(rgb, 0, 1) * 255).astype(np.uint8)
    return result
