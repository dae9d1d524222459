"""Everything that code may not do: refused at once, with a text that the model can act on."""

import time
import warnings

import pytest

from cua.errors import CodeError
from cua.gui_agent.interpreter import run
from envs import ScreenGeometry
from tests.tables import table

GEOMETRY = ScreenGeometry(native_px=(1000, 500), sent_px=(1000, 500))


def refusal(code):
    """The text of the refusal."""
    with pytest.raises(CodeError) as caught:
        run(code, GEOMETRY)
    return str(caught.value)


@table(
    ("code", "text"),
    [
        ("import os", "line 1: os cannot be imported here, only pyautogui, time and math: files and programs"),
        ("import os.path", "line 1: os cannot be imported here"),
        ("from subprocess import run", "line 1: subprocess cannot be imported here"),
        ("from . import x", "cannot be imported here"),
        ("import pyperclip", "to enter text, any language, write pyautogui.write('text')"),
        ("from pyautogui import *", "write import pyautogui and call pyautogui.name(...)"),
        ("pyautogui.clik(0.1, 0.1)", "pyautogui has no function 'clik' (did you mean 'click'?)"),
        ("pyautogui.double_click(0.1, 0.1)", "(did you mean 'doubleClick'?)"),
        ("pyautogui.screenshot()", "a new screenshot comes with every step"),
        ("pyautogui.locateOnScreen('a.png')", "read the place off the screenshot"),
        ("pyautogui.alert('x')", "a message box cannot be answered here"),
        ("pyautogui.getActiveWindow()", "windows cannot be addressed by title"),
        ("pyautogui.click('button.png')", "cannot look for an image or read a text ('button.png')"),
        ("pyautogui.click(0.1, 0.1, buton='left')", "has no argument 'buton' (did you mean 'button'?)"),
        ("pyautogui.click(1,2,3,4,5,6,7,8,9,10)", "takes at most 9 arguments (x, y, clicks, interval"),
        ("pyautogui.click(0.1, x=0.1)", "got 'x' twice"),
        ("pyautogui.click((0.1, 0.2), 0.3)", "give a point as (x, y) or as two numbers, not both"),
        ("pyautogui.click((1, 2, 3))", "a point has two numbers, got 3"),
        ("pyautogui.click(0.1, 0.1, clicks=1.5)", "clicks must be a whole number, got 1.5"),
        ("pyautogui.click(0.1, 0.1, button=9)", "button must be 'left', 'middle' or 'right', got 9"),
        ("pyautogui.click(0.1, 0.1, interval=-1)", "interval cannot be negative"),
        ("pyautogui.scroll()", "needs the argument 'clicks'"),
        ("pyautogui.scroll(0.5)", "takes whole notches of the wheel such as 5 or -5, got 0.5"),
        ("pyautogui.scroll(-100000)", "at most 1000 notches"),
        ("pyautogui.press('entre')", "unknown key 'entre'; did you mean 'enter'"),
        ("pyautogui.press('hello world')", "To type text, write pyautogui.write(...)"),
        ("pyautogui.press('a' * 5000)", "is not a key. To type text, write pyautogui.write(...)"),
        ("pyautogui.press('ctrl+c')", "'ctrl+c' is not one key: write pyautogui.hotkey('ctrl', 'c')"),
        ("pyautogui.hotkey()", "needs at least one key"),
        ("pyautogui.hotkey('ctrl', 3)", "a key is a text such as 'enter' or 'a', not a number"),
        ("pyautogui.hotkey(['ctrl'], 'a')", "give keys one by one or as one list, not both"),
        ("pyautogui.hold('shift')", "write with pyautogui.hold('shift'): ..."),
        ("pyautogui.write(None)", "needs a text, not None"),
        ("pyautogui.write('\\x08')", "the character '\\x08' cannot be typed"),
        ("pyautogui.write('\\ud800')", "the character '\\ud800' cannot be typed"),
        ("pyautogui.click", "pyautogui.click is not called: write pyautogui.click(...) with parentheses"),
        ("pyautogui.click.real", "pyautogui.click has no attribute 'real' here"),
        ("pyautogui.PAUSE", "pyautogui.PAUSE cannot be read here"),
        ("pyautogui.click = 1", "pyautogui.click cannot be set"),
        ("time.time()", "only time.sleep(seconds)"),
        ("time.sleep('1')", "seconds must be a number, not a text"),
        ("time.sleep(61)", "this code waits 61 s in all and at most 60 s are possible in one step"),
        ("for i in range(4): time.sleep(20)", "waits 80 s in all"),
        ("pyautogui.write('x' * 1000, interval=0.1)", "waits 100 s in all"),
        ("for i in range(501): pyautogui.press('a')", "more than 500 actions in one step"),
        (
            "for i in range(3): pyautogui.press('a', presses=1000)",
            "makes 3000 clicks, key presses and wheel notches in all and at most 2000 are possible in one step",
        ),
        ("for i in range(3): pyautogui.click(0.5, 0.5, clicks=999)", "makes 2997 clicks, key presses"),
        ("for i in range(3): pyautogui.scroll(-999)", "makes 2997 clicks, key presses and wheel notches"),
        ("for i in range(300): pyautogui.hotkey('ctrl', *['a'] * 9)", "makes 2010 clicks, key presses"),
        (
            "for i in range(3): pyautogui.write('x' * 29999)",
            "types 89997 characters in all and at most 60000 are possible in one step",
        ),
        ("computer.terminate()", "computer.terminate() needs the argument 'status'"),
        ("computer.terminate('done')", "status must be 'success' or 'failure', got 'done'"),
        ("computer.fly()", "computer has no function 'fly'"),
        (
            "computer.terminate('success')\npyautogui.click(0.1, 0.1)",
            "line 2: nothing can follow computer.terminate(...)",
        ),
        ("with pyautogui.hold('a'):\n    computer.terminate('success')", "nothing can follow computer.terminate(...)"),
        ('{"name": "x"}', "a dict does nothing: write computer.terminate(status='success')"),
        ("click(0.1, 0.1)", "the name 'click' is not defined: write pyautogui.click(...)"),
        ("terminate('success')", "write computer.terminate(...)"),
        ("sleep(1)", "write time.sleep(seconds)"),
        ("x = true", "write True"),
        ("open('/etc/passwd')", "only mouse and keyboard can be used here"),
        ("__import__('os')", "only mouse and keyboard can be used here"),
        ("def f(): pass", "functions cannot be defined here"),
        ("class A: pass", "classes cannot be defined here"),
        ("lambda: 1", "lambda cannot be used here"),
        ("try:\n    pass\nexcept Exception:\n    pass", "try cannot be used here"),
        ("raise ValueError", "write computer.terminate(status='failure')"),
        ("with open('x') as f:\n    pass", "with can only be used as: with pyautogui.hold('shift'):"),
        ("with 1:\n    pass", "with can only be used as"),
        ("assert False", "assert cannot be used here"),
        ("del x", "del cannot be used here"),
        ("return 1", "return cannot be used here"),
        ("break", "break and continue can only be used in a loop"),
        ("(y := 5)", ":= cannot be used here"),
        ("{1, 2}", "a set cannot be used here"),
        ("x @ y", "the name 'x' is not defined"),
        ("1 @ 2", "the operator @ is not supported"),
        ("'a' + 1", "cannot compute a text + a number (make a text of a number with str(...))"),
        ("'%d' % 1", "write an f-string such as f'{x}'"),
        ("x = 1\nx.y = 2", "line 2: attributes of a number cannot be set"),
        ("a, b = 1, 2, 3", "cannot unpack 3 values into 2 names"),
        ("for i in 5: pass", "cannot loop over a number"),
        ("1 / 0", "line 1: ZeroDivisionError: division by zero"),
        ("[][0]", "line 1: IndexError: list index out of range"),
        ("int('x')", "line 1: ValueError: invalid literal for int()"),
        ("x = 1\n\nif x:\n    y = {}['k']", "line 4: KeyError: 'k'"),
        (
            "pyautogui.click(0.5, 0.5",
            "line 1: this is not valid Python: '(' was never closed in pyautogui.click(0.5, 0.5",
        ),
        ("pyautogui.write('it's')", "line 1: this is not valid Python"),
    ],
)
def test_refused_with_a_reason(code, text):
    assert text in refusal(code)


_ESCAPES = [
    "().__class__.__base__.__subclasses__()",
    "pyautogui.click.__globals__",
    "pyautogui.__builtins__",
    "''.__class__",
    "'{0.__class__}'.format(1)",
    "'{0[0]}'.format([1])",
    "'{x.__class__}'.format(x=1)",
    "'{}'.format_map({})",
    "f'{().__class__}'",
    "getattr(1, 'real')",
    "type(1)",
    "eval('1')",
    "exec('1')",
    "globals()",
    "vars()",
    "__builtins__",
    "__name__",
    "str.upper('a')",
    "[].__reduce__()",
    "pyautogui.size().__class__",
    "pyautogui.position()._replace(x=1)",
    "pyautogui.size()._asdict()",
    "math.__loader__",
    "time.__spec__",
    "print.__self__",
    "async def f(): pass",
    "@print\ndef f(): pass",
    "x = b'abc'",
    "x = 1j",
]


@table("code", _ESCAPES)
def test_there_is_no_way_out(code):
    assert refusal(code)


_BOMBS = {
    "power": "10**10**10",
    "power of a negative": "(-9)**9**9",
    "power in steps": "x = 10\nwhile True: x = x * x",
    "shift": "1<<10**9",
    "text": "'a'*10**9",
    "text doubled": "x = 'a'\nwhile True: x += x",
    "list": "[0]*10**9",
    "tuple": "(1,)*10**9",
    "list doubled": "x = [0]\nwhile True: x = [x, x]",
    "format width": "f'{1:999999999}'",
    "format width of a value": "f'{1:{10**9}}'",
    "format precision": "f'{1.0:.999999999f}'",
    "str.format": "'{:999999999}'.format(1)",
    "zfill": "'1'.zfill(10**9)",
    "center": "'1'.center(10**9)",
    "replace": "('a'*50000).replace('', 'b'*50000)",
    "join": "('a'*50000).join(['b']*50000)",
    "round": "round(5, -10**9)",
    "range": "list(range(10**12))",
    "sum": "sum(range(10**12))",
    "membership": "'a' in range(10**12)",
    "endless": "while True: pass",
    "nested loops": "for a in range(9999):\n    for b in range(9999): pass",
    "comprehension": "[0 for a in range(9999) for b in range(9999)]",
    "slow search": "x = 'a'*50000\nwhile True: x.find('a'*20000 + 'b')",
    "slow sorting": "x = list(range(9999))\nwhile True: sorted(x)",
    "slow insertion": "x = [0]*50000\nwhile True: x.insert(0, 1)",
    "a list in itself": "a = []\na.append(a)\nprint(str(a))",
    "a dict in itself": "d = {}\nd['a'] = d\ncomputer.terminate('success', d)",
    "deep lists": "x = []\ny = []\nfor i in range(900):\n    x = [x]\n    y = [y]\nx == y\nstr(x)\nwhile True: pass",
    "big number": "x = 0x" + "f" * 50_000,
    "long number": "1" * 50_000,
    "number from text": "int('f' * 50000, 16)",
    "many actions": "for i in range(5000): pyautogui.press('a')",
    "many presses": "pyautogui.press('a', presses=10**9)",
    "many clicks": "pyautogui.click(clicks=10**18)",
    "many keys": "pyautogui.hotkey(*['a'] * 5000)",
    "parentheses": "(" * 10_000,
    "closed parentheses": "(" * 10_000 + "1" + ")" * 10_000,
    "brackets": "[" * 50_000,
    "signs": "-" * 50_000 + "1",
    "nots": "not " * 10_000 + "1",
    "attributes": "a" + ".b" * 20_000,
    "calls": "f" + "()" * 20_000,
    "sums": "+".join("1" * 20_000),
    "powers": "**".join("2" * 15_000),
    "lambdas": "lambda:" * 8_000 + "1",
    "conditions": "1 if 1 else " * 4_000 + "1",
    "branches": "if 0:\n pass\n" + "elif 0:\n pass\n" * 4_000,
    "dicts": "{1:" * 15_000,
    "nested f-strings": "f'" + '{f"' * 2_000,
    "null byte": "x = 1\0",
    "half character": "x = '\ud800'",
    "much code": "x = 1\n" * 20_000,
}


@pytest.mark.long
@table("name", _BOMBS)
def test_bombs_are_refused_fast(name):
    started = time.thread_time()
    text = refusal(_BOMBS[name])
    assert time.thread_time() - started < 2.0
    assert 0 < len(text) < 500


def test_refusals_can_be_printed():
    for code in ("x = '\ud800'", "pyautogui.press('\ud800\ud800')", "\ud800", "pyautogui.write(chr(0xd800))"):
        refusal(code).encode("utf-8")


def test_nothing_is_warned_about():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(r"pyautogui.write('\d'); x = 1 is 1; y = 1or 2", GEOMETRY)
    assert caught == []


def test_all_or_nothing_within_a_block():
    assert refusal("pyautogui.click(0.5, 0.5)\npyautogui.press('nokey')").startswith("line 2: ")
