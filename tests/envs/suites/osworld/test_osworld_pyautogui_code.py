"""Programs that the guest runs."""

import ast

import pytest

from envs import Action, ActionError, Click, Drag, Hotkey, KeyDown, PressKey, Scroll, TypeText
from envs.suites.osworld.pyautogui_code import make_program


def statements(*actions: Action) -> list[str]:
    """What stands behind the preamble, without the numbers."""
    code = make_program(actions, "x").code
    ast.parse(code)
    return [line for line in code.splitlines()[5:] if not line.startswith("print(")]


def test_values_cannot_become_code() -> None:
    hostile = "'); import os; os.system('id') #\\"
    code = make_program([TypeText(text=hostile)], "x").code
    assert code.endswith(f"pyautogui.write({hostile!r}, interval=0.0)")
    code = make_program([TypeText(text=f"漢{hostile}")], "x").code
    assert code.endswith(f"type_any({'漢' + hostile!r}, 0.0)")


def test_each_verb() -> None:
    assert statements(Click(x_px=1, y_px=2, clicks=2, button="right")) == [
        "pyautogui.click(1, 2, clicks=2, interval=0.0, button='right')"
    ]
    assert statements(Drag(x_px=3, y_px=4, duration_s=0.5)) == ["pyautogui.dragTo(3, 4, duration=0.5, button='left')"]
    assert statements(Scroll(dy=-2, dx=1, x_px=5, y_px=6)) == [
        "pyautogui.moveTo(5, 6)",
        "pyautogui.scroll(-2)",
        "pyautogui.hscroll(1)",
    ]
    assert statements(Hotkey(keys=("ctrl", "return"))) == ["pyautogui.hotkey('ctrl', 'enter')"]
    assert statements(PressKey(key="<"))[1] == "    pyautogui.hotkey('shift', ',')"


def test_text_goes_the_way_that_works() -> None:
    lines = statements(TypeText(text="a<b\n\nä < c"))
    assert [line for line in lines if line.startswith("pyautogui.write")] == [
        "pyautogui.write('a', interval=0.0)",
        "pyautogui.write('b', interval=0.0)",
    ]
    assert "pyautogui.press('enter', presses=2, interval=0.0)" in lines
    assert lines[-1] == "type_any('ä < c', 0.0)"


def test_what_cannot_be_done_is_told() -> None:
    with pytest.raises(ActionError, match="no key 'ä'"):
        make_program([KeyDown(key="ä")], "x")
    with pytest.raises(ActionError, match="unknown key 'entr'"):
        make_program([PressKey(key="entr")], "x")
    with pytest.raises(ActionError, match=r"'\\x07', which cannot be typed"):
        make_program([TypeText(text="a\x07")], "x")
