"""The words around a target's name: ordinals, kinds of widgets, relations."""

import re

from apps.literal.targets import RelationKind, Role

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
    "link": "link, hyperlink, hyper link",
    "tab": "tab",
    "checkbox": "checkbox, check box, tickbox, tick box, switch, toggle",
    "radio": "radio button, radio, radio option, radiobutton",
    "field": "field, input, input field, text field, text box, textbox, input box, box, textarea, text area, "
    "date field, search box, search field, edit box, text input, input textbox, input text box, text input field, "
    "input area, entry field, search bar, password field",
    "list": "dropdown, drop-down, dropdown list, drop-down list, list, select, combo box, combobox, dropdown menu, "
    "list box, listbox, select box, scroll list, selection list, pull-down list, pull-down menu, drop-down menu",
    "result": "result, search result, hit",
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
    r"(?:with\s+(?:the\s+)?(?:label|text|name|title|caption|words?)|that\s+(?:says|reads)|which\s+(?:says|reads)|that\s+is\s+(?:labell?ed|named|called)"
    r"|labell?ed(?:\s+as)?|named|called|titled|saying|for|reading|marked)"
)

NOUNS = (
    r"(?:file|folder|directory|document|photo|picture|image|message|e-?mail|mail|section|chapter|song|article|post|product"
    r"|page|person|user|contact|event|project|account|category|tag|phrase|thing|element|widget|control|shortcut|column"
    r"|header|cell|card|tile|panel|row|line|choice|key|answer|name|caption|sign|symbol|character|letter|number|digit)"
)
"""What people call things by whose name follows in quotes; it does not tell them apart."""

PLACE = (
    r"(?:(?:on|in|at|of|from|inside)\s+(?:the|this|that)\s+(?:current\s+|open\s+|same\s+)?"
    r"(?:page|screen|window|form|web\s?page|website|site|browser|view|dialog(?:ue)?(?:\s+box|\s+window)?"
    r"|modal(?:\s+dialog)?|pop-?up(?:\s+window)?|message\s+box|application|app|program))"
)
"""Places that hold everything that is seen."""

_PURPOSE = (
    r"(?:to\s+(?:continue|proceed|go\s+on|finish|confirm|submit|send|search|log\s?in|sign\s?in|open\s+it|close\s+it|save"
    r"|save\s+it|finish\s+up|submit\s+(?:it|the\s+form)|send\s+(?:it|the\s+form)|save\s+(?:the\s+|your\s+)?changes"
    r"|close\s+(?:the\s+)?(?:dialog|window|pop-?up)|complete\s+(?:it|the\s+(?:form|task|order))))"
)
_DONE = (
    r"(?:(?:when|once|after)\s+(?:you(?:'re|\s+are|\s+have)?\s+|it\s+is\s+)?(?:all\s+)?"
    r"(?:done|finished|ready|completed?))"
)
TAIL = re.compile(rf"(?:[\s,]+(?:{PLACE}|{_DONE}|{_PURPOSE}|(?<=, )(?:please|thanks|thank\s+you)))+$", re.I)
"""What may follow a target without saying more about it."""

FILLER = re.compile(
    rf"(?:{PLACE}|{_DONE}|{_PURPOSE}|with\s+(?:the|your)\s+(?:left\s+)?mouse(?:\s+button)?|for\s+me|as\s+well"
    r"|(?<!\w)(?:again|once|now|please|too|also|there|here|below|above|only|just))(?!\w)",
    re.I,
)
"""The same, beside a quoted name, where single words of this kind cannot be a part of the name."""

ALL_OF = re.compile(
    r"(?:all|each|every|everything|every\s?one|both|any|anything|whichever|whatever|several|some)(?:\s|$)"
    r"|(?:\d+|two|three|four|five|six)\s+(?:of|post|item|row|[a-z]+s)(?:\s|$)"
)
"""How a phrase begins that means several things, or any; in small letters, since names begin with capital ones."""

CONDITION = re.compile(
    r"(?:^|\s)((?:so\s+that|such\s+that|similar\s+to|except|if\s+(?:the|it|there|this|that|any|no|you|a)|unless|whenever"
    r"|when\s+(?:the|it|there|this|that|you|a)|in\s+a\s+(?:new|separate|different)\s+(?:tab|window)|as\s+long\s+as|by\s+\w+ing|and\s+\w+\s+(?:it|them)|(?:with|using|on)\s+(?:the|a)\s+(?:[a-z]+\s+)?"
    r"(?:slider|spinner|picker|wheel|keyboard|keypad|joystick))(?:\s.*|$))",
    re.S,
)
"""Words that are no part of a name, and all that follows them; in small letters."""

DESCRIPTION = re.compile(
    r"(?:^|\s)((?:that|which|who|whose|where|other\s+than|(?:starting|ending|beginning|filled|marked)\s+(?:with|in|by)"
    r"|with|without|using|(?:greater|less|more|fewer|larger|smaller|higher|lower|older|newer|bigger)\s+than"
    r"|greatest|smallest|largest|biggest|cheapest|highest|lowest|longest|shortest|latest|newest|oldest|nearest|closest|best"
    r"|worst|correct|appropriate|matching|corresponding|remaining|following|most|least|in\s+[a-z]+\s+order"
    r"|to\s+(?:delete|remove|mark|open|close|see|show|make|get|find|view|select|choose|add|go|expand|change|start|stop|move)"
    r"\s+(?:it|them|this|that|the|a|an|all|your|my|to|up|down))(?:\s.*|$))",
    re.S,
)
"""Words that describe a thing instead of naming it, after "the" or "a", and all that follows them."""

LEAD = re.compile(
    r"^(?:(?:on|over|at|onto|to|into|in|inside|the|a|an|its|their|his|her|this|that|your|my|word|words|labell?ed|named|called|very"
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
"""A point in fractions of the image."""
