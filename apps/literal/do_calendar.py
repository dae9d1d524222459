"""Choose from what a field opens: calendar days, or suggestions below the typed text."""

import calendar
import re
from dataclasses import dataclass
from datetime import date

import numpy as np

from apps.literal.do_choice import find_again
from apps.literal.do_keyboard import format_like, parse_date, type_and_check, type_into
from apps.literal.do_pointer import report_missing
from apps.literal.do_scroll_and_read import scroll
from apps.literal.find_field import Field, find_field
from apps.literal.find_text import find_button, joined_lines
from apps.literal.screen import OcrScreen, ScreenHistory
from apps.literal.step_outcome import Done, Failed, RunCode, StepOutcome, StepProgress, StepView, at, click, wait
from apps.literal.steps import (
    ClickTarget,
    DragFigures,
    FillFromPage,
    PickSuggestion,
    PlainStep,
    SelectOption,
    SetSlider,
    SetToggle,
    SetValue,
    TypeAnswer,
    TypeInto,
)
from apps.literal.targets import ElementTarget
from apps.literal.verify_typed import check_typed
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs
from visual_tools.ocr import TextLine

_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name} | {
    name.lower(): number for number, name in enumerate(calendar.month_abbr) if name
}
_TITLE = re.compile(rf"\b({'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?,?\s*(\d{{4}})\b", re.I)
_MIN_DAYS = 8
_MAX_TURNS = 30
_SLACK = 0.28
_LOOSE = 0.45
_MOST, _HALF = 0.75, 0.5
"""Shares of the numbers that must match the month's layout, and tolerances in cells.

Both are looser if weekday names mark the columns.
"""

_WEEKDAYS = ("mo", "tu", "we", "th", "fr", "sa", "su")
_MIN_NAMES = 5
_MIN_ARROW_PX = 3


@dataclass(frozen=True, slots=True)
class Calendar:
    """Month shown on the screen.

    Attributes:
        month: Its first day.
        title: Box of the month's name.
        left: Centre of the first column, in pixels.
        right: Centre of the last column.
        top: Centre of the first week's row.
        row_px: Distance between two weeks.
        first_column: Column of the first day, 0 to 6.
    """

    month: date
    title: Box
    left: float
    right: float
    top: float
    row_px: float
    first_column: int

    def point_of(self, day: int) -> tuple[float, float]:
        """Return the position of a day in pixels."""
        row, column = divmod(self.first_column + day - 1, 7)
        return self.left + column * (self.right - self.left) / 6, self.top + row * self.row_px


def find_calendar(screen: OcrScreen) -> Calendar | None:
    """Find a month name with a year, and below it numbers laid out as the days of that month."""
    for line in [*screen.lines, *joined_lines(screen.lines)]:
        title = _TITLE.search(line.text)
        if title is None or len(line.text) > 30:
            continue
        month = date(int(title[2]), _MONTHS[title[1].lower()], 1)
        days, header = _find_days(screen, line.box_px), _find_header(screen, line.box_px)
        fitted = _fit_days(month, days, line.box_px, header)
        if fitted is not None:
            return fitted
    return None


def _find_days(screen: OcrScreen, title: Box) -> list[tuple[int, float, float]]:
    """Return the numbers from 1 to 31 below a title, with their centres."""
    reach = Box(title.left - 8 * title.width, title.bottom, title.right + 8 * title.width, screen.height)
    return [
        (int(word), *box.center)
        for line in screen.lines
        for word, box in line.words
        if re.fullmatch(r"[1-9]|[12]\d|3[01]", word) and reach.has_point(*box.center)
    ]


def _find_header(screen: OcrScreen, title: Box) -> tuple[int, float, float] | None:
    """Return the first weekday of the header below a title, its centre, and the column distance."""
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
    """Fit evenly spaced rows and columns of days to most of the numbers; weeks start on Sunday or Monday."""
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
        if best is None or fitting > best[0]:
            best = fitting, Calendar(month, title, left, left + 6 * column_px, top, row_px, first_column)
    return best[1] if best is not None else None


def _fit_line(pairs: list[tuple[int, float]]) -> tuple[float, float]:
    """Return start and step of evenly spaced positions, using medians so that a misread number has no effect."""
    steps = [(other_x - x) / (other - index) for index, x in pairs for other, other_x in pairs if other > index]
    step = float(np.median(steps)) if steps else 0.0
    return float(np.median([x - index * step for index, x in pairs])), step


def find_month_arrows(screen: OcrScreen, shown: Calendar) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return the points that turn to the previous and the next month: the marks next to the title."""
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


def plan_date(field: ElementTarget, text: str, view: StepView) -> StepOutcome:
    """Type the date if its field shows its date format; otherwise choose it in the calendar that opens."""
    day = parse_date(text)
    screen = view.now
    shown = find_calendar(screen)
    if shown is None and view.progress.count("turn") and view.progress.last != "pick":
        return Failed("after changing the month, the calendar's month cannot be read")
    if day is None:
        return type_and_check(field, text, view)
    if view.progress.last == "type":
        move = type_and_check(field, text, view)
        if not isinstance(move, Failed) or shown is None:
            return move
    if view.progress.last == "pick":
        return _check_picked(day, field, view.sight)
    if shown is None:
        return _open(field, text, view)
    months = (day.year - shown.month.year) * 12 + day.month - shown.month.month
    if not months:
        thought = f"The calendar shows the month; I click day {day.day}."
        return click(screen, shown.point_of(day.day), thought, "pick", pause_s=0.3)
    turns = view.progress.count("turn")
    turners = find_month_arrows(screen, shown)
    if turners is None:
        return Failed("the calendar shows another month, and no button for the next or previous month was found")
    before = find_calendar(view.before) if turns and view.before is not None else None
    has_turned = before is not None and before.month != shown.month
    if turns >= _MAX_TURNS or (turns and not has_turned):
        return Failed(f"the calendar shows {shown.month:%B %Y} and does not change to {day:%B %Y}")
    times = abs(months) if turns else 1  # the first click tests whether it turns
    press = f"pyautogui.click({at(screen, turners[0] if months < 0 else turners[1])})"
    turning = tuple(part for _ in range(min(times, 24)) for part in (press, "time.sleep(0.15)"))
    return RunCode(code=turning, thought=f"The calendar shows {shown.month:%B %Y}.", phase="turn")


def _open(field: ElementTarget, text: str, view: StepView) -> StepOutcome:
    """Click the field; type if no calendar opens."""
    box = find_field(view.now, field, kind="text")
    if box is None:
        return report_missing(view.now, field)
    if view.progress.count("open") or format_like(text, box.text) is not None:
        return type_and_check(field, text, view)
    thought = f"The field is {box.why}; I click it and look for a calendar."
    return click(view.now, box.box_px.center, thought, "open", pause_s=0.4)


def _check_picked(day: date, field: ElementTarget, sight: ScreenHistory) -> StepOutcome:
    """Check that the field, or a new text, shows the chosen day."""
    numbers = (sorted((day.year, day.month, day.day)), sorted((day.year % 100, day.month, day.day)))
    shown = find_field(sight.now, field, kind="text")
    texts = [shown.text] if shown is not None else []
    for text in [*texts, *(line.text for line in sight.now.lines)]:
        if parse_date(text) == day or sorted(map(int, re.findall(r"\d+", text))) in numbers:
            return Done(f'"{text}" is selected.')
    shows = f'; its field shows "{shown.text}"' if shown is not None else ""
    return Failed(f"after clicking the day {day:%Y-%m-%d} in the calendar, the screen does not show that date{shows}")


_MAX_WAITS = 2
_MAX_SCROLLS = 3
_REACH_PX = 60
_MAX_NAMED = 6
_MIN_OPEN = 3
_SEND_NOTCHES = 5


def plan_suggestion(step: PickSuggestion, view: StepView) -> StepOutcome:
    """Type the beginning, read the list below the field, click the matching entry, and check the result."""
    screen, wanted = view.now, step.field or ElementTarget(role="field")
    field = find_field(screen, wanted) or find_again(wanted, view.sight, len(view.progress.phases))
    if field is None:
        return report_missing(screen, wanted)
    if not view.progress.count("open"):
        thought = f"The field is {field.why}; I type the beginning and wait for suggestions."
        return RunCode(code=type_into(field, step.typed, screen), thought=thought, phase="open")
    if view.progress.count("pick"):
        listed = find_suggestions(screen, field)
        readings = [(line, line.text.strip()) for line in screen.lines]  # a last stroke may be the caret
        fitting = [line for line, text in readings if step.fits(text) or step.fits(re.sub(r"[lI|1]$", "", text))]
        if fitting and (len(listed) < _MIN_OPEN or any(line not in listed for line in fitting)):
            return Done(f'"{fitting[0].text}" is selected.')
        return Failed(f'after clicking the suggestion that {step.words}, the field shows "{field.text}"')
    rows = find_suggestions(screen, field)
    fitting = [row for row in rows if step.fits(row.text.strip())]
    if fitting:
        return click(screen, fitting[0].box_px.center, f'The suggestion "{fitting[0].text}" {step.words}.', "pick")
    wrong = _check_beginning(step, wanted, view.sight) if view.progress.last == "open" else None
    return wrong or _search_further(step, screen, field, rows, view.progress)


def _check_beginning(step: PickSuggestion, field: ElementTarget, sight: ScreenHistory) -> Failed | None:
    """Read the typed beginning back; return a failure if the field does not show it."""
    before = sight.before
    typed_into = find_field(before, field) if before is not None else None
    if before is None or typed_into is None:
        return None
    checked = check_typed(step.typed, typed_into, before, sight.now, part="start")
    return checked if isinstance(checked, Failed) else None


def find_suggestions(screen: OcrScreen, field: Field) -> list[TextLine]:
    """Return the lines right below the field, in its column and close to each other."""
    box = field.box_px
    reach = Box(box.left - 12, box.bottom, box.right + _REACH_PX, screen.height)
    rows: list[TextLine] = []
    bottom = box.bottom
    for line in sorted(screen.lines, key=lambda line: line.box_px.top):
        if not reach.has_point(*line.box_px.center) or line.box_px.left < box.left - 12:
            continue
        if line.box_px.top - bottom > 2 * max(line.box_px.height, 12):
            break
        rows.append(line)
        bottom = line.box_px.bottom
    return rows


def _search_further(
    step: PickSuggestion, screen: OcrScreen, field: Field, rows: list[TextLine], progress: StepProgress
) -> StepOutcome:
    if progress.count("wait") < _MAX_WAITS:
        return wait(0.7, "The suggestions may still be loading.")
    if rows and progress.count("find option") < _MAX_SCROLLS:
        code = (f"pyautogui.scroll(-2, {at(screen, rows[-1].box_px.center)})", "time.sleep(0.3)")
        return RunCode(code=code, thought="None of them matches; I scroll the list.", phase="find option")
    seen = ", ".join(f'"{row.text}"' for row in rows[:_MAX_NAMED]) or "none"
    return Failed(f"the field has no suggestion that {step.words}; texts below it: {seen}")


SUBMIT = ClickTarget(target=ElementTarget(text="Submit", role="button"))
_FILLS = (TypeInto, SetValue, SelectOption, SetToggle, PickSuggestion, TypeAnswer, FillFromPage, SetSlider, DragFigures)
_AIMS = (PickSuggestion, DragFigures)
"""Steps that describe a result rather than an input and its field."""
_SENDS = re.compile(r"submit|send|save|ok|go|add|search|apply|enter|done|confirm|continue|next|find", re.I)


def send(last: PlainStep, screen: OcrScreen, *, has_looked: bool) -> RunCode | Failed | None:
    """Handle a run that ends with a filled form whose submit button no step names.

    A single button "Submit" is clicked: such a form is complete only when sent. Other buttons do more than that; next
    to one, input that plain steps typed or ticked is complete as it is.

    Args:
        last: The last step.
        screen: Screen after it.
        has_looked: True if the page was scrolled to see what is below.
    """
    if not isinstance(last, _FILLS):
        return None
    sending = [line for line in screen.lines if _SENDS.fullmatch(line.text.strip())]
    buttons = [(line.text, box) for line in sending if (box := find_button(screen, line.box_px)) is not None]
    if [text.strip().casefold() for text, _ in buttons] == ["submit"]:
        return click(screen, buttons[0][1].center, "All fields are filled in; I submit the form.", "send")
    if not isinstance(last, _AIMS) or (not buttons and has_looked):
        return None
    if not buttons:
        code = (scroll("down", _SEND_NOTCHES, at(screen, screen.box.center)),)
        return RunCode(code=code, thought="I look for a submit button further down.", phase="scroll down")
    reason = f'there is a button "{buttons[0][0]}" that the instruction does not name'
    return Failed(f"the form is filled in but not submitted: {reason}")
