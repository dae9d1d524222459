import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tests.visual_tools.regions.scenes import load_sample
from visual_tools import Box, ImageError, detect_edges, find_contours, find_polygons


def draw(size: tuple[int, int], *calls: tuple[str, Any, dict[str, Any]], back: str = "white") -> NDArray[np.uint8]:
    """An image, drawn four times as large and made smaller, so that its edges are smooth."""
    picture = Image.new("RGB", (size[0] * 4, size[1] * 4), back)
    for name, where, more in calls:
        points = [(x * 4, y * 4) for x, y in where]
        getattr(ImageDraw.Draw(picture), name)(points, **more)
    return np.array(picture.resize(size, Image.Resampling.BOX))


def ngon(corners: int, x: float, y: float, radius: float, turn: float) -> list[tuple[float, float]]:
    angles = [turn + 2 * math.pi * index / corners for index in range(corners)]
    return [(x + radius * math.cos(angle), y + radius * math.sin(angle)) for angle in angles]


def test_an_edge_runs_where_colour_changes() -> None:
    image = np.full((40, 60, 3), (200, 60, 60), np.uint8)
    image[:, 30:] = (60, 60, 200)  # nearly as light as the left half
    found = detect_edges(image)
    columns = np.flatnonzero(found.mask.any(axis=0))
    assert set(columns.tolist()) <= {29, 30}
    assert found.mask[5:-5].any(axis=1).all()


def test_even_pictures_have_no_edges_and_thresholds_can_be_given() -> None:
    assert detect_edges(np.full((20, 20, 3), 99, np.uint8)).share == 0
    coins = load_sample("coins")
    few, many = detect_edges(coins, high=60).share, detect_edges(coins, low=2, high=6).share
    assert few < detect_edges(coins).share < many
    with pytest.raises(ImageError, match="low <= high"):
        detect_edges(coins, low=50, high=10)


def test_contours_with_their_holes() -> None:
    mask = np.zeros((60, 60), dtype=bool)
    mask[5:45, 5:45] = True
    mask[15:35, 15:35] = False
    mask[22:28, 22:28] = True
    found = find_contours(mask)
    assert [(one.number, one.box_px, one.is_hole, one.parent) for one in found] == [
        (1, Box(5, 5, 45, 45), False, 0),
        (2, Box(14, 14, 36, 36), True, 1),
        (3, Box(22, 22, 28, 28), False, 2),
    ]
    assert found[0].area_px == 1600
    assert repr(found) == "Contours(3, 1 of them holes, largest 1600 px²)"
    assert [one.number for one in find_contours(mask, with_holes=False)] == [1, 2]
    assert repr(find_contours(np.zeros((4, 4), dtype=bool))) == "Contours(0, 0 of them holes)"


@pytest.mark.parametrize("corners", range(3, 9))
@pytest.mark.parametrize("filled", [True, False])
def test_regular_polygons_at_odd_angles(corners: int, filled: bool) -> None:
    names = {3: "triangle", 4: "square", 5: "pentagon", 6: "hexagon", 7: "heptagon", 8: "octagon"}
    points = ngon(corners, 100, 90, 70, 0.3)
    more = {"fill": "navy"} if filled else {"outline": "navy", "width": 12}
    (one,) = find_polygons(draw((200, 180), ("polygon", points, more)))
    assert (one.kind, one.is_convex, one.color) == (names[corners], True, (0, 0, 128))
    assert len(one.corners_px) == corners
    for corner in points:
        assert min(math.dist(corner, found) for found in one.corners_px) < 1.6
    assert one.center_px == pytest.approx((100, 90), abs=1)


@pytest.mark.parametrize(
    ("size", "kind"), [((60, 60), "circle"), ((20, 20), "circle"), ((100, 50), "ellipse"), ((30, 80), "ellipse")]
)
def test_round_shapes(size: tuple[int, int], kind: str) -> None:
    (one,) = find_polygons(draw((140, 120), ("ellipse", [(20, 20), (20 + size[0], 20 + size[1])], {"fill": "red"})))
    assert (one.kind, one.corners_px, one.is_convex) == (kind, (), True)
    assert one.axes_px == pytest.approx(sorted(size, reverse=True), abs=1.5)


def test_other_shapes() -> None:
    star = [
        (80 + r * math.cos(k * math.pi / 5), 80 + r * math.sin(k * math.pi / 5)) for k, r in enumerate([70, 30] * 5)
    ]
    image = draw(
        (420, 180),
        ("polygon", star, {"fill": "goldenrod"}),
        ("polygon", [(180, 30), (270, 50), (260, 150), (170, 120)], {"fill": "teal"}),
        ("rectangle", [(300, 40), (400, 100)], {"fill": "black"}),
    )
    kinds = {one.kind: one for one in find_polygons(image)}
    assert sorted(kinds) == ["10-gon", "quadrilateral", "rectangle"]
    assert not kinds["10-gon"].is_convex
    assert kinds["rectangle"].angle_deg == 0
    horse = find_polygons(~load_sample("horse"))
    assert (horse.kinds, horse[0].corners_px) == ({"other": 1}, ())


def test_a_rectangle_of_the_whole_picture_is_its_frame() -> None:
    image = draw((200, 150), ("rectangle", [(60, 50), (120, 90)], {"fill": "green"}))
    image[[0, -1]] = image[:, [0, -1]] = 0
    assert repr(find_polygons(image)) == "Polygons(1: 1 rectangle)"


def test_one_colour_tells_touching_shapes_apart() -> None:
    image = draw(
        (200, 120),
        ("rectangle", [(20, 20), (100, 100)], {"fill": "red"}),
        ("ellipse", [(80, 30), (160, 110)], {"fill": "blue"}),
    )
    assert find_polygons(image, color="blue").kinds == {"circle": 1}


def test_nothing_and_wrong_input() -> None:
    assert repr(find_polygons(np.full((30, 30, 3), 9, np.uint8))) == "Polygons(0: )"
    with pytest.raises(ImageError, match="at least 1"):
        find_polygons(np.zeros((5, 5), dtype=bool), min_area_px=0)
