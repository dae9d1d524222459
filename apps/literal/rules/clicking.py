"""Rules for clicking, hovering, dragging, dialogs, keys, addresses and going back, and for verbs that imply a click."""

import re
from collections.abc import Sequence

from apps.literal.rules.clause_parts import (
    AMBIGUOUS_BUTTON_VERBS,
    BUTTON_VERBS,
    BY_CLICKING,
    click_all,
    click_path,
    number,
    target,
)
from apps.literal.rules.notation import KINDS, ParsedClause, PhraseRule, compile_phrase, rule
from apps.literal.step_outcome import NotUnderstoodError
from apps.literal.steps import AnswerDialog, ClickTarget, DragTarget, OpenAddress, PlainStep, PressKeys
from apps.literal.target_phrase import TAIL, parse_path, parse_targets
from apps.literal.targets import AnchorRelation, ElementTarget
from envs.actions import MODIFIERS, normalize_key

_MAX_TIMES = 20
_TIMES = rf"(?P<times>(?P<count>{KINDS['NUMBER']}) ?(?:times|x)|(?P<word>twice|thrice|once))"
_TIMES_AFTER = re.compile(rf"(?P<target>.+?)[ ,]+{_TIMES}", re.I | re.S)
_TIMES_BEFORE = re.compile(rf"{_TIMES} (?:on|at) (?P<target>.+)", re.I | re.S)


def _click(clause: ParsedClause) -> Sequence[PlainStep]:
    verb = clause["verb"].lower()
    path = parse_path(clause["target"], clause.quotes)
    if path and verb in ("click", "tap", "push"):
        return click_path(path)
    words, times = _take_times(clause["target"])
    button, clicks = _CLICKS[next((kind for kind in _CLICKS if verb.startswith(kind)), "")]
    return [
        ClickTarget(target=each, button=button, clicks=clicks)  # type: ignore[arg-type]
        for each in parse_targets(words, clause.quotes)
    ] * times


_CLICKS = {
    "right": ("right", 1),
    "context": ("right", 1),
    "middle": ("middle", 1),
    "double": ("left", 2),
    "triple": ("left", 3),
    "": ("left", 1),
}
_CLICK_VERBS = "|".join(f"{kind}~-?~click|{kind}~-?~clicking" for kind in (*filter(None, _CLICKS), "left"))


def _take_times(words: str) -> tuple[str, int]:
    """Return a target and its number of clicks: "'+' three times", "Next twice", "twice on Next"."""
    tail = _TIMES_AFTER.fullmatch(words) or _TIMES_BEFORE.fullmatch(words)
    if tail is None:
        return words, 1
    count = number(tail["count"] or tail["word"])
    if count != int(count) or not 1 <= count <= _MAX_TIMES:
        raise NotUnderstoodError(tail["times"], f"expected a whole number up to {_MAX_TIMES}")
    return tail["target"], int(count)


def _drag_by(clause: ParsedClause) -> PlainStep:
    distance = int(clause["px"])
    x, y = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1)}[clause["direction"].lower()]
    return DragTarget(source=target(clause, "source"), by_px=(x * distance, y * distance))


def _dialog(clause: ParsedClause) -> PlainStep:
    return AnswerDialog(accept=re.match(r"accept|confirm|agree|approve|ok", clause["verb"], re.I) is not None)


_WAY = "<direction: right|left|up|down>`(?:wards?)?`"
_PIXELS = "<px: INT>` ?(?:px|pixels?)`"
_DIALOG = "(dialog|dialogue|alert|pop-?up|prompt|confirmation|message|question|confirm) [box|dialog|window]"

POINTING: tuple[PhraseRule, ...] = (
    rule(
        f"(close|dismiss|exit|leave|hide) [the|this] ({_DIALOG}|window|modal|panel|banner|menu|it)"
        f" {BY_CLICKING} <target>",
        click_all,
    ),
    rule(f"<verb: {_CLICK_VERBS}|click|clicking|tap|push> [on|at] <target>", _click),
    rule(
        "(hover [over|on|above]|mouse over"
        "|(move|point|place) [the] (mouse|pointer|cursor) [pointer] (to|over|on|onto|at)) <target>",
        lambda clause: ClickTarget(target=target(clause), clicks=0),
    ),
    rule(f"drag <source?> [to the] {_WAY} by {_PIXELS}", _drag_by),
    rule(f"drag <source?> by {_PIXELS} [to the] {_WAY}", _drag_by),
    rule(
        "drag <source?> [and drop [it]] (to|onto|on|into|over|in) <target>",
        lambda clause: DragTarget(source=target(clause, "source"), onto=target(clause)),
    ),
    rule(
        "<verb: accept|confirm|dismiss|cancel|close|reject|decline|approve|agree to|ok> [the|this|that|any] [TERM]"
        f" {_DIALOG}",
        _dialog,
    ),
)


_WORDS = {"page down": "pagedown", "page up": "pageup", "arrow down": "down", "arrow up": "up", "arrow left": "left",
          "arrow right": "right", "down arrow": "down", "up arrow": "up", "left arrow": "left", "right arrow": "right",
          "space bar": "space", "caps lock": "capslock", "back space": "backspace", "cntrl": "ctrl", "strg": "ctrl",
          "escape": "esc"}  # fmt: skip


def parse_keys(words: str) -> tuple[str, ...] | None:
    """Return keys pressed together, by their canonical names; None if the words are not keys.

    A single character is a key ("press a"); a single word is one only if keyboards have it ("press Save" is not).
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
"""Names that pyautogui knows as keys but that usually mean buttons."""


def _open(clause: ParsedClause) -> PlainStep | None:
    url = clause.unquoted("url").strip()
    return OpenAddress(url=url.rstrip(".,")) if _URL.fullmatch(f" {url}") else None


_URL, _ = compile_phrase("URL")


def _press(clause: ParsedClause) -> Sequence[PlainStep]:
    """Return keys if keyboards have them, else a click on a button; one quoted character is a button."""
    words, times = TAIL.sub("", clause["keys"]), max(1, int(number(clause["times"] or "1")))
    quoted = clause.quotes.only(words)
    keys = None if quoted is not None and len(quoted) == 1 else parse_keys(clause.quotes.unmask(words, quoted=False))
    if keys is not None:
        return [PressKeys(keys=keys, times=times)]
    return [
        ClickTarget(target=each)
        for each in parse_targets(f"the {words}" if clause["the"] == "the" else words, clause.quotes)
    ] * times


def _follow(clause: ParsedClause) -> Sequence[PlainStep]:
    path = parse_path(clause["target"], clause.quotes)
    return click_path(path) if path else click_all(clause)


def _keys(*keys: str) -> PressKeys:
    return PressKeys(keys=keys)


_IT = "[it|that|this]"
_COUNT = r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)"

GOING: tuple[PhraseRule, ...] = (
    rule("[go|navigate|move] (back|backwards?) [(a|one) page|to the previous page]", _keys("alt", "left")),
    rule("(go|navigate|move) forwards? [(a|one) page]", _keys("alt", "right")),
    rule("(reload|refresh) [[the] (page|tab|browser|site)]", _keys("f5")),
    rule("open [a] new tab", _keys("ctrl", "t")),
    rule("close [the|this] [current] tab", _keys("ctrl", "w")),
    rule("(switch|go) to the next tab", _keys("ctrl", "tab")),
    rule("select (all|everything) [[the] text]", _keys("ctrl", "a")),
    rule(f"copy {_IT} [the (selection|selected text)]", _keys("ctrl", "c")),
    rule(f"cut {_IT} [the selection]", _keys("ctrl", "x")),
    rule(f"paste {_IT} [there|here]", _keys("ctrl", "v")),
    rule(f"undo {_IT}", _keys("ctrl", "z")),
    rule(
        "(open|go to|visit|navigate to|browse to|load) [the] [url|address|page|site|website] <url: QUOTED|URL>", _open
    ),
    rule("(press|hit) [<the: the>] <keys?> [keys?] <times: twice>", _press),
    rule(
        "(press|hit|push|strike) [<the: the>] [keys?|shortcut|combination] <keys?> [keys?]"
        f"`(?:[ ,]+(?:(?P<times>{_COUNT}) ?(?:x|times)|once))?`",
        _press,
    ),
)

_ALL_THAT, _ = compile_phrase("(it|them|this|that|these|those|everything|all|your (work|changes|input))")
_VERB_OBJECT = re.compile(
    r"(?!.*\b(?:first|second|third|fourth|fifth|last|other|every|each|any|both|all|and|or|of|in|on|at|to|from|with|for|by"
    r"|named|called|if|when|until|that|which|\d+)\b)(?:(?:the|your|my|this|a|an)\s+)?(?P<noun>[a-z-]+(?:\s[a-z-]+){0,2})"
)
"""Words that may follow a button's verb, without counting or describing."""


def _click_verb(clause: ParsedClause) -> PlainStep | None:
    """Return a click on the button for an action: "save the changes", "place the order"."""
    verb, words = clause["verb"].lower(), clause["noun"]
    if not words or _ALL_THAT.fullmatch(f" {words}"):
        return ClickTarget(target=ElementTarget(text=verb, verb=verb))
    noun = _VERB_OBJECT.fullmatch(words)
    return ClickTarget(target=ElementTarget(text=f"{verb} {noun['noun']}", verb=verb)) if noun is not None else None


def _add_to(clause: ParsedClause) -> PlainStep:
    """Return a click on the button near an item that adds it to a cart."""
    beside = AnchorRelation(kind="near", anchor=target(clause, "item").text)
    return ClickTarget(target=ElementTarget(text=f"Add to {clause['collection']}", role="button", relation=beside))


CLICKING: tuple[PhraseRule, ...] = (
    rule(f"`(?!.*\ue001.*by )(?: [a-z'-]+){{2,8}}` {BY_CLICKING} <target>", click_all),
    rule(
        "add <item> to [the|my|your] [shopping] <collection: cart|basket|bag|wish~list|favou?rites|bookmarks|playlist>",
        _add_to,
    ),
    rule(
        "(go to|open|expand|focus [on]|launch|start|close|visit|use|toggle|activate|navigate to|follow|collapse|show"
        "|view) <target>",
        _follow,
    ),
    rule("submit [the form|it]", PressKeys(keys=("enter",), is_submit=True)),
    rule("(confirm|accept) [it|this|that|the (deletion|change|choice|selection)]", AnswerDialog(accept=True)),
    rule(f"<verb: {BUTTON_VERBS}|{AMBIGUOUS_BUTTON_VERBS}> [<noun>]", _click_verb),
)
