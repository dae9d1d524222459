"""Actions to pyautogui code and back."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cua.gui_agent.interpreter import CodeLimits, run, to_pyautogui
from envs import (
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    ScreenGeometry,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)
from envs.actions import KEY_NAMES

SCREEN_PX = (1920, 1080)
GEOMETRY = ScreenGeometry(native_px=SCREEN_PX, sent_px=SCREEN_PX)

_X, _Y = st.integers(0, SCREEN_PX[0] - 1), st.integers(0, SCREEN_PX[1] - 1)
_SECONDS = st.floats(0, 100) | st.integers(0, 100)
_BUTTON = st.sampled_from(["left", "middle", "right"])
_KEY = st.sampled_from(sorted(KEY_NAMES)) | st.sampled_from("éß你🙂λ")
_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t\r'\"\\{}"), max_size=40)
_NOTCHES = st.integers(-1000, 1000).filter(bool)
_COUNT = st.integers(1, 1000)


def _maybe_at(verb, **fields):
    return st.builds(verb, **fields) | st.builds(verb, x_px=_X, y_px=_Y, **fields)


ACTIONS = st.one_of(
    _maybe_at(Click, button=_BUTTON, clicks=_COUNT, interval_s=_SECONDS),
    st.builds(Move, x_px=_X, y_px=_Y, duration_s=_SECONDS),
    st.builds(Drag, x_px=_X, y_px=_Y, button=_BUTTON, duration_s=_SECONDS),
    _maybe_at(Scroll, dy=_NOTCHES),
    _maybe_at(Scroll, dx=_NOTCHES),
    st.builds(TypeText, text=_TEXT.filter(bool), interval_s=_SECONDS),
    st.builds(PressKey, key=_KEY, presses=_COUNT, interval_s=_SECONDS),
    st.builds(Hotkey, keys=st.lists(_KEY, min_size=1, max_size=10).map(tuple)),
    st.builds(KeyDown, key=_KEY),
    st.builds(KeyUp, key=_KEY),
    _maybe_at(MouseDown, button=_BUTTON),
    _maybe_at(MouseUp, button=_BUTTON),
    st.builds(Wait, duration_s=_SECONDS),
)
ENDINGS = st.builds(Terminate, status=st.sampled_from(["success", "failure"]), answer=st.none() | st.text(max_size=40))
LISTS = st.builds(
    lambda actions, ending: actions + ending, st.lists(ACTIONS, max_size=8), st.lists(ENDINGS, max_size=1)
)


def read(code):
    return run(code, GEOMETRY, mode="absolute", limits=CodeLimits(max_wait_s=float("inf"), max_inputs=9 * 1000))


@given(LISTS)
@pytest.mark.long
def test_there_and_back(actions):
    assert read(to_pyautogui(actions)) == actions


@given(LISTS)
def test_each_action_is_one_simple_line(actions):
    code = to_pyautogui(actions)
    statements = ast.parse(code).body
    assert len(statements) == len(actions) == len(code.split("\n")) - (not actions)
    assert all(isinstance(statement, ast.Expr) for statement in statements)


def test_how_it_looks():
    actions = [
        Click(x_px=10, y_px=20),
        Click(button="right", clicks=2, interval_s=0.1),
        Move(x_px=1, y_px=2, duration_s=0.5),
        Drag(x_px=3, y_px=4),
        Scroll(dy=-5, x_px=10, y_px=20),
        TypeText(text='it\'s\n"q" \\d 你'),
        PressKey(key="enter", presses=2),
        Hotkey(keys=("ctrl", "c")),
        KeyDown(key="shift"),
        MouseUp(button="middle"),
        Wait(duration_s=20.0),
        Terminate(status="success", answer="x"),
    ]
    assert to_pyautogui(actions).split("\n") == [
        "pyautogui.click(x=10, y=20)",
        "pyautogui.click(clicks=2, interval=0.1, button='right')",
        "pyautogui.moveTo(1, 2, duration=0.5)",
        "pyautogui.dragTo(3, 4, button='left')",
        "pyautogui.scroll(-5, x=10, y=20)",
        "pyautogui.write('it\\'s\\n\"q\" \\\\d 你')",
        "pyautogui.press('enter', presses=2)",
        "pyautogui.hotkey('ctrl', 'c')",
        "pyautogui.keyDown('shift')",
        "pyautogui.mouseUp(button='middle')",
        "time.sleep(20.0)",
        "computer.terminate(status='success', answer='x')",
    ]


def test_a_scroll_on_both_axes_becomes_two():
    assert read(to_pyautogui([Scroll(dy=2, dx=-3, x_px=5, y_px=6)])) == [
        Scroll(dy=2, x_px=5, y_px=6),
        Scroll(dx=-3, x_px=5, y_px=6),
    ]


def test_nothing_is_nothing():
    assert to_pyautogui([]) == ""
