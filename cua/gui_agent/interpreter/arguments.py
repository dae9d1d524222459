"""Arguments of calls in model code: bound to parameter lists, then checked and converted.

Source of the parameter lists: pyautogui 0.9.54, `pyautogui/__init__.py`; `time.sleep`; the report's two `computer`
functions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from cua.gui_agent.interpreter.limits import Refused
from cua.gui_agent.interpreter.recording import ActionRecording
from cua.gui_agent.interpreter.values import Value, is_number, kind, short
from envs import Button
from envs.actions import normalize_key
from envs.errors import nearest

_BUTTONS: dict[Value, Button] = {
    "left": "left",
    "middle": "middle",
    "right": "right",
    "primary": "left",
    "secondary": "right",
    1: "left",
    2: "middle",
    3: "right",
}


@dataclass(frozen=True, slots=True)
class CallArguments:
    """CallArguments of one call by parameter name."""

    function: str
    given: dict[str, Value]
    recording: ActionRecording

    def number(self, name: str, default: float) -> float:
        """Return a finite number."""
        return self._finite(name, self.given.get(name, default))

    def duration_s(self, name: str) -> float:
        """Return a duration in seconds, 0 if not given."""
        value = self.number(name, 0.0)
        if value < 0:
            raise Refused(f"{self.function}(): {name} cannot be negative, got {value:g}")
        return value

    def amount(self, name: str, default: int) -> int:
        """Return a whole number of clicks, presses or notches, at most `max_amount`."""
        value = self.number(name, default)
        if value != int(value):
            raise Refused(f"{self.function}(): {name} must be a whole number, got {value:g}")
        most = self.recording.budget.limits.max_amount
        if abs(value) > most:
            raise Refused(f"{self.function}(): {name} can be at most {most}, got {value:g}")
        return int(value)

    def button(self) -> Button:
        """Return the mouse button, the left one if not given."""
        value = self.given.get("button", "left")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._bad_button(value)
        button = _BUTTONS.get(value.lower() if isinstance(value, str) else value)
        if button is None:
            raise self._bad_button(value)
        return button

    def point_px(self) -> tuple[int, int] | None:
        """Return the point given by `x` and `y`, screen frame; None if neither is given."""
        return self.recording.to_screen(*self._pair("x", "y"))

    def offset_px(self) -> tuple[int, int]:
        """Return the pointer position after a move by `xOffset` and `yOffset`, screen frame."""
        dx, dy = self._pair("xOffset", "yOffset")
        recording = self.recording
        return recording.frame.move(recording.known_pointer_px(), dx or 0, dy or 0)

    def key(self, name: str) -> str:
        """Return the canonical name of one key."""
        return self._key(self.given[name])

    def keys(self, name: str) -> list[str]:
        """Return the canonical names of one key or a list of keys."""
        value = self.given[name]
        if isinstance(value, str):
            return [self._key(value)]
        if isinstance(value, list | tuple):
            return [self._key(item) for item in value]
        raise Refused(f"{self.function}(): {name} must be a key name or a list of key names, not {kind(value)}")

    def _key(self, value: Value) -> str:
        if not isinstance(value, str):
            raise Refused(f"{self.function}(): a key is a text such as 'enter' or 'a', not {kind(value)}")
        if len(value) > 1 and "+" in value.strip("+"):
            parts = ", ".join(repr(part.strip()) for part in value[:60].split("+"))
            raise Refused(f"{value[:60]!r} is not one key: write pyautogui.hotkey({parts})")
        if len(value) > 20:
            raise Refused(f"{short(value)} is not a key. To type text, write pyautogui.write(...)")
        try:
            return normalize_key(value)
        except ValueError as error:
            raise Refused(f"{self.function}(): {error}. To type text, write pyautogui.write(...)") from None

    def _pair(self, x_name: str, y_name: str) -> tuple[float | None, float | None]:
        x, y = self.given.get(x_name), self.given.get(y_name)
        if isinstance(x, str) or isinstance(y, str):
            raise Refused(
                f"{self.function}() cannot look for an image or read a text ({short(x if isinstance(x, str) else y)}): "
                "give numbers, for example x=0.5, y=0.5"
            )
        if isinstance(x, list | tuple):
            if y is not None:
                raise Refused(f"{self.function}(): give a point as ({x_name}, {y_name}) or as two numbers, not both")
            x, y = self._unpack(x)
        return self._coordinate(x_name, x), self._coordinate(y_name, y)

    def _unpack(self, point: Sequence[Value]) -> tuple[Value, Value]:
        if len(point) == 2:
            return point[0], point[1]
        if len(point) == 4:  # left, top, width, height: use the center of the box, as pyautogui does
            left, top, width, height = (self._finite("box", value) for value in point)
            return left + width / 2, top + height / 2
        raise Refused(f"{self.function}(): a point has two numbers, got {len(point)}")

    def _coordinate(self, name: str, value: Value) -> float | None:
        return None if value is None else self._finite(name, value)

    def _finite(self, name: str, value: Value) -> float:
        if not is_number(value):
            raise Refused(f"{self.function}(): {name} must be a number, not {kind(value)}")
        if not math.isfinite(value):
            raise Refused(f"{self.function}(): {name} must be a finite number")
        return cast(float, value)

    def _bad_button(self, value: Value) -> Refused:
        return Refused(f"{self.function}(): button must be 'left', 'middle' or 'right', got {short(value)}")


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
"""Parameters in order: `!` marks a required parameter, `*` takes all positional arguments."""

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
"""Function names that older agents of the same family use after `computer.`, and their pyautogui names."""


def bind(function: str, signature: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> dict[str, Value]:
    """Bind arguments to parameter names as Python does."""
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
            raise Refused(f"{function}() has no argument {name!r}{guess(name, names)}; it takes: {', '.join(names)}")
        if name in bound:
            raise Refused(f"{function}() got {name!r} twice")
        bound[name] = value
    for word in signature.split():
        if word.endswith("!") and word[:-1] not in bound:
            raise Refused(f"{function}() needs the argument {word[:-1]!r}")
    return bound


def guess(name: str, names: Sequence[str]) -> str:
    """Return a hint with the closest match among `names`, or an empty text."""
    return "".join(f" (did you mean {known!r}?)" for known in nearest(name, names))
