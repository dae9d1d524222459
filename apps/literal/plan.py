"""Choose the next action from the steps, the screen and the progress so far, without keeping state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.literal import do_keyboard, do_pointer, do_scroll_and_read, do_transfer, figures
from apps.literal.do_calendar import SUBMIT, find_calendar, plan_date, plan_suggestion, send
from apps.literal.do_choice import plan_select, plan_set, plan_slider, plan_toggle
from apps.literal.do_keyboard import parse_date
from apps.literal.do_scroll_and_read import scroll
from apps.literal.find_field import choose, find_field
from apps.literal.find_kind import find_links_by_text
from apps.literal.find_opener import find_openers
from apps.literal.find_text import TextHit, find_whole, name_nearest
from apps.literal.screen import OcrScreen, ScreenHistory
from apps.literal.step_outcome import (
    Done,
    Failed,
    NotFound,
    RunCode,
    ScreenNote,
    StepOutcome,
    StepPhase,
    StepPlans,
    StepProgress,
    StepView,
    at,
    click,
    format_action,
    wait,
)
from apps.literal.steps import (
    AnswerDialog,
    ClickTarget,
    DoNotSubmit,
    OpenUntil,
    PickSuggestion,
    PlainStep,
    ReportValue,
    SelectOption,
    SetSlider,
    SetToggle,
    SetValue,
    find_typed,
)
from apps.literal.targets import ElementTarget, OpenerKind
from apps.literal.text_match import WHOLE, alphanumeric, normalize
from apps.literal.verify_result import find_message, is_final, verify_result
from visual_tools.widgets import has_down_arrow

_MAX_OPENED = 24
_MAX_SCROLLS_EACH = 2
_NAMES: dict[OpenerKind, str] = {
    "tab": "tabs",
    "section": "collapsed sections",
    "node": "collapsed tree nodes",
    "page": "link to the next page",
}


def plan_open_until(step: OpenUntil, view: StepView) -> StepOutcome:
    """Open the next candidate, check for the target, scroll through what opened, then try the next one."""
    screen = view.now
    if is_visible(screen, step.target):
        return Done(f"{step.target} is visible.")
    tries, scrolls = view.progress.count("seek"), view.progress.count("scroll down")
    is_fresh = view.progress.last in ("seek", "scroll down")
    is_at_end = view.progress.last == "scroll down" and view.sight.is_stuck
    goes_on = any(line.box_px.bottom > screen.height - 1.5 * line.box_px.height for line in screen.lines)
    middle, pause = at(screen, screen.box.center), "time.sleep(0.2)"
    if is_fresh and not is_at_end and scrolls < _MAX_SCROLLS_EACH * tries and goes_on:
        thought = f"{step.target} is not visible yet; the opened part continues below."
        return RunCode(code=(scroll("down", 3, middle), pause), thought=thought, phase="scroll down")
    if view.progress.last == "scroll down":
        return RunCode(code=(scroll("up", 30, middle), pause), thought="Back to the top.", phase="scroll up")
    openers = find_openers(screen, step.kind)
    if step.kind in ("tab", "section") and all(opener.label for opener in openers):
        tried = {alphanumeric(phase.label) for phase in view.progress.phases if phase.kind == "seek"}
        openers = [opener for opener in openers if alphanumeric(opener.label) not in tried]
    # The first opener is next: opened tabs and sections are skipped by label, opened nodes are not listed, and a page
    # has one next page.
    is_identified = step.kind in ("node", "page") or all(opener.label for opener in openers)
    index = 0 if is_identified else tries
    if index >= len(openers) or tries >= _MAX_OPENED:
        if not tries:
            return Failed(f"{step.target} is not visible, and no {_NAMES[step.kind]} found")
        return Failed(f"opened {tries} of the {_NAMES[step.kind]} and did not find {step.target}")
    if step.kind == "page" and view.progress.last == "seek" and view.sight.is_stuck:
        return Failed(f"{step.target} is not on the visited pages, and the next page does not open")
    opener = openers[index]
    thought = f'{step.target} is not visible; I open "{opener.label}".'
    return click(screen, opener.point, thought, "seek", pause_s=0.4, label=opener.label)


def is_visible(screen: OcrScreen, target: ElementTarget) -> bool:
    """Return True if a target is visible: a link as a link, other targets in full and not within other words."""
    if target.role == "link":
        return bool(find_links_by_text(screen, target.text))
    choice = choose(screen, target, to_press=True)
    return choice is not None and choice.hit.fit >= WHOLE


IS_PART = "These words are a part of the name before."


def resolve_list(step: PlainStep, screen: OcrScreen, progress: StepProgress) -> PlainStep:
    """Return a step for one part of a list, or for the list's words as one name if the screen shows that name.

    If the screen shows neither, the words count as one name, which is then searched.
    """
    match step:
        case ClickTarget(target=target) | SetToggle(target=target) | ReportValue(target=target) if target.whole:
            return replace(step, target=_resolve_list_part(target, screen, progress))
        case SelectOption(option=option) if option.whole:
            return replace(step, option=_resolve_list_part(option, screen, progress))
        case _:
            return step


def is_part(step: PlainStep) -> bool:
    """Return True if a step is the rest of a name that the previous step used as a whole."""
    target = step.target if isinstance(step, (ClickTarget, SetToggle, ReportValue)) else None
    target = step.option if isinstance(step, SelectOption) else target
    return target is not None and target.is_rest and target.text == target.whole


def _resolve_list_part(target: ElementTarget, screen: OcrScreen, progress: StepProgress) -> ElementTarget:
    was_one = target.is_rest and f'"{target.whole}"' in progress.last_action
    if was_one or _is_shown_as_one(screen, target.whole):
        return replace(target, text=target.whole)
    if target.is_rest or find_whole(screen, target.text):
        return replace(target, whole="", is_rest=False)
    return replace(target, text=target.whole)


def _is_shown_as_one(screen: OcrScreen, whole: str) -> bool:
    """Return True if a screen shows the words as one text; a list with commas must be shown with them."""
    if "," in whole:
        return any(normalize(line.text) == normalize(whole) for line in screen.lines)
    return bool(find_whole(screen, whole))


_ACCEPT = ("OK", "Yes", "Accept", "Confirm", "Allow", "Agree", "Got it")
_ACCEPT_BESIDE_DISMISS = ("Continue", "Delete", "Remove", "Save", "Discard", "Leave", "Done", "Close")
_DISMISS = ("Cancel", "No", "Dismiss", "Not now", "Reject", "Decline", "Deny", "Abort", "Stay", "Close")
"""Button texts in search order.

Those of the second list also occur on ordinary pages, so they count only in a dialog that dims its page, or next to a
button that dismisses.
"""

_BESIDE_PX = 320


def plan_dialog(step: AnswerDialog, view: StepView) -> StepOutcome:
    """Press the button that accepts or dismisses."""
    screen = view.now
    for text in (*_ACCEPT, *_ACCEPT_BESIDE_DISMISS) if step.accept else (*_DISMISS, "OK"):
        hit = _find_button(screen, text)
        if hit is None:
            continue
        if text in _ACCEPT_BESIDE_DISMISS and screen.dialog is None and not _is_beside_dismiss(screen, hit):
            continue
        return click(screen, hit.point, f'The dialog has a button "{text}".')
    wanted = ", ".join((_ACCEPT if step.accept else _DISMISS)[:4])
    return NotFound(what=f"a dialog with a button such as {wanted}", nearest=tuple(name_nearest(screen, "OK")))


def _find_button(screen: OcrScreen, text: str) -> TextHit | None:
    """Return the button with a text, inside the dialog if one dims its page."""
    panel, hits = screen.dialog, find_whole(screen, text)
    return next((hit for hit in hits if (panel.contains(hit.box_px) if panel is not None else hit.button)), None)


def _is_beside_dismiss(screen: OcrScreen, hit: TextHit) -> bool:
    (x, y), height = hit.box_px.center, hit.box_px.height
    buttons = (_find_button(screen, text) for text in _DISMISS[:3])
    centers = (button.box_px.center for button in buttons if button is not None)
    return any(abs(other_y - y) < height and abs(other_x - x) < _BESIDE_PX for other_x, other_y in centers)


_MAX_WAITS = 2
_MAX_SCROLLS = 10
_NOTCHES = 5
_PANEL_NOTCHES = 3
_PANEL_POINTS = ((0.1, 0.5), (0.9, 0.5), (0.3, 0.85), (0.7, 0.85), (0.5, 0.2))
"""Points for scrolling panels that do not scroll with the page, as fractions of width and height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """Next reply: thought, action and code."""

    thought: str
    action: str
    code: str


def decide(steps: Sequence[PlainStep], sight: ScreenHistory, progress: StepProgress) -> PlannedStep:
    """Return the next action.

    Args:
        steps: Steps of the whole instruction.
        sight: Current and earlier screens.
        progress: Progress so far.
    """
    thoughts: list[str] = []
    acts = [*steps, SUBMIT] if progress.is_sent else steps
    if progress.is_sent:
        progress = replace(progress, index=len(acts))
    message = find_message(acts, sight, progress)
    if message is not None and is_final(acts, progress):
        last = acts[progress.index - 1]
        return give_up(f'after step {progress.index} of {len(acts)} ({last}) the screen says "{message}"')
    has_looked = progress.count("scroll down") > 0
    notes = [ScreenNote("saw", message)] if message is not None else []
    while progress.index < len(steps):
        step = resolve_list(steps[progress.index], sight.now, progress)
        move = (
            Done(IS_PART)
            if is_part(step)
            else _PLANS[type(step)](
                step, StepView(sight=sight, progress=progress, typed=find_typed(steps[: progress.index]))
            )
        )
        if isinstance(move, NotFound):
            move = search_further(step, move, sight.now, progress, is_stuck=sight.is_stuck)
        match move:
            case Done():
                thoughts.append(f"Step {progress.index + 1}: {step}. {move.thought}")
                notes += [*move.notes, *([ScreenNote("doubt", move.doubt)] if move.doubt else [])]
                progress = progress.next_step()
            case RunCode():
                thoughts.append(f"Step {progress.index + 1} of {len(steps)}: {step}. {move.thought}")
                number = progress.count(move.phase) + 1
                phase = StepPhase(kind=move.phase, number=number, label=move.label) if move.phase else None
                action = format_action(progress.index, len(steps), str(step), phase, move.answer, [*notes, *move.notes])
                return PlannedStep(thought=" ".join(thoughts), action=action, code="\n".join(move.code))
            case Failed():
                thoughts.append(f"Step {progress.index + 1} of {len(steps)}: {step}. It cannot be done: {move.reason}.")
                return give_up(f"step {progress.index + 1} of {len(steps)} ({step}): {move.reason}", thoughts)
            case NotFound():
                raise AssertionError("search_further leaves nothing missing")
    if not progress.is_sent:
        sending = send(steps[-1], sight.now, has_looked=has_looked)
        if isinstance(sending, Failed):
            return give_up(sending.reason, thoughts)
        if isinstance(sending, RunCode):
            phase = StepPhase(kind=sending.phase, number=1)
            action = format_action(len(steps) - 1, len(steps), str(steps[-1]), phase, notes=notes)
            return PlannedStep(thought=" ".join([*thoughts, sending.thought]), action=action, code=sending.code[0])
    return _finish(steps, sight, progress, notes, thoughts)


def _plan_select(step: SelectOption, view: StepView) -> StepOutcome:
    """Choose a list row, or a calendar day if a date is wanted and the field is not a list."""
    if step.field is not None and parse_date(step.option.text) is not None:
        field = find_field(view.now, step.field)
        if field is None or not has_down_arrow(view.now.crop(field.box_px)):
            return plan_date(step.field, step.option.text, view)
    return plan_select(step, view)


def _plan_set(step: SetValue, view: StepView) -> StepOutcome:
    """Set a field's value; a date that cannot be typed is chosen in the calendar that opened."""
    is_choosing = view.progress.last in ("turn", "pick") and parse_date(step.value) is not None
    move = Failed("") if is_choosing and not view.progress.count("open") else plan_set(step, view)
    if isinstance(move, Failed) and parse_date(step.value) is not None and not view.progress.count("open"):
        is_open = is_choosing or find_calendar(view.now) is not None
        return plan_date(step.field, step.value, view) if is_open else move
    return move


_PLANS: StepPlans = {
    **do_keyboard.PLANS,
    **do_pointer.PLANS,
    **do_scroll_and_read.PLANS,
    **do_transfer.PLANS,
    **figures.PLANS,
    SetValue: _plan_set,
    SelectOption: _plan_select,
    PickSuggestion: plan_suggestion,
    SetToggle: plan_toggle,
    SetSlider: plan_slider,
    AnswerDialog: plan_dialog,
    OpenUntil: plan_open_until,
    DoNotSubmit: lambda step, view: Done("The form is not submitted."),
}


def search_further(
    step: PlainStep, missing: NotFound, screen: OcrScreen, progress: StepProgress, *, is_stuck: bool
) -> StepOutcome:
    """Wait, scroll down to the end, scroll up to the start, then give up."""
    middle = at(screen, screen.box.center)
    thought = f"{missing.what} is not visible yet."
    if progress.count("wait") < _MAX_WAITS and not progress.count("scroll down"):
        return wait(0.7, f"{thought} The page may still be loading.")
    downs, ups = progress.count("scroll down"), progress.count("scroll up")
    panels = progress.count("panels down")
    down_is_over = ups + panels > 0 or downs >= _MAX_SCROLLS or (progress.last == "scroll down" and is_stuck)
    if not down_is_over:
        code = (scroll("down", _NOTCHES, middle),)
        return RunCode(code=code, thought=f"{thought} I scroll down.", phase="scroll down")
    if not ups and panels < _MAX_SCROLLS and not (progress.last == "panels down" and is_stuck):
        panels_down = _scroll_panels("down", screen)
        return RunCode(code=panels_down, thought=f"{thought} I scroll the panels.", phase="panels down")
    up_is_over = ups >= downs + _MAX_SCROLLS or (progress.last == "scroll up" and is_stuck)
    if not up_is_over and not progress.count("panels up"):
        return RunCode(code=(scroll("up", _NOTCHES, middle),), thought=f"{thought} I scroll up.", phase="scroll up")
    backs = progress.count("panels up")
    if panels > 1 and backs < panels + _MAX_SCROLLS and not (progress.last == "panels up" and is_stuck):
        return RunCode(code=_scroll_panels("up", screen), thought=f"{thought} I scroll the panels.", phase="panels up")
    nearest = ", ".join(f'"{text}"' for text in missing.nearest) or "none"
    return Failed(f"did not find {missing.what} after scrolling the page up and down; the nearest texts: {nearest}")


def _scroll_panels(direction: str, screen: OcrScreen) -> tuple[str, ...]:
    """Scroll away from the middle, where side panels, lists and logs are; panels at their end do not move."""
    points = [(screen.width * x, screen.height * y) for x, y in _PANEL_POINTS]
    return tuple(scroll(direction, _PANEL_NOTCHES, at(screen, point)) for point in points)


def give_up(reason: str, thoughts: Sequence[str] = ()) -> PlannedStep:
    """Terminate as a failure with a reason."""
    code = f"computer.terminate(status='failure', answer={reason!r})"
    return PlannedStep(thought=" ".join(thoughts) or reason, action=f"Give up: {' '.join(reason.split())}", code=code)


def _finish(
    steps: Sequence[PlainStep],
    sight: ScreenHistory,
    progress: StepProgress,
    notes: list[ScreenNote],
    thoughts: list[str],
) -> PlannedStep:
    """Check that the last action worked, then terminate."""
    total = len(steps)
    known = replace(progress, notes=(*progress.notes, *notes))
    move = verify_result([*steps, SUBMIT] if progress.is_sent else steps, sight, known)
    if isinstance(move, RunCode):
        look = StepPhase(kind=move.phase, number=progress.num_looks + 1)
        action = format_action(total - 1, total, str(steps[-1]), look, notes=[*notes, *move.notes])
        return PlannedStep(thought=" ".join([*thoughts, move.thought]), action=action, code="\n".join(move.code))
    if isinstance(move, Failed):
        return give_up(move.reason, thoughts)
    done = f"all {total} steps are done" if total > 1 else "the step is done"
    doubts = [*known.note_texts("doubt"), *([move.doubt] if move is not None and move.doubt else [])]
    doubt_notes = [f"{done}, and success is not confirmed: {doubt}" for doubt in doubts]
    answers = "\n".join([*progress.answers, *doubt_notes])
    answer = f", answer={answers!r}" if answers else ""  # no answer if none was requested
    code = f"computer.terminate(status='success'{answer})"
    return PlannedStep(
        thought=" ".join([*thoughts, f"{done[0].upper()}{done[1:]}."]), action=f"Finish: {done}", code=code
    )
