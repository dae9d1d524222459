"""Where one region is cut: which necks count, what is a crumb, and the same in a large image."""

import numpy as np
import pytest
from numpy.typing import NDArray

from visual_tools.regions.counting import _join_basins, fill, separate, solidity


def disks(*circles: tuple[int, int, int], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Circles of centre x, y and radius, on an image of that height and width."""
    y, x = np.ogrid[: size[0], : size[1]]
    return np.any([(x - cx) ** 2 + (y - cy) ** 2 <= r * r for cx, cy, r in circles], axis=0)


@pytest.mark.parametrize(
    ("heights", "areas", "passes", "numbers"),
    [
        ((20, 20), (500, 500), {(1, 2): 17.7}, (1, 1)),  # narrower by 2.3 of 20 px
        ((20, 20), (500, 500), {(1, 2): 17.5}, (1, 2)),
        ((4, 4), (500, 500), {(1, 2): 3.1}, (1, 1)),  # less than one pixel is none
        ((4, 4), (500, 500), {(1, 2): 3.0}, (1, 2)),
        ((20, 5), (500, 500), {(1, 2): 4.2}, (1, 1)),  # measured at the smaller one
        ((20, 5), (500, 500), {(1, 2): 3.9}, (1, 2)),
        ((20, 20), (1000, 59), {(1, 2): 3.0}, (1, 1)),  # a crumb
        ((20, 20), (1000, 60), {(1, 2): 3.0}, (1, 2)),
        ((20, 20, 20), (1000, 50, 50), {(1, 2): 3.0, (2, 3): 19.0}, (1, 2, 2)),  # two halves that are no crumb together
        ((20, 20, 20), (1000, 20, 20), {(1, 2): 3.0, (2, 3): 19.0}, (1, 1, 1)),
        (
            (10, 6, 8),
            (500, 500, 500),
            {(1, 2): 5.5, (2, 3): 5.2},
            (1, 1, 2),
        ),  # what is joined is as high as its highest
        ((10, 10, 10), (500, 500, 500), {(1, 2): 9.5, (2, 3): 9.5, (1, 3): 9.5}, (1, 1, 1)),
        ((10, 10, 10, 10), (500, 500, 500, 500), {(1, 2): 9.5, (3, 4): 9.5, (2, 3): 5.0}, (1, 1, 2, 2)),
    ],
)
def test_basins_without_a_neck_between_and_crumbs_are_joined(
    heights: tuple[float, ...], areas: tuple[int, ...], passes: dict[tuple[int, int], float], numbers: tuple[int, ...]
) -> None:
    found = _join_basins(
        np.array([0.0, *heights]), np.array([0, *areas]), np.array(list(passes)), np.array(list(passes.values()))
    )
    assert found.tolist() == [0, *numbers]


@pytest.mark.parametrize("scale", [1, 12])
def test_two_disks_that_touch_are_two_in_small_and_in_large_pictures(scale: int) -> None:
    """Above a million and a half pixels the cut is looked for in a smaller image; the labels are of the large one."""
    region = disks(*((x * scale, 60 * scale, 42 * scale) for x in (50, 125)), size=(120 * scale, 175 * scale))
    parts = separate(region)
    assert parts.num == 2
    assert np.array_equal(parts.labels > 0, region)
    left, right = (
        np.flatnonzero((parts.labels == number).any(axis=0))
        for number in parts.labels[60 * scale, [50 * scale, 125 * scale]]
    )
    assert abs(int(left.max()) - 87 * scale) <= 2 * scale and abs(int(right.min()) - 87 * scale) <= 2 * scale


def test_a_disk_stays_in_one_piece_in_a_large_picture_too() -> None:
    region = disks((650, 650, 640), size=(1300, 1300))
    parts = separate(region)
    assert (parts.num, np.array_equal(parts.labels == 1, region)) == (1, True)


def test_parts_are_handed_out_by_number() -> None:
    region = disks((50, 60, 42), (125, 60, 42), size=(120, 175))
    parts = separate(region)
    together = np.zeros_like(region)
    for number, (place, mask) in enumerate(parts.regions(), 1):
        assert np.array_equal(mask, parts.labels[place] == number)
        together[place] |= mask
    assert np.array_equal(together, region)


def test_a_filled_region_has_no_holes() -> None:
    ring = disks((50, 50, 40), size=(100, 100)) & ~disks((50, 50, 20), size=(100, 100))
    filled = fill(ring)
    assert (filled.num, int(filled.labels.sum())) == (1, int(disks((50, 50, 40), size=(100, 100)).sum()))


def test_solidity_is_that_of_the_hull() -> None:
    square = np.zeros((40, 40), bool)
    square[10:30, 10:30] = True
    assert solidity(square) == 1.0
    square[10:20, 20:30] = False
    assert 0.8 < solidity(square) < 0.9
    assert solidity(np.zeros((5, 5), bool)) == 0.0
