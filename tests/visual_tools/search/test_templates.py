from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tests.visual_tools.drawing import Canvas
from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.views import crop
from visual_tools.search.templates import match_template


def draw_icon(size: int = 24, colour: str = "navy", ground: Any = "white", mode: str = "RGB") -> Image.Image:
    """A flag on a pole, drawn large and reduced."""
    large = Image.new(mode, (240, 240), ground)
    draw = ImageDraw.Draw(large)
    draw.rectangle((50, 20, 75, 225), fill=colour)
    draw.polygon([(75, 25), (210, 70), (75, 120)], fill=colour)
    return large.resize((size, size), Image.Resampling.LANCZOS)


def scene(*icons: tuple[int, int, int, str], size: tuple[int, int] = (400, 300)) -> NDArray[np.uint8]:
    canvas = Canvas(*size).text(20, 250, "Some text here", size=20).box(300, 30, 380, 120, fill="orange")
    for left, top, side, colour in icons:
        canvas.picture.paste(draw_icon(side, colour), (left, top))
    return canvas.array


def near(box: Box, left: int, top: int, side: int, slack_px: int = 2) -> bool:
    return max(abs(box.left - left), abs(box.top - top), abs(box.right - left - side)) <= slack_px


def test_the_same_picture_is_found_to_the_pixel() -> None:
    image = scene((31, 47, 24, "navy"), (200, 180, 24, "navy"))

    found = match_template(image, draw_icon())

    assert sorted(match.box for match in found) == [Box(31, 47, 55, 71), Box(200, 180, 224, 204)]
    assert all(match.score > 0.999 and match.scale == 1.0 for match in found)
    assert len(repr(found)) < 400


@pytest.mark.parametrize("side", [13, 17, 20, 27, 33, 40, 47])
def test_other_sizes_are_found(side: int) -> None:
    found = match_template(scene((100, 60, side, "navy")), draw_icon())

    assert len(found) == 1
    assert near(found[0].box, 100, 60, side) and found[0].scale == pytest.approx(side / 24, rel=0.08)


def test_of_places_that_overlap_the_best_is_kept_and_others_are_told_apart() -> None:
    places = [(20 + 26 * column, 40 + 26 * row, 24, "navy") for column in range(8) for row in range(4)]

    found = match_template(scene(*places), draw_icon(), scales=[1])

    assert sorted((match.box.left, match.box.top) for match in found) == sorted(place[:2] for place in places)
    assert len(match_template(scene(*places), draw_icon(), max_matches=5)) == 5


def test_another_colour_is_another_thing() -> None:
    image = scene((50, 50, 24, "red"))

    found = match_template(image, draw_icon())

    assert len(found) == 0 and 0.2 < found.best_score < 0.8
    assert len(match_template(image, draw_icon(colour="red"))) == 1


def test_noise_and_light_are_forgiven() -> None:
    rng = np.random.default_rng(0)
    image = scene((150, 90, 24, "navy")).astype(float) * 0.9 + rng.normal(0, 8, (300, 400, 3))

    found = match_template(np.clip(image, 0, 255).astype(np.uint8), draw_icon())

    assert len(found) == 1 and near(found[0].box, 150, 90, 24, 1)


def test_transparent_parts_are_not_compared() -> None:
    image = scene()
    ground = np.random.default_rng(3).integers(0, 256, (300, 400, 3), np.uint8)
    picture = Image.fromarray(np.where(np.arange(400)[None, :, None] < 200, ground, image))
    icon = draw_icon(36, "lime", (0, 0, 0, 0), "RGBA")
    ImageDraw.Draw(icon).line((13, 10, 22, 11), fill="black")
    picture.paste(icon, (60, 80), icon)
    clear = np.asarray(icon).copy()
    clear[:, :, 3] = (clear[:, :, 3] == 255) * 255

    found = match_template(picture, clear, scales=[1])

    assert len(found) == 1 and found[0].box == Box(60, 80, 96, 116)
    assert len(match_template(picture, clear[:, :, :3], scales=[1])) == 0


def test_a_large_picture() -> None:
    image = scene((2800, 2000, 60, "navy"), (77, 1501, 90, "navy"), size=(3200, 2400))

    found = match_template(image, draw_icon(60), scales=[0.8, 1, 1.5])

    assert sorted(match.box.left for match in found) == [pytest.approx(77, abs=2), 2800]


def test_nothing_is_an_empty_result() -> None:
    blank = match_template(np.full((50, 50, 3), 9, np.uint8), draw_icon())

    assert (len(blank), blank.best_score) == (0, 0.0)


@pytest.mark.parametrize(
    ("template", "scales", "told"),
    [
        (np.full((9, 9, 3), 7, np.uint8), [1], "one colour"),
        (np.zeros((1, 1, 3), np.uint8), [1], "one colour"),
        (np.zeros((9, 9, 4), np.uint8), [1], "one colour"),
        (draw_icon(500), [1], "swapped"),
        (draw_icon(), [], "above 0"),
        (draw_icon(), [0], "above 0"),
        (draw_icon(), [float("nan")], "above 0"),
        (np.zeros((0, 9, 3), np.uint8), [1], "empty"),
    ],
)
def test_templates_that_cannot_be_searched(template: Any, scales: list[float], told: str) -> None:
    with pytest.raises(ImageError, match=told):
        match_template(scene(), template, scales=scales)


def test_a_part_of_a_picture_is_found_where_it_was_cut() -> None:
    image = np.random.default_rng(5).integers(0, 256, (90, 120, 3), np.uint8)
    for box in (Box(0, 0, 10, 12), Box(110, 80, 120, 90), Box(37, 41, 79, 60), Box(0, 0, 120, 90)):
        assert match_template(image, crop(image, box), scales=[1])[0].box == box
