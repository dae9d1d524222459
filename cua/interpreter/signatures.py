"""Parameter lists of the functions that code may call, and binding of arguments to them.

Source: pyautogui 0.9.54, `pyautogui/__init__.py`; `time.sleep`; the report's two `computer` functions.
"""

import difflib
from collections.abc import Mapping, Sequence

from cua.interpreter.limits import Refused
from cua.interpreter.values import Value

_TAIL = "logScreenshot _pause"

PYAUTOGUI: Mapping[str, str] = {
    "click": f"x y clicks interval button duration tween {_TAIL}",
    "leftClick": f"x y interval duration tween {_TAIL}",
    "rightClick": f"x y interval duration tween {_TAIL}",
    "middleClick": f"x y interval duration tween {_TAIL}",
    "doubleClick": f"x y interval button duration tween {_TAIL}",
    "tripleClick": f"x y interval button duration tween {_TAIL}",
    "moveTo": f"x y duration tween {_TAIL}",
    "moveRel": f"xOffset yOffset duration tween {_TAIL}",
    "dragTo": f"x y duration tween button {_TAIL} mouseDownUp",
    "dragRel": f"xOffset yOffset duration tween button {_TAIL} mouseDownUp",
    "mouseDown": f"x y button duration tween {_TAIL}",
    "mouseUp": f"x y button duration tween {_TAIL}",
    "scroll": f"clicks! x y {_TAIL}",
    "hscroll": f"clicks! x y {_TAIL}",
    "press": f"keys! presses interval {_TAIL}",
    "hold": f"keys! {_TAIL}",
    "keyDown": f"key! {_TAIL}",
    "keyUp": f"key! {_TAIL}",
    "typewrite": f"message! interval {_TAIL}",
    "hotkey": f"*args interval {_TAIL}",
    "sleep": "seconds!",
    "size": "",
    "position": "x y",
    "onScreen": "x! y",
    "isValidKey": "key!",
    "failSafeCheck": "",
}
"""Parameters in order: `!` marks a required one, `*` takes all positional arguments."""

PYAUTOGUI_ALIASES: Mapping[str, str] = {
    "move": "moveRel",
    "drag": "dragRel",
    "vscroll": "scroll",
    "write": "typewrite",
    "shortcut": "hotkey",
    "resolution": "size",
}

COMPUTER: Mapping[str, str] = {"wait": "seconds", "terminate": "status! answer"}

COMPUTER_ALIASES: Mapping[str, str] = {
    "double_click": "doubleClick",
    "triple_click": "tripleClick",
    "left_click": "leftClick",
    "right_click": "rightClick",
    "middle_click": "middleClick",
    "move_to": "moveTo",
    "drag_to": "dragTo",
    "mouse_down": "mouseDown",
    "mouse_up": "mouseUp",
    "key_down": "keyDown",
    "key_up": "keyUp",
    "type": "typewrite",
    "key": "press",
}
"""Spellings that older agents of the same family write after `computer.`."""


def bind(function: str, signature: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> dict[str, Value]:
    """Arguments by parameter name, as Python would bind them.

    Raises:
        Refused: Too many, unknown, doubled or missing arguments.
    """
    names = [word.rstrip("!") for word in signature.split()]
    if names and names[0].startswith("*"):
        bound: dict[str, Value] = {names[0][1:]: list(args)}
        names = names[1:]
    else:
        if len(args) > len(names):
            raise Refused(f"{function}() takes at most {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        bound = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise Refused(f"{function}() has no argument {name!r}{nearest(name, names)}; it takes: {', '.join(names)}")
        if name in bound:
            raise Refused(f"{function}() got {name!r} twice")
        bound[name] = value
    for word in signature.split():
        if word.endswith("!") and word[:-1] not in bound:
            raise Refused(f"{function}() needs the argument {word[:-1]!r}")
    return bound


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint that names the closest of `names`, or nothing."""
    lowered = {known.lower(): known for known in names}
    found = difflib.get_close_matches(name[:60].lower(), lowered, n=1)
    return f" (did you mean {lowered[found[0]]!r}?)" if found else ""
