"""Ways to say: press keys, open an address, go back; and verbs that mean a click."""

import re
from collections.abc import Sequence

from cua.models.literal.clauses import Quotes
from cua.models.literal.rules.words import MARK, URL, Rule, click_path, fixed, number, rule
from cua.models.literal.steps import Click, OpenAddress, PlainStep, PressKeys
from cua.models.literal.target_phrase import parse_path, parse_targets
from cua.models.literal.target_words import TAIL
from envs.keys import MODIFIERS, normalize_key

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


def _click(match: re.Match[str], quotes: Quotes) -> Sequence[PlainStep]:
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

CLICKING: tuple[Rule, ...] = (
    rule(
        r"(?:go to|open|expand|focus(?: on)?|launch|start|close|visit|use|toggle|activate|navigate to|follow|collapse"
        r"|show|view) (?P<target>.+)",
        _click,
    ),
    rule(r"submit(?: the form| it)?", fixed(_keys("enter"))),
)
