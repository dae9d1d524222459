"""Fields that were typed into, noted in the action texts so that they can be compared again at the end."""

from dataclasses import dataclass

from apps.literal.find_field import Field
from apps.literal.progress import Note, Progress
from apps.literal.read_back import read_field
from apps.literal.screen import Screen
from visual_tools.box import Box

_SAME_PLACE_PX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedField:
    """A field that was typed into.

    Attributes:
        box_px: Where it was.
        held: What it showed before typing, a placeholder included.
        shown: What it showed after typing, when that was found to be right.
    """

    box_px: Box
    held: str
    shown: str

    def is_at(self, box: Box) -> bool:
        """True if a box is about where the field was; it may have grown with its text."""
        return max(abs(box.left - self.box_px.left), abs(box.top - self.box_px.top)) <= _SAME_PLACE_PX


def note_typed(index: int, field: Field, now: Screen) -> tuple[Note, ...]:
    """Notes of a field that shows what a step typed into it.

    Args:
        index: 0-based index of the step.
        field: The field as it was found on the screen before typing.
        now: The screen after typing.
    """
    box = field.box_px
    place = f"{box.left},{box.top},{box.right},{box.bottom}"
    held = (Note(kind="held", text=f"{index} {field.text}"),) if field.text else ()
    return (*held, Note(kind="typed", text=f"{index} {place} {read_field(field, now)}"))


def read_typed(progress: Progress, index: int) -> TypedField | None:
    """The field that a step typed into, out of the notes; None when there is no note of it."""
    found, shown = "", ""
    for text in progress.noted("typed"):
        number, place, *rest = text.split(" ", 2)
        if int(number) == index:
            found, shown = place, "".join(rest)
    if not found:
        return None
    held = [text.partition(" ")[2] for text in progress.noted("held") if text.partition(" ")[0] == str(index)]
    left, top, right, bottom = map(int, found.split(","))
    return TypedField(box_px=Box(left, top, right, bottom), held=held[-1] if held else "", shown=shown)
