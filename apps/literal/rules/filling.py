"""Rules for typing, setting, clearing, selecting and ticking; several fields in one sentence; suggestions."""

import re
from collections.abc import Sequence
from dataclasses import replace

from apps.literal.moves import NotUnderstoodError
from apps.literal.rules.notation import MARK, Rule, Said, compile_phrase, rule
from apps.literal.rules.words import FIELD_NOUN, TEXT_NOUN, click_path, target, targets, typed
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


def _type_into(said: Said) -> Sequence[PlainStep] | PlainStep:
    text = typed(said)
    several = _SEVERAL_FIELDS.fullmatch(f" {said['field']}")
    if several is not None:
        count = _COUNTS[several["count"].strip().lower()]
        return [TypeText(text=text, field=Target(ordinal=index, role="field")) for index in range(1, count + 1)]
    return TypeText(text=text, field=_field(said))


def _field(said: Said) -> Target:
    if _COLLECTION.fullmatch(f" {said['field']}") is not None:
        raise NotUnderstoodError(said.quotes.unmask(said["field"]), "say what to click for that")
    return target(said, "field")


def _type_case(said: Said) -> PlainStep:
    is_upper = re.match(r"upper|capital|caps|block", said["case"], re.I) is not None
    text = typed(said).upper() if is_upper else typed(said).lower()
    field = said["field"] or said["before"]
    if not field:
        return TypeText(text=text)
    return TypeText(text=text, field=_field(Said({"field": field}, said.quotes)))


def _search(said: Said) -> PlainStep:
    if not said.quotes.marks(said["text"]) and _FILTER.search(said["text"]) is not None:
        raise NotUnderstoodError(said["text"], "quote what shall be typed letter by letter")
    return TypeText(text=typed(said), field=Target(text="Search", role="field"), enter=True)


def _set(said: Said) -> PlainStep:
    value, field = typed(said), _field(said)
    if re.fullmatch(r"on|off|(?:un)?(?:ticked|checked)|enabled|disabled|true|false", value, re.I):
        return Tick(target=field, is_on=re.match(r"on|checked|ticked|enabled|true", value, re.I) is not None)
    return SetValue(field=field, value=value)


def _clear(said: Said) -> PlainStep:
    return ClearField(field=target(said, "field"))


def _select(said: Said) -> Sequence[PlainStep]:
    field = target(said, "field")
    options = parse_targets(_OPTION_WORDS.sub("", said["option"]), said.quotes)
    return [
        SelectOption(option=replace(option, phrase="", role=""), field=field, is_more=index > 0)
        for index, option in enumerate(options)
    ]


def _select_plain(said: Said) -> Sequence[PlainStep]:
    path = parse_path(said["option"], said.quotes)
    if path:
        return click_path(path)
    return [
        Tick(target=each) if each.role in ("checkbox", "radio") else SelectOption(option=each)
        for each in targets(said, "option")
    ]


def _tick(said: Said) -> Sequence[PlainStep]:
    is_on = re.match(r"un|de|disable|(?:turn|switch|toggle)\s+off", said["verb"], re.I) is None
    return [Tick(target=each, is_on=is_on) for each in targets(said)]


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

TYPING: tuple[Rule, ...] = (
    rule(f"{_TYPE}` (?P<text>.*{MARK})` [(into|in) <before>] {_CASE} [(into|in|to) <field>]", _type_case),
    rule(
        "use <field?> to (type [in]|enter|write|input|search for|look up|look for|find)` (?P<text>.*\ue001)`",
        lambda said: TypeText(text=typed(said), field=_field(said)),
    ),
    rule(
        "(append|add) <text> (to the end of|to) <field>",
        lambda said: TypeText(text=typed(said), field=_field(said), append=True),
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
    rule("(type [in]|write|enter|input|key in)`(?: |: *)(?P<text>.+)`", lambda said: TypeText(text=typed(said))),
    rule(f"(clear|empty|erase) [{_CONTENT} (of|in|from)] <field>", _clear),
    rule(f"delete {_CONTENT} (of|in|from) <field>", _clear),
)

CHOOSING: tuple[Rule, ...] = (
    rule(
        f"({_PICK}|check|tick|click) [on] (nothing|none [of (them|these|those|the (options|items|boxes|checkboxes))]"
        "|no (options?|items?|boxes|box|checkbox|checkboxes|entry|entries)) [at all|here|below]",
        lambda said: [],
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


def _pairs(said: Said) -> Sequence[PlainStep] | None:
    """Parse pairs of a field and its text: 'user "a" and the password "b"', '"a" as the user, "b" as the password'."""
    found = [_FIRST.fullmatch(part) or _LAST.fullmatch(part) for part in _PAIR_JOINT.split(said["pairs"])]
    pairs = [(pair["noun"], pair["text"]) for pair in found if pair is not None]
    if len(pairs) < len(found) or (len(pairs) == 1 and _PLAIN_NOUN.fullmatch(f" {pairs[0][0]}")):
        return None  # 'the text "x"' names no field
    steps: list[PlainStep] = []
    for noun, mark in pairs:
        if re.fullmatch(r"text|value|words?|string|phrase|characters?|letters?|sentence", noun, re.I):
            raise NotUnderstoodError(noun, "name the field that each text belongs to")
        value = said.quotes.unmask(mark, quoted=False)
        steps.append(SetValue(field=parse_target(noun, said.quotes), value=value))
    return steps


def _log_in(said: Said) -> Sequence[PlainStep] | None:
    steps = _pairs(said)
    return None if steps is None else [*steps, PressKeys(keys=("enter",))]


def _log_in_as(said: Said) -> Sequence[PlainStep]:
    """Parse a name and a password without quotes: "log in as kim with password x"."""
    name = SetValue(field=parse_target((said["kind"] or "username").lower(), said.quotes), value=typed(said, "name"))
    password = SetValue(field=Target(text="password"), value=typed(said, "secret"))
    return [name, password, Click(target=Target(text="log in", deed="log in"))]


_SITE = "[to (the|this|your) (site|page|account|app|application)]"
PAIRS: tuple[Rule, ...] = (
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
_SAYING = {
    "start": f"(starts?|begins?|starting|beginning) (with|in|by) {_THE_TEXT}",
    "end": f"(ends?|finish|finishes|ending|finishing) (with|in|on) {_THE_TEXT}",
    "part": f"(contains?|containing|includes?|including|has|with) {_THE_TEXT}",
}
_SAID = {kind: compile_phrase(phrase)[0] for kind, phrase in _SAYING.items()}
_SAID_JOINT = re.compile(r"(?<=\ue001) ?(?:(?:, )?(?:and|but)|,)(?: (?:that|which))?(?: also)? ")


def _suggestion(said: Said) -> PlainStep | None:
    parts: dict[str, str] = {}
    for phrase in _SAID_JOINT.split(said["said"]):
        kind = next((kind for kind, pattern in _SAID.items() if pattern.fullmatch(f" {phrase}")), "")
        if not kind:
            return None
        if kind in parts:
            raise NotUnderstoodError(said.quotes.unmask(phrase), "say once how it begins, once how it ends")
        parts[kind] = said.quotes.unmask(said.quotes.marks(phrase)[0], quoted=False)
    if not any(parts.values()):
        raise NotUnderstoodError(said.quotes.unmask(said["said"]), "say how it begins or ends")
    return PickSuggestion(**parts, field=target(said, "field") if said["field"] else None)


SUGGESTING: tuple[Rule, ...] = (
    rule(
        f"(type [in]|enter|write|input|fill in|put|insert) {_THING} [that|which|whose (name|text|title)]"
        "` (?P<said>.+?\ue001)` [(into|in|to|on) <field>]",
        _suggestion,
    ),
)
