"""The image of a way: the line stays in the corridors it runs through."""

import random

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import visual_tools as vt
from examples import mazes
from visual_tools.errors import ImageError
from visual_tools.paths.check import LINE_COLOR
from visual_tools.paths.search import PathResult

SIZES = {"corridor_px": 24, "wall_px": 1, "margin_px": 10}
BOARD = mazes.Grid(6, 7)
PICTURE = mazes.draw_grid(BOARD, mazes.wilson(BOARD, random.Random(4)), **SIZES)
START, GOAL = mazes.cell_center((0, 0), **SIZES), mazes.cell_center((5, 6), **SIZES)


def reddish(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    levels = picture.astype(int)
    return (levels[..., 0] - levels[..., 1] > 60) & (levels[..., 0] - levels[..., 2] > 60)


def solved(**options: object) -> PathResult:
    return vt.shortest_path(PICTURE, start=START, goal=GOAL, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"connectivity": 8}, {"connectivity": 8, "method": "centered"}])
def test_the_line_lies_on_the_way_and_leaks_through_no_wall(options: dict[str, object]) -> None:
    before, result = PICTURE.copy(), solved(**options)
    drawn = vt.draw_path(PICTURE, result)
    assert np.array_equal(PICTURE, before)
    far = np.hypot(result.points_px[:, 0] - START[0], result.points_px[:, 1] - START[1]) > 15
    far &= np.hypot(result.points_px[:, 0] - GOAL[0], result.points_px[:, 1] - GOAL[1]) > 15
    columns, rows = result.points_px[far].T
    assert (drawn[rows, columns] == LINE_COLOR).all()
    assert not reddish(drawn)[~result.mask].any()
    near = np.zeros(result.mask.shape, bool)
    near[result.points_px[:, 1], result.points_px[:, 0]] = True
    for _ in range(9):  # steps away from the way, walls in between counted
        near = cv2.dilate(near.view(np.uint8), np.ones((3, 3), np.uint8)).astype(bool) & result.mask
    near[GOAL[1] - 12 : GOAL[1] + 13, GOAL[0] - 12 : GOAL[0] + 13] = True  # its mark
    assert np.argwhere(reddish(drawn) & ~near).tolist() == []
    assert np.count_nonzero(reddish(drawn)) > 4 * result.num_points


def test_corridors_of_one_pixel() -> None:
    free = mazes.draw_grid(BOARD, mazes.prim(BOARD, random.Random(0)), corridor_px=1, wall_px=1)[..., 0] > 0
    result = vt.shortest_path(free, start=(1, 1), goal=(13, 11))
    drawn = vt.draw_path(free, result)
    expected = np.where(free[..., None], np.uint8(255), np.uint8(0)).repeat(3, axis=2)
    columns, rows = result.points_px[1:-1].T
    expected[rows, columns] = LINE_COLOR
    assert np.array_equal(
        np.delete(drawn.reshape(-1, 3), [16, 178], axis=0), np.delete(expected.reshape(-1, 3), [16, 178], axis=0)
    )


def test_without_a_way_only_the_ends_are_marked() -> None:
    picture = PICTURE.copy()
    picture[80:83] = 0
    drawn = vt.draw_path(picture, vt.shortest_path(picture, start=START, goal=GOAL))
    changed = np.argwhere((drawn != picture).any(axis=2))[:, ::-1]
    near = np.minimum(np.hypot(*(changed - START).T), np.hypot(*(changed - GOAL).T))
    assert len(changed) > 100
    assert near.max() < 15


def test_another_size_is_told() -> None:
    with pytest.raises(ImageError, match="expected the size of the searched image, 196 x 171"):
        vt.draw_path(PICTURE[:-1], solved())
