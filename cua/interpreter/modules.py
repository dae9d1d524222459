"""The modules that code may use, their constants and functions, and why others cannot be imported."""

from collections.abc import Mapping, Sequence

from cua.interpreter.computer_calls import call_computer
from cua.interpreter.functions import MATH, MATH_CONSTANTS, NAMES, call_builtin, call_math
from cua.interpreter.limits import Refused
from cua.interpreter.pyautogui_calls import call_pyautogui, check_name
from cua.interpreter.recording import Recording
from cua.interpreter.signatures import nearest
from cua.interpreter.values import Function, Module, Tween, Value

MODULES = ("pyautogui", "time", "math", "computer")

_CONSTANTS = {
    "LEFT": "left",
    "MIDDLE": "middle",
    "RIGHT": "right",
    "PRIMARY": "primary",
    "SECONDARY": "secondary",
}
_SETTINGS = frozenset("PAUSE FAILSAFE MINIMUM_DURATION MINIMUM_SLEEP LOG_SCREENSHOTS DARWIN_CATCH_UP_TIME".split())

_INSTEAD = {
    "pyperclip": "to enter text, any language, write pyautogui.write('text'); to copy, pyautogui.hotkey('ctrl', 'c')",
    "subprocess": "programs cannot be started from code: use the mouse and the keyboard on the screen",
    "os": "files and programs cannot be reached from code: use the mouse and the keyboard on the screen",
    "sys": "only mouse and keyboard can be used",
    "random": "write the number itself",
    "keyboard": "use pyautogui.press, pyautogui.hotkey and pyautogui.write",
    "mouse": "use pyautogui.click and pyautogui.moveTo",
    "pynput": "use pyautogui",
    "selenium": "use pyautogui on what the screenshot shows",
    "playwright": "use pyautogui on what the screenshot shows",
}


def import_module(name: str) -> Module:
    """The module that an import statement names.

    Raises:
        Refused: It is not one of the four; the text says what to write instead.
    """
    if name in MODULES:
        return Module(name)
    root = name.split(".")[0][:40]
    instead = _INSTEAD.get(root, "use the mouse and the keyboard on the screen")
    raise Refused(f"{root} cannot be imported here, only pyautogui, time and math: {instead}")


def attribute(module: Module, name: str) -> Value:
    """`module.name`: a constant, or a function to call.

    Raises:
        Refused: No such name.
    """
    match module.name:
        case "pyautogui" if name in _CONSTANTS:
            return _CONSTANTS[name]
        case "pyautogui" if name in _SETTINGS:
            raise Refused(f"pyautogui.{name} cannot be read here, and has no effect")
        case "pyautogui" if name.startswith("ease") or name == "linear":
            return Tween(name)
        case "pyautogui":
            check_name(name)
        case "math" if name in MATH_CONSTANTS:
            return MATH_CONSTANTS[name]
        case "math" if name not in MATH:
            raise Refused(f"math.{name[:40]} is not supported{nearest(name, [*MATH, *MATH_CONSTANTS])}")
        case "time" if name != "sleep":
            raise Refused(f"time.{name[:40]} is not supported here, only time.sleep(seconds)")
        case _:
            pass
    return Function(module.name, name)


def check_setting(module: Module, name: str) -> None:
    """Accept `pyautogui.PAUSE = ...` and its like, which have no effect here.

    Raises:
        Refused: Not a setting of pyautogui.
    """
    if module.name != "pyautogui" or name not in _SETTINGS:
        raise Refused(f"{module.name}.{name[:40]} cannot be set")


def call(function: Function, args: Sequence[Value], kwargs: Mapping[str, Value], recording: Recording) -> Value:
    """Call a function of a module, or one of Python's own.

    Raises:
        Refused: As the functions themselves.
    """
    budget = recording.budget
    for argument in [*args, *kwargs.values()]:
        budget.check(argument)
    match function.module:
        case "pyautogui":
            return call_pyautogui(function.name, args, kwargs, recording)
        case "computer":
            return call_computer(function.name, args, kwargs, recording)
        case "time":
            return call_pyautogui("sleep", args, kwargs, recording, shown_as="time.sleep")
        case "math":
            return call_math(function.name, args, budget)
        case _:
            return call_builtin(function.name, args, kwargs, budget)


def lookup(name: str) -> Value:
    """What a name means that the code has not assigned.

    Raises:
        Refused: Nothing.
    """
    if name in MODULES:
        return Module(name)
    if name in NAMES:
        return Function("", name)
    if name == "pg" or name == "pag":
        raise Refused(f"{name} is not defined: write pyautogui")
    raise Refused(f"the name {name[:40]!r} is not defined{_hint(name)}")


def _hint(name: str) -> str:
    if name in ("true", "false", "null", "none"):
        return f": write {'None' if name in ('null', 'none') else name.capitalize()}"
    if name in ("wait", "terminate"):
        return f": write computer.{name}(...)"
    if name in ("sleep",):
        return ": write time.sleep(seconds)"
    if name in ("open", "exec", "eval", "input", "getattr", "setattr", "compile", "__import__", "globals", "vars"):
        return ": only mouse and keyboard can be used here"
    try:
        check_name(name)
    except Refused:
        return ""
    return f": write pyautogui.{name}(...)"
