"""Which way a text runs, decided from readings that are given: the network is left out, the image is real."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tables import table
from visual_tools.box import Box
from visual_tools.ocr import RecognizedText, choose_directions
from visual_tools.text_detection import TextArea

Readings = Mapping[int, tuple[str, float]]
"""Text and confidence for each direction in degrees; other directions give nothing."""

HELLO: Readings = {0: ("Hello", 0.95), 180: ("ollaH", 0.5)}
TURNED: Readings = {0: ("olleH", 0.5), 180: ("Hello again", 0.95)}
OPEN: Readings = {0: ("OX", 0.75), 180: ("XO", 0.75)}


class Reader:
    """Reads what it was told: red says which area, green and blue grow to the right and downward."""

    def __init__(self) -> None:
        self.areas: list[TextArea] = []
        self.readings: list[Readings] = []
        self.image: NDArray[np.uint8] = np.zeros((240, 240, 3), np.uint8)
        self.image[..., 1], self.image[..., 2] = np.arange(240), np.arange(240)[:, None]
        self.num_read = 0

    def put(self, area: TextArea, readings: Readings) -> None:
        box = area.box
        self.areas.append(area)
        self.readings.append(readings)
        self.image[box.top : box.bottom, box.left : box.right, 0] = len(self.areas)

    def recognize(self, crop: NDArray[np.uint8]) -> RecognizedText:
        self.num_read += 1
        row, half = crop[crop.shape[0] // 2].astype(int), crop.shape[1] // 2
        right, down = row[half + 5, 1:] - row[half - 5, 1:]
        angle_deg = round(math.degrees(math.atan2(down, right)) / 5) * 5 % 360
        text, confidence = self.readings[row[half, 0] - 1].get(angle_deg, ("", 0.0))
        return RecognizedText(text=text, confidence=confidence, columns=())

    def choose(self) -> list[tuple[str, float]]:
        found = choose_directions(self.image, self.areas, self)  # type: ignore[arg-type]
        assert [area.center for area, _ in found] == [area.center for area in self.areas]
        return [(got.text, area.angle_deg) for area, got in found]


def wide(row: int, width: int = 90) -> TextArea:
    return TextArea.from_box(Box(10, 10 + 30 * row, 10 + width, 30 + 30 * row))


def tall(column: int, height: int = 90, angle_deg: float = 90.0) -> TextArea:
    return TextArea.from_box(Box(10 + 30 * column, 130, 30 + 30 * column, 130 + height), angle_deg)


def choose(*placed: tuple[TextArea, Readings]) -> list[tuple[str, float]]:
    reader = Reader()
    for area, readings in placed:
        reader.put(area, readings)
    return reader.choose()


@pytest.mark.parametrize(
    ("readings", "text", "angle_deg", "num_read"),
    [
        ({0: ("Hello", 0.92), 180: ("Other", 1.0)}, "Hello", 0.0, 1),
        ({0: ("Hello", 0.91), 180: ("Other", 0.5)}, "Hello", 0.0, 2),
        ({0: ("Other", 0.5), 180: ("Hello", 0.85)}, "Hello", 180.0, 2),
        ({0: ("Other", 0.5), 180: ("abc", 0.85)}, "abc", 180.0, 2),
        ({0: ("O", 0.5), 180: ("ab", 0.85)}, "O", 0.0, 2),  # too short to tell
        ({0: ("Other", 0.5), 180: ("Hello", 0.84)}, "Other", 0.0, 2),  # too unsure
        ({0: ("Other", 0.8), 180: ("Hello", 0.89)}, "Other", 0.0, 2),  # both read nearly as well
        ({0: ("Other", 0.78), 180: ("Hello", 0.89)}, "Hello", 180.0, 2),
    ],
)
def test_a_line_alone(readings: Readings, text: str, angle_deg: float, num_read: int) -> None:
    reader = Reader()
    reader.put(wide(0), readings)
    assert (reader.choose(), reader.num_read) == ([(text, angle_deg)], num_read)


@table(
    ("others", "angle_deg"),
    [
        ((), 0.0),
        ((HELLO,), 0.0),
        ((TURNED,), 180.0),
        ((HELLO, TURNED), 180.0),  # 5 characters against 11
        ((HELLO, HELLO, HELLO, TURNED), 0.0),  # 15 against 11
        ((OPEN, OPEN), 0.0),  # these tell nothing
    ],
)
@table(
    "readings",
    [
        OPEN,
        {0: ("OX", 0.99)},  # read surely, but two characters are no evidence
        {0: ("OX", 0.7), 180: ("XO", 0.8)},
        {0: ("OX", 0.8), 180: ("XO", 0.7)},
    ],
)
def test_what_does_not_tell_follows_the_clear_lines(
    others: tuple[Readings, ...], angle_deg: float, readings: Readings
) -> None:
    found = choose((wide(0), readings), *((wide(row), one) for row, one in enumerate(others, 1)))
    assert found[0] == (readings.get(round(angle_deg), ("", 0.0))[0], angle_deg)


def test_a_clear_line_follows_nobody() -> None:
    assert choose((wide(0), HELLO), (wide(1), TURNED), (wide(2), TURNED))[0] == ("Hello", 0.0)


def test_as_many_characters_each_way_leave_the_surer_reading_unless_it_is_upside_down() -> None:
    both = ((wide(1), HELLO), (wide(2), {0: ("olleH", 0.5), 180: ("Hello", 0.95)}))
    assert choose((wide(0), {0: ("OX", 0.8), 180: ("XO", 0.7)}), *both)[0] == ("OX", 0.0)
    assert choose((wide(0), {0: ("OX", 0.7), 180: ("XO", 0.8)}), *both)[0] == ("OX", 0.0)
    down = {90: ("OX", 0.7), 270: ("XO", 0.8)}
    assert choose((tall(0), down), *both)[0] == ("XO", 270.0)


@pytest.mark.parametrize(("lean_deg", "angle_deg"), [(30, 180.0), (35, 0.0)])
def test_lines_that_lean_a_little_count_as_running_the_same_way(lean_deg: int, angle_deg: float) -> None:
    leaning = TextArea.turned((120.0, 150.0), 90.0, 20.0, 180.0 + lean_deg)
    found = choose((wide(0), OPEN), (leaning, {180 + lean_deg: ("Hello", 0.99)}))
    assert found == [(OPEN[round(angle_deg)][0], angle_deg), ("Hello", 180.0 + lean_deg)]


@pytest.mark.parametrize(
    ("height", "readings", "found"),
    [
        (59, {0: ("1", 0.95), 90: ("-", 0.99)}, ("1", 0.0)),
        (60, {0: ("1", 0.95), 90: ("-", 0.99)}, ("-", 90.0)),  # too high for a character
        (59, {0: ("1", 0.5), 90: ("abc", 0.7), 270: ("cba", 0.89)}, ("cba", 270.0)),
        (59, {0: ("1", 0.5), 90: ("abc", 0.89), 270: ("cba", 0.7)}, ("abc", 90.0)),
    ],
)
def test_a_tall_area_may_be_one_upright_character(height: int, readings: Readings, found: tuple[str, float]) -> None:
    assert choose((tall(0, height), readings)) == [found]


def test_a_wide_area_is_no_tall_character() -> None:
    reader = Reader()
    reader.put(wide(0, width=25), {0: ("a", 0.5), 180: ("b", 0.4)})
    assert (reader.choose(), reader.num_read) == ([("a", 0.0)], 2)


DOWN: Readings = {90: ("Downward", 0.95), 270: ("x", 0.1)}
UP: Readings = {90: ("x", 0.1), 270: ("Up and up", 0.95)}


@pytest.mark.parametrize(
    ("others", "width", "angle_deg"),
    [
        ((DOWN, DOWN), 29, 90.0),
        ((UP, UP), 29, 270.0),
        ((UP, DOWN), 29, 270.0),  # 9 characters against 8
        ((UP,), 29, 0.0),  # the title of an axis
        ((UP, UP), 30, 0.0),  # wider than high: its sides tell
        ((), 29, 0.0),
    ],
)
def test_a_square_follows_a_sheet_on_its_side(others: tuple[Readings, ...], width: int, angle_deg: float) -> None:
    square = {0: ("a", 0.95), 90: ("b", 0.95), 270: ("c", 0.95)}
    found = choose((wide(0, width), square), *((tall(column), one) for column, one in enumerate(others)))
    assert found[0] == (square[round(angle_deg)][0], angle_deg)


def test_a_square_among_lines_of_all_kinds_stays_upright() -> None:
    found = choose((wide(0, 20), {0: ("a", 0.95)}), (tall(0), UP), (tall(1), UP), (wide(1), HELLO))
    assert found[0] == ("a", 0.0)


@pytest.mark.parametrize(("lean_deg", "angle_deg"), [(30, 90.0), (35, 0.0)])
def test_a_sheet_on_its_side_may_lean(lean_deg: int, angle_deg: float) -> None:
    leaning = TextArea.turned((160.0, 120.0), 90.0, 20.0, 90.0 + lean_deg)
    square = {0: ("a", 0.95), 90: ("b", 0.95)}
    found = choose((wide(0, 20), square), (tall(0), DOWN), (leaning, {90 + lean_deg: ("Leaning", 0.99)}))
    assert found[0] == (square[round(angle_deg)][0], angle_deg)
