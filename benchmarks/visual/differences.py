"""How many planted differences are found between two images, how many are reported that are none, and how quickly.

    python benchmarks/visual/differences.py [--pairs 60] [--megapixels 20] [--runs 3]

Pairs take turns between drawn cartoons, drawn screens and photographs that come with scikit-image, with 5 to 15
planted changes each (photographs 5 to 8). The second image of a pair is shifted, scaled by 0.85 to 1.2 and turned
by up to 2 degrees, some are made brighter or darker, and both are saved as JPEG of quality 60 to 95. What counts as
found stands in tests/visual_tools/diff/pairs.py.

The second part times the structural map alone beside the same map of scikit-image and of OpenCV filters on
whole images, and the whole comparison (colour, structure, regions, kinds; with and without laying the second
image on the first) beside scikit-image on the same three channels.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from skimage.metrics import structural_similarity

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.scenes import Pair, make_pair
from tests.visual_tools.diff.pairs import PHOTOS, any_spoil, judge, make_photo_pair, make_screen_pair, spoil
from visual_tools.diff.compare import pixel_diff
from visual_tools.diff.maps import find_structure

KINDS = ("cartoon", "screen", "photo")


def pair_of(number: int) -> tuple[str, Pair]:
    kind, turn = KINDS[number % 3], number // 3
    if kind == "cartoon":
        return kind, make_pair(number, changes=5 + number % 11)
    if kind == "screen":
        return kind, make_screen_pair(number, changes=5 + number % 11)
    return kind, make_photo_pair(number, PHOTOS[turn % len(PHOTOS)], changes=5 + turn % 4)


def sweep(start: int, count: int) -> None:
    totals = {kind: [0, 0, 0, 0] for kind in (*KINDS, "all")}
    seconds = []
    for number in range(start, start + count):
        kind, clean = pair_of(number)
        pair = spoil(clean, any_spoil(number))
        started = time.perf_counter()
        result = pixel_diff(pair.first, pair.second)
        seconds.append(time.perf_counter() - started)
        score = judge(result, pair.changes)
        for name in (kind, "all"):
            totals[name] = [
                sum(both) for both in zip(totals[name], (1, score.planted, score.found, score.false), strict=True)
            ]
    for name, (pairs, planted, found, false) in totals.items():
        if pairs:
            print(
                f"  {name:8} {pairs:3} pairs, {planted:4} planted: recall {found / planted:.3f}, "
                f"{false / pairs:.2f} false regions a pair"
            )
    if seconds:
        print(f"  median time a pair: {statistics.median(seconds):.2f} s")


def opencv_structure(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The same map the usual way: OpenCV box filters over whole float images."""
    x, y = first.astype(np.float32), second.astype(np.float32)
    mean_x, mean_y, xx, yy, xy = (
        cv2.boxFilter(one, cv2.CV_32F, (7, 7), borderType=cv2.BORDER_REFLECT) for one in (x, y, x * x, y * y, x * y)
    )
    sample, c1, c2 = np.float32(49 / 48), np.float32(2.55**2), np.float32(7.65**2)
    top = (2 * mean_x * mean_y + c1) * (2 * sample * (xy - mean_x * mean_y) + c2)
    return top / ((mean_x**2 + mean_y**2 + c1) * (sample * (xx - mean_x**2 + yy - mean_y**2) + c2))


def median_s(call: Callable[[], object], runs: int) -> float:
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def speed(megapixels: float, runs: int) -> None:
    pair = make_pair(3, width=1000, height=750, changes=10, things=40)
    width = round((megapixels * 1e6 * 4 / 3) ** 0.5)
    size = width, width * 3 // 4
    rng = np.random.default_rng(0)
    first, second = (
        cv2.add(cv2.resize(one, size), rng.integers(0, 6, (size[1], size[0], 3), dtype=np.uint8))
        for one in (pair.first, pair.second)
    )
    greys = [cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in (first, second)]
    ours, plain = find_structure(*greys), opencv_structure(*greys)
    _, theirs = structural_similarity(*greys, full=True)
    inner = slice(3, -3), slice(3, -3)
    apart = [float(np.abs(ours[inner] - other[inner]).max()) for other in (theirs, plain)]
    print(f"  structural maps: largest difference to scikit-image {apart[0]:.1e}, to OpenCV filters {apart[1]:.1e}")
    structure = median_s(lambda: find_structure(*greys), runs)
    skimage_s = median_s(lambda: structural_similarity(*greys, full=True), runs)
    opencv_s = median_s(lambda: opencv_structure(*greys), runs)
    print(
        f"  structural map: {structure:.2f} s; / scikit-image {structure / skimage_s:.2f}x ({skimage_s:.2f} s), ",
        end="",
    )
    print(f"/ OpenCV filters {structure / opencv_s:.2f}x ({opencv_s:.2f} s)")
    colour_s = median_s(lambda: structural_similarity(first, second, channel_axis=2, full=True), 1)
    for register in (False, True):
        whole = median_s(lambda register=register: pixel_diff(first, second, register=register), runs)
        print(f"  pixel_diff(register={register}): {whole:.2f} s; / scikit-image on 3 channels ", end="")
        print(f"{whole / colour_s:.2f}x ({colour_s:.2f} s), / scikit-image on grey {whole / skimage_s:.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--start", type=int, default=0, help="number of the first pair")
    parser.add_argument("--megapixels", type=float, default=20)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"planted differences, pairs {arguments.start} to {arguments.start + arguments.pairs - 1}")
    sweep(arguments.start, arguments.pairs)
    print(f"speed at {arguments.megapixels:g} megapixels, median of {arguments.runs}")
    speed(arguments.megapixels, arguments.runs)


if __name__ == "__main__":
    main()
