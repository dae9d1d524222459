"""A maze without openings is solved between its two coloured things."""

from pathlib import Path

import numpy as np
import pytest

from visual_tools.errors import ImageError
from visual_tools.paths.shortest import shortest_path

EXAMPLES = Path(__file__).parents[3] / "examples"
GREEN, RED, BLUE, PURPLE = (0, 160, 60), (220, 30, 30), (30, 60, 220), (140, 40, 160)


def closed_room(*dots: tuple[tuple[int, int], tuple[int, int, int]]) -> np.ndarray:
    """A framed room with a wall from the top to near the bottom, and dots of 8 px."""
    image = np.full((100, 120, 3), 255, np.uint8)
    image[:4] = image[-4:] = image[:, :4] = image[:, -4:] = 0
    image[:80, 58:62] = 0
    for (x, y), color in dots:
        image[y - 4 : y + 4, x - 4 : x + 4] = color
    return image


@pytest.mark.long
def test_the_example_needs_no_ends() -> None:
    path = shortest_path(EXAMPLES / "maze.png")
    named = shortest_path(EXAMPLES / "maze.png", start="green", goal="red")
    assert path.found
    assert (path.start_px, path.goal_px, path.num_points) == (named.start_px, named.goal_px, named.num_points)


@pytest.mark.parametrize(
    ("left", "right", "starts_left"),
    [(GREEN, RED, True), (RED, GREEN, False), (BLUE, PURPLE, True), (RED, BLUE, False), (BLUE, BLUE, True)],
)
def test_green_is_the_start_and_red_the_goal(
    left: tuple[int, int, int], right: tuple[int, int, int], starts_left: bool
) -> None:
    path = shortest_path(closed_room(((30, 20), left), ((90, 20), right)))
    assert path.found
    assert (path.start_px[0] < path.goal_px[0]) is starts_left


@pytest.mark.parametrize("dots", [(), (((30, 20), RED),), (((30, 20), RED), ((90, 20), GREEN), ((90, 60), BLUE))])
def test_one_or_three_things_say_nothing(dots: tuple[tuple[tuple[int, int], tuple[int, int, int]], ...]) -> None:
    with pytest.raises(ImageError, match="openings"):
        shortest_path(closed_room(*dots))
