"""What an instruction points at: a thing by its text, kind and place, or a drawn figure by its looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")

RelationKind = Literal["near", "row", "below", "above", "left", "right", "inside"]
Role = Literal[
    "",
    "button",
    "link",
    "tab",
    "field",
    "input",
    "textarea",
    "checkbox",
    "radio",
    "list",
    "menu",
    "result",
    "text",
    "area",
]
"""What a target is; an input is a field of one line, a textarea one of several, a field either of them."""
Direction = Literal["down", "up", "left", "right"]
OpenerKind = Literal["tab", "section", "node", "page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Where a target stands: `kind` relative to the text `anchor`."""

    kind: RelationKind
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A thing on the screen, named by its text.

    Attributes:
        text: Its text; empty for "the editor" and the like, which have none.
        ordinal: Which one of several, 1-based from the top; -1 is the last; None when not said.
        relation: Where it stands, when said.
        role: What it is, when said.
        phrase: The words as written, when they were not in quotes: "Sign in" may be a relation or a name.
        position: A point in fractions of the image, instead of a text.
        whole: For a part of a list written without quotes: the list's words, which may be one name after all
            ("Terms and Conditions"); the screen decides.
        is_rest: Whether it is not the first part of `whole`.
        deed: The verb, where the words say what is to be done instead of naming the button that does it: "save" for
            "save the changes", whose text is "save changes".
    """

    text: str = ""
    ordinal: int | None = None
    relation: Relation | None = None
    role: Role = ""
    phrase: str = ""
    position: tuple[float, float] | None = None
    whole: str = ""
    is_rest: bool = False
    deed: str = ""

    def __str__(self) -> str:
        words = [f'"{self.text}"'] if self.text else [f"the {self.role or 'text area'}"]
        if self.position is not None:
            words = [f"at {self.position[0]}, {self.position[1]}"]
        if self.ordinal is not None:
            words.insert(0, "the last" if self.ordinal == -1 else f"number {self.ordinal} of")
        if self.relation is not None:
            words.append(f'{_RELATION_WORDS[self.relation.kind]} "{self.relation.anchor}"')
        return " ".join(words)


_RELATION_WORDS: dict[RelationKind, str] = {
    "near": "next to",
    "row": "in the row of",
    "below": "below",
    "above": "above",
    "left": "left of",
    "right": "right of",
    "inside": "in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """What drawn figures look like; an empty attribute says nothing.

    Attributes:
        colour: A colour's name.
        size: Beside the others on the screen.
        kind: circle, square, rectangle, triangle, box, letter, digit, shape (no letter or digit) or item (anything).
        glyph: The letter or digit itself.
    """

    colour: str = ""
    size: Literal["", "small", "large"] = ""
    kind: str = ""
    glyph: str = ""

    def __str__(self) -> str:
        return " ".join(word for word in (self.size, self.colour, self.glyph or self.kind) if word)


def one_line(text: str) -> str:
    """A text for a line of its own: line ends are written as such."""
    return text.replace("\n", "\\n")


def nth(items: Sequence[T], ordinal: int | None) -> T | None:
    """The one that an ordinal counts: from 1, -1 is the last, None the only one; None when it is not there."""
    if ordinal is None:
        return items[0] if len(items) == 1 else None
    if not items or not (ordinal == -1 or 1 <= ordinal <= len(items)):
        return None
    return items[ordinal - 1 if ordinal > 0 else -1]
