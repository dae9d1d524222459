"""The Python that model code may use: what each construct gives, seen through the actions."""

import pytest

from cua.gui_agent.interpreter import CodeLimits, run
from envs import Click, KeyDown, KeyUp, Move, PressKey, ScreenGeometry, Terminate, TypeText, Wait
from tests.tables import table

GEOMETRY = ScreenGeometry(native_px=(1000, 500), sent_px=(1000, 500))


def act(code, **options):
    return run(code, GEOMETRY, **options)


def typed(code):
    """What the code types, one text for each call of write."""
    return [action.text for action in act(code)]


def value(expression):
    """An expression's value as text."""
    return typed(f"pyautogui.write(str(({expression})) + '.')")[0][:-1]


@table(
    "expression",
    [
        "1 + 2 * 3 - 4 / 8",
        "7 // 2, 7 % 3, -7 // 2, 2 ** 10, 2 ** -1, 2.5 ** 2, 0 ** 0, (-1) ** 999",
        "1 << 4 | 3, 6 & 3, 6 ^ 3, 256 >> 4, ~5",
        "-3 + +4, not 1, not []",
        "1 < 2 < 3, 1 < 3 < 2, 1 == 1.0, 'a' in 'cat', 3 not in [1, 2], None is None, 1 != 2, 'b' >= 'a'",
        "1 and 0 and 2, 0 or '' or 'x', 1 or 2, [] or None",
        "'yes' if 3 > 2 else 'no'",
        "'ab' + 'cd', 'ab' * 3, 3 * 'x', [1] + [2], [0] * 3, (1,) + (2, 3)",
        "'hello'[1], 'hello'[-1], 'hello'[1:4], 'hello'[::-1], [1, 2, 3][0], (1, 2, 3)[1:], {'a': 1}['a']",
        "{'a': 1, 2: [3]}, [1, [2, (3,)]], (), [], {}",
        "[x * 2 for x in range(4) if x % 2], [(a, b) for a in 'xy' for b in range(2)]",
        "sum(x for x in range(5)), max(3, 1, 2), min([4, 2]), max([], default=7)",
        "abs(-2), round(2.567, 1), round(2.5), round(1234, -2), int('42'), int(3.9), float('1.5'), bool([]), str(1)",
        "len('abc'), len([1, 2]), list('ab'), tuple([1]), sorted([3, 1, 2]), sorted([1, 2], reverse=True)",
        "list(range(5)), list(range(1, 10, 3)), list(reversed([1, 2])), list(enumerate('ab')), list(enumerate('a', 1))",
        "list(zip([1, 2], 'ab')), any([0, 1]), all([0, 1]), ord('a'), chr(228), divmod(7, 2), dict(a=1)",
        "'Ab c'.upper(), 'Ab'.lower(), ' x '.strip(), 'a-b'.split('-'), 'a b'.split(), 'abab'.replace('a', 'x')",
        "'-'.join(['a', 'b']), 'abc'.startswith('ab'), 'abc'.endswith(('x', 'c')), 'abc'.find('c'), 'a b'.title()",
        "'7'.zfill(3), 'x'.ljust(3), 'x'.rjust(3, '.'), 'x'.center(3), 'a\\nb'.splitlines(), 'x'.isdigit()",
        "'{} and {}'.format(1, 'b'), '{0:.2f}|{name!r:>5}'.format(3.14159, name='x'), '{{}}'.format()",
        "f'{1 + 1}', f'{3.14159:.2f}', f'{42:05d}', f'{\"x\":>4}|', f'{1234567:,}', f'{\"a\"!r}', f'{5:{3}}', f'{{}}'",
        "f'{0.256:.1%}', f'{255:#x}', f'{7!s:^5}', f'{[1, 2]}'",
        "[1, 2, 3].index(2), [1, 1].count(1), {'a': 1}.get('b', 2), {'a': 1}.get('b')",
    ],
)
def test_expressions_mean_what_they_mean_in_python(expression):
    assert value(expression) == str(eval(f"({expression})"))  # our own constant expressions


def test_math():
    numbers = "(math.floor(2.7), math.ceil(0.1), math.sqrt(16), round(math.sin(pi), 6))"
    assert typed(f"import math\nfrom math import pi\npyautogui.write(str({numbers}))") == ["(2, 1, 4.0, 0.0)"]


def test_assignments():
    code = """
a = b = 2
(c, d), e = (3, 4), 5
c += 10
texts = ['x']
texts.append('y')
texts[0] = 'z'
texts[1] += '!'
count: int = len(texts)
table = {'k': 1}
table['k'] += 1
pyautogui.write(f'{a}{b} {c} {d} {e} {texts} {count} {table}')
"""
    assert typed(code) == ["22 13 4 5 ['z', 'y!'] 2 {'k': 2}"]


def test_loops_and_branches():
    code = """
for i in range(5):
    if i == 1:
        continue
    elif i == 4:
        break
    else:
        pyautogui.write(str(i))
else:
    pyautogui.write('never')
n = 0
while n < 2:
    n += 1
else:
    pyautogui.write(f'n={n}')
for number, (x, y) in enumerate([(0.1, 0.2), (0.3, 0.4)]):
    pyautogui.click(x, y)
"""
    assert act(code) == [
        TypeText(text="0"),
        TypeText(text="2"),
        TypeText(text="3"),
        TypeText(text="n=2"),
        Click(x_px=100, y_px=100),
        Click(x_px=300, y_px=200),
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import pyautogui\npyautogui.press('a')",
        "import pyautogui as pg, time\npg.press('a')",
        "from pyautogui import press\npress('a')",
        "from pyautogui import press as p\np(keys='a')",
        "pyautogui.PAUSE = 0.5\npyautogui.FAILSAFE = False\npyautogui.press('a')",
        "print('pressing', 1)\npyautogui.press('a')",
        "'''a docstring'''\npyautogui.press('a')",
        "    pyautogui.press('a')",
        "\tpyautogui.press('a')\n",
        "\ufeffpyautogui.press('a')\r\n",
        "keys = ['a']\npyautogui.press(*keys)",
        "press = pyautogui.press\npress('a')",
        "pyautogui.press('a');",
        "pass\npyautogui.press('a')  # comment",
    ],
)
def test_ways_to_press_a_key(code):
    assert act(code) == [PressKey(key="a")]


def test_sleep_in_all_spellings():
    imports = "import time\nfrom time import sleep\n"
    assert act(imports + "time.sleep(1); sleep(0.5); pyautogui.sleep(2); computer.wait(); computer.wait(3)") == [
        Wait(duration_s=second) for second in (1, 0.5, 2, 20.0, 3)
    ]


def test_hold_releases_after_break():
    code = (
        "for i in range(3):\n    with pyautogui.hold(['ctrl', 'shift']):\n        pyautogui.press('a')\n        break"
    )
    assert act(code) == [
        KeyDown(key="ctrl"),
        KeyDown(key="shift"),
        PressKey(key="a"),
        KeyUp(key="ctrl"),
        KeyUp(key="shift"),
    ]


def test_constants_and_questions_of_pyautogui():
    code = """
pyautogui.click(0.5, 0.5, button=pyautogui.RIGHT)
if pyautogui.onScreen(999, 499) and not pyautogui.onScreen(1000, 0) and pyautogui.onScreen((0, 0)):
    if pyautogui.isValidKey('enter') and not pyautogui.isValidKey('entre'):
        pyautogui.write(f'{pyautogui.size().width}x{pyautogui.resolution()[1]}')
pyautogui.failSafeCheck()
"""
    assert act(code) == [Click(x_px=500, y_px=250, button="right"), TypeText(text="1000x500")]


def test_comprehension_variables_stay_inside():
    assert typed("x = 'out'\ny = [x for x in 'ab']\npyautogui.write(x)") == ["out"]


@pytest.mark.parametrize(
    ("code", "terminate"),
    [
        ("computer.terminate('success')", Terminate(status="success")),
        ("computer.terminate(status='failure')", Terminate(status="failure")),
        ("computer.terminate('Success', 'done')", Terminate(status="success", answer="done")),
        (
            "computer.terminate(status='success', answer='3 tests failed')",
            Terminate(status="success", answer="3 tests failed"),
        ),
        ("computer.terminate(status='success', answer=42)", Terminate(status="success", answer="42")),
        (
            "computer.terminate(status='success', answer={'a': [1, None]})",
            Terminate(status="success", answer='{"a": [1, null]}'),
        ),
        ("computer.terminate(status='success', answer=None)", Terminate(status="success")),
        ("computer.terminate(status='success', answer='')", Terminate(status="success", answer="")),
    ],
)
def test_terminate(code, terminate):
    assert act(code) == [terminate]


@pytest.mark.parametrize("name", ["triple_click", "tripleClick"])
def test_older_spellings_of_a_triple_click(name):
    assert act(f"computer.{name}(0.5, 0.5)") == [Click(x_px=500, y_px=250, clicks=3)]


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ("computer.click(0.5, 0.5)", Click(x_px=500, y_px=250)),
        ("computer.double_click(x=0.5, y=0.5)", Click(x_px=500, y_px=250, clicks=2)),
        ("computer.right_click(0.5, 0.5)", Click(x_px=500, y_px=250, button="right")),
        ("computer.move_to(0.5, 0.5)", Move(x_px=500, y_px=250)),
        ("computer.type('hi')", TypeText(text="hi")),
        ("computer.write('hi')", TypeText(text="hi")),
        ("computer.key('enter')", PressKey(key="enter")),
    ],
)
def test_input_calls_on_computer(call, action):
    assert act(call) == [action]


def test_a_click_and_an_ending_in_one_block():
    assert act("pyautogui.click(0.5, 0.5)\ncomputer.terminate('success')") == [
        Click(x_px=500, y_px=250),
        Terminate(status="success"),
    ]


def test_typing_the_name_of_a_function_types_it():
    assert typed("pyautogui.write('computer.wait() and computer.terminate')") == [
        "computer.wait() and computer.terminate"
    ]


def test_texts_arrive_intact():
    text = 'It\'s "q" \\d C:\\new\n\ttab {braces} {{secret}} é 你好 👩‍👩‍👧 %s # no comment'
    assert typed(f"pyautogui.write({text!r})") == [text]
    assert typed("pyautogui.write('''line 1\n   \n    line 3''')") == ["line 1\n   \n    line 3"]
    assert typed("pyautogui.write(12.5)") == ["12.5"]


@pytest.mark.parametrize("code", ["", "  \n", "# nothing to do", "pass", "print(1)", "x = 1", "import time", "..."])
def test_code_that_does_nothing(code):
    assert act(code) == []


def test_limits_can_be_set():
    assert act("time.sleep(600)", limits=CodeLimits(max_wait_s=600)) == [Wait(duration_s=600)]
