"""How well objects are counted and measured, and how quickly regions are found.

    python benchmarks/visual/counting.py [--scenes 20] [--megapixels 20]

Rendered scenes with known objects (tests/visual_tools/regions/scenes.py), and the 24 coins that ship with
scikit-image. Beside ours the usual recipe of scikit-image's manual: a blur, Otsu's threshold, holes filled, peaks of
the distance transform as markers of a watershed. For the regions OpenCV and scikit-image find the same ones.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage import color, data, feature, filters, measure, segmentation

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.visual_tools.regions.scenes import KINDS, make_scene
from visual_tools.regions.components import find_components
from visual_tools.regions.counting import count_objects
from visual_tools.regions.measuring import measure_objects

SETS: dict[str, dict[str, float]] = {
    "apart": {},
    "apart, uneven light, noise": {"light": 0.6, "noise": 8},
    "touching": {"overlap": 0.1},
    "touching, uneven light, noise": {"overlap": 0.1, "light": 0.5, "noise": 10},
    "overlapping up to a fifth": {"overlap": 0.2},
}


def count_by_recipe(image: NDArray[np.uint8]) -> int:
    """The usual recipe; it is told which side of the threshold is the smaller one."""
    grey = color.rgb2gray(image) if image.ndim == 3 else image
    grey = filters.gaussian(grey, 1.5)
    mask = grey > filters.threshold_otsu(grey)
    if mask.mean() > 0.5:
        mask = ~mask
    mask = ndimage.binary_fill_holes(mask)
    distance = ndimage.distance_transform_edt(mask)
    peaks = feature.peak_local_max(distance, min_distance=7, labels=measure.label(mask))
    markers = np.zeros(mask.shape, dtype=int)
    markers[tuple(peaks.T)] = range(1, len(peaks) + 1)
    return int(segmentation.watershed(-distance, markers, mask=mask).max())


def print_counts(num_scenes: int) -> None:
    print(f"exact counts and mean error, {num_scenes} scenes each (the recipe of scikit-image's manual in brackets)")
    for name, options in SETS.items():
        for kind in KINDS:
            errors: dict[str, list[float]] = {"ours": [], "recipe": []}
            for seed in range(1000, 1000 + num_scenes):
                scene = make_scene(kind, seed, **options)
                true = len(scene.shapes)
                errors["ours"].append(abs(count_objects(scene.image).count - true) / true)
                errors["recipe"].append(abs(count_by_recipe(scene.image) - true) / true)
            exact = {who: sum(error == 0 for error in found) for who, found in errors.items()}
            mean = {who: statistics.mean(found) for who, found in errors.items()}
            print(
                f"  {name:30} {kind:9} exact {exact['ours']:3}/{num_scenes} ({exact['recipe']}/{num_scenes})"
                f"   mean error {mean['ours']:6.2%} ({mean['recipe']:.1%})"
            )


def print_coins() -> None:
    coins = data.coins()
    print(f"skimage.data.coins(), 24 coins: ours {count_objects(coins).count}, recipe {count_by_recipe(coins)}")


def print_sizes(num_scenes: int) -> None:
    print("sizes of single objects under uneven light with noise, median absolute error")
    for kind in KINDS:
        errors: dict[str, list[float]] = {"area": [], "length": [], "width": []}
        for seed in range(1000, 1000 + num_scenes):
            scene = make_scene(kind, seed, light=0.6, noise=8)
            found = measure_objects(scene.image)
            for shape in scene.shapes:
                nearest = min(
                    found, key=lambda one: np.hypot(one.centroid_px[0] - shape.x, one.centroid_px[1] - shape.y)
                )
                errors["area"].append(abs(nearest.area / shape.area - 1))
                errors["length"].append(abs(nearest.length - shape.length))
                errors["width"].append(abs(nearest.width - shape.width))
        middle = {name: statistics.median(values) for name, values in errors.items()}
        print(
            f"  {kind:9} area {middle['area']:.2%}, length {middle['length']:.2f} px, width {middle['width']:.2f} px"
            f"   ({len(errors['area'])} objects)"
        )


def time_in_turn(calls: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Median seconds of each; they take turns, and each result lives until its next turn, as with a caller."""
    kept: dict[str, Any] = {}
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            kept.pop(name, None)
            started = time.perf_counter()
            kept[name] = call()
            took[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in took.items()}


def print_speed(megapixels: float, runs: int = 5) -> None:
    side = round((megapixels * 1e6) ** 0.5)
    random = np.random.default_rng(0)
    dots = (random.random((side, side)) > 0.998).astype(np.uint8)
    mask = cv2.dilate(dots, np.ones((5, 5), np.uint8)) > 0
    num = len(find_components(mask))
    took = time_in_turn(
        {
            "ours": lambda: find_components(mask),
            "OpenCV": lambda: cv2.connectedComponentsWithStats(mask.view(np.uint8), connectivity=8),
            "scikit-image": lambda: measure.regionprops_table(
                measure.label(mask, connectivity=2), properties=("area", "bbox", "centroid")
            ),
        },
        runs,
    )
    best = min(took["OpenCV"], took["scikit-image"])
    print(f"regions with area, box and centroid: {megapixels:g} megapixels, {num} regions, median of {runs}")
    for name, seconds in took.items():
        print(f"  {name:13} {seconds * 1000:7.0f} ms")
    print(f"  ours / the best of them: {took['ours'] / best:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=20)
    parser.add_argument("--megapixels", type=float, default=20)
    arguments = parser.parse_args()
    print_coins()
    print_counts(arguments.scenes)
    print_sizes(arguments.scenes)
    print_speed(arguments.megapixels)


if __name__ == "__main__":
    main()
