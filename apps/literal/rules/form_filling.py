"""Rules for typing, setting, clearing, selecting and ticking; several fields in one sentence; suggestions."""

import re
from collections.abc import Sequence
from dataclasses import replace

from apps.literal.rules.clause_parts import FIELD_NOUN, TEXT_NOUN, click_path, target, targets, typed
from apps.literal.rules.notation import MARK, ParsedClause, PhraseRule, compile_phrase, rule
from apps.literal.step_outcome import NotUnderstoodError
from apps.literal.steps import (
    ClearField,
    ClickTarget,
    PickSuggestion,
    PlainStep,
    PressKeys,
    SelectOption,
    SetToggle,
    SetValue,
    TypeInto,
)
from apps.literal.target_phrase import parse_path, parse_target, parse_targets
from apps.literal.targets import ElementTarget


def _type_into(clause: ParsedClause) -> Sequence[PlainStep] | PlainStep:
    text = typed(clause)
    several = _SEVERAL_FIELDS.fullmatch(f" {clause['field']}")
    if several is not None:
        count = _COUNTS[several["count"].strip().lower()]
        return [TypeInto(text=text, field=ElementTarget(ordinal=index, role="field")) for index in range(1, count + 1)]
    return TypeInto(text=text, field=_field(clause))


def _field(clause: ParsedClause) -> ElementTarget:
    if _COLLECTION.fullmatch(f" {clause['field']}") is not None:
        raise NotUnderstoodError(clause.quotes.unmask(clause["field"]), "say which element to click")
    return target(clause, "field")


def _type_case(clause: ParsedClause) -> PlainStep:
    is_upper = re.match(r"upper|capital|caps|block", clause["case"], re.I) is not None
    text = typed(clause).upper() if is_upper else typed(clause).lower()
    field = clause["field"] or clause["before"]
    if not field:
        return TypeInto(text=text)
    return TypeInto(text=text, field=_field(ParsedClause({"field": field}, clause.quotes)))


def _search(clause: ParsedClause) -> PlainStep:
    if not clause.quotes.marks(clause["text"]) and _FILTER.search(clause["text"]) is not None:
        raise NotUnderstoodError(clause["text"], "put the text to type in quotes")
    return TypeInto(text=typed(clause), field=ElementTarget(text="Search", role="field"), enter=True)


def _set(clause: ParsedClause) -> PlainStep:
    value, field = typed(clause), _field(clause)
    if re.fullmatch(r"on|off|(?:un)?(?:ticked|checked)|enabled|disabled|true|false", value, re.I):
        return SetToggle(target=field, is_on=re.match(r"on|checked|ticked|enabled|true", value, re.I) is not None)
    return SetValue(field=field, value=value)


def _clear(clause: ParsedClause) -> PlainStep:
    return ClearField(field=target(clause, "field"))


def _select(clause: ParsedClause) -> Sequence[PlainStep]:
    field = target(clause, "field")
    options = parse_targets(_OPTION_WORDS.sub("", clause["option"]), clause.quotes)
    return [
        SelectOption(option=replace(option, phrase="", role=""), field=field, is_more=index > 0)
        for index, option in enumerate(options)
    ]


def _select_plain(clause: ParsedClause) -> Sequence[PlainStep]:
    path = parse_path(clause["option"], clause.quotes)
    if path:
        return click_path(path)
    return [
        SetToggle(target=each) if each.role in ("checkbox", "radio") else SelectOption(option=each)
        for each in targets(clause, "option")
    ]


def _tick(clause: ParsedClause) -> Sequence[PlainStep]:
    is_on = re.match(r"un|de|disable|(?:turn|switch|toggle)\s+off", clause["verb"], re.I) is None
    return [SetToggle(target=each, is_on=is_on) for each in targets(clause)]


_OPTION_WORDS = re.compile(r"^(?:the\s+)?(?:(?:option|value|item|entry)\s+)?|\s+(?:option|item|entry|value)$", re.I)
_TYPE = "(type [in]|enter|write|put|insert|input|key in|fill in|paste)"
_PICK = "(select|choose|pick)"
_CONTENT = "[the] (texts?|values?|contents?)"
_COUNTS = {"both": 2, "two": 2, "three": 3, "four": 4, "2": 2, "3": 3, "4": 4}
_FIELDS = "[text|input|pass~word|entry] (fields|boxes|text~boxes|inputs|text~areas|input fields)"
_SEVERAL_FIELDS, _ = compile_phrase(
    f"(`(?P<both>)`|[all] [the]) <count: both|two|three|four|2|3|4> [of] [the] {_FIELDS}"
)
_COLLECTION, _ = compile_phrase(
    "[the|my|your|a|this] [shopping]"
    " (cart|basket|bag|wish~list|favou?rites|bookmarks|clipboard|playlist|collection|order)"
)
_FILTER = re.compile(
    r"\w+\s+\w+.*\s(?:by|from|in|with|without|between|under|over|near|before|after|for|that|which)\s+\S", re.S
)
_CASE = (
    "(in|using) [all] <case: upper|lower|capitals?|small|caps|block|upper-?case|lower-?case> [case]"
    " [letters?|characters?]"
)
_ITS_FIELD = f"` (?P<field>the .+|{MARK}.*)`"

TYPING: tuple[PhraseRule, ...] = (
    rule(f"{_TYPE}` (?P<text>.*{MARK})` [(into|in) <before>] {_CASE} [(into|in|to) <field>]", _type_case),
    rule(
        "use <field?> to (type [in]|enter|write|input|search for|look up|look for|find)` (?P<text>.*\ue001)`",
        lambda clause: TypeInto(text=typed(clause), field=_field(clause)),
    ),
    rule(
        "(append|add) <text> (to the end of|to) <field>",
        lambda clause: TypeInto(text=typed(clause), field=_field(clause), append=True),
    ),
    rule("(search|look) for <text>", _search),
    rule("(fill [in|out]|complete|populate) <field?> (with|by typing|as) <text>", _set),
    rule(f"(replace|overwrite) [{_CONTENT} (of|in)] <field?> (with|by) <text>", _set),
    rule(
        "(set|change|switch`(?! (?:between|among|through|over|back)\\b)`|update|edit) [the] [(value|text) of] <field?>"
        " (to|=|as) <text>",
        _set,
    ),
    rule(
        f"{_TYPE} <text: [[the|an?] ({TEXT_NOUN}|{FIELD_NOUN})] QUOTED> (into|in|to|as|for|at|under|on) <field>",
        _type_into,
    ),
    rule(f"{_TYPE} <text> into <field>", _type_into),
    rule(f"{_TYPE} <text> (in|as|for|under|on){_ITS_FIELD}", _type_into),
    rule(f"{_TYPE} <text> (in|as|for) <field>", _type_into),
    rule("(fill [in]|enter) <field?>`: ?(?P<text>.+)`", _set),
    rule("(type [in]|write|enter|input|key in)`(?: |: *)(?P<text>.+)`", lambda clause: TypeInto(text=typed(clause))),
    rule(f"(clear|empty|erase) [{_CONTENT} (of|in|from)] <field>", _clear),
    rule(f"delete {_CONTENT} (of|in|from) <field>", _clear),
)

CHOOSING: tuple[PhraseRule, ...] = (
    rule(
        f"({_PICK}|check|tick|click) [on] (nothing|none [of (them|these|those|the (options|items|boxes|checkboxes))]"
        "|no (options?|items?|boxes|box|checkbox|checkboxes|entry|entries)) [at all|here|below]",
        lambda clause: [],
    ),
    rule(
        f"{_PICK} <option: [the] [option|item|entry|value] QUOTED [option|item|entry|value]>"
        " (in|from|for|as|under|on|within|at|out of) <field>",
        _select,
    ),
    rule(f"{_PICK} <option> (from|out of) <field>", _select),
    rule(f"{_PICK} <option> (in|for|as|under) <field>", _select),
    rule(f"{_PICK} <option>", _select_plain),
    rule(
        "<verb: un-?tick|un-?check|de-?select|disable|(turn|switch|toggle) off|tick|check|enable|(turn|switch) on>"
        " <target>",
        _tick,
    ),
)


_WORD = r"(?!(?:and|or|then|into|in|as|for|the|with)\b)[^\W\d_][\w'/-]*"
_NOUN = rf"(?:(?:the|a|an|my|your|his|her|their)\s+)?(?P<noun>{_WORD}(?:\s+{_WORD}){{0,3}}?)"
_FIRST = re.compile(rf"{_NOUN}\s*(?:[:=]|\s(?:as|of|is|to|to\s+be))?\s*(?P<text>{MARK})", re.I)
_LAST = re.compile(rf"(?P<text>{MARK})\s+(?:as|for)\s+{_NOUN}", re.I)
_PAIR_JOINT = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+", re.I)
_KIND_OF_FORM = "[two|three|respective|corresponding|text|input|form|log-?in|sign-?in|sign-?up]"
_PAIR_FIELDS = (
    f"(the|their|these|those) {_KIND_OF_FORM} {_KIND_OF_FORM}"
    " (fields|boxes|inputs|form|text~boxes|text~fields|text~areas) [below|above|provided|given]"
)
_ENTER = "(type [in]|enter|write|put|insert|input|key in|fill in|fill out|paste|provide|set|supply|specify)"
_PLAIN_NOUN, _ = compile_phrase(TEXT_NOUN)


def _pairs(clause: ParsedClause) -> Sequence[PlainStep] | None:
    """Parse pairs of a field and its text: 'user "a" and the password "b"', '"a" as the user, "b" as the password'."""
    matches = [_FIRST.fullmatch(part) or _LAST.fullmatch(part) for part in _PAIR_JOINT.split(clause["pairs"])]
    pairs = [(pair["noun"], pair["text"]) for pair in matches if pair is not None]
    if len(pairs) < len(matches) or (len(pairs) == 1 and _PLAIN_NOUN.fullmatch(f" {pairs[0][0]}")):
        return None  # 'the text "x"' names no field
    steps: list[PlainStep] = []
    for noun, mark in pairs:
        if re.fullmatch(r"text|value|words?|string|phrase|characters?|letters?|sentence", noun, re.I):
            raise NotUnderstoodError(noun, "name the field that each text belongs to")
        value = clause.quotes.unmask(mark, quoted=False)
        steps.append(SetValue(field=parse_target(noun, clause.quotes), value=value))
    return steps


def _log_in(clause: ParsedClause) -> Sequence[PlainStep] | None:
    steps = _pairs(clause)
    return None if steps is None else [*steps, PressKeys(keys=("enter",))]


def _log_in_as(clause: ParsedClause) -> Sequence[PlainStep]:
    """Parse a name and a password without quotes: "log in as kim with password x"."""
    name = SetValue(
        field=parse_target((clause["kind"] or "username").lower(), clause.quotes), value=typed(clause, "name")
    )
    password = SetValue(field=ElementTarget(text="password"), value=typed(clause, "secret"))
    return [name, password, ClickTarget(target=ElementTarget(text="log in", verb="log in"))]


_SITE = "[to (the|this|your) (site|page|account|app|application)]"
PAIRS: tuple[PhraseRule, ...] = (
    rule(f"{_ENTER} <pairs?> [(into|in|to|on) {_PAIR_FIELDS}]", _pairs),
    rule("(fill [in|out]|complete) (the|this|that) [COMPOUND] form (with|using|by entering) <pairs>", _pairs),
    rule(f"(log~in|sign~in|log on|log yourself in) {_SITE} (with|using|by entering) <pairs>", _log_in),
    rule(
        f"(log~in|sign~in|log on) {_SITE} (with|as|using) [the]"
        " [<kind: user~name|user|e-?mail [address]|login|account>] <name: QUOTED|TERM>`(?:,? (?:and|with)(?: the)?|,)`"
        " password <secret: QUOTED|TERM>",
        _log_in_as,
    ),
)


_THING = (
    "(an?|the|any|one|some) (item|entry|option|suggestion|value|word|name|text|term|tag|country|city|town|state"
    "|place|airport|station|street|language|colou?r|title|brand|product|person|company|food|animal|fruit|result|thing)"
)
_THE_TEXT = "[the (letters?|text|word)] QUOTED"
_CONDITION_PHRASES = {
    "start": f"(starts?|begins?|starting|beginning) (with|in|by) {_THE_TEXT}",
    "end": f"(ends?|finish|finishes|ending|finishing) (with|in|on) {_THE_TEXT}",
    "part": f"(contains?|containing|includes?|including|has|with) {_THE_TEXT}",
}
_CONDITIONS = {kind: compile_phrase(phrase)[0] for kind, phrase in _CONDITION_PHRASES.items()}
_CONDITION_JOINT = re.compile(r"(?<=\ue001) ?(?:(?:, )?(?:and|but)|,)(?: (?:that|which))?(?: also)? ")


def _suggestion(clause: ParsedClause) -> PlainStep | None:
    parts: dict[str, str] = {}
    for phrase in _CONDITION_JOINT.split(clause["conditions"]):
        kind = next((kind for kind, pattern in _CONDITIONS.items() if pattern.fullmatch(f" {phrase}")), "")
        if not kind:
            return None
        if kind in parts:
            raise NotUnderstoodError(clause.quotes.unmask(phrase), "give each condition only once")
        parts[kind] = clause.quotes.unmask(clause.quotes.marks(phrase)[0], quoted=False)
    if not any(parts.values()):
        raise NotUnderstoodError(clause.quotes.unmask(clause["conditions"]), "say what the text starts or ends with")
    return PickSuggestion(**parts, field=target(clause, "field") if clause["field"] else None)


SUGGESTING: tuple[PhraseRule, ...] = (
    rule(
        f"(type [in]|enter|write|input|fill in|put|insert) {_THING} [that|which|whose (name|text|title)]"
        "` (?P<conditions>.+?\ue001)` [(into|in|to|on) <field>]",
        _suggestion,
    ),
)
