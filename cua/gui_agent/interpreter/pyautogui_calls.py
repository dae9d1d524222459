"""pyautogui's functions by name: one closed table.

Source: pyautogui 0.9.54. Differences, all on purpose: key names and buttons that it would silently drop are
refused; `tween`, `logScreenshot`, `_pause` and the interval of `hotkey` are accepted and have no effect.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from cua.gui_agent.interpreter import input_calls
from cua.gui_agent.interpreter.arguments import PYAUTOGUI, PYAUTOGUI_ALIASES, Arguments, bind, guess
from cua.gui_agent.interpreter.limits import Refused
from cua.gui_agent.interpreter.recording import Recording
from cua.gui_agent.interpreter.values import Value, short
from envs import KeyDown, KeyUp, MouseDown, MouseUp
from envs.actions import normalize_key

_Call: TypeAlias = Callable[[Arguments], Value]

_NOT_HERE = {
    **dict.fromkeys(
        ["screenshot", "pixel", "pixelMatchesColor", "snapshot"],
        "a new screenshot comes with every step: end the code here and look at it",
    ),
    **dict.fromkeys(
        [
            "locate",
            "locateAll",
            "locateOnScreen",
            "locateAllOnScreen",
            "locateCenterOnScreen",
            "center",
            "locateOnWindow",
        ],
        "image files cannot be searched for: read the place off the screenshot and give x and y",
    ),
    **dict.fromkeys(
        ["alert", "confirm", "prompt", "password"],
        "nobody would answer a message box: say it in the Action section or in computer.terminate(answer=...)",
    ),
    **dict.fromkeys(
        ["getActiveWindow", "getActiveWindowTitle", "getWindowsWithTitle", "getAllWindows", "getWindowsAt", "Window"],
        "windows cannot be addressed by title: click on them",
    ),
    "run": "write the calls themselves",
    "countdown": "write time.sleep(seconds)",
}


def call_pyautogui(
    name: str, args: Sequence[Value], kwargs: Mapping[str, Value], recording: Recording, *, shown_as: str | None = None
) -> Value:
    """Carry out `pyautogui.<name>(*args, **kwargs)` on the recording and give what it returns.

    Args:
        name: Function name without the module.
        args: Positional arguments.
        kwargs: Keyword arguments.
        recording: Takes the actions.
        shown_as: What errors call the function, when the model wrote it differently.

    Raises:
        Refused: No such function, or arguments that it does not take.
    """
    target = check_name(name)
    shown = shown_as or f"pyautogui.{name}"
    return _CALLS[target](Arguments(shown, bind(shown, PYAUTOGUI[target], args, kwargs), recording))


def check_name(name: str) -> str:
    """The function that a name or an alias of pyautogui means.

    Raises:
        Refused: None that can be used here; the text says why or names the nearest one.
    """
    target = PYAUTOGUI_ALIASES.get(name, name)
    if target in PYAUTOGUI:
        return target
    if name in _NOT_HERE:
        raise Refused(f"pyautogui.{name} cannot be used here: {_NOT_HERE[name]}")
    known = [*PYAUTOGUI, *PYAUTOGUI_ALIASES]
    raise Refused(f"pyautogui has no function {name!r}{guess(name, known)}")


def hold_keys(args: Sequence[Value], kwargs: Mapping[str, Value], recording: Recording) -> list[str]:
    """Keys of `with pyautogui.hold(keys):`, checked."""
    bound = bind("pyautogui.hold", PYAUTOGUI["hold"], args, kwargs)
    return Arguments("pyautogui.hold", bound, recording).keys("keys")


def _sleep(arguments: Arguments) -> None:
    arguments.recording.pause(arguments.duration_s("seconds"))


def _position(arguments: Arguments) -> Value:
    if arguments.given:
        raise Refused(f"{arguments.function}() takes no arguments here")
    return arguments.recording.position()


def _on_screen(arguments: Arguments) -> bool:
    given = arguments.given
    x, y = given["x"] if isinstance(given["x"], list | tuple) and len(given["x"]) == 2 else (given["x"], given.get("y"))
    checked = Arguments(arguments.function, {"x": x, "y": y}, arguments.recording)
    width, height = arguments.recording.size()
    return 0 <= checked.number("x", 0) < width and 0 <= checked.number("y", 0) < height


def _is_valid_key(arguments: Arguments) -> bool:
    key = arguments.given["key"]
    if not isinstance(key, str):
        raise Refused(f"{arguments.function}() needs a text, got {short(key)}")
    try:
        normalize_key(key[:60])
    except ValueError:
        return False
    return True


_CALLS: Mapping[str, _Call] = {
    "click": partial(input_calls.click, clicks=None),
    "leftClick": partial(input_calls.click, button="left"),
    "rightClick": partial(input_calls.click, button="right"),
    "middleClick": partial(input_calls.click, button="middle"),
    "doubleClick": partial(input_calls.click, clicks=2),
    "tripleClick": partial(input_calls.click, clicks=3),
    "moveTo": input_calls.move_to,
    "moveRel": input_calls.move_rel,
    "dragTo": input_calls.drag_to,
    "dragRel": input_calls.drag_rel,
    "mouseDown": partial(input_calls.mouse_button, verb=MouseDown),
    "mouseUp": partial(input_calls.mouse_button, verb=MouseUp),
    "scroll": partial(input_calls.scroll, horizontal=False),
    "hscroll": partial(input_calls.scroll, horizontal=True),
    "press": input_calls.press,
    "hold": input_calls.refuse_hold,
    "keyDown": partial(input_calls.hold_or_release, verb=KeyDown),
    "keyUp": partial(input_calls.hold_or_release, verb=KeyUp),
    "typewrite": input_calls.write,
    "hotkey": input_calls.hotkey,
    "sleep": _sleep,
    "size": lambda arguments: arguments.recording.size(),
    "position": _position,
    "onScreen": _on_screen,
    "isValidKey": _is_valid_key,
    "failSafeCheck": lambda arguments: None,
}
