"""What an agent can do to a screen: a closed union, one small class a verb.

Positions are pixels of the screen frame (see `ScreenGeometry`); `None` means "where the pointer is".
Keys are names from `envs.keys`. An action says what to do, never how: envs translate.
"""

from dataclasses import dataclass
from typing import Literal

Button = Literal["left", "middle", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Click:
    """Press and release `button` `clicks` times, `interval_s` apart, at a point."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"
    clicks: int = 1
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move the pointer to a point, taking `duration_s`."""

    x_px: int
    y_px: int
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drag:
    """Hold `button` down from where the pointer is to a point, then let go."""

    x_px: int
    y_px: int
    button: Button = "left"
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scroll:
    """Turn the wheel: `dy` notches up (negative is down), `dx` notches right (negative is left)."""

    dy: int = 0
    dx: int = 0
    x_px: int | None = None
    y_px: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeText:
    """Type text, any Unicode; a line break is the Enter key, a tab the Tab key."""

    text: str
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PressKey:
    """Press and release one key `presses` times, `interval_s` apart."""

    key: str
    presses: int = 1
    interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hotkey:
    """Press keys in order, release them in reverse order."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDown:
    """Hold a key down, over steps if need be, until `KeyUp`."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUp:
    """Let a held key go."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseDown:
    """Hold a mouse button down at a point, over steps if need be, until `MouseUp`."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class MouseUp:
    """Let a held mouse button go at a point."""

    x_px: int | None = None
    y_px: int | None = None
    button: Button = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Do nothing for `duration_s`."""

    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """End the episode: the agent believes that it succeeded or failed, and may give an answer."""

    status: Literal["success", "failure"]
    answer: str | None = None


Action = (
    Click
    | Move
    | Drag
    | Scroll
    | TypeText
    | PressKey
    | Hotkey
    | KeyDown
    | KeyUp
    | MouseDown
    | MouseUp
    | Wait
    | Terminate
)
