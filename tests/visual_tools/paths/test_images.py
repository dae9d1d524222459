"""Mazes as images: all kinds of the benchmark's sweep, and the ends one by one."""

import math
import random
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

import visual_tools as vt
from benchmarks.visual.mazes import judge, make_case, write
from examples import mazes
from visual_tools.box import Box
from visual_tools.errors import ImageError

EXAMPLES = Path(mazes.__file__).parent
KINDS = (
    "dots points openings openings-margin letters ant black-road thin-walls thick-walls one-pixel loops jpeg photo "
    "photo-openings colours round round-photo unsolvable"
).split()
SIZES = {"corridor_px": 20, "wall_px": 4, "margin_px": 30}
BOARD = mazes.Grid(8, 9)
LINKS = mazes.backtrack(BOARD, random.Random(2))
FIRST, LAST = mazes.cell_center((0, 0), **SIZES), mazes.cell_center((7, 8), **SIZES)
PLAIN = mazes.draw_grid(BOARD, LINKS, **SIZES)
OPEN = mazes.draw_grid(BOARD, LINKS, **SIZES, has_openings=True)
NUM_STEPS = vt.shortest_path(PLAIN[..., 0] > 0, start=FIRST, goal=LAST).num_steps


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_maze(kind: str, number: int) -> None:
    assert judge(make_case(kind, random.Random(f"{kind} test {number}"))) == ""


def dotted(color: str, other: str) -> NDArray[np.uint8]:
    return mazes.draw_dot(mazes.draw_dot(PLAIN, FIRST, 8, color), LAST, 8, other)


@pytest.mark.parametrize(
    ("picture", "start", "goal"),
    [
        (PLAIN, FIRST, LAST),
        (PLAIN, np.array(FIRST), [float(value) for value in LAST]),
        (dotted("green", "red"), "green", "red"),
        (dotted("#20c040", "#c02020"), "#20c040", (192, 32, 32)),
        (dotted("#20c040", "#c02020"), "Green", "RED"),
        (dotted("blue", "black"), "blue", LAST),
        (dotted("red", "red"), FIRST, "red"),
        (dotted("gray", "purple"), "gray", "violet"),
        (PLAIN, Box(FIRST[0] - 6, FIRST[1] - 6, FIRST[0] + 7, FIRST[1] + 7), LAST),
    ],
)
def test_ends_of_all_sorts(picture: NDArray[np.uint8], start: object, goal: object) -> None:
    result = vt.shortest_path(picture, start=start, goal=goal)  # type: ignore[arg-type]
    expected = LAST if goal != "red" or start != FIRST else result.goal_px
    assert (result.start_px, result.goal_px) == (FIRST, expected)
    assert result.found
    assert vt.check_path(result.mask, result.points_px, start=FIRST, goal=expected).is_shortest
    assert result.num_steps == NUM_STEPS or expected != LAST


def test_two_dots_of_one_colour_are_start_and_goal() -> None:
    result = vt.shortest_path(
        mazes.draw_dot(mazes.draw_dot(PLAIN, FIRST, 8, "red"), LAST, 6, "red"), start="red", goal="red"
    )
    assert (result.start_px, result.goal_px, result.num_steps) == (FIRST, LAST, NUM_STEPS)


def test_a_point_on_a_wall_moves_to_the_corridor() -> None:
    result = vt.shortest_path(PLAIN, start=(FIRST[0], 31), goal=LAST)
    assert result.start_px == (FIRST[0], 34)
    assert result.found


def test_words_beside_the_openings() -> None:
    picture = write(
        write(np.pad(OPEN, ((30, 30), (60, 60), (0, 0)), constant_values=255), (104, 40), "START", 24),
        (300, 268),
        "END",
        24,
    )
    result = vt.shortest_path(picture, start="start", goal="End")
    assert result.found
    assert result.num_steps > NUM_STEPS  # from the word to the opening, through the maze, to the other word
    x, y = result.points_px.T
    in_margin = (x < 60 + 30) | (x >= picture.shape[1] - 90) | (y < 60) | (y >= picture.shape[0] - 60)
    inside = np.flatnonzero(~in_margin)
    assert not in_margin[inside[0] : inside[-1]].any()


def test_no_way_leads_around_the_maze() -> None:
    links = set(LINKS)
    links.remove(frozenset(mazes.solve(BOARD, LINKS, (0, 0), (7, 8))[3:5]))
    picture = mazes.draw_grid(BOARD, links, **SIZES, has_openings=True)
    for ends in ({}, {"start": FIRST, "goal": LAST}):
        result = vt.shortest_path(picture, **ends)  # type: ignore[arg-type]
        assert not result.found
        assert result.reason.startswith("walls separate start")
    from_outside = vt.shortest_path(picture, start=(FIRST[0], 5), goal=LAST)
    assert not from_outside.found


def test_points_outside_lead_in_through_the_openings() -> None:
    result = vt.shortest_path(OPEN, start=(FIRST[0], 5), goal=(LAST[0], OPEN.shape[0] - 5))
    assert result.found
    assert result.num_steps > NUM_STEPS
    inside = (result.points_px[:, 1] > 34) & (result.points_px[:, 1] < OPEN.shape[0] - 34)
    assert inside.sum() > NUM_STEPS - 40


def with_arrow(picture: NDArray[np.uint8], x: int, y: int) -> NDArray[np.uint8]:
    """An arrow that points down to a place just below it."""
    layer = Image.fromarray(picture)
    draw = ImageDraw.Draw(layer)
    draw.line([(x, y), (x, y + 16)], "black", 3)
    draw.polygon([(x - 5, y + 14), (x + 5, y + 14), (x, y + 22)], "black")
    return np.asarray(layer)


def test_arrows_at_the_openings_are_no_walls() -> None:
    plain = vt.shortest_path(OPEN)
    result = vt.shortest_path(with_arrow(with_arrow(OPEN, FIRST[0], 4), LAST[0], OPEN.shape[0] - 26))
    assert (result.start_px, result.goal_px, result.num_steps) == (plain.start_px, plain.goal_px, plain.num_steps)


def test_a_page_on_a_dark_desk() -> None:
    desk = np.full((OPEN.shape[0] + 160, OPEN.shape[1] + 160, 3), (70, 50, 40), np.uint8)
    desk[80:-80, 80:-80] = OPEN
    result = vt.shortest_path(desk)
    plain = vt.shortest_path(OPEN)
    assert (result.points_px - 80).tolist() == plain.points_px.tolist()


def test_a_page_on_a_desk_that_is_partly_bright() -> None:
    desk = np.full((OPEN.shape[0] + 160, OPEN.shape[1] + 160, 3), (70, 50, 40), np.uint8)
    desk[-50:, -desk.shape[1] // 2 :] = desk[desk.shape[0] // 2 :, -50:] = 235  # a quarter of its edge
    desk[80:-80, 80:-80] = OPEN
    found, plain = vt.shortest_path(desk), vt.shortest_path(OPEN)
    assert (found.start_px, found.num_points) == (tuple(at + 80 for at in plain.start_px), plain.num_points)


@pytest.mark.parametrize("road", ["light", "dark"])
def test_whole_cells_as_ends(road: str) -> None:
    """In a dead end such a cell has more wall than road around it."""
    picture = mazes.draw_grid(BOARD, LINKS, corridor_px=20, wall_px=4)
    picture = picture if road == "light" else 255 - picture
    picture[4:24, 4:24] = (0, 200, 0)
    picture[-24:-4, -24:-4] = (220, 0, 0)
    result = vt.shortest_path(picture, start="green", goal="red")
    assert (result.found, result.road) == (True, road)
    assert abs(result.num_steps - NUM_STEPS) <= 2


def test_the_road_can_be_named() -> None:
    white_walls = 255 - PLAIN
    assert vt.shortest_path(white_walls, start=FIRST, goal=LAST).road == "dark"
    dark = vt.shortest_path(white_walls, start=FIRST, goal=LAST, road="dark")
    assert (dark.road, dark.num_steps) == ("dark", NUM_STEPS)
    assert vt.shortest_path(PLAIN, start=FIRST, goal=LAST, road="light").num_steps == NUM_STEPS


def test_obstacles_are_no_maze() -> None:
    picture = np.full((200, 300, 3), 255, np.uint8)
    picture[50:150, 100:120] = picture[20:90, 200:230] = 0
    result = vt.shortest_path(picture, start=(20, 100), goal=(280, 60), connectivity=8)
    assert (result.found, result.road) == (True, "light")
    assert vt.check_path(
        picture[..., 0] > 0, result.points_px, start=(20, 100), goal=(280, 60), connectivity=8
    ).is_shortest


def test_clearance_moves_the_ends_of_a_picture() -> None:
    result = vt.shortest_path(PLAIN, start=(FIRST[0], 34), goal=LAST, clearance_px=4)
    assert result.found
    assert result.start_px == (FIRST[0], 38)


def test_the_picture_may_be_a_file_or_gray() -> None:
    maze = vt.shortest_path(EXAMPLES / "maze.png", start="green", goal="red")
    assert (maze.start_px, maze.goal_px, maze.num_steps) == ((41, 41), (1201, 1201), 10302)
    ant = vt.shortest_path(str(EXAMPLES / "ant-maze.png"), start="brown", goal="orange", connectivity=8)
    assert (ant.goal_px, ant.found) == ((624, 624), True)
    assert math.dist(ant.start_px, (930, 165)) < 5
    assert vt.shortest_path(PLAIN[..., 0], start=FIRST, goal=LAST).num_steps == NUM_STEPS


@pytest.mark.parametrize(
    ("picture", "options", "message"),
    [
        (PLAIN, {"start": "green", "goal": LAST}, "found nothing 'green' for the start"),
        (dotted("red", "blue"), {"start": "red", "goal": "red"}, "expected a second region"),
        (PLAIN, {}, "found 0 openings"),
        (
            PLAIN,
            {"start": "Kitchen", "goal": LAST},
            "found 0 times 'Kitchen' for the start; the image reads: no writing",
        ),
        (np.full((50, 50, 3), 255, np.uint8), {"start": (1, 1), "goal": (5, 5)}, "one flat colour"),
        (np.zeros((1, 1, 3), np.uint8), {"start": (0, 0), "goal": (0, 0)}, "one flat colour"),
        (PLAIN, {"start": Box(-9, -9, 0, 0), "goal": LAST}, "the start .* lies outside the image"),
    ],
)
def test_what_cannot_be_found_is_told(picture: NDArray[np.uint8], options: dict[str, object], message: str) -> None:
    with pytest.raises(ImageError, match=message):
        vt.shortest_path(picture, **options)  # type: ignore[arg-type]


def draw_corridors(width_px: int, dot_px: int, ink: tuple[int, ...], paper: tuple[int, ...]) -> NDArray[np.uint8]:
    """Corridors as strokes on a page, without walls; a dot at each end, which may be wider than its corridor."""
    image = np.full((400, 500, 3), paper, np.uint8)
    for at in ([(50, 50), (150, 50), (150, 200), (50, 200), (50, 350), (250, 350), (250, 50), (450, 50), (450, 350)],
               [(150, 120), (200, 120), (200, 300)], [(250, 200), (350, 200), (350, 350)]):  # fmt: skip
        cv2.polylines(image, [np.array(at, np.int32)], False, ink, width_px)
    cv2.circle(image, (50, 50), dot_px, (0, 255, 0), -1)
    cv2.circle(image, (450, 350), dot_px, (255, 0, 0), -1)
    return image


@pytest.mark.parametrize("dot_px", [9, 15, 24])
@pytest.mark.parametrize("tones", [((28, 60, 140), (255, 255, 255)), ((250, 250, 250), (20, 30, 40))])
def test_corridors_are_the_road_even_where_dots_are_wider(dot_px: int, tones: tuple[tuple[int, ...], ...]) -> None:
    result = vt.shortest_path(draw_corridors(20, dot_px, *tones))
    assert (result.found, result.road) == (True, "dark" if sum(tones[0]) < sum(tones[1]) else "light")
    assert result.length_px == pytest.approx(1500, rel=0.1)


def test_an_outer_wall_of_strokes_that_do_not_quite_meet_is_a_wall() -> None:
    picture = PLAIN.copy()
    edge = np.flatnonzero((picture[:, picture.shape[1] // 2] < 128).any(axis=1))[0]
    for x in range(SIZES["margin_px"] + 3, picture.shape[1] - SIZES["margin_px"], 24):
        picture[edge : edge + SIZES["wall_px"], x : x + 2] = 255
    result = vt.shortest_path(picture, start=FIRST, goal=LAST)
    assert result.num_steps == NUM_STEPS
    around = result.mask[edge + SIZES["wall_px"] + 3, SIZES["margin_px"] + 10 : -SIZES["margin_px"] - 10]
    assert around.mean() > 0.5
