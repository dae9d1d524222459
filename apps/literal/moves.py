"""What a step leads to: code to run, a state that needs nothing, or a failure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.literal.progress import Note
from apps.literal.screen import Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Run code.

    Attributes:
        code: Lines of pyautogui calls.
        thought: Why.
        phase: Set when the step goes on after this: the kind of phase.
        answer: What the step read.
        label: What is pressed, when the next phases have to know.
        notes: What has to be remembered of this screen.
    """

    code: tuple[str, ...]
    thought: str
    phase: str = ""
    answer: str | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Already:
    """Nothing to do: it is so already.

    Attributes:
        thought: Why.
        doubt: What speaks against it, when that is not certain.
        notes: What has to be remembered of this screen.
    """

    thought: str
    doubt: str = ""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A target is not on the screen: look further, then give up.

    Attributes:
        what: What was looked for, in words.
        nearest: Texts on the screen that are most like it.
    """

    what: str
    nearest: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The step cannot be done, looking further will not help."""

    reason: str


Move = Act | Already | Missing | Failed


def at(screen: Screen, point: tuple[float, float]) -> str:
    """Two arguments: a point as fractions of the image."""
    x, y = point
    return f"{min(max(x / screen.width, 0.0), 1.0):.4f}, {min(max(y / screen.height, 0.0), 1.0):.4f}"


def quote(text: str) -> str:
    """A Python string literal."""
    return repr(text)


def hotkey(keys: Sequence[str]) -> str:
    """One call that presses keys together."""
    if len(keys) == 1:
        return f"pyautogui.press({quote(keys[0])})"
    return f"pyautogui.hotkey({', '.join(quote(key) for key in keys)})"


class NotUnderstoodError(ValueError):
    """A phrase holds words that have no meaning to the grammar.

    Attributes:
        words: The words, with their quotes.
        hint: What would be understood.
    """

    def __init__(self, words: str, hint: str = "") -> None:
        super().__init__(words)
        self.words = " ".join(words.split())
        self.hint = hint
