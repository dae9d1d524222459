"""The words around a target's name: ordinals, kinds of widgets, relations."""

import re

from cua.models.literal.steps import RelationKind, Role

_ORDINAL_WORDS = (
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
ORDINALS = {word: value for value, words in enumerate(_ORDINAL_WORDS, 1) for word in words.split()} | {
    "last": -1,
    "bottommost": -1,
}
"""Which one of several, 1-based; -1 is the last."""

_ROLES: dict[Role, str] = {
    "button": "button, icon",
    "link": "link, hyperlink",
    "tab": "tab",
    "checkbox": "checkbox, check box, tickbox, tick box, switch, toggle",
    "radio": "radio button, radio, radio option",
    "field": "field, input, input field, text field, text box, textbox, input box, box, textarea, date field, "
    "search box, search field, edit box",
    "list": "dropdown, drop-down, dropdown list, drop-down list, list, select, combo box, combobox, dropdown menu, "
    "list box, select box",
    "menu": "menu, menu item, menu entry, item, option, entry",
    "text": "text, label, heading, title, word, value",
}
ROLES: dict[str, Role] = {word: role for role, words in _ROLES.items() for word in words.split(", ")}
"""What people call the kinds of widgets."""

ROLE = "|".join(sorted(map(re.escape, ROLES), key=len, reverse=True))

AREA = re.compile(
    r"(?:(?:large|big|main|empty|text|white|blank|editing)\s+)*"
    r"(?:editor|document|text\s?area|area|canvas|window|page|body|text|text editor|empty space|text field|field"
    r"|text ?box|input|input field|terminal|middle of the screen)",
    re.I,
)
"""A place without a text of its own."""

NAMED = (
    r"(?:with the (?:label|text|name|title)|that says|which says|labell?ed|named|called|titled|saying|for|reading"
    r"|marked)"
)

LEAD = re.compile(
    r"^(?:(?:on|over|at|onto|to|into|in|inside|the|a|an|its|this|that|your|my|word|words|labell?ed|named|called"
    r"|titled|with the (?:label|text|name|title)|which says|that says|saying|reading|marked)\s+)+",
    re.I,
)
"""Words before a name that are no part of it."""

_WHICH = r"(?:(?:which|that) is |right |just |directly )?"
_ROW = r"(?:the |its )?(?:same )?(?:row|line|table row|entry)"
_OF_ROW = (
    r"(?:of|with|for|as|containing|that (?:contains|has|says|shows)|which (?:contains|has)|where it says"
    r"|named|called|labell?ed)"
)
_RELATION_WORDS: tuple[tuple[RelationKind, str], ...] = (
    ("row", rf"(?:in|on|of|from|for|at) {_ROW} {_OF_ROW} (?:the )?"),
    ("row", rf"(?:in|on|of|from|for|at) {_ROW} (?=\ue000)"),
    ("near", rf"{_WHICH}(?:next to|besides?|near|close to|alongside|by the side of|(?:that )?belong(?:s|ing) to) "),
    ("right", rf"{_WHICH}(?:(?:to|on) the right of|right of|after) "),
    ("left", rf"{_WHICH}(?:(?:to|on) the left of|left of|before) "),
    ("below", rf"{_WHICH}(?:below|under|underneath|beneath) "),
    ("above", rf"{_WHICH}(?:above|over) "),
    ("inside", r"(?:in|inside|inside of|within|on|from|of|for) "),
)
RELATIONS: tuple[tuple[RelationKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?:^|\s){words}".replace(" ", r"\s+"), re.I)) for kind, words in _RELATION_WORDS
)
"""How a relation begins; the earlier ones shut out the later ones."""

ROW_NUMBER = re.compile(
    r"(?P<target>.*\S)\s+(?:in|on|of)\s+(?:the\s+)?(?:(?P<word>\w+)\s+row|row\s+(?:number\s+)?(?P<digits>\d+))", re.I
)

POSITION = re.compile(
    r"(?:at\s+)?(?:the\s+)?(?:position\s+|point\s+|coordinates?\s+)?"
    r"\(?\s*(0?\.\d+|[01](?:\.0+)?)\s*,\s*(0?\.\d+|[01](?:\.0+)?)\s*\)?",
    re.I,
)
"""A point in fractions of the picture."""
