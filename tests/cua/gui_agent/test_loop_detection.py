import io

import pytest
from PIL import Image, ImageDraw

from cua.gui_agent.episode import LoopDetector
from envs import Click, Wait

CLICK = Click(x_px=5, y_px=5)


def screen(text: str = "", caret: bool = False) -> bytes:
    image = Image.new("RGB", (320, 200), "white")
    draw = ImageDraw.Draw(image)
    draw.text((20, 20), text, fill="black")
    if caret:
        draw.rectangle((100, 20, 101, 36), fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_the_same_action_on_the_same_screen_counts_up() -> None:
    detector = LoopDetector()
    assert [detector.count([CLICK], screen("a")) for _ in range(3)] == [1, 2, 3]


def test_a_blinking_caret_does_not_hide_a_loop() -> None:
    detector = LoopDetector()
    assert [detector.count([CLICK], screen("a", caret=on)) for on in (False, True, False)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("width_px", "height_px", "count"), [(3, 48, 2), (4, 48, 1), (3, 49, 1), (1, 1, 2), (4, 1, 1), (1, 49, 1)]
)
def test_only_a_difference_as_small_as_a_caret_is_passed_over(width_px: int, height_px: int, count: int) -> None:
    image = Image.new("RGB", (320, 200), "white")
    image.paste("black", (100, 20, 100 + width_px, 20 + height_px))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    detector = LoopDetector()
    detector.count([CLICK], screen())
    assert detector.count([CLICK], buffer.getvalue()) == count


def test_the_same_bytes_are_the_same_screen_whatever_they_are() -> None:
    detector = LoopDetector()
    assert [detector.count([CLICK], b"reading this would fail") for _ in range(2)] == [1, 2]


def test_a_counter_that_changes_by_one_digit_is_not_a_loop() -> None:
    detector = LoopDetector()
    assert [detector.count([CLICK], screen(str(number))) for number in range(5)] == [1, 1, 1, 1, 1]


def test_going_back_and_forth_is_a_loop() -> None:
    detector = LoopDetector()
    pairs = [(CLICK, "a"), (Wait(duration_s=1), "b")] * 3
    assert [detector.count([action], screen(text)) for action, text in pairs] == [1, 1, 2, 2, 3, 3]


def test_old_steps_are_forgotten() -> None:
    detector = LoopDetector(window=2)
    detector.count([CLICK], screen("a"))
    detector.count([CLICK], screen("b"))
    detector.count([CLICK], screen("c"))
    assert detector.count([CLICK], screen("a")) == 1


def test_as_many_steps_as_the_window_holds_are_remembered() -> None:
    detector = LoopDetector(window=2)
    detector.count([CLICK], screen("a"))
    detector.count([CLICK], screen("b"))
    assert detector.count([CLICK], screen("a")) == 2


def test_screens_of_another_size_differ() -> None:
    detector = LoopDetector()
    detector.count([CLICK], screen())
    buffer = io.BytesIO()
    Image.new("RGB", (321, 200), "white").save(buffer, "PNG")
    assert detector.count([CLICK], buffer.getvalue()) == 1


def test_waiting_in_a_row_is_one_step_however_often_and_however_long() -> None:
    detector = LoopDetector()
    waits = [(Wait(duration_s=1 + turn % 3),) for turn in range(30)]
    assert [detector.count(actions, screen("a", caret=turn % 2 == 0)) for turn, actions in enumerate(waits)] == [1] * 30
    assert detector.num_waits == 30


def test_waits_are_counted_anew_on_another_screen_and_after_another_action() -> None:
    detector = LoopDetector()
    steps = [(Wait(duration_s=1), "a"), (Wait(duration_s=1), "a"), (Wait(duration_s=1), "b"), (CLICK, "b")]
    seen = []
    for action, text in [*steps, (Wait(duration_s=1), "b")]:
        detector.count([action], screen(text))
        seen.append(detector.num_waits)
    assert seen == [1, 2, 1, 0, 1]


def test_a_wait_with_something_else_in_its_step_is_no_waiting() -> None:
    detector = LoopDetector()
    assert [detector.count([CLICK, Wait(duration_s=1)], screen("a")) for _ in range(3)] == [1, 2, 3]


def test_an_empty_step_is_no_waiting() -> None:
    detector = LoopDetector()
    assert [detector.count([], screen("a")) for _ in range(3)] == [1, 2, 3]
