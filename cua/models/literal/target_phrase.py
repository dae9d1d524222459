"""Read the words that name a target: "the second Delete button in the row of 'Coffee'"."""

import re

from cua.models.literal.clauses import Quotes
from cua.models.literal.steps import Relation, RelationKind, Role, Target
from cua.models.literal.target_words import AREA, LEAD, NAMED, ORDINALS, POSITION, RELATIONS, ROLE, ROLES, ROW_NUMBER

_NAMELESS: frozenset[Role] = frozenset({"checkbox", "radio", "field", "list", "button"})
_PUNCTUATION = " ,.:"


def parse_target(masked: str, quotes: Quotes) -> Target:
    """The target that a phrase names; the phrase has its quotes masked."""
    words = _trim(masked)
    position = POSITION.fullmatch(words)
    if position is not None:
        return Target(position=(float(position[1]), float(position[2])))
    plain, relation, row = _take_relation(words, quotes)
    target = _parse_plain(plain, quotes)
    return Target(
        text=target.text,
        ordinal=target.ordinal if row is None else row,
        relation=relation,
        role=target.role,
        phrase="" if quotes.marks(words) else _without_lead(words),
    )


def _trim(words: str) -> str:
    """Without punctuation around it, unless there is nothing else ("click +", "click .")."""
    return words.strip(_PUNCTUATION) or words.strip()


def _without_lead(words: str) -> str:
    return LEAD.sub("", words + " ").strip() or words


def _take_relation(words: str, quotes: Quotes) -> tuple[str, Relation | None, int | None]:
    """What stands before a relation, the relation, and the number of the row when one is told by number."""
    numbered = ROW_NUMBER.fullmatch(words)
    if numbered is not None:
        number = ORDINALS.get((numbered["word"] or "").lower()) or int(numbered["digits"] or 0)
        if number:
            return numbered["target"], None, number
    for kind, pattern in RELATIONS:
        for match in pattern.finditer(words):
            before, after = words[: match.start()].strip(), _trim(words[match.end() :])
            if before and after and not _is_inside_name(before, after, kind, quotes):
                anchor = _parse_plain(after, quotes).text or quotes.unmask(after, quoted=False)
                return before, Relation(kind=kind, anchor=anchor), None
    return words, None, None


def _is_inside_name(before: str, after: str, kind: RelationKind, quotes: Quotes) -> bool:
    """Whether an "in", "on" or "for" is more likely a part of a name ("Sign in", "Save for later")."""
    has_quotes = bool(quotes.marks(before) or quotes.marks(after))
    return kind == "inside" and not has_quotes and not re.match(r"the\s", after, re.I)


def _parse_plain(words: str, quotes: Quotes) -> Target:
    """Ordinal, kind and text, without a relation."""
    ordinal, words = _take_ordinal(_without_lead(_trim(words)))
    words = _without_lead(words)
    if AREA.fullmatch(words):
        is_field = re.search(r"field|input|box", words, re.I) is not None
        return Target(ordinal=ordinal, role="field" if is_field else "area")
    if ROLES.get(words.lower()) in _NAMELESS:
        return Target(ordinal=ordinal, role=ROLES[words.lower()])
    role, words = _take_role(words, quotes)
    marks = quotes.marks(words)
    text = quotes.unmask(marks[0], quoted=False) if marks else words
    return Target(text=text.strip(), ordinal=ordinal, role=role)


def _take_role(words: str, quotes: Quotes) -> tuple[Role, str]:
    tail = re.fullmatch(rf"(.+?)\s+({ROLE})(?:\s+(?:on|in)\s+the\s+(?:page|screen|window))?", words, re.I)
    if tail is not None:
        return ROLES[tail[2].lower()], tail[1]
    head = re.fullmatch(rf"({ROLE})\s+(?:({NAMED})\s+)?(.+)", words, re.I)
    if head is not None and (head[2] or quotes.marks(head[3])):
        return ROLES[head[1].lower()], head[3]
    return "", words


def _take_ordinal(words: str) -> tuple[int | None, str]:
    first, _, rest = words.partition(" ")
    if first.lower() not in ORDINALS or not rest.strip():
        return None, words
    return ORDINALS[first.lower()], re.sub(r"^(?:of the|one of|of|one)\s+", "", rest.strip(), flags=re.I)
