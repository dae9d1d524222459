"""Inputs of the user on the live image as actions of the environment, and their redacted form for the record.

Positions are fractions of the image and are converted to screen pixels by the geometry of the last observation, like
positions of the model.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from envs import (
    Action,
    Click,
    Hotkey,
    MouseDown,
    MouseUp,
    Move,
    PressKey,
    ScreenGeometry,
    Scroll,
    TypeText,
)
from envs.actions import KEY_NAMES, normalize_key

MAX_INPUTS = 200
"""Limit of the inputs in one message."""
MAX_TEXT_CHARS = 20_000  # of one input after a take-over; bounds memory
_MODIFIERS = ("ctrl", "alt", "shift", "win")
_NAVIGATION = {"arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right", " ": "space"}

Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Button = Literal["left", "middle", "right"]


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Pointed(_Input):
    x: Fraction
    y: Fraction


class ClickInput(_Pointed):
    """Single, double or triple click."""

    kind: Literal["click"] = "click"
    button: Button = "left"
    clicks: int = Field(default=1, ge=1, le=3)


class DragInput(_Pointed):
    """Drag from (x, y) with the button held down along a path to its last point."""

    kind: Literal["drag"] = "drag"
    way: tuple[tuple[Fraction, Fraction], ...] = Field(min_length=1, max_length=100)
    button: Button = "left"


class MoveInput(_Pointed):
    """Pointer position after a movement."""

    kind: Literal["move"] = "move"


class ScrollInput(_Pointed):
    """Wheel movement in notches: `dy` up is positive."""

    kind: Literal["scroll"] = "scroll"
    dx: int = Field(default=0, ge=-50, le=50)
    dy: int = Field(default=0, ge=-50, le=50)


class KeyInput(_Input):
    """Key, by the browser's `KeyboardEvent.key`, with the held modifiers."""

    kind: Literal["key"] = "key"
    key: str = Field(min_length=1, max_length=40)
    modifiers: tuple[Literal["ctrl", "alt", "shift", "win"], ...] = Field(default=(), max_length=4)


class TextInput(_Input):
    """Text that was pasted, or composed by an input method."""

    kind: Literal["text"] = "text"
    text: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)


UserInput = Annotated[
    ClickInput | DragInput | MoveInput | ScrollInput | KeyInput | TextInput, Field(discriminator="kind")
]
INPUTS: TypeAdapter[list[UserInput]] = TypeAdapter(Annotated[list[UserInput], Field(max_length=MAX_INPUTS)])


def to_actions(inputs: Sequence[UserInput], geometry: ScreenGeometry) -> list[Action]:
    """Convert inputs to actions; consecutive letters become one text, unknown keys are dropped."""
    actions: list[Action] = []
    for item in inputs:
        for action in _actions(item, geometry):
            last = actions[-1] if actions else None
            if isinstance(action, TypeText) and isinstance(last, TypeText):
                actions[-1] = TypeText(text=last.text + action.text)
            else:
                actions.append(action)
    return actions


def redact_texts(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Return the actions for the record: typed text may be a password, so only its length is kept."""
    return tuple(
        replace(action, text="*" * len(action.text)) if isinstance(action, TypeText) else action for action in actions
    )


def _actions(item: UserInput, geometry: ScreenGeometry) -> list[Action]:
    if isinstance(item, TextInput):
        return [TypeText(text=item.text)]
    if isinstance(item, KeyInput):
        return _key(item)
    x_px, y_px = geometry.from_model(item.x, item.y)
    match item:
        case ClickInput():
            return [Click(x_px=x_px, y_px=y_px, button=item.button, clicks=item.clicks)]
        case MoveInput():
            return [Move(x_px=x_px, y_px=y_px)]
        case ScrollInput():
            return [Scroll(x_px=x_px, y_px=y_px, dx=item.dx, dy=item.dy)]
        case DragInput():
            way = [geometry.from_model(x, y) for x, y in item.way]
            return [
                MouseDown(x_px=x_px, y_px=y_px, button=item.button),
                *(Move(x_px=point[0], y_px=point[1]) for point in way),
                MouseUp(x_px=way[-1][0], y_px=way[-1][1], button=item.button),
            ]


def _key(item: KeyInput) -> list[Action]:
    held = tuple(name for name in _MODIFIERS if name in item.modifiers)
    if len(item.key) == 1 and not set(held) - {"shift"}:
        return [TypeText(text=item.key)]
    try:
        key = normalize_key(_NAVIGATION.get(item.key.lower(), item.key))
    except ValueError:
        return []
    if key not in KEY_NAMES or key in held:
        return []
    return [Hotkey(keys=(*held, key.lower() if len(key) == 1 else key))] if held else [PressKey(key=key)]
