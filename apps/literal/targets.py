"""Elements on the screen: a text with its type and position, or the look of a drawn figure."""

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

COLOURS: dict[str, tuple[int, int, int]] = {
    "black": (0, 0, 0), "white": (255, 255, 255), "grey": (128, 128, 128), "gray": (128, 128, 128),
    "silver": (192, 192, 192), "red": (255, 0, 0), "maroon": (128, 0, 0), "green": (0, 128, 0), "lime": (0, 255, 0),
    "olive": (128, 128, 0), "yellow": (255, 255, 0), "orange": (255, 165, 0), "brown": (165, 42, 42),
    "blue": (0, 0, 255), "navy": (0, 0, 128), "teal": (0, 128, 128), "aqua": (0, 255, 255), "cyan": (0, 255, 255),
    "turquoise": (64, 224, 208), "purple": (128, 0, 128), "violet": (238, 130, 238), "magenta": (255, 0, 255),
    "fuchsia": (255, 0, 255), "pink": (255, 192, 203),
}  # fmt: skip
"""CSS colours by their common names."""


def name_colours(colour: tuple[int, int, int]) -> set[str]:
    """Return all names for a colour, including the basic name of its hue."""
    red, green, blue = (channel / 255 for channel in colour)
    hue, lightness, _ = colorsys.rgb_to_hls(red, green, blue)
    spread = max(red, green, blue) - min(red, green, blue)
    value, degrees = max(red, green, blue), hue * 360
    if value < 0.16:
        return {"black"}
    if spread < 0.07:
        return {"white"} if lightness > 0.93 else {"silver", "grey", "gray"} if lightness > 0.6 else {"grey", "gray"}
    is_dark = value < 0.66
    for limit, light, dark in (
        (16, {"red", "pink"} if spread < 0.5 * value else {"red"}, {"red", "maroon", "brown"}),
        (46, {"orange"}, {"brown"}),
        (70, {"yellow"}, {"olive"}),
        (165, {"green", "lime"}, {"green"}),
        (198, {"cyan", "aqua", "turquoise"}, {"teal"}),
        (262, {"blue"}, {"blue", "navy"}),
        (285, {"purple", "violet"}, {"purple"}),
        (330, {"magenta", "fuchsia", "violet"}, {"purple"}),
        (345, {"pink"}, {"maroon"}),
    ):
        if degrees < limit:
            return dark if is_dark else light
    return {"red", "maroon", "brown"} if is_dark else {"red", "pink"} if spread < 0.5 * value else {"red"}


T = TypeVar("T")

RelationKind = Literal["near", "row", "below", "above", "left", "right", "inside"]
Role = Literal[
    "", "button", "link", "tab", "field", "input", "textarea", "checkbox", "radio", "list", "menu", "result", "text",
    "area",
]  # fmt: skip
"""Type of a target; an input is a single-line field, a textarea a multi-line field, a field either of them."""
Direction = Literal["down", "up", "left", "right"]
OpenerKind = Literal["tab", "section", "node", "page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorRelation:
    """Position of a target: `kind` relative to the text `anchor`."""

    kind: RelationKind
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementTarget:
    """Element on the screen, named by its text.

    Attributes:
        text: Its text; empty for elements without one, such as "the editor".
        ordinal: 1-based number from the top; -1 is the last; None if unspecified.
        relation: Its position, if specified.
        role: Its type, if specified.
        phrase: The unquoted words as written: "Sign in" may be a relation or a name.
        position: Point in fractions of the image, instead of a text.
        whole: For a part of an unquoted list: the words of the whole list, which may be a single name ("Terms and
            Conditions"); the screen decides.
        is_rest: True if it is not the first part of `whole`.
        verb: Verb, if the words describe an action instead of naming its button: "save" for "save the changes", whose
            text is "save changes".
    """

    text: str = ""
    ordinal: int | None = None
    relation: AnchorRelation | None = None
    role: Role = ""
    phrase: str = ""
    position: tuple[float, float] | None = None
    whole: str = ""
    is_rest: bool = False
    verb: str = ""

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
class FigureStyle:
    """Look of drawn figures; an empty attribute matches anything.

    Attributes:
        colour: Name of a colour.
        size: Size relative to the other figures on the screen.
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
    """Return a text on one line, with line ends escaped."""
    return text.replace("\n", "\\n")


def nth(items: Sequence[T], ordinal: int | None) -> T | None:
    """Return the item with an ordinal: 1-based, -1 is the last, None the only one; None if it does not exist."""
    if ordinal is None:
        return items[0] if len(items) == 1 else None
    if not items or not (ordinal == -1 or 1 <= ordinal <= len(items)):
        return None
    return items[ordinal - 1 if ordinal > 0 else -1]
