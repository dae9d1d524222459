"""What a proof catches."""

import numpy as np
import pytest
from numpy.typing import NDArray

import visual_tools as vt
from visual_tools.errors import ImageError
from visual_tools.paths.check import PathCheck, _verify_bound, find_narrow_gaps, has_maze
from visual_tools.paths.search import measure_lengths

FREE = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1]], bool)


def test_a_maze_has_walls_between_its_ends_or_corridors() -> None:
    plain = np.ones((200, 300), np.bool_)
    walled, halls = plain.copy(), plain.copy()
    walled[:150, 150] = False
    halls[::20] = halls[:, 295:] = False
    ends = {"start": (20, 25), "goal": (280, 25)}
    assert not has_maze(vt.shortest_path(plain, **ends))
    assert has_maze(vt.shortest_path(walled, **ends))
    assert has_maze(vt.shortest_path(halls, **ends))


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
    check = vt.check_path(FREE, points, start=(0, 0), goal=(0, 0), connectivity=connectivity)
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
        vt.check_path(mask, points)


def with_gap(gap_px: int, *, has_detour: bool) -> NDArray[np.bool_]:
    """Three corridors of 40 px, joined at one end each; a gap in the first wall shortens the path."""
    free = np.zeros((140, 300), bool)
    free[5:45, 5:295] = free[50:90, 5:295] = free[95:135, 5:295] = True
    free[45:50, 255:295] = has_detour
    free[90:95, 5:45] = True
    free[45:50, 100 : 100 + gap_px] = True
    return free


@pytest.mark.parametrize("gap_px", [1, 2, 3])
def test_a_gap_far_narrower_than_the_corridors_is_told(gap_px: int) -> None:
    result = vt.shortest_path(with_gap(gap_px, has_detour=True), start=(20, 20), goal=(280, 120))
    gaps = find_narrow_gaps(result)
    assert gaps is not None
    assert (len(gaps.points_px), gaps.width_px) == (1, pytest.approx(gap_px, abs=1))
    assert gaps.points_px[0] == (pytest.approx(100, abs=gap_px), pytest.approx(47, abs=4))
    whole = vt.shortest_path(with_gap(0, has_detour=True), start=(20, 20), goal=(280, 120))
    assert gaps.length_px == whole.length_px > result.length_px
    assert find_narrow_gaps(whole) is None
    alone = find_narrow_gaps(vt.shortest_path(with_gap(gap_px, has_detour=False), start=(20, 20), goal=(280, 120)))
    assert alone is not None and alone.length_px is None


def test_doors_of_corridors_and_rough_corners_are_no_gaps() -> None:
    assert find_narrow_gaps(vt.shortest_path(with_gap(14, has_detour=True), start=(20, 20), goal=(280, 120))) is None
    rough = with_gap(0, has_detour=True)
    rough[46:49, 250:255] = rough[44:46, 120:200:3] = True
    rough[45:47, 120:200:3] = True
    assert find_narrow_gaps(vt.shortest_path(rough, start=(20, 20), goal=(280, 120))) is None
