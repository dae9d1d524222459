"""Actions as pyautogui programs, which OSWorld's guest runs: one program for a stretch of actions.

Every value is written by `repr`, so that no text can become code.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from envs.actions import (
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
    TypeText,
    normalize_key,
)
from envs.errors import ActionError

Typist = Literal["xdotool", "xclip", "xsel"]
"""Programs that get text to a window which pyautogui cannot type; the first that the guest has is used."""
TYPISTS: tuple[Typist, ...] = ("xdotool", "xclip", "xsel")
_PAUSE_S = 0.05
_PREAMBLE = f"""
import subprocess, time
import pyautogui
pyautogui.FAILSAFE = False
pyautogui.PAUSE = {_PAUSE_S}
"""
_COPY: dict[Typist, Sequence[str]] = {
    "xclip": ("xclip", "-selection", "clipboard"),
    "xsel": ("xsel", "--clipboard", "--input"),
}
_PROGRAM_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the guest runs, and how long that takes at least.

    Attributes:
        code: For `python -c`; it prints the number of each action before it begins it.
        duration_s: Seconds by the actions' own account.
    """

    code: str
    duration_s: float


def make_program(actions: Sequence[Action], typist: Typist | None, marker: str) -> Program:
    """A program for actions that are carried out in one go.

    Args:
        actions: Neither `Wait` nor `Terminate`; they are no input.
        typist: What types text that pyautogui cannot.
        marker: A comment, by which its process is found.

    Raises:
        ActionError: A key that pyautogui does not have, or text that nothing can type.
    """
    lines = [f"# {marker}", *_PREAMBLE.strip().splitlines()]
    for number, action in enumerate(actions):
        lines.append(f"print({number}, flush=True)")
        lines.extend(_statements(action, typist))
    return Program(code="\n".join(lines), duration_s=sum(map(_duration_s, actions)))


def _statements(action: Action, typist: Typist | None) -> list[str]:
    match action:
        case Click(x_px=x, y_px=y, button=button, clicks=clicks, interval_s=interval_s):
            return [_call("click", x, y, clicks=clicks, interval=interval_s, button=button)]
        case Move(x_px=x, y_px=y, duration_s=duration_s):
            return [_call("moveTo", x, y, duration=duration_s)]
        case Drag(x_px=x, y_px=y, button=button, duration_s=duration_s):
            return [_call("dragTo", x, y, duration=duration_s, button=button)]
        case Scroll(dy=dy, dx=dx, x_px=x, y_px=y):
            place = [_call("moveTo", x, y)] if x is not None and y is not None else []
            wheel = [_call("scroll", dy)] if dy else []
            return [*place, *wheel, *([_call("hscroll", dx)] if dx else [])]
        case MouseDown(x_px=x, y_px=y, button=button):
            return [_call("mouseDown", x, y, button=button)]
        case MouseUp(x_px=x, y_px=y, button=button):
            return [_call("mouseUp", x, y, button=button)]
        case PressKey(key=key, presses=presses, interval_s=interval_s):
            return _press(key, presses, interval_s)
        case Hotkey(keys=keys):
            return [_call("hotkey", *map(_key, keys))]
        case KeyDown(key=key):
            return [_call("keyDown", _key(key))]
        case KeyUp(key=key):
            return [_call("keyUp", _key(key))]
        case TypeText(text=text, interval_s=interval_s):
            return [line for run in _runs(text) for line in _type(run, interval_s, typist)]
    raise ActionError(f"{type(action).__name__} is no input")


def _press(key: str, presses: int, interval_s: float) -> list[str]:
    if key == "<":
        return [f"for _ in range({presses!r}):", f"    {_LESS}", f"    time.sleep({interval_s!r})"]
    return [_call("press", _key(key), presses=presses, interval=interval_s)]


_LESS = "pyautogui.hotkey('shift', ',')"
"""pyautogui types `>` for `<` on X11 (OSWorld's issue 257)."""


def _key(name: str) -> str:
    """Name of a key as pyautogui has it.

    Raises:
        ActionError: It has none.
    """
    try:
        key = normalize_key(name)
    except ValueError as error:
        raise ActionError(str(error)) from error
    if not key.isascii():
        raise ActionError(f"the guest has no key {name!r}; text with such characters is typed, not pressed")
    return key


def _runs(text: str) -> Iterable[str]:
    """Stretches of text that are typed one way: line breaks, tabs, and what is between them.

    A stretch with a character that pyautogui cannot type goes another way as a whole; else `<` stands alone.
    """
    for part in re.findall(r"\n+|\t+|[^\n\t]+", text.replace("\r\n", "\n").replace("\r", "\n")):
        if part.isascii():
            yield from re.findall(r"<+|[^<]+", part)
        else:
            yield part


def _type(run: str, interval_s: float, typist: Typist | None) -> list[str]:
    if run.isascii() and run[0] == "<":
        return [f"for _ in range({len(run)}):", f"    {_LESS}", f"    time.sleep({interval_s!r})"]
    if run[0] in "\n\t":
        return [_call("press", "enter" if run[0] == "\n" else "tab", presses=len(run), interval=interval_s)]
    if not run.isprintable():
        odd = next(character for character in run if not character.isprintable())
        raise ActionError(f"the text has {odd!r}, which is no character that can be typed")
    if run.isascii():
        return [_call("write", run, interval=interval_s)]
    if typist is None:
        raise ActionError(
            f"the text {run[:20]!r} cannot be typed: the guest has none of {', '.join(TYPISTS)}. Write it without "
            "such characters"
        )
    if typist == "xdotool":
        command = ["xdotool", "type", "--delay", str(max(12, round(interval_s * 1000))), "--", run]
        return [f"subprocess.run({command!r}, check=True, timeout={_PROGRAM_TIMEOUT_S})"]
    copy = f"subprocess.run({list(_COPY[typist])!r}, input={run.encode()!r}, check=True, timeout={_PROGRAM_TIMEOUT_S}"
    return [
        f"{copy}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
        "time.sleep(0.2)",
        _call("hotkey", "ctrl", "v"),
        "time.sleep(0.2)",
    ]


def _call(name: str, *values: object, **named: object) -> str:
    given = [repr(value) for value in values] + [f"{key}={value!r}" for key, value in named.items()]
    return f"pyautogui.{name}({', '.join(given)})"


def _duration_s(action: Action) -> float:
    match action:
        case Move(duration_s=duration_s) | Drag(duration_s=duration_s):
            return duration_s
        case Click(clicks=times, interval_s=interval_s) | PressKey(presses=times, interval_s=interval_s):
            return times * (interval_s + _PAUSE_S)
        case TypeText(text=text, interval_s=interval_s):
            return len(text) * (interval_s + 0.02)
    return _PAUSE_S
