"""Choose from the suggestions that a field shows while it is typed into, and send what was filled in."""

import re
from dataclasses import replace

from apps.literal.do_keyboard import type_into
from apps.literal.do_looking import scroll
from apps.literal.do_pointer import miss
from apps.literal.find_field import Field, find_field
from apps.literal.find_text import find_button
from apps.literal.moves import Act, Already, Failed, Move, at
from apps.literal.progress import Progress
from apps.literal.read_back import check_typed
from apps.literal.screen import Screen, Sight
from apps.literal.steps import Click, PickSuggestion, PlainStep, SelectOption, SetValue, Tick, TypeText
from apps.literal.targets import Target
from apps.literal.work_steps import DragFigures, FillFromPage, Slide, TypeAnswer
from visual_tools.box import Box
from visual_tools.ocr import TextLine

_MAX_WAITS = 2
_MAX_SCROLLS = 3
_REACH_PX = 60
_MAX_NAMED = 6
_MIN_OPEN = 3
_SEND_NOTCHES = 5


def plan_suggestion(step: PickSuggestion, sight: Sight, progress: Progress) -> Move:
    """Type the beginning, look at the list below the field, press the entry that fits, see whether it took."""
    screen, wanted = sight.now, step.field or Target(role="field")
    found = find_field(screen, wanted) or _find_again(wanted, sight, len(progress.phases))
    if found is None:
        return miss(screen, wanted)
    if not progress.count("open"):
        code = type_into(found, _typed(step), screen)
        return Act(code=code, thought=f"The field is {found.why}; I type the beginning and look.", phase="open")
    if progress.count("pick"):
        listed = find_suggestions(screen, found)
        fitting = [line for line in screen.lines if any(map(step.fits, _without_caret(line.text)))]
        if fitting and (len(listed) < _MIN_OPEN or any(line not in listed for line in fitting)):
            return Already(thought=f'"{fitting[0].text}" is chosen.')
        return Failed(reason=f'I pressed the suggestion that {step.words}, and the field shows "{found.text}"')
    rows = find_suggestions(screen, found)
    fitting = [row for row in rows if step.fits(row.text.strip())]
    if fitting:
        code = (f"pyautogui.click({at(screen, fitting[0].box_px.center)})",)
        return Act(code=code, thought=f'The suggestion "{fitting[0].text}" {step.words}.', phase="pick")
    wrong = _check_beginning(step, wanted, sight) if progress.last == "open" else None
    return wrong or _look_further(step, screen, found, rows, progress)


def _find_again(wanted: Target, sight: Sight, oldest: int) -> Field | None:
    """What stands now where the field was before its list of suggestions looked like a field, too."""
    for count in range(min(oldest, len(sight.images) - 1), 0, -1):
        earlier = sight.back(count)
        was = find_field(earlier, wanted) if earlier is not None else None
        if was is not None:
            return replace(was, texts=tuple(line.text for line in sight.now.lines_in(was.box_px)))
    return None


def _typed(step: PickSuggestion) -> str:
    return step.start or step.part or step.end


def _check_beginning(step: PickSuggestion, field: Target, sight: Sight) -> Failed | None:
    """What is wrong with the beginning that was just typed, read back; None when it stands in the field."""
    before = sight.before
    typed_into = find_field(before, field) if before is not None else None
    if before is None or typed_into is None:
        return None
    checked = check_typed(_typed(step), typed_into, before, sight.now, part="start")
    return checked if isinstance(checked, Failed) else None


def _without_caret(text: str) -> tuple[str, str]:
    """A text, and the text without a last stroke, which may be the caret behind what was typed."""
    return text.strip(), re.sub(r"[lI|1]$", "", text.strip())


def find_suggestions(screen: Screen, found: Field) -> list[TextLine]:
    """Lines right below the field, each close to the one before, in its column."""
    box = found.box_px
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


def _look_further(step: PickSuggestion, screen: Screen, found: Field, rows: list[TextLine], progress: Progress) -> Move:
    if progress.count("wait") < _MAX_WAITS:
        return Act(code=("time.sleep(0.7)",), thought="The suggestions may still be coming.", phase="wait")
    if rows and progress.count("find option") < _MAX_SCROLLS:
        code = (f"pyautogui.scroll(-2, {at(screen, rows[-1].box_px.center)})", "time.sleep(0.3)")
        return Act(code=code, thought="None of them fits; I scroll the list.", phase="find option")
    seen = ", ".join(f'"{row.text}"' for row in rows[:_MAX_NAMED]) or "none"
    return Failed(reason=f"the field suggests nothing that {step.words}; below it I see: {seen}")


SUBMIT = Click(target=Target(text="Submit", role="button"))
_FILLS = (TypeText, SetValue, SelectOption, Tick, PickSuggestion, TypeAnswer, FillFromPage, Slide, DragFigures)
_AIMS = (PickSuggestion, DragFigures)
"""Steps that say what is to come about, not what is to be entered where."""
_SENDS = re.compile(r"submit|send|save|ok|go|add|search|apply|enter|done|confirm|continue|next|find", re.I)


def send(last: PlainStep, screen: Screen, *, has_looked: bool) -> Act | Failed | None:
    """What a run leads to that ends with something filled in, beside a button that would send it and no step names.

    The only button "Submit" is pressed: a form that has one is done when it is sent. Buttons of other names do more
    than that; beside one, what was typed or ticked as plain steps say is complete as it is.

    Args:
        last: The last step.
        screen: What is seen after it.
        has_looked: Whether the page was scrolled to see what stands below.
    """
    if not isinstance(last, _FILLS):
        return None
    sending = [line for line in screen.lines if _SENDS.fullmatch(line.text.strip())]
    buttons = [(line.text, box) for line in sending if (box := find_button(screen, line.box_px)) is not None]
    if [text.strip().casefold() for text, _ in buttons] == ["submit"]:
        code = (f"pyautogui.click({at(screen, buttons[0][1].center)})",)
        return Act(code=code, thought="All is filled in as told; I submit it.", phase="send")
    if not isinstance(last, _AIMS) or (not buttons and has_looked):
        return None
    if not buttons:
        code = (scroll("down", _SEND_NOTCHES, at(screen, (screen.width / 2, screen.height / 2))),)
        return Act(code=code, thought="I look whether a button below sends it.", phase="scroll down")
    reason = f'there is a button "{buttons[0][0]}" that the instruction does not name'
    return Failed(reason=f"what was asked for is entered, not sent: {reason}")
