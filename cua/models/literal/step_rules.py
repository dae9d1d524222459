"""One rule for each way to say a step: a pattern over a clause, and what to make of it."""

import re
from collections.abc import Callable

from cua.models.literal.clauses import Quotes
from cua.models.literal.keys import parse_keys
from cua.models.literal.steps import (
    AnswerDialog,
    CheckShown,
    ClearField,
    Click,
    Direction,
    Drag,
    OpenAddress,
    PlainStep,
    PressKeys,
    Report,
    ScrollBy,
    ScrollUntil,
    SelectOption,
    SetValue,
    Target,
    Tick,
    TypeText,
    WaitFor,
    WaitSeconds,
)
from cua.models.literal.target_phrase import parse_target

Make = Callable[[re.Match[str], Quotes], "PlainStep | None"]

_NUMBER_WORDS = {"a": 1.0, "an": 1.0, "one": 1.0, "once": 1.0, "two": 2.0, "twice": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0, "eight": 8.0, "nine": 9.0, "ten": 10.0, "half a": 0.5}
_NUMBER = r"\d+(?:\.\d+)?|half a|an?|one|two|three|four|five|six|seven|eight|nine|ten"
_URL = r"(?:[a-z][a-z0-9+.-]*://\S+|about:\S+|(?:localhost|\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?(?:/\S*)?|(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:/\S*)?)"
_VALUE_OF = re.compile(
    r"^(?:the\s+)?(?:text|value|number|what|content)\s+(?:that\s+|which\s+)?(?:stands?\s+|is\s+|shown\s+|written\s+)*"
    r"(?:next\s+to|beside|(?:to\s+the\s+)?right\s+of|of|in|for)\s+",
    re.I,
)
_SEEN = r"(?:is|are|be|becomes?|gets?|has)?\s*(?:seen|visible|shown|displayed|there|present|in view|on (?:the )?(?:screen|page)|found|appears?|appeared|comes into view|shows up|exists?|showing|appear|show up|listed)"
_GONE = r"(?:is gone|disappears?|vanish(?:es)?|goes away|is no longer (?:shown|visible|displayed|there)|(?:is not|isn't|is hidden)\s*(?:shown|visible|displayed|there|present|listed|on the (?:page|screen))?|does not (?:appear|exist)|doesn't (?:appear|exist)|to disappear|to vanish|to go away)"


def bare(masked: str, quotes: Quotes) -> str:
    """The text that a phrase means: the quoted part alone when there is one, else the words."""
    marks = quotes.marks(masked)
    if marks and not re.sub("|".join(map(re.escape, marks)), "", masked).strip(" ,.:"):
        return quotes.unmask(marks[0], quoted=False)
    typed = re.fullmatch(r"(?:the\s+)?(?:text|word|words|value|number|string|name|phrase|characters?|letters?|date|amount|url|address|message)\s+(\S.*)", masked.strip(), re.I)
    if typed is not None and quotes.only(typed[1]) is not None:
        return quotes.only(typed[1]) or ""
    return quotes.unmask(masked.strip(), quoted=True)


def _number(text: str) -> float:
    return _NUMBER_WORDS.get(text.lower(), 0.0) or float(text)


def _click(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    verb = match[1].lower()
    clicks = 2 if verb.startswith("double") else 3 if verb.startswith("triple") else 1
    button = "right" if re.match(r"right|context", verb) else "middle" if verb.startswith("middle") else "left"
    return Click(target=parse_target(match[2], quotes), clicks=clicks, button=button)  # type: ignore[arg-type]


def _hover(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return Click(target=parse_target(match[1], quotes), clicks=0)


def _type_into(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return _type(bare(match["text"], quotes), parse_target(match["field"], quotes))


def _type(text: str, field: Target | None, *, append: bool = False) -> PlainStep:
    return TypeText(text=text.replace("\\n", "\n").replace("\\t", "\t"), field=field, append=append)


def _type_here(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return _type(bare(match["text"], quotes), None)


def _append(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return _type(bare(match["text"], quotes), parse_target(match["field"], quotes), append=True)


def _set(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    value, field = bare(match["text"], quotes), parse_target(match["field"], quotes)
    if re.fullmatch(r"on|off|checked|unchecked|ticked|unticked|enabled|disabled|true|false", value, re.I):
        return Tick(target=field, is_on=re.match(r"on|checked|ticked|enabled|true", value, re.I) is not None)
    return SetValue(field=field, value=value)


def _search(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return TypeText(text=bare(match["text"], quotes), field=Target(text="Search", role="field"), enter=True)


def _clear(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return ClearField(field=parse_target(match[1], quotes))


def _select(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    field = parse_target(match["field"], quotes)
    option = bare(re.sub(r"^(?:the\s+)?(?:(?:option|value|item|entry)\s+)?|\s+(?:option|item|entry)$", "", match["option"], flags=re.I), quotes)
    return SelectOption(option=Target(text=option), field=field)


def _select_plain(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    target = parse_target(match[1], quotes)
    if target.role in ("checkbox", "radio"):
        return Tick(target=target)
    return SelectOption(option=target)


def _tick(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    is_on = re.match(r"un|de|disable|(?:turn|switch|toggle) off", match[1], re.I) is None
    return Tick(target=parse_target(match[2], quotes), is_on=is_on)


def _made_ticked(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    is_on = re.match(r"un|not|disabled|off", match[2], re.I) is None
    return Tick(target=parse_target(match[1], quotes), is_on=is_on)


def _press(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    words = match["keys"].strip()
    said = match["times"] or match["times2"]
    count = int(_number(said)) if said else 1
    quoted = quotes.only(words)
    if quoted is None or len(quoted) > 1:
        keys = parse_keys(quotes.unmask(words, quoted=False))
        if keys is not None:
            return PressKeys(keys=keys, times=count)
    return Click(target=parse_target(words, quotes), clicks=1) if count == 1 else None


def _scroll(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    direction: Direction = (match["direction"] or "down").lower()  # type: ignore[assignment]
    over = parse_target(match["over"], quotes) if match["over"] else None
    notches = 5
    if match["count"]:
        unit = (match["unit"] or "times").lower()
        notches = round(_number(match["count"]) * (1 if re.match(r"notch|click|line|step|tick", unit) else 5))
    return ScrollBy(direction=direction, notches=max(notches, 1), over=over)


def _scroll_end(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    is_up = re.match(r"top|start|beginning", match[1], re.I) is not None
    return ScrollBy(direction="up" if is_up else "down", notches=None)


def _scroll_until(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    direction: Direction = (match["direction"] or "down").lower()  # type: ignore[assignment]
    return ScrollUntil(target=parse_target(match["target"], quotes), direction=direction)


def _drag(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return Drag(source=parse_target(match[1], quotes), onto=parse_target(match[2], quotes))


def _drag_by(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    distance = round(float(match["px"]))
    step_x, step_y = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1)}[match["direction"].lower()]
    return Drag(source=parse_target(match[1], quotes), by_px=(step_x * distance, step_y * distance))


def _wait_seconds(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    unit = (match[2] or "s").lower()
    scale = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return WaitSeconds(duration_s=min(_number(match[1]) * scale, 60.0))


def _wait_page(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return WaitSeconds(duration_s=2.0)


def _wait_for(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return WaitFor(text=parse_target(match[1], quotes).text)


def _wait_gone(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return WaitFor(text=parse_target(match[1], quotes).text, is_shown=False)


def _open(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    url = quotes.unmask(match[1], quoted=False).strip()
    if re.fullmatch(_URL, url, re.I) is None:
        return None
    return OpenAddress(url=url.rstrip(".,"))


def _dialog(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return AnswerDialog(accept=re.match(r"accept|confirm|agree|approve|ok", match[1], re.I) is not None)


def _report(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    words = _VALUE_OF.sub("", match[1].strip())
    return Report(target=parse_target(re.sub(r"\s+(?:is|says|shows|stands there)$", "", words), quotes))


def _check_value(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return CheckShown(target=parse_target(match[1], quotes), value=bare(match[2], quotes))


def _check_shown(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return CheckShown(target=parse_target(match[1], quotes))


def _check_gone(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    return CheckShown(target=parse_target(match[1], quotes), is_shown=False)


def _fixed(*steps: PlainStep) -> Make:
    return lambda match, quotes: steps[0]


_INTO = r"(?:\s+(?:into|in|to|as|for|at|under|on)\s+)"
_TYPE = r"(?:type(?:\s+in)?|enter|write|input|put|insert|key in|fill in|paste)"
_PICK = r"(?:select|choose|pick)"
_CHECK = r"(?:check|verify|confirm|assert|ensure|make sure|see|test|make certain)\s+(?:that|if|whether|for)?\s*"
_PAGE = r"(?:\s+(?:the\s+)?(?:page|tab|browser|site|view))?"

RULES: tuple[tuple[re.Pattern[str], Make], ...] = tuple(
    (re.compile(pattern, re.I | re.S), make)
    for pattern, make in (
        (r"(?:go|navigate|move)\s+back(?:wards?)?(?:\s+(?:a|one)\s+page|\s+to the previous page)?|back", _fixed(PressKeys(keys=("alt", "left")))),
        (r"(?:go|navigate|move)\s+forwards?(?:\s+(?:a|one)\s+page)?", _fixed(PressKeys(keys=("alt", "right")))),
        (rf"(?:reload|refresh){_PAGE}", _fixed(PressKeys(keys=("f5",)))),
        (r"open\s+(?:a\s+)?new\s+tab", _fixed(PressKeys(keys=("ctrl", "t")))),
        (r"close\s+(?:the\s+|this\s+)?(?:current\s+)?tab", _fixed(PressKeys(keys=("ctrl", "w")))),
        (r"(?:switch|go)\s+to\s+the\s+next\s+tab", _fixed(PressKeys(keys=("ctrl", "tab")))),
        (r"select\s+(?:all|everything)(?:\s+(?:the\s+)?text)?", _fixed(PressKeys(keys=("ctrl", "a")))),
        (r"copy(?:\s+(?:it|that|the selection|the selected text))?", _fixed(PressKeys(keys=("ctrl", "c")))),
        (r"cut(?:\s+(?:it|that|the selection))?", _fixed(PressKeys(keys=("ctrl", "x")))),
        (r"paste(?:\s+(?:it|that))?(?:\s+(?:there|here))?", _fixed(PressKeys(keys=("ctrl", "v")))),
        (r"undo(?:\s+(?:it|that))?", _fixed(PressKeys(keys=("ctrl", "z")))),
        (rf"(?:open|go\s+to|visit|navigate\s+to|browse\s+to|load|surf\s+to)\s+(?:the\s+)?(?:url|address|page|site|website|web page)?\s*(\ue000\d+\ue001|{_URL})", _open),
        (r"(?:(left|double|triple|right|middle)[\s-]*)?click(?:ing)?(?=\s*$)", lambda match, quotes: None),
        (r"(left[\s-]*click|double[\s-]*click|triple[\s-]*click|right[\s-]*click|context[\s-]*click|middle[\s-]*click|click|tap|push|clicking)\s+(?:on\s+|at\s+)?(.+)", _click),
        (r"(?:hover(?:\s+(?:over|on|above))?|(?:move|point|place)\s+(?:the\s+)?(?:mouse|pointer|cursor)\s+(?:to|over|on|onto|at)|mouse over)\s+(.+)", _hover),
        (r"drag\s+(.+?)\s+(?:to the\s+)?(?P<direction>right|left|up|down)(?:wards?)?\s+by\s+(?P<px>\d+)\s*(?:px|pixels?)", _drag_by),
        (r"drag\s+(.+?)\s+by\s+(?P<px>\d+)\s*(?:px|pixels?)\s+(?:to the\s+)?(?P<direction>right|left|up|down)", _drag_by),
        (r"drag\s+(.+?)\s+(?:and\s+drop\s+(?:it\s+)?)?(?:to|onto|on|into|over|in)\s+(.+)", _drag),
        (r"(?:wait|pause|sleep)\s+(?:for\s+)?(?:about\s+)?(" + _NUMBER + r")\s*(s|secs?|seconds?|ms|milliseconds?|m|mins?|minutes?)?", _wait_seconds),
        (r"(?:wait|pause)(?:\s+(?:a|for a)\s+(?:moment|bit|while|second))?|wait\s+(?:for|until)\s+(?:the\s+)?page\s+(?:to load|is loaded|loads|has loaded|to be loaded)", _wait_page),
        (rf"wait\s+(?:for|until|till)\s+(.+?)\s+{_GONE}", _wait_gone),
        (rf"wait\s+(?:for|until|till)\s+(.+?)(?:\s+(?:to\s+)?{_SEEN})?", _wait_for),
        (r"scroll\s+(?:all the way\s+)?(?:down\s+|up\s+)?to\s+the\s+(?:very\s+)?(top|start|beginning|bottom|end)(?:\s+of\s+the\s+(?:page|list|window|document))?", _scroll_end),
        (r"scroll\s+all the way\s+(?P<d>down|up)", lambda match, quotes: ScrollBy(direction=match["d"].lower(), notches=None)),
        (rf"scroll\s*(?:the\s+(?:page|list|window)\s+)?(?P<direction>down|up|left|right)?\s*(?:until|till|to|so that|for)\s+(?:you\s+(?:can\s+)?(?:see|find)\s+)?(?P<target>.+?)(?:\s+{_SEEN})?", _scroll_until),
        (rf"scroll(?:\s+(?:the\s+)?(?:page|list|window))?(?:\s+(?P<direction>down|up|left|right))?(?:\s+(?:by\s+)?(?P<count>{_NUMBER}|twice|once)\s*(?P<unit>times|notch(?:es)?|clicks?|lines?|steps?|ticks?|pages?|screens?)?)?(?:\s+(?:in|inside|over|on)\s+(?P<over>.+))?", _scroll),
        (r"(accept|confirm|dismiss|cancel|close|reject|decline|approve|agree to|ok)\s+(?:the\s+|this\s+|that\s+|any\s+)?(?:\S+\s+)?(?:dialog(?:ue)?|alert|pop-?up|prompt|confirmation|message box|message|question|dialog box|confirm dialog)(?: box| dialog| window)?", _dialog),
        (rf"{_CHECK}(.+?)\s+(?:is|are|has been|stays?)\s+(?:now\s+)?((?:un|not\s+)?(?:ticked|checked)|(?:un|de|not\s+)?selected|enabled|disabled|(?:turned|switched)\s+(?:on|off)|on|off)", _made_ticked),
        (rf"{_CHECK}(.+?)\s+{_GONE}", _check_gone),
        (rf"(?:check|verify|confirm|assert|ensure|make sure|see)\s+(?:that|if|whether)?\s*(?:there\s+is\s+no|the\s+page\s+(?:does\s+not|doesn't)\s+(?:show|contain|say))\s+(.+)", _check_gone),
        (rf"{_CHECK}(?:there\s+is\s+|the\s+page\s+(?:shows|contains|says|has)\s+|it\s+says\s+|you\s+(?:can\s+)?see\s+)(.+)", _check_shown),
        (rf"{_CHECK}(.+?)\s+{_SEEN}", _check_shown),
        (r"(?:check|verify|confirm|assert|ensure|make sure|see|test)\s+(?:that|if|whether)\s+(.+?)\s+(?:is|equals|shows?|says?|reads?|has|contains?|=|is set to|are)\s+(.+)", _check_value),
        (r"(?:verify|assert)\s+(.+?)\s+(?:is|equals|shows?|says?|reads?)\s+(.+)", _check_value),
        (r"(?:check|verify|confirm|assert|ensure|make sure)\s+that\s+(.+)|(?:verify|assert)\s+(.+)", lambda match, quotes: CheckShown(target=parse_target(match[1] or match[2], quotes))),
        (r"(?:append|add)\s+(?P<text>.+)\s+(?:to\s+the\s+end\s+of|to)\s+(?P<field>(?:the\s+)?.+)", _append),
        (r"(?:search|look)\s+for\s+(?P<text>.+)", _search),
        (rf"(?:fill(?:\s+(?:in|out))?|complete|populate)\s+(?P<field>.+?)\s+(?:with|by typing|as)\s+(?P<text>.+)", _set),
        (rf"(?:replace|overwrite)\s+(?:the\s+(?:text|value|content)s?\s+(?:of|in)\s+)?(?P<field>.+?)\s+(?:with|by)\s+(?P<text>.+)", _set),
        (r"(?:set|change|switch|update|edit)\s+(?:the\s+)?(?:value\s+of\s+|text\s+of\s+|date\s+of\s+)?(?P<field>.+?)\s+(?:to|=|as)\s+(?P<text>.+)", _set),
        (rf"{_TYPE}\s+(?P<text>\ue000\d+\ue001|(?:the\s+)?(?:text|word|value|number|date|name)\s+\ue000\d+\ue001){_INTO}(?P<field>.+)", _type_into),
        (r"(?:type|enter|write|put|insert|input|fill in)\s+(?P<text>.+)\s+into\s+(?P<field>.+)", _type_into),
        (r"(?:type|enter|write|put|insert|input)\s+(?P<text>.+)\s+(?:in|as|for|under|on)\s+(?P<field>the\s.+|\ue000\d+\ue001.*)", _type_into),
        (r"(?:type|enter|write|put|insert|input|fill in)\s+(?P<text>.+)\s+(?:in|as|for)\s+(?P<field>.+)", _type_into),
        (r"(?:fill(?:\s+in)?|enter)\s+(?P<field>[^:]+):\s*(?P<text>.+)", _set),
        (r"(?:press|hit|push|strike)\s+(?:the\s+)?(?:keys?\s+|shortcut\s+|combination\s+)?(?P<keys>.+?)(?:\s+(?:key|keys))?(?:[\s,]+(?P<times>\d+|one|two|three|four|five|six|seven|eight|nine|ten)\s*(?:x|times)|\s+(?P<times2>once|twice))?", _press),
        (r"(?:type|write|enter|input|key in)\s*(?::\s*)?(?P<text>.+)", _type_here),
        (r"(?:clear|empty|delete\s+the\s+(?:text|content|contents|value)\s+(?:of|in|from)|erase)\s+(?:the\s+(?:text|content|contents|value)\s+(?:of|in|from)\s+)?(.+)", _clear),
        (rf"{_PICK}\s+(?P<option>\ue000\d+\ue001)(?:\s+(?:option|item|entry|value))?\s+(?:in|from|for|as|under|on|within|at|out of)\s+(?P<field>.+)", _select),
        (rf"{_PICK}\s+(?P<option>.+)\s+(?:from|out of)\s+(?P<field>.+)", _select),
        (rf"{_PICK}\s+(?P<option>.+)\s+(?:in|for|as|under)\s+(?P<field>.+)", _select),
        (rf"{_PICK}\s+(.+)", _select_plain),
        (r"(un-?tick|un-?check|de-?select|disable|turn off|switch off|toggle off|tick|check|enable|turn on|switch on)\s+(.+)", _tick),
        (r"(?:tell\s+me|report|read(?:\s+out)?|answer(?:\s+with)?|what\s+is|what's|what\s+does|return|give\s+me|find\s+out|how\s+much\s+is|note|say|look\s+up|get|extract|output|print)\s+(?:what\s+(?:is\s+)?)?(.+?)(?:\s+(?:say|show|read))?\??", _report),
        (r"(?:go\s+to|open|expand|focus(?:\s+on)?|launch|start|close|visit|use|toggle|activate|navigate\s+to|follow|collapse|show|view)\s+(.+)", lambda match, quotes: Click(target=parse_target(match[1], quotes))),
        (r"submit(?:\s+(?:the\s+form|it))?", _fixed(PressKeys(keys=("enter",)))),
    )
)  # fmt: skip
