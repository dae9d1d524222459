"""Type into fields, format dates and times as a field shows them, clear fields, press keys, open addresses."""

import re
from dataclasses import replace
from datetime import date, datetime

from apps.literal.do_pointer import report_missing
from apps.literal.find_field import Field, find_field
from apps.literal.find_text import find_whole
from apps.literal.screen import OcrScreen, find_changed_regions
from apps.literal.step_outcome import Done, RunCode, StepOutcome, StepPlans, StepView, at, click, replace_text
from apps.literal.steps import ClearField, OpenAddress, PressKeys, TypeInto
from apps.literal.targets import ElementTarget
from apps.literal.verify_typed import Part, check_typed, note_typed
from visual_tools.box import Box

_READ = "%Y-%m-%d|%Y/%m/%d|%d.%m.%Y|%m/%d/%Y|%B %d, %Y|%b %d, %Y|%d %B %Y|%d %b %Y|%B %d %Y|%Y%m%d".split("|")
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
    date_format = _find_order(shown)
    if date_format is None:
        return None
    written = date_format[1].join(
        {"d": f"{day.day:02}", "m": f"{day.month:02}", "y": f"{day.year:04}"}[part] for part in date_format[0]
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


def plan_type(step: TypeInto, view: StepView) -> StepOutcome:
    """Click the field, replace its contents and read them back; then press Enter if requested."""
    after = ("pyautogui.press('enter')",) if step.enter else ()
    if step.field is None:
        return RunCode(code=(f"pyautogui.write({step.text!r})", *after), thought="I type into the focused element.")
    if view.progress.last == "enter" and view.before is not None:
        return _check_sent(step.field, view.sight.back(2) or view.before, view.before, view.now)
    if view.progress.last == "press":
        return Done("I clicked the button next to it.")
    move = type_and_check(step.field, step.text, view, append=step.append)
    if isinstance(move, Done) and after:
        return RunCode(code=after, thought=move.thought, phase="enter", notes=move.notes)
    return move


def _check_sent(field: ElementTarget, empty: OcrScreen, before: OcrScreen, now: OcrScreen) -> StepOutcome:
    """Check the effect of Enter; if only the field changed, press the button next to it."""
    text_field = find_field(empty, field, kind="text")
    if text_field is None or find_changed_regions(before, now, text_field.box_px.padded(4)):
        return Done("Enter submitted it.")
    box = text_field.box_px
    beside = [
        hit
        for word in _SENDING
        for hit in find_whole(now, word)
        if hit.button is not None and hit.box_px.overlap_y(box) > 0 and not box.contains(hit.box_px)
    ]
    if not beside:
        return Done("Nothing changed.")
    hit = min(beside, key=lambda hit: abs(hit.box_px.left - box.right))
    return click(now, hit.point, "Enter had no effect; I click the button.", "press")


def type_and_check(field: ElementTarget, text: str, view: StepView, *, append: bool = False) -> StepOutcome:
    """Type into a field and check the result; try once more if the field did not change."""
    tries = view.progress.count("type")
    if view.progress.last == "type" and view.before is not None:
        typed_into = find_field(view.before, field, kind="text")
        if typed_into is None:
            return Done("I typed it.")
        shown = format_like(text, typed_into.text)
        part: Part = "end" if append else "whole"
        checked = check_typed(text, typed_into, view.before, view.now, shown=shown, part=part)
        if isinstance(checked, Done):
            return replace(checked, notes=note_typed(view.progress.index, typed_into, view.now))
        if tries >= _MAX_TRIES or "did not change" not in checked.reason:
            return checked
    elif view.progress.last == "type":
        return Done("I typed it.")
    text_field = find_field(view.now, field, kind="text")
    if text_field is None:
        return report_missing(view.now, field)
    return RunCode(
        code=type_into(text_field, text, view.now, append=append),
        thought=f"The field is {text_field.why}.",
        phase="type",
    )


def type_into(field: Field, text: str, screen: OcrScreen, *, append: bool = False) -> tuple[str, ...]:
    """Return code that sets a field's text; dates in the order that the field shows."""
    box = field.box_px
    if append:
        click_field = f"pyautogui.click({at(screen, field_point(box))})"
        return (click_field, "pyautogui.hotkey('ctrl', 'end')", f"pyautogui.write({text!r})")
    shown = format_like(text, field.text)
    first_part = box.left + min(14.0, box.width / 6), box.center[1]  # from which native date fields accept digits
    point = field_point(box) if shown is None else first_part
    return replace_text(screen, point, f"pyautogui.write({shown or text!r})")


def field_point(box: Box) -> tuple[float, float]:
    """Return the point to click in a field: its centre, or near the top of a large one."""
    return box.center[0], box.center[1] if box.height < 80 else box.top + min(40.0, box.height / 3)


def plan_clear(step: ClearField, view: StepView) -> StepOutcome:
    """Select the contents of a field and delete them."""
    screen = view.now
    field = find_field(screen, step.field)
    if field is None:
        return report_missing(screen, step.field)
    code = replace_text(screen, field_point(field.box_px), "pyautogui.press('delete')")
    return RunCode(code=code, thought=f"The field is {field.why}.")


def plan_press(step: PressKeys, view: StepView) -> StepOutcome:
    """Press keys, or the button "Submit" if a form is to be sent."""
    screen = view.now
    if step.is_submit:
        button = next((hit for hit in find_whole(screen, "Submit") if hit.button), None)
        if button is not None:
            return click(screen, button.point, "The button is visible.")
    keys = ", ".join(map(repr, step.keys))
    if len(step.keys) == 1:
        presses = f", presses={step.times}" if step.times > 1 else ""
        return RunCode(code=(f"pyautogui.press({keys}{presses})",), thought="I press the keys.")
    return RunCode(code=(f"pyautogui.hotkey({keys})",) * step.times, thought="I press the keys.")


def plan_open(step: OpenAddress, view: StepView) -> StepOutcome:
    """Type an address into the address bar."""
    code = ("pyautogui.hotkey('ctrl', 'l')", f"pyautogui.write({step.url!r})", "pyautogui.press('enter')")
    return RunCode(code=code, thought="Ctrl+L focuses the address bar.")


PLANS: StepPlans = {TypeInto: plan_type, ClearField: plan_clear, PressKeys: plan_press, OpenAddress: plan_open}
