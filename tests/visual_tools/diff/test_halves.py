from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from examples.scenes import Pair, make_pair, side_by_side
from tests.visual_tools.diff.pairs import judge, make_photo_pair
from visual_tools.box import Box
from visual_tools.diff.compare import pixel_diff
from visual_tools.diff.halves import split_halves
from visual_tools.diff.result import draw_diff

EXAMPLES = Path(__file__).parents[3] / "examples"


def sheet(pair: Pair, corners: list[tuple[int, int]], size: tuple[int, int], colour: str = "white") -> np.ndarray:
    """Both images of a pair at these places on a sheet."""
    paper = Image.new("RGB", size, colour)
    for corner, picture in zip(corners, (pair.first, pair.second), strict=True):
        paper.paste(Image.fromarray(picture), corner)
    return np.array(paper)


@pytest.mark.parametrize(
    ("corners", "size", "colour", "layout"),
    [
        ([(0, 0), (400, 0)], (800, 300), "white", "side by side"),
        ([(0, 0), (0, 300)], (400, 600), "white", "stacked"),
        ([(5, 20), (440, 20)], (873, 325), "white", "side by side"),
        ([(20, 0), (20, 312)], (453, 630), "#202020", "stacked"),
        ([(33, 5), (434, 5)], (834, 325), "#dddddd", "side by side"),
    ],
)
def test_halves_with_and_without_margins(
    corners: list[tuple[int, int]], size: tuple[int, int], colour: str, layout: str
) -> None:
    pair = make_pair(2, width=400, height=300, changes=5, things=12)
    picture = sheet(pair, corners, size, colour)
    halves = split_halves(picture)
    expected = [Box(0, 0, 400, 300).moved(*corner) for corner in corners]
    assert (halves.layout, [halves.first_box, halves.second_box]) == (layout, expected)
    assert np.array_equal(halves.first, pair.first)
    assert np.array_equal(halves.second, pair.second)


def test_a_line_between_the_halves_is_left_off() -> None:
    pair = make_pair(3, width=400, height=300, changes=5, things=12)
    picture = sheet(pair, [(10, 10), (430, 10)], (840, 320))
    picture[:, 419:421] = (200, 0, 0)
    halves = split_halves(picture)
    assert [halves.first_box, halves.second_box] == [Box(10, 10, 410, 310), Box(430, 10, 830, 310)]


def test_captions_and_unequal_margins_are_left_off_and_boxes_are_the_sheets() -> None:
    pair = make_pair(5, width=480, height=360, changes=7, things=16)
    picture = side_by_side(pair.first, pair.second)
    result = pixel_diff(picture)
    assert result.halves is not None
    assert [result.halves.first_box, result.halves.second_box] == [Box(20, 55, 500, 415), Box(530, 55, 1010, 415)]
    moved = [
        replace(one, first_box=one.first_box.moved(20, 55), second_box=one.second_box.moved(530, 55))
        for one in pair.changes
    ]
    score = judge(result, tuple(moved))
    assert (score.found, score.false) == (7, 0)
    drawn = draw_diff(picture, None, result)
    assert np.array_equal(drawn, draw_diff(result.halves.first, result.halves.second, result))


@pytest.mark.long
def test_a_photograph_above_its_edited_copy() -> None:
    pair = make_photo_pair(6, "rocket", changes=4)
    height, width = pair.first.shape[:2]
    picture = sheet(pair, [(0, 0), (0, height + 8)], (width, 2 * height + 8))
    result = pixel_diff(picture)
    changes = [replace(one, second_box=one.second_box.moved(0, height + 8)) for one in pair.changes]
    score = judge(result, tuple(changes))
    assert (score.found, score.false) == (4, 0)


@pytest.mark.long
def test_the_example_has_ten_differences() -> None:
    picture = np.asarray(Image.open(EXAMPLES / "spot-pair.png").convert("RGB"))
    left, right = (np.asarray(Image.open(EXAMPLES / f"spot-{side}.png").convert("RGB")) for side in ("left", "right"))
    assert pixel_diff(picture).count == 10
    assert pixel_diff(left, right).count == 10
