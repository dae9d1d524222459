import pytest

from cua.trajectory import describe
from envs import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Click(x_px=1, y_px=2), "click at (1, 2)"),
        (Click(clicks=2), "double-click"),
        (Click(x_px=1, y_px=2, button="right"), "right-click at (1, 2)"),
        (Click(clicks=5, button="middle"), "middle-5 clicks"),
        (Move(x_px=1, y_px=2), "move to (1, 2)"),
        (Drag(x_px=1, y_px=2, button="right"), "drag to (1, 2) with the right button"),
        (Scroll(dy=-3, x_px=1, y_px=2), "scroll down 3 at (1, 2)"),
        (Scroll(dy=2, dx=-1), "scroll up 2 and left 1"),
        (TypeText(text="a b"), 'type "a b"'),
        (PressKey(key="enter"), "press enter"),
        (PressKey(key="tab", presses=3), "press tab 3 times"),
        (Hotkey(keys=("ctrl", "s")), "press ctrl+s"),
        (KeyDown(key="shift"), "hold shift down"),
        (KeyUp(key="shift"), "let shift go"),
        (MouseDown(x_px=1, y_px=2), "hold the mouse down at (1, 2)"),
        (MouseUp(button="middle"), "let the mouse go with the middle button"),
        (Wait(duration_s=2.5), "wait 2.5 s"),
        (Terminate(status="failure"), "finish: failure"),
        (Terminate(status="success", answer="42"), "finish: success, answer '42'"),
    ],
)
def test_actions_in_words(action: Action, expected: str) -> None:
    assert describe.describe_action(action) == expected


def test_numbers_in_words() -> None:
    assert [describe.describe_duration(s) for s in (0, 0.42, 0.9999, 1, 59.9, 59.97, 245, 7380)] == [
        "0 ms", "420 ms", "1.0 s", "1.0 s", "59.9 s", "1 min 00 s", "4 min 05 s", "2 h 03 min",
    ]  # fmt: skip
    assert [describe.describe_cost(c) for c in (None, 0.0, 0.0123, 2.5)] == ["unknown", "$0.00", "$0.0123", "$2.50"]
    assert [describe.describe_tokens(n) for n in (0, 999, 12_345, 999_949, 999_950, 4_560_000)] == [
        "0", "999", "12.3k", "999.9k", "1.00M", "4.56M",
    ]  # fmt: skip


def test_control_characters_become_pictures_and_emoji_stay() -> None:
    assert describe.printable("a\x1b[31m\tb\u202ec 👩‍💻 漢") == "a␛[31m    b\ufffdc 👩‍💻 漢"
