"""Moves that a step leads to, and the progress that is read back from earlier action texts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from apps.literal.screen import Screen
from cua.messages import Message

_ACTION = re.compile(r"##\s*+Action\s*+:?\s*+([^\n]+)")
_MARK = re.compile(
    r"\[(?P<step>\d+)/(?P<total>\d+)\] (?:.*?)(?: · (?P<kind>scroll down|scroll up|panels down|panels up|wait|open"
    r"|find option|pick|keys|type|toggle|look|seek|turn|nudge|part|send|enter|press)"
    r" (?P<number>\d+)(?: of \"(?P<label>[^\"]*)\")?)?(?P<notes>(?: · [a-z]+ \"[^\"]*\")*)(?: => (?P<answer>.*))?$",
    re.S,
)
_NOTE = re.compile(r" · (?P<kind>[a-z]+) \"(?P<text>[^\"]*)\"")
_LOOK, _SEND = "look", "send"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of a step that did not finish it.

    Attributes:
        kind: Its kind.
        number: Which try of that kind it was, from 1.
        label: What was pressed, when that has to be remembered.
    """

    kind: str
    number: int
    label: str = ""


NoteKind = Literal[
    "saw",
    "good",
    "unsure",
    "new",
    "doubt",
    "held",
    "typed",
    "gone",
    "ran",
    "was",
    "moved",
    "sign",
    "button",
    "busy",
    "idle",
]
"""What is to be remembered of a screen: `saw` a message of trouble, `good` or `unsure` what came up after the last act,
`new` how the page begins that came in its place, `doubt` a text that was perhaps typed wrong, `held` and `typed` what a
field showed before and after typing, `gone` what was near the act before it, `ran` work in progress that the pressed
button showed, `was` a digest of the texts before the last act, `moved` that they changed after it, `sign` what
speaks for the act, `button` that a button was pressed, `busy` what goes on
still, `idle` nothing changed. The last two are true of the last look alone."""

_LASTING = ("saw", "good", "unsure", "new", "doubt", "held", "typed", "gone", "ran", "was", "moved", "sign", "button")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something of a screen that has to be remembered when the screen is not in the history any more."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come.

    Attributes:
        index: 0-based index of the step to do next.
        phases: What was already done for that step.
        answers: What earlier steps read, in order.
        last_action: The last action's text, as the history has it.
        notes: What was noted on the way, oldest first.
        num_looks: How often the screen was looked at again after the last step.
        is_sent: Whether what the steps filled in was sent by a button that none of them names.
    """

    index: int = 0
    phases: tuple[Phase, ...] = ()
    answers: tuple[str, ...] = ()
    last_action: str = ""
    notes: tuple[Note, ...] = ()
    num_looks: int = 0
    is_sent: bool = False

    def count(self, kind: str) -> int:
        """How often a kind of phase was gone through in this step."""
        return sum(phase.kind == kind for phase in self.phases)

    @property
    def last(self) -> str:
        """The kind of the last phase, empty when the step is fresh."""
        return self.phases[-1].kind if self.phases else ""

    def noted(self, kind: NoteKind) -> tuple[str, ...]:
        """The texts of one kind of note."""
        return tuple(note.text for note in self.notes if note.kind == kind)

    def with_notes(self, notes: Iterable[Note]) -> "Progress":
        """The same run with more notes, each once; those of the last look alone are given up."""
        kept = (note for note in self.notes if note.kind in _LASTING)
        return replace(self, notes=tuple(dict.fromkeys((*kept, *notes))))

    def unwritten(self, notes: Iterable[Note]) -> tuple[Note, ...]:
        """Those of some notes that the history does not hold yet, or holds for its last look alone."""
        return tuple(note for note in dict.fromkeys(notes) if note.kind not in _LASTING or note not in self.notes)

    def next_step(self) -> "Progress":
        """The same run, one step further, without an action."""
        return replace(self, index=self.index + 1, phases=())


def format_action(
    index: int,
    total: int,
    text: str,
    phase: Phase | None = None,
    answer: str | None = None,
    notes: Iterable[Note] = (),
) -> str:
    """An action text that `read_progress` understands and a person can read."""
    marked = f"[{index + 1}/{total}] {' '.join(text.split())}"
    if phase is not None:
        marked += f" · {phase.kind} {phase.number}" + (f' of "{_plain(phase.label)}"' if phase.label else "")
    marked += "".join(f' · {note.kind} "{_plain(note.text)}"' for note in notes)
    if answer is not None:
        marked += f" => {' '.join(answer.split())}"
    return marked


def _plain(label: str) -> str:
    return " ".join(label.replace('"', "'").split())


def read_progress(messages: Sequence[Message], total: int) -> Progress:
    """Go through the assistant's messages, oldest first."""
    progress = Progress()
    for message in messages:
        if message.role != "assistant":
            continue
        for match in _ACTION.finditer(message.text):
            progress = _advance(progress, match[1].strip(), total)
    return progress


def _advance(progress: Progress, action: str, total: int) -> Progress:
    mark = _MARK.match(action)
    if mark is None or int(mark["total"]) != total:
        return progress
    index, kind = int(mark["step"]) - 1, mark["kind"]
    answers = (*progress.answers, mark["answer"]) if mark["answer"] is not None else progress.answers
    notes = [Note(kind=cast("NoteKind", each["kind"]), text=each["text"]) for each in _NOTE.finditer(mark["notes"])]
    is_sent = progress.is_sent or kind == _SEND
    common = replace(
        progress.with_notes(notes),
        index=index,
        phases=(),
        answers=answers,
        last_action=action,
        num_looks=0,
        is_sent=is_sent,
    )
    if kind is None or kind == _SEND:
        return replace(common, index=index + 1)
    phase = Phase(kind=kind, number=int(mark["number"]), label=mark["label"] or "")
    if kind == _LOOK:
        return replace(common, index=index + 1, num_looks=phase.number)
    return replace(common, phases=(*(progress.phases if index == progress.index else ()), phase))


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
