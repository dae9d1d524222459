import time
from typing import Any

import numpy as np
import pytest
from PIL import ImageColor

from tests.tables import table
from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.marks import BoxMark, PathMark, PointMark, TextMark, annotate, choose_step_px, overlay_grid
from visual_tools.ocr import read_text

WHITE = np.full((120, 200, 3), 255, np.uint8)
RED = (255, 0, 0)


def has_color(image: np.ndarray[Any, Any], color: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    return np.asarray((image == color).all(axis=2))


def extent(mask: np.ndarray[Any, Any]) -> Box:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def test_a_box_is_drawn_on_its_own_border() -> None:
    image = annotate(WHITE, BoxMark(box=Box(20, 30, 80, 90)))

    assert extent(has_color(image, RED)) == Box(19, 29, 81, 91)
    assert not has_color(image, RED)[35:85, 25:75].any()
    assert (WHITE == 255).all()


def test_a_path_goes_through_its_points() -> None:
    points = [(10, 10), (10, 100), (150, 100)]
    mask = has_color(annotate(WHITE, PathMark(points=points, color="#0000ff", width_px=1)), (0, 0, 255))

    expected = np.zeros_like(mask)
    expected[10:101, 10] = expected[100, 10:151] = True
    assert np.array_equal(mask, expected)
    closed = annotate(WHITE, PathMark(points=points, is_closed=True, width_px=1))
    assert has_color(closed, RED).sum() > expected.sum() + 80
    assert has_color(annotate(WHITE, PathMark(points=[(5, 6)], width_px=1)), RED)[6, 5]


def test_a_point_is_ringed() -> None:
    image = annotate(WHITE, PointMark(x_px=60, y_px=50, color=(0, 128, 0)))

    mask = has_color(image, (0, 128, 0))
    around = extent(mask)
    assert mask[50, 60] and abs(around.center[0] - 60.5) <= 1 and abs(around.center[1] - 50.5) <= 1
    assert 9 <= around.width <= 31


@pytest.mark.parametrize("ground", [0, 128, 255])
@pytest.mark.parametrize("color", ["red", "yellow", "black", "white", "navy"])
def test_labels_can_be_read_on_any_ground(ground: int, color: str) -> None:
    image = annotate(
        np.full((200, 400, 3), ground, np.uint8), TextMark(x_px=100, y_px=100, text="Label 42", color=color)
    )

    assert [line.text for line in read_text(image)] == ["Label 42"]


def test_labels_stay_inside() -> None:
    marks = [
        BoxMark(box=(150, 0, 400, 40), label="upper right", color="blue"),
        PointMark(x_px=-50, y_px=500, label="lower left", color="green"),
    ]
    image = annotate(np.full((300, 400, 3), 255, np.uint8), marks)

    assert sorted(line.text for line in read_text(image)) == ["lower left", "upper right"]


@table(
    "mark",
    [
        BoxMark(box=(-500, -500, 900, 900)),
        BoxMark(box=(30, 30, 30, 30)),
        BoxMark(box=(50, 50, 20, 20)),
        PointMark(x_px=1e12, y_px=-1e12, label="far"),
        PathMark(points=[(-1e9, 5), (1e9, 5)]),
        TextMark(x_px=9e9, y_px=0, text="far\nand wide " * 20),
        TextMark(x_px=0, y_px=0, text=""),
    ],
)
@table("shape", [(120, 200), (1, 1), (1, 300), (300, 1)])
def test_what_lies_outside_is_cut(mark: Any, shape: tuple[int, int]) -> None:
    image = annotate(np.full((*shape, 3), 255, np.uint8), [mark])

    assert image.shape == (*shape, 3) and image.dtype == np.uint8


def test_every_colour_that_css_knows_is_known() -> None:
    for name in ImageColor.colormap:
        annotate(WHITE[:4, :4], PointMark(x_px=1, y_px=1, color=name))


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        (PointMark(x_px=1, y_px=1, color="gren"), "near are .*green"),
        (PointMark(x_px=1, y_px=1, color=(1, 2)), "red, green and blue"),
        (PointMark(x_px=1, y_px=1, color=(1, 2, 300)), "from 0 to 255"),
        (PointMark(x_px=float("nan"), y_px=1), "not a finite number"),
        (TextMark(x_px=float("inf"), y_px=1, text="a"), "expected pixels"),
        (PathMark(points=[]), "shape"),
        (PathMark(points=[1, 2, 3]), "shape"),  # type: ignore[list-item]
        (BoxMark(box=(1, 2)), "expected Box"),
        ("text", "expected PointMark"),
    ],
)
def test_wrong_marks_are_told(mark: Any, told: str) -> None:
    with pytest.raises(ImageError, match=told):
        annotate(WHITE, [mark])


def test_a_path_of_tens_of_thousands_of_points_is_quick() -> None:
    steps = np.random.default_rng(0).integers(-1, 2, (80_000, 2))
    image = np.full((2000, 2000, 3), 255, np.uint8)

    started = time.process_time()
    annotate(image, PathMark(points=1000 + np.cumsum(steps, axis=0)))

    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("size", "step"), [((1, 1), 5), ((50, 50), 5), ((640, 480), 100), ((1280, 720), 200), ((4000, 3000), 500)]
)
def test_step_of_the_grid_is_a_round_number(size: tuple[int, int], step: int) -> None:
    assert choose_step_px(*size) == step


@pytest.mark.parametrize("ground", [0, 90, 128, 255])
def test_grid_lines_and_labels_are_seen_on_any_ground(ground: int) -> None:
    plain = np.full((400, 600, 3), ground, np.uint8)

    image = overlay_grid(plain, 100)

    changed = (np.abs(image.astype(int) - ground) > 40).any(axis=2)
    assert [x for x in range(600) if changed[30:90, x].sum() > 20 and x > 40] == [100, 200, 300, 400, 500]
    assert [y for y in range(400) if changed[y, 110:190].sum() > 30 and y > 20] == [100, 200, 300]
    texts = {word for line in read_text(image) for word, _ in line.words}
    assert texts >= {"100", "200", "300", "400", "500"}


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (7, 9)])
def test_small_pictures_have_grids_too(shape: tuple[int, int]) -> None:
    assert overlay_grid(np.zeros((*shape, 3), np.uint8)).shape == (*shape, 3)


def test_a_step_below_two_is_told() -> None:
    with pytest.raises(ImageError, match="step_px=1"):
        overlay_grid(WHITE, 1)
