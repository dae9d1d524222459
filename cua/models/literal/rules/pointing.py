"""Ways to say: click, hover, drag, answer a dialog."""

import re
from collections.abc import Sequence

from cua.models.literal.clauses import Quotes
from cua.models.literal.not_understood import NotUnderstoodError
from cua.models.literal.rules.words import MARK, NUMBER, Rule, click_path, number, rule
from cua.models.literal.steps import AnswerDialog, Click, Drag, PlainStep
from cua.models.literal.target_phrase import parse_path, parse_target, parse_targets


def _click(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    verb = match["verb"].lower()
    path = parse_path(match["target"], quotes)
    if path and verb in ("click", "tap", "push"):
        return click_path(path)
    words, times = _take_times(match["target"])
    targets = parse_targets(words, quotes)
    if re.match(r"right|context", verb):
        return [Click(target=target, button="right") for target in targets] * times
    if verb.startswith("middle"):
        return [Click(target=target, button="middle") for target in targets] * times
    clicks = 2 if verb.startswith("double") else 3 if verb.startswith("triple") else 1
    return [Click(target=target, clicks=clicks) for target in targets] * times


def _take_times(words: str) -> tuple[str, int]:
    """A quoted target and how often: "'+' three times"; a name without quotes keeps its words."""
    found = re.fullmatch(
        rf"(?P<target>.*{MARK}.*?)[\s,]+(?:(?P<count>{NUMBER})\s+times|(?P<twice>twice|once))", words, re.I | re.S
    )
    if found is None:
        return words, 1
    count = number(found["count"] or found["twice"])
    if count != int(count) or not 1 <= count <= _MAX_TIMES:
        raise NotUnderstoodError(words[found.end("target") :], f"a whole number up to {_MAX_TIMES}")
    return found["target"], int(count)


def _click_by(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    """How to do it is what is done: "close the dialog by clicking X"."""
    return [Click(target=target) for target in parse_targets(match["target"], quotes)]


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

_MAX_TIMES = 20

POINTING: tuple[Rule, ...] = (
    rule(
        rf"(?:close|dismiss|exit|leave|hide) (?:the |this )?(?:{_DIALOG}|window|modal|panel|banner|menu|it)"
        r" by (?:clicking|pressing|tapping|hitting)(?: on)? (?P<target>.+)",
        _click_by,
    ),
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
