"""Actions that the code has produced so far, and the pointer position after them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cua.gui_agent.interpreter.coordinates import ModelFrame
from cua.gui_agent.interpreter.limits import CodeBudget, Refused
from cua.gui_agent.interpreter.values import Pixels, Point, Size
from envs import Action, Click, Drag, Hotkey, MouseDown, MouseUp, Move, PressKey, Scroll, Terminate, TypeText, Wait


@dataclass(slots=True, kw_only=True)
class ActionRecording:
    """Actions in the order of execution.

    Attributes:
        frame: Converts model coordinates to pixels.
        budget: Limits and the amounts used so far.
        pointer_px: Pointer position after the recorded actions, screen frame; None if unknown.
        marks: Centers of the numbered boxes, screen frame.
        actions: Recorded actions.
    """

    frame: ModelFrame
    budget: CodeBudget
    pointer_px: tuple[int, int] | None = None
    marks: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)

    def add(self, action: Action) -> None:
        """Append one action."""
        if self.actions and isinstance(self.actions[-1], Terminate):
            raise Refused("nothing can follow computer.terminate(...): put it last, outside of any with block")
        if len(self.actions) >= self.budget.limits.max_actions:
            raise Refused(f"more than {self.budget.limits.max_actions} actions in one step. Do less and look again")
        self.budget.spend_time(_duration_s(action))
        self.budget.spend_inputs(_num_inputs(action))
        if isinstance(action, TypeText):
            self.budget.spend_typing(len(action.text))
        self.actions.append(action)
        if isinstance(action, Click | Move | Drag | Scroll | MouseDown | MouseUp) and action.x_px is not None:
            assert action.y_px is not None
            self.pointer_px = (action.x_px, action.y_px)

    def pause(self, duration_s: float) -> None:
        """Append a wait."""
        self.add(Wait(duration_s=duration_s))

    def known_pointer_px(self) -> tuple[int, int]:
        """Return the pointer position, screen frame; `Refused` if it is unknown."""
        if self.pointer_px is None:
            raise Refused(
                "the pointer's position is not known yet: give both x and y, or call pyautogui.moveTo(x, y) first"
            )
        return self.pointer_px

    def to_screen(self, x: float | None, y: float | None) -> tuple[int, int] | None:
        """Return the screen pixel of a point; a missing coordinate is the pointer's. None if both are missing."""
        if x is None and y is None:
            return None
        x_px, y_px = self.frame.to_screen(0 if x is None else x, 0 if y is None else y)
        if x is None:
            x_px = self.known_pointer_px()[0]
        if y is None:
            y_px = self.known_pointer_px()[1]
        return x_px, y_px

    def position(self) -> Point:
        """Return the pointer position as `pyautogui.position()` does."""
        x_px, y_px = self.frame.from_screen(self.known_pointer_px())
        return Point(Pixels(x_px), Pixels(y_px))

    def mark(self, number: object) -> Point:
        """Return the center of a numbered box."""
        if not self.marks:
            raise Refused("the screenshot has no numbered boxes, so mark() means nothing here: give x and y")
        if isinstance(number, bool) or not isinstance(number, int) or number not in self.marks:
            raise Refused(f"there is no box {str(number)[:20]}; there are 1 to {max(self.marks)}")
        x_px, y_px = self.frame.from_screen(self.marks[number])
        return Point(Pixels(x_px), Pixels(y_px))

    def size(self) -> Size:
        """Return the screen size as `pyautogui.size()` does."""
        width, height = self.frame.size_px
        return Size(Pixels(width), Pixels(height))


def _num_inputs(action: Action) -> int:
    """Count clicks, key presses and wheel notches of an action."""
    match action:
        case Click():
            return action.clicks
        case PressKey():
            return action.presses
        case Scroll():
            return abs(action.dx) + abs(action.dy)
        case Hotkey():
            return len(action.keys)
        case _:
            return 0


def _duration_s(action: Action) -> float:
    """Return the seconds that an action requests, without the time that its execution takes."""
    match action:
        case Wait() | Move() | Drag():
            return action.duration_s
        case Click():
            return action.interval_s * action.clicks
        case PressKey():
            return action.interval_s * action.presses
        case TypeText():
            return action.interval_s * len(action.text)
        case _:
            return 0.0
