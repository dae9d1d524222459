from typing import Any

import numpy as np
import pytest

from tests.visual_tools.drawing import Canvas
from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.search.texts import find_text


def form() -> Canvas:
    canvas = Canvas(640, 320)
    canvas.text(20, 20, "Credit overview", size=26).text(20, 90, "Edit").text(120, 90, "Edit expense")
    return canvas.text(20, 150, "Monthly").text(20, 172, "budget").text(300, 150, "Total: 347.90 EUR")


def test_just_the_characters_asked_for_are_boxed() -> None:
    canvas = form()
    left = 300 + canvas.draw.textlength("Total: ", font_size=18)
    right = 300 + canvas.draw.textlength("Total: 347.90", font_size=18)

    found = find_text(canvas.array, "347.90")

    assert [(match.text, match.line, match.is_exact, match.similarity) for match in found] == [
        ("347.90", "Total: 347.90 EUR", True, 1.0)
    ]
    assert abs(found[0].box.left - left) <= 4 and abs(found[0].box.right - right) <= 4
    assert 148 <= found[0].box.top < found[0].box.bottom <= 174
    assert found[0].confidence > 0.9


def test_the_best_come_first() -> None:
    found = find_text(form().array, "Edit")

    assert [(match.text, match.line) for match in found] == [
        ("Edit", "Edit"),
        ("Edit", "Edit expense"),
        ("edit", "Credit overview"),
    ]
    assert [match.is_whole_word for match in found] == [True, True, False]
    assert len(find_text(form().array, "Edit", max_matches=1)) == 1


def test_strictness() -> None:
    image = form().array

    assert [match.text for match in find_text(image, "EDIT EXPENSE", match="exact")] == []
    assert [match.text for match in find_text(image, "EDIT EXPENSE", match="ignore_case")] == ["Edit expense"]
    assert [match.text for match in find_text(image, "Edit expanse", match="ignore_case")] == []
    assert [match.text for match in find_text(image, "Edit expanse")] == ["Edit expense"]
    assert [match.text for match in find_text(image, "Edlt expanze", min_similarity=0.9)] == []


def test_text_that_goes_on_below_is_one() -> None:
    found = find_text(form().array, "Monthly budget")

    assert [match.text for match in found] == ["Monthly budget"]
    assert Box(16, 146, 100, 200).contains(found[0].box)
    assert found[0].box.height > 30


def test_a_date_that_is_wrapped_at_its_hyphen_is_one() -> None:
    found = find_text(Canvas(300, 120).text(20, 30, "2026-02-").text(20, 52, "10").array, "2026-02-10")

    assert [match.text for match in found] == ["2026-02- 10"]


def test_text_that_goes_on_in_the_next_column_is_one() -> None:
    found = find_text(Canvas(400, 100).text(20, 40, "Grand").text(92, 40, "total").array, "Grand total")

    assert [match.text for match in found] == ["Grand total"]
    assert found[0].box.width > 90


def test_nothing_found_and_nothing_there_are_told_apart() -> None:
    found = find_text(form().array, "Zebra")
    blank = find_text(np.full((90, 90, 3), 255, np.uint8), "Zebra")

    assert (len(found), found.num_lines > 4) == (0, True)
    assert (len(blank), blank.num_lines) == (0, 0)


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_a_blank_text_is_told(text: str) -> None:
    with pytest.raises(ImageError, match="expected some characters"):
        find_text(form().array, text)


def test_signs_and_regular_expressions_are_taken_as_they_are() -> None:
    array: Any = Canvas(500, 100).text(20, 40, "a+b (c) [d] 50%").array

    assert find_text(array, "(c)")[0].text == "(c)"
    assert find_text(array, "50%")[0].text == "50%"
    assert len(find_text(array, ".*")) == 0
