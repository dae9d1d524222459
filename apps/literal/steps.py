"""What an instruction may ask for: plain data, one small class a kind of step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from apps.literal.targets import Direction, Target, one_line
from apps.literal.text_match import squash
from apps.literal.work_steps import (
    CopyText,
    DragFigures,
    FillFromPage,
    LeaveUnsent,
    OpenUntil,
    PasteText,
    PressFigures,
    SelectText,
    Slide,
    TellFigures,
    TypeAnswer,
    Work,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Click:
    """Press a mouse button on a target, or only hover with `clicks` 0.

    Attributes:
        target: What to press.
        button: Which button.
        clicks: How often.
        reveals: For a part of a menu's path, the next part: hovering is enough when that shows it.
    """

    target: Target
    button: Literal["left", "right", "middle"] = "left"
    clicks: int = 1
    reveals: str = ""

    def __str__(self) -> str:
        verb = {0: "Hover over", 1: "Click", 2: "Double-click", 3: "Triple-click"}[self.clicks]
        return f"{verb if self.button == 'left' else self.button.capitalize() + '-click'} {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeText:
    """Type into a field, or into whatever has the focus when `field` is None."""

    text: str
    field: Target | None = None
    append: bool = False
    enter: bool = False

    def __str__(self) -> str:
        where = f" into {self.field}" if self.field is not None else ""
        return f'{"Append" if self.append else "Type"} "{one_line(self.text)}"{where}'


@dataclass(frozen=True, slots=True, kw_only=True)
class SetValue:
    """Give a labelled thing a value: a field is typed into, a list is chosen from."""

    field: Target
    value: str

    def __str__(self) -> str:
        return f'Set {self.field} to "{one_line(self.value)}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearField:
    """Empty a field."""

    field: Target

    def __str__(self) -> str:
        return f"Clear {self.field}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOption:
    """Choose a row of a list; without `field`, whatever bears the option's text.

    Attributes:
        option: The row.
        field: The list.
        is_more: Whether it is chosen beside the rows that the steps before chose.
    """

    option: Target
    field: Target | None = None
    is_more: bool = False

    def __str__(self) -> str:
        return f"Select {self.option}" + (f" in {self.field}" if self.field is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PickSuggestion:
    """Type the beginning of a text into a field, and choose from what the field suggests below it.

    Attributes:
        start: How the text begins; empty when not said.
        end: How it ends; empty when not said.
        part: What it contains; empty when not said.
        field: Where to type; None is the only field on the screen.
    """

    start: str = ""
    end: str = ""
    part: str = ""
    field: Target | None = None

    def fits(self, text: str) -> bool:
        """Whether a suggestion is one that was asked for."""
        return any(
            seen.startswith(start) and seen.endswith(end) and part in seen
            for change in (str.casefold, squash)
            for seen, start, end, part in [(change(text), change(self.start), change(self.end), change(self.part))]
        )

    @property
    def words(self) -> str:
        """What is wanted, in words."""
        said = (("starts with", self.start), ("ends with", self.end), ("contains", self.part))
        return " and ".join(f'{how} "{what}"' for how, what in said if what)

    def __str__(self) -> str:
        return f"Choose a suggestion that {self.words}" + (f" in {self.field}" if self.field is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Bring a checkbox, switch or radio button into a state."""

    target: Target
    is_on: bool = True

    def __str__(self) -> str:
        return f"{'Tick' if self.is_on else 'Untick'} {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PressKeys:
    """Press keys together, `times` times.

    Attributes:
        keys: The keys.
        times: How often.
        is_submit: Whether a form is to be sent: then a button that says Submit is pressed when there is one.
    """

    keys: tuple[str, ...]
    times: int = 1
    is_submit: bool = False

    def __str__(self) -> str:
        return f"Press {'+'.join(self.keys)}" + (f" {self.times} times" if self.times > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrollBy:
    """Turn the wheel; `notches` None is as far as it goes."""

    direction: Direction
    notches: int | None = 5
    over: Target | None = None

    def __str__(self) -> str:
        how = "to the end" if self.notches is None else f"{self.notches} notches"
        return f"Scroll {self.direction} {how}" + (f" over {self.over}" if self.over is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrollUntil:
    """Scroll until a text is seen."""

    target: Target
    direction: Direction = "down"

    def __str__(self) -> str:
        return f"Scroll {self.direction} until {self.target} is seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drag:
    """Drag one target onto another, or by a distance in pixels of the image."""

    source: Target
    onto: Target | None = None
    by_px: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"Drag {self.source} " + (f"to {self.onto}" if self.onto is not None else f"by {self.by_px} pixels")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor:
    """Wait until a text is there, or gone."""

    text: str
    is_shown: bool = True

    def __str__(self) -> str:
        return f'Wait until "{self.text}" {"appears" if self.is_shown else "is gone"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSeconds:
    """Wait a fixed time."""

    duration_s: float

    def __str__(self) -> str:
        return f"Wait {self.duration_s:g} seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAddress:
    """Go to an address, by the address bar's key."""

    url: str

    def __str__(self) -> str:
        return f"Open {self.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDialog:
    """Press a dialog's button: OK, Yes and the like, or Cancel, No and the like."""

    accept: bool

    def __str__(self) -> str:
        return f"{'Accept' if self.accept else 'Dismiss'} the dialog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Answer with what stands next to a label."""

    target: Target

    def __str__(self) -> str:
        return f"Read {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckShown:
    """Make sure that a text is there (or not); with `value`, that it stands next to the text."""

    target: Target
    value: str | None = None
    is_shown: bool = True

    def __str__(self) -> str:
        if self.value is not None:
            return f'Check that {self.target} is "{self.value}"'
        return f"Check that {self.target} is {'' if self.is_shown else 'not '}shown"


PlainStep = (
    Click
    | TypeText
    | SetValue
    | ClearField
    | SelectOption
    | PickSuggestion
    | Tick
    | PressKeys
    | ScrollBy
    | ScrollUntil
    | Drag
    | WaitFor
    | WaitSeconds
    | OpenAddress
    | AnswerDialog
    | Report
    | CheckShown
    | OpenUntil
    | CopyText
    | PasteText
    | SelectText
    | Work
    | TypeAnswer
    | FillFromPage
    | Slide
    | PressFigures
    | DragFigures
    | TellFigures
    | LeaveUnsent
)


def find_typed(steps: Sequence[PlainStep]) -> list[str]:
    """What steps type, in order."""
    return [
        step.value if isinstance(step, SetValue) else step.text
        for step in steps
        if isinstance(step, (TypeText, SetValue))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A part of an instruction that is no plain step.

    Attributes:
        text: The part, as written.
        words: The words in it that were not understood, when the rest was.
        hint: What would be understood.
    """

    text: str
    words: str = ""
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"'{self.words}' in '{self.text}'{hint}" if self.words else f"'{self.text}'{hint}"
