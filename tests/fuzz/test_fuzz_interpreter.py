"""Whatever the code: actions or CodeError, in bounded time, and actions that an env can carry out."""

import contextlib
import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cua.errors import CodeError
from cua.gui_agent.interpreter import CodeLimits, run, to_pyautogui
from envs import Click, Drag, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, ScreenGeometry, Scroll, Wait
from envs.actions import normalize_key
from tests.fuzz.programs import PROGRAMS, TAME_PROGRAMS
from tests.fuzz.settings import bounded_time, fuzzed

GEOMETRY = ScreenGeometry(native_px=(1366, 768), sent_px=(1024, 576), offset_px=(-1366, 10))
SCREEN = ScreenGeometry(native_px=(1366, 768), sent_px=(1366, 768))
TOKENS = [*"()[]x1+*\n", "**", "for x in x", " if 1 else ", "lambda:", "not ", "f'{", "}'"]
LIMITS = (
    "too much work",
    "too long",
    "too large",
    "waits",
    "actions in one step",
    "at most 1000",
    "are possible in one step",
    "IndexError",
)
MODES = st.sampled_from(["relative", "absolute", "qwen25"])


def attempt(code, mode="relative", geometry=GEOMETRY):
    """The actions, or None when the code is refused."""
    with bounded_time():
        try:
            return run(code, geometry, mode=mode, pointer_px=(-1000, 300))
        except CodeError as error:
            text = str(error)
            assert 0 < len(text) < 1000
            text.encode("utf-8")
            return None


def check(actions):
    """Each action is one that an env can carry out."""
    for action in actions:
        if isinstance(action, Click | Move | Drag | Scroll | MouseDown | MouseUp) and action.x_px is not None:
            assert -1366 <= action.x_px < 0
            assert 10 <= action.y_px < 778
        if isinstance(action, KeyDown | KeyUp | PressKey):
            assert normalize_key(action.key) == action.key
        if isinstance(action, Hotkey):
            assert [normalize_key(key) for key in action.keys] == list(action.keys)
        if isinstance(action, Wait | Move | Drag):
            assert 0 <= action.duration_s <= 60
            assert math.isfinite(action.duration_s)


@fuzzed
@given(st.text(), MODES)
def test_random_text(code, mode):
    check(attempt(code, mode) or [])


@fuzzed
@given(st.text("()[]{}:,.'\"\\=+-*/%<>01.5e_ \n\tpyautoguiclickwritefornilambda#", max_size=200))
def test_random_python_like_text(code):
    check(attempt(code) or [])


@fuzzed
@given(PROGRAMS, MODES)
@example("x = 0.5\npyautogui.click(x, x)", "relative")
@example("for i in range(3):\n    pyautogui.press('tab')", "qwen25")
@pytest.mark.long
def test_random_programs(code, mode):
    check(attempt(code, mode) or [])


class AnyModule:
    """Stands in for pyautogui and time when Python itself runs a tame program."""

    MIDDLE = "middle"

    def __getattr__(self, name):
        return lambda *args, **kwargs: contextlib.nullcontext()

    def size(self):
        return SCREEN.sent_px


@fuzzed
@given(TAME_PROGRAMS.filter(lambda code: "position" not in code))
@pytest.mark.long
def test_variables_end_as_in_python(code):
    """Programs come from our own grammar, so they may be executed; what the interpreter refuses is not."""
    code += "\npyautogui.write(str((x, y, i, text, keys)))"
    actions = attempt(code, geometry=SCREEN)
    assume(actions is not None)
    variables = {"pyautogui": AnyModule(), "time": AnyModule()}
    exec(code.removeprefix("import pyautogui\n"), variables)
    assert actions[-1].text == str(tuple(variables[name] for name in ("x", "y", "i", "text", "keys")))


@pytest.mark.long
@fuzzed
@given(TAME_PROGRAMS)
def test_tame_programs_are_refused_only_at_a_limit(code):
    try:
        check(run(code, GEOMETRY, pointer_px=(-1000, 300)))
    except CodeError as error:
        assert any(limit in str(error) for limit in LIMITS)


@fuzzed
@given(PROGRAMS)
@pytest.mark.long
def test_what_was_read_can_be_rendered_and_read_again(code):
    actions = attempt(code, geometry=SCREEN)
    if actions is not None:
        assert run(to_pyautogui(actions), SCREEN, mode="absolute", limits=CodeLimits(max_wait_s=math.inf)) == actions


@fuzzed
@given(st.sampled_from("([{-~+!.,"), st.integers(0, 30_000), st.text(max_size=5))
def test_long_runs_of_one_character(char, count, rest):
    assert attempt(char * count + rest) in (None, [])


@fuzzed
@given(st.lists(st.sampled_from(TOKENS), max_size=400))
def test_random_tokens(tokens):
    check(attempt("".join(tokens)) or [])


def test_the_attempt_sees_both_outcomes():
    assert attempt("pyautogui.click(0.5, 0.5)") == [Click(x_px=-683, y_px=394)]
    assert attempt("import os") is None
    with pytest.raises(AssertionError, match="took"), bounded_time(0.001):
        sum(range(1_000_000))
