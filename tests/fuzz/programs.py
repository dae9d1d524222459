"""Random programs: tame ones of what models are supposed to write, wild ones of everything else, and mixtures."""

from hypothesis import strategies as st

# Tame: well-typed, on variables that exist. Most of these are carried out.

PREAMBLE = "import pyautogui\nx = 0.25\ny = 0.5\ni = 3\ntext = 'abc'\nkeys = ['a', 'enter']\npos = (0.5, 0.75)"

_FRACTION = st.floats(0, 1, allow_nan=False).map(repr) | st.sampled_from(["x", "y", "x + 0.1", "y / 2", "pos[0]", "1"])
_INTEGER = st.integers(0, 5).map(str) | st.sampled_from(["i", "len(keys)", "i % 2", "i // 2 + 1", "round(x * 10)"])
_NUMBER = st.recursive(
    _FRACTION | _INTEGER,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("abs({})".format, inner),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("({} if {} < {} else {})".format, inner, inner, inner, inner),
    ),
    max_leaves=4,
)
_WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12).map(repr),
    st.builds("str({})".format, _NUMBER),
    st.builds("f'<{{{}:.2f}}>'".format, st.sampled_from(["x", "y", "x * i"])),
    st.sampled_from(
        ["text", "text.upper()", "text * i", "'-'.join(keys)", "text[::-1]", "'{}!'.format(text)", "text[i - 1]"]
    ),
)
_KEY = st.sampled_from(["'enter'", "'a'", "'A'", "'ctrl'", "'pgdn'", "'é'", "keys[0]", "keys[-1]"])
_BUTTON = st.sampled_from(["'left'", "'right'", "pyautogui.MIDDLE"])

_TAME_SIMPLE = st.one_of(
    st.builds("pyautogui.click({}, {})".format, _NUMBER, _NUMBER),
    st.builds("pyautogui.click(x={}, y={}, clicks={}, button={})".format, _FRACTION, _FRACTION, _INTEGER, _BUTTON),
    st.builds("pyautogui.doubleClick(({}, {}))".format, _FRACTION, _FRACTION),
    st.builds("pyautogui.moveTo({}, {}, duration=0.{})".format, _NUMBER, _NUMBER, st.integers(0, 9)),
    st.builds("pyautogui.moveRel({}, -{})".format, _NUMBER, _NUMBER),
    st.builds("pyautogui.dragTo({}, {}, 0.5, button={})".format, _NUMBER, _NUMBER, _BUTTON),
    st.builds("pyautogui.drag({}, {})".format, _NUMBER, _NUMBER),
    st.builds("pyautogui.scroll(-{}, {}, {})".format, _INTEGER, _FRACTION, _FRACTION),
    st.builds("pyautogui.hscroll({})".format, _INTEGER),
    st.builds("pyautogui.write({})".format, _WORDS),
    st.builds("pyautogui.press({}, presses={})".format, _KEY, _INTEGER),
    st.builds("pyautogui.hotkey('ctrl', {})".format, _KEY),
    st.builds("pyautogui.keyDown({}); pyautogui.keyUp({})".format, _KEY, _KEY),
    st.builds("pyautogui.mouseDown(button={})".format, _BUTTON),
    st.builds("time.sleep(0.{})".format, st.integers(0, 9)),
    st.builds("x = {}".format, _FRACTION),
    st.builds("x, y = {}, {}".format, _FRACTION, _FRACTION),
    st.builds("i += {}".format, _INTEGER),
    st.builds("text += {}".format, _WORDS),
    st.builds("keys.append({})".format, _KEY),
    st.sampled_from(
        ["print(x, y)", "pos = pyautogui.position()", "w, h = pyautogui.size()", "pass", "pyautogui.press(keys)"]
    ),
)


def _indent(block):
    return "\n".join("    " + line for line in block.split("\n"))


def _bodies(inner):
    return st.lists(inner, min_size=1, max_size=3).map("\n".join).map(_indent)


def _tame_compound(inner):
    body = _bodies(inner)
    return st.one_of(
        st.builds("if {} < {}:\n{}\nelse:\n{}".format, _NUMBER, _NUMBER, body, body),
        st.builds("for n in range({}):\n{}".format, _INTEGER, body),
        st.builds("for key in keys:\n    pyautogui.press(key)\n{}".format, body),
        st.builds("n = 0\nwhile n < {}:\n    n += 1\n{}".format, st.integers(0, 3), body),
        st.builds("with pyautogui.hold('shift'):\n{}".format, body),
    )


TAME = st.recursive(_TAME_SIMPLE, _tame_compound, max_leaves=5)
TAME_PROGRAMS = st.lists(TAME, min_size=1, max_size=4).map(lambda statements: "\n".join([PREAMBLE, *statements]))

# Wild: syntax of every kind, on values of every kind. Most of these are refused.

_NAME = st.sampled_from(
    ["x", "y", "i", "pos", "text", "keys", "pyautogui", "time", "computer", "math", "len", "undefined"]
)
_ATOM = st.one_of(
    _NAME,
    st.integers(-3, 2000).map(str),
    st.floats(-2, 2).map(repr),
    st.text(max_size=12).map(repr),
    st.sampled_from(["10**9", "1e400", "2**63", "True", "None", "1j", "0x7fffffffffffffff", "b'a'", "{1, 2}", "..."]),
    st.sampled_from(["'{0.__class__}'", "f'{x}'", "f'{x:>9}'", "f'{1:{x}}'", "f'{keys!r:>400}'", "'\\ud800'"]),
)
_FUNCTION = st.sampled_from(
    """pyautogui.click pyautogui.moveTo pyautogui.moveRel pyautogui.dragTo pyautogui.dragRel pyautogui.scroll
    pyautogui.hscroll pyautogui.press pyautogui.write pyautogui.hotkey pyautogui.keyDown pyautogui.keyUp
    pyautogui.mouseDown pyautogui.mouseUp pyautogui.doubleClick pyautogui.rightClick pyautogui.position
    pyautogui.size pyautogui.onScreen pyautogui.hold pyautogui.sleep pyautogui.screenshot pyautogui.clik time.sleep
    computer.wait computer.terminate computer.triple_click math.sqrt math.floor range len int float str round abs
    min max sum sorted list tuple dict zip enumerate reversed print chr ord divmod eval getattr x.__class__
    keys.append keys.insert keys.pop [].extend text.upper text.format text.join text.replace text.split
    text.zfill text.center""".split()
)
_KEYWORD = st.sampled_from("x y clicks interval button duration presses keys status answer seconds default key".split())
_OPERATOR = st.sampled_from("+ - * / // % ** << >> & | ^ == != < <= in is and or @".split()) | st.just("not in")


def _wild(inner):
    arguments = st.builds(
        lambda args, kwargs: ", ".join([*args, *(f"{name}={value}" for name, value in kwargs.items())]),
        st.lists(inner, max_size=3),
        st.dictionaries(_KEYWORD, inner, max_size=2),
    )
    return st.one_of(
        st.builds("({} {} {})".format, inner, _OPERATOR, inner),
        st.builds("({}{})".format, st.sampled_from(["-", "+", "~", "not "]), inner),
        st.builds("{}({})".format, _FUNCTION, arguments),
        st.builds("{}(*{})".format, _FUNCTION, inner),
        st.builds("[{}]".format, st.lists(inner, max_size=4).map(", ".join)),
        st.builds("({},)".format, inner),
        st.builds("{{{}: {}}}".format, inner, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("({})[{}:{}]".format, inner, inner, inner),
        st.builds("[{} for i in {} if {}]".format, inner, inner, inner),
        st.builds("({}).{}".format, inner, st.sampled_from("x width upper append __class__ __dict__ click".split())),
        st.builds("(lambda: {})".format, inner),
    )


WILD_EXPRESSIONS = st.recursive(_ATOM, _wild, max_leaves=8)
_TARGET = st.sampled_from(
    ["x", "y", "x, y", "(x, (y, i))", "keys[0]", "x.y", "pyautogui.PAUSE", "pos", "pyautogui", "keys[:]"]
)
_WILD_SIMPLE = st.one_of(
    WILD_EXPRESSIONS,
    st.builds("{} = {}".format, _TARGET, WILD_EXPRESSIONS),
    st.builds(
        "{} {}= {}".format, st.sampled_from(["x", "keys[0]"]), st.sampled_from("+ - * ** //".split()), WILD_EXPRESSIONS
    ),
    st.sampled_from(
        ["break", "continue", "import os", "import pyautogui as x", "return", "del x", "global x", "raise x"]
    ),
)


def _wild_compound(inner):
    body = _bodies(inner)
    return st.one_of(
        st.builds("if {}:\n{}".format, WILD_EXPRESSIONS, body),
        st.builds("for {} in {}:\n{}".format, st.sampled_from(["i", "i, x", "keys[0]"]), WILD_EXPRESSIONS, body),
        st.builds("while {}:\n{}".format, WILD_EXPRESSIONS, body),
        st.builds("with pyautogui.hold({}):\n{}".format, WILD_EXPRESSIONS, body),
        st.builds("def f():\n{}".format, body),
        st.builds("try:\n{}\nfinally:\n{}".format, body, body),
    )


WILD = st.recursive(_WILD_SIMPLE, _wild_compound, max_leaves=4)
WILD_PROGRAMS = st.lists(TAME | WILD, min_size=1, max_size=4).map(lambda statements: "\n".join([PREAMBLE, *statements]))

PROGRAMS = TAME_PROGRAMS | WILD_PROGRAMS
