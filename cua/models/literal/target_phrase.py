"""Read the words that name a target: "the second Delete button in the row of 'Coffee'"."""

import re

from cua.models.literal.clauses import Quotes
from cua.models.literal.steps import Relation, RelationKind, Role, Target

_ORDINALS = {
    word: index + 1
    for index, words in enumerate(
        (
            "first 1st topmost",
            "second 2nd",
            "third 3rd",
            "fourth 4th",
            "fifth 5th",
            "sixth 6th",
            "seventh 7th",
            "eighth 8th",
            "ninth 9th",
            "tenth 10th",
        )
    )
    for word in words.split()
} | {"last": -1, "bottommost": -1}

_ROLE_WORDS: dict[str, Role] = {
    "button": "button", "icon": "button", "link": "link", "hyperlink": "link", "tab": "tab",
    "checkbox": "checkbox", "check box": "checkbox", "tickbox": "checkbox", "tick box": "checkbox",
    "switch": "checkbox", "toggle": "checkbox", "radio button": "radio", "radio": "radio", "radio option": "radio",
    "field": "field", "input": "field", "input field": "field", "text field": "field", "text box": "field",
    "textbox": "field", "input box": "field", "box": "field", "textarea": "field", "date field": "field",
    "search box": "field", "search field": "field", "edit box": "field",
    "dropdown": "list", "drop-down": "list", "dropdown list": "list", "drop-down list": "list", "list": "list",
    "select": "list", "combo box": "list", "combobox": "list", "dropdown menu": "list", "list box": "list",
    "menu": "menu", "menu item": "menu", "menu entry": "menu", "item": "menu", "option": "menu", "entry": "menu",
    "text": "text", "label": "text", "heading": "text", "title": "text", "word": "text", "value": "text",
}  # fmt: skip
_ROLE = "|".join(sorted(map(re.escape, _ROLE_WORDS), key=len, reverse=True))

_AREA = re.compile(
    r"(?:(?:large|big|main|empty|text|white|blank|editing)\s+)*"
    r"(?:editor|document|text\s?area|area|canvas|window|page|body|text|text editor|empty space|text field|field|text ?box|input|input field|terminal|middle of the screen|cell)",
    re.I,
)

_RELATIONS: tuple[tuple[RelationKind, str], ...] = (
    ("row", r"(?:in|on|of|from|for|at)\s+(?:the\s+|its\s+)?(?:same\s+)?(?:row|line|table row|entry)\s+(?:of|with|for|as|containing|that (?:contains|has|says|shows)|which (?:contains|has)|where it says|named|called|labell?ed)?\s*(?:the\s+)?"),
    ("near", r"(?:which is |that is |right |just )?(?:next\s+to|beside|besides|near|close to|alongside|by the side of|belonging to|that belongs to)\s+"),
    ("right", r"(?:which is |that is )?(?:to\s+the\s+right\s+of|on the right of|right\s+of|after)\s+"),
    ("left", r"(?:which is |that is )?(?:to\s+the\s+left\s+of|on the left of|left\s+of|before)\s+"),
    ("below", r"(?:which is |that is |right |just |directly )?(?:below|under|underneath|beneath)\s+"),
    ("above", r"(?:which is |that is |right |just |directly )?(?:above|over)\s+"),
    ("row", r"(?:for|of)\s+(?=the\s+row|row)"),
    ("inside", r"(?:in|inside|inside of|within|on|from|of|for|under)\s+"),
)  # fmt: skip
_POSITION = re.compile(
    r"(?:at\s+)?(?:the\s+)?(?:position\s+|point\s+|coordinates?\s+)?\(?\s*(0?\.\d+|[01](?:\.0+)?)\s*,\s*(0?\.\d+|[01](?:\.0+)?)\s*\)?$",
    re.I,
)
_LEAD = re.compile(
    r"^(?:(?:on|over|at|onto|to|into|in|inside|the|a|an|its|this|that|your|my|word|words|labell?ed|named|called|titled|with the (?:label|text|name|title)|which says|that says|saying|reading|marked)\s+)+",
    re.I,
)


def parse_target(masked: str, quotes: Quotes) -> Target:
    """The target that a phrase names; the phrase has its quotes masked."""
    words = masked.strip(" ,.:")
    position = _POSITION.fullmatch(words)
    if position is not None:
        return Target(position=(float(position[1]), float(position[2])))
    words, relation = _take_relation(words, quotes)
    target = _parse_plain(words, quotes)
    phrase = "" if quotes.marks(masked) else _LEAD.sub("", masked.strip(" ,.:"))
    ordinal = target.ordinal
    if relation is not None and relation.kind == "row" and ordinal is None:
        row = _ORDINALS.get(relation.anchor.lower()) or (
            int(relation.anchor) if relation.anchor.isdigit() and len(relation.anchor) < 3 else None
        )
        if row is not None:
            ordinal, relation = row, None
    return Target(text=target.text, ordinal=ordinal, relation=relation, role=target.role, phrase=phrase)


def _take_relation(words: str, quotes: Quotes) -> tuple[str, Relation | None]:
    row_number = re.fullmatch(
        r"(.*\S)\s+(?:in|on|of)\s+(?:the\s+)?(?:(\w+)\s+row|row\s+(?:number\s+)?(\d+))", words, re.I
    )
    if row_number is not None:
        word = (row_number[2] or row_number[3]).lower()
        if word in _ORDINALS or word.isdigit():
            return row_number[1], Relation(kind="row", anchor=word)
    for kind, pattern in _RELATIONS:
        for match in re.finditer(rf"(?:^|\s){pattern}", words, re.I):
            before, after = words[: match.start()].strip(), words[match.end() :].strip(" ,.")
            if not before or not after or _is_inside_name(before, after, kind, quotes):
                continue
            return before, Relation(
                kind=kind,
                anchor=_parse_plain(after, quotes, keep_ordinal=kind == "row").text
                or quotes.unmask(after, quoted=False),
            )
    return words, None


def _is_inside_name(before: str, after: str, kind: RelationKind, quotes: Quotes) -> bool:
    """Whether an "in", "on" or "for" is more likely a part of a name ("Sign in", "Save for later")."""
    return (
        kind == "inside"
        and not quotes.marks(before)
        and not re.match(r"the\s", after, re.I)
        and not quotes.marks(after)
    )


def _parse_plain(words: str, quotes: Quotes, *, keep_ordinal: bool = False) -> Target:
    words = _LEAD.sub("", words.strip(" ,.:") + " ").strip()
    ordinal: int | None = None
    if not keep_ordinal:
        ordinal, words = _take_ordinal(words)
    words = _LEAD.sub("", words + " ").strip()
    role: Role = ""
    area = _AREA.fullmatch(words)
    if area is not None:
        return Target(ordinal=ordinal, role="field" if re.search(r"field|input|box", words, re.I) else "area")
    if words.lower() in _ROLE_WORDS and _ROLE_WORDS[words.lower()] in ("checkbox", "radio", "field", "list", "button"):
        return Target(ordinal=ordinal, role=_ROLE_WORDS[words.lower()])
    tail = re.fullmatch(rf"(.+?)\s+({_ROLE})(?:\s+(?:on|in) the (?:page|screen|window))?", words, re.I)
    head = re.fullmatch(
        rf"({_ROLE})\s+(?:(?:with the (?:label|text|name|title)|that says|which says|labell?ed|named|called|titled|saying|for|reading|marked)\s+)?(.+)",
        words,
        re.I,
    )
    if tail is not None:
        role, words = _ROLE_WORDS[tail[2].lower()], tail[1]
    elif head is not None and (quotes.marks(head[2]) or re.search(r"\s(?:labell?ed|named|called|titled)\s", words)):
        role, words = _ROLE_WORDS[head[1].lower()], head[2]
    marks = quotes.marks(words)
    text = quotes.unmask(marks[0], quoted=False) if marks else words
    return Target(text=text.strip(), ordinal=ordinal, role=role)


def _take_ordinal(words: str) -> tuple[int | None, str]:
    first, _, rest = words.partition(" ")
    if first.lower() in _ORDINALS and rest.strip():
        rest = re.sub(r"^(?:of|one|one of|of the)\s+", "", rest.strip(), flags=re.I)
        return _ORDINALS[first.lower()], rest
    return None, words
