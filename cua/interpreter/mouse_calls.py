"""pyautogui's mouse functions as actions."""

from cua.interpreter.arguments import Arguments
from cua.interpreter.limits import Refused
from envs import Button, Click, Drag, MouseDown, MouseUp, Move, Scroll


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
