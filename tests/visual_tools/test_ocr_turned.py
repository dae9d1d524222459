"""Text that does not run to the right: turned a little, by a quarter, upside down, and all of it on one image."""

import math

import pytest

from tests.visual_tools.drawing import Canvas
from visual_tools.box import Box
from visual_tools.ocr import OcrEngine, TextLine
from visual_tools.search.texts import find_text

TEXTS = ("Quarterly report", "Total: 1,284.50 EUR", "Room 14", "Please sign below")


@pytest.fixture(scope="module")
def engine() -> OcrEngine:
    return OcrEngine()


def draw_block(angle_deg: float, size: int = 18, ink: str = "black", ground: str = "white") -> Canvas:
    """Four lines, one under the other, turned as one sheet of paper is."""
    canvas = Canvas(420, 420, ground)
    angle = math.radians(angle_deg)
    for index, text in enumerate(TEXTS):
        down = (index - 1.5) * 2.4 * size
        x, y = 210 - down * math.sin(angle), 210 + down * math.cos(angle)
        canvas.turned_text(round(x), round(y), text, angle_deg, size, ink)
    return canvas


def difference_deg(one: float, other: float) -> float:
    return abs((one - other + 180.0) % 360.0 - 180.0)


@pytest.mark.parametrize("angle_deg", [-30, -20, -10, -5, 2, 5, 10, 15, 30, 45, 75, 90, 110, 180, 185, 270, 300])
def test_turned_sheets_are_read(engine: OcrEngine, angle_deg: float) -> None:
    lines = engine.read_text(draw_block(angle_deg).array)

    assert sorted(line.text for line in lines) == sorted(TEXTS)
    assert all(difference_deg(line.angle_deg, angle_deg) < 3 for line in lines)


@pytest.mark.parametrize(("angle_deg", "size"), [(7, 13), (90, 12), (180, 12), (270, 30), (-25, 30)])
def test_small_and_large_turned_text_on_dark_is_read(engine: OcrEngine, angle_deg: float, size: int) -> None:
    lines = engine.read_text(draw_block(angle_deg, size, "#e0e0e0", "#102030").array)

    assert sorted(line.text for line in lines) == sorted(TEXTS)


def test_many_directions_on_one_picture(engine: OcrEngine) -> None:
    canvas = Canvas(600, 420)
    placed = {
        "Usual way": (90, 30, 0),
        "Slope up": (120, 130, -25),
        "Slope down": (330, 120, 20),
        "Upward": (30, 300, 270),
        "Downward": (560, 220, 90),
        "Upside down": (300, 380, 180),
        "Second usual": (300, 270, 0),
    }
    for text, (x, y, angle_deg) in placed.items():
        canvas.turned_text(x, y, text, angle_deg)

    lines = {line.text: line for line in engine.read_text(canvas.array)}

    assert set(lines) == set(placed)
    for text, (x, y, angle_deg) in placed.items():
        assert difference_deg(lines[text].angle_deg, angle_deg) < 5, text
        assert math.dist(lines[text].box_px.center, (x, y)) < 6, text


@pytest.mark.parametrize("angle_deg", [0, 180, 90, 270])
def test_short_texts_follow_the_others(engine: OcrEngine, angle_deg: int) -> None:
    canvas = (
        Canvas(400, 240)
        .text(20, 20, "Invoice number")
        .text(20, 80, "OK")
        .text(120, 80, "17")
        .text(20, 140, "Total sum")
    )
    turned = canvas.array.copy()
    for _ in range(angle_deg // 90):
        turned = turned.swapaxes(0, 1)[:, ::-1]  # a quarter, clockwise

    lines = engine.read_text(turned)

    assert sorted((line.text, line.angle_deg) for line in lines) == sorted(
        (text, float(angle_deg)) for text in ("Invoice number", "OK", "17", "Total sum")
    )


def test_title_beside_an_axis_does_not_turn_its_numbers(engine: OcrEngine) -> None:
    canvas = Canvas(200, 320).turned_text(20, 160, "Concentration in mol", 270)
    for index, number in enumerate(("0", "5", "10", "15")):
        canvas.text(60, 280 - 80 * index, number)

    assert {(line.text, line.angle_deg) for line in engine.read_text(canvas.array)} == {
        ("Concentration in mol", 270.0),
        *((number, 0.0) for number in ("0", "5", "10", "15")),
    }


def test_lone_tall_characters_stay_upright(engine: OcrEngine) -> None:
    canvas = Canvas(300, 160).text(20, 20, "Rows and columns").text(30, 80, "1").text(120, 80, "l").text(200, 80, "7")

    assert {line.angle_deg for line in engine.read_text(canvas.array)} == {0.0}


@pytest.mark.parametrize("angle_deg", [0, 12, 90, 180, 270, -40])
def test_words_of_turned_lines_lie_where_they_are_drawn(engine: OcrEngine, angle_deg: float) -> None:
    canvas = Canvas(300, 300).turned_text(150, 150, "Edit Delete", angle_deg, 24)
    line = next(line for line in engine.read_text(canvas.array) if line.text == "Edit Delete")
    half = canvas.draw.textlength("Edit Delete", font_size=24) / 2
    angle = math.radians(angle_deg)

    def at(along_px: float) -> tuple[float, float]:
        return 150 + along_px * math.cos(angle), 150 + along_px * math.sin(angle)

    (_, first), (_, second) = line.words
    assert first.has_point(*at(-0.75 * half)) and second.has_point(*at(0.4 * half))
    assert not first.has_point(*at(0.4 * half)) and not second.has_point(*at(-0.75 * half))
    assert line.box_px.padded(1).contains(first.union(second))
    assert math.dist(line.corners_px[0], at(-half)) < 16 and math.dist(line.corners_px[1], at(half)) < 16
    match = find_text(canvas.array, "Delete")[0]
    assert match.box == second


def test_parts_and_moves_of_a_turned_line_keep_its_frame(engine: OcrEngine) -> None:
    canvas = Canvas(300, 300).turned_text(150, 150, "Edit Delete", 90, 24)
    line = engine.read_text(canvas.array)[0]

    part = line.part(5, 11)

    assert (part.text, part.box_px, part.angle_deg) == ("Delete", line.span(5, 11), 90.0)
    assert part.span(0, 6) == part.box_px
    moved = part.moved(7, -3)
    assert moved.span(0, 2) == part.span(0, 2).moved(7, -3)
    assert moved.box_px == part.box_px.moved(7, -3)


def test_upright_line_has_the_corners_of_its_box() -> None:
    line = TextLine(text="ab", box_px=Box(3, 4, 13, 9), confidence=1.0, char_x_px=((3, 8), (8, 13)))

    assert line.corners_px == ((3, 4), (13, 4), (13, 9), (3, 9))
    assert line.part(1, 2).box_px == Box(8, 4, 13, 9)
    assert line.moved(10, 20).span(0, 1) == Box(13, 24, 18, 29)
