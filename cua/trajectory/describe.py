"""Text for actions and numbers, for reports and terminals."""

import json
import math
import time
import unicodedata

from cua.json_text import read_json
from cua.messages import ToolCall
from envs import (
    Action,
    Click,
    Drag,
    Hotkey,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    Scroll,
    Terminate,
    TypeText,
    Wait,
)

_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_VISIBLE = frozenset("\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\U000110bd")
"""Joiners, which emoji and some scripts need, and signs that Unicode classifies as format characters."""
_CLICKS = {1: "click", 2: "double-click", 3: "triple-click"}


def describe_action(action: Action) -> str:
    """Return one action as short text: `right-click at (12, 40)`. Positions are screen pixels."""
    match action:
        case Click():
            verb = _CLICKS.get(action.clicks, f"{action.clicks} clicks")
            button = "" if action.button == "left" else f"{action.button}-"
            return f"{button}{verb}{_at(action.x_px, action.y_px)}"
        case Move():
            return f"move to ({action.x_px}, {action.y_px})"
        case Drag():
            return f"drag to ({action.x_px}, {action.y_px})" + _button(action.button)
        case Scroll():
            return f"scroll {_notches(action)}{_at(action.x_px, action.y_px)}"
        case TypeText():
            return f'type "{action.text}"'
        case PressKey():
            return f"press {action.key}" + (f" {action.presses} times" if action.presses != 1 else "")
        case Hotkey():
            return "press " + "+".join(action.keys)
        case KeyDown():
            return f"hold {action.key} down"
        case KeyUp():
            return f"let {action.key} go"
        case MouseDown():
            return f"hold the mouse down{_at(action.x_px, action.y_px)}" + _button(action.button)
        case MouseUp():
            return f"let the mouse go{_at(action.x_px, action.y_px)}" + _button(action.button)
        case Wait():
            return f"wait {action.duration_s:g} s"
        case Terminate():
            return f"finish: {action.status}" + (f", answer {action.answer!r}" if action.answer is not None else "")


def describe_duration(seconds: float) -> str:
    """Return a duration as `420 ms`, `3.2 s`, `4 min 05 s`, `2 h 03 min`."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def describe_cost(cost_usd: float | None) -> str:
    """Return a cost as `$0.0123`; `unknown` if a price is unknown."""
    if cost_usd is None:
        return "unknown"
    return f"${cost_usd:.4f}" if 0 < cost_usd < 1 else f"${cost_usd:.2f}"


def describe_tokens(num_tokens: int) -> str:
    """Return a number of tokens as `950`, `12.3k`, `4.56M`."""
    if num_tokens < 1000:
        return str(num_tokens)
    return f"{num_tokens / 1000:.1f}k" if num_tokens < 999_950 else f"{num_tokens / 1e6:.2f}M"


def readable_arguments(call: ToolCall) -> str:
    """Return the arguments of a call as readable text: a single value without its name, such as code."""
    try:
        arguments = read_json(call.arguments, strict=False)
    except ValueError:
        return call.arguments
    if isinstance(arguments, dict) and len(arguments) == 1:
        return str(next(iter(arguments.values())))
    return json.dumps(arguments, ensure_ascii=False)


def printable(text: str) -> str:
    """Replace control characters of a line by visible ones, so that a page cannot control a terminal."""
    if text.isprintable():
        return text
    return "".join(_visible(char) if unicodedata.category(char) in _UNSAFE else char for char in text)


def _visible(char: str) -> str:
    if char == "\t":
        return "    "
    if char in _VISIBLE:
        return char
    return chr(0x2400 + ord(char)) if ord(char) < 0x20 else "\N{REPLACEMENT CHARACTER}"


def describe_time(unix_s: float) -> str:
    """Return local date and time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))
    except (OverflowError, ValueError, OSError):  # a record may contain any number
        return "at an unknown time"


def _at(x_px: int | None, y_px: int | None) -> str:
    return "" if x_px is None or y_px is None else f" at ({x_px}, {y_px})"


def _button(button: str) -> str:
    return "" if button == "left" else f" with the {button} button"


def _notches(action: Scroll) -> str:
    parts = []
    if action.dy or not action.dx:
        parts.append(f"{'up' if action.dy > 0 else 'down'} {abs(action.dy)}")
    if action.dx:
        parts.append(f"{'right' if action.dx > 0 else 'left'} {abs(action.dx)}")
    return " and ".join(parts)
