"""Choose list options, set toggles and fields, and bring sliders and spinners to a value."""

import re
from dataclasses import replace

from apps.literal.do_keyboard import type_and_check
from apps.literal.do_pointer import locate, report_missing
from apps.literal.field_boxes import find_inputs
from apps.literal.find_field import Field, Kind, choose, find_field
from apps.literal.find_kind import FoundToggle, Slider, find_sliders, find_toggle
from apps.literal.find_text import TextHit, find_text, find_whole, name_nearest
from apps.literal.screen import OcrScreen, ScreenHistory, find_bounds, find_changed_boxes, has_changed_inside
from apps.literal.step_outcome import Done, Failed, NotFound, RunCode, StepOutcome, StepView, at, click, replace_text
from apps.literal.steps import SelectOption, SetSlider, SetToggle, SetValue
from apps.literal.targets import AnchorRelation, ElementTarget
from apps.literal.text_match import WHOLE, alphanumeric, fit_texts
from apps.literal.verify_typed import note_typed
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs
from visual_tools.ocr import TextLine
from visual_tools.widgets import find_toggles, has_down_arrow

_MIN_ROWS = 3
_MAX_SCROLLS = 8
_MAX_NAMED = 8
_MIN_LIST_PX = 36
_ROW_INDENT_PX = 14


def plan_listbox(step: SelectOption, view: StepView, field: Field) -> StepOutcome:
    """Click the row; for the second and later options, hold Ctrl to keep the earlier ones selected."""
    screen, box = view.now, field.box_px
    row = find_row_in(screen, step.option.text, box)
    if row is not None:
        return press_row(screen, row, is_more=step.is_more)
    tries = view.progress.count("find option")
    if tries < _MAX_SCROLLS:
        notches = 30 if tries == 0 else -1  # scroll to the start first: the row may be above the visible part
        code = (f"pyautogui.scroll({notches}, {at(screen, box.center)})", "time.sleep(0.3)")
        return RunCode(code=code, thought="The row is not visible; I scroll the list.", phase="find option")
    seen = ", ".join(f'"{line.text}"' for line in screen.lines_in(box)[:_MAX_NAMED])
    return Failed(f'the list has no row "{step.option.text}"; the last visible rows: {seen}')


def press_row(screen: OcrScreen, row: TextHit, *, is_more: bool) -> RunCode:
    """Click a visible row, with Ctrl held if others are to stay selected."""
    press = click(screen, row.point, f'The list has a row "{row.line.text}".')
    return (
        replace(press, code=("pyautogui.keyDown('ctrl')", *press.code, "pyautogui.keyUp('ctrl')")) if is_more else press
    )


def find_row_in(screen: OcrScreen, option: str, box: Box) -> TextHit | None:
    """Return the row of an option among the lines of a box; None if the box has one line or no such row."""
    if len(screen.lines_in(box)) < 2:
        return None
    return next((hit for hit in find_whole(screen, option) if box.has_point(*hit.box_px.center)), None)


def find_list_row(screen: OcrScreen, option: str) -> TextHit | None:
    """Return the row of an option in any always-open list: a box that contains only lines of text."""
    for box in screen.boxes:
        if not _MIN_LIST_PX < box.height < 0.6 * screen.height or box.width > 0.5 * screen.width:
            continue
        lefts = [line.box_px.left for line in screen.lines_in(box)]
        if len(lefts) < 2 or max(lefts) - min(lefts) > 4 or lefts[0] - box.left > _ROW_INDENT_PX:
            continue
        row = find_row_in(screen, option, box)
        if row is not None and not find_toggles(screen.crop(box)):
            return row
    return None


_MAX_LIST_SCROLLS = 6
_MAX_TOGGLES = 2
_MIN_CUT_CHARS = 2
_ARROW_PX = 26
_DOTS = re.compile(r"\s*(?:…|\.{2,}|‥)\s*$")


def plan_toggle(step: SetToggle, view: StepView) -> StepOutcome:
    """Click the toggle next to a text unless it has the wanted state, then check the result."""
    screen, tries = view.now, view.progress.count("toggle")
    toggle = find_toggle(screen, step.target)
    if toggle is not None and tries and toggle.is_on != step.is_on and tries >= _MAX_TOGGLES:
        return Failed(f'"{toggle.label}" is still {"on" if toggle.is_on else "off"} after the click')
    if toggle is not None:
        return _click_toggle(screen, toggle, is_on=step.is_on)
    if tries:
        return _check_text_pressed(step, view.sight)
    choice = choose(screen, step.target)
    if choice is None:
        return report_missing(screen, step.target)
    hit = choice.hit
    if not step.is_on or hit.button is None:
        nearest = tuple(name_nearest(screen, step.target.text))
        return NotFound(what=f'a checkbox or switch next to "{hit.line.text}"', nearest=nearest)
    thought = f"{choice.why}. It has no checkbox next to it, but is a button, which may be a switch."
    return click(screen, hit.point, thought, "toggle")


def _check_text_pressed(step: SetToggle, sight: ScreenHistory) -> StepOutcome:
    """Check that something next to a text without a toggle changed after the text was clicked."""
    before = sight.before
    choice = choose(before, step.target) if before is not None else None
    if before is None or choice is None:
        return Failed(f"no checkbox or switch found next to {step.target}, so its state is unknown")
    row = choice.hit.line.box_px.padded(120, 16)
    if any(box.intersection(row) > 0 for box in find_changed_boxes(before, sight.now)):
        return Done("Its look changed after the click.")
    return Failed(
        f'no checkbox or switch found next to "{choice.hit.line.text}", and clicking the text changed nothing'
    )


def _click_toggle(screen: OcrScreen, toggle: FoundToggle, *, is_on: bool) -> StepOutcome:
    state = "on" if toggle.is_on else "off"
    if toggle.is_on == is_on:
        return Done(f'"{toggle.label}" is {state}.')
    return click(screen, toggle.box_px.center, f'The box next to "{toggle.label}" is {state}.', "toggle")


def plan_set(step: SetValue, view: StepView) -> StepOutcome:
    """Choose from a list if the field is one, otherwise type."""
    screen, selection = view.now, SelectOption(option=ElementTarget(text=step.value), field=step.field)
    if view.progress.count("open"):
        return plan_select(selection, view)
    if view.progress.last == "type":
        return type_and_check(step.field, step.value, view)
    field = find_field(screen, step.field)
    if field is None:
        return report_missing(screen, step.field)
    if has_down_arrow(screen.crop(field.box_px)):
        return plan_select(selection, view)
    return type_and_check(step.field, step.value, view)


def plan_select(step: SelectOption, view: StepView) -> StepOutcome:
    """Open the list, then click the row."""
    screen = view.now
    if step.field is None:
        return _select_anywhere(step, view)
    field = find_field(screen, step.field, kind="list")
    if field is None and step.is_more:
        field = find_again(step.field, view.sight, len(view.sight.images), kind="list")
    is_list = field is not None and has_down_arrow(screen.crop(field.box_px))
    if not view.progress.count("open"):
        if field is not None and not is_list and len(screen.lines_in(field.box_px)) >= _MIN_ROWS:
            return plan_listbox(step, view, field)
        if field is None:
            return report_missing(screen, step.field)
        if not is_list:
            row = find_row_in(screen, step.option.text, field.box_px)
            if row is not None:
                return press_row(screen, row, is_more=step.is_more)
            group = AnchorRelation(kind="inside", anchor=step.field.text)  # a group of radio buttons
            toggle = find_toggle(screen, ElementTarget(text=step.option.text, relation=group))
            if toggle is not None and view.progress.count("toggle") >= _MAX_TOGGLES and not toggle.is_on:
                return Failed(f'"{toggle.label}" is still off after the click')
            if toggle is not None:
                return _click_toggle(screen, toggle, is_on=True)
        if shows_option(screen, field, step.option.text):
            return Done(f'"{step.option.text}" is already selected.')
        return click(screen, field.box_px.center, f"The list is {field.why}; I open it first.", "open")
    if view.progress.last in ("pick", "keys"):
        field = field or find_again(step.field, view.sight, len(view.progress.phases), kind="list")
        return _verify(step, step.field, field, view)
    row = _find_row(screen, step.option.text, field, view.before)
    if row is not None:
        return click(screen, row.point, f'The row "{row.line.text}" is there.', "pick")
    if view.progress.count("find option") < _MAX_LIST_SCROLLS and field is not None:
        point = field.box_px.center[0], min(field.box_px.bottom + 40.0, screen.height - 5.0)
        scrolled = (f"pyautogui.scroll(-1, {at(screen, point)})", "time.sleep(0.3)")
        return RunCode(code=scrolled, thought="The row is not visible; I scroll the list.", phase="find option")
    keys = (f"pyautogui.write({step.option.text!r})", "pyautogui.press('enter')")
    return RunCode(code=keys, thought="The row is not seen; I type its name.", phase="keys")


def find_again(field: ElementTarget, sight: ScreenHistory, oldest: int, kind: Kind = "") -> Field | None:
    """Find a field that a selected row or a suggestion hides: what is now at its position on an earlier screen.

    Args:
        field: The field.
        sight: Current and earlier screens.
        oldest: Number of actions since it may have been visible.
        kind: As for `find_field`.
    """
    for earlier in map(sight.back, range(oldest, 0, -1)):
        was = find_field(earlier, field, kind=kind) if earlier is not None else None
        if was is not None:
            return replace(was, texts=tuple(line.text for line in sight.now.lines_in(was.box_px)))
    return None


def _verify(step: SelectOption, target: ElementTarget, field: Field | None, view: StepView) -> StepOutcome:
    """Check that the field shows the option after the click; otherwise use keys, which native lists accept."""
    option, screen = step.option.text, view.now
    if field is None:
        return Failed(f'after clicking the row "{option}", the list {target} is no longer visible')
    if shows_option(screen, field, option):
        if (
            view.progress.last == "keys" and re.search(r"\d", option) and not _is_whole(field, option)
        ):  # one of a series
            return Failed(f'I typed "{option}", and the list shows only "{field.text}"')
        return Done(f'"{option}" is selected.', notes=note_typed(view.progress.index, field, screen))
    may_show = _may_show(field, option, view)
    if view.progress.last == "pick" and not may_show and has_down_arrow(screen.crop(field.box_px)):
        typed = (
            f"pyautogui.click({at(screen, field.box_px.center)})",
            f"pyautogui.write({option!r})",
            "pyautogui.press('enter')",
        )
        return RunCode(code=typed, thought=f'The list still shows "{field.text}"; I try the keyboard.', phase="keys")
    if view.progress.count("pick") and may_show:
        return Done(f'I clicked the row "{option}"; the list shows "{field.text}".')
    if view.progress.count("pick"):
        return Failed(f'after clicking the row "{option}", the list {target} shows "{field.text}"')
    return Failed(f'the list {target} has no row "{option}"; similar texts: {", ".join(name_nearest(screen, option))}')


def shows_option(screen: OcrScreen, field: Field, option: str) -> bool:
    """Return True if a closed list shows an option, in full or truncated at the list's end ("Unit…")."""
    return _is_whole(field, option) or any(
        _is_cut(screen, field.box_px, line, option) for line in screen.lines_in(field.box_px)
    )


def _is_whole(field: Field, option: str) -> bool:
    """Return True if a closed list shows an option in full."""
    return any(fit.score >= WHOLE for text in (*field.texts, field.text) for fit in fit_texts(option, text))


def _is_cut(screen: OcrScreen, box: Box, line: TextLine, option: str) -> bool:
    """Return True if a line is the start of an option and reaches the end of its box or ends in dots."""
    shown = alphanumeric(_DOTS.sub("", line.text))
    if len(shown) < _MIN_CUT_CHARS or not alphanumeric(option).startswith(shown):
        return False
    room = box.right - line.box_px.right
    return _DOTS.search(line.text) is not None or room < _ARROW_PX + line.box_px.height


def _may_show(field: Field, option: str, view: StepView) -> bool:
    """Return True if the field shows part of the option, or is unreadable and has changed."""
    legible = [text for text in field.texts if len(text) > 2]
    if legible:
        return any(fit_texts(option, text) or fit_texts(text, option) for text in legible)
    before = view.sight.back(min(len(view.progress.phases), len(view.sight.images) - 1))
    return before is not None and has_changed_inside(before, view.now, field.box_px)


def _find_row(screen: OcrScreen, option: str, field: Field | None, before: OcrScreen | None) -> TextHit | None:
    """Return the option's row in an open list, below or above the field; texts that just appeared come first."""
    hits = [hit for hit in find_text(screen, option) if hit.fit >= 0.7]
    hits = [hit for hit in hits if before is None or not _was_shown(hit, before)] or hits
    if field is None:
        return hits[0] if hits else None
    box = field.box_px
    reach = Box(box.left - 30, 0, box.right + 60, screen.height)
    rows = [hit for hit in hits if reach.overlap_x(hit.box_px) > 0 and not box.has_point(*hit.box_px.center)]
    rows.sort(key=lambda hit: (hit.fit < WHOLE, _row_distance(hit.box_px, box)))
    return rows[0] if rows else None


def _was_shown(hit: TextHit, before: OcrScreen) -> bool:
    """Return True if the same text was at this position before the list was opened."""
    return any(
        alphanumeric(line.text) == alphanumeric(hit.line.text) and line.box_px.intersection(hit.line.box_px) > 0
        for line in before.lines
    )


def _row_distance(row: Box, field: Box) -> float:
    below = row.top - field.bottom
    return (below if below >= -4 else 200.0 + field.top - row.bottom) + 0.5 * abs(row.left - field.left)


def _select_anywhere(step: SelectOption, view: StepView) -> StepOutcome:
    screen = view.now
    row = find_list_row(screen, step.option.text) if step.option.relation is None else None
    if row is not None and not view.progress.phases:
        return press_row(screen, row, is_more=step.is_more)
    toggle = find_toggle(screen, step.option)
    is_beside = toggle is not None and toggle.label_box.left - toggle.box_px.right < 40
    if is_beside or view.progress.count("toggle"):
        return plan_toggle(SetToggle(target=step.option), view)
    point, why = locate(step.option, screen)
    if point is None:
        return report_missing(screen, step.option)
    return click(screen, point, why)


_NUMBER = re.compile(r"[-−–一]?\d+(?:\.\d+)?")
_REACH_PX = 60
_MAX_NUDGES = 6
_SURE = 0.75
_MAX_PRESSES = 400


def read_number_beside(screen: OcrScreen, slider: Slider, others: list[Slider]) -> float | None:
    """Return the number nearest to a slider and not nearer to another slider."""
    box = slider.box_px
    beside = Box(box.right + 2, box.top - 4, box.right + 48, box.bottom + 4)
    right = _read_lone(screen, beside.clipped(screen.width, screen.height))
    if right is not None:
        return right
    ranked = []
    for line in screen.lines:
        number, gap = _to_number(line.text), _gap(line.box_px, box)
        if number is not None and gap <= _REACH_PX and _belongs(line.box_px, slider, others):
            ranked.append((gap, number))
    if ranked:
        return min(ranked)[1]
    # A single digit, which the text detector may miss, right below the slider's left half.
    below = Box(box.left - 6, box.bottom, box.left + 48, box.bottom + max(14, round(screen.text_height_px * 1.6)))
    return _read_lone(screen, below.clipped(screen.width, screen.height))


def _belongs(number: Box, slider: Slider, others: list[Slider]) -> bool:
    """Return True if a number belongs to a slider; of stacked sliders, each has the number below it."""
    middle = number.center[1]
    stacked = [other for other in others if other.box_px.overlap_x(slider.box_px) > 0 and not slider.is_vertical]
    if not stacked:
        return not any(_gap(number, other.box_px) < _gap(number, slider.box_px) for other in others)
    below = [other.box_px.center[1] for other in stacked if other.box_px.center[1] > slider.box_px.center[1]]
    return slider.box_px.center[1] < middle < min(below, default=middle + 1)


def _gap(box: Box, other: Box) -> float:
    return float(max(0, -box.overlap_x(other)) + max(0, -box.overlap_y(other)))


def _read_lone(screen: OcrScreen, box: Box) -> float | None:
    """Return the number that makes up all of the ink in a box; None if there is none."""
    ink = find_ink(screen.crop(box))
    rows = find_runs(ink.any(axis=1))
    first, last = max(rows, key=lambda run: run[1] - run[0], default=(0, 0))
    bounds = find_bounds(ink[first:last])
    if bounds is None:
        return None
    inside = ink[first:last][bounds.slices]
    tight = bounds.moved(box.left, box.top + first)
    is_framed = min(inside[0].mean(), inside[-1].mean(), inside[:, 0].mean(), inside[:, -1].mean()) > 0.6
    if not 4 <= tight.height <= 40 or tight.width > 4 * tight.height or is_framed:
        return None
    crop = screen.crop(tight.padded(max(4, tight.height // 2), 1))
    text, confidence = screen.engine.read_crop(crop, scale=32 / tight.height, is_latin=True)
    return _to_number(text.replace("O", "0").replace("o", "0").replace("l", "1")) if confidence > _SURE else None


def _to_number(text: str) -> float | None:
    """Return the number that makes up a text, whose sign OCR may read as a dash; None for any other text."""
    number = _NUMBER.fullmatch(text.strip())
    return float(re.sub(r"[−–一]", "-", number[0])) if number is not None else None


def plan_slider(step: SetSlider, view: StepView) -> StepOutcome:
    """Focus the handle and press one arrow key, measure how the number changes, then press as often as needed."""
    if step.is_spinner:
        return _plan_spinner(step, view)
    screen = view.now
    sliders = find_sliders(screen)
    nudges = view.progress.count("nudge")
    if nudges and view.progress.last == "nudge" and not sliders:  # the focus ring hides it
        return RunCode(
            code=("pyautogui.press('tab')", "time.sleep(0.1)"), thought="I take a new screenshot.", phase="part"
        )
    if not sliders or (step.number is None and len(sliders) > 1) or (step.number or 1) > len(sliders):
        return Failed(f"{step}: found {len(sliders)} sliders")
    index = (step.number or 1) - 1
    shown = _read(screen, index)
    if shown == step.value:
        return Done(f"Its value is {shown:g}.")
    if nudges >= _MAX_NUDGES or (shown is None and nudges):
        return Failed(f"{step}: no number next to it confirms the value; it shows {shown}")
    key = "right" if shown is None or step.value > shown else "left"
    if not nudges:
        focus = f"pyautogui.click({at(screen, sliders[index].handle.center)})"
        code = (focus, f"pyautogui.press('{key}')", "time.sleep(0.1)")
        return RunCode(code=code, thought=f"Its value is {shown}; I try one step.", phase="nudge")
    earlier = view.sight.back(2 if view.progress.last == "part" else 1)
    before = _read(earlier, index) if earlier is not None else None
    width = abs(shown - before) if before is not None and shown is not None and nudges == 1 else 0.0
    presses = round(abs(step.value - (shown or 0.0)) / width) if width else 1
    press = f"pyautogui.press('{key}', presses={min(max(presses, 1), _MAX_PRESSES)})"
    back = ("pyautogui.hotkey('shift', 'tab')",) if view.progress.last == "part" else ()
    return RunCode(code=(*back, press, "time.sleep(0.1)"), thought=f"Its value is {shown}.", phase="nudge")


def _plan_spinner(step: SetSlider, view: StepView) -> StepOutcome:
    """Type the number, leave the field and read it back."""
    if view.progress.count("type"):
        boxes = find_inputs(view.before) if view.before is not None else []
        shown = _read_field(view.now, boxes[0]) if len(boxes) == 1 else None
        if shown == step.value:
            return Done(f"It shows {shown:g}.")
        return Failed(f"{step}: the field does not show the typed value; it shows {shown}")
    boxes = find_inputs(view.now)
    if len(boxes) != 1:
        return Failed(f"{step}: found {len(boxes)} number fields")
    point = (boxes[0].left + 0.3 * boxes[0].width, boxes[0].center[1])
    typing = (f"pyautogui.write('{step.value:g}')", "pyautogui.press('tab')", "time.sleep(0.1)")
    return RunCode(code=replace_text(view.now, point, *typing), thought="I type it.", phase="type")


def _read(screen: OcrScreen, index: int) -> float | None:
    sliders = find_sliders(screen)
    if index >= len(sliders):
        return None
    return read_number_beside(screen, sliders[index], [other for other in sliders if other is not sliders[index]])


def _read_field(screen: OcrScreen, box: Box) -> float | None:
    """Return the number in a field, without its arrows at the right."""
    for line in screen.lines_in(box):
        number = _to_number(line.text)
        if number is not None and line.confidence > _SURE:
            return number
    return _read_lone(screen, Box(box.left + 3, box.top + 2, box.left + round(0.6 * box.width), box.bottom - 2))
