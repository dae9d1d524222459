r"""Notation of the rules: phrases of words, with slots for what is named.

    "(type [in]|enter) <text> (in|as|for) <field>"

| notation | matches |
|---|---|
| `word` | the word, ignoring case; `s?` is an optional letter, `~` an optional space |
| `(a b\|c)`, `[a b\|c]` | one of the phrases; one of them or nothing |
| `<name>`, `<name?>` | one or more words, greedy or lazy |
| `<name: phrase>` | the phrase, captured under a name |
| `QUOTED`, `INT`, ... | a word of a type, see `KINDS` |
| `` `...` `` | a regular expression, including spaces |

Only slots repeat, so that the matching time for a clause of bounded length is bounded.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.literal.clauses import Quotes
from apps.literal.steps import PlainStep

MARK = "\ue000\\d+\ue001"
"""Mark of a quoted text in a masked clause."""

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
class ParsedClause:
    """Clause that matches a rule.

    Attributes:
        parts: Contents of its slots and named phrases; empty if omitted.
        quotes: Quoted texts of the instruction.
    """

    parts: dict[str, str]
    quotes: Quotes

    def __getitem__(self, name: str) -> str:
        return self.parts[name]

    def unquoted(self, name: str) -> str:
        """Return a part with its quoted texts restored, without the quotes."""
        return self.quotes.unmask(self[name], quoted=False)


Steps = PlainStep | Sequence[PlainStep] | None
StepsOf = Callable[[ParsedClause], Steps]
"""Function that returns the steps of a clause, or None to pass it to the next rule.

It raises NotUnderstoodError if the clause is of its kind and contains words without a meaning.
"""


@dataclass(frozen=True, slots=True)
class PhraseRule:
    """Wording of a step.

    Attributes:
        pattern: Pattern of the clause with a preceding space.
        starts: Possible first words of the clause, in lower case; None if any word is possible.
        make: Function that creates the steps.
    """

    pattern: re.Pattern[str]
    starts: frozenset[str] | None
    make: StepsOf

    def read(self, text: str, quotes: Quotes) -> Steps:
        """Return the steps of a clause; None if it does not match.

        Raises:
            NotUnderstoodError: If it matches but contains words without a meaning here.
        """
        match = self.pattern.fullmatch(f" {text}")
        if match is None:
            return None
        return self.make(ParsedClause({name: (part or "").strip() for name, part in match.groupdict().items()}, quotes))


def rule(phrase: str, make: StepsOf | PlainStep) -> PhraseRule:
    """Return a rule for clauses that match a phrase completely; `make` may be a constant step."""
    pattern, starts = compile_phrase(phrase)
    return PhraseRule(pattern, starts, make if callable(make) else lambda clause: make)


def compile_phrase(phrase: str) -> tuple[re.Pattern[str], frozenset[str] | None]:
    """Compile a pattern for texts with a preceding space, and the set of their possible first words (None for any)."""
    tokens = _TOKEN.findall(phrase)
    assert "".join(tokens) == phrase, phrase
    regex, starts, is_optional = _compile_choice(tokens)
    assert not tokens, phrase
    return re.compile(regex, re.I | re.S), None if starts is None or is_optional else frozenset(starts)


_Compiled = tuple[str, set[str] | None, bool]
"""Regular expression, its possible first words, and True if it may be empty."""


def _compile_choice(tokens: list[str]) -> _Compiled:
    """Compile the alternatives up to a closing bracket, consuming their tokens."""
    choices = [_compile_sequence(tokens)]
    while tokens and tokens[0] == "|":
        tokens.pop(0)
        choices.append(_compile_sequence(tokens))
    known = [starts for _, starts, _ in choices if starts is not None]
    starts = set().union(*known) if len(known) == len(choices) else None
    return "|".join(regex for regex, _, _ in choices), starts, any(is_optional for *_, is_optional in choices)


def _compile_sequence(tokens: list[str]) -> _Compiled:
    regex, starts, is_optional = "", set[str](), True
    is_open = False  # True if any word may be the first one
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
    options = [(" ", "") if letter == "~" else (letter, "") if may else (letter,) for letter, may in letters]
    words = ("".join(chosen) for chosen in itertools.product(*options))
    return (
        "".join([" ", *(" ?" if letter == "~" else re.escape(letter) + may for letter, may in letters)]),
        {word.split(" ")[0] for word in words},
        False,
    )
