"""What a proof catches."""

import numpy as np
import pytest

import visual_tools as vt
from visual_tools.errors import ImageError
from visual_tools.paths.check import PathCheck, _verify_bound
from visual_tools.paths.search import measure_lengths

FREE = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1]], bool)


def test_a_shortest_way() -> None:
    assert vt.check_path(FREE, [(0, 0), (1, 0), (2, 0), (2, 1)], start=(0, 0), goal=(2, 1)) == PathCheck(
        is_valid=True, is_shortest=True, problems=(), length_px=3.0, shortest_px=3.0
    )


def test_a_detour() -> None:
    assert vt.check_path(FREE, [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1)]) == PathCheck(
        is_valid=True,
        is_shortest=False,
        problems=("the way is 5 px long, the shortest from (0, 0) to (2, 1) 3 px",),
        length_px=5.0,
        shortest_px=3.0,
    )


@pytest.mark.parametrize(
    ("points", "connectivity", "problem"),
    [
        ([(1, 0), (0, 0)], 4, "the way begins at (1, 0), not at the start (0, 0)"),
        ([(0, 0), (1, 0)], 4, "the way ends at (1, 0), not at the goal (0, 0)"),
        ([(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)], 4, "point 2: (1, 1) lies on a wall"),
        ([(0, 0), (-1, 0), (0, 0)], 4, "point 1: (-1, 0) lies outside the mask"),
        ([(0, 0), (0, 1), (0, 2), (0, 3), (0, 2), (0, 1), (0, 0)], 4, "point 3: (0, 3) lies outside the mask"),
        ([(0, 0), (2, 0), (1, 0), (0, 0)], 4, "point 1: the move from (0, 0) to (2, 0) is not one of 4 directions"),
        ([(0, 0), (0, 0)], 8, "point 1: the move from (0, 0) to (0, 0) is not one of 8 directions"),
        ([(0, 0), (1, 0), (0, 1), (0, 0)], 8, "point 2: the move from (1, 0) to (0, 1) passes the corner of a wall"),
        ([(0, 0), (1, 0), (0, 1), (0, 0)], 4, "point 2: the move from (1, 0) to (0, 1) is not one of 4 directions"),
    ],
)
def test_each_fault_is_named_with_its_place(points: list[tuple[int, int]], connectivity: int, problem: str) -> None:
    check = vt.check_path(FREE, points, start=(0, 0), goal=(0, 0), connectivity=connectivity)  # type: ignore[arg-type]
    assert (check.is_valid, check.is_shortest) == (False, False)
    assert check.problems == (problem,)


def test_many_faults_of_a_kind_are_counted() -> None:
    check = vt.check_path(np.zeros((1, 9), bool), [(x, 0) for x in range(9)])
    assert len(check.problems) == 6
    assert check.problems[-1] == "and 4 more of these"


@pytest.mark.parametrize("connectivity", [4, 8])
def test_wrong_numbers_never_prove_anything(connectivity: int) -> None:
    free = np.random.default_rng(5).random((20, 20)) < 0.8
    free[0, 0] = True
    numbers = measure_lengths(free, (0, 0), connectivity).copy()
    assert _verify_bound(free, numbers, connectivity) == ""
    reached = np.argwhere(np.isfinite(numbers) & (numbers > 3))
    for wrong in (99.0, np.inf):
        changed = numbers.copy()
        changed[tuple(reached[len(reached) // 2])] = wrong
        assert _verify_bound(free, changed, connectivity).startswith("not proven")


@pytest.mark.parametrize(
    ("mask", "points"),
    [
        (np.ones(3, bool), [(0, 0)]),
        (np.ones((2, 2)), [(0, 0)]),
        (np.ones((0, 2), bool), [(0, 0)]),
        (FREE, []),
        (FREE, [(0.5, 0.0)]),
        (FREE, [(0, 0, 0)]),
    ],
)
def test_wrong_input_is_told(mask: np.ndarray, points: list[tuple[float, ...]]) -> None:
    with pytest.raises(ImageError):
        vt.check_path(mask, points)  # type: ignore[arg-type]
