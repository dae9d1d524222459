"""Finds the words of `words.toml`, which indicate a button's effect, in texts as a person reads them.

A page may write "Delete" with letters of other alphabets, full-width or circled letters, with zero-width characters,
marks or spaces between them. All of these are normalized to plain letters here, only for comparison.
"""

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Literal

from envs import Target

_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0")  # letters and symbols that are invisible
_BASE_LETTER = re.compile(
    r"(?:LATIN (?:SMALL|CAPITAL) LETTER|LATIN LETTER SMALL CAPITAL|NEGATIVE (?:SQUARED|CIRCLED) LATIN CAPITAL LETTER"
    r"|REGIONAL INDICATOR SYMBOL LETTER|CROSSED NEGATIVE SQUARED LATIN CAPITAL LETTER) ([A-Z])(?: WITH .*)?"
)
_SPREAD = re.compile(r"(?<!\w)\w(?:[\W_]{1,3}\w(?!\w)){2,}")
_IN_WORD = re.compile(r"(?=\S{0,200}[a-z])[\w@$!|]+", re.I)
_LIKE_LETTERS = (str.maketrans("01345@$!|", "oleasasil"), str.maketrans("01345@$!|", "oieasasll"))
_TURNED = "\u202e"
_MAX_CHARS = 2000


@lru_cache(maxsize=4096)
def forms(text: str) -> tuple[str, ...]:
    """Return a text and the readings of it that a person may see, without duplicates."""
    plain = plain_letters(text[:_MAX_CHARS])
    forms = [text, plain, *spread_letters(text)]
    forms += [_IN_WORD.sub(partial(_mixed, like=like), plain) for like in _LIKE_LETTERS]
    if _TURNED in text:
        forms += [plain_letters(part[::-1]) for part in text.split(_TURNED)]
    return tuple(dict.fromkeys(form for form in forms if form))


def spread_letters(text: str) -> tuple[str, ...]:
    """Return the runs of single letters in a text (`D e l e t e`), each joined."""
    return tuple(re.sub(r"[\W_]+", "", spread) for spread in _SPREAD.findall(plain_letters(text[:_MAX_CHARS])))


def plain_letters(text: str) -> str:
    """Normalize compatibility forms, accents and look-alikes, drop invisible characters, collapse spaces."""
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


def _mixed(match: re.Match[str], like: dict[int, int]) -> str:
    """Replace digits and signs in a word by similar letters; a number is kept."""
    word = match[0]
    letters = sum(char.isalpha() for char in word)
    return word.translate(like) if 2 * letters >= len(word.rstrip("!")) else word


RiskKind = Literal["submit", "pay", "delete", "send", "leave_domains", "credentials"]

_ORDER: tuple[RiskKind, ...] = ("pay", "delete", "send", "submit", "credentials")
# scripts without spaces between words, or with affixes written to them
ANYWHERE = re.compile("[\u0590-\u06ff\u0900-\u0e7f\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff]")
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IDLE = re.compile(
    r"cgi-bin|sendBeacon|confirm\([^()]*\)|classList\.remove|\.remove\(\s*\)|remove(?:Class|Attr|Child|EventListener)",
    re.I,
)
_ORIGIN = re.compile(r"https?://[^/?#]*", re.I)
_ADDRESS_END = re.compile(r"[/?&=#;]")
_MAX_WORDS_IN_ADDRESS = 3  # of a part between slashes; a part with more words is a title: `/how-to-delete-your-account`
_CLAUSE_END = re.compile(r"[.,;:!?…](?=[\s.,;:!?…]|$)|[。、，；：！？؟،|•·—–]")
_WHOLE = "="


Phrases = dict[str, tuple[tuple[str, ...], ...]]
"""Phrases as tuples of words, by their first word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Words and phrases of one list of the table, prepared for search; all are normalized and in lower case.

    Attributes:
        phrases: Entries that match whole words.
        anywhere: Entries that match anywhere, in scripts without spaces between words.
        wholes: Entries that match only a whole text.
    """

    phrases: Phrases
    anywhere: re.Pattern[str]
    wholes: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, entries: list[str]) -> "Entries":
        """Sort entries by the way they are matched; an entry that begins with `=` matches a whole text."""
        parts = [entry for entry in entries if not entry.startswith(_WHOLE)]
        return cls(
            phrases=_phrases([entry for entry in parts if not ANYWHERE.search(entry)]),
            anywhere=_any_of([entry for entry in parts if ANYWHERE.search(entry)]),
            wholes=frozenset(tuple(_words(entry)) for entry in entries if entry.startswith(_WHOLE)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """Table of words, prepared for search.

    Attributes:
        risky: Words that indicate a risk, by kind.
        inside: The risky words for joined letters, where words have no boundaries.
        about: Harmless objects of a risky word, by kind.
        fillers: Words that may accompany these.
        starts: Beginnings of texts that announce something to read.
        ends: Ends of such texts.
        nots: Words that negate the following risky word.
        phrases: Phrases that contain a risky word and have another meaning.
        ordinary: Words for an expected change.
        neutral: Whole texts that do not indicate an effect.
        characters: Image characters by kind.
        hints: Words in names of icons, by kind.
        handlers: Words in handlers and addresses, by kind.
    """

    risky: dict[RiskKind, Entries]
    inside: dict[RiskKind, re.Pattern[str]]
    about: dict[RiskKind, Entries]
    fillers: Entries
    starts: Entries
    ends: Entries
    nots: Entries
    phrases: Entries
    ordinary: Entries
    neutral: frozenset[tuple[str, ...]]
    characters: dict[RiskKind, frozenset[str]]
    hints: dict[RiskKind, Phrases]
    handlers: dict[RiskKind, Phrases]


@cache
def lexicon() -> Lexicon:
    """Load the committed table."""
    table = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))
    words = {kind: _entries(table["words"][kind]) for kind in _ORDER}
    harmless = table["harmless"]
    icons = {kind: table["icons"][kind] for kind in _ORDER if kind in table["icons"]}
    lists = {name: Entries.of(_entries(harmless[name])) for name in ("fillers", "starts", "ends", "nots", "phrases")}
    return Lexicon(
        risky={kind: Entries.of(words[kind]) for kind in _ORDER},
        inside={kind: _any_of([word for word in words[kind] if len(word) > 2 and word.isalpha()]) for kind in _ORDER},
        about={kind: Entries.of(_entries(harmless["about"][kind])) for kind in _ORDER},
        ordinary=Entries.of(_entries(table["ordinary"])),
        neutral=frozenset(tuple(_words(entry)) for entry in [*_entries(table["neutral"]), ""]),
        characters={kind: frozenset(icons[kind]["characters"]) for kind in icons},
        hints={kind: _phrases(icons[kind]["names"]) for kind in icons},
        handlers={kind: _phrases(table["handlers"][kind]) for kind in _ORDER if kind in table["handlers"]},
        **lists,
    )


@lru_cache(maxsize=4096)
def kind_of(text: str) -> RiskKind | None:
    """Return the kind of risk that a text indicates, in any spelling; None for an ordinary text."""
    words, text = lexicon(), text[:_MAX_CHARS]
    readings = list(dict.fromkeys(_small(plain_letters(form)) for form in forms(text)))
    joined = [_small(run) for run in spread_letters(text)]
    clauses = [clause for reading in readings for clause in _clauses(reading)]
    for kind in _ORDER:
        if (
            any(tuple(_words(reading)) in words.risky[kind].wholes for reading in readings)
            or any(_is_risky(clause, kind) for clause in clauses)
            or any(map(words.inside[kind].search, joined))
        ):
            return kind
    return next((kind for kind, chars in words.characters.items() if chars & set(text)), None)


def _clauses(reading: str) -> list[str]:
    """Return the clauses that do not announce something to read, without phrases that have another meaning."""
    entries = lexicon()
    clauses = []
    for clause in _CLAUSE_END.split(reading):
        text = entries.phrases.anywhere.sub(" ", clause)
        words = _words(text)
        for at, length in _places(words, entries.phrases.phrases):
            words[at : at + length] = [""] * length
        text = text if len(words) == len(_words(text)) and "" not in words else " ".join(words)
        if text.strip() and not _announces(text.strip()):
            clauses.append(text.strip())
    return clauses


def _announces(clause: str) -> bool:
    """Return True if a clause announces something to read: `How to delete your account`."""
    entries, words = lexicon(), _words(clause)
    begin = entries.starts.anywhere.match(clause)
    end = any(match.end() == len(clause) for match in entries.ends.anywhere.finditer(clause))
    is_begun = any(at == 0 for at, _ in _places(words, entries.starts.phrases))
    is_ended = any(at + length == len(words) for at, length in _places(words, entries.ends.phrases))
    return bool(begin) or end or is_begun or is_ended


def _is_risky(clause: str, kind: RiskKind) -> bool:
    """Return True if a clause contains a risky word that is neither negated nor about something harmless."""
    entries, words = lexicon(), _words(clause)
    denials = {at + length for at, length in _places(words, entries.nots.phrases)}
    for at, length in _places(words, entries.risky[kind].phrases):
        if at not in denials and not _is_harmless(" ".join([*words[:at], *words[at + length :]]), kind):
            return True
    for match in entries.risky[kind].anywhere.finditer(clause):
        before, after = clause[: match.start()], clause[match.end() :]
        is_denied = any(no.end() == len(before.rstrip()) for no in entries.nots.anywhere.finditer(before.rstrip()))
        if not is_denied and not _is_harmless(f"{before} {after}", kind):
            return True
    return False


def _is_harmless(rest: str, kind: RiskKind) -> bool:
    """Return True if the rest of a clause has only harmless objects of a risky word (`filter`)."""
    about, fillers = lexicon().about[kind], lexicon().fillers
    left = about.anywhere.sub(" ", rest)
    words = _words(fillers.anywhere.sub(" ", left))
    is_about = left != rest or any(word in about.phrases for word in words)
    return is_about and all(word in about.phrases or word in fillers.phrases or word.isdecimal() for word in words)


def kind_of_hint(hint: str) -> RiskKind | None:
    """Return the kind of risk that the name of an icon, a file or an id indicates: `fa-trash`."""
    return _kind_of_code(hint, lexicon().hints)


def kind_of_handler(handler: str) -> RiskKind | None:
    """Return the kind of risk that a handler or an address indicates: `onclick deleteAll()`, `href /users/delete`."""
    name, _, value = handler.partition(" ")
    path = _ORIGIN.sub("", value, count=1)
    if path != value or path.startswith(("/", "?", ".")):
        parts = _ADDRESS_END.split(path)
        value = " - ".join(part for part in parts if len(_PART.findall(part)) <= _MAX_WORDS_IN_ADDRESS)
    return _kind_of_code(f"{name} {value}", lexicon().handlers)


def _kind_of_code(code: str, by_kind: dict[RiskKind, Phrases]) -> RiskKind | None:
    words = [word.casefold() for word in _PART.findall(_IDLE.sub("", code))]
    return next((kind for kind, phrases in by_kind.items() if _places(words, phrases)), None)


def says_nothing(text: str) -> bool:
    """Return True if a name does not indicate an effect: OK, Yes, Continue, a mere sign."""
    return tuple(_words(_small(plain_letters(text)))) in lexicon().neutral


def names_ordinary_change(text: str) -> bool:
    """Return True if a name indicates an expected change (Save, Add to cart, Submit changes) and no other risk."""
    reading = _small(plain_letters(text[:_MAX_CHARS]))
    entries = lexicon().ordinary
    is_found = bool(_places(_words(reading), entries.phrases)) or entries.anywhere.search(reading) is not None
    return is_found and kind_of(text) in (None, "submit")


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


def _places(words: list[str], phrases: Phrases) -> list[tuple[int, int]]:
    """Return the positions of phrases in a text, with their numbers of words."""
    return [
        (at, len(phrase))
        for at, word in enumerate(words)
        for phrase in phrases.get(word, ())
        if tuple(words[at : at + len(phrase)]) == phrase
    ]


def _any_of(entries: list[str]) -> re.Pattern[str]:
    longest_first = sorted(set(entries), key=lambda entry: (-len(entry), entry))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def texts_of(target: Target) -> tuple[str, ...]:
    """Return the texts that describe a target, one line per name: `button "Next"`, `button "Delete"`.

    The text of its dialog or heading is appended if its names are neutral (`OK`).
    """
    texts = tuple(text for name in target.names or ("",) if (text := _line(target, name)))
    return (*texts, *target.context) if is_neutral(target) else texts


def is_neutral(target: Target) -> bool:
    """Return True if no name of a target indicates its effect: there is none, or only OK, Yes, Continue."""
    return not target.is_field and all(map(says_nothing, target.names))


def _line(target: Target, name: str) -> str:
    parts = [target.role, f'"{name}"' if name else "", f"-> {target.url}" if target.url else ""]
    return " ".join(part for part in parts if part)
