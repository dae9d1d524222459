"""Edges to parts of a pixel, areas that touch, and bars with writing across."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tables import table
from visual_tools.box import Box
from visual_tools.colors.areas import find_edge_shift, unmix
from visual_tools.colors.measure import color_share

RGB = tuple[int, int, int]

WHITE, GRAY, BLACK = (255, 255, 255), (127, 127, 127), (0, 0, 0)
BLUE, ORANGE, GREEN = (31, 119, 180), (255, 127, 14), (44, 160, 44)
HALF_GREEN = (150, 208, 150)


def cover(picture: NDArray[np.float64], color: RGB, part: NDArray[np.float64]) -> None:
    """Paint a colour over an image that covers a part of each pixel, as renderers do."""
    picture += np.clip(part, 0, 1)[..., None] * (np.array(color) - picture)


def test_parts_of_three_colors() -> None:
    first, second, third = np.float32(ORANGE), np.float32(BLUE), np.float32(WHITE)
    own = np.stack([first, 0.25 * first + 0.75 * second, 0.5 * first + 0.25 * second + 0.25 * third])
    parts, beside = unmix(own, first, second, third)
    assert parts.T.tolist() == [pytest.approx(row, abs=0.01) for row in ([1, 0, 0], [0.25, 0.75, 0], [0.5, 0.25, 0.25])]
    assert beside == pytest.approx(np.zeros(3), abs=1.5)


def test_a_color_that_is_no_mixture() -> None:
    blue, white = np.float32(BLUE), np.float32(WHITE)
    parts, beside = unmix(np.float32([BLACK]), blue, white, white)
    assert parts[:, 0] == pytest.approx([1.49, -0.49, 0], abs=0.01)
    assert beside[0] > 100


@table(
    ("inside", "outside", "expected"),
    [
        ([], [WHITE], 0.0),
        ([], [HALF_GREEN, WHITE], 0.5),
        ([HALF_GREEN], [WHITE], -0.5),
        ([], [BLACK, WHITE], 0.5),
        ([], [WHITE, BLACK], 0.5),
        ([BLACK, BLACK], [BLACK, BLACK, BLUE], 0.0),
        ([GRAY, GREEN, GREEN, GREEN, GREEN], [BLUE], 0.0),
        ([GREEN, WHITE, WHITE, WHITE], [WHITE], -3.0),
    ],
)
@table("side", ["top", "bottom", "left", "right"])
def test_where_the_color_in_a_box_ends(side: str, inside: list[RGB], outside: list[RGB], expected: float) -> None:
    image = np.full((60, 60, 3), outside[-1], np.uint8)
    image[20:40, 20:40] = GREEN
    for row, color in enumerate(inside + outside[:-1]):
        image[40 - len(inside) + row, 20:40] = color
    turns = ["bottom", "right", "top", "left"].index(side)
    found = find_edge_shift(np.rot90(image, turns), Box(20, 20, 40, 40), side, np.array(GREEN, np.uint8))
    assert found == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize("colors", [(GRAY, GREEN), (GREEN, GRAY), (ORANGE, BLUE)])
def test_the_ground_between_touching_areas_moves_no_edge(colors: tuple[RGB, RGB]) -> None:
    """Slanted stripes, drawn one after the other: at each edge some of the white ground shows through."""
    rows, columns = np.mgrid[0:200, 0:300]
    ends = 20.0 + 16 * np.arange(11)
    picture = np.full((200, 300, 3), 255.0)
    for index, (start, end) in enumerate(itertools.pairwise(ends)):
        place = rows - 0.05 * columns
        part = np.clip(place + 1 - start, 0, 1) - np.clip(place + 1 - end, 0, 1)
        cover(picture, colors[index % 2], part * ((columns >= 20) & (columns < 280)))
    found = color_share(picture.round().astype(np.uint8), kind="area", read_labels=False)
    assert {share.color_rgb: share.share for share in found.shares} == pytest.approx(
        dict.fromkeys(colors, 0.5), abs=0.004
    )


@pytest.mark.parametrize("is_upright", [False, True])
def test_a_bar_with_writing_across_is_one_bar(is_upright: bool) -> None:
    """Half of the writing is nearer to the bars above and below than to what is left of its own."""
    image = np.full((120, 240, 3), 255, np.uint8)
    for top, end, color in ((20, 220, BLUE), (31, 180, ORANGE), (42, 120, GREEN)):
        image[top : top + 10, 20:end] = color
    image[31:41, 84:104] = np.random.default_rng(0).integers(20, 120, (10, 20, 3))
    image = image.transpose(1, 0, 2)[::-1] if is_upright else image
    found = color_share(image, read_labels=False)
    assert found.kind == "bars"
    assert {share.color_rgb: (share.share, len(share.pieces)) for share in found.shares} == {
        BLUE: (pytest.approx(200 / 460, abs=0.004), 1),
        ORANGE: (pytest.approx(160 / 460, abs=0.004), 1),
        GREEN: (pytest.approx(100 / 460, abs=0.004), 1),
    }
