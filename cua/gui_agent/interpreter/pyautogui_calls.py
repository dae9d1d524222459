"""Table of the supported pyautogui functions.

Source: pyautogui 0.9.54. Intended differences: key names and buttons that pyautogui silently ignores are
refused; `tween`, `logScreenshot`, `_pause` and the interval of `hotkey` are accepted and have no effect.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from cua.gui_agent.interpreter.arguments import PYAUTOGUI, PYAUTOGUI_ALIASES, CallArguments, bind, guess
from cua.gui_agent.interpreter.limits import Refused
from cua.gui_agent.interpreter.recording import ActionRecording
from cua.gui_agent.interpreter.values import Value, kind, short
from envs import Button, Click, Drag, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, Scroll, TypeText
from envs.actions import normalize_key

_MAX_HOTKEY = 10  # no shortcut has as many keys; more are a list that was meant for press


def click(arguments: CallArguments, *, clicks: int | None = 1, button: Button | None = None) -> None:
    """Click, after a slow move if a duration is given; zero clicks still move the pointer."""
    count = arguments.amount("clicks", 1) if clicks is None else clicks
    which = button or arguments.button()
    point_px = arguments.point_px()
    duration_s = arguments.duration_s("duration")
    interval_s = arguments.duration_s("interval")
    recording = arguments.recording
    if point_px is not None and (duration_s > 0 or count < 1):
        recording.add(Move(x_px=point_px[0], y_px=point_px[1], duration_s=duration_s))
    if count > 0:
        x_px, y_px = point_px or (None, None)
        recording.add(Click(x_px=x_px, y_px=y_px, button=which, clicks=count, interval_s=interval_s))


def move_to(arguments: CallArguments) -> None:
    """Move to a point; does nothing without a point."""
    point_px, duration_s = arguments.point_px(), arguments.duration_s("duration")
    if point_px is not None:
        arguments.recording.add(Move(x_px=point_px[0], y_px=point_px[1], duration_s=duration_s))


def move_rel(arguments: CallArguments) -> None:
    """Move by an offset from the pointer position."""
    x_px, y_px = arguments.offset_px()
    arguments.recording.add(Move(x_px=x_px, y_px=y_px, duration_s=arguments.duration_s("duration")))


def drag_to(arguments: CallArguments) -> None:
    """Drag from the pointer position to a point."""
    _drag(arguments, arguments.point_px() or arguments.recording.known_pointer_px())


def drag_rel(arguments: CallArguments) -> None:
    """Drag by an offset from the pointer position."""
    _drag(arguments, arguments.offset_px())


def _drag(arguments: CallArguments, point_px: tuple[int, int]) -> None:
    x_px, y_px = point_px
    duration_s = arguments.duration_s("duration")
    if arguments.given.get("mouseDownUp", True):
        arguments.recording.add(Drag(x_px=x_px, y_px=y_px, button=arguments.button(), duration_s=duration_s))
    else:
        arguments.recording.add(Move(x_px=x_px, y_px=y_px, duration_s=duration_s))


def mouse_button(arguments: CallArguments, *, verb: type[MouseDown] | type[MouseUp]) -> None:
    """Press or release a mouse button, at a point or at the pointer position."""
    x_px, y_px = arguments.point_px() or (None, None)
    arguments.recording.add(verb(x_px=x_px, y_px=y_px, button=arguments.button()))


def scroll(arguments: CallArguments, *, horizontal: bool) -> None:
    """Turn the wheel; fractions of a notch are dropped as in pyautogui, but less than one notch is refused."""
    raw = arguments.number("clicks", 0)
    if 0 < abs(raw) < 1:
        raise Refused(f"{arguments.function}() takes whole notches of the wheel such as 5 or -5, got {raw:g}")
    notches = int(raw)
    most = arguments.recording.budget.limits.max_amount
    if abs(notches) > most:
        raise Refused(f"{arguments.function}() turns the wheel by at most {most} notches, got {notches}. Try 5 or -5")
    x_px, y_px = arguments.point_px() or (None, None)
    if notches and horizontal:
        arguments.recording.add(Scroll(dx=notches, x_px=x_px, y_px=y_px))
    elif notches:
        arguments.recording.add(Scroll(dy=notches, x_px=x_px, y_px=y_px))


def press(arguments: CallArguments) -> None:
    """Press one key several times, or each key of a list in turn."""
    keys, presses = arguments.keys("keys"), arguments.amount("presses", 1)
    interval_s = arguments.duration_s("interval")
    recording = arguments.recording
    if len(keys) == 1 and presses > 0:
        recording.add(PressKey(key=keys[0], presses=presses, interval_s=interval_s))
        return
    for _ in range(presses):
        for key in keys:
            recording.add(PressKey(key=key))
        if interval_s:
            recording.pause(interval_s)


def hold_or_release(arguments: CallArguments, *, verb: type[KeyDown] | type[KeyUp]) -> None:
    """Press or release one key."""
    arguments.recording.add(verb(key=arguments.key("key")))


def refuse_hold(arguments: CallArguments) -> None:
    """Refuse `hold` outside of a with statement."""
    keys = ", ".join(repr(key) for key in arguments.keys("keys"))
    raise Refused(f"{arguments.function}() works only in a with block: write with pyautogui.hold({keys}): ...")


def write(arguments: CallArguments) -> None:
    """Type a text, or press each key of a list."""
    message, interval_s = arguments.given["message"], arguments.duration_s("interval")
    recording = arguments.recording
    if isinstance(message, list | tuple):
        for key in arguments.keys("message"):
            recording.add(PressKey(key=key, interval_s=interval_s))
        return
    if isinstance(message, bool) or not isinstance(message, str | int | float):
        raise Refused(f"{arguments.function}() needs a text, not {kind(message)}")
    text = check_text(str(message))
    if text:
        recording.add(TypeText(text=text, interval_s=interval_s))


def check_text(text: str) -> str:
    """Return a text if it can be typed."""
    for char in text:
        if (ord(char) < 0x20 and char not in "\t\n\r") or ord(char) == 0x7F or 0xD800 <= ord(char) <= 0xDFFF:
            raise Refused(
                f"the character {char!r} cannot be typed; for keys write pyautogui.press('backspace') and so on"
            )
    return text


def hotkey(arguments: CallArguments) -> None:
    """Press keys together."""
    args = arguments.given["args"]
    if args and isinstance(args[0], list | tuple):
        if len(args) > 1:
            raise Refused(f"{arguments.function}(): give keys one by one or as one list, not both")
        args = list(args[0])
    keys = CallArguments(arguments.function, {"args": args}, arguments.recording).keys("args")
    if not keys:
        raise Refused(f"{arguments.function}() needs at least one key")
    if len(keys) > _MAX_HOTKEY:
        raise Refused(f"{arguments.function}() takes at most {_MAX_HOTKEY} keys, got {len(keys)}")
    arguments.number("interval", 0.0)
    arguments.recording.add(Hotkey(keys=tuple(keys)))


_Call: TypeAlias = Callable[[CallArguments], Value]

_NOT_HERE = {
    **dict.fromkeys(
        ["screenshot", "pixel", "pixelMatchesColor", "snapshot"],
        "a new screenshot comes with every step: end the code here and look at it",
    ),
    **dict.fromkeys(
        "locate locateAll locateOnScreen locateAllOnScreen locateCenterOnScreen center locateOnWindow".split(),
        "image files cannot be searched for: read the place off the screenshot and give x and y",
    ),
    **dict.fromkeys(
        ["alert", "confirm", "prompt", "password"],
        "a message box cannot be answered here: say it in the Action section or in computer.terminate(answer=...)",
    ),
    **dict.fromkeys(
        ["getActiveWindow", "getActiveWindowTitle", "getWindowsWithTitle", "getAllWindows", "getWindowsAt", "Window"],
        "windows cannot be addressed by title: click on them",
    ),
    "run": "write the calls themselves",
    "countdown": "write time.sleep(seconds)",
}


def call_pyautogui(
    name: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    recording: ActionRecording,
    *,
    shown_as: str | None = None,
) -> Value:
    """Record `pyautogui.<name>(*args, **kwargs)` and return its result."""
    target = check_name(name)
    shown = shown_as or f"pyautogui.{name}"
    return _CALLS[target](CallArguments(shown, bind(shown, PYAUTOGUI[target], args, kwargs), recording))


def check_name(name: str) -> str:
    """Resolve a name or an alias of pyautogui to a function name."""
    target = PYAUTOGUI_ALIASES.get(name, name)
    if target in PYAUTOGUI:
        return target
    if name in _NOT_HERE:
        raise Refused(f"pyautogui.{name} cannot be used here: {_NOT_HERE[name]}")
    known = [*PYAUTOGUI, *PYAUTOGUI_ALIASES]
    raise Refused(f"pyautogui has no function {name!r}{guess(name, known)}")


def hold_keys(args: Sequence[Value], kwargs: Mapping[str, Value], recording: ActionRecording) -> list[str]:
    """Return the checked keys of `with pyautogui.hold(keys):`."""
    bound = bind("pyautogui.hold", PYAUTOGUI["hold"], args, kwargs)
    return CallArguments("pyautogui.hold", bound, recording).keys("keys")


def _sleep(arguments: CallArguments) -> None:
    arguments.recording.pause(arguments.duration_s("seconds"))


def _position(arguments: CallArguments) -> Value:
    if arguments.given:
        raise Refused(f"{arguments.function}() takes no arguments here")
    return arguments.recording.position()


def _on_screen(arguments: CallArguments) -> bool:
    values = arguments.given
    x = values["x"]
    x, y = x if isinstance(x, list | tuple) and len(x) == 2 else (x, values.get("y"))
    checked = CallArguments(arguments.function, {"x": x, "y": y}, arguments.recording)
    width, height = arguments.recording.size()
    return 0 <= checked.number("x", 0) < width and 0 <= checked.number("y", 0) < height


def _is_valid_key(arguments: CallArguments) -> bool:
    key = arguments.given["key"]
    if not isinstance(key, str):
        raise Refused(f"{arguments.function}() needs a text, got {short(key)}")
    try:
        normalize_key(key[:60])
    except ValueError:
        return False
    return True


_CALLS: Mapping[str, _Call] = {
    "click": partial(click, clicks=None),
    "leftClick": partial(click, button="left"),
    "rightClick": partial(click, button="right"),
    "middleClick": partial(click, button="middle"),
    "doubleClick": partial(click, clicks=2),
    "tripleClick": partial(click, clicks=3),
    "moveTo": move_to,
    "moveRel": move_rel,
    "dragTo": drag_to,
    "dragRel": drag_rel,
    "mouseDown": partial(mouse_button, verb=MouseDown),
    "mouseUp": partial(mouse_button, verb=MouseUp),
    "scroll": partial(scroll, horizontal=False),
    "hscroll": partial(scroll, horizontal=True),
    "press": press,
    "hold": refuse_hold,
    "keyDown": partial(hold_or_release, verb=KeyDown),
    "keyUp": partial(hold_or_release, verb=KeyUp),
    "typewrite": write,
    "hotkey": hotkey,
    "sleep": _sleep,
    "size": lambda arguments: arguments.recording.size(),
    "position": _position,
    "onScreen": _on_screen,
    "isValidKey": _is_valid_key,
    "failSafeCheck": lambda arguments: None,
}
