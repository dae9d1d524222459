"""What a text says that a button does: the words of `words.toml`, found in texts as a person reads them.

A page may write "Delete" with letters of other alphabets, full-width or in circles, with zero-width characters,
marks or spaces between them. All of that becomes plain letters here, for comparing and for nothing else.
"""

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Literal

from envs import Target

_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0")  # letters and symbols that draw nothing
_BASE_LETTER = re.compile(
    r"(?:LATIN (?:SMALL|CAPITAL) LETTER|LATIN LETTER SMALL CAPITAL|NEGATIVE (?:SQUARED|CIRCLED) LATIN CAPITAL LETTER"
    r"|REGIONAL INDICATOR SYMBOL LETTER|CROSSED NEGATIVE SQUARED LATIN CAPITAL LETTER) ([A-Z])(?: WITH .*)?"
)
_SPREAD = re.compile(r"(?<!\w)\w(?:[\W_]{1,3}\w(?!\w)){2,}")
_IN_WORD = re.compile(r"(?=\S*[a-z])[\w@$!|]+", re.I)
_LIKE_LETTERS = (str.maketrans("01345@$!|", "oleasasil"), str.maketrans("01345@$!|", "oieasasll"))
_TURNED = "\u202e"
_MAX_CHARS = 2000


@lru_cache(maxsize=4096)
def forms(text: str) -> tuple[str, ...]:
    """A text as it is, and the ways in which a person may read it, each once."""
    plain = plain_letters(text[:_MAX_CHARS])
    found = [text, plain, *spread_letters(text)]
    found += [_IN_WORD.sub(partial(_mixed, like=like), plain) for like in _LIKE_LETTERS]
    if _TURNED in text:
        found += [plain_letters(part[::-1]) for part in text.split(_TURNED)]
    return tuple(dict.fromkeys(form for form in found if form))


def spread_letters(text: str) -> tuple[str, ...]:
    """The runs of single letters in a text (`D e l e t e`), each put together."""
    return tuple(re.sub(r"[\W_]+", "", found) for found in _SPREAD.findall(plain_letters(text[:_MAX_CHARS])))


def plain_letters(text: str) -> str:
    """Compatibility forms, accents and look-alikes dissolved, what draws nothing left out, spaces made one."""
    pieces = unicodedata.normalize("NFKD", text)
    letters = unicodedata.normalize("NFC", "".join(map(_plain, pieces)))
    return re.sub(r"\s+", " ", letters).strip()


@lru_cache(maxsize=8192)
def _plain(char: str) -> str:
    if char.isascii():
        return " " if char in "\n\t\r" else char if char.isprintable() else ""
    category = unicodedata.category(char)
    if category in ("Cf", "Cc", "Mn", "Me") or char in _BLANK:
        return ""
    if category.startswith("Z"):
        return " "
    if char in _look_alikes():
        return _look_alikes()[char]
    base = _BASE_LETTER.fullmatch(unicodedata.name(char, ""))
    return base[1].lower() if base else char


@cache
def _look_alikes() -> dict[str, str]:
    path = Path(__file__).parent / "confusables.toml"
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {char: letter for letter, chars in table.items() for char in chars}


def _mixed(found: re.Match[str], like: dict[int, int]) -> str:
    """A word with digits and signs in the place of letters, in letters; a number stays one."""
    word = found[0]
    letters = sum(char.isalpha() for char in word)
    return word.translate(like) if 2 * letters >= len(word.rstrip("!")) else word


RiskKind = Literal["submit", "pay", "delete", "send", "leave_domains", "credentials"]

_ORDER: tuple[RiskKind, ...] = ("pay", "delete", "send", "submit", "credentials")
# scripts without spaces between words, or with affixes written to them
_ANYWHERE = re.compile("[\u0590-\u06ff\u0900-\u0e7f\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff]")
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NO_BIN = re.compile(r"cgi-bin", re.I)


Phrases = dict[str, tuple[tuple[str, ...], ...]]
"""Phrases as words, by their first word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """The table, ready for searching; all in small plain letters.

    Attributes:
        phrases: What is found as whole words, by kind of risk.
        anywhere: What is found anywhere, in scripts that do not part their words.
        inside: Phrases within letters that stood apart, where nobody knows where a word ends.
        neutral: Whole texts that say nothing.
        characters: Images by kind.
        hints: Words in names of icons and handlers, by kind.
    """

    phrases: dict[RiskKind, Phrases]
    anywhere: dict[RiskKind, re.Pattern[str]]
    inside: dict[RiskKind, re.Pattern[str]]
    neutral: frozenset[tuple[str, ...]]
    characters: dict[RiskKind, frozenset[str]]
    hints: dict[RiskKind, Phrases]


@cache
def lexicon() -> Lexicon:
    """The committed table."""
    table = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
    words = {kind: _entries(table["words"][kind]) for kind in _ORDER}
    icons = {kind: table["icons"][kind] for kind in _ORDER if kind in table["icons"]}
    return Lexicon(
        phrases={kind: _phrases([word for word in words[kind] if not _ANYWHERE.search(word)]) for kind in _ORDER},
        anywhere={kind: _any_of([word for word in words[kind] if _ANYWHERE.search(word)]) for kind in _ORDER},
        inside={kind: _any_of([word for word in words[kind] if len(word) > 2 and word.isalpha()]) for kind in _ORDER},
        neutral=frozenset(tuple(_words(entry)) for entry in [*_entries(table["neutral"]), ""]),
        characters={kind: frozenset(icons[kind]["characters"]) for kind in icons},
        hints={kind: _phrases(icons[kind]["names"]) for kind in icons},
    )


def kind_of(text: str) -> RiskKind | None:
    """The kind of risk that a text speaks of, however it is written; None for an ordinary text."""
    found = lexicon()
    readings = [_small(form) for form in forms(text)]
    worded = [_words(reading) for reading in readings]
    joined = [_small(run) for run in spread_letters(text)]
    for kind in _ORDER:
        if (
            any(_holds(words, found.phrases[kind]) for words in worded)
            or any(map(found.anywhere[kind].search, readings))
            or any(map(found.inside[kind].search, joined))
        ):
            return kind
    return next((kind for kind, chars in found.characters.items() if chars & set(text)), None)


def kind_of_hint(hint: str) -> RiskKind | None:
    """The kind of risk that the name of an icon, a file or a handler speaks of: `fa-trash`, `deleteAll()`."""
    words = [word.casefold() for word in _PART.findall(_NO_BIN.sub("", hint))]
    return next((kind for kind, phrases in lexicon().hints.items() if _holds(words, phrases)), None)


def says_nothing(text: str) -> bool:
    """Whether a name leaves open what happens: OK, Yes, Continue, a mere sign."""
    return tuple(_words(_small(plain_letters(text)))) in lexicon().neutral


def _entries(by_language: dict[str, list[str]]) -> list[str]:
    return [_small(plain_letters(entry)) for entries in by_language.values() for entry in entries]


def _small(text: str) -> str:
    return text.casefold()


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _phrases(entries: list[str]) -> Phrases:
    by_first: dict[str, tuple[tuple[str, ...], ...]] = {}
    for words in map(tuple, map(_words, entries)):
        by_first[words[0]] = (*by_first.get(words[0], ()), words)
    return by_first


def _holds(words: list[str], phrases: Phrases) -> bool:
    return any(
        tuple(words[at : at + len(phrase)]) == phrase
        for at, word in enumerate(words)
        for phrase in phrases.get(word, ())
    )


def _any_of(entries: list[str]) -> re.Pattern[str]:
    longest_first = sorted(set(entries), key=lambda entry: (-len(entry), entry))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def texts_of(target: Target) -> tuple[str, ...]:
    """All that says what a target is, one line for each of its names: `button "Next"`, `button "Delete"`.

    What its dialog or its heading says comes behind names that say nothing (`OK`).
    """
    texts = tuple(text for name in target.names or ("",) if (text := _line(target, name)))
    return (*texts, *target.context) if is_neutral(target) else texts


def is_neutral(target: Target) -> bool:
    """Whether no name of a target says what it does: there is none, or OK, Yes, Continue."""
    return not target.is_field and all(map(says_nothing, target.names))


def _line(target: Target, name: str) -> str:
    parts = [target.role, f'"{name}"' if name else "", f"-> {target.url}" if target.url else ""]
    return " ".join(part for part in parts if part)
