"""Parse the words that name a target: "the second Delete button in the row of 'Coffee'".

Every word must have a meaning. Without quotes, the remaining words are the name; next to a quoted name, remaining words
are an error that lists them.
"""

import re
from dataclasses import replace

from apps.literal.clauses import Quotes
from apps.literal.step_outcome import NotUnderstoodError
from apps.literal.targets import AnchorRelation, ElementTarget, RelationKind, Role

_ORDINAL_WORDS = "first second third fourth fifth sixth seventh eighth ninth tenth"
_ORDINAL_DIGITS = "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th"
ORDINALS = {
    word: value for words in (_ORDINAL_WORDS, _ORDINAL_DIGITS) for value, word in enumerate(words.split(), 1)
} | {"topmost": 1, "last": -1, "bottommost": -1}
"""Ordinals by word, 1-based; -1 is the last."""

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
"""Common names of widget types."""

ROLE = "|".join(sorted(map(re.escape, ROLES), key=len, reverse=True))

AREA = re.compile(
    r"(?:(?:large|big|main|empty|text|white|blank|editing)\s+)*"
    r"(?:editor|document|text\s?area|area|canvas|window|page|body|text|text editor|empty space|text field|field"
    r"|text ?box|input|input field|terminal|middle of the screen)",
    re.I,
)
"""Area without a text of its own."""

NAMED = (
    r"(?:with\s+(?:the\s+)?(?:label|text|name|title|caption|words?)|that\s+(?:says|reads)|which\s+(?:says|reads)|that\s+is\s+(?:labell?ed|named|called)"
    r"|labell?ed(?:\s+as)?|named|called|titled|saying|for|reading|marked)"
)

NOUNS = (
    r"(?:file|folder|directory|document|photo|picture|image|message|e-?mail|mail|section|chapter|song|article|post|product"
    r"|page|person|user|contact|event|project|account|category|tag|phrase|thing|element|widget|control|shortcut|column"
    r"|header|cell|card|tile|panel|row|line|choice|key|answer|name|caption|sign|symbol|character|letter|number|digit)"
)
"""Nouns before a quoted name; they do not distinguish between elements."""

PLACE = (
    r"(?:(?:on|in|at|of|from|inside)\s+(?:the|this|that)\s+(?:current\s+|open\s+|same\s+)?"
    r"(?:page|screen|window|form|web\s?page|website|site|browser|view|dialog(?:ue)?(?:\s+box|\s+window)?"
    r"|modal(?:\s+dialog)?|pop-?up(?:\s+window)?|message\s+box|application|app|program))"
)
"""Containers of everything that is visible."""

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
"""Words that may follow a target without changing its meaning."""

FILLER = re.compile(
    rf"(?:{PLACE}|{_DONE}|{_PURPOSE}|with\s+(?:the|your)\s+(?:left\s+)?mouse(?:\s+button)?|for\s+me|as\s+well"
    r"|(?<!\w)(?:again|once|now|please|too|also|there|here|below|above|only|just))(?!\w)",
    re.I,
)
"""Words without meaning next to a quoted name, where single words such as "now" cannot be part of the name."""

ALL_OF = re.compile(
    r"(?:all|each|every|everything|every\s?one|both|any|anything|whichever|whatever|several|some)(?:\s|$)"
    r"|(?:\d+|two|three|four|five|six)\s+(?:of|post|item|row|[a-z]+s)(?:\s|$)"
)
"""Start of a phrase that means several things, or any; lower case, since names start with capital letters."""

CONDITION = re.compile(
    r"(?:^|\s)((?:so\s+that|such\s+that|similar\s+to|except|if\s+(?:the|it|there|this|that|any|no|you|a)|unless|whenever"
    r"|when\s+(?:the|it|there|this|that|you|a)|in\s+a\s+(?:new|separate|different)\s+(?:tab|window)|as\s+long\s+as|by\s+\w+ing|and\s+\w+\s+(?:it|them)|(?:with|using|on)\s+(?:the|a)\s+(?:[a-z]+\s+)?"
    r"(?:slider|spinner|picker|wheel|keyboard|keypad|joystick))(?:\s.*|$))",
    re.S,
)
"""Words that cannot be part of a name, and everything after them; lower case."""

DESCRIPTION = re.compile(
    r"(?:^|\s)((?:that|which|who|whose|where|other\s+than|(?:starting|ending|beginning|filled|marked)\s+(?:with|in|by)"
    r"|with|without|using|(?:greater|less|more|fewer|larger|smaller|higher|lower|older|newer|bigger)\s+than"
    r"|greatest|smallest|largest|biggest|cheapest|highest|lowest|longest|shortest|latest|newest|oldest|nearest|closest|best"
    r"|worst|correct|appropriate|matching|corresponding|remaining|following|most|least|in\s+[a-z]+\s+order"
    r"|to\s+(?:delete|remove|mark|open|close|see|show|make|get|find|view|select|choose|add|go|expand|change|start|stop|move)"
    r"\s+(?:it|them|this|that|the|a|an|all|your|my|to|up|down))(?:\s.*|$))",
    re.S,
)
"""Words that describe a thing instead of naming it, after "the" or "a", and everything after them."""

LEAD = re.compile(
    r"^(?:(?:on|over|at|onto|to|into|in|inside|the|a|an|its|their|his|her|this|that|your|my|word|words|labell?ed|named|called|very"
    r"|titled|with the (?:label|text|name|title)|which says|that says|saying|reading|marked)\s+)+",
    re.I,
)
"""Words before a name that are not part of it."""

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
"""Start of each relation; earlier patterns take precedence."""

ROW_NUMBER = re.compile(
    r"(?P<target>.*\S)\s+(?:in|on|of)\s+(?:the\s+)?(?:(?P<word>\w+)\s+row|row\s+(?:number\s+)?(?P<digits>\d+))", re.I
)

POSITION = re.compile(
    r"(?:at\s+)?(?:the\s+)?(?:position\s+|point\s+|coordinates?\s+)?"
    r"\(?\s*(0?\.\d+|[01](?:\.0+)?)\s*,\s*(0?\.\d+|[01](?:\.0+)?)\s*\)?",
    re.I,
)
"""Point in fractions of the image."""


_NAMELESS: frozenset[Role] = frozenset({"checkbox", "radio", "field", "list", "button", "link", "tab", "result"})
_PUNCTUATION = " ,.:"
_BARE_NAME = re.compile(r"(?:number\s+|no\.?\s*)?(?=[A-Z0-9#])[\w#'&.+-]+(?:\s+[A-Z0-9#][\w#'&.+-]*){0,4}")
_KIND = re.compile(rf"(\ue000\d+\ue001)\s+(?:widget|control|element|input)(?:\s+{PLACE})?", re.I)
_OWN_NAME = re.compile(rf"((?:{ROLE}))\s+{PLACE}(?=\s+(?:{NAMED}\s+)?\ue000)", re.I)
_EDGE = re.compile(
    rf"\s+(?:at|on|near)\s+the\s+(?:very\s+)?(?P<edge>top|bottom)(?:\s+(?:of\s+)?(?:{PLACE}|the\s+(?:page|screen|form|list)))?$",
    re.I,
)
"""Phrase that selects the first or last element of a name by an edge."""
_ANYWHERE = re.compile(
    r"the\s+(?:(?:main|top|left|right|side|navigation|following)\s+)*"
    r"(?:list|table|menu|navigation|nav(?:igation)?\s?bar|menu\s?bar|side\s?bar|tool\s?bar|header|footer)"
    r"(?:\s+(?:below|above))?",
    re.I,
)
"""Locations that add nothing to a name."""
_COUNTED = re.compile(
    r"item|option|entry|icon|row|line|card|image|picture|photo|element|thing|message|e-?mail|post|article|product|paragraph"
    r"|section",
    re.I,
)
_WITH_TAIL = re.compile(
    r"\s+(?:below|above|provided|given|shown|displayed|here|there|on\s+the\s+(?:left|right))$", re.I
)


def parse_target(masked: str, quotes: Quotes) -> ElementTarget:
    """Return the target that a phrase with masked quotes names.

    Raises:
        NotUnderstoodError: If some of the words have no meaning here.
    """
    words = _trim(masked)
    position = POSITION.fullmatch(words)
    if position is not None:
        return ElementTarget(position=(float(position[1]), float(position[2])))
    phrase = _without_lead(words)
    edge = _EDGE.search(words)
    if edge is not None:
        target = parse_target(words[: edge.start()], quotes)
        if target.ordinal is not None:
            raise NotUnderstoodError(edge[0], 'use a number ("the second") or a position ("below X")')
        return replace(
            target, ordinal=-1 if edge["edge"].lower() == "bottom" else 1, phrase="" if quotes.marks(words) else phrase
        )
    words = _OWN_NAME.sub(r"\1", TAIL.sub("", words))
    plain, relation, row = _take_relation(words, quotes)
    target = _parse_plain(plain, quotes)
    return ElementTarget(
        text=target.text,
        ordinal=target.ordinal if row is None else row,
        relation=relation,
        role=target.role,
        phrase="" if quotes.marks(words) else phrase,
    )


def _trim(words: str) -> str:
    """Strip surrounding punctuation, unless there is nothing else ("click +", "click .")."""
    return words.strip(_PUNCTUATION) or words.strip()


def _without_lead(words: str) -> str:
    return LEAD.sub("", words + " ").strip() or words


def _take_relation(words: str, quotes: Quotes) -> tuple[str, AnchorRelation | None, int | None]:
    """Return the words before a relation, the relation, and the row's number if there is one."""
    numbered = ROW_NUMBER.fullmatch(words)
    if numbered is not None:
        number = ORDINALS.get((numbered["word"] or "").lower()) or int(numbered["digits"] or 0)
        if number:
            return numbered["target"], None, number
    for kind, pattern in RELATIONS:
        for match in pattern.finditer(words):
            before, after = words[: match.start()].strip(), _trim(words[match.end() :])
            if kind == "inside" and before and _ANYWHERE.fullmatch(after):
                return before, None, None
            if before and after and not _is_inside_name(before, after, kind, quotes):
                return before, AnchorRelation(kind=kind, anchor=_parse_anchor(after, quotes)), None
    return words, None, None


def _parse_anchor(words: str, quotes: Quotes) -> str:
    if re.fullmatch(r"an?\s+(?:new|separate|different)\s+(?:tab|window)", words, re.I) is not None:
        raise NotUnderstoodError(words, "name the keys or buttons to press")
    if ALL_OF.match(words) is not None or re.match(r"(?:to|and|so|that|which|who)\s", words) is not None:
        raise NotUnderstoodError(quotes.unmask(words), "name one thing at a time")
    return _parse_plain(words, quotes).text or quotes.unmask(words, quoted=False)


def _is_inside_name(before: str, after: str, kind: RelationKind, quotes: Quotes) -> bool:
    """Return True if an "in", "on" or "for" is more likely part of a name ("Sign in", "Save for later")."""
    has_quotes = bool(quotes.marks(before) or quotes.marks(after))
    return kind == "inside" and not has_quotes and not re.match(r"the\s", after, re.I)


def _parse_plain(words: str, quotes: Quotes) -> ElementTarget:
    """Parse ordinal, role and text of words without a relation."""
    words = _trim(words)
    is_led = re.match(r"(?:(?:on|at|to|into|over|onto|in)\s+)?(?:the|an?|one|this|that)\s", words) is not None
    is_any = re.match(r"(?:(?:on|at|to|into|over|onto|in)\s+)?(?:an?|any|one)\s", words) is not None
    ordinal, words = _take_ordinal(_without_lead(re.sub(r"^any(?:\s+one)?\s", "", words)))
    words = _without_lead(words)
    nameless = _find_nameless(words, 1 if is_any and ordinal is None else ordinal, quotes)
    if nameless is not None:
        return nameless
    role, words = _take_role(words, quotes)
    marks = quotes.marks(words)
    if marks:
        _check_leftover(words, marks, quotes)
        return ElementTarget(text=quotes.unmask(marks[0], quoted=False).strip(), ordinal=ordinal, role=role)
    _check_name(words, is_led=is_led)
    words = _WITH_TAIL.sub("", words) if is_led else words
    return ElementTarget(text=words.strip(), ordinal=ordinal, role=role)


def _find_nameless(words: str, ordinal: int | None, quotes: Quotes) -> ElementTarget | None:
    """Return a target named only by its type, such as "the editor", "the second checkbox" or 'a "textarea" widget'."""
    kind = _KIND.fullmatch(words)
    if kind is not None:
        noun = quotes.unmask(kind[1], quoted=False).strip().lower()
        if noun in ("textarea", "text area", "text", "text input", "textbox", "text box"):
            return ElementTarget(ordinal=ordinal, role="textarea" if "area" in noun else "input")
        role = ROLES.get(noun)
        if role is None or role not in _NAMELESS or role == "field":
            return None  # several types of text boxes look alike
        return ElementTarget(ordinal=ordinal, role=role)
    plain = _WITH_TAIL.sub("", words)
    if AREA.fullmatch(plain):
        is_field = re.search(r"field|input|box", plain, re.I) is not None or (ordinal is not None and "text" in plain)
        return ElementTarget(ordinal=ordinal, role="field" if is_field else "area")
    if ROLES.get(plain.lower()) in _NAMELESS:
        return ElementTarget(ordinal=ordinal, role=ROLES[plain.lower()])
    if ordinal is not None and _COUNTED.fullmatch(plain) is not None:
        raise NotUnderstoodError(words, "name it by its visible text")
    return None


def _take_role(words: str, quotes: Quotes) -> tuple[Role, str]:
    tail = re.fullmatch(rf"(.+?)\s+({ROLE})(?:\s+(?:on|in)\s+the\s+(?:page|screen|window))?", words, re.I)
    if tail is not None:
        return ROLES[tail[2].lower()], tail[1]
    head = re.fullmatch(rf"({ROLE})\s+(?:({NAMED})\s+)?(.+)", words, re.I)
    if head is not None and (head[2] or quotes.marks(head[3]) or _BARE_NAME.fullmatch(head[3])):
        return ROLES[head[1].lower()], head[3]
    return "", words


def _check_leftover(words: str, marks: list[str], quotes: Quotes) -> None:
    """Check that only words for the type of widget accompany a quoted name."""
    if len(marks) > 1:
        raise NotUnderstoodError(quotes.unmask(words), "name one thing, or a list with commas")
    rest = FILLER.sub(" ", f" {words.replace(marks[0], ' ')} ")
    rest = re.sub(rf"(?<!\w)(?:{NAMED}|{ROLE}|{NOUNS}|or)(?!\w)", " ", rest, flags=re.I)
    rest = LEAD.sub("", rest.strip() + " ")
    if re.search(r"\w", rest):
        raise NotUnderstoodError(rest.strip(_PUNCTUATION), f"use only the quoted text: {quotes.unmask(marks[0])}")


def _check_name(words: str, *, is_led: bool) -> None:
    """Check that words without quotes are a name, not a description or a condition."""
    unsupported = ALL_OF.match(words) or CONDITION.search(words) or (DESCRIPTION.search(words) if is_led else None)
    if unsupported is not None:
        raise NotUnderstoodError(
            unsupported[unsupported.lastindex or 0] if unsupported.lastindex else words, "put a name in quotes"
        )


def _take_ordinal(words: str) -> tuple[int | None, str]:
    first, _, rest = words.partition(" ")
    if first.lower() not in ORDINALS or not rest.strip():
        return None, words
    return ORDINALS[first.lower()], re.sub(r"^(?:of the|one of|of|one)\s+", "", rest.strip(), flags=re.I)


_AND = r"\s+(?:and|&|plus)\s+"
_COMMA = r"\s*,\s*(?:and\s+|&\s*|then\s+)?"
_PLURAL = rf"(?:{ROLE}|{NOUNS}|icons?|checkbox|textbox|check\s+box|box|entry|value|word)(?:e?s)?"
_MARK = "\ue000\\d+\ue001"


def parse_targets(masked: str, quotes: Quotes) -> list[ElementTarget]:
    """Return the targets of a list: '"A", "B" and "C" in the row of "D"', "x, y and z"; one target if it is not a list.

    Raises:
        NotUnderstoodError: If some of the words have no meaning here.
    """
    words = TAIL.sub("", _trim(masked))
    if _EDGE.search(words) is not None:
        return [parse_target(masked, quotes)]
    if POSITION.fullmatch(words) is not None:
        return [parse_target(masked, quotes)]
    if not quotes.marks(words):
        return _parse_bare_list(words, quotes) or [parse_target(masked, quotes)]
    before, relation, row = _take_relation(_OWN_NAME.sub(r"\1", words), quotes)
    parts = _split_quoted(before, quotes)
    if len(parts) < 2:
        return [parse_target(masked, quotes)]
    targets = [_parse_plain(part, quotes) for part in parts]
    return [replace(target, relation=relation, ordinal=target.ordinal or row) for target in targets]


def parse_path(masked: str, quotes: Quotes) -> list[ElementTarget]:
    """Return the targets of a menu path such as "File > Save as"; empty if it is not a path.

    Raises:
        NotUnderstoodError: If some of the words have no meaning here.
    """
    parts = [part for part in re.split(r"\s*(?:->|=>|→|>|›|»)\s*", masked.strip()) if part]
    return [parse_target(part, quotes) for part in parts] if len(parts) > 1 else []


def _split_quoted(words: str, quotes: Quotes) -> list[str]:
    """Split a list of quoted names; words shared by all of them are added to each."""
    if len(quotes.marks(words)) < 2:
        return [words]
    shared = re.fullmatch(
        rf"(?:the\s+)?(?P<head>{_PLURAL}\s+)?(?P<list>{_MARK}(?:(?:{_COMMA}|{_AND}|\s+)(?:the\s+)?{_MARK})+)(?P<tail>\s+{_PLURAL})?",
        _without_lead(words),
        re.I,
    )
    if shared is not None:
        kind = (shared["head"] or shared["tail"] or "").strip().lower()
        role = next((noun for noun in (kind, kind[:-1], kind[:-2]) if noun in ROLES), "")
        return [f"{mark} {role}".strip() for mark in quotes.marks(shared["list"])]
    parts = re.split(rf"{_COMMA}|{_AND}", words, flags=re.I)
    if any(len(quotes.marks(part)) > 1 for part in parts):
        raise NotUnderstoodError(quotes.unmask(words), "name one thing, or a list with commas")
    return parts


def _parse_bare_list(words: str, quotes: Quotes) -> list[ElementTarget]:
    """Split "x, y and z"; empty if it is not a list. "Terms and Conditions" may be one name (`whole`)."""
    items = [item for item in re.split(_COMMA, words, flags=re.I) if item]
    is_pair = len(items) == 2 and re.search(r"\sand\s", words, re.I) is None
    whole = _without_lead(words) if is_pair else ""
    targets: list[ElementTarget] = []
    for index, item in enumerate(items):
        pair = re.split(_AND, item, flags=re.I)
        joined = _without_lead(item) if len(pair) > 1 else ""
        for number, part in enumerate(pair):
            if (
                part.count("(") != part.count(")")
                or not part.strip()
                or re.search(rf"(?:^|\s)(?:{_RELATED})\s", part, re.I)
            ):
                return []
            target = _parse_plain(part, quotes)
            is_rest = number > 0 if joined else index > 0
            targets.append(replace(target, whole=joined or whole, is_rest=is_rest and bool(joined or whole)))
    return targets if len(targets) > 1 else []


_RELATED = r"next\s+to|below|above|under|beside|besides|left\s+of|right\s+of|in\s+the\s+(?:row|line)|near|to"
