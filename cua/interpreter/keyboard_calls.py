"""pyautogui's keyboard functions as actions."""

from cua.interpreter.arguments import Arguments
from cua.interpreter.limits import Refused
from cua.interpreter.values import kind
from envs import Hotkey, KeyDown, KeyUp, PressKey, TypeText

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
