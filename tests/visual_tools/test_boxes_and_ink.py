import numpy as np
import pytest

from tests.visual_tools.drawing import Canvas
from visual_tools.box import Box
from visual_tools.errors import MissingPackageError, require
from visual_tools.ink import find_background, find_ink, find_runs, measure_contrast, read_sign
from visual_tools.text_detection import find_content_box


def test_overlaps_and_gaps() -> None:
    one, other = Box(0, 0, 10, 10), Box(15, 5, 20, 30)

    assert (one.overlap_x(other), one.overlap_y(other), one.intersection(other)) == (-5, 5, 0)
    assert one.union(other) == Box(0, 0, 20, 30)
    assert one.padded(2, 3).clipped(11, 11) == Box(0, 0, 11, 11)
    assert (one.moved(3, 4), one.center, one.area) == (Box(3, 4, 13, 14), (5.0, 5.0), 100)
    assert one.contains(Box(-1, 0, 5, 5), slack_px=1) and not one.contains(Box(-1, 0, 5, 5))
    assert one.has_point(9.9, 0) and not one.has_point(10, 0)


def test_content_is_what_is_not_flat() -> None:
    assert find_content_box(Canvas(100, 80).array) is None
    assert find_content_box(Canvas(100, 80).box(20, 30, 25, 33, fill="black").array) == Box(19, 29, 25, 33)


def test_ink_and_background() -> None:
    crop = Canvas(60, 30, "#204060").text(5, 5, "ab", colour="white").array

    assert find_background(crop).tolist() == [0x20, 0x40, 0x60]
    assert 0.02 < find_ink(crop).mean() < 0.4
    assert measure_contrast(crop) == 0xFF - 0x20
    assert measure_contrast(crop[:0]) == 0


def test_runs() -> None:
    mask = np.array([0, 1, 1, 0, 1, 0, 0, 1], dtype=bool)

    assert find_runs(mask) == [(1, 3), (4, 5), (7, 8)]
    assert find_runs(mask, max_gap=1) == [(1, 5), (7, 8)]


@pytest.mark.parametrize(
    ("bars", "sign"),
    [
        ([(10, 14, 22, 16)], "-"),
        ([(10, 12, 22, 14), (10, 18, 22, 20)], "="),
        ([(10, 18, 12, 20)], "."),
        ([(10, 14, 21, 16), (14, 10, 17, 21)], "+"),
        ([(10, 5, 12, 25)], ""),
        ([(5, 5, 8, 8), (20, 5, 23, 8)], ""),
        ([], ""),
    ],
)
def test_lone_signs(bars: list[tuple[int, int, int, int]], sign: str) -> None:
    canvas = Canvas(40, 30)
    for bar in bars:
        canvas.box(*bar, fill="black")

    assert read_sign(find_ink(canvas.array)) == sign


def test_a_missing_package_is_named_with_the_line_to_type() -> None:
    with pytest.raises(MissingPackageError, match=r"pip install 'cua-k25\[literal\]'"):
        require("no_such_package_here", "literal")
