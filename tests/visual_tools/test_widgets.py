import numpy as np
import pytest

from tests.visual_tools.drawing import Canvas
from visual_tools.box import Box
from visual_tools.widgets import find_dialog, find_lines, find_rectangles, without_carets


def boxes(canvas: Canvas) -> list[Box]:
    return [rectangle.box_px for rectangle in find_rectangles(canvas.array)]


def test_bordered_field_is_its_inside() -> None:
    assert Box(51, 41, 199, 69) in boxes(Canvas().box(50, 40, 200, 70, outline="#767676"))


def test_filled_button_is_found_with_its_colour_in_spite_of_its_text() -> None:
    canvas = Canvas().box(50, 40, 150, 72, fill="#2266aa").text(70, 46, "Save", colour="white")

    found = next(rectangle for rectangle in find_rectangles(canvas.array) if rectangle.box_px.width < 200)

    assert (found.box_px, found.colour) == (Box(50, 40, 150, 72), (0x22, 0x66, 0xAA))


@pytest.mark.parametrize(("page", "border"), [("#f8f9fa", "#eceef0"), ("#121418", "#1e2228"), ("#ffffff", "#f0f0f0")])
def test_pale_borders_are_seen(page: str, border: str) -> None:
    assert any(abs(box.width - 148) <= 2 for box in boxes(Canvas(colour=page).box(50, 40, 200, 70, outline=border)))


def test_round_corners_count_as_rectangles() -> None:
    canvas = Canvas()
    canvas.draw.rounded_rectangle((50, 40, 199, 69), radius=14, fill="#dddddd")

    assert Box(50, 40, 200, 70) in boxes(canvas)


def test_nested_rectangles_come_smallest_first() -> None:
    canvas = Canvas().box(10, 10, 390, 190, fill="#eeeeee").box(50, 40, 200, 70, fill="white", outline="black")

    areas = [box.area for box in boxes(canvas)]

    assert areas == sorted(areas)
    assert Box(51, 41, 199, 69) in boxes(canvas) and Box(10, 10, 390, 190) in boxes(canvas)


def test_a_letter_that_touches_the_border_does_not_hide_the_field() -> None:
    canvas = Canvas().box(50, 40, 130, 58, outline="#767676").text(54, 37, "English", size=17)

    assert any(abs(box.left - 51) <= 1 and abs(box.width - 78) <= 2 for box in boxes(canvas))


@pytest.mark.parametrize("width", [1, 2])
def test_a_caret_does_not_cut_a_field_in_two(width: int) -> None:
    canvas = Canvas().box(50, 40, 200, 60, outline="#767676").box(110, 42, 110 + width, 58, fill="black")

    assert Box(51, 41, 199, 59) in boxes(canvas)
    assert not any(box.width < 100 for box in boxes(canvas))


@pytest.mark.parametrize("width", [1, 2])
def test_a_caret_behind_a_letter_is_taken_out_of_the_image(width: int) -> None:
    field = Canvas().box(50, 40, 200, 64, outline="#767676").text(56, 42, "Ann", size=16).array
    end = int(np.flatnonzero((field[42:62, 52:198] < 128).any(axis=(0, 2)))[-1]) + 53
    typed = field.copy()
    typed[43:61, end : end + width] = 0

    assert (without_carets(typed) == field).all()
    assert without_carets(field) is field


def test_what_stands_on_the_base_line_or_holds_text_behind_it_is_no_caret() -> None:
    stroke = Canvas().box(100, 50, 108, 60, fill="#444").box(109, 44, 110, 60, fill="black").array
    between = (
        Canvas()
        .box(100, 50, 108, 60, fill="#444")
        .box(109, 44, 110, 64, fill="black")
        .box(111, 50, 115, 60, fill="#444")
    )

    assert without_carets(stroke) is stroke
    assert without_carets(between.array).min(axis=2)[45, 109] == 0


def test_a_line_from_border_to_border_parts_two_cells() -> None:
    canvas = Canvas().box(50, 40, 200, 60, outline="#767676").box(110, 40, 111, 60, fill="#767676")

    assert {Box(51, 41, 110, 59), Box(111, 41, 199, 59)} <= set(boxes(canvas))


def test_a_barrier_closes_a_border_that_a_label_opens() -> None:
    canvas = (
        Canvas().box(50, 40, 250, 90, outline="black").box(70, 30, 150, 50, fill="white").text(74, 33, "Label", size=12)
    )

    closed = [rectangle.box_px for rectangle in find_rectangles(canvas.array, barriers=(Box(66, 30, 154, 52),))]

    assert not any(box.left == 51 for box in boxes(canvas))
    assert any((box.left, box.right, box.bottom) == (51, 249, 89) for box in closed)


def test_circle_is_no_rectangle() -> None:
    canvas = Canvas()
    canvas.draw.ellipse((50, 40, 149, 139), fill="red")

    assert all(box.width > 150 for box in boxes(canvas))


def test_rules_are_found_and_borders_of_fills_are_not() -> None:
    canvas = Canvas().box(20, 50, 220, 52, fill="#888888").box(20, 100, 220, 190, fill="#dddddd")

    assert [(line.left, line.top, line.bottom) for line in find_lines(canvas.array)] == [(20, 50, 52)]


def test_dialog_is_the_bright_panel_in_the_middle_of_a_dark_page() -> None:
    canvas = Canvas(800, 600, "#7f7f7f").box(200, 200, 600, 400, fill="white")

    assert find_dialog(canvas.array, find_rectangles(canvas.array)) == Box(200, 200, 600, 400)


def test_no_dialog_on_an_ordinary_page() -> None:
    canvas = Canvas(800, 600, "#f4f4f4").box(200, 200, 600, 400, fill="white")

    assert find_dialog(canvas.array, find_rectangles(canvas.array)) is None


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (9, 9)])
def test_tiny_pictures_do_no_harm(size: tuple[int, int]) -> None:
    image = np.zeros((*size, 3), np.uint8)

    assert find_rectangles(image, min_side_px=20) == []
    assert find_lines(image) == []
