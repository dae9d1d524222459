"""pyautogui's mouse and keyboard functions as actions."""

from cua.gui_agent.interpreter.arguments import Arguments
from cua.gui_agent.interpreter.limits import Refused
from cua.gui_agent.interpreter.values import kind
from envs import Button, Click, Drag, Hotkey, KeyDown, KeyUp, MouseDown, MouseUp, Move, PressKey, Scroll, TypeText


def click(arguments: Arguments, *, clicks: int | None = 1, button: Button | None = None) -> None:
    """Clicks, after a glide when a duration is given; no clicks at all still move the pointer."""
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


def move_to(arguments: Arguments) -> None:
    """A move to a point; without one nothing happens."""
    point_px, duration_s = arguments.point_px(), arguments.duration_s("duration")
    if point_px is not None:
        arguments.recording.add(Move(x_px=point_px[0], y_px=point_px[1], duration_s=duration_s))


def move_rel(arguments: Arguments) -> None:
    """A move by an offset from where the pointer is."""
    x_px, y_px = arguments.offset_px()
    arguments.recording.add(Move(x_px=x_px, y_px=y_px, duration_s=arguments.duration_s("duration")))


def drag_to(arguments: Arguments) -> None:
    """A drag to a point from where the pointer is."""
    _drag(arguments, arguments.point_px() or arguments.recording.known_pointer_px())


def drag_rel(arguments: Arguments) -> None:
    """A drag by an offset from where the pointer is."""
    _drag(arguments, arguments.offset_px())


def _drag(arguments: Arguments, point_px: tuple[int, int]) -> None:
    x_px, y_px = point_px
    duration_s = arguments.duration_s("duration")
    if arguments.given.get("mouseDownUp", True):
        arguments.recording.add(Drag(x_px=x_px, y_px=y_px, button=arguments.button(), duration_s=duration_s))
    else:
        arguments.recording.add(Move(x_px=x_px, y_px=y_px, duration_s=duration_s))


def mouse_button(arguments: Arguments, *, verb: type[MouseDown] | type[MouseUp]) -> None:
    """A button held down or let go, at a point or where the pointer is."""
    x_px, y_px = arguments.point_px() or (None, None)
    arguments.recording.add(verb(x_px=x_px, y_px=y_px, button=arguments.button()))


def scroll(arguments: Arguments, *, horizontal: bool) -> None:
    """Notches of the wheel; part of one is dropped, as pyautogui does, but not when nothing would be left."""
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


_MAX_HOTKEY = 10


def press(arguments: Arguments) -> None:
    """One key several times, or a list of keys in turn."""
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


def hold_or_release(arguments: Arguments, *, verb: type[KeyDown] | type[KeyUp]) -> None:
    """One key held down or let go."""
    arguments.recording.add(verb(key=arguments.key("key")))


def refuse_hold(arguments: Arguments) -> None:
    """`hold` outside of a with statement."""
    keys = ", ".join(repr(key) for key in arguments.keys("keys"))
    raise Refused(f"{arguments.function}() works only in a with block: write with pyautogui.hold({keys}): ...")


def write(arguments: Arguments) -> None:
    """A text, or a list of keys."""
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
    """Give a text back if it can be typed.

    Raises:
        Refused: It holds control characters other than tab and line break, or half characters.
    """
    for char in text:
        if (ord(char) < 0x20 and char not in "\t\n\r") or ord(char) == 0x7F or 0xD800 <= ord(char) <= 0xDFFF:
            raise Refused(
                f"the character {char!r} cannot be typed; for keys write pyautogui.press('backspace') and so on"
            )
    return text


def hotkey(arguments: Arguments) -> None:
    """Keys pressed together."""
    args = arguments.given["args"]
    if args and isinstance(args[0], list | tuple):
        if len(args) > 1:
            raise Refused(f"{arguments.function}(): give keys one by one or as one list, not both")
        args = list(args[0])
    keys = Arguments(arguments.function, {"args": args}, arguments.recording).keys("args")
    if not keys:
        raise Refused(f"{arguments.function}() needs at least one key")
    if len(keys) > _MAX_HOTKEY:
        raise Refused(f"{arguments.function}() takes at most {_MAX_HOTKEY} keys, got {len(keys)}")
    arguments.number("interval", 0.0)
    arguments.recording.add(Hotkey(keys=tuple(keys)))
