"""Rules for waiting, scrolling, checking and reporting."""

import re
from collections.abc import Sequence

from apps.literal.rules.notation import Rule, Said, rule
from apps.literal.rules.words import GONE, SEEN, bare, number, target
from apps.literal.steps import CheckShown, PlainStep, Report, ScrollBy, ScrollUntil, Tick, WaitFor, WaitSeconds
from apps.literal.target_phrase import parse_targets
from apps.literal.targets import Direction

_MAX_WAIT_S = 60.0
_NOTCHES_A_TIME = 5


def _wait(said: Said) -> PlainStep:
    unit = (said["unit"] or "s").lower()
    scale = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return WaitSeconds(duration_s=min(number(said["count"]) * scale, _MAX_WAIT_S))


def _direction(said: Said) -> Direction:
    return said["direction"].lower() or "down"  # type: ignore[return-value]


def _scroll(said: Said) -> PlainStep:
    notches = _NOTCHES_A_TIME
    if said["count"]:
        is_small = re.match(r"notch|click|line|step|tick", said["unit"] or "times", re.I) is not None
        notches = max(1, round(number(said["count"]) * (1 if is_small else _NOTCHES_A_TIME)))
    over = target(said, "over") if said["over"] else None
    return ScrollBy(direction=_direction(said), notches=notches, over=over)


def _scroll_end(said: Said) -> PlainStep:
    is_up = re.match(r"top|start|begin|up", said["end"], re.I) is not None
    over = target(said, "over") if "over" in said.parts else None
    return ScrollBy(direction="up" if is_up else "down", notches=None, over=over)


def _check_ticked(said: Said) -> PlainStep:
    is_on = re.match(r"un|de|not|disabled|off|(?:turned|switched)\s+off", said["state"], re.I) is None
    return Tick(target=target(said), is_on=is_on)


def _check_value(said: Said) -> PlainStep:
    return CheckShown(target=target(said), value=bare(said["value"], said.quotes))


def _check_shown(said: Said) -> PlainStep:
    return CheckShown(target=target(said))


def _check_gone(said: Said) -> PlainStep:
    return CheckShown(target=target(said), is_shown=False)


def _report(said: Said) -> Sequence[PlainStep]:
    words = re.sub(r"\s+(?:is|says|shows|stands there)$", "", _VALUE_OF.sub("", said["target"]))
    return [Report(target=each) for each in parse_targets(words, said.quotes)]


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

LOOKING: tuple[Rule, ...] = (
    rule(f"(wait|pause|sleep) [for] [about] <count: NUMBER>{_UNITS}", _wait),
    rule("(wait|pause) [[for] a (moment|bit|while)]", WaitSeconds(duration_s=2.0)),
    rule(
        "wait (for|until) [the] page (to load|is loaded|loads|has loaded|to be loaded|is ready)",
        WaitSeconds(duration_s=2.0),
    ),
    rule(f"wait (for|until|till) <target?> {GONE}", lambda said: WaitFor(text=target(said).text, is_shown=False)),
    rule(f"wait (for|until|till) <target?> [[to] {SEEN}]", lambda said: WaitFor(text=target(said).text)),
    rule(f"scroll [all the way] [down|up] {_END} [of the (page|list|window|document|text)]", _scroll_end),
    rule(f"scroll [down|up] {_END} of <over>", _scroll_end),
    rule(f"scroll [down|up] <over> {_END} [of (the|its) (text|list)]", _scroll_end),
    rule("scroll all the way <end: down|up>", _scroll_end),
    rule(
        f"scroll [the (page|list|window)] {_WAY} (until|till|to|so that|for) [you [can] (see|find)] <target?> [{SEEN}]",
        lambda said: ScrollUntil(target=target(said), direction=_direction(said)),
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
    rule(
        f"{_SURE} (there is|the page (shows|contains|says|has)|it says|you [can] see) <target>",
        _check_shown,
    ),
    rule(f"{_SURE} <target?> {SEEN}", _check_shown),
    rule(f"{_VERIFY} (that|if|whether) <target?> ({_IS}|is set to|=) <value>", _check_value),
    rule(f"(verify|assert) <target?> {_IS} <value>", _check_value),
    rule(f"{_VERIFY} that <target>", _check_shown),
    rule("(verify|assert|make sure|ensure) <target>", _check_shown),
)

REPORTING: tuple[Rule, ...] = (
    rule(
        "(tell me|report|read [out]|answer [with]|what is|what's|what does|return|give me|find out|how much is|note|say"
        "|look up|get|extract|output|print) [what [is]] <target?> [say|show|read]`\\??`",
        _report,
    ),
)
