"""Random programs: valid Python from a grammar, about half of it what the interpreter supports."""

from hypothesis import strategies as st

NAMES = st.sampled_from(["x", "y", "i", "pos", "pyautogui", "time", "computer", "math", "print", "len", "undefined"])
NUMBERS = st.one_of(
    st.integers(-3, 2000).map(str),
    st.floats(-2, 2, allow_nan=False).map(repr),
    st.sampled_from(["0.5", "1", "0", "10**9", "1e400", "2**63", "True", "1j", "0x7fffffffffffffff"]),
)
TEXTS = st.one_of(
    st.text(max_size=12).map(repr),
    st.sampled_from(
        ["'enter'", "'ctrl'", "'left'", "'{}'", "'{0.__class__}'", "f'{x}'", "f'{x:>9}'", "f'{1:{x}}'", "b'a'"]
    ),
)
FUNCTIONS = st.sampled_from(
    """pyautogui.click pyautogui.moveTo pyautogui.moveRel pyautogui.dragTo pyautogui.dragRel pyautogui.scroll
    pyautogui.hscroll pyautogui.press pyautogui.write pyautogui.hotkey pyautogui.keyDown pyautogui.keyUp
    pyautogui.mouseDown pyautogui.mouseUp pyautogui.doubleClick pyautogui.rightClick pyautogui.position
    pyautogui.size pyautogui.onScreen pyautogui.hold pyautogui.sleep pyautogui.screenshot pyautogui.clik time.sleep
    computer.wait computer.terminate computer.triple_click math.sqrt math.floor range len int float str round abs
    min max sum sorted list tuple dict zip enumerate print chr ord eval getattr x.append x.upper x.format x.join
    x.replace x.split x.get x.pop x.__class__ ''.join '{}'.format [].append""".split()
)
KEYWORDS = st.sampled_from(
    "x y clicks interval button duration presses keys status answer seconds default bogus".split()
)
EXTRA_OPERATORS = ["not in", "is not", "@"]
OPERATORS = st.sampled_from("+ - * / // % ** << >> & | ^ == != < <= in is and or".split() + EXTRA_OPERATORS)


def _expressions(inner):
    arguments = st.builds(
        lambda args, kwargs: ", ".join([*args, *(f"{name}={value}" for name, value in kwargs.items())]),
        st.lists(inner, max_size=3),
        st.dictionaries(KEYWORDS, inner, max_size=2),
    )
    return st.one_of(
        st.builds("({} {} {})".format, inner, OPERATORS, inner),
        st.builds("({}{})".format, st.sampled_from(["-", "+", "~", "not "]), inner),
        st.builds("{}({})".format, FUNCTIONS, arguments),
        st.builds("[{}]".format, st.lists(inner, max_size=4).map(", ".join)),
        st.builds("({},)".format, inner),
        st.builds("{{{}: {}}}".format, inner, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("{}[{}:{}]".format, inner, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{} for i in {}]".format, inner, inner),
        st.builds("{}.{}".format, inner, st.sampled_from("x width upper append __class__ __dict__ click".split())),
        st.builds("(lambda: {})".format, inner),
        st.builds("*{}".format, inner),
    )


EXPRESSIONS = st.recursive(st.one_of(NAMES, NUMBERS, TEXTS), _expressions, max_leaves=12)
TARGETS = st.sampled_from(["x", "y", "x, y", "(x, (y, i))", "x[0]", "x.y", "pyautogui.PAUSE", "pos", "pyautogui"])


def _indent(block):
    return "\n".join("    " + line for line in block.split("\n"))


def _statements(inner):
    body = st.lists(inner, min_size=1, max_size=3).map("\n".join).map(_indent)
    return st.one_of(
        st.builds("if {}:\n{}\nelse:\n{}".format, EXPRESSIONS, body, body),
        st.builds("for {} in {}:\n{}".format, st.sampled_from(["i", "i, x"]), EXPRESSIONS, body),
        st.builds("for i in range({}):\n{}".format, NUMBERS, body),
        st.builds("while {}:\n{}".format, EXPRESSIONS, body),
        st.builds("with pyautogui.hold({}):\n{}".format, TEXTS, body),
        st.builds("def f():\n{}".format, body),
        st.builds("try:\n{}\nfinally:\n{}".format, body, body),
    )


SIMPLE = st.one_of(
    EXPRESSIONS,
    st.builds("{} = {}".format, TARGETS, EXPRESSIONS),
    st.builds("{} {}= {}".format, st.sampled_from(["x", "x[0]"]), st.sampled_from("+ - * ** //".split()), EXPRESSIONS),
    st.sampled_from(["break", "continue", "pass", "import os", "import pyautogui as x", "return"]),
    st.builds("pyautogui.click({}, {})".format, NUMBERS, NUMBERS),
    st.builds("pyautogui.write({})".format, TEXTS),
)
PROGRAMS = st.lists(st.recursive(SIMPLE, _statements, max_leaves=6), min_size=1, max_size=5).map("\n".join)
