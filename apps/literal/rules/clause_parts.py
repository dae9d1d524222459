"""Words that several rules share, and parsers of clause parts: targets, texts, numbers."""

import re
from collections.abc import Sequence

from apps.literal.clauses import Quotes
from apps.literal.rules.notation import ParsedClause, compile_phrase
from apps.literal.step_outcome import NotUnderstoodError
from apps.literal.steps import ClickTarget, PlainStep
from apps.literal.target_phrase import parse_target, parse_targets
from apps.literal.targets import ElementTarget

SEEN = (
    "([is|are|be|becomes?|gets?|has] (seen|visible|shown|displayed|there|present|in view|found|listed|showing"
    "|on [the] (screen|page))|appears?|appeared|comes into view|comes up|shows? up|exists?)"
)
GONE = (
    "([is|has] gone [away]|[to] disappears?|[to] (vanish|vanishes)|[to] (go|goes) away|is hidden"
    "|is no longer (shown|visible|displayed|there|listed)|(does not|doesn't) (appear|exist|show)"
    "|(is not|isn't|is not any more) (shown|visible|displayed|there|present|listed|on the (page|screen)))"
)
BUTTON_VERBS = (
    "(save|send|submit|publish|apply|continue|proceed|register|subscribe|unsubscribe|log~in|log~out|sign~in|sign~out"
    "|sign~up|upload|download|pay|check~out|redeem|install|delete|remove|discard|archive|create|buy)"
)
AMBIGUOUS_BUTTON_VERBS = (
    "(order|book|post|update|share|reply|export|import|search|finish|reset|print|calculate|add|cancel|place)"
)
"""Verbs of buttons; words of the second list are also names."""
TEXT_NOUN = (
    "(text|value|words?|string|phrase|characters?|letters?|sentence|line|message|number|digits?|code|keyword|term|query"
    "|search (term|text|words?|query)|following [text|words?|value])"
)
"""Nouns for a quoted text that do not identify its field."""
FIELD_NOUN = (
    "(user~name|user id|login [name]|pass~word|passphrase|pin|e-?mail [address]|(first|last|full|family) name|name"
    "|phone [number]|telephone [number]|address|street|city|town|zip [code]|postcode|postal code|country|state|company"
    "|date|time|amount|price|quantity|url|link|title|subject|comment|description|note|age|birthday)"
)
"""Nouns for a quoted text that identify its field."""
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
"""Words that describe a text; lower case, since titles start with capitals ("The Hobbit")."""


def target(clause: ParsedClause, name: str = "target") -> ElementTarget:
    """Parse the target named by a part."""
    return parse_target(clause[name], clause.quotes)


def targets(clause: ParsedClause, name: str = "target") -> list[ElementTarget]:
    """Parse the targets of a part that may be a list."""
    return parse_targets(clause[name], clause.quotes)


def click_all(clause: ParsedClause) -> Sequence[PlainStep]:
    """Return a click on each target."""
    return [ClickTarget(target=each) for each in targets(clause)]


def click_path(path: Sequence[ElementTarget]) -> list[PlainStep]:
    """Return the clicks of a menu path; a part that shows the next one on hover needs no click."""
    nexts = [part.text for part in path[1:]]
    return [ClickTarget(target=part, reveals=shown) for part, shown in zip(path, [*nexts, ""], strict=True)]


def number(text: str) -> float:
    """Return the value of a number in digits or words."""
    return _NUMBER_WORDS.get(text.lower(), 0.0) or float(text.replace("−", "-"))


def typed(clause: ParsedClause, name: str = "text") -> str:
    """Return the text that a part says to type: a quoted text, or words that are not a description.

    Raises:
        NotUnderstoodError: If there is more than one quoted text, or the words describe the text instead of giving it
            ("the total", "your name").
    """
    text = bare(clause[name], clause.quotes)
    if not clause.quotes.marks(clause[name]) and (_DESCRIBED.fullmatch(f" {text}") or re.search(r'["“”„«»]', text)):
        raise NotUnderstoodError(text, "put the text to type in quotes")
    return text.replace("\\n", "\n").replace("\\t", "\t")


def bare(masked: str, quotes: Quotes) -> str:
    """Return the text of a phrase: the quoted text if the phrase is no more than that and its noun, else the words.

    Raises:
        NotUnderstoodError: If words other than its noun accompany a quoted text.
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
        raise NotUnderstoodError(rest.strip(" ,.:"), "quote one text, without other words")
    return phrase
