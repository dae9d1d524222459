"""Read the words that name a target: "the second Delete button in the row of 'Coffee'".

Every word has to mean something. Without quotes the words that are left are the name; beside a quoted name they are
not understood, and are named in the error.
"""

import re
from dataclasses import replace

from apps.literal.clauses import Quotes
from apps.literal.moves import NotUnderstoodError
from apps.literal.target_words import (
    ALL_OF,
    AREA,
    CONDITION,
    DESCRIPTION,
    FILLER,
    LEAD,
    NAMED,
    NOUNS,
    ORDINALS,
    PLACE,
    POSITION,
    RELATIONS,
    ROLE,
    ROLES,
    ROW_NUMBER,
    TAIL,
)
from apps.literal.targets import Relation, RelationKind, Role, Target

_NAMELESS: frozenset[Role] = frozenset({"checkbox", "radio", "field", "list", "button", "link", "tab", "result"})
_PUNCTUATION = " ,.:"
_BARE_NAME = re.compile(r"(?:number\s+|no\.?\s*)?(?=[A-Z0-9#])[\w#'&.+-]+(?:\s+[A-Z0-9#][\w#'&.+-]*){0,4}")
_KIND = re.compile(rf"(\ue000\d+\ue001)\s+(?:widget|control|element|input)(?:\s+{PLACE})?", re.I)
_OWN_NAME = re.compile(rf"((?:{ROLE}))\s+{PLACE}(?=\s+(?:{NAMED}\s+)?\ue000)", re.I)
_EDGE = re.compile(
    rf"\s+(?:at|on|near)\s+the\s+(?:very\s+)?(?P<edge>top|bottom)(?:\s+(?:of\s+)?(?:{PLACE}|the\s+(?:page|screen|form|list)))?$",
    re.I,
)
"""Told by the edge: the first or the last one of its name."""
_ANYWHERE = re.compile(
    r"the\s+(?:(?:main|top|left|right|side|navigation|following)\s+)*"
    r"(?:list|table|menu|navigation|nav(?:igation)?\s?bar|menu\s?bar|side\s?bar|tool\s?bar|header|footer)"
    r"(?:\s+(?:below|above))?",
    re.I,
)
"""Where things stand that are named well enough by their text."""
_COUNTED = re.compile(
    r"item|option|entry|icon|row|line|card|image|picture|photo|element|thing|message|e-?mail|post|article|product|paragraph"
    r"|section",
    re.I,
)
_WITH_TAIL = re.compile(
    r"\s+(?:below|above|provided|given|shown|displayed|here|there|on\s+the\s+(?:left|right))$", re.I
)


def parse_target(masked: str, quotes: Quotes) -> Target:
    """The target that a phrase names; the phrase has its quotes masked.

    Raises:
        NotUnderstoodError: Some of the words have no meaning here.
    """
    words = _trim(masked)
    position = POSITION.fullmatch(words)
    if position is not None:
        return Target(position=(float(position[1]), float(position[2])))
    said = _without_lead(words)
    edge = _EDGE.search(words)
    if edge is not None:
        target = parse_target(words[: edge.start()], quotes)
        if target.ordinal is not None:
            raise NotUnderstoodError(edge[0], "count, or say where")
        return replace(
            target, ordinal=-1 if edge["edge"].lower() == "bottom" else 1, phrase="" if quotes.marks(words) else said
        )
    words = _OWN_NAME.sub(r"\1", TAIL.sub("", words))
    plain, relation, row = _take_relation(words, quotes)
    target = _parse_plain(plain, quotes)
    return Target(
        text=target.text,
        ordinal=target.ordinal if row is None else row,
        relation=relation,
        role=target.role,
        phrase="" if quotes.marks(words) else said,
    )


def _trim(words: str) -> str:
    """Without punctuation around it, unless there is nothing else ("click +", "click .")."""
    return words.strip(_PUNCTUATION) or words.strip()


def _without_lead(words: str) -> str:
    return LEAD.sub("", words + " ").strip() or words


def _take_relation(words: str, quotes: Quotes) -> tuple[str, Relation | None, int | None]:
    """The words before a relation, the relation, and the row's number if there is one."""
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
                return before, Relation(kind=kind, anchor=_parse_anchor(after, quotes)), None
    return words, None, None


def _parse_anchor(words: str, quotes: Quotes) -> str:
    if re.fullmatch(r"an?\s+(?:new|separate|different)\s+(?:tab|window)", words, re.I) is not None:
        raise NotUnderstoodError(words, "say which keys or buttons do that")
    if ALL_OF.match(words) is not None or re.match(r"(?:to|and|so|that|which|who)\s", words) is not None:
        raise NotUnderstoodError(quotes.unmask(words), "name one thing at a time")
    return _parse_plain(words, quotes).text or quotes.unmask(words, quoted=False)


def _is_inside_name(before: str, after: str, kind: RelationKind, quotes: Quotes) -> bool:
    """Whether an "in", "on" or "for" is more likely a part of a name ("Sign in", "Save for later")."""
    has_quotes = bool(quotes.marks(before) or quotes.marks(after))
    return kind == "inside" and not has_quotes and not re.match(r"the\s", after, re.I)


def _parse_plain(words: str, quotes: Quotes) -> Target:
    """Ordinal, kind and text, without a relation."""
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
        return Target(text=quotes.unmask(marks[0], quoted=False).strip(), ordinal=ordinal, role=role)
    _check_name(words, is_led=is_led)
    words = _WITH_TAIL.sub("", words) if is_led else words
    return Target(text=words.strip(), ordinal=ordinal, role=role)


def _find_nameless(words: str, ordinal: int | None, quotes: Quotes) -> Target | None:
    """A target that is named by its kind only: "the editor", "the second checkbox", 'a "textarea" widget'."""
    kind = _KIND.fullmatch(words)
    if kind is not None:
        said = quotes.unmask(kind[1], quoted=False).strip().lower()
        if said in ("textarea", "text area", "text", "text input", "textbox", "text box"):
            return Target(ordinal=ordinal, role="textarea" if "area" in said else "input")
        role = ROLES.get(said)
        if role is None or role not in _NAMELESS or role == "field":
            return None  # text boxes of several kinds look alike
        return Target(ordinal=ordinal, role=role)
    plain = _WITH_TAIL.sub("", words)
    if AREA.fullmatch(plain):
        is_field = re.search(r"field|input|box", plain, re.I) is not None or (ordinal is not None and "text" in plain)
        return Target(ordinal=ordinal, role="field" if is_field else "area")
    if ROLES.get(plain.lower()) in _NAMELESS:
        return Target(ordinal=ordinal, role=ROLES[plain.lower()])
    if ordinal is not None and _COUNTED.fullmatch(plain) is not None:
        raise NotUnderstoodError(words, "name it by the text that it bears")
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
    """Check that beside a quoted name there are only words for the kind of widget."""
    if len(marks) > 1:
        raise NotUnderstoodError(quotes.unmask(words), "name one thing, or a list with commas")
    rest = FILLER.sub(" ", f" {words.replace(marks[0], ' ')} ")
    rest = re.sub(rf"(?<!\w)(?:{NAMED}|{ROLE}|{NOUNS}|or)(?!\w)", " ", rest, flags=re.I)
    rest = LEAD.sub("", rest.strip() + " ")
    if re.search(r"\w", rest):
        raise NotUnderstoodError(rest.strip(_PUNCTUATION), f"say only what is quoted: {quotes.unmask(marks[0])}")


def _check_name(words: str, *, is_led: bool) -> None:
    """Words without quotes are a name, unless they describe a thing or put a condition."""
    found = ALL_OF.match(words) or CONDITION.search(words) or (DESCRIPTION.search(words) if is_led else None)
    if found is not None:
        raise NotUnderstoodError(found[found.lastindex or 0] if found.lastindex else words, "a name goes in quotes")


def _take_ordinal(words: str) -> tuple[int | None, str]:
    first, _, rest = words.partition(" ")
    if first.lower() not in ORDINALS or not rest.strip():
        return None, words
    return ORDINALS[first.lower()], re.sub(r"^(?:of the|one of|of|one)\s+", "", rest.strip(), flags=re.I)


_AND = r"\s+(?:and|&|plus)\s+"
_COMMA = r"\s*,\s*(?:and\s+|&\s*|then\s+)?"
_PLURAL = rf"(?:{ROLE}|{NOUNS}|icons?|checkbox|textbox|check\s+box|box|entry|value|word)(?:e?s)?"
_MARK = "\ue000\\d+\ue001"


def parse_targets(masked: str, quotes: Quotes) -> list[Target]:
    """The targets of a list: '"A", "B" and "C" in the row of "D"', "x, y and z", or of a path: "File > Save".

    There is one when it is neither.

    Raises:
        NotUnderstoodError: Some of the words have no meaning here.
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


def parse_path(masked: str, quotes: Quotes) -> list[Target]:
    """The targets of a menu's path, "File > Save as"; empty when it is none.

    Raises:
        NotUnderstoodError: Some of the words have no meaning here.
    """
    parts = [part for part in re.split(r"\s*(?:->|=>|→|>|›|»)\s*", masked.strip()) if part]
    return [parse_target(part, quotes) for part in parts] if len(parts) > 1 else []


def _split_quoted(words: str, quotes: Quotes) -> list[str]:
    """The parts of a list of quoted names; words that all of them share are handed to each."""
    if len(quotes.marks(words)) < 2:
        return [words]
    shared = re.fullmatch(
        rf"(?:the\s+)?(?P<head>{_PLURAL}\s+)?(?P<list>{_MARK}(?:(?:{_COMMA}|{_AND}|\s+)(?:the\s+)?{_MARK})+)(?P<tail>\s+{_PLURAL})?",
        _without_lead(words),
        re.I,
    )
    if shared is not None:
        kind = (shared["head"] or shared["tail"] or "").strip().lower()
        role = next((one for one in (kind, kind[:-1], kind[:-2]) if one in ROLES), "")
        return [f"{mark} {role}".strip() for mark in quotes.marks(shared["list"])]
    parts = re.split(rf"{_COMMA}|{_AND}", words, flags=re.I)
    if any(len(quotes.marks(part)) > 1 for part in parts):
        raise NotUnderstoodError(quotes.unmask(words), "name one thing, or a list with commas")
    return parts


def _parse_bare_list(words: str, quotes: Quotes) -> list[Target]:
    """The parts of "x, y and z"; empty when it is no list. "Terms and Conditions" may be one name: `Target.whole`."""
    items = [item for item in re.split(_COMMA, words, flags=re.I) if item]
    is_pair = len(items) == 2 and re.search(r"\sand\s", words, re.I) is None
    whole = _without_lead(words) if is_pair else ""
    targets: list[Target] = []
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
