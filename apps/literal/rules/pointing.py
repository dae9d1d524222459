"""Ways to say: click, hover, drag, answer a dialog; press keys, open an address, go back; verbs that mean a click."""

import re
from collections.abc import Sequence

from apps.literal.clauses import Quotes
from apps.literal.moves import NotUnderstoodError
from apps.literal.rules.words import DEEDS, MARK, NOUN_DEEDS, NUMBER, URL, Rule, click_path, fixed, number, rule
from apps.literal.steps import AnswerDialog, Click, Drag, OpenAddress, PlainStep, PressKeys
from apps.literal.target_phrase import parse_path, parse_target, parse_targets
from apps.literal.target_words import TAIL
from apps.literal.targets import Relation, Target
from envs.actions import MODIFIERS, normalize_key


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
    """A target and how often to press it: "'+' three times", "Next twice", "twice on Next"."""
    found = _TIMES_AFTER.fullmatch(words) or _TIMES_BEFORE.fullmatch(words)
    if found is None:
        return words, 1
    count = number(found["count"] or found["word"])
    if count != int(count) or not 1 <= count <= _MAX_TIMES:
        raise NotUnderstoodError(found["times"], f"a whole number up to {_MAX_TIMES}")
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
_TIMES = rf"(?P<times>(?P<count>{NUMBER})\s*(?:times|x)|(?P<word>twice|thrice|once))"
_TIMES_AFTER = re.compile(rf"(?P<target>.+?)[\s,]+{_TIMES}", re.I | re.S)
_TIMES_BEFORE = re.compile(rf"{_TIMES}\s+(?:on|at)\s+(?P<target>.+)", re.I | re.S)

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


_WORDS = {"page down": "pagedown", "page up": "pageup", "arrow down": "down", "arrow up": "up", "arrow left": "left",
          "arrow right": "right", "down arrow": "down", "up arrow": "up", "left arrow": "left", "right arrow": "right",
          "space bar": "space", "caps lock": "capslock", "back space": "backspace", "cntrl": "ctrl", "strg": "ctrl",
          "escape": "esc"}  # fmt: skip


def parse_keys(words: str) -> tuple[str, ...] | None:
    """Keys pressed together, by their canonical names; None when the words are no keys.

    A lone character is a key ("press a"); a lone word is one when keyboards have it ("press Save" is none).
    """
    text = words.strip()
    whole = _read_key(text)
    if whole is not None:
        return (whole,)
    parts = [part for part in re.split(r"\s*\+\s*|\s*-\s*(?=\S)|\s+", text) if part]
    if text.endswith("+") and parts:
        parts.append("+")
    keys = [_read_key(part) for part in parts]
    if len(keys) < 2 or any(key is None for key in keys):
        return None
    known = [key for key in keys if key is not None]
    if not all(key in MODIFIERS for key in known[:-1]):
        return None
    last = known[-1]
    return (*known[:-1], last.lower() if len(last) == 1 else last)


def _read_key(word: str) -> str | None:
    lowered = word.lower()
    name = _WORDS.get(lowered, word if len(word) == 1 else lowered)
    if len(name) > 1 and name in _NOT_KEYS:
        return None
    try:
        return normalize_key(name)
    except ValueError:
        return None


_NOT_KEYS = frozenset(
    "accept add apps back clear command convert decimal divide execute final help menu multiply option play print "
    "select separator sleep stop subtract yen".split()
)
"""Names that pyautogui knows as keys and people mean as buttons."""


def _open(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    url = quotes.unmask(match["url"], quoted=False).strip()
    return OpenAddress(url=url.rstrip(".,")) if re.fullmatch(URL, url, re.I) else None


def _press(match: re.Match[str], quotes: Quotes) -> PlainStep | Sequence[PlainStep]:
    """Keys when keyboards have them, else a button; one quoted character is a button."""
    words, times = TAIL.sub("", match["keys"].strip()), match["times"] or "1"
    quoted = quotes.only(words)
    keys = None if quoted is not None and len(quoted) == 1 else parse_keys(quotes.unmask(words, quoted=False))
    if keys is not None:
        return PressKeys(keys=keys, times=max(1, int(number(times))))
    is_led = re.match(r"\w+\s+the\s", match[0]) is not None
    targets = parse_targets(f"the {words}" if is_led else words, quotes)
    return [Click(target=target) for target in targets] * max(1, int(number(times)))


def _follow(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
    path = parse_path(match["target"], quotes)
    if path:
        return click_path(path)
    return [Click(target=target) for target in parse_targets(match["target"], quotes)]


def _keys(*keys: str) -> PressKeys:
    return PressKeys(keys=keys)


_IT = r"(?: it| that| this)?"
_COUNT = r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)"

GOING: tuple[Rule, ...] = (
    rule(
        r"(?:(?:go|navigate|move) )?back(?:wards?)?(?: (?:a|one) page| to the previous page)?",
        fixed(_keys("alt", "left")),
    ),
    rule(r"(?:go|navigate|move) forwards?(?: (?:a|one) page)?", fixed(_keys("alt", "right"))),
    rule(r"(?:reload|refresh)(?: (?:the )?(?:page|tab|browser|site))?", fixed(_keys("f5"))),
    rule(r"open (?:a )?new tab", fixed(_keys("ctrl", "t"))),
    rule(r"close (?:the |this )?(?:current )?tab", fixed(_keys("ctrl", "w"))),
    rule(r"(?:switch|go) to the next tab", fixed(_keys("ctrl", "tab"))),
    rule(r"select (?:all|everything)(?: (?:the )?text)?", fixed(_keys("ctrl", "a"))),
    rule(rf"copy{_IT}(?: the select(?:ion|ed text))?", fixed(_keys("ctrl", "c"))),
    rule(rf"cut{_IT}(?: the selection)?", fixed(_keys("ctrl", "x"))),
    rule(rf"paste{_IT}(?: there| here)?", fixed(_keys("ctrl", "v"))),
    rule(rf"undo{_IT}", fixed(_keys("ctrl", "z"))),
    rule(
        r"(?:open|go to|visit|navigate to|browse to|load) (?:the )?(?:(?:url|address|page|site|website) )?"
        rf"(?P<url>{MARK}|{URL})",
        _open,
    ),
    rule(r"(?:press|hit) (?:the )?(?P<keys>.+?)(?: keys?)? (?P<times>twice)", _press),
    rule(
        r"(?:press|hit|push|strike) (?:the )?(?:(?:keys?|shortcut|combination) )?(?P<keys>.+?)(?: keys?)?"
        rf"(?:[\s,]+(?:(?P<times>{_COUNT})[\s]*(?:x|times)|once))?",
        _press,
    ),
)

_NO_NOUN = r"(?:it|them|this|that|these|those|everything|all|your\s+(?:work|changes|input))"
_DEED_NOUN = re.compile(
    r"(?!.*\b(?:first|second|third|fourth|fifth|last|other|every|each|any|both|all|and|or|of|in|on|at|to|from|with|for|by"
    r"|named|called|if|when|until|that|which|\d+)\b)(?:(?:the|your|my|this|a|an)\s+)?(?P<noun>[a-z-]+(?:\s[a-z-]+){0,2})"
)
"""What may follow the verb of a button; nothing that counts or describes."""


def _deed(match: re.Match[str], quotes: Quotes) -> PlainStep | None:
    """What is to be done, for which a button stands there: "save the changes", "place the order"."""
    verb, words = " ".join(match["verb"].lower().split()), (match["noun"] or "").strip()
    if not words or re.fullmatch(_NO_NOUN, words, re.I):
        return Click(target=Target(text=verb, deed=verb))
    noun = _DEED_NOUN.fullmatch(words)
    return Click(target=Target(text=f"{verb} {noun['noun']}", deed=verb)) if noun is not None else None


def _add_to(match: re.Match[str], quotes: Quotes) -> PlainStep:
    """Put a thing into a cart: the button beside it that says so."""
    beside = Relation(kind="near", anchor=parse_target(match["what"], quotes).text)
    return Click(target=Target(text=f"Add to {match['where']}", role="button", relation=beside))


CLICKING: tuple[Rule, ...] = (
    rule(
        rf"(?!.*{MARK}.*by )(?:[a-z'-]+ ){{2,8}}by (?:clicking|pressing|tapping|hitting)(?: on)? (?P<target>.+)",
        _click_by,
    ),
    rule(
        r"add (?P<what>.+) to (?:the |my |your )?(?:shopping )?"
        r"(?P<where>cart|basket|bag|wish ?list|favou?rites|bookmarks|playlist)",
        _add_to,
    ),
    rule(
        r"(?:go to|open|expand|focus(?: on)?|launch|start|close|visit|use|toggle|activate|navigate to|follow|collapse"
        r"|show|view) (?P<target>.+)",
        _follow,
    ),
    rule(r"submit(?: the form| it)?", fixed(PressKeys(keys=("enter",), is_submit=True))),
    rule(
        r"(?:confirm|accept)(?: (?:it|this|that|the (?:deletion|change|choice|selection)))?",
        fixed(AnswerDialog(accept=True)),
    ),
    rule(rf"(?P<verb>{DEEDS}|{NOUN_DEEDS})(?: (?P<noun>.+))?", _deed),
)
