"""Ways to ask for one of a field's suggestions by how it begins and ends."""

import re

from cua.models.literal.clauses import Quotes
from cua.models.literal.not_understood import NotUnderstoodError
from cua.models.literal.rules.words import MARK, Rule, rule
from cua.models.literal.steps import PickSuggestion, PlainStep
from cua.models.literal.target_phrase import parse_target

_THING = (
    r"(?:an?|the|any|one|some) (?:item|entry|option|suggestion|value|word|name|text|term|tag|country|city|town|state"
    r"|place|airport|station|street|language|colou?r|title|brand|product|person|company|food|animal|fruit|result|thing)"
)
_START = rf"(?:starts?|begins?|starting|beginning) (?:with|in|by) (?:the (?:letters?|text|word) )?{MARK}"
_END = rf"(?:ends?|finish(?:es)?|ending|finishing) (?:with|in|on) (?:the (?:letters?|text|word) )?{MARK}"
_PART = rf"(?:contains?|containing|includes?|including|has|with) (?:the (?:letters?|text|word) )?{MARK}"
_SAID = rf"(?:{_START}|{_END}|{_PART})"
_JOINT = r"(?:(?:, )?(?:and|but)|,)(?: (?:that|which))?(?: also)?"


def _suggestion(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    parts: dict[str, str] = {}
    for said in re.finditer(re.sub(" ", r"\\s+", _SAID), match["said"], re.I):
        kind = (
            "start"
            if re.match("start|begin", said[0], re.I)
            else "end"
            if re.match("end|fin", said[0], re.I)
            else "part"
        )
        if kind in parts:
            raise NotUnderstoodError(quotes.unmask(said[0]), "say once how it begins, once how it ends")
        parts[kind] = quotes.unmask(quotes.marks(said[0])[0], quoted=False)
    if not any(parts.values()):
        raise NotUnderstoodError(quotes.unmask(match["said"]), "say how it begins or ends")
    field = match["field"]
    return PickSuggestion(**parts, field=parse_target(field, quotes) if field else None)


SUGGESTING: tuple[Rule, ...] = (
    rule(
        rf"(?:type(?: in)?|enter|write|input|fill in|put|insert) {_THING}"
        r"(?: (?:that|which|whose (?:name|text|title)))? "
        rf"(?P<said>{_SAID}(?: ?{_JOINT} {_SAID})*)(?: (?:into|in|to|on) (?P<field>.+))?",
        _suggestion,
    ),
)
