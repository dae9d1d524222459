import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.visual_tools.images.files import COLOURS, corners, four_colours
from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.views import crop, rotate, zoom

PICTURE = np.random.default_rng(1).integers(0, 256, (30, 50, 3), np.uint8)


def test_crop_is_a_copy_of_the_part() -> None:
    part = crop(PICTURE, Box(5, 10, 25, 13))

    assert np.array_equal(part, PICTURE[10:13, 5:25])
    assert not np.shares_memory(part, PICTURE)
    assert np.array_equal(crop(PICTURE, (4.6, 9.7, 25.2, 13)), part)
    assert np.array_equal(crop(PICTURE, (40, -5, 99, 2)), PICTURE[:2, 40:])


@pytest.mark.parametrize("box", [(10, 10, 10, 20), (20, 5, 10, 9), (50, 0, 60, 9), (-9, -9, 0, 0)])
def test_boxes_without_pixels_are_told(box: tuple[int, int, int, int]) -> None:
    with pytest.raises(ImageError, match="no pixel of an image of 50x30"):
        crop(PICTURE, box)


@pytest.mark.parametrize("box", [(1, 2, 3), (1, 2, 3, float("nan")), "abcd", 7])
def test_boxes_that_are_none(box: tuple[float, ...]) -> None:
    with pytest.raises(ImageError, match=r"expected Box\(left"):
        crop(PICTURE, box)


def test_zoom_says_where_it_is_from() -> None:
    view = zoom(PICTURE, Box(10, 5, 30, 15), scale=4)

    assert (view.image.shape, view.box, view.scale) == ((40, 80, 3), Box(10, 5, 30, 15), 4)
    assert view.to_original(0, 0) == (10, 5)
    assert view.to_original(80, 40) == (30, 15)
    assert repr(view) == "Zoom(box=Box(left=10, top=5, right=30, bottom=15), scale=4)"


def test_zoom_is_as_large_as_allowed() -> None:
    assert zoom(PICTURE, max_side_px=200).image.shape == (120, 200, 3)
    assert zoom(PICTURE, max_side_px=25).image.shape == (15, 25, 3)
    assert zoom(PICTURE[:1, :1]).image.shape == (64, 64, 3)
    assert np.array_equal(zoom(PICTURE, scale=1).image, PICTURE)
    assert zoom(np.zeros((1, 3000, 3), np.uint8), max_side_px=1000).image.shape == (1, 1000, 3)


def test_zoom_is_sharp() -> None:
    """A hard edge stays within a pixel of the original."""
    step = np.zeros((20, 20, 3), np.uint8)
    step[:, 10:] = 255
    row = zoom(step, scale=10).image[100, :, 0]

    assert row[:94].max() < 30 and row[106:].min() > 225


@pytest.mark.parametrize(
    ("scale", "told"), [(0, "above 0"), (-1, "above 0"), (float("nan"), "above 0"), (9, "at most 2")]
)
def test_zoom_refuses_scales(scale: float, told: str) -> None:
    with pytest.raises(ImageError, match=told):
        zoom(PICTURE, scale=scale, max_side_px=100)


@given(
    left=st.integers(0, 40), top=st.integers(0, 20), width=st.integers(1, 60), height=st.integers(1, 60),
    side_px=st.integers(1, 300),
)  # fmt: skip
def test_corners_of_a_zoom_are_those_of_its_box(left: int, top: int, width: int, height: int, side_px: int) -> None:
    view = zoom(PICTURE, (left, top, left + width, top + height), max_side_px=side_px)

    assert view.to_original(0, 0) == (view.box.left, view.box.top)
    assert view.to_original(view.image.shape[1], view.image.shape[0]) == (view.box.right, view.box.bottom)


@pytest.mark.parametrize(
    ("degrees", "order"),
    [(0, (0, 1, 2, 3)), (90, (1, 3, 0, 2)), (180, (3, 2, 1, 0)), (-90, (2, 0, 3, 1)), (450, (1, 3, 0, 2))],
)
def test_quarter_turns_are_exact_and_counterclockwise(degrees: float, order: tuple[int, ...]) -> None:
    assert corners(rotate(four_colours(), degrees)) == [COLOURS[index] for index in order]


def test_four_quarter_turns_are_none() -> None:
    turned = PICTURE
    for _ in range(4):
        turned = rotate(turned, 90)

    assert np.array_equal(turned, PICTURE)
    assert rotate(PICTURE, 90).shape == (50, 30, 3)


def test_other_angles_expand_onto_white() -> None:
    black = np.zeros((100, 200, 3), np.uint8)

    turned = rotate(black, 30)

    assert abs(turned.shape[1] - (200 * np.cos(np.pi / 6) + 100 * 0.5)) <= 2
    assert corners(turned) == [(255, 255, 255)] * 4
    assert turned[turned.shape[0] // 2, turned.shape[1] // 2].tolist() == [0, 0, 0]
    assert rotate(black, 30, expand=False).shape == rotate(black, 90, expand=False).shape == black.shape
    with pytest.raises(ImageError, match="angle of nan"):
        rotate(black, float("nan"))
