"""The search on masks: exact, for all masks, by every method."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import visual_tools as vt
from examples import mazes
from tests.visual_tools.paths.peers import scipy_length
from visual_tools.errors import ImageError
from visual_tools.paths.search import Connectivity, Method, PathResult

ROOM = np.ones((3, 4), bool)


@pytest.mark.parametrize("method", ["bfs", "astar", "centered"])
@pytest.mark.parametrize("connectivity", [4, 8])
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 30), height=st.integers(1, 30), share=st.floats(0.3, 1.0))
@settings(max_examples=25, derandomize=True)
def test_any_mask_gives_what_scipy_gives(
    method: Method, connectivity: Connectivity, seed: int, width: int, height: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    free = rng.random((height, width)) < share
    start, goal = ((int(rng.integers(width)), int(rng.integers(height))) for _ in range(2))
    free[start[::-1]] = free[goal[::-1]] = True
    expected = scipy_length(free, start, goal, connectivity)
    result = vt.shortest_path(free, start=start, goal=goal, connectivity=connectivity, method=method)
    assert result.found == math.isfinite(expected)
    if result.found:
        proof = vt.check_path(free, result.points_px, start=start, goal=goal, connectivity=connectivity)
        assert proof.is_valid
        assert proof.shortest_px == pytest.approx(expected, abs=1e-9)
        if method != "centered":
            assert proof.is_shortest
            assert result.length_px == pytest.approx(expected, abs=1e-9)


def test_the_whole_result() -> None:
    free = np.array([[1, 1, 1], [0, 0, 1], [1, 1, 1]], bool)
    result = vt.shortest_path(free, start=(0, 0), goal=(0, 2))
    expected = [[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [1, 2], [0, 2]]
    assert result.points_px.dtype == np.int32
    assert result.points_px.tolist() == expected
    assert np.array_equal(result.mask, free)
    assert repr(result) == (
        "PathResult(found=True, reason='', num_points=7, num_steps=6, length_px=6.0, start_px=(0, 0), goal_px=(0, 2), "
        "connectivity=4, method='bfs', road='mask')"
    )


def test_diagonal_moves_do_not_pass_corners() -> None:
    free = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1]], bool)
    result = vt.shortest_path(free, start=(1, 0), goal=(2, 1), connectivity=8)
    assert result.points_px.tolist() == [[1, 0], [0, 0], [0, 1], [0, 2], [1, 2], [2, 2], [2, 1]]
    assert vt.shortest_path(ROOM, start=(0, 0), goal=(3, 2), connectivity=8).length_px == 1 + 2 * math.sqrt(2)


@pytest.mark.parametrize("method", ["bfs", "astar", "centered"])
@pytest.mark.parametrize("connectivity", [4, 8])
def test_a_way_of_one_pixel(method: Method, connectivity: Connectivity) -> None:
    result = vt.shortest_path(
        np.ones((1, 1), bool), start=(0, 0), goal=(0, 0), method=method, connectivity=connectivity
    )
    assert (result.found, result.num_points, result.num_steps, result.length_px) == (True, 1, 0, 0.0)


@pytest.mark.parametrize(("connectivity", "length_px"), [(4, 2400), (8, 1200 * math.sqrt(2))])
def test_a_wide_front_makes_the_queue_grow(connectivity: Connectivity, length_px: float) -> None:
    hall = np.ones((2401, 2401), bool)
    assert vt.shortest_path(hall, start=(1200, 1200), goal=(2400, 0), connectivity=connectivity).length_px == length_px


@pytest.mark.parametrize(
    ("start", "goal", "reason"),
    [
        (
            (0, 0),
            (2, 2),
            "walls separate start (0, 0) and goal (2, 2): from the goal 1 pixels can be reached, from the other end 3",
        ),
        ((1, 1), (0, 0), "the start (1, 1) lies on a wall"),
        ((0, 0), (1, 1), "the goal (1, 1) lies on a wall"),
    ],
)
def test_no_way_is_said_with_its_reason(start: tuple[int, int], goal: tuple[int, int], reason: str) -> None:
    free = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], bool)
    result = vt.shortest_path(free, start=start, goal=goal)
    assert (result.found, result.reason, result.num_points, result.length_px) == (False, reason, 0, 0.0)
    assert result.points_px.shape == (0, 2)


def test_ends_that_meet_only_at_a_corner_are_apart() -> None:
    free = np.eye(2, dtype=bool)
    assert not vt.shortest_path(free, start=(0, 0), goal=(1, 1), connectivity=8).found


def distance_to_walls(free: NDArray[np.bool_], result: PathResult) -> float:
    walls = np.argwhere(~free)[:, ::-1]
    return float(np.hypot(*(result.points_px[:, None] - walls[None]).transpose(2, 0, 1)).min())


def test_clearance_is_kept_all_along() -> None:
    free = np.ones((40, 60), bool)
    free[10:30, 20:25] = free[:25, 40:43] = False
    for clearance_px in (0.0, 1.0, 2.5, 5.0):
        result = vt.shortest_path(free, start=(2, 20), goal=(57, 5), clearance_px=clearance_px, connectivity=8)
        assert result.found
        assert distance_to_walls(free, result) > clearance_px
    blocked = vt.shortest_path(free, start=(2, 20), goal=(57, 5), clearance_px=20)
    assert blocked.reason == "the start (2, 20) is not farther than clearance_px=20 from the nearest wall"


def test_centered_stays_in_the_middle() -> None:
    sizes = {"corridor_px": 15, "wall_px": 4}
    board = mazes.Grid(6, 6)
    free = mazes.draw_grid(board, mazes.wilson(board, random.Random(3)), **sizes)[..., 0] > 0
    ends = mazes.cell_center((0, 0), **sizes), mazes.cell_center((5, 5), **sizes)
    shortest, middle = (
        vt.shortest_path(free, start=ends[0], goal=ends[1], connectivity=8, method=method)
        for method in ("bfs", "centered")
    )
    assert middle.length_px > shortest.length_px
    assert distance_to_walls(free, shortest) == 1.0
    assert distance_to_walls(free, middle) >= 6.0


def test_openings_of_a_mask_and_no_way_around() -> None:
    board = mazes.Grid(5, 7)
    links = mazes.prim(board, random.Random(1))
    free = mazes.draw_grid(board, links, corridor_px=9, wall_px=3, margin_px=12, has_openings=True)[..., 0] > 0
    result = vt.shortest_path(free)
    assert abs(result.start_px[0] - (12 + 3 + 4)) <= 1
    assert result.start_px[1] < 12 + 3
    assert result.goal_px[1] >= free.shape[0] - 12 - 3
    inside = np.zeros_like(free)
    inside[12:-12, 12:-12] = True
    assert inside[result.points_px[:, 1], result.points_px[:, 0]].all()
    around = vt.shortest_path(free, start=result.start_px, goal=result.goal_px)
    assert around.num_steps <= result.num_steps  # a mask with given ends is taken as it is, margin and all


def test_one_end_may_be_an_opening() -> None:
    board = mazes.Grid(4, 4)
    sizes = {"corridor_px": 9, "wall_px": 3}
    free = mazes.draw_grid(board, mazes.kruskal(board, random.Random(0)), **sizes, has_openings=True)[..., 0] > 0
    both = vt.shortest_path(free)
    near_goal = mazes.cell_center((3, 3), **sizes)
    assert vt.shortest_path(free, goal=near_goal).start_px == both.start_px
    assert vt.shortest_path(free, start=near_goal).goal_px == both.start_px  # the opening farther from it


def test_an_opening_of_one_pixel_reaches_the_edge() -> None:
    board = mazes.Grid(4, 4)
    free = (
        mazes.draw_grid(board, mazes.kruskal(board, random.Random(0)), corridor_px=1, wall_px=1, has_openings=True)[
            ..., 0
        ]
        > 0
    )
    result = vt.shortest_path(free)
    assert (result.start_px, result.goal_px) == ((1, 0), (7, 8))
    assert vt.check_path(free, result.points_px).is_shortest


@pytest.mark.parametrize(
    ("mask", "options", "message"),
    [
        (np.ones((0, 3), bool), {}, "empty mask"),
        (ROOM, {"start": (4, 0), "goal": (0, 0)}, r"the start \(4, 0\) lies outside the image of 4 x 3"),
        (ROOM, {"start": (0, 0), "goal": (0, -1)}, r"the goal \(0, -1\) lies outside"),
        (ROOM, {"start": "green", "goal": (0, 0)}, "found 'green' for the start on a mask"),
        (ROOM, {"start": (0, 0)}, "found 0 openings"),
        (ROOM, {"connectivity": 6}, "found connectivity=6, expected 4 or 8"),
        (ROOM, {"clearance_px": -1}, "expected 0 or more"),
        (ROOM, {"clearance_px": math.nan}, "expected 0 or more"),
        (ROOM, {"method": "dfs"}, "found method='dfs'"),
        (ROOM, {"road": "grey"}, "found road='grey'"),
        (np.ones((2, 2, 5), np.uint8), {}, "shape"),
    ],
)
def test_wrong_input_is_told(mask: NDArray[np.bool_], options: dict[str, object], message: str) -> None:
    with pytest.raises(ImageError, match=message):
        vt.shortest_path(mask, **options)


def test_zeros_and_ones_are_a_mask() -> None:
    assert vt.shortest_path(ROOM.astype(int), start=(0, 0), goal=(3, 2)).road == "mask"
