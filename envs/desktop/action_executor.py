"""Carry actions out on a backend: what a click or a drag is made of."""

from envs.actions import (
    UNBINDABLE,
    Action,
    Button,
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
    TypeSecret,
    TypeText,
    Wait,
    normalize_key,
)
from envs.desktop.backend import Backend, Clock, Region
from envs.errors import ActionError

_MOTION_S = 0.01  # between two points of a gliding pointer
_DRAG_POINTS = 12  # at least: programs want to see motion before they believe in a drag
_DRAG_MOTION_S = 0.004
_MAX_NOTCHES = 200
_MAX_TIMES = 200
_MAX_TEXT = 200_000


class ActionExecutor:
    """Carries out actions on one screen and remembers what is held down.

    Args:
        backend: The screen, mouse and keyboard.
        region: The part of the screen that the agent sees; points outside of it are refused.
        clock: Pauses.
    """

    def __init__(self, backend: Backend, region: Region, clock: Clock) -> None:
        self._backend = backend
        self._region = region
        self._clock = clock
        self._keys: dict[str, None] = {}
        self._buttons: dict[Button, None] = {}

    @property
    def held(self) -> frozenset[str]:
        """Names of the keys and mouse buttons that are down (`"shift"`, `"left button"`)."""
        return frozenset(self._keys) | {f"{button} button" for button in self._buttons}

    def execute(self, action: Action) -> None:
        """Carry one action out.

        Raises:
            ActionError: It cannot be; the text is for the agent.
        """
        match action:
            case Click():
                self._click(action)
            case Move(x_px=x_px, y_px=y_px, duration_s=duration_s):
                self._glide(x_px, y_px, duration_s)
            case Drag():
                self._drag(action)
            case Scroll():
                self._scroll(action)
            case TypeSecret():
                raise ActionError(UNBINDABLE)
            case TypeText(text=text, interval_s=interval_s):
                _check_count("characters", len(text), _MAX_TEXT)
                self._backend.type_text(text, interval_s, self._clock)
            case PressKey():
                self._press(action)
            case Hotkey(keys=keys):
                self._hotkey(keys)
            case KeyDown(key=key):
                self._key(key, down=True)
            case KeyUp(key=key):
                self._key(key, down=False)
            case MouseDown(x_px=x_px, y_px=y_px, button=button):
                self._go(x_px, y_px)
                self._button(button, down=True)
            case MouseUp(x_px=x_px, y_px=y_px, button=button):
                self._go(x_px, y_px)
                self._button(button, down=False)
            case Wait(duration_s=duration_s):
                self._clock.pause(duration_s)
            case Terminate():
                pass

    def release(self) -> None:
        """Let everything go that is held down."""
        for button in list(self._buttons):
            self._button(button, down=False)
        for key in reversed(list(self._keys)):
            self._key(key, down=False)

    def _click(self, action: Click) -> None:
        _check_count("clicks", action.clicks, _MAX_TIMES)
        self._go(action.x_px, action.y_px)
        for number in range(action.clicks):
            if number:
                self._clock.pause(action.interval_s)
            self._button(action.button, down=True)
            self._button(action.button, down=False)

    def _drag(self, action: Drag) -> None:
        self._check_point(action.x_px, action.y_px)
        self._button(action.button, down=True)
        try:
            self._glide(action.x_px, action.y_px, action.duration_s, _DRAG_POINTS, _DRAG_MOTION_S)
        finally:
            self._button(action.button, down=False)

    def _glide(self, x_px: int, y_px: int, duration_s: float, min_points: int = 1, min_pause_s: float = 0.0) -> None:
        """Move the pointer on a straight line."""
        self._check_point(x_px, y_px)
        from_x, from_y = self._backend.pointer_px()
        num_points = max(min_points, int(duration_s / _MOTION_S), 1)
        pause_s = max(min_pause_s, duration_s / num_points)
        for number in range(1, num_points + 1):
            share = number / num_points
            self._backend.move(round(from_x + share * (x_px - from_x)), round(from_y + share * (y_px - from_y)))
            if pause_s > 0:
                self._clock.pause(pause_s)

    def _scroll(self, action: Scroll) -> None:
        _check_count("notches", max(abs(action.dx), abs(action.dy)), _MAX_NOTCHES)
        self._go(action.x_px, action.y_px)
        self._backend.scroll(action.dx, action.dy)

    def _press(self, action: PressKey) -> None:
        _check_count("presses", action.presses, _MAX_TIMES)
        for number in range(action.presses):
            if number:
                self._clock.pause(action.interval_s)
            self._key(action.key, down=True)
            self._key(action.key, down=False)

    def _hotkey(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            _known(key)
        pressed = []
        try:
            for key in keys:
                self._key(key, down=True)
                pressed.append(key)
        finally:
            for key in reversed(pressed):
                self._key(key, down=False)

    def _key(self, name: str, *, down: bool) -> None:
        key = _known(name)
        self._backend.press_key(key, down=down)
        if down:
            self._keys[key] = None
        else:
            self._keys.pop(key, None)

    def _button(self, button: Button, *, down: bool) -> None:
        if button not in ("left", "middle", "right"):
            raise ActionError(f"unknown mouse button {button!r}; there are left, middle and right")
        self._backend.press_button(button, down=down)
        if down:
            self._buttons[button] = None
        else:
            self._buttons.pop(button, None)

    def _go(self, x_px: int | None, y_px: int | None) -> None:
        if x_px is None and y_px is None:
            return
        here_x, here_y = self._backend.pointer_px()
        x_px, y_px = here_x if x_px is None else x_px, here_y if y_px is None else y_px
        self._check_point(x_px, y_px)
        self._backend.move(x_px, y_px)

    def _check_point(self, x_px: int, y_px: int) -> None:
        region = self._region
        if not region.contains(x_px, y_px):
            last_x, last_y = region.left_px + region.width_px - 1, region.top_px + region.height_px - 1
            raise ActionError(
                f"the point ({x_px}, {y_px}) is outside of the screen, which spans "
                f"({region.left_px}, {region.top_px}) to ({last_x}, {last_y})"
            )


def _known(key: str) -> str:
    try:
        return normalize_key(key)
    except ValueError as error:
        raise ActionError(str(error)) from None


def _check_count(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise ActionError(f"{count} {what} in one action are too many: at most {limit}. Split it up")
