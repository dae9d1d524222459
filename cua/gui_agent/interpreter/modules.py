"""Modules that code may use, their constants and functions, and the messages for other imports."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from cua.gui_agent.interpreter.arguments import (
    COMPUTER,
    COMPUTER_ALIASES,
    PYAUTOGUI,
    PYAUTOGUI_ALIASES,
    CallArguments,
    bind,
    guess,
)
from cua.gui_agent.interpreter.builtins import MATH, MATH_CONSTANTS, NAMES, call_builtin, call_math
from cua.gui_agent.interpreter.limits import Refused
from cua.gui_agent.interpreter.pyautogui_calls import call_pyautogui, check_name
from cua.gui_agent.interpreter.recording import ActionRecording
from cua.gui_agent.interpreter.values import Function, Module, Tween, Value, is_number, kind, short
from envs import Terminate

WAIT_S = 20.0
"""Seconds that `computer.wait()` waits. Source: the report's system prompt (Appendix E.7)."""


def call_computer(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], recording: ActionRecording) -> Value:
    """Execute `computer.<name>(*args, **kwargs)`; input functions are passed on to pyautogui's."""
    shown = f"computer.{name}"
    if name == "wait":
        arguments = CallArguments(shown, bind(shown, COMPUTER["wait"], args, kwargs), recording)
        recording.pause(arguments.duration_s("seconds") if "seconds" in arguments.given else WAIT_S)
        return None
    if name == "terminate":
        values = bind(shown, COMPUTER["terminate"], args, kwargs)
        recording.add(Terminate(status=_status(values["status"]), answer=_answer(values.get("answer"))))
        return None
    target = COMPUTER_ALIASES.get(name, name)
    if target in PYAUTOGUI or target in PYAUTOGUI_ALIASES:
        return call_pyautogui(target, args, kwargs, recording, shown_as=shown)
    known = [*COMPUTER, *COMPUTER_ALIASES, *PYAUTOGUI]
    raise Refused(f"computer has no function {name!r}{guess(name, known)}; use pyautogui for mouse and keyboard")


def _status(value: Value) -> Literal["success", "failure"]:
    match value.strip().lower() if isinstance(value, str) else value:
        case "success":
            return "success"
        case "failure":
            return "failure"
        case _:
            raise Refused(f"computer.terminate(): status must be 'success' or 'failure', got {short(value)}")


def _answer(value: Value) -> str | None:
    """Return the answer as text; a list or dict becomes JSON, for tasks that require structured answers."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | list | tuple | dict):
        try:
            return json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError):
            raise Refused("computer.terminate(): answer must be a text") from None
    if is_number(value):
        return str(value)
    raise Refused(f"computer.terminate(): answer must be a text, not {kind(value)}")


MARK = "mark"
"""Function that returns the center of a numbered box, for models that see numbered boxes."""
MODULES = ("pyautogui", "time", "math", "computer")

_CONSTANTS = {name: name.lower() for name in ("LEFT", "MIDDLE", "RIGHT", "PRIMARY", "SECONDARY")}
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
    """Return the module of an import statement."""
    if name in MODULES:
        return Module(name)
    root = name.split(".")[0][:40]
    instead = _INSTEAD.get(root, "use the mouse and the keyboard on the screen")
    raise Refused(f"{root} cannot be imported here, only pyautogui, time and math: {instead}")


def attribute(module: Module, name: str) -> Value:
    """Return `module.name`: a constant, or a function to call."""
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
            raise Refused(f"math.{name[:40]} is not supported{guess(name, [*MATH, *MATH_CONSTANTS])}")
        case "time" if name != "sleep":
            raise Refused(f"time.{name[:40]} is not supported here, only time.sleep(seconds)")
        case _:
            pass
    return Function(module.name, name)


def check_setting(module: Module, name: str) -> None:
    """Accept `pyautogui.PAUSE = ...` and similar settings, which have no effect here."""
    if module.name != "pyautogui" or name not in _SETTINGS:
        raise Refused(f"{module.name}.{name[:40]} cannot be set")


def call_function(
    function: Function, args: Sequence[Value], kwargs: Mapping[str, Value], recording: ActionRecording
) -> Value:
    """Call a function of a module or a built-in function."""
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
        case _ if function.name == MARK:
            return recording.mark(**bind(MARK, "number!", args, kwargs))
        case _:
            return call_builtin(function.name, args, kwargs, budget)


def lookup(name: str) -> Value:
    """Return the value of a name that the code has not assigned."""
    if name in MODULES:
        return Module(name)
    if name in NAMES or name == MARK:
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
