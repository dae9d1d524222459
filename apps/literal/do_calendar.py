"""Choose a day in a calendar that a date field opens: turn to its month, press the day, see what the field shows."""

import calendar
import re
from collections import Counter
from dataclasses import dataclass
from datetime import date

import numpy as np

from apps.literal.do_keyboard import format_like, parse_date, type_and_check
from apps.literal.do_pointer import miss
from apps.literal.find_field import find_field
from apps.literal.find_text import joined_lines
from apps.literal.moves import Act, Already, Failed, Move, at
from apps.literal.progress import Progress
from apps.literal.screen import Screen, Sight
from apps.literal.targets import Target
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name} | {
    name.lower(): number for number, name in enumerate(calendar.month_abbr) if name
}
_TITLE = re.compile(rf"\b({'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?,?\s*(\d{{4}})\b", re.I)
_MIN_DAYS = 8
_MAX_TURNS = 30
_SLACK = 0.28
_LOOSE = 0.45
_MOST, _HALF = 0.75, 0.5
"""How many of the numbers have to stand where days of the month do, and how near: fewer and less near where the names
of the days tell the columns."""

_WEEKDAYS = ("mo", "tu", "we", "th", "fr", "sa", "su")
_MIN_NAMES = 5
_MIN_ARROW_PX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A month that is shown.

    Attributes:
        month: Its first day.
        title: Where the month's name stands.
        left: The middle of the first column, in pixels.
        right: The middle of the last column.
        top: The middle of the first week's row.
        row_px: From one week to the next.
        first_column: The column of the first day, 0 to 6.
    """

    month: date
    title: Box
    left: float
    right: float
    top: float
    row_px: float
    first_column: int

    def point_of(self, day: int) -> tuple[float, float]:
        """Where a day stands, in pixels."""
        row, column = divmod(self.first_column + day - 1, 7)
        return self.left + column * (self.right - self.left) / 6, self.top + row * self.row_px


def find_calendar(screen: Screen) -> Calendar | None:
    """The month that is shown: a name and a year, and below it numbers that stand as the days of that month do."""
    for line in [*screen.lines, *joined_lines(screen.lines)]:
        said = _TITLE.search(line.text)
        if said is None or len(line.text) > 30:
            continue
        month = date(int(said[2]), _MONTHS[said[1].lower()], 1)
        days, header = _find_days(screen, line.box_px), _find_header(screen, line.box_px)
        fitted = _fit_days(month, days, line.box_px, header)
        if fitted is not None:
            return fitted
    return None


def _find_days(screen: Screen, title: Box) -> list[tuple[int, float, float]]:
    """Numbers from 1 to 31 below a title, with their middles."""
    reach = Box(title.left - 8 * title.width, title.bottom, title.right + 8 * title.width, screen.height)
    return [
        (int(word), *box.center)
        for line in screen.lines
        for word, box in line.words
        if re.fullmatch(r"[1-9]|[12]\d|3[01]", word) and reach.has_point(*box.center)
    ]


def _find_header(screen: Screen, title: Box) -> tuple[int, float, float] | None:
    """The names of the days below a title: which day is the first one, its middle, and from one column to the next."""
    reach = Box(title.left - 8 * title.width, title.bottom, title.right + 8 * title.width, title.bottom + 60)
    names = [
        (_WEEKDAYS.index(word[:2].lower()), box.center[0])
        for line in screen.lines
        if reach.has_point(*line.box_px.center)
        for word, box in line.words
        if word[:2].lower() in _WEEKDAYS
    ]
    if len({weekday for weekday, _ in names}) < _MIN_NAMES or len(names) > 7:
        return None
    first = min(names, key=lambda name: name[1])[0]
    left, column_px = _fit_line([((weekday - first) % 7, x) for weekday, x in names])
    return (first, left, column_px) if first in (6, 0) else None


def _fit_days(
    month: date, days: list[tuple[int, float, float]], title: Box, header: tuple[int, float, float] | None
) -> Calendar | None:
    """Columns and rows of evenly spaced days that most of the numbers stand in; weeks begin on Sunday or Monday."""
    best: tuple[int, Calendar] | None = None
    for first_weekday in (6, 0) if header is None else (header[0],):
        first_column = (month.weekday() - first_weekday) % 7
        cells = [(*divmod(first_column + day - 1, 7), x, y) for day, x, y in days]
        if len({column for _, column, _, _ in cells}) < 3 or len({row for row, _, _, _ in cells}) < 2:
            continue
        left, column_px = header[1:] if header is not None else _fit_line([(column, x) for _, column, x, _ in cells])
        top, row_px = _fit_line([(row, y) for row, _, _, y in cells])
        if column_px < 8 or row_px < 8:
            continue
        slack_x, slack_y = _SLACK * column_px, (_SLACK if header is None else _LOOSE) * row_px
        fitting = sum(
            abs(left + column * column_px - x) <= slack_x and abs(top + row * row_px - y) <= slack_y
            for row, column, x, y in cells
        )
        share = _MOST if header is None else _HALF
        if fitting < max(_MIN_DAYS, share * len(cells)) or top - title.bottom > 6 * row_px:
            continue
        found = Calendar(
            month=month,
            title=title,
            left=left,
            right=left + 6 * column_px,
            top=top,
            row_px=row_px,
            first_column=first_column,
        )
        best = max(best or (0, found), (fitting, found), key=lambda pair: pair[0])
    return best[1] if best is not None else None


def _fit_line(pairs: list[tuple[int, float]]) -> tuple[float, float]:
    """Start and step of evenly spaced places, by medians: a number that was misread does not move them."""
    steps = [(other_x - x) / (other - index) for index, x in pairs for other, other_x in pairs if other > index]
    step = float(np.median(steps)) if steps else 0.0
    return float(np.median([x - index * step for index, x in pairs])), step


def find_turners(screen: Screen, shown: Calendar) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Where to press for the month before and the one after: the marks beside the title."""
    title = shown.title
    half_column = (shown.right - shown.left) / 12
    first, last = round(shown.left - 2 * half_column), round(shown.right + 2 * half_column)
    strip = Box(first, title.top - 3, last, title.bottom + 3).clipped(screen.width, screen.height)
    ink = find_ink(screen.crop(strip))
    rows = ink.mean(axis=1) < 0.5  # the edge of a bar
    marks = [
        ((start + end) / 2 + strip.left, strip.center[1])
        for start, end in find_runs(ink[rows].any(axis=0), max_gap=4)
        if end - start >= _MIN_ARROW_PX
    ]
    before = [mark for mark in marks if mark[0] < title.left - 2]
    after = [mark for mark in marks if mark[0] > title.right + 2]
    if before and after:
        return before[-1], after[0]
    if len(after) >= 2:
        return after[-2], after[-1]
    return None


def plan_date(field: Target, text: str, sight: Sight, progress: Progress) -> Move:
    """Type the date when its field shows how dates are written there; else choose it in the calendar that opens."""
    day = parse_date(text)
    screen = sight.now
    shown = find_calendar(screen)
    if shown is None and progress.count("turn") and progress.last != "pick":
        return Failed(reason="I turned the calendar, and cannot read the month that it shows now")
    if day is None:
        return type_and_check(field, text, sight, progress)
    if progress.last == "type":
        move = type_and_check(field, text, sight, progress)
        if not isinstance(move, Failed) or shown is None:
            return move
    if progress.last == "pick":
        return _check_picked(day, field, sight)
    if shown is None:
        return _open(field, text, sight, progress)
    months = (day.year - shown.month.year) * 12 + day.month - shown.month.month
    if not months:
        code = (f"pyautogui.click({at(screen, shown.point_of(day.day))})", "time.sleep(0.3)")
        return Act(code=code, thought=f"The calendar shows the month; I press the {day.day}.", phase="pick")
    turns = progress.count("turn")
    turners = find_turners(screen, shown)
    if turners is None:
        return Failed(reason="the calendar shows another month, and I see nothing that turns to the next")
    before = find_calendar(sight.before) if turns and sight.before is not None else None
    has_turned = before is not None and before.month != shown.month
    if turns >= _MAX_TURNS or (turns and not has_turned):
        return Failed(reason=f"the calendar shows {shown.month:%B %Y} and does not turn to {day:%B %Y}")
    times = abs(months) if turns else 1  # the first time to see whether it turns
    press = f"pyautogui.click({at(screen, turners[0] if months < 0 else turners[1])})"
    turning = tuple(part for _ in range(min(times, 24)) for part in (press, "time.sleep(0.15)"))
    return Act(code=turning, thought=f"The calendar shows {shown.month:%B %Y}.", phase="turn")


def _open(field: Target, text: str, sight: Sight, progress: Progress) -> Move:
    """Press the field; when no calendar comes of it, type."""
    found = find_field(sight.now, field, kind="text")
    if found is None:
        return miss(sight.now, field)
    if progress.count("open") or format_like(text, found.text) is not None:
        return type_and_check(field, text, sight, progress)
    code = (f"pyautogui.click({at(sight.now, found.box_px.center)})", "time.sleep(0.4)")
    return Act(code=code, thought=f"The field is {found.why}; I press it and look for a calendar.", phase="open")


def _check_picked(day: date, field: Target, sight: Sight) -> Move:
    """The field, or a text that was not there before, shows the day that was pressed."""
    numbers = Counter((day.year, day.month, day.day))
    short = Counter((day.year % 100, day.month, day.day))
    found = find_field(sight.now, field, kind="text")
    texts = [found.text] if found is not None else []
    for text in [*texts, *(line.text for line in sight.now.lines)]:
        said = parse_date(text)
        read = Counter(int(part) for part in re.findall(r"\d+", text))
        if said == day or read in (numbers, short):
            return Already(thought=f'"{text}" is chosen.')
    shows = f'; its field shows "{found.text}"' if found is not None else ""
    return Failed(reason=f"I pressed the day {day:%Y-%m-%d} in the calendar, and do not see that it took{shows}")
