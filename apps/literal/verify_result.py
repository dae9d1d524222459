"""Check the screen after the last action: whether it worked, and whether fields still hold what was entered."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apps.literal.action_result import (
    PAUSED,
    PLACEHOLDERS,
    TURNING,
    UNREADABLE,
    LastAction,
    find_moving_boxes,
    find_near_miss,
    find_open_bar,
    find_rising_numbers,
    find_vanished,
    has_entry,
    has_placeholders,
    has_progress_grown,
    has_spinner,
    has_unreadable,
    holds_typed,
    note_effect,
    read_result,
)
from apps.literal.do_choice import shows_option
from apps.literal.do_keyboard import format_like
from apps.literal.do_pointer import find_pressed
from apps.literal.error_messages import find_error_message, find_question, is_still_shown
from apps.literal.field_boxes import find_field_boxes
from apps.literal.find_field import Field, find_field, shows_typed_text
from apps.literal.find_kind import find_toggle
from apps.literal.message_words import is_in_progress, is_sentence
from apps.literal.screen import OcrScreen, ScreenHistory, find_changed_boxes, find_changed_regions, find_new_lines
from apps.literal.step_outcome import Done, Failed, RunCode, ScreenNote, StepProgress
from apps.literal.steps import (
    AnswerDialog,
    CheckShown,
    ClearField,
    ClickFigures,
    ClickTarget,
    DescribeFigures,
    DragTarget,
    OpenAddress,
    PasteText,
    PlainStep,
    PressKeys,
    ReportValue,
    ScrollBy,
    ScrollUntil,
    SelectOption,
    SelectText,
    SetToggle,
    SetValue,
    TypeInto,
    WaitFor,
    find_typed,
)
from apps.literal.targets import one_line
from apps.literal.text_match import alphanumeric
from apps.literal.verify_typed import find_altered, read_field, read_typed
from visual_tools.box import Box
from visual_tools.ink import find_background

_UNSET = re.compile(
    r"\W*(?:(?:please )?(?:select|choose|pick)|none\b|nobody|any\b|all\b|bitte|choisi|elegir|seleccion)", re.I
)
"""Texts of lists in which nothing is chosen."""
_TYPING = (TypeInto, SetValue, SelectOption)
_EDITING = (PasteText, SelectText)
_LEAVING = frozenset({"enter", "return", "tab", "esc", "escape"})
_SPINS = frozenset("+-−–<>▲▼")
"""Signs on buttons that increase or decrease a field's number."""


def find_changed(steps: Sequence[PlainStep], sight: ScreenHistory, progress: StepProgress) -> str | None:
    """Describe a field or list that no longer shows what was typed or chosen; None if there is none."""
    last_typed = {step.field: index for index, step in enumerate(steps) if isinstance(step, _TYPING)}
    for target, index in last_typed.items():
        step, typed = steps[index], read_typed(progress, index)
        if target is None or typed is None or _is_edited(steps, index):
            continue
        is_later = bool(progress.num_looks) or index < len(steps) - 1  # the previous screen also shows what was typed
        for screen in (sight.before, sight.now) if is_later and sight.before is not None else (sight.now,):
            field = find_field(screen, target, kind="list" if isinstance(step, SelectOption) else "text")
            if field is None or not typed.is_at(field.box_px):
                continue
            if isinstance(step, SelectOption):
                text, seen = step.option.text, _find_other(step, field, screen)
            else:
                text = step.value if isinstance(step, SetValue) else step.text if isinstance(step, TypeInto) else ""
                shown = format_like(text, typed.held)
                seen = find_altered(text, field, screen, was=typed.shown, held=typed.held, shown=shown)
            is_placeholder = seen is not None and alphanumeric(seen) == alphanumeric(
                str(target)
            )  # named by its placeholder
            if seen is not None and not is_placeholder and not _is_chosen(steps[index + 1 :], seen):
                return f'{target} shows "{seen}" after the last step, and I entered "{one_line(text)}"'
    return None


def _find_other(step: SelectOption, field: Field, screen: OcrScreen) -> str | None:
    """Return the option that a list shows instead of the chosen one; None if no option is chosen."""
    seen = read_field(field, screen)
    is_set = len(alphanumeric(seen)) > 1 and not _UNSET.match(seen)
    return seen if is_set and not step.is_more and not shows_option(screen, field, step.option.text) else None


def _is_edited(steps: Sequence[PlainStep], index: int) -> bool:
    """Return True if a field may differ from what a step typed, because it appended or a later step edits the field."""
    step, rest = steps[index], steps[index + 1 :]
    if isinstance(step, TypeInto) and step.append:
        return True
    following = rest[0] if rest else None
    is_key = isinstance(following, PressKeys) and not {*following.keys} <= _LEAVING and not following.is_submit
    is_spin = any(isinstance(each, ClickTarget) and each.target.text in _SPINS for each in rest)
    is_typed_on = isinstance(following, TypeInto) and following.field is None
    return is_key or is_spin or is_typed_on or isinstance(following, _EDITING)


def _is_chosen(rest: Sequence[PlainStep], seen: str) -> bool:
    """Return True if the step after typing clicked the text that the field shows, such as a suggestion."""
    step = rest[0] if rest else None
    text = alphanumeric(step.target.text) if isinstance(step, ClickTarget) else ""
    return bool(text) and text in alphanumeric(seen)


def find_typed_boxes(steps: Sequence[PlainStep], now: OcrScreen, progress: StepProgress) -> list[Box]:
    """Return the fields into which the steps typed and that are still on the screen."""
    boxes = find_field_boxes(now)
    typed = [field for field in (read_typed(progress, index) for index in range(len(steps))) if field is not None]
    return [field.box_px for field in typed if any(field.is_at(box) for box in boxes)]


_LOOKS_S = (1.0, 1.0, 2.5)
_MAX_LOOKS = 8
"""Pauses in seconds before the looks after the last action, and the largest number of looks while work is in progress.
"""

_OPENING = re.compile(
    r"\W*(?:show|view|see|open|details?|more|menu|next|back|previous|prev|expand|help|info|about|settings|options|edit|new|home"
    r"|start|continue|filter|sort|search|find|go)\b",
    re.I,
)
"""First words of buttons that open something; texts that appear after them are not messages about an action."""

_SILENT = re.compile(r"\W*(?:copy|print|download|refresh|reload|play|pause|mute|ok|close|cancel|dismiss)\b", re.I)
"""First words of buttons that may act without a visible effect."""

_ONCE = re.compile(
    r"\W*(?:save|copy|send|add|submit|apply|update|post|share|download|upload|refresh|check|test|run)\b", re.I
)
"""First words of buttons whose text changes for a moment ("Copied") and then returns."""
_FILLING = (TypeInto, SetValue, SelectOption, SetToggle, ClearField)
_PLACE_PX, _SAME_GROUND = 48, 12
_MAX_TAG_WORDS = 2

_SLOW = (ClickTarget, PressKeys, DragTarget, AnswerDialog, OpenAddress, ClickFigures)
_SUBMITS = frozenset(
    "save submit send apply register login signin signup logon create add order pay buy update confirm post publish"
    " checkout book subscribe store delete remove".split()
)


def find_message(steps: Sequence[PlainStep], sight: ScreenHistory, progress: StepProgress) -> str | None:
    """Return an error message that appeared after the last action, if any."""
    before = sight.back(1 + progress.num_looks) or sight.back(len(sight.images) - 1)
    if before is None or len(sight.images) < 2 or not progress.last_action or _has_scrolled(steps, progress):
        return None
    return find_error_message(before, sight.now, [*map(str, steps)], is_form=_is_sent(steps, progress))


def _has_scrolled(steps: Sequence[PlainStep], progress: StepProgress) -> bool:
    """Return True if the last action only scrolled or opened a list, so new texts are not messages."""
    if progress.phases:
        return progress.last not in ("type", "toggle", "pick", "keys")
    return bool(progress.index) and isinstance(
        steps[progress.index - 1], (ScrollBy, ScrollUntil, ReportValue, CheckShown)
    )


def is_final(steps: Sequence[PlainStep], progress: StepProgress) -> bool:
    """Return True if no remaining step can fix the cause of a message after the last action."""
    if progress.phases or not progress.index:
        return False
    last, rest = steps[progress.index - 1], steps[progress.index :]
    return isinstance(last, _SLOW) and not any(isinstance(step, (*_FILLING, CheckShown, WaitFor)) for step in rest)


def verify_result(
    steps: Sequence[PlainStep], sight: ScreenHistory, progress: StepProgress
) -> RunCode | Failed | Done | None:
    """Check the screen again, seconds apart, after all steps; return a failure, a doubt, or None.

    Args:
        steps: Steps of the whole instruction.
        sight: Current and earlier screens.
        progress: Progress with all steps done.
    """
    for text in progress.note_texts("saw"):
        if is_still_shown(text, sight.now):
            return Failed(f'all steps are done, and the screen says "{text}"')
    last = steps[-1]
    is_watched = len(sight.images) > 1 and bool(progress.last_action) and _is_watched(last)
    altered = find_changed(steps, sight, progress)
    if altered is not None and (progress.num_looks or not is_watched):  # a message may be fading in over the field
        return Failed(altered)
    if not is_watched:
        return None
    before = sight.back(1 + progress.num_looks) or sight.back(len(sight.images) - 1)
    assert before is not None
    if progress.num_looks < len(sight.images) - 1:
        question = find_question(before, sight.now, [*map(str, steps)])
        if question is not None:
            return Failed(f'a question was left unanswered after the last step ({last}): "{question}"')
    action = _describe_last_action(steps, before)
    if action.pressed is None and progress.note_texts("ran"):
        action = _describe_last_action(steps, sight.now)
    action = replace(action, is_button=action.is_button or bool(progress.note_texts("button")))
    refusal, notes = read_result(before, sight.now, action)
    if refusal is not None:
        return Failed(f'after the last step ({last}) the screen says "{refusal}"')
    notes = _note_changes(steps, sight, progress, before, action, notes)
    is_busy = any(note.kind == "busy" for note in notes)
    if progress.num_looks < len(_LOOKS_S) or (is_busy and progress.num_looks < _MAX_LOOKS):
        pause_s = _LOOKS_S[min(progress.num_looks, len(_LOOKS_S) - 1)]
        thought = "I check the screen again."
        return RunCode(
            code=(f"time.sleep({pause_s:g})",), thought=thought, phase="look", notes=progress.new_notes(notes)
        )
    is_entered = has_entry(sight.now, action, find_typed_boxes(steps, sight.now, progress))
    progress = _without_finished(last, progress.with_notes(notes), before, sight.now)
    return _conclude(last, sight.now, progress, action, is_entered=is_entered)


def _without_finished(last: PlainStep, progress: StepProgress, before: OcrScreen, now: OcrScreen) -> StepProgress:
    """Drop the note on a button's label that showed progress if a message appeared: its return is not a revert."""
    if not progress.note_texts("ran") or not isinstance(last, ClickTarget):
        return progress
    new = (line.text for line in find_new_lines(before, now))
    has_message = any(len(re.findall(r"[^\W\d_]{2,}", text)) > 1 and text not in str(last) for text in new)
    if not (has_message or progress.note_texts("good") or progress.note_texts("unsure")):
        return progress
    label = ScreenNote("gone", last.target.text)
    return replace(progress, notes=tuple(note for note in progress.notes if note != label))


def _is_watched(step: PlainStep) -> bool:
    """Return True if a step affects more than a field, so that its result may appear later or be reverted."""
    return isinstance(step, (SetToggle, SelectOption)) or (
        isinstance(step, _SLOW) and not (isinstance(step, ClickTarget) and not step.clicks)
    )


def _describe_last_action(steps: Sequence[PlainStep], before: OcrScreen) -> LastAction:
    """Describe the last action from the instruction and a screen that shows what was clicked."""
    last = steps[-1]
    is_form = _is_form(steps, StepProgress(index=len(steps))) and not isinstance(last, SetToggle)
    pressed, is_button, colour = None, False, None
    if isinstance(last, ClickTarget):
        hit = find_pressed(before, last.target, find_typed(steps))
        box = hit.button if hit is not None else None
        pressed = box or (hit.line.box_px if hit is not None else None)
        text = last.target.text
        is_opener = last.target.role in ("tab", "menu") or _OPENING.match(text) is not None
        is_verb = bool(_ONCE.match(text) or _SILENT.match(text) or _SUBMITS & {*text.lower().split()[:1]})
        is_button = box is not None and not is_opener and (is_verb or _is_drawn(before, box))
    if pressed is not None:
        colour = find_background(before.crop(pressed))
    return LastAction(
        colour=colour,
        named=[*map(str, steps)],
        typed=tuple(find_typed(steps)),
        pressed=pressed,
        is_form=is_form,
        is_button=is_button,
        opened=last.target.text if isinstance(last, ClickTarget) else "",
    )


def _is_drawn(screen: OcrScreen, box: Box) -> bool:
    """Return True if a button has its own background or outline, unlike tabs and links."""
    above = screen.crop(Box(box.left, box.top - 6, box.right, box.top - 2))
    if above.size == 0:
        return True
    ground, (left, top, right, bottom) = find_background(above).astype(int), (box.left, box.top, box.right, box.bottom)
    middle_x, middle_y = (left + right) // 2, (top + bottom) // 2
    sides = (
        screen.image[top - 2 : top + 3, middle_x],
        screen.image[bottom - 3 : bottom + 2, middle_x],
        screen.image[middle_y, max(0, left - 2) : left + 3],
        screen.image[middle_y, right - 3 : right + 2],
    )
    is_filled = np.abs(find_background(screen.crop(box)).astype(int) - ground).max() > _SAME_GROUND
    return bool(
        is_filled or all(side.size and np.abs(side.astype(int) - ground).max() > _SAME_GROUND for side in sides)
    )


def _note_changes(
    steps: Sequence[PlainStep],
    sight: ScreenHistory,
    progress: StepProgress,
    before: OcrScreen,
    action: LastAction,
    notes: list[ScreenNote],
) -> list[ScreenNote]:
    """Add notes on what disappeared, moves or did not change; earlier notes describe screens that are not kept."""
    note_texts, was_busy = progress.note_texts, progress.note_texts("busy")
    notes = [*notes]
    notes += [ScreenNote("busy", text) for text in progress.note_texts("busy") if is_still_shown(text, sight.now)]
    if PLACEHOLDERS in was_busy and has_placeholders(None, sight.now):
        notes.append(ScreenNote("busy", PLACEHOLDERS))
    earlier, looks = sight.before, progress.num_looks
    is_whole = looks + 1 < len(sight.images)  # the screen on which the action was executed is known
    if is_whole and not looks:
        notes.append(ScreenNote("was", _digest(before, steps[-1])))
        notes += [ScreenNote("button", action.opened)] if action.is_button else []
    earlier_texts = {*note_texts("was"), *(note.text for note in notes if note.kind == "was")}
    if {_digest(sight.now, steps[-1])} != earlier_texts:
        notes.append(ScreenNote("moved", "the texts"))
    if is_whole:
        notes += note_effect(before, sight.now, action)
        near_miss = find_near_miss(before, sight.now, action, find_typed_boxes(steps, sight.now, progress))
        notes += [ScreenNote("doubt", f"the screen says {near_miss}")] if near_miss is not None else []
    if sight.has_news:
        notes.append(ScreenNote("sign", "a note of the environment"))
    if is_whole:
        notes += find_vanished(before, sight.now, str(steps[-1]), action)
        own = sight.now.lines_in(action.pressed) if action.pressed is not None else []
        notes += [ScreenNote("ran", line.text) for line in own if is_in_progress(line.text, is_own=True)]
        if has_unreadable(before, sight.now, action) and action.is_form:
            notes.append(ScreenNote("unsure", UNREADABLE))
    if earlier is not None and looks:
        is_new = is_whole and has_spinner(before, earlier, sight.now)
        goes_on = {TURNING, PAUSED} & {*was_busy} and find_moving_boxes(earlier, sight.now)
        notes += [ScreenNote("busy", TURNING)] if is_new or goes_on else []
        is_still = TURNING in was_busy and not find_changed_boxes(earlier, sight.now)
        notes += [ScreenNote("busy", PAUSED)] if is_still else []
        notes += [ScreenNote("busy", text) for text in find_rising_numbers(before, earlier, sight.now, was_busy)]
        notes += [ScreenNote("busy", "a bar that grows")] if has_progress_grown(before, earlier, sight.now) else []
    bar = find_open_bar(before if is_whole else None, sight.now, action.pressed, was_busy)
    notes += [ScreenNote("busy", bar)] if bar is not None else []
    was_idle = is_whole if looks == 1 else bool(note_texts("idle")) and sight.is_stuck
    is_idle = looks and was_idle and not (sight.has_news or notes or note_texts("gone") or note_texts("good"))
    if is_idle and (looks > 1 or _had_no_effect(steps, sight)):
        notes.append(ScreenNote("idle", "nothing changed"))
    return notes


def _conclude(
    last: PlainStep, now: OcrScreen, progress: StepProgress, action: LastAction, *, is_entered: bool
) -> Failed | Done | None:
    """Judge the last look: work in progress, a revert, no change, or a result that cannot be judged."""
    if progress.note_texts("idle") and not action.is_form and not _must_show(last, now, action):
        return Done("", doubt=f"nothing on the screen changed after the last step ({last})")
    if progress.note_texts("idle"):
        return Failed(f"nothing on the screen changed after the last step ({last}), so success is unknown")
    busy = progress.note_texts("busy")
    if busy:
        return Failed(f'after the last step ({last}) the work is not finished: the screen still shows "{busy[0]}"')
    if isinstance(last, SetToggle):
        toggle = find_toggle(now, last.target)
        is_back = toggle is not None and toggle.is_on != last.is_on
        return Failed(f'"{last.target}" returned to its earlier state after the click') if is_back else None
    came, unsure = progress.note_texts("good"), progress.note_texts("unsure")
    if is_entered:
        unsure = tuple(text for text in unsure if len(text.split()) > _MAX_TAG_WORDS)  # e.g. the author's name
    shown = {alphanumeric(line.text) for line in now.lines}
    back = next((text for text in progress.note_texts("gone") if alphanumeric(text) in shown), None)
    is_flash = isinstance(last, ClickTarget) and _ONCE.match(last.target.text) is not None
    if back is not None and not is_flash:
        return Failed(f'the change of the last step ({last}) was reverted: "{back}" is shown again')
    new = progress.note_texts("new")
    if came or not (unsure or new):
        is_silent = is_flash or (isinstance(last, ClickTarget) and _SILENT.match(last.target.text) is not None)
        is_back = bool(progress.note_texts("moved")) and _digest(now, last) in progress.note_texts("was")
        if came or not is_back or is_silent:
            signs = [*came, *progress.note_texts("sign"), *progress.note_texts("gone")]
            is_sent = isinstance(last, PressKeys) and action.is_form and not {"enter", "return"}.isdisjoint(last.keys)
            if signs or is_entered or not (isinstance(last, ClickTarget) or is_sent):
                return None
            return Done("", doubt=f"nothing on the screen confirms the last step ({last})")
        return Failed(f"the change of the last step ({last}) was reverted: the screen shows its earlier texts again")
    sentences = (text for text in unsure if is_sentence(text) and not holds_typed(text, action))
    long = next((text for text in unsure if text == UNREADABLE), next(sentences, None))
    if long is not None and action.is_form:
        return Failed(f'after the last step ({last}) the screen says "{long}", which does not confirm it')
    return Done("", doubt=f'the screen says "{[*unsure, *new][0]}"')


def _digest(screen: OcrScreen, last: PlainStep) -> str:
    """Return a digest of all texts and their approximate positions, without the text of what was clicked."""
    pressed = alphanumeric(last.target.text) if isinstance(last, ClickTarget) else ""
    texts = (
        (alphanumeric(line.text), *(round(side) // _PLACE_PX for side in line.box_px.center)) for line in screen.lines
    )
    return hashlib.blake2b(repr([each for each in texts if each[0] != pressed]).encode(), digest_size=6).hexdigest()


def _must_show(last: PlainStep, now: OcrScreen, action: LastAction) -> bool:
    """Return True if a step must change the screen to have worked: its target is not a control, or opens one."""
    if not isinstance(last, ClickTarget) or last.target.role == "menu" or len(last.target.text) == 1:
        return True
    if action.is_button and not _SILENT.match(last.target.text):
        return True
    pressed = find_pressed(now, last.target, action.typed)
    return pressed is None or pressed.is_heading or shows_typed_text(now, pressed, action.typed)


def _had_no_effect(steps: Sequence[PlainStep], sight: ScreenHistory) -> bool:
    """Return True if a form's button, a heading or a typed text was clicked and nothing else changed."""
    last, before = steps[-1], sight.back(2)
    if before is not None and isinstance(last, (ClickFigures, DescribeFigures)):
        return not find_changed_boxes(before, sight.now)
    if before is None or not isinstance(last, ClickTarget) or last.button != "left" or not last.clicks:
        return False
    typed = find_typed(steps)
    if not find_changed_boxes(before, sight.now) and not _SILENT.match(last.target.text):
        return True
    pressed = find_pressed(before, last.target, typed)
    if pressed is None or last.target.role == "menu":
        is_sign = len(last.target.text) == 1 or last.target.role == "menu"
        return is_sign and not find_changed_regions(
            before, sight.now, pressed.line.box_px if pressed is not None else None
        )
    is_submit = pressed.button is not None and last.target.role != "tab" and not _SILENT.match(last.target.text)
    if not is_submit and not pressed.is_heading and not shows_typed_text(before, pressed, typed):
        return False
    return not find_changed_regions(before, sight.now, pressed.button or pressed.line.box_px)


def _is_form(steps: Sequence[PlainStep], progress: StepProgress) -> bool:
    """Return True if a form was filled so far, or the last action clicked a button named like a submit button."""
    done = steps[: progress.index + bool(progress.phases)]
    if any(isinstance(step, _FILLING) for step in done):
        return True
    last = done[-1] if done else None
    text = last.target.text.lower().replace("-", "") if isinstance(last, ClickTarget) else ""
    return bool(_SUBMITS & {text.replace(" in", "in").replace(" up", "up"), *text.split()})


def _is_sent(steps: Sequence[PlainStep], progress: StepProgress) -> bool:
    """Return True if the last action may have sent a form; red hints during filling are not refusals."""
    is_filling = bool(progress.phases) or (progress.index and isinstance(steps[progress.index - 1], _FILLING))
    return not is_filling and _is_form(steps, progress)
