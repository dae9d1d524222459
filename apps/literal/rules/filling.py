"""Ways to say: type, set, clear, select, tick; several fields and their texts in one sentence; suggestions."""

import re
from collections.abc import Sequence
from dataclasses import replace

from apps.literal.clauses import Quotes
from apps.literal.moves import NotUnderstoodError
from apps.literal.rules.words import FIELD_NOUN, MARK, TEXT_NOUN, Rule, click_path, rule, typed
from apps.literal.steps import (
    ClearField,
    Click,
    PickSuggestion,
    PlainStep,
    PressKeys,
    SelectOption,
    SetValue,
    Tick,
    TypeText,
)
from apps.literal.target_phrase import parse_path, parse_target, parse_targets
from apps.literal.targets import Target


def _type_into(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep] | PlainStep | None:
    text = typed(match["text"], quotes)
    several = _SEVERAL_FIELDS.fullmatch(match["field"].strip())
    if several is not None:
        count = _COUNTS[(several["count"] or several["the_count"]).lower()]
        fields = [Target(ordinal=index + 1, role="field") for index in range(count)]
        return [TypeText(text=text, field=field) for field in fields]
    return TypeText(text=text, field=_field(match["field"], quotes))


def _field(masked: str, quotes: Quotes) -> Target:
    if _COLLECTION.fullmatch(masked.strip()) is not None:
        raise NotUnderstoodError(quotes.unmask(masked), "say what to click for that")
    return parse_target(masked, quotes)


def _type_case(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    text = typed(match["text"], quotes)
    text = text.upper() if re.match(r"upper|capital|caps|block", match["case"], re.I) else text.lower()
    field = match["field"] or match["before"]
    return TypeText(text=text, field=_field(field, quotes) if field else None)


def _type_here(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=typed(match["text"], quotes))


def _use_field(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=typed(match["text"], quotes), field=_field(match["field"], quotes))


def _append(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=typed(match["text"], quotes), field=_field(match["field"], quotes), append=True)


def _search(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    if not quotes.marks(match["text"]) and _FILTER.search(match["text"]) is not None:
        raise NotUnderstoodError(match["text"], "quote what shall be typed letter by letter")
    return TypeText(text=typed(match["text"], quotes), field=Target(text="Search", role="field"), enter=True)


def _set(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    value, field = typed(match["text"], quotes), _field(match["field"], quotes)
    if re.fullmatch(r"on|off|(?:un)?(?:ticked|checked)|enabled|disabled|true|false", value, re.I):
        return Tick(target=field, is_on=re.match(r"on|checked|ticked|enabled|true", value, re.I) is not None)
    return SetValue(field=field, value=value)


def _clear(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return ClearField(field=parse_target(match["field"], quotes))


def _select(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    field = parse_target(match["field"], quotes)
    options = parse_targets(_OPTION_WORDS.sub("", match["option"]), quotes)
    return [
        SelectOption(option=replace(option, phrase="", role=""), field=field, is_more=index > 0)
        for index, option in enumerate(options)
    ]


def _select_plain(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    path = parse_path(match["option"], quotes)
    if path:
        return click_path(path)
    targets = parse_targets(match["option"], quotes)
    return [
        Tick(target=target) if target.role in ("checkbox", "radio") else SelectOption(option=target)
        for target in targets
    ]


def _nothing(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    return []


def _tick(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    is_on = re.match(r"un|de|disable|(?:turn|switch|toggle)\s+off", match["verb"], re.I) is None
    return [Tick(target=target, is_on=is_on) for target in parse_targets(match["target"], quotes)]


_OPTION_WORDS = re.compile(r"^(?:the\s+)?(?:(?:option|value|item|entry)\s+)?|\s+(?:option|item|entry|value)$", re.I)
_TYPE = r"(?:type(?: in)?|enter|write|put|insert|input|key in|fill in|paste)"
_PICK = r"(?:select|choose|pick)"
_CONTENT = r"(?:the )?(?:text|value|contents?)s?"
_COUNTS = {"both": 2, "two": 2, "three": 3, "four": 4, "2": 2, "3": 3, "4": 4}
_FIELDS = r"(?:(?:text|input|pass\s?word|entry)\s+)?(?:fields|boxes|text\s?boxes|inputs|text\s?areas|input\s+fields)"
_SEVERAL_FIELDS = re.compile(
    rf"(?P<count>both)(?:\s+of)?(?:\s+the)?\s+{_FIELDS}|(?:all\s+)?(?:the\s+)?(?P<the_count>two|three|four|[234])\s+{_FIELDS}",
    re.I,
)
_COLLECTION = re.compile(
    r"(?:(?:the|my|your|a|this)\s+)?(?:shopping\s+)?(?:cart|basket|bag|wish\s?list|favou?rites|bookmarks|clipboard|playlist|collection|order)",
    re.I,
)
_FILTER = re.compile(
    r"\w+\s+\w+.*\s(?:by|from|in|with|without|between|under|over|near|before|after|for|that|which)\s+\S", re.S
)
_CASE = (
    r"(?:in|using) (?:all )?(?P<case>upper|lower|capitals?|small|caps|block|upper-?case|lower-?case)"
    r"(?: ?case)?(?: (?:letters?|characters?))?"
)

TYPING: tuple[Rule, ...] = (
    rule(
        rf"{_TYPE} (?P<text>.*{MARK})(?: (?:into|in) (?P<before>.+))? {_CASE}(?: (?:into|in|to) (?P<field>.+))?",
        _type_case,
    ),
    rule(
        r"use (?P<field>.+?) to (?:type(?: in)?|enter|write|input|search for|look up|look for|find)"
        rf" (?P<text>.*{MARK})",
        _use_field,
    ),
    rule(r"(?:append|add) (?P<text>.+) (?:to the end of|to) (?P<field>.+)", _append),
    rule(r"(?:search|look) for (?P<text>.+)", _search),
    rule(r"(?:fill(?: in| out)?|complete|populate) (?P<field>.+?) (?:with|by typing|as) (?P<text>.+)", _set),
    rule(rf"(?:replace|overwrite) (?:{_CONTENT} (?:of|in) )?(?P<field>.+?) (?:with|by) (?P<text>.+)", _set),
    rule(
        r"(?:set|change|switch(?! (?:between|among|through|over|back)\b)|update|edit) (?:the )?"
        r"(?:(?:value|text) of )?(?P<field>.+?) (?:to|=|as)"
        r" (?P<text>.+)",
        _set,
    ),
    rule(
        rf"{_TYPE} (?P<text>(?:(?:the |an? )?(?:{TEXT_NOUN}|{FIELD_NOUN}) )?{MARK})"
        r" (?:into|in|to|as|for|at|under|on) (?P<field>.+)",
        _type_into,
    ),
    rule(rf"{_TYPE} (?P<text>.+) into (?P<field>.+)", _type_into),
    rule(rf"{_TYPE} (?P<text>.+) (?:in|as|for|under|on) (?P<field>the .+|{MARK}.*)", _type_into),
    rule(rf"{_TYPE} (?P<text>.+) (?:in|as|for) (?P<field>.+)", _type_into),
    rule(r"(?:fill(?: in)?|enter) (?P<field>[^:]+): ?(?P<text>.+)", _set),
    rule(r"(?:type(?: in)?|write|enter|input|key in)(?: |: *)(?P<text>.+)", _type_here),
    rule(rf"(?:clear|empty|erase) (?:{_CONTENT} (?:of|in|from) )?(?P<field>.+)", _clear),
    rule(rf"delete {_CONTENT} (?:of|in|from) (?P<field>.+)", _clear),
)

CHOOSING: tuple[Rule, ...] = (
    rule(
        rf"(?:{_PICK}|check|tick|click)(?: on)? "
        r"(?:nothing|none(?: of (?:them|these|those|the (?:options|items|boxes|checkboxes)))?"
        r"|no (?:options?|items?|boxes|box|checkbox(?:es)?|entry|entries))(?: (?:at all|here|below))?",
        _nothing,
    ),
    rule(
        rf"{_PICK} (?P<option>(?:the )?(?:(?:option|item|entry|value) )?{MARK}(?: (?:option|item|entry|value))?)"
        r" (?:in|from|for|as|under|on|within|at|out of) (?P<field>.+)",
        _select,
    ),
    rule(rf"{_PICK} (?P<option>.+) (?:from|out of) (?P<field>.+)", _select),
    rule(rf"{_PICK} (?P<option>.+) (?:in|for|as|under) (?P<field>.+)", _select),
    rule(rf"{_PICK} (?P<option>.+)", _select_plain),
    rule(
        r"(?P<verb>un-?tick|un-?check|de-?select|disable|(?:turn|switch|toggle) off|tick|check|enable"
        r"|(?:turn|switch) on)"
        r" (?P<target>.+)",
        _tick,
    ),
)


_WORD = r"(?!(?:and|or|then|into|in|as|for|the|with)\b)[^\W\d_][\w'/-]*"
_NOUN = rf"{_WORD}(?:\s+{_WORD}){{0,3}}?"
_THE = r"(?:(?:the|a|an|my|your|his|her|their)\s+)?"
_FIRST = re.compile(rf"{_THE}(?P<noun>{_NOUN})\s*(?:[:=]|\s(?:as|of|is|to|to\s+be))?\s*(?P<text>{MARK})", re.I)
_LAST = re.compile(rf"(?P<text>{MARK})\s+(?:as|for)\s+{_THE}(?P<noun>{_NOUN})", re.I)
_PAIR_JOINT = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+", re.I)
_PAIR_FIELDS = (
    r"(?:the|their|these|those)\s+(?:(?:two|three|respective|corresponding|text|input|form|log-?in|sign-?in|sign-?up)\s+)*"
    r"(?:fields|boxes|inputs|form|text\s?boxes|text\s?fields|text\s?areas)(?:\s+(?:below|above|provided|given))?"
)
_ENTER = r"(?:type(?: in)?|enter|write|put|insert|input|key in|fill in|fill out|paste|provide|set|supply|specify)"


def _pairs(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep] | None:
    pairs = _split(match["pairs"])
    if not pairs:
        return None
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


def _log_in_as(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    """A name and a password without quotes: "log in as kim with password x"."""
    kind = (match["kind"] or "username").strip().lower()
    name, secret = (typed(match[part], quotes) for part in ("name", "secret"))
    log_in = Click(target=Target(text="log in", deed="log in"))
    field = parse_target(kind, quotes)
    return [SetValue(field=field, value=name), SetValue(field=Target(text="password"), value=secret), log_in]


def _split(words: str) -> list[tuple[str, str]]:
    """The pairs of noun and marked text; empty when there is anything else."""
    found = [_FIRST.fullmatch(part) or _LAST.fullmatch(part) for part in _PAIR_JOINT.split(words)]
    return [] if None in found else [(pair["noun"], pair["text"]) for pair in found if pair is not None]


PAIRS: tuple[Rule, ...] = (
    rule(rf"{_ENTER} (?P<pairs>.+?)(?: (?:into|in|to|on) {_PAIR_FIELDS})?", _pairs),
    rule(
        r"(?:fill(?: in| out)?|complete) (?:the|this|that) (?:[\w-]+ )?form (?:with|using|by entering)"
        r" (?P<pairs>.+)",
        _pairs,
    ),
    rule(
        r"(?:log ?in|sign ?in|log on|log yourself in)(?: to (?:the|this|your) (?:site|page|account|app|application))?"
        r" (?:with|using|by entering) (?P<pairs>.+)",
        _log_in,
    ),
    rule(
        r"(?:log ?in|sign ?in|log on)(?: to (?:the|this|your) (?:site|page|account|app|application))?"
        r" (?:with|as|using) (?:the )?(?P<kind>(?:user ?name|user|e-?mail(?: address)?|login|account) )?"
        rf"(?P<name>{MARK}|\S+)(?:,? (?:and|with)(?: the)?|,) password (?P<secret>{MARK}|\S+)",
        _log_in_as,
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
