"""Where actions went, as shapes over a screenshot.

Positions are shares of the picture, so they fall right at any size and device scale; what the shapes
look like is the page's matter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from envs import Action, Click, Drag, MouseDown, MouseUp, Move, Observation, ScreenGeometry, Scroll

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One shape.

    Attributes:
        number: 1-based number of the action within its step, the same as in the list beside the picture.
        kind: What it shows: `click`, `move`, `scroll`, or `drag` (an arrow from `x_from, y_from`).
        x: Share of the width, 0 left to 1 right.
        y: Share of the height, 0 top to 1 bottom.
        x_from: Where a drag began.
        y_from: Where a drag began.
        turn_deg: Direction of a scroll arrow: 0 down, 90 left, 180 up, 270 right.
    """

    number: int
    kind: Literal["click", "move", "scroll", "drag"]
    x: float
    y: float
    x_from: float = 0.0
    y_from: float = 0.0
    turn_deg: int = 0


def markers(actions: Sequence[Action], observation: Observation) -> tuple[Marker, ...]:
    """Shapes for the actions of a step over the picture that the model saw before them."""
    return tuple(_markers(actions, observation))


def _markers(actions: Sequence[Action], observation: Observation) -> Iterator[Marker]:
    geometry = observation.geometry
    pointer_px = observation.pointer_px
    held_at_px: tuple[int, int] | None = None
    for number, action in enumerate(actions, start=1):
        if not isinstance(action, Click | Move | Drag | Scroll | MouseDown | MouseUp):
            continue
        before_px = pointer_px
        target_px = _target_px(action, pointer_px)
        if target_px is None:
            continue
        x, y = _share(geometry, target_px)
        pointer_px = target_px
        match action:
            case Scroll():
                yield Marker(number=number, kind="scroll", x=x, y=y, turn_deg=_turn_deg(action))
            case Drag() if before_px is not None:
                yield _drag(number, geometry, before_px, target_px)
            case MouseUp() if held_at_px is not None:
                if held_at_px != target_px:
                    yield _drag(number, geometry, held_at_px, target_px)
                held_at_px = None
            case Move():
                if held_at_px is None:
                    yield Marker(number=number, kind="move", x=x, y=y)
            case _:
                held_at_px = target_px if isinstance(action, MouseDown) else held_at_px
                yield Marker(number=number, kind="click", x=x, y=y)


def _target_px(
    action: Click | Move | Drag | Scroll | MouseDown | MouseUp, pointer_px: tuple[int, int] | None
) -> tuple[int, int] | None:
    if action.x_px is None or action.y_px is None:
        return pointer_px
    return action.x_px, action.y_px


def _share(geometry: ScreenGeometry, at_px: tuple[int, int]) -> Point:
    """Share of the picture, kept inside it so that a marker never vanishes."""
    x, y = geometry.to_model(*at_px)
    return min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)


def _drag(number: int, geometry: ScreenGeometry, from_px: tuple[int, int], to_px: tuple[int, int]) -> Marker:
    x_from, y_from = _share(geometry, from_px)
    x, y = _share(geometry, to_px)
    return Marker(number=number, kind="drag", x=x, y=y, x_from=x_from, y_from=y_from)


def _turn_deg(action: Scroll) -> int:
    if action.dy:
        return 180 if action.dy > 0 else 0
    return 270 if action.dx > 0 else 90
