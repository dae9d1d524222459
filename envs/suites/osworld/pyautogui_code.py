"""Convert actions to pyautogui programs for OSWorld's guest: one program for a batch of actions.

Every value is written by `repr`, so that no text can be executed as code.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envs.actions import (
    RECIPIENT_UNKNOWN,
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
    TypeSecret,
    TypeText,
    normalize_key,
)
from envs.errors import ActionError

_PAUSE_S = 0.05
_PREAMBLE = f"""
import time
import pyautogui
pyautogui.FAILSAFE = False
pyautogui.PAUSE = {_PAUSE_S}
"""
_LENDING = """
def type_any(text, interval):
    import itertools
    from Xlib import X, display as displays
    from Xlib.ext.xtest import fake_input
    display = displays.Display()
    first, last = display.display.info.min_keycode, display.display.info.max_keycode
    rows = display.get_keyboard_mapping(first, last - first + 1)
    spare = [first + at for at, row in enumerate(rows) if not any(row)]
    if not spare:
        raise RuntimeError('the keyboard has no free key for characters that it does not have')
    def assign(keysyms):
        for key, keysym in keysyms.items():
            display.change_keyboard_mapping(key, [(keysym, keysym)])
        display.sync()
    while text:
        lent, end = {}, 0
        for character in text:
            if not character.isascii() or character == '<':
                if character not in lent and len(lent) == len(spare):
                    break
                lent.setdefault(character, spare[len(lent) % len(spare)])
            end += 1
        codes = {key: ord(character) for character, key in lent.items()}
        assign({key: code if code < 256 else 0x1000000 | code for key, code in codes.items()})
        time.sleep(0.2)
        for is_lent, run in itertools.groupby(text[:end], lent.__contains__):
            if not is_lent:
                pyautogui.write(''.join(run), interval=interval)
                continue
            for character in run:
                fake_input(display, X.KeyPress, lent[character])
                fake_input(display, X.KeyRelease, lent[character])
                display.sync()
                time.sleep(interval)
        time.sleep(0.5)
        assign(dict.fromkeys(lent.values(), 0))
        text = text[end:]
    display.close()
"""
"""Code that types characters without a key: unused keys are mapped to such characters, many at once, since programs
look up key meanings late. xdotool remaps one key repeatedly, and characters get lost.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PyautoguiProgram:
    """Program for the guest, and its minimum duration.

    Attributes:
        code: Code for `python -c`; it prints the number of each action before starting it.
        duration_s: Total of the actions' own durations in seconds.
    """

    code: str
    duration_s: float


def make_program(actions: Sequence[Action], marker: str) -> PyautoguiProgram:
    """Make one program for a batch of actions.

    Args:
        actions: Actions except `Wait` and `Terminate`, which are not input.
        marker: Comment that identifies the process.

    Raises:
        ActionError: If pyautogui does not have a key, or the text has an invalid character.
    """
    lines = [f"# {marker}", *_PREAMBLE.strip().splitlines()]
    if any(isinstance(action, TypeText) and not action.text.isascii() for action in actions):
        lines += _LENDING.strip().splitlines()
    for number, action in enumerate(actions):
        lines.append(f"print({number}, flush=True)")
        lines.extend(_statements(action))
    return PyautoguiProgram(code="\n".join(lines), duration_s=sum(map(_duration_s, actions)))


def _statements(action: Action) -> list[str]:
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
        case TypeSecret():
            raise ActionError(RECIPIENT_UNKNOWN)
        case TypeText(text=text, interval_s=interval_s):
            return [line for run in _runs(text) for line in _type(run, interval_s)]
    raise ActionError(f"{type(action).__name__} is not an input")


def _press(key: str, presses: int, interval_s: float) -> list[str]:
    if key == "<":
        return [f"for _ in range({presses!r}):", f"    {_LESS}", f"    time.sleep({interval_s!r})"]
    return [_call("press", _key(key), presses=presses, interval=interval_s)]


_LESS = "pyautogui.hotkey('shift', ',')"
"""Types `<`: pyautogui types `>` for it on X11 (OSWorld's issue 257)."""


def _key(name: str) -> str:
    """Return pyautogui's name of a key.

    Raises:
        ActionError: If pyautogui has no such key.
    """
    try:
        key = normalize_key(name)
    except ValueError as error:
        raise ActionError(str(error)) from error
    if not key.isascii():
        raise ActionError(f"the guest has no key {name!r}; text with such characters is typed, not pressed")
    return key


def _runs(text: str) -> Iterable[str]:
    """Split text into runs that are typed the same way: line breaks, tabs, and other text.

    A run with a character that pyautogui cannot type is typed another way as a whole; else each `<` is a separate run.
    """
    for part in re.findall(r"\n+|\t+|[^\n\t]+", text.replace("\r\n", "\n").replace("\r", "\n")):
        if part.isascii():
            yield from re.findall(r"<+|[^<]+", part)
        else:
            yield part


def _type(run: str, interval_s: float) -> list[str]:
    if run.isascii() and run[0] == "<":
        return [f"for _ in range({len(run)}):", f"    {_LESS}", f"    time.sleep({interval_s!r})"]
    if run[0] in "\n\t":
        return [_call("press", "enter" if run[0] == "\n" else "tab", presses=len(run), interval=interval_s)]
    if not run.isprintable():
        odd = next(character for character in run if not character.isprintable())
        raise ActionError(f"the text has {odd!r}, which cannot be typed")
    if run.isascii():
        return [_call("write", run, interval=interval_s)]
    return [f"type_any({run!r}, {interval_s!r})"]


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
