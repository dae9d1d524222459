"""Model coordinates to screen pixels, through `run`, in all three modes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cua.errors import CodeError
from cua.gui_agent.interpreter import run
from cua.gui_agent.interpreter.coordinates import ModelFrame, smart_resize
from envs import Click, Drag, MouseDown, Move, ScreenGeometry, Scroll, TypeText
from tests.tables import table

FULL_HD = ScreenGeometry(native_px=(1920, 1080), sent_px=(1920, 1080))
SECOND_MONITOR = ScreenGeometry(native_px=(2560, 1440), sent_px=(1280, 720), offset_px=(1920, 100))
MIDDLE = [Click(x_px=960, y_px=540)]


def act(code, geometry=FULL_HD, mode="relative", pointer_px=None):
    return run(code, geometry, mode=mode, pointer_px=pointer_px)


# Every row of the table of failures of a textual projection.


def test_parentheses_in_typed_text_do_not_stop_scaling():
    code = "pyautogui.click(0.5, 0.5)\npyautogui.write('f(x) (y)')"
    assert act(code) == [*MIDDLE, TypeText(text="f(x) (y)")]


def test_scroll_keeps_its_amount_beside_keywords():
    assert act("pyautogui.scroll(-5, x=0.5, y=0.5)") == [Scroll(dy=-5, x_px=960, y_px=540)]


def test_scroll_with_positional_point():
    assert act("pyautogui.scroll(-5, 0.5, 0.5)") == [Scroll(dy=-5, x_px=960, y_px=540)]


def test_mouse_down_is_scaled():
    assert act("pyautogui.mouseDown(0.5, 0.5)") == [MouseDown(x_px=960, y_px=540)]


def test_point_as_a_tuple():
    assert act("pyautogui.click((0.5, 0.5))") == MIDDLE


def test_computed_pixels():
    assert act("pyautogui.click(int(0.5*1920), 300)") == [Click(x_px=960, y_px=300)]


def test_variable():
    assert act("x = 0.5; pyautogui.click(x, 0.3)") == [Click(x_px=960, y_px=324)]


def test_a_quote_in_an_argument_is_an_argument_and_not_syntax():
    with pytest.raises(CodeError, match="button must be 'left', 'middle' or 'right', got \"it's\""):
        act('pyautogui.click(0.5, 0.5, button="it\'s")')


@pytest.mark.parametrize("name", ["dragRel", "drag"])
def test_drag_by_fractions(name):
    assert act(f"pyautogui.{name}(0.1, 0.1)", pointer_px=(100, 100)) == [Drag(x_px=292, y_px=208)]


@pytest.mark.parametrize("name", ["moveRel", "move"])
def test_move_by_fractions(name):
    assert act(f"pyautogui.{name}(0.1, -0.1)", pointer_px=(100, 200)) == [Move(x_px=292, y_px=92)]


# The rule.


@table(
    ("point", "pixel"),
    [
        ("0.5, 0.5", (960, 540)),
        ("960, 540", (960, 540)),
        ("960.4, 540.2", (960, 540)),
        ("960, 0.5", (960, 540)),
        ("0.5, 540", (960, 540)),
        ("0, 0", (0, 0)),
        ("1, 1", (1919, 1079)),
        ("1.0, 1.0", (1919, 1079)),
        ("1, 0.5", (1919, 540)),
        ("0, 500", (0, 500)),
        ("1, 500", (1, 500)),
        ("1.002, 0.5", (1919, 540)),
        ("-0.01, 0.5", (0, 540)),
        ("-5, 300", (0, 300)),
        ("5000, 3000", (1919, 1079)),
        ("0.9999, 0.9999", (1919, 1079)),
        ("2, 1", (2, 1)),
        ("1, 2", (1, 2)),
        ("2.4, 1.2", (2, 1079)),
        ("1.9, 500", (1919, 500)),
        ("-1, -1", (0, 0)),
    ],
)
def test_relative(point, pixel):
    assert act(f"pyautogui.click({point})") == [Click(x_px=pixel[0], y_px=pixel[1])]


@pytest.mark.parametrize(
    ("offset", "pixel"),
    [
        ("10, 20", (110, 120)),
        ("1, 0", (101, 100)),
        ("-1, -1", (99, 99)),
        ("0.5, 0", (1060, 100)),
        ("0.5, 20", (1060, 120)),
        ("None, 20", (100, 120)),
        ("-0.5, -0.5", (0, 0)),
        ("(10, 20)", (110, 120)),
        ("1.0, 0.0", (1919, 100)),
    ],
)
def test_offsets(offset, pixel):
    assert act(f"pyautogui.moveRel({offset})", pointer_px=(100, 100)) == [Move(x_px=pixel[0], y_px=pixel[1])]


def test_a_missing_coordinate_is_the_pointers():
    assert act("pyautogui.click(x=0.5)", pointer_px=(3, 4)) == [Click(x_px=960, y_px=4)]
    assert act("pyautogui.click(y=300)", pointer_px=(3, 4)) == [Click(x_px=3, y_px=300)]


def test_an_unknown_pointer_is_said():
    for code in ("pyautogui.click(x=0.5)", "pyautogui.moveRel(5, 5)", "pyautogui.position()"):
        with pytest.raises(CodeError, match=r"give both x and y, or call pyautogui.moveTo"):
            act(code)


def test_the_simulated_pointer_follows():
    code = (
        "pyautogui.moveTo(0.5, 0.5)\npyautogui.moveRel(10, 0)\nx, y = pyautogui.position()\npyautogui.click(x, y + 5)"
    )
    assert act(code) == [Move(x_px=960, y_px=540), Move(x_px=970, y_px=540), Click(x_px=970, y_px=545)]


@table("at", [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1)])
@table(
    "code",
    [
        "p = pyautogui.position()\npyautogui.click(p.x, p.y)",
        "x, y = pyautogui.position()\npyautogui.click(x, y)",
        "pyautogui.click(pyautogui.position())",
        "pyautogui.click(*pyautogui.position())",
        "p = pyautogui.position()\npyautogui.click(p[0] + 5 - 5, y=p.y)",
        "p = pyautogui.position()\npyautogui.click(int(p.x / 1), round(p.y * 1.0))",
        "p = pyautogui.position()\npyautogui.click(-(-p.x), abs(p.y))",
        "p = pyautogui.position()\npyautogui.click(max(p.x, 0), min(p.y, 900))",
        "p = [v for v in pyautogui.position()]\npyautogui.click(p[0], math.floor(p[1]))",
        "w, h = pyautogui.size()\np = pyautogui.position()\npyautogui.click(w - w + p.x, h % h + p.y)",
        "w, h = pyautogui.size()\np = pyautogui.position()\npyautogui.click(p.x / 2 * 2, sum([p.y, 0]))",
    ],
)
def test_a_position_that_was_asked_for_is_pixels_also_near_the_corner(at, code):
    [click] = act(code, pointer_px=at)
    assert (click.x_px, click.y_px) == at


def test_offsets_computed_from_the_size_are_pixels():
    code = "w, h = pyautogui.size()\npyautogui.moveRel(w / 1920, h / 1080)"
    assert act(code, pointer_px=(10, 10)) == [Move(x_px=11, y_px=11)]
    code = "w, h = pyautogui.size()\nx, y = pyautogui.position()\npyautogui.click(x / w, y / h)"
    assert act(code, pointer_px=(960, 540)) == [Click(x_px=960, y_px=540)]
    assert act("p = pyautogui.position()\npyautogui.click(p.x, 0.5)", pointer_px=(1, 1)) == [Click(x_px=1, y_px=540)]


def test_offset_and_scale_of_a_second_monitor():
    expected = [Click(x_px=1920 + 1280, y_px=100 + 720)]
    assert act("pyautogui.click(0.5, 0.5)", SECOND_MONITOR) == expected
    assert act("pyautogui.click(640, 360)", SECOND_MONITOR) == expected
    assert act("w, h = pyautogui.size()\npyautogui.click(w * 0.5, int(h * 0.5))", SECOND_MONITOR) == expected
    assert act("pyautogui.click(1, 1)", SECOND_MONITOR) == [Click(x_px=1920 + 2559, y_px=100 + 1439)]
    moved = act("pyautogui.moveRel(10, 0)", SECOND_MONITOR, pointer_px=(2000, 200))
    assert moved == [Move(x_px=2020, y_px=200)]
    code = "p = pyautogui.position()\npyautogui.moveTo(p.x, p.y)"
    assert act(code, SECOND_MONITOR, pointer_px=(2000, 200)) == [Move(x_px=2000, y_px=200)]


def test_absolute_means_pixels_of_the_sent_picture():
    assert act("pyautogui.click(640, 360)", SECOND_MONITOR, mode="absolute") == [Click(x_px=3200, y_px=820)]
    assert act("pyautogui.click(1, 1)", mode="absolute") == [Click(x_px=1, y_px=1)]


@pytest.mark.parametrize("point", ["0.5, 0.5", "960, 0.5"])
def test_absolute_refuses_fractions_with_a_hint(point):
    with pytest.raises(
        CodeError, match=r"coordinates are pixels here: the image is 1920x1080, its middle is \(960, 540\)"
    ):
        act(f"pyautogui.click({point})", mode="absolute")


def test_qwen25_maps_from_the_resized_picture():
    assert smart_resize((1920, 1080)) == (1932, 1092)
    assert act("pyautogui.click(966, 546)", mode="qwen25") == MIDDLE
    assert act("pyautogui.click(0.5, 0.5)", mode="qwen25") == MIDDLE
    assert act("pyautogui.click(1931, 1091)", mode="qwen25") == [Click(x_px=1919, y_px=1079)]
    assert act("w, h = pyautogui.size()\npyautogui.click(w // 2, h // 2)", mode="qwen25") == MIDDLE


@pytest.mark.parametrize(
    ("size_px", "resized_px"),
    [
        ((1280, 720), (1288, 728)),
        ((28, 28), (56, 56)),
        ((10, 10), (56, 56)),
        ((7680, 4320), (4760, 2688)),
        ((50, 60), (56, 56)),  # exactly as few pixels as may be
        ((3594, 3577), (3584, 3584)),  # exactly as many
        ((1_000_000, 14), (957_852, 28)),
        ((14, 1_000_000), (28, 957_852)),
        ((1, 9000), (28, 8988)),
    ],
)
def test_smart_resize(size_px, resized_px):
    assert smart_resize(size_px) == resized_px


@given(st.integers(1, 9000), st.integers(1, 9000))
def test_smart_resize_keeps_its_promises(width, height):
    new_width, new_height = smart_resize((width, height))
    assert new_width % 28 == 0
    assert new_height % 28 == 0
    assert new_width * new_height <= 12_845_056


_SIZES = st.tuples(st.integers(1, 8000), st.integers(1, 8000))
_FINITE = st.floats(-1e9, 1e9) | st.integers(-10000, 10000)


@given(_SIZES, _SIZES, st.sampled_from(["relative", "qwen25"]), _FINITE, _FINITE)
def test_points_never_leave_the_region(native, sent, mode, x, y):
    frame = ModelFrame(geometry=ScreenGeometry(native_px=native, sent_px=sent, offset_px=(-50, 7)), mode=mode)
    x_px, y_px = frame.to_screen(x, y)
    assert -50 <= x_px < native[0] - 50
    assert 7 <= y_px < native[1] + 7


@given(_SIZES, _SIZES, st.floats(0, 1), st.floats(0, 1))
def test_fractions_of_the_picture_are_fractions_of_the_screen(native, sent, x, y):
    geometry = ScreenGeometry(native_px=native, sent_px=sent)
    x_px, y_px = ModelFrame(geometry=geometry).to_screen(x, y)
    assert abs(x_px - min(x * native[0], native[0] - 1)) <= 0.5 + 1e-6
    assert abs(y_px - min(y * native[1], native[1] - 1)) <= 0.5 + 1e-6


@given(_SIZES, st.data())
@pytest.mark.long
def test_position_and_back(size, data):
    point = data.draw(st.tuples(st.integers(0, size[0] - 1), st.integers(0, size[1] - 1)))
    frame = ModelFrame(geometry=ScreenGeometry(native_px=size, sent_px=size), mode="absolute")
    assert frame.to_screen(*frame.from_screen(point)) == point


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "1e999", "True", "'0.5'", "[1]", "None + 1"])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(CodeError, match=r"^line 1: "):
        act(f"pyautogui.click({value}, 0.5)")
