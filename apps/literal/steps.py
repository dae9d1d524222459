"""Steps of an instruction: plain data, one small class for each kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from apps.literal.targets import Direction, ElementTarget, FigureStyle, OpenerKind, one_line
from apps.literal.text_match import alphanumeric


class PlainStep:
    """Base class of the steps; `wording` is the format of their text, with the step as `s`."""

    __slots__ = ()
    wording: ClassVar[str] = ""

    def __str__(self) -> str:
        return one_line(self.wording.format(s=self))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenUntil(PlainStep):
    """Open elements of a kind one after another (tabs, sections, tree nodes, pages) until a target is visible."""

    wording = "Open one {s.kind} after another until {s.target} is seen"
    kind: OpenerKind
    target: ElementTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyText(PlainStep):
    """Copy the contents of a field to the clipboard."""

    wording = "Copy the text of {s.field}"
    field: ElementTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class PasteText(PlainStep):
    """Replace the contents of a field with the clipboard's text."""

    wording = "Paste into {s.field}"
    field: ElementTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectText(PlainStep):
    """Select a text: a paragraph by its number, a quoted text, or all text of the editor.

    Attributes:
        text: The text; empty for a paragraph or for everything.
        paragraph: 1-based number of the paragraph; -1 is the last; None is the only one.
        style: Letter of the Ctrl shortcut that styles the selected text, or empty.
        is_all: True to select everything in the editor.
    """

    text: str = ""
    paragraph: int | None = None
    style: Literal["", "b", "i", "u"] = ""
    is_all: bool = False

    def __str__(self) -> str:
        selection = f'"{one_line(self.text)}"' if self.text else "everything" if self.is_all else "the paragraph"
        if self.paragraph is not None:
            selection = f"paragraph {self.paragraph}" if self.paragraph > 0 else "the last paragraph"
        return f"Mark {selection}" + (f" and press Ctrl+{self.style.upper()}" if self.style else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAnswer(PlainStep):
    """Compute an answer from the screen and store it: a word of a paragraph, a sum, an unknown.

    Attributes:
        ordinal: 1-based number of the word; -1 is the last.
        is_in_area: True if the text is in a text area, which may have to be scrolled.
    """

    kind: Literal["word", "sum", "unknown"]
    ordinal: int = 1
    is_in_area: bool = False

    def __str__(self) -> str:
        if self.kind == "word":
            return "Read the last word of the text" if self.ordinal == -1 else f"Read word {self.ordinal} of the text"
        return "Work out the sum" if self.kind == "sum" else "Solve for the unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoNotSubmit(PlainStep):
    """Do not press any button that sends the form."""

    wording = "Do not submit it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeAnswer(PlainStep):
    """Type the answer that an earlier step read or computed."""

    wording = "Type the answer into {s.field}"
    field: ElementTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class FillFromPage(PlainStep):
    """Fill each labelled field with the value next to the same label elsewhere on the page."""

    wording = "Fill each field with the value of its label"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSlider(PlainStep):
    """Set a slider, or a spinner (a number field with arrows), to a value.

    `number` is the 1-based number of the slider from the top; None is the only one.
    """

    value: float
    number: int | None = None
    is_spinner: bool = False

    def __str__(self) -> str:
        name = "spinner" if self.is_spinner else "slider"
        return f"Set {name} {self.number or ''}".rstrip() + f" to {self.value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickFigures(PlainStep):
    """Click the centre of a figure, or of all matching figures, one after another.

    Attributes:
        phrase: Words as written; a matching text is preferred to a figure.
        is_only: True if exactly one figure must match.
    """

    looks: FigureStyle
    is_all: bool = False
    phrase: str = ""
    is_only: bool = False

    def __str__(self) -> str:
        return f"Press {'all figures' if self.is_all else 'the figure'} that look like: {self.looks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DragFigures(PlainStep):
    """Drag a figure, or all matching figures, in a direction or into a box.

    Attributes:
        direction: Direction, if no box is named.
        box: Target box: its colour, "left" or "right", "larger", or empty for the only one.
        is_others: True to drag the figures that do not match.
    """

    looks: FigureStyle
    direction: Literal["", "left", "right", "up", "down"] = ""
    box: str = ""
    is_others: bool = False

    def __str__(self) -> str:
        figures = (
            f"each figure that is not {self.looks}" if self.is_others else f"the figures that look like: {self.looks}"
        )
        return f"Drag {figures} {self.direction or f'into the {self.box} box'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFigures(PlainStep):
    """Count the matching figures, or name the only one, and press the button with the answer if there is one."""

    looks: FigureStyle
    what: Literal["count", "name", "sides"] = "count"

    def __str__(self) -> str:
        if self.what == "count":
            return f"Count the figures that look like: {self.looks}"
        return "Count the sides of the figure" if self.what == "sides" else "Name the figure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickTarget(PlainStep):
    """Click a target with a mouse button, or only hover if `clicks` is 0.

    `reveals` is the next part of a menu path; if hovering shows it, no click is needed.
    """

    target: ElementTarget
    button: Literal["left", "right", "middle"] = "left"
    clicks: int = 1
    reveals: str = ""

    def __str__(self) -> str:
        verb = {0: "Hover over", 1: "Click", 2: "Double-click", 3: "Triple-click"}[self.clicks]
        return f"{verb if self.button == 'left' else self.button.capitalize() + '-click'} {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeInto(PlainStep):
    """Type into a field, or into the focused element if `field` is None."""

    text: str
    field: ElementTarget | None = None
    append: bool = False
    enter: bool = False

    def __str__(self) -> str:
        destination = f" into {self.field}" if self.field is not None else ""
        return f'{"Append" if self.append else "Type"} "{one_line(self.text)}"{destination}'


@dataclass(frozen=True, slots=True, kw_only=True)
class SetValue(PlainStep):
    """Set the value of a labelled element: type into a field, choose from a list."""

    wording = 'Set {s.field} to "{s.value}"'
    field: ElementTarget
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearField(PlainStep):
    """Clear a field."""

    wording = "Clear {s.field}"
    field: ElementTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectOption(PlainStep):
    """Choose an option of a list; without `field`, any element with the option's text.

    With `is_more`, the options that earlier steps selected stay selected.
    """

    option: ElementTarget
    field: ElementTarget | None = None
    is_more: bool = False

    def __str__(self) -> str:
        return f"Select {self.option}" + (f" in {self.field}" if self.field is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PickSuggestion(PlainStep):
    """Type the beginning of a text into a field, or the only one, and choose from the suggestions below it.

    Start, end and part of the text are empty if unspecified.
    """

    start: str = ""
    end: str = ""
    part: str = ""
    field: ElementTarget | None = None

    @property
    def typed(self) -> str:
        """Text to type, after which the suggestions appear."""
        return self.start or self.part or self.end

    def fits(self, text: str) -> bool:
        """Return True if a suggestion meets the conditions."""
        return any(
            seen.startswith(start) and seen.endswith(end) and part in seen
            for change in (str.casefold, alphanumeric)
            for seen, start, end, part in [(change(text), change(self.start), change(self.end), change(self.part))]
        )

    @property
    def words(self) -> str:
        """Conditions on the suggestion, in words."""
        conditions = (("starts with", self.start), ("ends with", self.end), ("contains", self.part))
        return " and ".join(f'{relation} "{text}"' for relation, text in conditions if text)

    def __str__(self) -> str:
        return f"Choose a suggestion that {self.words}" + (f" in {self.field}" if self.field is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetToggle(PlainStep):
    """Set a checkbox, switch or radio button to a state."""

    target: ElementTarget
    is_on: bool = True

    def __str__(self) -> str:
        return f"{'Tick' if self.is_on else 'Untick'} {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PressKeys(PlainStep):
    """Press keys together, `times` times; with `is_submit`, a button "Submit" instead if there is one."""

    keys: tuple[str, ...]
    times: int = 1
    is_submit: bool = False

    def __str__(self) -> str:
        return f"Press {'+'.join(self.keys)}" + (f" {self.times} times" if self.times > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrollBy(PlainStep):
    """Turn the mouse wheel; `notches` None scrolls to the end."""

    direction: Direction
    notches: int | None = 5
    over: ElementTarget | None = None

    def __str__(self) -> str:
        how = "to the end" if self.notches is None else f"{self.notches} notches"
        return f"Scroll {self.direction} {how}" + (f" over {self.over}" if self.over is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrollUntil(PlainStep):
    """Scroll until a text is visible."""

    wording = "Scroll {s.direction} until {s.target} is seen"
    target: ElementTarget
    direction: Direction = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class DragTarget(PlainStep):
    """Drag one target onto another, or by a distance in pixels of the image."""

    source: ElementTarget
    onto: ElementTarget | None = None
    by_px: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"Drag {self.source} " + (f"to {self.onto}" if self.onto is not None else f"by {self.by_px} pixels")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor(PlainStep):
    """Wait until a text appears or disappears."""

    text: str
    is_shown: bool = True

    def __str__(self) -> str:
        return f'Wait until "{self.text}" {"appears" if self.is_shown else "is gone"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSeconds(PlainStep):
    """Wait for a fixed time."""

    wording = "Wait {s.duration_s:g} seconds"
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAddress(PlainStep):
    """Open an address through the address bar."""

    wording = "Open {s.url}"
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDialog(PlainStep):
    """Press a button that accepts a dialog (OK, Yes) or dismisses it (Cancel, No)."""

    accept: bool

    def __str__(self) -> str:
        return f"{'Accept' if self.accept else 'Dismiss'} the dialog"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportValue(PlainStep):
    """Answer with the text next to a label."""

    wording = "Read {s.target}"
    target: ElementTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckShown(PlainStep):
    """Check that a text is shown (or not); with `value`, that this value is next to it."""

    target: ElementTarget
    value: str | None = None
    is_shown: bool = True

    def __str__(self) -> str:
        if self.value is not None:
            return f'Check that {self.target} is "{self.value}"'
        return f"Check that {self.target} is {'' if self.is_shown else 'not '}shown"


def find_typed(steps: Sequence[PlainStep]) -> list[str]:
    """Return the texts that the steps type, in order."""
    return [
        step.value if isinstance(step, SetValue) else step.text
        for step in steps
        if isinstance(step, (TypeInto, SetValue))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Part of an instruction that could not be parsed as a step.

    `words` in it were not understood, if the rest was; `hint` is a suggested wording.
    """

    text: str
    words: str = ""
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"'{self.words}' in '{self.text}'{hint}" if self.words else f"'{self.text}'{hint}"
