"""Ways to say: click, hover, drag, answer a dialog."""

import re

from cua.models.literal.clauses import Quotes
from cua.models.literal.rules.words import Rule, rule
from cua.models.literal.steps import AnswerDialog, Click, Drag, PlainStep
from cua.models.literal.target_phrase import parse_target


def _click(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    verb, target = match["verb"].lower(), parse_target(match["target"], quotes)
    if re.match(r"right|context", verb):
        return Click(target=target, button="right")
    if verb.startswith("middle"):
        return Click(target=target, button="middle")
    return Click(target=target, clicks=2 if verb.startswith("double") else 3 if verb.startswith("triple") else 1)


def _hover(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return Click(target=parse_target(match["target"], quotes), clicks=0)


def _drag(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return Drag(source=parse_target(match["source"], quotes), onto=parse_target(match["target"], quotes))


def _drag_by(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    distance = int(match["px"])
    x, y = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1)}[match["direction"].lower()]
    return Drag(source=parse_target(match["source"], quotes), by_px=(x * distance, y * distance))


def _dialog(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return AnswerDialog(accept=re.match(r"accept|confirm|agree|approve|ok", match["verb"], re.I) is not None)


_WAY = r"(?P<direction>right|left|up|down)(?:wards?)?"
_DIALOG = r"(?:dialog(?:ue)?|alert|pop-?up|prompt|confirmation|message|question|confirm)(?: box| dialog| window)?"

POINTING: tuple[Rule, ...] = (
    rule(
        r"(?P<verb>(?:(?:left|double|triple|right|context|middle)[\s-]*)?click(?:ing)?|tap|push)"
        r"(?: on| at)? (?P<target>.+)",
        _click,
    ),
    rule(
        r"(?:hover(?: over| on| above)?|mouse over"
        r"|(?:move|point|place) (?:the )?(?:mouse|pointer|cursor)(?: pointer)? (?:to|over|on|onto|at)) (?P<target>.+)",
        _hover,
    ),
    rule(rf"drag (?P<source>.+?) (?:to the )?{_WAY} by (?P<px>\d+) ?(?:px|pixels?)", _drag_by),
    rule(rf"drag (?P<source>.+?) by (?P<px>\d+) ?(?:px|pixels?) (?:to the )?{_WAY}", _drag_by),
    rule(r"drag (?P<source>.+?) (?:and drop (?:it )?)?(?:to|onto|on|into|over|in) (?P<target>.+)", _drag),
    rule(
        r"(?P<verb>accept|confirm|dismiss|cancel|close|reject|decline|approve|agree to|ok) "
        rf"(?:the |this |that |any )?(?:\S+ )?{_DIALOG}",
        _dialog,
    ),
)
