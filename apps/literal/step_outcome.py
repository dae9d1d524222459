"""Result of planning a step, and the progress that is restored from earlier action texts."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from apps.literal.screen import OcrScreen, ScreenHistory
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
class StepPhase:
    """Part of a step that did not finish it: the try of its kind, and the label of what was clicked, if needed."""

    kind: str
    number: int
    label: str = ""


NoteKind = Literal[
    "saw", "good", "unsure", "new", "doubt", "held", "typed", "gone", "ran", "was", "moved", "sign", "button",
    "busy", "idle",
]  # fmt: skip
"""Kinds of notes about a screen.

`saw`: an error message. `good`, `unsure`: texts that appeared after the last action. `new`: start of the page that
replaced the result. `doubt`: a text that may be mistyped. `held`, `typed`: contents of a field before and after typing.
`gone`: texts near the clicked element that disappeared. `ran`: work in progress shown by the clicked button. `was`:
digest of the texts before the last action. `moved`: the texts changed after it. `sign`: evidence that the action
worked. `button`: a button was clicked. `busy`: work still in progress. `idle`: nothing changed. The last two apply to
the last look only.
"""

_PASSING = ("busy", "idle")


@dataclass(frozen=True, slots=True)
class ScreenNote:
    """Fact about a screen that must be remembered after the screen has left the history."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgress:
    """Progress of a run.

    Attributes:
        index: 0-based index of the next step.
        phases: Phases of that step so far.
        answers: Answers of earlier steps, in order.
        last_action: Text of the last action, as in the history.
        notes: Notes so far, oldest first.
        num_looks: Number of looks at the screen after the last step.
        is_sent: True if the form was sent by a button that no step names.
    """

    index: int = 0
    phases: tuple[StepPhase, ...] = ()
    answers: tuple[str, ...] = ()
    last_action: str = ""
    notes: tuple[ScreenNote, ...] = ()
    num_looks: int = 0
    is_sent: bool = False

    def count(self, kind: str) -> int:
        """Return the number of phases of a kind in this step."""
        return sum(phase.kind == kind for phase in self.phases)

    @property
    def last(self) -> str:
        """Kind of the last phase; empty if the step has none."""
        return self.phases[-1].kind if self.phases else ""

    def note_texts(self, kind: NoteKind) -> tuple[str, ...]:
        """Return the texts of one kind of note."""
        return tuple(note.text for note in self.notes if note.kind == kind)

    def with_notes(self, notes: Iterable[ScreenNote]) -> "StepProgress":
        """Return the progress with more notes, without duplicates; earlier notes of the last look are dropped."""
        kept = (note for note in self.notes if note.kind not in _PASSING)
        return replace(self, notes=tuple(dict.fromkeys((*kept, *notes))))

    def new_notes(self, notes: Iterable[ScreenNote]) -> tuple[ScreenNote, ...]:
        """Return the notes that the history does not contain, or contains for its last look only."""
        return tuple(note for note in dict.fromkeys(notes) if note.kind in _PASSING or note not in self.notes)

    def next_step(self) -> "StepProgress":
        """Return the progress advanced by one step without an action."""
        return replace(self, index=self.index + 1, phases=())


def format_action(
    index: int,
    total: int,
    text: str,
    phase: StepPhase | None = None,
    answer: str | None = None,
    notes: Iterable[ScreenNote] = (),
) -> str:
    """Format an action text that `read_progress` can parse."""
    marked = f"[{index + 1}/{total}] {' '.join(text.split())}"
    if phase is not None:
        marked += f" · {phase.kind} {phase.number}" + (f' of "{_plain(phase.label)}"' if phase.label else "")
    marked += "".join(f' · {note.kind} "{_plain(note.text)}"' for note in notes)
    if answer is not None:
        marked += f" => {' '.join(answer.split())}"
    return marked


def _plain(label: str) -> str:
    return " ".join(label.replace('"', "'").split())


def read_progress(messages: Sequence[Message], total: int) -> StepProgress:
    """Restore the progress from the assistant's messages, oldest first."""
    progress = StepProgress()
    for message in messages:
        if message.role != "assistant":
            continue
        for match in _ACTION.finditer(message.text):
            progress = _advance(progress, match[1].strip(), total)
    return progress


def _advance(progress: StepProgress, action: str, total: int) -> StepProgress:
    mark = _MARK.match(action)
    if mark is None or int(mark["total"]) != total:
        return progress
    index, kind = int(mark["step"]) - 1, mark["kind"]
    answers = (*progress.answers, mark["answer"]) if mark["answer"] is not None else progress.answers
    notes = [ScreenNote(cast("NoteKind", each["kind"]), each["text"]) for each in _NOTE.finditer(mark["notes"])]
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
    phase = StepPhase(kind=kind, number=int(mark["number"]), label=mark["label"] or "")
    if kind == _LOOK:
        return replace(common, index=index + 1, num_looks=phase.number)
    return replace(common, phases=(*(progress.phases if index == progress.index else ()), phase))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """Screens and progress on which the next action of a step depends.

    Attributes:
        sight: Current and earlier screens.
        progress: Progress so far.
        typed: Texts that earlier steps typed.
    """

    sight: ScreenHistory
    progress: StepProgress
    typed: Sequence[str] = ()

    @property
    def now(self) -> OcrScreen:
        """Current screen."""
        return self.sight.now

    @property
    def before(self) -> OcrScreen | None:
        """Screen on which the last action was executed."""
        return self.sight.before


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCode:
    """Code to run, in lines of pyautogui calls, and the reason.

    Attributes:
        phase: Kind of phase, if the step continues after this action.
        answer: Answer that the step read.
        label: Text of what is clicked, if later phases need it.
        notes: Facts to remember about this screen.
    """

    code: tuple[str, ...]
    thought: str
    phase: str = ""
    answer: str | None = None
    label: str = ""
    notes: tuple[ScreenNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do, as the step is already complete; `doubt` is the evidence against it, if it is uncertain."""

    thought: str
    doubt: str = ""
    notes: tuple[ScreenNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """Target that is not on the screen, with the most similar texts: search further, then give up."""

    what: str
    nearest: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Failed:
    """Failure that searching further cannot fix."""

    reason: str


StepOutcome = RunCode | Done | NotFound | Failed
StepPlans = dict[type, Callable[[Any, StepView], StepOutcome]]
"""Functions that return the next action of a step, by its class."""


def at(screen: OcrScreen, point: tuple[float, float]) -> str:
    """Return a point as two arguments, in fractions of the image."""
    x, y = point
    return f"{min(max(x / screen.width, 0.0), 1.0):.4f}, {min(max(y / screen.height, 0.0), 1.0):.4f}"


def click(
    screen: OcrScreen,
    point: tuple[float, float],
    thought: str,
    phase: str = "",
    *,
    pause_s: float = 0.0,
    call: str = "click",
    label: str = "",
) -> RunCode:
    """Return a click on a point, or another call of the mouse, and a pause after it."""
    code = (f"pyautogui.{call}({at(screen, point)})", *([f"time.sleep({pause_s:g})"] if pause_s else []))
    return RunCode(code=code, thought=thought, phase=phase, label=label)


def drag(
    screen: OcrScreen, start: tuple[float, float], end: tuple[float, float], duration_s: float = 0.3
) -> tuple[str, str]:
    """Return code that drags from one point to another."""
    to = f"pyautogui.dragTo({at(screen, end)}, duration={duration_s:g}, button='left')"
    return f"pyautogui.moveTo({at(screen, start)})", to


def replace_text(screen: OcrScreen, point: tuple[float, float], *then: str) -> tuple[str, ...]:
    """Return code that clicks a field, selects its contents, and goes on."""
    return (f"pyautogui.click({at(screen, point)})", "pyautogui.hotkey('ctrl', 'a')", *then)


def wait(duration_s: float, thought: str, phase: str = "wait") -> RunCode:
    """Return a pause, after which the step looks at the screen again."""
    return RunCode(code=(f"time.sleep({duration_s:g})",), thought=thought, phase=phase)


class NotUnderstoodError(ValueError):
    """Error for a phrase with words that have no meaning in the grammar.

    Attributes:
        words: The words, with their quotes.
        hint: Suggested wording.
    """

    def __init__(self, words: str, hint: str = "") -> None:
        super().__init__(words)
        self.words = " ".join(words.split())
        self.hint = hint
