"""Type into fields, format dates and times as a field shows them, clear fields, press keys, open addresses."""

import re
from dataclasses import replace
from datetime import date, datetime

from apps.literal.do_pointer import miss
from apps.literal.find_field import Field, find_field
from apps.literal.find_text import find_text
from apps.literal.moves import Act, Already, Move, Progress, at, hotkey, quote
from apps.literal.read_back import Part, check_typed, note_typed
from apps.literal.screen import Screen, Sight, find_effects
from apps.literal.steps import ClearField, OpenAddress, PressKeys, TypeText
from apps.literal.targets import Target
from apps.literal.text_match import WHOLE

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
    """Parse a date in a common format; slashes mean month first, dots mean day first."""
    for pattern in _READ:
        try:
            return datetime.strptime(text.strip(), pattern).date()
        except ValueError:
            continue
    return None


def format_like(text: str, shown: str) -> str | None:
    """Format `text` as a date or time in the format that a field shows.

    Args:
        text: Text to type.
        shown: Contents of the field: a placeholder such as "mm/dd/yyyy", or a date.

    Returns:
        The text to type, or None if it is not a date or the field shows no format.
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
    """Format a time for fields with parts for hour, minute and AM/PM: "9:37 pm" becomes "09:37PM"."""
    time = re.fullmatch(r"(\d{1,2})[:.](\d{2})\s*([ap])\.?m\.?", text.strip(), re.I)
    if time is None or _CLOCK_FIELD.search(shown) is None:
        return None
    return f"{int(time[1]):02}:{time[2]}{time[3].upper()}M"


def _find_order(shown: str) -> tuple[str, str] | None:
    """Return the order of day, month and year, such as "dmy", and the separator."""
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
    """Return the meaning of letters such as "mm", "TT" or "aaaa"; four of them are a year in any language."""
    if len(letters) == 4 or letters[0] in "yY":
        return "y"
    return "m" if letters[0] in "mM" else "d"


def _format_month(text: str, shown: str) -> str | None:
    month = re.fullmatch(r"(\d{4})-(\d{2})", text.strip())
    if month is None or _MONTH_FIELD.match(shown.strip()) is None or not 1 <= int(month[2]) <= 12:
        return None
    return f"{date(int(month[1]), int(month[2]), 1):%B}\t{month[1]}"


_MAX_TRIES = 2
_SENDING = ("Search", "Go", "Find", "Submit", "Send", "Add", "Enter", "OK")
"""Texts of buttons next to a field that do the same as Enter in it."""

_SELECT_ALL = "pyautogui.hotkey('ctrl', 'a')"


def plan_type(step: TypeText, sight: Sight, progress: Progress) -> Move:
    """Click the field, replace its contents and read them back; then press Enter if requested."""
    after = ("pyautogui.press('enter')",) if step.enter else ()
    if step.field is None:
        return Act(code=(f"pyautogui.write({quote(step.text)})", *after), thought="I type into what has the focus.")
    if progress.last == "enter" and sight.before is not None:
        return _check_sent(step.field, sight.back(2) or sight.before, sight.before, sight.now)
    if progress.last == "press":
        return Already(thought="The button beside it is pressed.")
    move = type_and_check(step.field, step.text, sight, progress, append=step.append)
    if isinstance(move, Already) and after:
        return Act(code=after, thought=move.thought, phase="enter", notes=move.notes)
    return move


def _check_sent(field: Target, empty: Screen, before: Screen, now: Screen) -> Move:
    """Check the effect of Enter; if only the field changed, press the button next to it."""
    found = find_field(empty, field, kind="text")
    if found is None or find_effects(before, now, found.box_px.padded(4)):
        return Already(thought="Enter sent it.")
    box = found.box_px
    beside = [
        place
        for word in _SENDING
        for place in find_text(now, word)
        if place.fit >= WHOLE
        and place.button is not None
        and place.box_px.overlap_y(box) > 0
        and not box.contains(place.box_px)
    ]
    if not beside:
        return Already(thought="Nothing seems to have changed.")
    place = min(beside, key=lambda place: abs(place.box_px.left - box.right))
    return Act(
        code=(f"pyautogui.click({at(now, place.point)})",), thought="Enter did nothing; I press it.", phase="press"
    )


def type_and_check(field: Target, text: str, sight: Sight, progress: Progress, *, append: bool = False) -> Move:
    """Type into a field and check the result; try once more if the field did not change."""
    tries = progress.count("type")
    if progress.last == "type" and sight.before is not None:
        typed_into = find_field(sight.before, field, kind="text")
        if typed_into is None:
            return Already(thought="I typed it.")
        shown = format_like(text, typed_into.text)
        part: Part = "end" if append else "whole"
        checked = check_typed(text, typed_into, sight.before, sight.now, shown=shown, part=part)
        if isinstance(checked, Already):
            return replace(checked, notes=note_typed(progress.index, typed_into, sight.now))
        if tries >= _MAX_TRIES or "did not change" not in checked.reason:
            return checked
    elif progress.last == "type":
        return Already(thought="I typed it.")
    found = find_field(sight.now, field, kind="text")
    if found is None:
        return miss(sight.now, field)
    return Act(
        code=type_into(found, text, sight.now, append=append), thought=f"The field is {found.why}.", phase="type"
    )


def type_into(found: Field, text: str, screen: Screen, *, append: bool = False) -> tuple[str, ...]:
    """Return code that sets a field's text; dates in the order that the field shows."""
    if append:
        return (
            f"pyautogui.click({at(screen, field_point(found))})",
            "pyautogui.hotkey('ctrl', 'end')",
            f"pyautogui.write({quote(text)})",
        )
    shown = format_like(text, found.text)
    point = field_point(found) if shown is None else first_part(found)
    return (f"pyautogui.click({at(screen, point)})", _SELECT_ALL, f"pyautogui.write({quote(shown or text)})")


def field_point(found: Field) -> tuple[float, float]:
    """Return the point to click in a field: its centre, or near the top of a large one."""
    box = found.box_px
    return box.center[0], box.center[1] if box.height < 80 else box.top + min(40.0, box.height / 3)


def first_part(found: Field) -> tuple[float, float]:
    """Return the position of a date's first part, from which native date fields accept digits."""
    return found.box_px.left + min(14.0, found.box_px.width / 6), found.box_px.center[1]


def plan_clear(step: ClearField, screen: Screen) -> Move:
    """Select the contents of a field and delete them."""
    found = find_field(screen, step.field)
    if found is None:
        return miss(screen, step.field)
    code = (f"pyautogui.click({at(screen, field_point(found))})", _SELECT_ALL, "pyautogui.press('delete')")
    return Act(code=code, thought=f"The field is {found.why}.")


def plan_press(step: PressKeys, screen: Screen) -> Move:
    """Press keys, or the button "Submit" if a form is to be sent."""
    if step.is_submit:
        button = next((place for place in find_text(screen, "Submit") if place.fit >= WHOLE and place.button), None)
        if button is not None:
            return Act(code=(f"pyautogui.click({at(screen, button.point)})",), thought="I see the button.")
    if step.times > 1 and len(step.keys) == 1:
        return Act(code=(f"pyautogui.press({quote(step.keys[0])}, presses={step.times})",), thought="Keys, as told.")
    return Act(code=(hotkey(step.keys),) * step.times, thought="Keys, as told.")


def plan_open(step: OpenAddress) -> Move:
    """Type an address into the address bar."""
    code = ("pyautogui.hotkey('ctrl', 'l')", f"pyautogui.write({quote(step.url)})", "pyautogui.press('enter')")
    return Act(code=code, thought="Ctrl+L brings the address bar.")
