"""Ways to name several fields and their texts in one sentence: 'enter the username "bob" and the password "x"'."""

import re
from collections.abc import Sequence

from cua.models.literal.clauses import Quotes
from cua.models.literal.not_understood import NotUnderstoodError
from cua.models.literal.rules.words import MARK, TEXT_NOUN, Rule, rule
from cua.models.literal.steps import PlainStep, PressKeys, SetValue
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
