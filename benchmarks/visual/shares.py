"""How exact `color_share` is on charts with known shares, and how quick its clustering is beside others.

    python -m benchmarks.visual.shares [--each 12] [--first 0] [--save FOLDER]

The error of an image is the largest difference of any colour's share to the truth; a colour that is
missing or too much counts with its whole share. Speed: the main colours of a photograph-like image and of a
chart, ours on the cells of the histogram, beside `cv2.kmeans`, `scipy.cluster.vq.kmeans2` on all pixels with the
same number of colours; the inertia (mean squared distance in L*a*b*) says that the result is the same or better.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.cluster.vq import kmeans2
from skimage.color import rgb2lab

from benchmarks.visual.share_charts import FAMILIES, LIMIT, LIMITS, RGB, make_chart
from visual_tools.colors.measure import color_share
from visual_tools.colors.palette import apply_lut
from visual_tools.colors.photo import find_main_colors
from visual_tools.colors.shares import ColorShares

SAME_COLOR = 7.0


def error_of(truth: dict[RGB, float], found: ColorShares) -> float:
    """The largest difference of a colour's share."""
    rest = {share.color_rgb: share.share for share in found.shares}
    worst = 0.0
    for color, true in truth.items():
        away = {other: float(np.linalg.norm(lab(other) - lab(color))) for other in rest}
        nearest = min(away, key=lambda other: away[other], default=None)
        share = rest.pop(nearest) if nearest is not None and away[nearest] < SAME_COLOR else 0.0
        worst = max(worst, abs(share - true))
    return max(worst, *rest.values(), 0.0)


def lab(color: RGB) -> NDArray[np.float64]:
    return np.asarray(rgb2lab(np.array([[color]], np.uint8))[0, 0])


def sweep(each: int, folder: Path | None, first: int = 0) -> None:
    outside = total = 0
    print(f"{'family':<42}{'n':>4}{'mean':>9}{'max':>9}{'limit':>8}{'outside':>9}{'s each':>8}   in percentage points")
    for family in FAMILIES:
        errors, times = [], []
        limit = LIMITS.get(family, LIMIT)
        for seed in range(first, first + each):
            chart = make_chart(family, seed)
            started = time.perf_counter()
            found = color_share(chart.image, read_labels=False)
            times.append(time.perf_counter() - started)
            errors.append(error_of(chart.truth, found))
            if errors[-1] > limit and folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                name = f"{family.replace(', ', '_').replace(' ', '_')}_{seed}.png"
                Image.fromarray(chart.image).save(folder / name)
                print(f"  {name}: {100 * errors[-1]:.2f}; {chart.note}\n    true {chart.truth}\n    {found!r}")
        missed = sum(error > limit for error in errors)
        outside, total = outside + missed, total + each
        mean, worst = 100 * statistics.mean(errors), 100 * max(errors)
        figures = f"{mean:>9.3f}{worst:>9.3f}{100 * limit:>8.1f}{missed:>9}{statistics.median(times):>8.2f}"
        print(f"{family:<42}{each:>4}{figures}")
    print(f"{outside} of {total} images outside their limit")


def photo_like() -> NDArray[np.uint8]:
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 255, (9, 12, 3), dtype=np.uint8)
    smooth = cv2.resize(coarse, (1280, 960), interpolation=cv2.INTER_CUBIC).astype(np.int16)
    return np.clip(smooth + rng.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)


def to_lab(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    return cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB).reshape(-1, 3)


def by_us(image: NDArray[np.uint8], count: int) -> NDArray[np.integer]:
    return apply_lut(image, find_main_colors(image, count).lut).ravel()


def by_opencv(image: NDArray[np.uint8], count: int) -> NDArray[np.integer]:
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 30, 0.1)
    return cv2.kmeans(to_lab(image), count, None, stop, 1, cv2.KMEANS_PP_CENTERS)[1].ravel()


def by_scipy(image: NDArray[np.uint8], count: int) -> NDArray[np.integer]:
    return kmeans2(to_lab(image), count, iter=15, minit="++", rng=np.random.default_rng(0))[1]


def by_scipy_after_skimage(image: NDArray[np.uint8], count: int) -> NDArray[np.integer]:
    return kmeans2(rgb2lab(image).reshape(-1, 3), count, iter=15, minit="++", rng=np.random.default_rng(0))[1]


def inertia(image: NDArray[np.uint8], labels: NDArray[np.integer]) -> float:
    points = to_lab(image).astype(np.float64)
    total = 0.0
    for label in np.unique(labels):
        members = points[labels == label]
        total += ((members - members.mean(axis=0)) ** 2).sum()
    return total / len(points)


def race(runs: int) -> None:
    ways: dict[str, Callable[[NDArray[np.uint8], int], NDArray[np.integer]]] = {
        "ours": by_us,
        "cv2.kmeans": by_opencv,
        "scipy kmeans2": by_scipy,
        "skimage rgb2lab + scipy kmeans2": by_scipy_after_skimage,
    }
    cv2.setRNGSeed(0)
    for title, image in (("photograph-like", photo_like()), ("chart", make_chart("pie, JPEG", 1).image)):
        rows = {}
        for name, way in ways.items():
            times = []
            for _ in range(runs):
                started = time.perf_counter()
                labels = way(image, 8)
                times.append(time.perf_counter() - started)
            rows[name] = statistics.median(times), inertia(image, labels)
        print(f"\n8 colours of a {title} image, {image.shape[1]}x{image.shape[0]}, median of {runs}")
        ours = rows["ours"][0]
        for name, (took, spread) in rows.items():
            print(f"  {name:<34}{1000 * took:>8.0f} ms   ours / this {ours / took:6.3f}x   inertia {spread:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=12, help="images of each family")
    parser.add_argument("--first", type=int, default=0, help="number of the first image of each family")
    parser.add_argument("--runs", type=int, default=3, help="runs of each clustering")
    parser.add_argument("--save", type=Path, help="put images outside their limit here")
    arguments = parser.parse_args()
    sweep(arguments.each, arguments.save, arguments.first)
    race(arguments.runs)


if __name__ == "__main__":
    main()
