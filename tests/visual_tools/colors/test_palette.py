"""The pixels of one colour, and the words for colours."""

import numpy as np
import pytest

from visual_tools.box import Box
from visual_tools.colors.palette import color_mask
from visual_tools.colors.words import color_name, parse_color
from visual_tools.errors import ImageError

STRIPES = ["#ff0000", "#d62728", "#8b0000", "#1f77b4", "#aec7e8", "#00ff00", "#ffffff", "#7f7f7f"]


def stripes() -> np.ndarray:
    return np.array([[parse_color(color) for color in STRIPES]] * 4, np.uint8).repeat(5, axis=1)


@pytest.mark.parametrize(
    ("color", "expected"),
    [("red", [0, 1, 2]), ("dark red", [2]), ("blue", [3, 4]), ("light blue", [4]), ("grey", [7]), ("yellow", [])],
)
def test_a_word_takes_what_a_person_would_call_so(color: str, expected: list[int]) -> None:
    found = color_mask(stripes(), color)
    assert np.array_equal(found.mask, np.isin(np.arange(40) // 5, expected)[None].repeat(4, axis=0))


@pytest.mark.parametrize("color", ["#1f77b4", "rgb(31, 119, 180)", (31, 119, 180), np.array([31, 119, 180])])
def test_a_definite_color_takes_what_is_close(color: object) -> None:
    found = color_mask(stripes(), color)  # type: ignore[arg-type]
    assert (found.color_rgb, found.color_name, found.area_px, found.share, found.box_px) == (
        (31, 119, 180),
        "blue",
        20,
        0.125,
        Box(15, 0, 20, 4),
    )


def test_tolerance() -> None:
    assert [color_mask(stripes(), "#ff0000", tolerance=reach).area_px for reach in (3, 30, 1000)] == [20, 40, 160]


def test_nothing_found() -> None:
    found = color_mask(stripes(), "purple")
    assert (found.area_px, found.share, found.box_px, found.color_rgb) == (0, 0.0, None, (128, 0, 128))
    assert repr(found).startswith("ColorMask(color_rgb=(128, 0, 128), color_name='purple', area_px=0")


@pytest.mark.parametrize("color", ["blurple", "#12", (1, 2), (300, 0, 0)])
def test_no_color(color: object) -> None:
    with pytest.raises(ImageError, match="expected"):
        color_mask(stripes(), color)  # type: ignore[arg-type]


def test_a_negative_tolerance() -> None:
    with pytest.raises(ImageError, match="tolerance=-1"):
        color_mask(stripes(), "red", tolerance=-1)


@pytest.mark.parametrize(
    ("color", "name"),
    [("#ff0000", "red"), ("#1f77b4", "blue"), ("#ff7f0e", "orange"), ("#2ca02c", "green"), ("#8c564b", "brown")],
)
def test_names(color: str, name: str) -> None:
    assert color_name(parse_color(color)) == name
