"""Images drawn by hand: pure colours, odd shapes, photographs, wrong input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from visual_tools.box import Box
from visual_tools.colors.measure import color_share
from visual_tools.colors.shares import Piece, Share, draw_share
from visual_tools.errors import ImageError
from visual_tools.images.files import load_image

RED, GREEN, BLUE = (255, 0, 0), (0, 128, 0), (0, 0, 255)


def draw_pie(parts: dict[Any, float], *, start: float = 0, outline: str | None = None, size: int = 400) -> Image.Image:
    picture = Image.new("RGB", (size, size), "white")
    draw = ImageDraw.Draw(picture)
    for color, part in parts.items():
        end = start + 360 * part
        draw.pieslice((20, 20, size - 20, size - 20), start, end, fill=color, outline=outline, width=3)
        start = end
    return picture


@pytest.mark.parametrize("outline", [None, "black", "white"])
@pytest.mark.parametrize("start", [0, 77])
def test_a_pie_of_pure_colors(outline: str | None, start: float) -> None:
    found = color_share(np.asarray(draw_pie({RED: 0.459, GREEN: 0.307, BLUE: 0.234}, start=start, outline=outline)))
    assert [share.color_rgb for share in found.shares] == [RED, GREEN, BLUE]
    assert [share.share for share in found.shares] == pytest.approx([0.459, 0.307, 0.234], abs=0.002)
    assert found.background_rgb == (255, 255, 255)


def test_the_short_text() -> None:
    found = color_share(np.asarray(draw_pie({RED: 0.459, GREEN: 0.307, BLUE: 0.234})))
    assert repr(found) == "<red 45.9 %, green 30.7 %, blue 23.4 %; pie, by the angles of its sectors>"


def test_two_sectors_of_one_color_are_one_share_of_two_pieces() -> None:
    picture = draw_pie({RED: 0.3, GREEN: 0.25})
    ImageDraw.Draw(picture).pieslice((20, 20, 380, 380), 198, 234, fill=RED)
    ImageDraw.Draw(picture).pieslice((20, 20, 380, 380), 234, 360, fill=BLUE)
    found = color_share(np.asarray(picture))
    assert {share.color_name: round(share.share, 2) for share in found.shares} == {
        "red": 0.4,
        "blue": 0.35,
        "green": 0.25,
    }
    assert [round(piece.share, 2) for piece in found.shares[0].pieces] == [0.3, 0.1]


def test_whole_result_of_two_boxes() -> None:
    image = np.full((60, 100, 3), 255, np.uint8)
    image[10:40, 10:40], image[10:40, 60:80] = RED, BLUE
    found = color_share(image, kind="area")
    boxes = Box(10, 10, 40, 40), Box(60, 10, 80, 40)
    assert [share.share for share in found.shares] == pytest.approx([0.6, 0.4])
    assert found.shares[1] == Share(
        color_rgb=BLUE,
        color_name="blue",
        share=0.4,
        area_px=600,
        label=None,
        box_px=boxes[1],
        center_px=found.shares[1].center_px,
        pieces=(Piece(share=0.4, area_px=600, box_px=boxes[1], center_px=found.shares[1].center_px),),
    )
    assert boxes[1].padded(-5).has_point(*found.shares[1].center_px)
    expected = np.full((60, 100), -1)
    expected[10:40, 10:40], expected[10:40, 60:80] = 0, 1
    assert np.array_equal(found.labels, expected)


def test_a_box_and_a_background() -> None:
    image = np.full((90, 200, 3), 255, np.uint8)
    image[:, 100:] = GREEN
    image[20:50, 120:150], image[20:50, 160:180] = RED, BLUE
    inside = color_share(image, box=Box(100, 0, 200, 90), background="green", kind="area")
    assert {share.color_name: share.share for share in inside.shares} == pytest.approx({"red": 0.6, "blue": 0.4})
    assert inside.shares[0].box_px == Box(120, 20, 150, 50)
    everything = color_share(image, background="none", kind="area")
    assert {share.color_name: share.share for share in everything.shares} == pytest.approx(
        {"white": 0.5, "green": 0.5 - 1500 / 18000, "red": 900 / 18000, "blue": 600 / 18000}
    )


def test_asked_for_fewer_colors_the_most_alike_are_joined() -> None:
    found = color_share(np.asarray(draw_pie({"#1f77b4": 0.3, "#5fa6d6": 0.3, RED: 0.4})), num_colors=2)
    assert {share.color_name: round(share.share, 2) for share in found.shares} == {"blue": 0.6, "red": 0.4}


def test_a_photograph_has_main_colors() -> None:
    rng = np.random.default_rng(5)
    sky = np.linspace((70, 130, 220), (150, 190, 240), 90)[:, None]
    grass = np.linspace((60, 120, 40), (30, 80, 25), 60)[:, None]
    image = np.concatenate([sky, grass]).repeat(200, axis=1) + rng.normal(0, 7, (150, 200, 3))
    found = color_share(np.clip(image, 0, 255).astype(np.uint8), num_colors=2)
    assert [(share.color_name, round(share.share, 2)) for share in found.shares] == [
        ("blue", 0.6),
        ("dark green", 0.4),
    ]
    assert found.method.startswith("main colours")
    assert sum(share.share for share in color_share(np.clip(image, 0, 255).astype(np.uint8)).shares) == pytest.approx(1)


def test_a_large_picture_is_measured_on_a_smaller_copy() -> None:
    picture = draw_pie({RED: 0.459, GREEN: 0.307, BLUE: 0.234}, size=2400)
    found = color_share(np.asarray(picture), read_labels=False)
    assert [share.share for share in found.shares] == pytest.approx([0.459, 0.307, 0.234], abs=0.001)
    assert found.labels.shape == (2400, 2400)
    assert sum(share.area_px for share in found.shares) == pytest.approx(np.pi * 1180**2, rel=0.005)


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 2, 3), (1, 40, 3), (37, 2, 3)])
def test_tiny_pictures(shape: tuple[int, int, int]) -> None:
    image = np.full(shape, 128, np.uint8)
    found = color_share(image)
    assert [(share.color_name, share.share, share.area_px) for share in found.shares] == [
        ("gray", 1.0, shape[0] * shape[1])
    ]
    assert draw_share(image, found).shape[1] == shape[1]


@pytest.mark.parametrize(
    ("image", "more", "text"),
    [
        (np.zeros((0, 5, 3), np.uint8), {}, "expected an image"),
        (np.zeros((5, 5, 2), np.uint8), {}, r"\(5, 5, 2\)"),
        ("no-such-pie.png", {}, "there is no file no-such-pie.png"),
        (np.zeros((5, 5, 3), np.uint8), {"kind": "donut"}, "'bars'"),
        (np.zeros((5, 5, 3), np.uint8), {"num_colors": 0}, "num_colors=0"),
        (np.zeros((5, 5, 3), np.uint8), {"box": Box(9, 9, 12, 12)}, "not on this image"),
        (np.zeros((5, 5, 3), np.uint8), {"background": "blurple"}, "'blurple'"),
        (np.full((50, 50, 3), 255, np.uint8), {"kind": "pie"}, "no pie"),
        (np.full((50, 50, 3), 255, np.uint8), {"kind": "bars"}, "no bar"),
    ],
)
def test_wrong_input(image: Any, more: dict[str, Any], text: str) -> None:
    with pytest.raises(ImageError, match=text):
        color_share(image, **more)


def test_the_drawing_shows_what_counts_and_adds_a_bar() -> None:
    image = np.asarray(draw_pie({RED: 0.5, GREEN: 0.3, BLUE: 0.2}))
    found = color_share(image)
    drawn = draw_share(image, found)
    assert drawn.shape == (400 + 3 * 14, 400, 3)
    bar = drawn[400 + 6, :]
    widths: dict[str, NDArray[np.bool_]] = {
        share.color_name: (bar == share.color_rgb).all(axis=1) for share in found.shares
    }
    assert [round(width.sum() / 390, 1) for width in widths.values()] == [0.5, 0.3, 0.2]
    with pytest.raises(ImageError, match="draw on the image that was measured"):
        draw_share(image[:50], found)


def test_a_file_is_taken_as_well_as_an_array() -> None:
    path = Path(__file__).parents[3] / "examples" / "pie.png"
    assert repr(color_share(path, read_labels=False)) == repr(color_share(load_image(path), read_labels=False))
