"""What the rules are written in: patterns over clauses, and the words that several of them use."""

import re
from collections.abc import Callable

from cua.models.literal.clauses import Quotes
from cua.models.literal.steps import PlainStep

Make = Callable[[re.Match[str], Quotes], "PlainStep | None"]
"""Makes a step of a match; None hands the clause on to the next rule."""

Rule = tuple[re.Pattern[str], Make]

MARK = "\ue000\\d+\ue001"
"""A quoted text, as it stands in a masked clause."""

NUMBER = r"(?:\d+(?:\.\d+)?|half a|an?|one|two|three|four|five|six|seven|eight|nine|ten)"

URL = (
    r"(?:[a-z][a-z0-9+.-]*://\S+|about:\S+|(?:localhost|\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?(?:/\S*)?"
    r"|(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:/\S*)?)"
)
SEEN = (
    r"(?:(?:is |are |be |becomes? |gets? |has )?(?:seen|visible|shown|displayed|there|present|in view|found|listed"
    r"|showing|on (?:the )?(?:screen|page))|appears?|appeared|comes into view|comes up|shows? up|exists?)"
)
GONE = (
    r"(?:(?:is |has )?gone(?: away)?|(?:to )?disappears?|(?:to )?vanish(?:es)?|(?:to )?goe?s? away|is hidden"
    r"|is no longer (?:shown|visible|displayed|there|listed)|(?:does not|doesn't) (?:appear|exist|show)"
    r"|(?:is not|isn't|is not any more)(?: shown| visible| displayed| there| present| listed| on the (?:page|screen)))"
)

_NUMBER_WORDS = {"half a": 0.5, "a": 1.0, "an": 1.0, "once": 1.0, "twice": 2.0} | {
    word: float(value)
    for value, word in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
}
_NAMED_TEXT = re.compile(
    r"(?:the\s+)?(?:text|word|words|value|number|string|name|phrase|characters?|letters?|date|amount|url|address|message)"
    r"\s+(\S.*)",
    re.I,
)


def rule(pattern: str, make: Make) -> Rule:
    """A rule for clauses that a pattern fits from end to end, in small or capital letters.

    Args:
        pattern: A regular expression in which a blank stands for one or more blanks.
        make: What to make of a match.
    """
    return re.compile(re.sub(r" (?![*?+])", r"\\s+", pattern), re.I | re.S), make


def fixed(step: PlainStep) -> Make:
    """Makes the same step each time."""
    return lambda match, quotes: step


def number(text: str) -> float:
    """The value of a number in digits or words."""
    return _NUMBER_WORDS.get(text.lower(), 0.0) or float(text)


def bare(masked: str, quotes: Quotes) -> str:
    """The text that a phrase means: the quoted text, when the phrase is no more than that, else the words."""
    phrase = masked.strip()
    quoted = quotes.only(phrase.strip(" ,.:"))
    if quoted is not None:
        return quoted
    named = _NAMED_TEXT.fullmatch(phrase)
    if named is not None and quotes.only(named[1]) is not None:
        return quotes.only(named[1]) or ""
    return quotes.unmask(phrase)
