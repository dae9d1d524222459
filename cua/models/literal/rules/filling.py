"""Ways to say: type, set, clear, select, tick."""

import re

from cua.models.literal.clauses import Quotes
from cua.models.literal.rules.words import MARK, Rule, bare, rule
from cua.models.literal.steps import ClearField, PlainStep, SelectOption, SetValue, Target, Tick, TypeText
from cua.models.literal.target_phrase import parse_target


def _typed(masked: str, quotes: Quotes) -> str:
    return bare(masked, quotes).replace("\\n", "\n").replace("\\t", "\t")


def _type_into(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=_typed(match["text"], quotes), field=parse_target(match["field"], quotes))


def _type_here(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=_typed(match["text"], quotes))


def _append(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=_typed(match["text"], quotes), field=parse_target(match["field"], quotes), append=True)


def _search(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=_typed(match["text"], quotes), field=Target(text="Search", role="field"), enter=True)


def _set(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    value, field = _typed(match["text"], quotes), parse_target(match["field"], quotes)
    if re.fullmatch(r"on|off|(?:un)?(?:ticked|checked)|enabled|disabled|true|false", value, re.I):
        return Tick(target=field, is_on=re.match(r"on|checked|ticked|enabled|true", value, re.I) is not None)
    return SetValue(field=field, value=value)


def _clear(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return ClearField(field=parse_target(match["field"], quotes))


def _select(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    option = bare(_OPTION_WORDS.sub("", match["option"]), quotes)
    return SelectOption(option=Target(text=option), field=parse_target(match["field"], quotes))


def _select_plain(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    target = parse_target(match["option"], quotes)
    return Tick(target=target) if target.role in ("checkbox", "radio") else SelectOption(option=target)


def _tick(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    is_on = re.match(r"un|de|disable|(?:turn|switch|toggle)\s+off", match["verb"], re.I) is None
    return Tick(target=parse_target(match["target"], quotes), is_on=is_on)


_OPTION_WORDS = re.compile(r"^(?:the\s+)?(?:(?:option|value|item|entry)\s+)?|\s+(?:option|item|entry|value)$", re.I)
_TYPE = r"(?:type(?: in)?|enter|write|put|insert|input|key in|fill in|paste)"
_PICK = r"(?:select|choose|pick)"
_CONTENT = r"(?:the )?(?:text|value|contents?)s?"

TYPING: tuple[Rule, ...] = (
    rule(r"(?:append|add) (?P<text>.+) (?:to the end of|to) (?P<field>.+)", _append),
    rule(r"(?:search|look) for (?P<text>.+)", _search),
    rule(r"(?:fill(?: in| out)?|complete|populate) (?P<field>.+?) (?:with|by typing|as) (?P<text>.+)", _set),
    rule(rf"(?:replace|overwrite) (?:{_CONTENT} (?:of|in) )?(?P<field>.+?) (?:with|by) (?P<text>.+)", _set),
    rule(
        r"(?:set|change|switch|update|edit) (?:the )?(?:(?:value|text) of )?(?P<field>.+?) (?:to|=|as)"
        r" (?P<text>.+)",
        _set,
    ),
    rule(
        rf"{_TYPE} (?P<text>(?:(?:the )?(?:text|word|value|number|date|name) )?{MARK})"
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
