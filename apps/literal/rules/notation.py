r"""The notation of the rules: phrases of words, with slots for what is named.

    "(type [in]|enter) <text> (in|as|for) <field>"

| written | fits |
|---|---|
| `word` | the word, in small or capital letters; `s?` is an optional letter, `~` an optional blank |
| `(a b\|c)`, `[a b\|c]` | one of the phrases; one of them or nothing |
| `<name>`, `<name?>` | any words, as many or as few as the rest allows |
| `<name: phrase>` | the phrase, kept under a name |
| `QUOTED`, `INT`, ... | a word of a kind, see `KINDS` |
| `` `...` `` | a regular expression, blanks included |

Nothing but a slot repeats, so that the time for a clause of bounded length is bounded, too.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.literal.clauses import Quotes
from apps.literal.steps import PlainStep

MARK = "\ue000\\d+\ue001"
"""A quoted text, as it stands in a masked clause."""

KINDS = {
    "QUOTED": MARK,
    "INT": r"\d+",
    "DECIMAL": r"[-−]?\d+(?:\.\d+)?",
    "NUMBER": r"(?:\d+(?:\.\d+)?|half a|an?|one|two|three|four|five|six|seven|eight|nine|ten)",
    "LETTER": "[a-z]",
    "WORD": r"\w+",
    "COMPOUND": r"[\w-]+",
    "TERM": r"\S+",
    "URL": r"(?:[a-z][a-z0-9+.-]*://\S+|about:\S+|(?:localhost|\d{1,3}(?:\.\d{1,3}){3})(?::\d+)?(?:/\S*)?"
    r"|(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:/\S*)?)",
}
_TOKEN = re.compile(r"\s+|`[^`]*`|<\w+\??>|<\w+:|[()\[\]>|]|[^\s()\[\]<>|`]+")


@dataclass(frozen=True, slots=True)
class Said:
    """A clause that fits a rule.

    Attributes:
        parts: What its slots and named phrases hold; empty when left out.
        quotes: The quoted texts of the instruction.
    """

    parts: dict[str, str]
    quotes: Quotes

    def __getitem__(self, name: str) -> str:
        return self.parts[name]

    def unquoted(self, name: str) -> str:
        """A part with its quoted texts put back, without the quotes."""
        return self.quotes.unmask(self[name], quoted=False)


Steps = PlainStep | Sequence[PlainStep] | None
Make = Callable[[Said], Steps]
"""Makes a step of a clause, or several; None hands the clause on to the next rule.

It raises NotUnderstoodError when the clause is of its kind and holds words that it cannot account for."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to say a step.

    Attributes:
        pattern: Fits the clause with a blank before it.
        starts: The words, in small letters, of which the clause begins with one; None when that can be any word.
        make: What to make of the clause.
    """

    pattern: re.Pattern[str]
    starts: frozenset[str] | None
    make: Make

    def read(self, text: str, quotes: Quotes) -> Steps:
        """The steps that a clause says; None when it does not fit.

        Raises:
            NotUnderstoodError: It fits and holds words without a meaning here.
        """
        match = self.pattern.fullmatch(f" {text}")
        if match is None:
            return None
        return self.make(Said({name: (part or "").strip() for name, part in match.groupdict().items()}, quotes))


def rule(phrase: str, make: Make | PlainStep) -> Rule:
    """A rule for clauses that a phrase fits from end to end; a step instead of a function is made each time."""
    pattern, starts = compile_phrase(phrase)
    return Rule(pattern, starts, make if callable(make) else lambda said: make)


def compile_phrase(phrase: str) -> tuple[re.Pattern[str], frozenset[str] | None]:
    """A pattern for texts with a blank before them, and the words with which such a text may begin, None for any."""
    tokens = _TOKEN.findall(phrase)
    assert "".join(tokens) == phrase, phrase
    regex, starts, is_optional = _compile_choice(tokens)
    assert not tokens, phrase
    return re.compile(regex, re.I | re.S), None if starts is None or is_optional else frozenset(starts)


_Compiled = tuple[str, set[str] | None, bool]
"""A regular expression, the words that it may begin with, and whether it may be empty."""


def _compile_choice(tokens: list[str]) -> _Compiled:
    """Take the alternatives up to a closing bracket off the tokens."""
    choices = [_compile_sequence(tokens)]
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        choices.append(_compile_sequence(tokens))
    known = [starts for _, starts, _ in choices if starts is not None]
    starts = set().union(*known) if len(known) == len(choices) else None
    return "|".join(regex for regex, _, _ in choices), starts, any(is_optional for *_, is_optional in choices)


def _compile_sequence(tokens: list[str]) -> _Compiled:
    regex, starts, is_optional = "", set[str](), True
    is_open = False  # whether any word may be the first one
    while tokens and tokens[0] not in ("|", ")", "]", ">"):
        part, words, can_skip = _compile_item(tokens)
        regex += part
        if is_optional:
            is_open = is_open or words is None
            starts |= words or set()
            is_optional = can_skip
    return regex, None if is_open else starts, is_optional


def _compile_item(tokens: list[str]) -> _Compiled:
    token = tokens.pop(0)
    if token.isspace():
        return "", set(), True
    if token in ("(", "["):
        regex, starts, is_optional = _compile_choice(tokens)
        tokens.pop(0)
        return f"(?:{regex}){'?' if token == '[' else ''}", starts, is_optional or token == "["
    if token.endswith(":") and token[0] == "<":
        regex, starts, is_optional = _compile_choice(tokens)
        tokens.pop(0)
        return f"(?P{token[:-1]}>{regex})", starts, is_optional
    if token[0] == "<":
        name = token.strip("<?>")
        return f" (?P<{name}>.+{'?' if token.endswith('?>') else ''})", None, False
    if token[0] == "`":
        return token[1:-1], None, False
    if token in KINDS:
        return f" {KINDS[token]}", None, False
    letters = re.findall(r"(.)(\??)", token)
    words = ("".join(chosen) for chosen in itertools.product(*_options(letters)))
    return (
        "".join([" ", *(" ?" if letter == "~" else re.escape(letter) + may for letter, may in letters)]),
        {word.split(" ")[0] for word in words},
        False,
    )


def _options(letters: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    """What may stand for each letter of a word."""
    return [(" ", "") if letter == "~" else (letter, "") if may else (letter,) for letter, may in letters]
