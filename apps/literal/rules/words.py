"""Words that several rules use, and what the parts of a clause mean: targets, texts, numbers."""

import re
from collections.abc import Sequence

from apps.literal.clauses import Quotes
from apps.literal.moves import NotUnderstoodError
from apps.literal.rules.notation import Said, compile_phrase
from apps.literal.steps import Click, PlainStep
from apps.literal.target_phrase import parse_target, parse_targets
from apps.literal.targets import Target

SEEN = (
    "([is|are|be|becomes?|gets?|has] (seen|visible|shown|displayed|there|present|in view|found|listed|showing"
    "|on [the] (screen|page))|appears?|appeared|comes into view|comes up|shows? up|exists?)"
)
GONE = (
    "([is|has] gone [away]|[to] disappears?|[to] (vanish|vanishes)|[to] (go|goes) away|is hidden"
    "|is no longer (shown|visible|displayed|there|listed)|(does not|doesn't) (appear|exist|show)"
    "|(is not|isn't|is not any more) (shown|visible|displayed|there|present|listed|on the (page|screen)))"
)
DEEDS = (
    "(save|send|submit|publish|apply|continue|proceed|register|subscribe|unsubscribe|log~in|log~out|sign~in|sign~out"
    "|sign~up|upload|download|pay|check~out|redeem|install|delete|remove|discard|archive|create|buy)"
)
NOUN_DEEDS = "(order|book|post|update|share|reply|export|import|search|finish|reset|print|calculate|add|cancel|place)"
"""What buttons do; words of the second list are names as well."""
TEXT_NOUN = (
    "(text|value|words?|string|phrase|characters?|letters?|sentence|line|message|number|digits?|code|keyword|term|query"
    "|search (term|text|words?|query)|following [text|words?|value])"
)
"""What a quoted text to type is called without telling where it belongs."""
FIELD_NOUN = (
    "(user~name|user id|login [name]|pass~word|passphrase|pin|e-?mail [address]|(first|last|full|family) name|name"
    "|phone [number]|telephone [number]|address|street|city|town|zip [code]|postcode|postal code|country|state|company"
    "|date|time|amount|price|quantity|url|link|title|subject|comment|description|note|age|birthday)"
)
"""What a quoted text to type is called that tells its field too."""
BY_CLICKING = "by (clicking|pressing|tapping|hitting) [on]"

_NUMBER_WORDS = {"half a": 0.5, "a": 1.0, "an": 1.0, "once": 1.0, "twice": 2.0, "thrice": 3.0} | {
    word: float(value)
    for value, word in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
}
_NAMED_TEXT, _ = compile_phrase(f"[the|a|an|my|your] ({TEXT_NOUN}|{FIELD_NOUN})` ?[:=]? ?(?P<text>\\S.*)`")
_DESCRIPTION, _ = compile_phrase(
    "((the|an?|your|my|our|their|his|her|its|this|that|these|those|some|any|all|both|each|every|another|one of"
    "|whatever|what|which|random|valid|invalid|correct|appropriate|suitable|matching|missing|required|same)` \\w.*`"
    "|(it|them|this|that|these|those|something|anything|everything|nothing|yours?|mine|today|tomorrow|yesterday)"
    f"|(today's|tomorrow's|yesterday's)` .*`|{FIELD_NOUN}` \\S.*`)"
)
_DESCRIBED = re.compile(_DESCRIPTION.pattern, re.S)
"""Words that tell what a text is; in small letters, since titles begin with capital ones ("The Hobbit")."""


def target(said: Said, name: str = "target") -> Target:
    """The target that a part names."""
    return parse_target(said[name], said.quotes)


def targets(said: Said, name: str = "target") -> list[Target]:
    """The targets of a part that may be a list."""
    return parse_targets(said[name], said.quotes)


def click_all(said: Said) -> Sequence[PlainStep]:
    """A click on each target."""
    return [Click(target=each) for each in targets(said)]


def click_path(path: Sequence[Target]) -> list[PlainStep]:
    """The clicks of a menu's path; a part that shows the next one when hovered over needs no click."""
    nexts = [part.text for part in path[1:]]
    return [Click(target=part, reveals=shown) for part, shown in zip(path, [*nexts, ""], strict=True)]


def number(text: str) -> float:
    """The value of a number in digits or words."""
    return _NUMBER_WORDS.get(text.lower(), 0.0) or float(text.replace("−", "-"))


def typed(said: Said, name: str = "text") -> str:
    """The text that a part says to type: a quoted text, or words that describe nothing.

    Raises:
        NotUnderstoodError: There is more than one quoted text with its kind, or the words tell what the text is
            instead of giving it ("the total", "your name").
    """
    text = bare(said[name], said.quotes)
    if not said.quotes.marks(said[name]) and (_DESCRIBED.fullmatch(f" {text}") or re.search(r'["“”„«»]', text)):
        raise NotUnderstoodError(text, "quote what shall be typed letter by letter")
    return text.replace("\\n", "\n").replace("\\t", "\t")


def bare(masked: str, quotes: Quotes) -> str:
    """The text that a phrase means: the quoted text, when the phrase is no more than that, else the words.

    Raises:
        NotUnderstoodError: There are words beside a quoted text that do not only tell its kind.
    """
    phrase = masked.strip()
    named = _NAMED_TEXT.fullmatch(f" {phrase}")
    for part in (phrase, named["text"] if named is not None else ""):
        quoted = quotes.only(part.strip(" ,.:"))
        if quoted is not None:
            return quoted
    if named is not None and re.fullmatch(r"\S*[\d@]\S*", named["text"]):
        return named["text"]  # "the code 1234"
    marks = quotes.marks(phrase)
    if marks:
        rest = phrase
        for mark in marks:
            rest = rest.replace(mark, " ")
        raise NotUnderstoodError(rest.strip(" ,.:"), "quote one text, and say nothing else about it")
    return phrase
