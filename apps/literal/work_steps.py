"""Steps of sentences as people write them: open and look, carry text, work out, slide, act on drawn figures."""

from dataclasses import dataclass
from typing import Literal

from apps.literal.targets import Looks, OpenerKind, Target, one_line


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
