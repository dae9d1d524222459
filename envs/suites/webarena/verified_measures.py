"""Distances, durations, dates and places as WebArena-Verified reads them, of plain texts.

Source: the documented types of webarena-verified 1.2.3.
"""

import calendar
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date

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


def read_duration(raw: object) -> float:
    """Seconds, of `1h 35min`, `2 hours, 5 minutes`, `1:35:00`, `4:13`; a number without a unit is none.

    Raises:
        ValueError: It is none.
    """
    text = re.sub(r"(?<!\d)(\d+):(\d+)\s*hours?", r"\1h\2m", str(raw)) if raw else ""
    text = " ".join(text.split())  # blanks in a row would be shared out in many ways
    if not text or re.fullmatch(r"[-+]?[\d.]+", text):
        raise ValueError(f"{raw!r} is no duration with a unit such as min")
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.lstrip("+-|").strip()
    parts = _TIME_PARTS.fullmatch(text)
    if parts is not None:
        return sign * math.fsum(
            float(part) * unit_s for part, (_, unit_s) in zip(parts.groups(), _TIMES, strict=True) if part
        )
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        raise ValueError(f"{raw!r} is no duration")
    weeks, days, more_days, hours, minutes, few_minutes, seconds = (float(part or 0) for part in clock.groups())
    whole_days = 7 * weeks + days + more_days
    return sign * (86400 * whole_days + 3600 * hours + 60 * (minutes + few_minutes) + seconds)


_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_WEEKDAYS = frozenset(name.lower() for names in (calendar.day_name, calendar.day_abbr) for name in names)
_CLOCK_TIME = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[ap]\.?m\b\.?)?(?:\s*(?:z|utc|[+-]\d{2}:?\d{2}))?")


def _date_parts(text: str) -> tuple[int | None, int | None, int | None]:
    """Year, month, day of a text; None for those that it does not say.

    Raises:
        ValueError: It has something else, too.
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
        raise ValueError(f"{text!r} is no date")
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
    raise ValueError(f"{text!r} is no date")


def _with_named_month(month: int, numbers: Sequence[str], text: str) -> tuple[int | None, int, int | None]:
    years = [number for number in numbers if len(number) > 2 or int(number) > 31]
    days = [number for number in numbers if number not in years]
    if len(days) == 2 and not years:
        days, years = days[:1], days[1:]
    if len(years) > 1 or len(days) > 1:
        raise ValueError(f"{text!r} is no date")
    return _whole_year(int(years[0])) if years else None, month, int(days[0]) if days else None


def _whole_year(year: int) -> int:
    """Two digits are of the century before and behind now, as date parsers take them."""
    if year >= 100:
        return year
    now = date.today().year
    year += now // 100 * 100
    return year - 100 if year >= now + 50 else year + 100 if year < now - 50 else year


def read_date(raw: object) -> str:
    """A whole date in its ISO form; other words than those of dates make it none.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(raw, str) or not raw:
        raise ValueError(f"{raw!r} is no date")
    year, month, day = _date_parts(raw)
    if year is None or month is None or day is None:
        raise ValueError(f"{raw!r} is no whole date")
    return date(year, month, day).isoformat()


def read_month(raw: object) -> int:
    """1 to 12, of a number, a name or a date.

    Raises:
        ValueError: It is none.
    """
    if (isinstance(raw, int | float) and raw == int(raw)) or (isinstance(raw, str) and re.fullmatch(r"[-+]?\d+", raw)):
        number = int(raw)
    elif isinstance(raw, str) and raw:
        number = _date_parts(raw)[1] or 0
    else:
        raise ValueError(f"{raw!r} is no month")
    if not 1 <= number <= 12:
        raise ValueError(f"{raw!r} is no month")
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
    """Meters; a number without a unit is none.

    Raises:
        ValueError: It is none.
    """
    text = re.sub(r"(?<!\d)(\d+(?:\.\d+)?)\s*k(?=\s|$)", r"\1 km", str(raw)) if raw else ""
    found = re.fullmatch(r"([-+]?(?:[\d,]*\.)?[\d,]+(?:e[-+]?\d+)?)\s*\*?\s*([a-z]+)", text.strip())
    if found is None or found[2] not in _METERS_OF:
        raise ValueError(f"{raw!r} is no distance with a unit such as km")
    return float(found[1].replace(",", "")) * _METERS_OF[found[2]]


def is_pair(raw: Sequence[object]) -> bool:
    """Whether a list may be a latitude and a longitude."""
    return len(raw) == 2 and all(isinstance(one, int | float | str) for one in raw)


_ANGLE = (
    r"([nsew])?\s*([-+]?\d+(?:\.\d+)?)"
    r"\s*(?:[°d*\s]\s*(?:(\d+(?:\.\d+)?)\s*['m]\s*)?(?:(\d+(?:\.\d+)?)\s*[\"s]\s*)?)?([nsew])?"
)
_POINT = re.compile(rf"{_ANGLE}\s*[,;/\s]\s*{_ANGLE}")


def read_coordinates(raw: object) -> tuple[float, float]:
    """Latitude and longitude in degrees, of an object, a pair or a text.

    Raises:
        ValueError: They are none.
    """
    if isinstance(raw, Mapping):
        names = {key: key.lower() for key in raw if isinstance(key, str) and len(key) >= 2}
        found = [next((key for key, low in names.items() if word.startswith(low) or low == short), None)
                 for word, short in (("latitude", ""), ("longitude", "lng"))]  # fmt: skip
        if None in found:
            raise ValueError(f"{raw!r} has no latitude and longitude")
        raw = tuple(raw[key] for key in found)
    if isinstance(raw, list | tuple) and len(raw) == 2:
        latitude, longitude = float(raw[0]), float(raw[1])
    elif isinstance(raw, str) and (match := _POINT.fullmatch(raw.strip())):
        latitude, longitude = _degrees(match.groups()[:5], "s"), _degrees(match.groups()[5:], "w")
    else:
        raise ValueError(f"{raw!r} is no place")
    if not -90 <= latitude <= 90 or not math.isfinite(longitude):
        raise ValueError(f"{raw!r} is no place")
    return latitude, (longitude + 180) % 360 - 180 if abs(longitude) > 180 else longitude


def _degrees(parts: Sequence[str | None], negative: str) -> float:
    before, degrees, minutes, seconds, behind = parts
    size = abs(float(degrees or 0)) + float(minutes or 0) / 60 + float(seconds or 0) / 3600
    is_below = (degrees or "").startswith("-") != (negative in (before, behind))
    return -size if is_below else size
