"""Sentences as rows of roles: what their words may be in a text that is addressed to the agent (`addressed.toml`)."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from cua.guard.words import ANYWHERE, plain_letters

_MAX_SENTENCE_CHARS = 1000
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?…])(?<!\s[A-Z]\.)\s+|[。！？]|\n")
_ADDRESS = re.compile(
    r"https?://|\bwww\.|\b[a-z0-9-]{1,63}\.(?:example|com|net|org|io|ru|xyz|info|site|top|app)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Hit:
    """Where in a sentence a role is; offsets in its plain letters."""

    start: int
    end: int
    role: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: its text, the same in small plain letters, the roles in these, and whether it has an address."""

    text: str
    plain: str
    hits: tuple[Hit, ...]
    roles: frozenset[str]
    is_spaced: bool
    has_address: bool


@dataclass(frozen=True, slots=True)
class _Table:
    """Roles by the first word of phrases, by stem, and by entries of scripts without spaces."""

    phrases: dict[str, tuple[tuple[tuple[str, ...], str], ...]]
    stems: dict[str, frozenset[str]]
    anywhere: re.Pattern[str]
    of_anywhere: dict[str, frozenset[str]]


def split_sentences(text: str) -> list[str]:
    """The sentences of a text; short lines in a row are one."""
    found: list[str] = []
    joined = 0
    for piece in _SENTENCE_END.split(text):
        line = piece.strip()
        if not line:
            continue
        is_short = len(line) <= 24 and line.count(" ") <= 1
        if is_short and 0 < joined < 20:
            found[-1] += f" {line}"
        else:
            found += [line[at : at + _MAX_SENTENCE_CHARS] for at in range(0, len(line), _MAX_SENTENCE_CHARS)]
        joined = joined + 1 if is_short else 0
    return found


def read_sentence(text: str) -> Sentence:
    """Find the roles of the words of a sentence."""
    plain = plain_letters(text).casefold().replace("’", "'")
    hits = tuple(_hits(plain))
    is_spaced = ANYWHERE.search(plain) is None
    return Sentence(
        text, plain, hits, frozenset(hit.role for hit in hits), is_spaced, _ADDRESS.search(text) is not None
    )


def _hits(plain: str) -> Iterator[Hit]:
    table = _table()
    words = [(match[0], match.start(), match.end()) for match in _WORD.finditer(plain)]
    for at, (word, start, end) in enumerate(words):
        for phrase, role in table.phrases.get(word, ()):
            if len(phrase) == 1 or tuple(found for found, _, _ in words[at : at + len(phrase)]) == phrase:
                yield Hit(start, words[at + len(phrase) - 1][2], role)
        for role in _roles_of_stem(word):
            yield Hit(start, end, role)
    for match in table.anywhere.finditer(plain):
        for role in table.of_anywhere[match[1]]:
            yield Hit(match.start(), match.start() + len(match[1]), role)


@lru_cache(maxsize=65_536)
def _roles_of_stem(word: str) -> frozenset[str]:
    stems = _table().stems
    return frozenset(role for size in range(2, min(len(word), 16) + 1) for role in stems.get(word[:size], ()))


@cache
def _table() -> _Table:
    table = tomllib.loads((Path(__file__).parent / "addressed.toml").read_text(encoding="utf-8"))
    phrases: dict[str, dict[tuple[tuple[str, ...], str], None]] = {}
    stems: dict[str, frozenset[str]] = {}
    anywhere: dict[str, frozenset[str]] = {}
    entries = [(role, entry) for role, by_language in table.items() for some in by_language.values() for entry in some]
    for role, entry in entries:
        plain = plain_letters(entry.removesuffix("*")).casefold()
        words = tuple(_WORD.findall(plain))
        if ANYWHERE.search(plain):
            anywhere[plain] = anywhere.get(plain, frozenset()) | {role}
        elif entry.endswith("*") and len(words) == 1:
            stems[plain] = stems.get(plain, frozenset()) | {role}
        else:
            phrases.setdefault(words[0], {})[words, role] = None
    longest = sorted(anywhere, key=lambda entry: (-len(entry), entry))
    return _Table(
        phrases={word: tuple(found) for word, found in phrases.items()},
        stems=stems,
        anywhere=re.compile(f"(?=({'|'.join(map(re.escape, longest))}))"),
        of_anywhere=anywhere,
    )
