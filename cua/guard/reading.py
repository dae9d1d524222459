"""Texts as a person reads them, whatever characters they are made of.

A page may write "Delete" with letters of other alphabets, full-width or in circles, with zero-width characters,
marks or spaces between them. All of that becomes plain letters here, for comparing and for nothing else.
"""

import re
import tomllib
import unicodedata
from functools import cache, lru_cache, partial
from pathlib import Path

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
