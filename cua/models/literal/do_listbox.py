"""Choose rows of a list that stands open on the page, one or several of them."""

from cua.models.literal.find_field import Field
from cua.models.literal.find_text import find_text
from cua.models.literal.moves import Act, Failed, Move, at
from cua.models.literal.progress import Progress
from cua.models.literal.screen import Screen
from cua.models.literal.steps import SelectOption
from cua.models.literal.text_match import WHOLE
from visual_tools.arrows import has_down_arrow

_MIN_ROWS = 3
_MAX_SCROLLS = 8
_MAX_NAMED = 8


def is_listbox(screen: Screen, found: Field) -> bool:
    """Whether a box shows several rows, and no arrow that opens it."""
    return len(screen.lines_in(found.box_px)) >= _MIN_ROWS and not has_down_arrow(screen.crop(found.box_px))


def plan_listbox(step: SelectOption, screen: Screen, progress: Progress, found: Field) -> Move:
    """Press the row; the second and later ones of a list of options with Ctrl held, which keeps the first."""
    box = found.box_px
    places = [place for place in find_text(screen, step.option.text) if place.fit >= WHOLE]
    row = next((place for place in places if box.has_point(*place.box_px.center)), None)
    if row is not None:
        click = f"pyautogui.click({at(screen, row.point)})"
        held = ("pyautogui.keyDown('ctrl')", click, "pyautogui.keyUp('ctrl')")
        return Act(code=held if step.is_more else (click,), thought=f'The row "{row.line.text}" is there.')
    tries = progress.count("find option")
    if tries < _MAX_SCROLLS:
        notches = 30 if tries == 0 else -1  # to the start first: the row may stand above what is seen
        code = (f"pyautogui.scroll({notches}, {at(screen, box.center)})", "time.sleep(0.3)")
        return Act(code=code, thought="The row is not seen; I scroll the list.", phase="find option")
    seen = ", ".join(f'"{line.text}"' for line in screen.lines_in(box)[:_MAX_NAMED])
    return Failed(reason=f'the list has no row "{step.option.text}"; the last rows that I saw: {seen}')
