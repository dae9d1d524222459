"""Lists, checkboxes and radio buttons, and giving a labelled thing a value."""

from cua.models.literal.do_keyboard import type_into
from cua.models.literal.do_listbox import is_listbox, plan_listbox
from cua.models.literal.do_pointer import locate, miss
from cua.models.literal.find_field import Field, find_field
from cua.models.literal.find_target import choose
from cua.models.literal.find_text import Found, find_text, name_nearest
from cua.models.literal.find_toggle import FoundToggle, find_toggle
from cua.models.literal.moves import Act, Already, Failed, Move, at, quote
from cua.models.literal.progress import Progress
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Relation, SelectOption, SetValue, Target, Tick
from cua.models.literal.text_match import WHOLE, fit_texts
from visual_tools.arrows import has_down_arrow
from visual_tools.box import Box

_MAX_LIST_SCROLLS = 3


def plan_tick(step: Tick, screen: Screen) -> Move:
    """Click the box beside the text, unless it is in the wanted state."""
    toggle = find_toggle(screen, step.target)
    if toggle is None:
        choice = choose(screen, step.target)
        if choice is None:
            return miss(screen, step.target)
        if not step.is_on:
            return Failed(reason=f'no checkbox is seen beside "{choice.place.line.text}", so its state cannot be read')
        code = (f"pyautogui.click({at(screen, choice.place.point)})",)
        return Act(code=code, thought=f"{choice.why}. I see no box beside it, so I click the text.")
    return _click_toggle(screen, toggle, is_on=step.is_on)


def _click_toggle(screen: Screen, toggle: FoundToggle, *, is_on: bool) -> Move:
    if toggle.is_on == is_on:
        return Already(thought=f'"{toggle.label}" is {"on" if toggle.is_on else "off"} already.')
    code = (f"pyautogui.click({at(screen, toggle.box_px.center)})",)
    return Act(code=code, thought=f'The box beside "{toggle.label}" is {"on" if toggle.is_on else "off"}.')


def _in_group(option: Target, group: Target) -> Target:
    """An option of a group of radio buttons: the one nearest to the group's name."""
    return Target(text=option.text, relation=Relation(kind="near", anchor=group.text))


def plan_set(step: SetValue, screen: Screen, progress: Progress) -> Move:
    """Choose from a list when the field is one, type otherwise."""
    if progress.count("open"):
        return plan_select(SelectOption(option=Target(text=step.value), field=step.field), screen, progress)
    found = find_field(screen, step.field)
    if found is None:
        return miss(screen, step.field)
    if has_down_arrow(screen.crop(found.box_px)):
        return plan_select(SelectOption(option=Target(text=step.value), field=step.field), screen, progress)
    return Act(code=type_into(found, step.value, screen), thought=f"The field is {found.why}.")


def plan_select(step: SelectOption, screen: Screen, progress: Progress) -> Move:
    """Open the list, then click the row."""
    if step.field is None:
        return _select_anywhere(step, screen)
    found = find_field(screen, step.field)
    if found is not None and not progress.count("open") and is_listbox(screen, found):
        return plan_listbox(step, screen, progress, found)
    if not progress.count("open"):
        if found is None:
            return miss(screen, step.field)
        if not has_down_arrow(screen.crop(found.box_px)):
            toggle = find_toggle(screen, _in_group(step.option, step.field))
            if toggle is not None:
                return _click_toggle(screen, toggle, is_on=True)
        if _shows(found, step.option.text):
            return Already(thought=f'"{step.option.text}" is chosen already.')
        code = (f"pyautogui.click({at(screen, found.box_px.center)})",)
        return Act(code=code, thought=f"The list is {found.why}; I open it first.", phase="open")
    if progress.last in ("pick", "keys"):
        return _verify(step, step.field, screen, found, progress)
    row = _find_row(screen, step.option.text, found)
    if row is not None:
        return Act(
            code=(f"pyautogui.click({at(screen, row.point)})",),
            thought=f'The row "{row.line.text}" is there.',
            phase="pick",
        )
    if progress.count("find option") < _MAX_LIST_SCROLLS and found is not None:
        point = found.box_px.center[0], min(found.box_px.bottom + 40.0, screen.height - 5.0)
        scrolled = (f"pyautogui.scroll(-2, {at(screen, point)})", "time.sleep(0.3)")
        return Act(code=scrolled, thought="The row is not seen; I scroll the list.", phase="find option")
    return _type_option(step.option.text, "The row is not seen; I type its name.")


def _type_option(option: str, thought: str) -> Act:
    return Act(code=(f"pyautogui.write({quote(option)})", "pyautogui.press('enter')"), thought=thought, phase="keys")


def _verify(step: SelectOption, field: Target, screen: Screen, found: Field | None, progress: Progress) -> Move:
    """After a row was pressed: the field shows the option, or keys are tried, which also native lists take."""
    option = step.option.text
    if found is None or _shows(found, option):
        return Already(thought=f'"{option}" is chosen.')
    if progress.last == "pick" and not _may_show(found, option) and has_down_arrow(screen.crop(found.box_px)):
        typed = (
            f"pyautogui.click({at(screen, found.box_px.center)})",
            f"pyautogui.write({quote(option)})",
            "pyautogui.press('enter')",
        )
        return Act(code=typed, thought=f'The list shows "{found.text}" still; I try the keyboard.', phase="keys")
    if progress.count("pick"):
        return Already(thought=f'I pressed the row "{option}"; the list shows "{found.text}".')
    return Failed(
        reason=f'the list {field} has no row "{option}"; nearest texts seen: {", ".join(name_nearest(screen, option))}'
    )


def _shows(found: Field, option: str) -> bool:
    return any(fit.score >= WHOLE for text in (*found.texts, found.text) for fit in fit_texts(option, text))


def _may_show(found: Field, option: str) -> bool:
    """Whether the field may show an option: it does, in part, or nothing can be read in it."""
    legible = [text for text in found.texts if len(text) > 2]
    return not legible or any(fit_texts(option, text) or fit_texts(text, option) for text in legible)


def _find_row(screen: Screen, option: str, found: Field | None) -> Found | None:
    """The option's row in an open list: below or above the field, not the field itself."""
    places = [place for place in find_text(screen, option) if place.fit >= 0.7]
    if found is None:
        return places[0] if places else None
    box = found.box_px
    reach = Box(box.left - 30, 0, box.right + 60, screen.height)
    rows = [place for place in places if reach.overlap_x(place.box_px) > 0 and not box.has_point(*place.box_px.center)]
    rows.sort(key=lambda place: (place.fit < WHOLE, _row_distance(place.box_px, box)))
    return rows[0] if rows else None


def _row_distance(row: Box, field: Box) -> float:
    below = row.top - field.bottom
    return (
        below + 0.5 * abs(row.left - field.left)
        if below >= -4
        else 200.0 + field.top - row.bottom + 0.5 * abs(row.left - field.left)
    )


def _select_anywhere(step: SelectOption, screen: Screen) -> Move:
    toggle = find_toggle(screen, step.option)
    if toggle is not None and toggle.label_box.left - toggle.box_px.right < 40:
        return plan_tick(Tick(target=step.option), screen)
    point, why = locate(step.option, screen)
    if point is None:
        return miss(screen, step.option)
    return Act(code=(f"pyautogui.click({at(screen, point)})",), thought=why)
