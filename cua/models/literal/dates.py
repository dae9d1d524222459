"""Write a date or a time the way a field shows it."""

import re
from datetime import date, datetime

_READ = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%d %B %Y",
    "%d %b %Y",
    "%B %d %Y",
    "%Y%m%d",
)
_LETTERS = re.compile(r"(?<![a-z])([dmyjatg]{1,4})\s*([./-])\s*([dmyjatg]{1,4})\s*\2\s*([dmyjatg]{1,4})(?![a-z])", re.I)
_DIGITS = re.compile(r"\b(\d{1,4})\s*([./-])\s*(\d{1,2})\s*\2\s*(\d{1,4})\b")
_CLOCK_FIELD = re.compile(r"^$|[-–—一]{1,2}\s*[:.]?\s*[-–—一]{1,2}|\d{1,2}:\d{2}\s*[AP]M", re.I)
_MONTH_FIELD = re.compile(
    r"^-{3,}\s*-{2,}$|^(?:january|february|march|april|may|june|july|august|september|october|november|december)\s+\d{4}$",
    re.I,
)


def parse_date(text: str) -> date | None:
    """A date written in a common way; slashes are read month first, dots day first."""
    for pattern in _READ:
        try:
            return datetime.strptime(text.strip(), pattern).date()
        except ValueError:
            continue
    return None


def format_like(text: str, shown: str) -> str | None:
    """`text` as a date or time in the format that a field shows.

    Args:
        text: What shall be typed.
        shown: What the field holds: a placeholder such as "mm/dd/yyyy", or a date.

    Returns:
        The text to type, or None when it is no date or the field shows no format.
    """
    clock = _format_clock(text, shown)
    if clock is not None:
        return clock
    moment = re.fullmatch(r"(.+?)[T ](\d{1,2}:\d{2})(?::\d{2})?", text.strip())
    day = parse_date(moment[1] if moment is not None else text)
    if day is None:
        return _format_month(text, shown)
    order = _find_order(shown)
    if order is None:
        return None
    written = order[1].join(
        {"d": f"{day.day:02}", "m": f"{day.month:02}", "y": f"{day.year:04}"}[part] for part in order[0]
    )
    return f"{written}\t{moment[2]}" if moment is not None else written


def _format_clock(text: str, shown: str) -> str | None:
    """A time as fields with parts for hours, minutes and half of the day take it: "9:37 pm" is typed "09:37PM"."""
    time = re.fullmatch(r"(\d{1,2})[:.](\d{2})\s*([ap])\.?m\.?", text.strip(), re.I)
    if time is None or _CLOCK_FIELD.search(shown) is None:
        return None
    return f"{int(time[1]):02}:{time[2]}{time[3].upper()}M"


def _find_order(shown: str) -> tuple[str, str] | None:
    """The order of day, month and year, as "dmy" and the like, and the sign between them."""
    letters = _LETTERS.search(shown)
    if letters is not None:
        parts = "".join(_part(letters[index]) for index in (1, 3, 4))
        return (parts, letters[2]) if sorted(parts) == ["d", "m", "y"] else None
    digits = _DIGITS.search(shown)
    if digits is None:
        return None
    sign = digits[2]
    if len(digits[1]) == 4:
        return "ymd", sign
    if sign == "." or int(digits[1]) > 12:
        return "dmy", sign
    return "mdy", sign


def _part(letters: str) -> str:
    """What letters such as "mm", "TT" or "aaaa" stand for; four of them are a year in any language."""
    if len(letters) == 4 or letters[0] in "yY":
        return "y"
    return "m" if letters[0] in "mM" else "d"


def _format_month(text: str, shown: str) -> str | None:
    month = re.fullmatch(r"(\d{4})-(\d{2})", text.strip())
    if month is None or _MONTH_FIELD.match(shown.strip()) is None or not 1 <= int(month[2]) <= 12:
        return None
    return f"{date(int(month[1]), int(month[2]), 1):%B}\t{month[1]}"
