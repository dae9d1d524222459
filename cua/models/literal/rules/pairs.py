"""Several fields and their texts in one sentence ('enter the username "bob" and the password "x"'), and suggestions."""

import re
from collections.abc import Sequence

from cua.models.literal.clauses import Quotes
from cua.models.literal.not_understood import NotUnderstoodError
from cua.models.literal.rules.words import MARK, TEXT_NOUN, Rule, rule
from cua.models.literal.steps import PickSuggestion, PlainStep, PressKeys, SetValue
from cua.models.literal.target_phrase import parse_target

_WORD = r"(?!(?:and|or|then|into|in|as|for|the|with)\b)[^\W\d_][\w'/-]*"
_NOUN = rf"{_WORD}(?:\s+{_WORD}){{0,3}}?"
_THE = r"(?:(?:the|a|an|my|your|his|her|their)\s+)?"
_FIRST = re.compile(rf"{_THE}(?P<noun>{_NOUN})\s*(?:[:=]|\s(?:as|of|is|to|to\s+be))?\s*(?P<text>{MARK})", re.I)
_LAST = re.compile(rf"(?P<text>{MARK})\s+(?:as|for)\s+{_THE}(?P<noun>{_NOUN})", re.I)
_PAIR = rf"(?<!\w)(?:{_THE}{_NOUN}\s*(?:[:=]|\s(?:as|of|is|to|to\s+be))?\s*{MARK}|{MARK}\s+(?:as|for)\s+{_THE}{_NOUN})"
_PAIRS = rf"{_PAIR}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){_PAIR})*"
_FIELDS = (
    r"(?:the|their|these|those)\s+(?:(?:two|three|respective|corresponding|text|input|form|log-?in|sign-?in|sign-?up)\s+)*"
    r"(?:fields|boxes|inputs|form|text\s?boxes|text\s?fields|text\s?areas)(?:\s+(?:below|above|provided|given))?"
)
_ENTER = r"(?:type(?: in)?|enter|write|put|insert|input|key in|fill in|fill out|paste|provide|set|supply|specify)"


def _pairs(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep] | None:
    pairs = _split(match["pairs"])
    if len(pairs) == 1 and re.fullmatch(TEXT_NOUN, pairs[0][0], re.I):
        return None  # 'the text "x"' names no field
    steps: list[PlainStep] = []
    for noun, mark in pairs:
        if re.fullmatch(r"text|value|words?|string|phrase|characters?|letters?|sentence", noun, re.I):
            raise NotUnderstoodError(noun, "name the field that each text belongs to")
        value = quotes.unmask(mark, quoted=False)
        steps.append(SetValue(field=parse_target(noun, quotes), value=value))
    return steps


def _log_in(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep] | None:
    steps = _pairs(match, quotes)
    return None if steps is None else [*steps, PressKeys(keys=("enter",))]


def _split(words: str) -> list[tuple[str, str]]:
    """The pairs of noun and marked text."""
    found = []
    for part in re.findall(rf"{_PAIR}(?=\s*,|\s+and\s|\s*$)", words, re.I):
        pair = _FIRST.fullmatch(part) or _LAST.fullmatch(part)
        if pair is not None:
            found.append((pair["noun"], pair["text"]))
    return found


PAIRS: tuple[Rule, ...] = (
    rule(rf"{_ENTER} (?P<pairs>{_PAIRS})(?: (?:into|in|to|on) {_FIELDS})?", _pairs),
    rule(
        r"(?:fill(?: in| out)?|complete) (?:the|this|that) (?:[\w-]+ )?form (?:with|using|by entering)"
        rf" (?P<pairs>{_PAIRS})",
        _pairs,
    ),
    rule(
        r"(?:log ?in|sign ?in|log on|log yourself in)(?: to (?:the|this|your) (?:site|page|account|app|application))?"
        rf" (?:with|using|by entering) (?P<pairs>{_PAIRS})",
        _log_in,
    ),
)


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
