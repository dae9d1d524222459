"""Rules for waiting, scrolling, checking and reporting."""

import re
from collections.abc import Sequence

from apps.literal.rules.clause_parts import GONE, SEEN, bare, number, target
from apps.literal.rules.notation import ParsedClause, PhraseRule, rule
from apps.literal.steps import (
    CheckShown,
    PlainStep,
    ReportValue,
    ScrollBy,
    ScrollUntil,
    SetToggle,
    WaitFor,
    WaitSeconds,
)
from apps.literal.target_phrase import parse_targets
from apps.literal.targets import Direction

_MAX_WAIT_S = 60.0
_NOTCHES_A_TIME = 5


def _wait(clause: ParsedClause) -> PlainStep:
    unit = (clause["unit"] or "s").lower()
    scale = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return WaitSeconds(duration_s=min(number(clause["count"]) * scale, _MAX_WAIT_S))


def _direction(clause: ParsedClause) -> Direction:
    return clause["direction"].lower() or "down"  # type: ignore[return-value]


def _scroll(clause: ParsedClause) -> PlainStep:
    notches = _NOTCHES_A_TIME
    if clause["count"]:
        is_small = re.match(r"notch|click|line|step|tick", clause["unit"] or "times", re.I) is not None
        notches = max(1, round(number(clause["count"]) * (1 if is_small else _NOTCHES_A_TIME)))
    over = target(clause, "over") if clause["over"] else None
    return ScrollBy(direction=_direction(clause), notches=notches, over=over)


def _scroll_end(clause: ParsedClause) -> PlainStep:
    is_up = re.match(r"top|start|begin|up", clause["end"], re.I) is not None
    over = target(clause, "over") if "over" in clause.parts else None
    return ScrollBy(direction="up" if is_up else "down", notches=None, over=over)


def _check_ticked(clause: ParsedClause) -> PlainStep:
    is_on = re.match(r"un|de|not|disabled|off|(?:turned|switched)\s+off", clause["state"], re.I) is None
    return SetToggle(target=target(clause), is_on=is_on)


def _check_value(clause: ParsedClause) -> PlainStep:
    return CheckShown(target=target(clause), value=bare(clause["value"], clause.quotes))


def _check_shown(clause: ParsedClause) -> PlainStep:
    return CheckShown(target=target(clause))


def _check_gone(clause: ParsedClause) -> PlainStep:
    return CheckShown(target=target(clause), is_shown=False)


def _report(clause: ParsedClause) -> Sequence[PlainStep]:
    words = re.sub(r"\s+(?:is|says|shows|stands there)$", "", _VALUE_OF.sub("", clause["target"]))
    return [ReportValue(target=each) for each in parse_targets(words, clause.quotes)]


_VALUE_OF = re.compile(
    r"^(?:the\s+)?(?:text|value|number|what|content)\s+(?:that\s+|which\s+)?"
    r"(?:stands?\s+|is\s+|shown\s+|written\s+)*(?:next\s+to|beside|(?:to\s+the\s+)?right\s+of|of|in|for)\s+",
    re.I,
)
_VERIFY = "(check|verify|confirm|assert|ensure|make sure|make certain|see|test)"
_SURE = f"{_VERIFY} [that|if|whether|for]"
_IS = "(is|equals|shows?|says?|reads?|has|contains?|are)"
_UNITS = "` ?(?P<unit>s|secs?|seconds?|ms|milliseconds?|m|mins?|minutes?)?`"
_NOTCHES = "` ?(?P<unit>times|notch(?:es)?|clicks?|lines?|steps?|ticks?|pages?|screens?)?`"
_WAY = "[<direction: down|up|left|right>]"
_END = "to the [very] <end: top|start|beginning|bottom|end>"

LOOKING: tuple[PhraseRule, ...] = (
    rule(f"(wait|pause|sleep) [for] [about] <count: NUMBER>{_UNITS}", _wait),
    rule("(wait|pause) [[for] a (moment|bit|while)]", WaitSeconds(duration_s=2.0)),
    rule(
        "wait (for|until) [the] page (to load|is loaded|loads|has loaded|to be loaded|is ready)",
        WaitSeconds(duration_s=2.0),
    ),
    rule(f"wait (for|until|till) <target?> {GONE}", lambda clause: WaitFor(text=target(clause).text, is_shown=False)),
    rule(f"wait (for|until|till) <target?> [[to] {SEEN}]", lambda clause: WaitFor(text=target(clause).text)),
    rule(f"scroll [all the way] [down|up] {_END} [of the (page|list|window|document|text)]", _scroll_end),
    rule(f"scroll [down|up] {_END} of <over>", _scroll_end),
    rule(f"scroll [down|up] <over> {_END} [of (the|its) (text|list)]", _scroll_end),
    rule("scroll all the way <end: down|up>", _scroll_end),
    rule(
        f"scroll [the (page|list|window)] {_WAY} (until|till|to|so that|for) [you [can] (see|find)] <target?> [{SEEN}]",
        lambda clause: ScrollUntil(target=target(clause), direction=_direction(clause)),
    ),
    rule(
        f"scroll [[the] (page|list|window)] {_WAY} [[by] <count: NUMBER|twice|once>{_NOTCHES}]"
        " [(in|inside|over|on) <over>]",
        _scroll,
    ),
    rule(
        f"{_SURE} <target?> (is|are|has been|stays?) [now] <state: ticked|checked|unticked|unchecked"
        "|not (ticked|checked)|selected|unselected|deselected|not selected|enabled|disabled"
        "|[turned|switched] (on|off)>",
        _check_ticked,
    ),
    rule(f"{_SURE} (there is no|the page (does not|doesn't) (show|contain|say|have)) <target>", _check_gone),
    rule(f"{_SURE} <target?> {GONE}", _check_gone),
    rule(f"{_SURE} (there is|the page (shows|contains|says|has)|it says|you [can] see) <target>", _check_shown),
    rule(f"{_SURE} <target?> {SEEN}", _check_shown),
    rule(f"{_VERIFY} (that|if|whether) <target?> ({_IS}|is set to|=) <value>", _check_value),
    rule(f"(verify|assert) <target?> {_IS} <value>", _check_value),
    rule(f"{_VERIFY} that <target>", _check_shown),
    rule("(verify|assert|make sure|ensure) <target>", _check_shown),
)

REPORTING: tuple[PhraseRule, ...] = (
    rule(
        "(tell me|report|read [out]|answer [with]|what is|what's|what does|return|give me|find out|how much is|note|say"
        "|look up|get|extract|output|print) [what [is]] <target?> [say|show|read]`\\??`",
        _report,
    ),
)
