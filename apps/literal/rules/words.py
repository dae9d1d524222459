"""What the rules are written in: patterns over clauses, and the words that several of them use."""

import re
from collections.abc import Callable, Sequence

from apps.literal.clauses import Quotes
from apps.literal.moves import NotUnderstoodError
from apps.literal.steps import Click, PlainStep
from apps.literal.targets import Target

Make = Callable[[re.Match[str], Quotes], "PlainStep | Sequence[PlainStep] | None"]
"""Makes a step of a match, or several; None hands the clause on to the next rule.

It raises NotUnderstoodError when the clause is of its kind and holds words that it cannot account for."""

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

DEEDS = (
    r"(?:save|send|submit|publish|apply|continue|proceed|register|subscribe|unsubscribe|log\s?in|log\s?out|sign\s?in"
    r"|sign\s?out|sign\s?up|upload|download|pay|check\s?out|redeem|install|delete|remove|discard|archive|create|buy)"
)
NOUN_DEEDS = (
    r"(?:order|book|post|update|share|reply|export|import|search|finish|reset|print|calculate|add|cancel|place)"
)
"""What buttons do; words of the second list are names as well."""

_NUMBER_WORDS = {"half a": 0.5, "a": 1.0, "an": 1.0, "once": 1.0, "twice": 2.0, "thrice": 3.0} | {
    word: float(value)
    for value, word in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
}
TEXT_NOUN = (
    r"(?:text|value|word|words|string|phrase|characters?|letters?|sentence|line|message|number|digits?|code|keyword|term|query"
    r"|search\s+(?:term|text|words?|query)|following(?:\s+(?:text|words?|value))?)"
)
"""What a quoted text to type is called without telling where it belongs."""

FIELD_NOUN = (
    r"(?:user\s?name|user\s+id|login(?:\s+name)?|pass\s?word|passphrase|pin|e-?mail(?:\s+address)?|first\s+name|last\s+name"
    r"|full\s+name|family\s+name|name|phone(?:\s+number)?|telephone(?:\s+number)?|address|street|city|town|zip(?:\s+code)?"
    r"|postcode|postal\s+code|country|state|company|date|time|amount|price|quantity|url|link|title|subject|comment|description"
    r"|note|age|birthday)"
)
"""What a quoted text to type is called that tells its field too."""

_NAMED_TEXT = re.compile(
    rf"(?:the\s+|a\s+|an\s+|my\s+|your\s+)?(?:{TEXT_NOUN}|{FIELD_NOUN})\s*[:=]?\s*(?P<text>\S.*)", re.I | re.S
)
_DESCRIBED = re.compile(
    r"(?:the|a|an|your|my|our|their|his|her|its|this|that|these|those|some|any|all|both|each|every|another|one\s+of|whatever|what"
    r"|which|random|valid|invalid|correct|appropriate|suitable|matching|missing|required|same)\s+\w.*"
    r"|(?:it|them|this|that|these|those|something|anything|everything|nothing|yours?|mine|today|tomorrow|yesterday"
    rf"|(?:today|tomorrow|yesterday)'s\s.*|{FIELD_NOUN}\s+\S.*)",
    re.S,
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


def click_path(path: Sequence[Target]) -> list[PlainStep]:
    """The clicks of a menu's path; a part that shows the next one when hovered over needs no click."""
    nexts = [target.text for target in path[1:]]
    return [Click(target=target, reveals=shown) for target, shown in zip(path, [*nexts, ""], strict=True)]


def number(text: str) -> float:
    """The value of a number in digits or words."""
    return _NUMBER_WORDS.get(text.lower(), 0.0) or float(text)


def typed(masked: str, quotes: Quotes) -> str:
    """The text that a phrase says to type: a quoted text, or words that describe nothing.

    Raises:
        NotUnderstoodError: There is more than one quoted text with its kind, or the words tell what the text is
            instead of giving it ("the total", "your name").
    """
    text = bare(masked, quotes)
    if not quotes.marks(masked) and (_DESCRIBED.fullmatch(text) or re.search(r'["“”„«»]', text)):
        raise NotUnderstoodError(text, "quote what shall be typed letter by letter")
    return text.replace("\\n", "\n").replace("\\t", "\t")


def bare(masked: str, quotes: Quotes) -> str:
    """The text that a phrase means: the quoted text, when the phrase is no more than that, else the words.

    Raises:
        NotUnderstoodError: There are words beside a quoted text that do not only tell its kind.
    """
    phrase = masked.strip()
    quoted = quotes.only(phrase.strip(" ,.:"))
    if quoted is not None:
        return quoted
    named = _NAMED_TEXT.fullmatch(phrase)
    quoted = quotes.only(named["text"].strip(" ,.:")) if named is not None else None
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
