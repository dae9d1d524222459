"""Steps that an instruction may ask for: plain data, a small class for each kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from apps.literal.targets import Direction, Looks, OpenerKind, Target, one_line
from apps.literal.text_match import squash


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenUntil:
    """Open one thing after another (tabs, sections, the nodes of a tree, pages of a list) until a target is seen.

    Attributes:
        kind: What is opened.
        target: What is looked for.
    """

    kind: OpenerKind
    target: Target

    def __str__(self) -> str:
        return f"Open one {self.kind} after another until {self.target} is seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyText:
    """Copy what a field holds to the clipboard."""

    field: Target

    def __str__(self) -> str:
        return f"Copy the text of {self.field}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasteText:
    """Replace what a field holds by the clipboard's text."""

    field: Target

    def __str__(self) -> str:
        return f"Paste into {self.field}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectText:
    """Mark a text: a paragraph by its number, a quoted text, or all of the editor's.

    Attributes:
        text: The text; empty for a paragraph or for everything.
        paragraph: Which paragraph, 1-based, -1 is the last; None is the only one.
        style: A style that the marked text is given: a letter that Ctrl is held with, or empty.
        is_all: Whether all that the editor holds is meant.
    """

    text: str = ""
    paragraph: int | None = None
    style: Literal["", "b", "i", "u"] = ""
    is_all: bool = False

    def __str__(self) -> str:
        what = f'"{one_line(self.text)}"' if self.text else "everything" if self.is_all else "the paragraph"
        if self.paragraph is not None:
            what = f"paragraph {self.paragraph}" if self.paragraph > 0 else "the last paragraph"
        return f"Mark {what}" + (f" and press Ctrl+{self.style.upper()}" if self.style else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work out an answer from what is seen, and remember it: a word of a paragraph, a sum, an unknown.

    Attributes:
        kind: What is worked out.
        ordinal: Which word, 1-based, -1 is the last.
        is_in_area: Whether the text stands in a text area, which may have to be scrolled.
    """

    kind: Literal["word", "sum", "unknown"]
    ordinal: int = 1
    is_in_area: bool = False

    def __str__(self) -> str:
        if self.kind == "word":
            return "Read the last word of the text" if self.ordinal == -1 else f"Read word {self.ordinal} of the text"
        return "Work out the sum" if self.kind == "sum" else "Solve for the unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveUnsent:
    """Press no button that sends what was filled in."""

    def __str__(self) -> str:
        return "Do not submit it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeAnswer:
    """Type what an earlier step read or worked out."""

    field: Target

    def __str__(self) -> str:
        return f"Type the answer into {self.field}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillFromPage:
    """Give each labelled field the value that stands beside the same label elsewhere on the page."""

    def __str__(self) -> str:
        return "Fill each field with the value of its label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """Bring a slider or a spinner to a value.

    Attributes:
        value: The number to be shown.
        number: Which slider from the top, 1-based; None is the only one.
        is_spinner: Whether it is a number field with arrows.
    """

    value: float
    number: int | None = None
    is_spinner: bool = False

    def __str__(self) -> str:
        name = "spinner" if self.is_spinner else "slider"
        return f"Set {name} {self.number or ''}".rstrip() + f" to {self.value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PressFigures:
    """Press a figure in its middle, or all that look so, one after another.

    Attributes:
        looks: What they look like.
        is_all: Whether all of them are meant.
        phrase: The words as written: a text that says so is pressed first.
        is_only: Whether there may be only one.
    """

    looks: Looks
    is_all: bool = False
    phrase: str = ""
    is_only: bool = False

    def __str__(self) -> str:
        return f"Press {'all figures' if self.is_all else 'the figure'} that look like: {self.looks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DragFigures:
    """Drag a figure, or all that look so, in a direction or into a box.

    Attributes:
        looks: What they look like.
        direction: Where to, when no box is named.
        box: Which box: its colour, "left" or "right", "larger", or empty for the only one.
        is_others: Whether those are meant that do not look so.
    """

    looks: Looks
    direction: Literal["", "left", "right", "up", "down"] = ""
    box: str = ""
    is_others: bool = False

    def __str__(self) -> str:
        what = f"each figure that is no {self.looks}" if self.is_others else f"the figures that look like: {self.looks}"
        return f"Drag {what} {self.direction or f'into the {self.box} box'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TellFigures:
    """Tell how many figures look so, or what the only one is, and press the button that says it when there is one.

    Attributes:
        looks: What is counted.
        what: What is told.
    """

    looks: Looks
    what: Literal["count", "name", "sides"] = "count"

    def __str__(self) -> str:
        if self.what == "count":
            return f"Count the figures that look like: {self.looks}"
        return "Count the sides of the figure" if self.what == "sides" else "Name the figure"


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
