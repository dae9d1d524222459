"""Ways to say: wait, scroll, check, report."""

import re
from collections.abc import Sequence

from apps.literal.clauses import Quotes
from apps.literal.rules.words import GONE, NUMBER, SEEN, Rule, bare, fixed, number, rule
from apps.literal.steps import CheckShown, PlainStep, Report, ScrollBy, ScrollUntil, Tick, WaitFor, WaitSeconds
from apps.literal.target_phrase import parse_target, parse_targets
from apps.literal.targets import Direction

_MAX_WAIT_S = 60.0
_NOTCHES_A_TIME = 5


def _wait(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    unit = (match["unit"] or "s").lower()
    scale = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return WaitSeconds(duration_s=min(number(match["count"]) * scale, _MAX_WAIT_S))


def _wait_for(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return WaitFor(text=parse_target(match["target"], quotes).text)


def _wait_gone(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return WaitFor(text=parse_target(match["target"], quotes).text, is_shown=False)


def _direction(word: str | None) -> Direction:
    match (word or "down").lower():
        case "up":
            return "up"
        case "left":
            return "left"
        case "right":
            return "right"
        case _:
            return "down"


def _scroll(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    over = parse_target(match["over"], quotes) if match["over"] else None
    notches = _NOTCHES_A_TIME
    if match["count"]:
        is_small = re.match(r"notch|click|line|step|tick", match["unit"] or "times", re.I) is not None
        notches = max(1, round(number(match["count"]) * (1 if is_small else _NOTCHES_A_TIME)))
    return ScrollBy(direction=_direction(match["direction"]), notches=notches, over=over)


def _scroll_end(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return ScrollBy(direction="up" if re.match(r"top|start|begin|up", match["end"], re.I) else "down", notches=None)


def _scroll_over_end(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    over = parse_target(match["over"] or match["over2"], quotes)
    is_up = re.match(r"top|start|begin", match["end"] or match["end2"], re.I) is not None
    return ScrollBy(direction="up" if is_up else "down", notches=None, over=over)


def _scroll_until(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return ScrollUntil(target=parse_target(match["target"], quotes), direction=_direction(match["direction"]))


def _check_ticked(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    is_on = re.match(r"un|de|not|disabled|off|(?:turned|switched)\s+off", match["state"], re.I) is None
    return Tick(target=parse_target(match["target"], quotes), is_on=is_on)


def _check_value(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return CheckShown(target=parse_target(match["target"], quotes), value=bare(match["value"], quotes))


def _check_shown(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return CheckShown(target=parse_target(match["target"], quotes))


def _check_gone(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return CheckShown(target=parse_target(match["target"], quotes), is_shown=False)


def _report(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    words = re.sub(r"\s+(?:is|says|shows|stands there)$", "", _VALUE_OF.sub("", match["target"].strip()))
    return [Report(target=target) for target in parse_targets(words, quotes)]


_VALUE_OF = re.compile(
    r"^(?:the\s+)?(?:text|value|number|what|content)\s+(?:that\s+|which\s+)?"
    r"(?:stands?\s+|is\s+|shown\s+|written\s+)*(?:next\s+to|beside|(?:to\s+the\s+)?right\s+of|of|in|for)\s+",
    re.I,
)
_VERIFY = r"(?:check|verify|confirm|assert|ensure|make sure|make certain|see|test)"
_SURE = rf"{_VERIFY}(?: that| if| whether| for)?"
_IS = r"(?:is|equals|shows?|says?|reads?|has|contains?|are)"

LOOKING: tuple[Rule, ...] = (
    rule(
        rf"(?:wait|pause|sleep) (?:for )?(?:about )?(?P<count>{NUMBER})"
        r" ?(?P<unit>s|secs?|seconds?|ms|milliseconds?|m|mins?|minutes?)?",
        _wait,
    ),
    rule(r"(?:wait|pause)(?: (?:for )?a (?:moment|bit|while))?", fixed(WaitSeconds(duration_s=2.0))),
    rule(
        r"wait (?:for|until) (?:the )?page (?:to load|is loaded|loads|has loaded|to be loaded|is ready)",
        fixed(WaitSeconds(duration_s=2.0)),
    ),
    rule(rf"wait (?:for|until|till) (?P<target>.+?) {GONE}", _wait_gone),
    rule(rf"wait (?:for|until|till) (?P<target>.+?)(?: (?:to )?{SEEN})?", _wait_for),
    rule(
        r"scroll (?:all the way )?(?:(?:down|up) )?to the (?:very )?(?P<end>top|start|beginning|bottom|end)"
        r"(?: of the (?:page|list|window|document|text))?",
        _scroll_end,
    ),
    rule(
        r"scroll (?:down |up )?(?:to the (?:very )?(?P<end>top|start|beginning|bottom|end) of (?P<over>.+)"
        r"|(?P<over2>.+) to the (?:very )?(?P<end2>top|start|beginning|bottom|end)(?: of (?:the|its) (?:text|list))?)",
        _scroll_over_end,
    ),
    rule(r"scroll all the way (?P<end>down|up)", _scroll_end),
    rule(
        r"scroll(?: the (?:page|list|window))?(?: (?P<direction>down|up|left|right))? (?:until|till|to|so that|for) "
        rf"(?:you (?:can )?(?:see|find) )?(?P<target>.+?)(?: {SEEN})?",
        _scroll_until,
    ),
    rule(
        r"scroll(?: (?:the )?(?:page|list|window))?(?: (?P<direction>down|up|left|right))?"
        rf"(?: (?:by )?(?P<count>{NUMBER}|twice|once)"
        r" ?(?P<unit>times|notch(?:es)?|clicks?|lines?|steps?|ticks?|pages?|screens?)?)?"
        r"(?: (?:in|inside|over|on) (?P<over>.+))?",
        _scroll,
    ),
    rule(
        rf"{_SURE} (?P<target>.+?) (?:is|are|has been|stays?) (?:now )?(?P<state>(?:un|not )?(?:ticked|checked)"
        r"|(?:un|de|not )?selected|enabled|disabled|(?:turned |switched )?(?:on|off))",
        _check_ticked,
    ),
    rule(
        rf"{_SURE} (?:there is no|the page (?:does not|doesn't) (?:show|contain|say|have)) (?P<target>.+)", _check_gone
    ),
    rule(rf"{_SURE} (?P<target>.+?) {GONE}", _check_gone),
    rule(
        rf"{_SURE} (?:there is|the page (?:shows|contains|says|has)|it says|you (?:can )?see) (?P<target>.+)",
        _check_shown,
    ),
    rule(rf"{_SURE} (?P<target>.+?) {SEEN}", _check_shown),
    rule(rf"{_VERIFY} (?:that|if|whether) (?P<target>.+?) (?:{_IS}|is set to|=) (?P<value>.+)", _check_value),
    rule(rf"(?:verify|assert) (?P<target>.+?) {_IS} (?P<value>.+)", _check_value),
    rule(rf"{_VERIFY} that (?P<target>.+)", _check_shown),
    rule(r"(?:verify|assert|make sure|ensure) (?P<target>.+)", _check_shown),
)

REPORTING: tuple[Rule, ...] = (
    rule(
        r"(?:tell me|report|read(?: out)?|answer(?: with)?|what is|what's|what does|return|give me|find out|how much is"
        r"|note|say|look up|get|extract|output|print) (?:what (?:is )?)?(?P<target>.+?)(?: (?:say|show|read))?\??",
        _report,
    ),
)
