"""Advice for the user on undoing the agent's last actions, by rules; it states where undo is impossible."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from cua.guard.words import kind_of
from cua.step import Step
from envs import Action, Click, Drag, Hotkey, MouseUp, PressKey, TypeText

MAX_STEPS = 5  # earlier steps are rarely what a person wants to undo
_BACK = "Alt+Left goes back. What a form has sent stays sent"
_KEYS: dict[frozenset[str], str] = {
    frozenset({"ctrl", "s"}): "saved over the old content. Press Ctrl+Z there, then save again",
    frozenset({"ctrl", "w"}): "closed a tab or a document. Ctrl+Shift+T opens a browser's tab again",
    frozenset({"alt", "f4"}): "closed a window. Start the program again. What was not saved is gone",
    frozenset({"ctrl", "z"}): "undid something. Ctrl+Y or Ctrl+Shift+Z brings it back",
    frozenset({"ctrl", "x"}): "cut something out. Press Ctrl+Z, or paste it back with Ctrl+V",
    frozenset({"ctrl", "v"}): "pasted something. Press Ctrl+Z",
    frozenset({"shift", "delete"}): "deleted without the trash. Only a backup still has it",
}
_ONE_KEY = {
    "enter": "pressed Enter. What that sent cannot be called back from here",
    "return": "pressed Enter. What that sent cannot be called back from here",
    "delete": "deleted something. Press Ctrl+Z. A file lies in the trash",
    "backspace": "deleted something. Press Ctrl+Z. Alt+Right goes forward in a browser",
}
_RISKS = {
    "delete": "There is no sure way back. Look for Undo at once, then for a trash",
    "send": "What was sent cannot be called back. Look for Undo or Recall at once",
    "pay": "Money cannot be called back. Cancel the order, or contact the recipient",
}
_NO_WAY = "There is no rule for that. Look for Undo where it was done"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedStep:
    """Step of the agent.

    Attributes:
        number: Number of the step.
        says: Agent's description of its action.
        actions: Executed actions.
        url: Page URL before it.
        url_after: Page URL after it; None before the next observation.
    """

    number: int
    description: str
    actions: tuple[Action, ...]
    url: str | None
    url_after: str | None = None


class LastSteps:
    """Last steps of a run.

    Args:
        aftermath: Reason why nothing has to be undone, if that is so.
    """

    def __init__(self, undo_note: str = "") -> None:
        self._undo_note = undo_note
        self._steps: deque[FinishedStep] = deque(maxlen=MAX_STEPS)

    def add(self, step: Step) -> None:
        """Add a finished step."""
        description, url = step.turn.action_text, step.observation.url
        self._steps.append(FinishedStep(number=step.index, description=description, actions=step.actions, url=url))

    def set_url(self, url: str | None) -> None:
        """Set the URL observed after the last step."""
        if self._steps and self._steps[-1].url_after is None:
            self._steps.append(replace(self._steps.pop(), url_after=url))

    def advice(self) -> list[str]:
        """Return advice on undoing the steps."""
        return [self._undo_note] if self._undo_note else how_to_undo(self._steps)


def how_to_undo(steps: Sequence[FinishedStep]) -> list[str]:
    """Return a sentence for each of the last steps that changed something, newest first, which is the order to undo."""
    advice = [(step, _advice(step)) for step in reversed(tuple(steps))]
    return [f"Step {step.number} {text}." for step, text in advice if text][:MAX_STEPS]


def _advice(step: FinishedStep) -> str:
    changing = [
        action for action in step.actions if isinstance(action, Click | Drag | Hotkey | MouseUp | PressKey | TypeText)
    ]
    if not changing:
        return ""
    risk = _RISKS.get(kind_of(step.description) or "")
    if risk:
        return f'was "{_short(step.description)}". {risk}'
    if step.url and step.url_after and step.url != step.url_after:
        return f"left {_place(step.url)}. {_BACK}"
    return _of_action(changing[-1], step)


def _of_action(action: Action, step: FinishedStep) -> str:
    match action:
        case Hotkey(keys=keys):
            known = _KEYS.get(frozenset(keys))
            return known or f"pressed {'+'.join(keys)}. {_NO_WAY}"
        case PressKey(key=key):
            return _ONE_KEY.get(key, "")
        case TypeText(text=text) if text.endswith(("\n", "\r")):
            return f"typed {len(text) - 1} characters and {_ONE_KEY['enter']}"
        case TypeText(text=text):
            return f"typed {len(text)} characters. Press Ctrl+Z while that field has the focus"
        case Drag() | MouseUp():
            return "dragged something. Press Ctrl+Z, or drag it back"
    return f'was "{_short(step.description)}". A second click changes a box or a menu back. Otherwise look for Undo'


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def _place(url: str) -> str:
    parts = urlsplit(url)
    return _short(f"{parts.netloc}{parts.path}") or "a page"
