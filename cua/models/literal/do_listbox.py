"""Choose rows of a list that stands open on the page, one or several of them."""

from cua.models.literal.find_field import Field
from cua.models.literal.find_text import Found, find_text
from cua.models.literal.moves import Act, Failed, Move, at
from cua.models.literal.progress import Progress
from cua.models.literal.screen import Screen
from cua.models.literal.steps import SelectOption
from cua.models.literal.text_match import WHOLE
from visual_tools.box import Box
from visual_tools.toggles import find_toggles, has_down_arrow

_MIN_ROWS = 3
_MAX_SCROLLS = 8
_MAX_NAMED = 8
_MIN_LIST_PX = 36
_ROW_INDENT_PX = 14


def is_listbox(screen: Screen, found: Field) -> bool:
    """Whether a box shows several rows, and no arrow that opens it."""
    return len(screen.lines_in(found.box_px)) >= _MIN_ROWS and not has_down_arrow(screen.crop(found.box_px))


def plan_listbox(step: SelectOption, screen: Screen, progress: Progress, found: Field) -> Move:
    """Press the row; the second and later ones of a list of options with Ctrl held, which keeps the first."""
    box = found.box_px
    row = find_row_in(screen, step.option.text, box)
    if row is not None:
        return press_row(screen, row, is_more=step.is_more)
    tries = progress.count("find option")
    if tries < _MAX_SCROLLS:
        notches = 30 if tries == 0 else -1  # to the start first: the row may stand above what is seen
        code = (f"pyautogui.scroll({notches}, {at(screen, box.center)})", "time.sleep(0.3)")
        return Act(code=code, thought="The row is not seen; I scroll the list.", phase="find option")
    seen = ", ".join(f'"{line.text}"' for line in screen.lines_in(box)[:_MAX_NAMED])
    return Failed(reason=f'the list has no row "{step.option.text}"; the last rows that I saw: {seen}')


def press_row(screen: Screen, row: Found, *, is_more: bool) -> Act:
    """Press a row that is seen, with Ctrl held when others are to stay chosen."""
    click = f"pyautogui.click({at(screen, row.point)})"
    held = ("pyautogui.keyDown('ctrl')", click, "pyautogui.keyUp('ctrl')")
    return Act(code=held if is_more else (click,), thought=f'The list has a row "{row.line.text}".')


def find_row_in(screen: Screen, option: str, box: Box) -> Found | None:
    """The row of an option among the several lines of a box; None when it has one line or no such row."""
    if len(screen.lines_in(box)) < 2:
        return None
    places = (place for place in find_text(screen, option) if place.fit >= WHOLE)
    return next((place for place in places if box.has_point(*place.box_px.center)), None)


def find_list_row(screen: Screen, option: str) -> Found | None:
    """The row of an option in any list that is always open: a box that holds lines of text and nothing else."""
    for rectangle in screen.rectangles:
        box = rectangle.box_px
        if not _MIN_LIST_PX < box.height < 0.6 * screen.height or box.width > 0.5 * screen.width:
            continue
        lefts = [line.box_px.left for line in screen.lines_in(box)]
        if len(lefts) < 2 or max(lefts) - min(lefts) > 4 or lefts[0] - box.left > _ROW_INDENT_PX:
            continue
        row = find_row_in(screen, option, box)
        if row is not None and not find_toggles(screen.crop(box)):
            return row
    return None
