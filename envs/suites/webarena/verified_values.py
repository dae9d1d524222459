"""Comparison of values as in WebArena-Verified: by type, after normalization.

A value is parsed as its schema says, `{"type": "number", "format": "currency"}`; a list of two or more values is one
value with alternatives. A value that cannot be parsed is kept unchanged and never matches.

Source: the documented types of webarena-verified 1.2.3; `docs/webarena.md` lists where verdicts differ.
"""

import base64
import binascii
import calendar
import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

_TIMES = (
    ("ys?|yrs?.?|years?", 365 * 86400),
    ("mos?.?|mths?.?|months?", 30 * 86400),
    ("w|wks?|weeks?", 7 * 86400),
    ("d|dys?|days?", 86400),
    ("h|hrs?|hours?", 3600),
    ("m|mins?|minutes?", 60),
    ("s|secs?|seconds?", 1),
    ("ms|msecs?|millis|milliseconds?", 0.001),
)
_TIME_PARTS = re.compile("".join(rf"(?:([\d.]+)\s*(?:{unit})\s*(?:[,/]\s*)?)?\s*" for unit, _ in _TIMES))
_CLOCK = re.compile(
    r"(?:([\d.]+)\s*(?:w|wks?|weeks?)\s*(?:[,/]\s*)?)?\s*(?:([\d.]+)\s*(?:d|dys?|days?)\s*(?:[,/]\s*)?)?\s*"
    r"(?:(?:(\d+):)?(\d+):(\d{2}):|(\d{1,2}):|:)(\d{2}(?:\.\d+)?)"
)
Rewrite = Callable[[str], str]
"""Function that replaces addresses with placeholders."""

_MARKS = dict.fromkeys(map(ord, "™®℠©"))
_HYPHENS = "[-\u2010-\u2015\u2212\u00ad]"
_HYPHEN_AT_LETTER = re.compile(rf"(?<=[A-Za-z]){_HYPHENS}|{_HYPHENS}(?=[A-Za-z])")
_ASCII = {
    **dict.fromkeys("‘’‚‛′ʼ", "'"),
    **dict.fromkeys("“”„‟″«»", '"'),
    "‐": "-",
    "‑": "-",
    "‒": "-",
    "–": "-",
    "—": "--",
    "―": "--",
    "−": "-",
    "…": "...",
    "•": "*",
    "×": "x",
    "ß": "ss",
    "æ": "ae",
    "Æ": "AE",
    "œ": "oe",
    "Œ": "OE",
    "ø": "o",
    "Ø": "O",
    "ł": "l",
    "Ł": "L",
    "đ": "d",
    "Đ": "D",
    "ı": "i",
    "þ": "th",
    "Þ": "Th",
    "ð": "d",
    "€": "EUR",
    "£": "PS",
    "¥": "Y=",
    "°": "deg",
    "⁄": "/",
}
_PUNCTUATION = "'\"`.,;:!?"


def read_duration(raw: object) -> float:
    """Parse a duration into seconds: `1h 35min`, `2 hours, 5 minutes`, `1:35:00`, `4:13`; a number needs a unit.

    Raises:
        ValueError: If it is not a duration.
    """
    text = re.sub(r"(?<!\d)(\d+):(\d+)\s*hours?", r"\1h\2m", str(raw)) if raw else ""
    text = " ".join(text.split())  # repeated blanks could match in many ways (backtracking)
    if not text or re.fullmatch(r"[-+]?[\d.]+", text):
        raise ValueError(f"{raw!r} is not a duration with a unit such as min")
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.lstrip("+-|").strip()
    parts = _TIME_PARTS.fullmatch(text)
    if parts is not None:
        return sign * math.fsum(
            float(part) * unit_s for part, (_, unit_s) in zip(parts.groups(), _TIMES, strict=True) if part
        )
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        raise ValueError(f"{raw!r} is not a duration")
    weeks, days, more_days, hours, minutes, few_minutes, seconds = (float(part or 0) for part in clock.groups())
    whole_days = 7 * weeks + days + more_days
    return sign * (86400 * whole_days + 3600 * hours + 60 * (minutes + few_minutes) + seconds)


_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_WEEKDAYS = frozenset(name.lower() for names in (calendar.day_name, calendar.day_abbr) for name in names)
_CLOCK_TIME = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[ap]\.?m\b\.?)?(?:\s*(?:z|utc|[+-]\d{2}:?\d{2}))?")


def _date_parts(text: str) -> tuple[int | None, int | None, int | None]:
    """Return year, month and day of a text; None for missing parts.

    Raises:
        ValueError: If the text has anything else.
    """
    text = re.sub(r"(?<=\d)t(?=\d)", " ", text)
    text = _CLOCK_TIME.sub(" ", text)
    text = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", " ", text)
    words = re.findall(r"[a-z]+|\d+", text)
    months = [_MONTHS[word] for word in words if word in _MONTHS]
    known = {*_MONTHS, *_WEEKDAYS, "of", "on", "and", "at"}
    numbers = [word for word in words if word.isdigit()]
    is_strange = re.search(r"[^a-z\d\s.,;/'-]", text) or any(not word.isdigit() and word not in known for word in words)
    if not words or len(months) > 1 or is_strange:
        raise ValueError(f"{text!r} is not a date")
    if len(numbers) == 1 and len(numbers[0]) == 8:
        numbers = [numbers[0][:4], numbers[0][4:6], numbers[0][6:]]
    if months:
        return _with_named_month(months[0], numbers, text)
    if len(numbers) == 3 and len(numbers[0]) > 2:
        year, month, day = (int(number) for number in numbers)
        return (year, day, month) if month > 12 else (year, month, day)
    if len(numbers) == 3:
        month, day, year = (int(number) for number in numbers)
        month, day = (day, month) if month > 12 else (month, day)
        return _whole_year(year), month, day
    raise ValueError(f"{text!r} is not a date")


def _with_named_month(month: int, numbers: Sequence[str], text: str) -> tuple[int | None, int, int | None]:
    years = [number for number in numbers if len(number) > 2 or int(number) > 31]
    days = [number for number in numbers if number not in years]
    if len(days) == 2 and not years:
        days, years = days[:1], days[1:]
    if len(years) > 1 or len(days) > 1:
        raise ValueError(f"{text!r} is not a date")
    return _whole_year(int(years[0])) if years else None, month, int(days[0]) if days else None


def _whole_year(year: int) -> int:
    """Expand a two-digit year to the century that puts it within 50 years of now, as date parsers do."""
    if year >= 100:
        return year
    now = date.today().year
    year += now // 100 * 100
    return year - 100 if year >= now + 50 else year + 100 if year < now - 50 else year


def read_date(raw: object) -> str:
    """Parse a complete date into ISO format; words other than parts of a date are not accepted.

    Raises:
        ValueError: If it is not a date.
    """
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"{raw!r} is not a date")
    year, month, day = _date_parts(raw)
    if year is None or month is None or day is None:
        raise ValueError(f"{raw!r} is not a whole date")
    return date(year, month, day).isoformat()


def read_month(raw: object) -> int:
    """Return a month, 1 to 12, from a number, a name or a date.

    Raises:
        ValueError: If it is not a month.
    """
    if (isinstance(raw, int | float) and raw == int(raw)) or (isinstance(raw, str) and re.fullmatch(r"[-+]?\d+", raw)):
        number = int(raw)
    elif isinstance(raw, str) and raw:
        number = _date_parts(raw)[1] or 0
    else:
        raise ValueError(f"{raw!r} is not a month")
    if not 1 <= number <= 12:
        raise ValueError(f"{raw!r} is not a month")
    return number


_LENGTHS_M = {
    "m": "m meter meters metre metres",
    "km": "km kilometer kilometers kilometre kilometres",
    "cm": "cm centimeter centimeters centimetre centimetres",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "mi": "mi mile miles",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "in": "in inch inches",
}
_METERS = {"m": 1.0, "km": 1000.0, "cm": 0.01, "mm": 0.001, "mi": 1609.344, "ft": 0.3048, "yd": 0.9144, "in": 0.0254}
_METERS_OF = {word: _METERS[unit] for unit, words in _LENGTHS_M.items() for word in words.split()}


def read_distance(raw: object) -> float:
    """Parse a distance into meters; a number needs a unit.

    Raises:
        ValueError: If it is not a distance.
    """
    text = re.sub(r"(?<!\d)(\d+(?:\.\d+)?)\s*k(?=\s|$)", r"\1 km", str(raw)) if raw else ""
    match = re.fullmatch(r"([-+]?(?:[\d,]*\.)?[\d,]+(?:e[-+]?\d+)?)\s*\*?\s*([a-z]+)", text.strip())
    if match is None or match[2] not in _METERS_OF:
        raise ValueError(f"{raw!r} is not a distance with a unit such as km")
    return float(match[1].replace(",", "")) * _METERS_OF[match[2]]


def is_pair(raw: Sequence[object]) -> bool:
    """Return True if a list may be a latitude and a longitude."""
    return len(raw) == 2 and all(isinstance(part, int | float | str) for part in raw)


_ANGLE = (
    r"([nsew])?\s*([-+]?\d+(?:\.\d+)?)"
    r"\s*(?:[°d*\s]\s*(?:(\d+(?:\.\d+)?)\s*['m]\s*)?(?:(\d+(?:\.\d+)?)\s*[\"s]\s*)?)?([nsew])?"
)
_POINT = re.compile(rf"{_ANGLE}\s*[,;/\s]\s*{_ANGLE}")


def read_coordinates(raw: object) -> tuple[float, float]:
    """Parse latitude and longitude in degrees from an object, a pair or a text.

    Raises:
        ValueError: If they are not coordinates.
    """
    if isinstance(raw, Mapping):
        names = {key: key.lower() for key in raw if isinstance(key, str) and len(key) >= 2}
        keys = [next((key for key, low in names.items() if word.startswith(low) or low == short), None)
                 for word, short in (("latitude", ""), ("longitude", "lng"))]  # fmt: skip
        if None in keys:
            raise ValueError(f"{raw!r} has no latitude and longitude")
        raw = tuple(raw[key] for key in keys)
    if isinstance(raw, list | tuple) and len(raw) == 2:
        latitude, longitude = float(raw[0]), float(raw[1])
    elif isinstance(raw, str) and (match := _POINT.fullmatch(raw.strip())):
        latitude, longitude = _degrees(match.groups()[:5], "s"), _degrees(match.groups()[5:], "w")
    else:
        raise ValueError(f"{raw!r} is not a place")
    if not -90 <= latitude <= 90 or not math.isfinite(longitude):
        raise ValueError(f"{raw!r} is not a place")
    return latitude, (longitude + 180) % 360 - 180 if abs(longitude) > 180 else longitude


def _degrees(parts: Sequence[str | None], negative: str) -> float:
    before, degrees, minutes, seconds, behind = parts
    size = abs(float(degrees or 0)) + float(minutes or 0) / 60 + float(seconds or 0) / 3600
    is_below = (degrees or "").startswith("-") != (negative in (before, behind))
    return -size if is_below else size


def is_pattern(text: object) -> bool:
    """Return True if a text is a regular expression: `^...$`."""
    return isinstance(text, str) and len(text) >= 2 and text.startswith("^") and text.endswith("$")


def tidy(text: str, rewrite: Rewrite | None = None) -> str:
    """Convert to plain ASCII in lower case with single blanks; a pattern stays unchanged."""
    if not text or is_pattern(text):
        return text
    if rewrite is not None and "http" in text:
        text = rewrite(text)
    text = unicodedata.normalize("NFKC", text.translate(_MARKS))
    text = _HYPHEN_AT_LETTER.sub(" ", text)
    return " ".join("".join(map(_to_ascii, text)).split()).casefold()


def _to_ascii(char: str) -> str:
    if char in "\t\n\r":
        return " "
    if char.isascii():
        return "" if unicodedata.category(char)[0] == "C" else char
    if char in _ASCII:
        return _ASCII[char]
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", char) if letter.isascii())
    return plain or (char if unicodedata.category(char)[0] in "LN" else "")


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Parsed value.

    Attributes:
        kind: Type of the value, one of `KINDS`.
        forms: Normalized value and alternatives.
    """

    kind: str
    forms: tuple[Any, ...]

    def is_met_by(self, other: object) -> bool:
        """Return True if another value, or a text that could not be parsed, is equal."""
        if isinstance(other, str) and self.kind == "string":
            other = Value("string", (_read_string(tidy(other)),))
        if not isinstance(other, Value) or KINDS[other.kind] is not KINDS[self.kind]:
            return False
        return KINDS[self.kind].is_same(self.forms, other.forms)


def read_value(raw: object, kind: str, rewrite: Rewrite | None = None) -> Value:
    """Parse a value, or a list of alternatives.

    Args:
        raw: JSON value.
        kind: One of `KINDS`.
        rewrite: Applied to texts that contain an address.

    Raises:
        ValueError: If `raw` is not such a value, or the type is unknown.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no type {kind!r}; expected one of {', '.join(KINDS)}")
    if isinstance(raw, list | tuple) and not (kind == "coordinates" and is_pair(raw)):
        if len(raw) < 2:
            raise ValueError(f"{raw!r} is a list of less than two alternatives")
        return Value(kind, tuple(_read(alternative, kind, rewrite) for alternative in raw))
    return Value(kind, (_read(raw, kind, rewrite),))


def _read(raw: object, kind: str, rewrite: Rewrite | None) -> Any:
    reader = KINDS[kind]
    if isinstance(raw, str):
        if len(raw) > reader.max_chars:
            raise ValueError(f"{len(raw)} characters are too many for this type; at most {reader.max_chars} are read")
        raw = raw.strip() if reader.is_exact else tidy(raw, rewrite)
    return reader.read(raw)


def _read_string(raw: object) -> str:
    return str(raw).strip() if is_pattern(raw) else str(raw).lower().strip() if raw else ""


def _is_same_string(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    if _fits(ours, theirs, re.IGNORECASE) or _fits(theirs, ours, re.IGNORECASE) or set(ours) & set(theirs):
        return True
    return bool({text.strip(_PUNCTUATION) for text in ours} & {text.strip(_PUNCTUATION) for text in theirs})


def _fits(patterns: Sequence[str], texts: Sequence[str], flags: "re.RegexFlag") -> bool:
    """Return True if a text matches one of the patterns; an invalid pattern matches nothing."""
    for pattern in filter(is_pattern, patterns):
        try:
            if any(re.fullmatch(pattern, text, flags) for text in texts):
                return True
        except re.error:
            continue
    return False


_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_WORDS = {word: number for number, word in enumerate(f"{_UNITS} seventeen eighteen nineteen".split())}
_WORDS |= {
    word: 10 * number for number, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
_SCALES = {"billion": 10**9, "million": 10**6, "thousand": 1000}
_NUMBER_WORDS = _WORDS | _SCALES | {"hundred": 100}


def _read_number(raw: object) -> float:
    if isinstance(raw, int | float):
        return float(raw)
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"{raw!r} is not a number")
    try:
        return float(raw.replace(",", "").replace(" ", ""))
    except ValueError:
        return _read_words(raw)


def _read_words(text: str) -> float:
    """Parse number words, `two hundred and five point one`; other words are ignored."""
    words = [word for word in text.replace("-", " ").split() if word in _NUMBER_WORDS or word == "point"]
    if not words or any(words.count(word) > 1 for word in (*_SCALES, "point")):
        raise ValueError(f"{text!r} is not a number")
    whole, decimals = words, list[str]()
    if "point" in words:
        whole, decimals = words[: words.index("point")], words[words.index("point") + 1 :]
    total, rest = 0, whole
    if len(whole) == 1:
        total, rest = _NUMBER_WORDS[whole[0]], []
    scales = [word for word in whole if word in _SCALES]
    if scales != sorted(scales, key=_SCALES.__getitem__, reverse=True):
        raise ValueError(f"{text!r} is not a number")
    for scale in scales if len(whole) > 1 else ():
        place = rest.index(scale)
        total += _below_thousand(rest[:place]) * _SCALES[scale]
        rest = rest[place + 1 :]
    fraction = float("0." + "".join(str(_WORDS[word]) for word in decimals)) if _are_digits(decimals) else 0.0
    return float(total + (_below_thousand(rest) if rest else 0) + fraction)


def _are_digits(words: Sequence[str]) -> bool:
    return bool(words) and all(_WORDS.get(word, 10) < 10 for word in words)


def _below_thousand(words: Sequence[str]) -> int:
    """Combine up to four number words, as published; longer sequences give the first word."""
    if not words:
        raise ValueError("a number without words")
    numbers = [_NUMBER_WORDS[word] for word in words]
    if len(numbers) in (3, 4):
        return numbers[0] * numbers[1] + sum(numbers[2:])
    if len(numbers) == 2:
        return numbers[0] * numbers[1] if 100 in numbers else sum(numbers)
    return numbers[0]


def _read_currency(raw: object) -> Decimal:
    """Parse the first amount in a text; the last of `.` and `,` is the decimal separator."""
    if not raw and not isinstance(raw, int | float):
        raise ValueError("an empty amount")
    text = " ".join(str(raw).split(" "))
    is_negative = text.startswith("-")
    text = text.replace("-", "") if is_negative else text
    match = re.search(r"(\.?\d[\d\s.,']*)\s*?(?:[^%\d]|$)", text)
    if match is None:
        if "free" not in text.lower():
            raise ValueError(f"{raw!r} is not an amount of money")
        number = "0"
    else:
        number = match[1].rstrip(",.").replace("'", "")
        number = number.strip() if number.count(".") == 1 else number.lstrip(",.").strip()
    number = number.replace(" ", "")
    is_point = text.rfind(".") > text.rfind(",")
    number = number.replace(",", "") if is_point else number.replace(".", "").replace(",", ".")
    try:
        amount = Decimal(str(float(Decimal(number))))
    except InvalidOperation as error:
        raise ValueError(f"{raw!r} is not an amount of money") from error
    return -amount if is_negative else amount


_TRUE, _FALSE = frozenset(("true", "yes", "y", "1", "t", "on")), frozenset(("false", "no", "n", "0", "f", "off"))


def _read_boolean(raw: object) -> bool:
    if isinstance(raw, bool | int | float):
        return bool(raw)
    text = raw.strip().lower() if isinstance(raw, str) else ""
    if text not in _TRUE | _FALSE:
        raise ValueError(f"{raw!r} is neither true nor false")
    return text in _TRUE


def _read_list(raw: object) -> tuple[str, ...]:
    items = tuple(sorted(filter(None, map(str.strip, str(raw or "").split(",")))))
    if not items:
        raise ValueError("an empty list")
    return items


def _read_json(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"{raw!r} is not valid JSON")
    try:
        return json.dumps(json.loads(raw), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("a JSON text that is nested too deep") from error


def _read_base64(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"{raw!r} is not a base64 text")
    if is_pattern(raw):
        return raw
    try:
        text = base64.b64decode(raw, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{raw!r} is not a base64 text") from error
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _read_markdown(raw: object) -> str:
    """Normalize headings, list marks, links and blank lines."""
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"{raw!r} is not a Markdown text")
    lines = [line.rstrip(" \t") for line in raw.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    text = re.sub(r"^([^\S\n]*#{1,6})[ \t]+", r"\1 ", text, flags=re.MULTILINE)
    text = re.sub(r"^([^\S\n]*)[*+][ \t]+", r"\1- ", text, flags=re.MULTILINE)
    text = re.sub(r"^[ \t]+-", "  -", text, flags=re.MULTILINE)
    text = _replace_inside("[", "]", text, lambda inner: " ".join(inner.split()))
    return _replace_inside("(", ")", text, lambda inner: inner.strip() or inner[-1]).strip()


def _replace_inside(begin: str, end: str, text: str, change: Callable[[str], str]) -> str:
    """Change the text between brackets; the search ends at the last closing one, so that time is linear."""
    head, closing, tail = text.rpartition(end)
    pattern = rf"\{begin}([^\{end}]+)\{end}"
    return re.sub(pattern, lambda match: f"{begin}{change(match[1])}{end}", head + closing) + tail


def _read_name(raw: object) -> str:
    if raw is None:
        raise ValueError("no name")
    return str(raw).lower().strip() if raw else ""


def _is_alike(ours: str, theirs: str) -> bool:
    """Return True if two names are at least 80 % similar, ignoring the order of words."""
    first, second = (" ".join(sorted(re.sub(r"[^a-z0-9_]+", " ", name).split())) for name in (ours, theirs))
    if not ours or not theirs:
        return ours == theirs
    if not first or not second:
        return False
    return round(200 * _common_length(first, second) / (len(first) + len(second))) >= 80


def _common_length(first: str, second: str) -> int:
    """Return the length of the longest common subsequence of two short texts."""
    row = [0] * (len(second) + 1)
    for char in first:
        before = 0
        for place, its in enumerate(second, 1):
            before, row[place] = row[place], before + 1 if char == its else max(row[place], row[place - 1])
    return row[-1]


def _overlap(ours: Sequence[object], theirs: Sequence[object]) -> bool:
    return bool(set(ours) & set(theirs))


def _any_pair(is_near: Callable[[Any, Any], bool]) -> Callable[[Sequence[Any], Sequence[Any]], bool]:
    return lambda ours, theirs: any(is_near(first, second) for first in ours for second in theirs)


def _near(least: float, share: float) -> Callable[[Sequence[float], Sequence[float]], bool]:
    return _any_pair(lambda first, second: abs(first - second) <= max(least, share * max(first, second)))


def _is_near_place(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return all(abs(ours - theirs) <= 1e-5 for ours, theirs in zip(first, second, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Parser and comparison of a type; `is_exact`: letters and marks count; texts above `max_chars` are rejected."""

    read: Callable[[Any], Any]
    is_same: Callable[[Sequence[Any], Sequence[Any]], bool] = _overlap
    is_exact: bool = False
    max_chars: int = 10**6


_NUMBER = _Kind(_read_number)
KINDS: Mapping[str, _Kind] = {
    "string": _Kind(_read_string, _is_same_string),
    "number": _NUMBER,
    "integer": _NUMBER,
    "boolean": _Kind(_read_boolean),
    "currency": _Kind(_read_currency, lambda ours, theirs: abs(ours[0] - theirs[0]) <= Decimal("0.1"), max_chars=200),
    "distance": _Kind(read_distance, _near(10, 0.02), max_chars=200),
    "duration": _Kind(read_duration, _near(180, 0.1), max_chars=200),
    "date": _Kind(read_date, max_chars=200),
    "month": _Kind(read_month, max_chars=200),
    "coordinates": _Kind(read_coordinates, lambda ours, theirs: _is_near_place(ours[0], theirs[0]), max_chars=200),
    "location-name": _Kind(_read_name, _any_pair(_is_alike)),
    "string_list": _Kind(_read_list),
    "json": _Kind(_read_json),
    "markdown": _Kind(_read_markdown, is_exact=True),
    "base64": _Kind(
        _read_base64,
        lambda ours, theirs: _fits(ours, theirs, re.DOTALL) or _fits(theirs, ours, re.DOTALL) or _overlap(ours, theirs),
        is_exact=True,
    ),
}
"""All types by their names in schemas; addresses are parsed by `verified_urls`."""
