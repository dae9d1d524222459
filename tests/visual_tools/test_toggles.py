import pytest

from tests.visual_tools.drawing import Canvas
from visual_tools.widgets import Toggle, find_toggles, has_down_arrow


def read(canvas: Canvas) -> list[tuple[str, bool]]:
    return [(toggle.kind, toggle.is_on) for toggle in find_toggles(canvas.array)]


def checkbox(side: int = 14, *, fill: str = "white", page: str = "white", outline: str = "#767676") -> Canvas:
    return Canvas(200, 40, page).box(10, 10, 10 + side, 10 + side, fill=fill, outline=outline)


def tick(canvas: Canvas, colour: str) -> Canvas:
    canvas.draw.line((13, 17, 16, 20, 21, 13), fill=colour, width=2)
    return canvas


@pytest.mark.parametrize("side", [13, 16, 20, 28])
def test_empty_box_is_off_and_a_filled_one_with_a_tick_is_on(side: int) -> None:
    assert read(checkbox(side)) == [("checkbox", False)]
    assert read(tick(checkbox(side, fill="#0d6efd", outline="#0d6efd"), "white")) == [("checkbox", True)]


def test_black_tick_in_a_white_box_is_on() -> None:
    assert read(tick(checkbox(), "black")) == [("checkbox", True)]


def test_dark_page() -> None:
    assert read(checkbox(fill="#1d2127", page="#121418", outline="#6a6f77")) == [("checkbox", False)]
    assert read(tick(checkbox(fill="#5865f2", page="#121418", outline="#5865f2"), "white")) == [("checkbox", True)]


def test_radio_buttons() -> None:
    canvas = Canvas(200, 40)
    canvas.draw.ellipse((10, 10, 25, 25), outline="#767676", width=1)
    canvas.draw.ellipse((60, 10, 75, 25), outline="#0d6efd", width=2)
    canvas.draw.ellipse((64, 14, 71, 21), fill="#0d6efd")

    assert read(canvas) == [("radio", False), ("radio", True)]


def test_switches() -> None:
    canvas = Canvas(200, 40)
    canvas.draw.rounded_rectangle((10, 10, 45, 27), radius=9, fill="#bbbbbb")
    canvas.draw.ellipse((12, 12, 25, 25), fill="white")
    canvas.draw.rounded_rectangle((80, 10, 115, 27), radius=9, fill="#0d6efd")
    canvas.draw.ellipse((100, 12, 113, 25), fill="white")

    assert read(canvas) == [("switch", False), ("switch", True)]


def test_letters_are_no_toggles() -> None:
    assert read(Canvas().text(10, 10, "Remember me, H8 X ZNW agreed?", size=16)) == []


def test_where_a_toggle_is() -> None:
    box = find_toggles(checkbox().array)[0]

    assert isinstance(box, Toggle)
    assert (box.box_px.left, box.box_px.top, box.box_px.right, box.box_px.bottom) == (10, 10, 24, 24)


def test_down_arrow() -> None:
    chevron = Canvas(200, 30).text(8, 5, "Food", size=14)
    chevron.draw.line((180, 12, 185, 17, 190, 12), fill="black", width=2)
    triangle = Canvas(200, 30)
    triangle.draw.polygon(((178, 12), (190, 12), (184, 18)), fill="black")
    calendar = Canvas(200, 30).box(178, 8, 190, 20, outline="black")

    assert has_down_arrow(chevron.array)
    assert has_down_arrow(triangle.array)
    assert not has_down_arrow(calendar.array)
    assert not has_down_arrow(Canvas(200, 30).text(8, 5, "Food", size=14).array)
