"""Match a text on the screen with a wanted one: exact, ignoring case, normalised, contained, fuzzy, in this order."""

import difflib
import re
import unicodedata
from dataclasses import dataclass

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")
_QUOTES = dict.fromkeys(map(ord, "‘’‚‛′`´"), "'") | dict.fromkeys(map(ord, "“”„‟″«»"), '"')
_CONFUSED = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "!": "l", "5": "s", "ı": "l", "—": "-", "川": "lll"})
"""Characters that OCR confuses in small print: zero and O, one, l and I, five and S."""

WHOLE = 0.88
"""Lowest score at which the whole line is the wanted text."""

CONTAINED = 0.7
"""Lowest score at which the line contains the wanted text word for word."""

_MISREAD = 0.66
_FUZZY_RATIO = 0.8
_MIN_FUZZY_LENGTH = 4
_MISREAD_CHARS = 2


@dataclass(frozen=True, slots=True)
class LabelMatch:
    """Score from 0 to 1, and the matching characters of the line."""

    score: float
    start: int
    end: int


def plain_signs(text: str) -> str:
    """Return the text with plain dashes, quotes and widths."""
    return unicodedata.normalize("NFKC", text).translate(_DASHES).translate(_QUOTES)


def normalize(text: str) -> str:
    """Return a text in lower case with plain dashes, quotes and spaces, without bullet, trailing colon or dots."""
    plain = plain_signs(text).casefold()
    plain = re.sub(r"\s+", " ", plain).strip()
    return re.sub(r"^[•·▪>»\-\s]+(?=\w)|[\s:*….,]+$", "", plain) or plain


def alphanumeric(text: str) -> str:
    """Return only the letters and digits, without accents and with look-alikes made equal."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    kept = "".join(char for char in folded if char.isalnum() or char in "|!")
    return kept.translate(_CONFUSED)


def fit_texts(wanted: str, seen: str) -> list[LabelMatch]:
    """Return all occurrences of `wanted` in the line `seen`, best first; empty if there are none."""
    whole = _fit_whole(wanted, seen)
    if whole:
        return [LabelMatch(whole, 0, len(seen))]
    contained = _fit_contained(wanted, seen) or _fit_misread(wanted, seen)
    if contained:
        return contained
    fuzzy = _fit_fuzzy(wanted, seen)
    return [LabelMatch(fuzzy, 0, len(seen))] if fuzzy else []


_SIGNS = {
    sign: signs[0]
    for signs in ("-−–—一", "=二＝", "+十＋", "*×✕✖∗·", "/÷∕", "<‹く", ">›", "□口☐", ",，", ".。")
    for sign in signs
}
"""Single characters that OCR confuses, or that name the same key."""


def _fit_whole(wanted: str, seen: str) -> float:
    if wanted == seen:
        return 1.0
    if len(wanted) == len(seen) == 1 and wanted in _SIGNS and _SIGNS[wanted] == _SIGNS.get(seen):
        return 0.95
    if wanted.casefold() == seen.casefold():
        return 0.98
    if normalize(wanted) == normalize(seen):
        return 0.96
    squashed = alphanumeric(wanted)
    if squashed and squashed == alphanumeric(seen):
        return 0.92 if len(squashed) > 1 or wanted.isalpha() == seen.isalpha() else 0.0
    return 0.0


def _fit_contained(wanted: str, seen: str) -> list[LabelMatch]:
    for pattern, flags, score in (
        (re.escape(wanted), 0, 0.84),
        (re.escape(wanted), re.IGNORECASE, 0.82),
        (_loose_pattern(wanted), re.IGNORECASE, 0.78),
    ):
        if not pattern:
            continue
        matches = [
            LabelMatch(
                score - 0.06 * (1 - (match.end() - match.start()) / max(len(seen), 1)), match.start(), match.end()
            )
            for match in re.finditer(rf"(?<!\w){pattern}(?!\w)", seen, flags)
            if match.end() > match.start()
        ]
        if matches:
            return matches
    return []


def _loose_pattern(wanted: str) -> str:
    """Return a pattern that accepts any dash, quote, unaccented or similar character, and any space between words."""
    pieces = []
    for char in normalize(wanted):
        base = alphanumeric(char)
        if char.isspace():
            pieces.append(r"[\s_]*")  # an underlined space is read as an underscore
        elif base and base in "ols":
            pieces.append({"o": "[0oöóòô]", "l": "[1il|!íìî]", "s": "[5sš]"}[base])
        elif base and base != char:
            pieces.append(f"[{re.escape(char)}{re.escape(base[0])}]")
        elif char in "-'\"":
            pieces.append({"-": "[-‐‑‒–—―−]?", "'": "['‘’`´]?", '"': '["“”„]?'}[char])
        else:
            pieces.append(re.escape(char))
    return "".join(pieces)


_ALIKE = ("1ilj|!I", "0oOQD", "5sS", "9gq", "2zZ", "8B", "6bG", "uvUV", "cC", "wW", "kK", "pP", "xX", "yY")
"""Characters of codes that OCR confuses in small print, where no dictionary helps."""
_CODE = re.compile(r"(?=\S*[^\W\d_])(?=\S*(?:\d|\w[A-Z]))\w{2,12}")
"""Pattern of a code: one word of letters with digits among them, or with capitals inside."""


def _fit_misread(wanted: str, seen: str) -> list[LabelMatch]:
    """Return occurrences of a code as a word with some misread characters, possibly right after the ring of its box."""
    if _CODE.fullmatch(wanted) is None:
        return []
    is_long = len(wanted) >= _MIN_FUZZY_LENGTH
    classes = ("".join(alike for alike in _ALIKE if is_long and sign in alike) or sign for sign in wanted)
    pattern = "".join(f"[{re.escape(signs)}]" for signs in classes)
    matches = re.finditer(rf"(?<!\w)[O0oD]?({pattern})(?!\w)", seen)
    return [LabelMatch(_MISREAD, match.start(1), match.end(1)) for match in matches]


def _fit_fuzzy(wanted: str, seen: str) -> float:
    wanted_chars, seen_chars = alphanumeric(wanted), alphanumeric(seen)
    if min(len(wanted_chars), len(seen_chars)) < _MIN_FUZZY_LENGTH or re.sub(r"\D", "", wanted) != re.sub(
        r"\D", "", seen
    ):
        return 0.0
    if wanted_chars in seen_chars or seen_chars in wanted_chars:
        return 0.0  # "Saved" and "Unsaved" are words other than "Save", not misread ones
    words, seen_words = normalize(wanted).split(), normalize(seen).split()
    if len(words) == len(seen_words):
        pairs = [
            (alphanumeric(word), alphanumeric(seen_word)) for word, seen_word in zip(words, seen_words, strict=True)
        ]
        ratio = min(_ratio_of_misread(*pair) for pair in pairs)
    else:
        ratio = _ratio_of_misread(wanted_chars, seen_chars)  # OCR dropped or added a space
    return 0.3 + 0.35 * ratio if ratio else 0.0


def _ratio_of_misread(text: str, other: str) -> float:
    """Return the similarity of two texts if one may be a misread version of the other, else 0.

    OCR may take a letter for another one or for two (m, rn); words of five letters that differ in one are two words.
    """
    if text == other or (len(text) == len(other) + 1 <= _MIN_FUZZY_LENGTH and other and (other in text)):
        return 1.0  # "As" of which "s" was read
    matcher = difflib.SequenceMatcher(None, text, other, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        sizes = (end - start, other_end - other_start)
        if kind != "equal" and (max(sizes) > _MISREAD_CHARS or abs(sizes[0] - sizes[1]) > 1):
            return 0.0
    return matcher.ratio() if matcher.ratio() > _FUZZY_RATIO else 0.0


def similarity(wanted: str, seen: str) -> float:
    """Return a loose similarity from 0 to 1, to list the nearest texts if the wanted one is missing."""
    wanted_chars, seen_chars = alphanumeric(wanted), alphanumeric(seen)
    if not wanted_chars or not seen_chars:
        return 0.0
    ratio = difflib.SequenceMatcher(None, wanted_chars, seen_chars, autojunk=False).ratio()
    return max(
        ratio,
        0.9 * len(wanted_chars) / len(seen_chars) if wanted_chars in seen_chars else 0.0,
        0.9 * len(seen_chars) / len(wanted_chars) if seen_chars in wanted_chars and len(seen_chars) > 2 else 0.0,
    )
