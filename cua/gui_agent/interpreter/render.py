"""Renders actions as pyautogui code in absolute screen pixels, one simple statement per line.

The output is real pyautogui code (with `import pyautogui, time` before it), and `run(..., mode="absolute")`
with a geometry whose image is the screen returns the same actions. Two cases differ: `Terminate` becomes
`computer.terminate(...)`, and a `Scroll` on both axes becomes two calls, which are read as two actions.
"""

from collections.abc import Sequence

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


def to_pyautogui(actions: Sequence[Action]) -> str:
    """Render code for `actions`, one line per call; empty for no actions."""
    return "\n".join(line for action in actions for line in _lines(action))


def _lines(action: Action) -> list[str]:
    match action:
        case Scroll(dy=dy, dx=dx, x_px=x_px, y_px=y_px):
            calls = (("scroll", dy), ("hscroll", dx))
            return [_write_call(name, repr(amount), *_point(x_px, y_px)) for name, amount in calls if amount]
        case _:
            return [_line(action)]


def _line(action: Action) -> str:
    match action:
        case Click(x_px=x, y_px=y, button=button, clicks=clicks, interval_s=interval_s):
            options = _options(clicks=(clicks, 1), interval=(interval_s, 0.0), button=(button, "left"))
            return _write_call("click", *_point(x, y), *options)
        case Move(x_px=x, y_px=y, duration_s=duration_s):
            return _write_call("moveTo", repr(x), repr(y), *_options(duration=(duration_s, 0.0)))
        case Drag(x_px=x, y_px=y, button=button, duration_s=duration_s):
            return _write_call("dragTo", repr(x), repr(y), *_options(duration=(duration_s, 0.0)), f"button={button!r}")
        case MouseDown(x_px=x, y_px=y, button=button):
            return _write_call("mouseDown", *_point(x, y), f"button={button!r}")
        case MouseUp(x_px=x, y_px=y, button=button):
            return _write_call("mouseUp", *_point(x, y), f"button={button!r}")
        case TypeText(text=text, interval_s=interval_s):
            return _write_call("write", repr(text), *_options(interval=(interval_s, 0.0)))
        case PressKey(key=key, presses=presses, interval_s=interval_s):
            return _write_call("press", repr(key), *_options(presses=(presses, 1), interval=(interval_s, 0.0)))
        case Hotkey(keys=keys):
            return _write_call("hotkey", *map(repr, keys))
        case KeyDown(key=key):
            return _write_call("keyDown", repr(key))
        case KeyUp(key=key):
            return _write_call("keyUp", repr(key))
        case Wait(duration_s=duration_s):
            return f"time.sleep({duration_s!r})"
        case Terminate(status=status, answer=answer):
            return f"computer.terminate({', '.join([f'status={status!r}', *_options(answer=(answer, None))])})"
        case Scroll():
            raise AssertionError("scrolls are rendered above")


def _write_call(name: str, *arguments: str) -> str:
    return f"pyautogui.{name}({', '.join(arguments)})"


def _point(x_px: int | None, y_px: int | None) -> list[str]:
    return [f"{name}={value}" for name, value in (("x", x_px), ("y", y_px)) if value is not None]


def _options(**values: tuple[object, object]) -> list[str]:
    """Return keyword arguments that differ from their defaults; each value is a pair (value, default)."""
    return [f"{name}={value!r}" for name, (value, default) in values.items() if value != default]
