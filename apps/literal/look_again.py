"""Check the screen after the last action: whether it worked, and whether fields still hold what was entered."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apps.literal.do_choice import shows_option
from apps.literal.do_keyboard import format_like
from apps.literal.do_pointer import find_pressed
from apps.literal.field_boxes import find_field_boxes
from apps.literal.find_field import Field, find_field, is_echo
from apps.literal.find_kind import find_toggle
from apps.literal.message_words import is_at_work, is_sentence
from apps.literal.moves import Act, Already, Failed, Note, Progress
from apps.literal.news import (
    PAUSED,
    PLACEHOLDERS,
    TURNING,
    UNREADABLE,
    Deed,
    find_entry,
    find_gone,
    find_moved,
    find_near_miss,
    find_open_bar,
    find_returned,
    find_rising,
    find_turning,
    has_grown,
    has_placeholders,
    has_unreadable,
    holds_typed,
    note_sign,
    read_news,
)
from apps.literal.read_back import find_altered, read_field, read_typed
from apps.literal.screen import Screen, Sight, find_changed_boxes, find_effects, find_new_lines
from apps.literal.steps import (
    AnswerDialog,
    CheckShown,
    ClearField,
    Click,
    Drag,
    OpenAddress,
    PasteText,
    PlainStep,
    PressFigures,
    PressKeys,
    Report,
    ScrollBy,
    ScrollUntil,
    SelectOption,
    SelectText,
    SetValue,
    TellFigures,
    Tick,
    TypeText,
    WaitFor,
    find_typed,
)
from apps.literal.targets import one_line
from apps.literal.text_match import squash
from apps.literal.trouble import find_question, find_trouble, still_stands
from visual_tools.box import Box
from visual_tools.ink import find_background

_UNSET = re.compile(
    r"\W*(?:(?:please )?(?:select|choose|pick)|none\b|nobody|any\b|all\b|bitte|choisi|elegir|seleccion)", re.I
)
"""Texts of lists in which nothing is chosen."""
_TYPING = (TypeText, SetValue, SelectOption)
_EDITING = (PasteText, SelectText)
_LEAVING = frozenset({"enter", "return", "tab", "esc", "escape"})
_SPINS = frozenset("+-−–<>▲▼")
"""Signs on buttons that increase or decrease a field's number."""


def find_changed(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> str | None:
    """Describe a field or list that no longer shows what was typed or chosen; None if there is none."""
    last_typed = {step.field: index for index, step in enumerate(steps) if isinstance(step, _TYPING)}
    for target, index in last_typed.items():
        step, typed = steps[index], read_typed(progress, index)
        if target is None or typed is None or _is_edited(steps, index):
            continue
        is_later = bool(progress.num_looks) or index < len(steps) - 1  # the previous screen also shows what was typed
        for screen in (sight.before, sight.now) if is_later and sight.before is not None else (sight.now,):
            found = find_field(screen, target, kind="list" if isinstance(step, SelectOption) else "text")
            if found is None or not typed.is_at(found.box_px):
                continue
            if isinstance(step, SelectOption):
                text, seen = step.option.text, _find_other(step, found, screen)
            else:
                text = step.value if isinstance(step, SetValue) else step.text if isinstance(step, TypeText) else ""
                shown = format_like(text, typed.held)
                seen = find_altered(text, found, screen, was=typed.shown, held=typed.held, shown=shown)
            is_placeholder = seen is not None and squash(seen) == squash(str(target))  # named by its placeholder
            if seen is not None and not is_placeholder and not _is_chosen(steps[index + 1 :], seen):
                return f'{target} shows "{seen}" after the last step, and I entered "{one_line(text)}"'
    return None


def _find_other(step: SelectOption, found: Field, screen: Screen) -> str | None:
    """Return the option that a list shows instead of the chosen one; None if no option is chosen."""
    seen = read_field(found, screen)
    is_set = len(squash(seen)) > 1 and not _UNSET.match(seen)
    return seen if is_set and not step.is_more and not shows_option(screen, found, step.option.text) else None


def _is_edited(steps: Sequence[PlainStep], index: int) -> bool:
    """Return True if a field may differ from what a step typed, because it appended or a later step edits the field."""
    step, rest = steps[index], steps[index + 1 :]
    if isinstance(step, TypeText) and step.append:
        return True
    following = rest[0] if rest else None
    is_key = isinstance(following, PressKeys) and not {*following.keys} <= _LEAVING and not following.is_submit
    is_spin = any(isinstance(each, Click) and each.target.text in _SPINS for each in rest)
    is_typed_on = isinstance(following, TypeText) and following.field is None
    return is_key or is_spin or is_typed_on or isinstance(following, _EDITING)


def _is_chosen(rest: Sequence[PlainStep], seen: str) -> bool:
    """Return True if the step after typing clicked the text that the field shows, such as a suggestion."""
    step = rest[0] if rest else None
    text = squash(step.target.text) if isinstance(step, Click) else ""
    return bool(text) and text in squash(seen)


def find_typed_boxes(steps: Sequence[PlainStep], now: Screen, progress: Progress) -> list[Box]:
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
_FILLING = (TypeText, SetValue, SelectOption, Tick, ClearField)
_PLACE_PX, _SAME_GROUND = 48, 12
_MAX_TAG_WORDS = 2

_SLOW = (Click, PressKeys, Drag, AnswerDialog, OpenAddress, PressFigures)
_SUBMITS = frozenset(
    "save submit send apply register login signin signup logon create add order pay buy update confirm post publish"
    " checkout book subscribe store delete remove".split()
)


def find_message(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> str | None:
    """Return an error message that appeared after the last action, if any."""
    before = sight.back(1 + progress.num_looks) or sight.back(len(sight.images) - 1)
    if before is None or len(sight.images) < 2 or not progress.last_action or _has_scrolled(steps, progress):
        return None
    return find_trouble(before, sight.now, _named_texts(steps), is_form=_is_sent(steps, progress))


def _has_scrolled(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Return True if the last action only scrolled or opened a list, so new texts are not messages."""
    if progress.phases:
        return progress.last not in ("type", "toggle", "pick", "keys")
    return bool(progress.index) and isinstance(steps[progress.index - 1], (ScrollBy, ScrollUntil, Report, CheckShown))


def is_final(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Return True if no remaining step can fix the cause of a message after the last action."""
    if progress.phases or not progress.index:
        return False
    last, rest = steps[progress.index - 1], steps[progress.index :]
    return isinstance(last, _SLOW) and not any(isinstance(step, (*_FILLING, CheckShown, WaitFor)) for step in rest)


def look_again(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> Act | Failed | Already | None:
    """Check the screen again, seconds apart, after all steps; return a failure, a doubt, or None.

    Args:
        steps: Steps of the whole instruction.
        sight: Current and earlier screens.
        progress: Progress with all steps done.
    """
    for text in progress.noted("saw"):
        if still_stands(text, sight.now):
            return Failed(reason=f'all steps are done, and the screen says "{text}"')
    altered = find_changed(steps, sight, progress)
    if altered is not None:
        return Failed(reason=altered)
    last = steps[-1]
    if len(sight.images) < 2 or not progress.last_action or not _is_watched(last):
        return None
    before = sight.back(1 + progress.num_looks) or sight.back(len(sight.images) - 1)
    assert before is not None
    if progress.num_looks < len(sight.images) - 1:
        question = find_question(before, sight.now, _named_texts(steps))
        if question is not None:
            return Failed(reason=f'a question was left open after the last step ({last}): "{question}"')
    deed = _make_deed(steps, before)
    if deed.pressed is None and progress.noted("ran"):
        deed = _make_deed(steps, sight.now)
    deed = replace(deed, is_button=deed.is_button or bool(progress.noted("button")))
    refusal, notes = read_news(before, sight.now, deed)
    if refusal is not None:
        return Failed(reason=f'after the last step ({last}) the screen says "{refusal}"')
    notes = _note_changes(steps, sight, progress, before, deed, notes)
    is_busy = any(note.kind == "busy" for note in notes)
    if progress.num_looks < len(_LOOKS_S) or (is_busy and progress.num_looks < _MAX_LOOKS):
        pause_s = _LOOKS_S[min(progress.num_looks, len(_LOOKS_S) - 1)]
        thought = "I look again whether it worked."
        return Act(code=(f"time.sleep({pause_s:g})",), thought=thought, phase="look", notes=progress.unwritten(notes))
    has_entry = find_entry(sight.now, deed, find_typed_boxes(steps, sight.now, progress)) is not None
    progress = _without_finished(last, progress.with_notes(notes), before, sight.now)
    return _conclude(last, sight.now, progress, deed, has_entry=has_entry)


def _without_finished(last: PlainStep, progress: Progress, before: Screen, now: Screen) -> Progress:
    """Drop the note on a button's label that showed progress if a message appeared: its return is not a revert."""
    if not progress.noted("ran") or not isinstance(last, Click):
        return progress
    new = (line.text for line in find_new_lines(before, now))
    has_message = any(len(re.findall(r"[^\W\d_]{2,}", text)) > 1 and text not in str(last) for text in new)
    if not (has_message or progress.noted("good") or progress.noted("unsure")):
        return progress
    label = Note(kind="gone", text=last.target.text)
    return replace(progress, notes=tuple(note for note in progress.notes if note != label))


def _is_watched(step: PlainStep) -> bool:
    """Return True if a step affects more than a field, so that its result may appear later or be reverted."""
    return isinstance(step, (Tick, SelectOption)) or (
        isinstance(step, _SLOW) and not (isinstance(step, Click) and not step.clicks)
    )


def _make_deed(steps: Sequence[PlainStep], before: Screen) -> Deed:
    """Describe the last action from the instruction and a screen that shows what was clicked."""
    last = steps[-1]
    is_form = _is_form(steps, Progress(index=len(steps))) and not isinstance(last, Tick)
    pressed, is_button, colour = None, False, None
    if isinstance(last, Click):
        found = find_pressed(before, last.target, find_typed(steps))
        box = found.button if found is not None else None
        pressed = box or (found.line.box_px if found is not None else None)
        is_opener = last.target.role in ("tab", "menu") or _OPENING.match(last.target.text) is not None
        is_button = box is not None and not is_opener and (_is_verb(last.target.text) or _is_drawn(before, box))
    if pressed is not None:
        colour = find_background(before.crop(pressed))
    return Deed(
        colour=colour,
        named=_named_texts(steps),
        typed=tuple(find_typed(steps)),
        pressed=pressed,
        is_form=is_form,
        is_button=is_button,
        opened=last.target.text if isinstance(last, Click) else "",
    )


def _is_verb(text: str) -> bool:
    """Return True if a button's text begins with a verb of an action."""
    return any(pattern.match(text) for pattern in (_ONCE, _SILENT)) or text.lower().split()[0] in _SUBMITS


def _is_drawn(screen: Screen, box: Box) -> bool:
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
    steps: Sequence[PlainStep], sight: Sight, progress: Progress, before: Screen, deed: Deed, notes: list[Note]
) -> list[Note]:
    """Add notes on what disappeared, moves or did not change; earlier notes describe screens that are not kept."""
    notes = [*notes]
    notes += [Note(kind="busy", text=text) for text in progress.noted("busy") if still_stands(text, sight.now)]
    if PLACEHOLDERS in progress.noted("busy") and has_placeholders(None, sight.now):
        notes.append(Note(kind="busy", text=PLACEHOLDERS))
    earlier, looks = sight.before, progress.num_looks
    is_whole = looks + 1 < len(sight.images)  # the screen on which the action was executed is known
    if is_whole and not looks:
        notes.append(Note(kind="was", text=_digest(before, steps[-1])))
        notes += [Note(kind="button", text=deed.opened)] if deed.is_button else []
    if {_digest(sight.now, steps[-1])} != {
        *progress.noted("was"),
        *(note.text for note in notes if note.kind == "was"),
    }:
        notes.append(Note(kind="moved", text="the texts"))
    notes += note_sign(before, sight.now, deed) if is_whole else []
    if (
        is_whole
        and (miss := find_near_miss(before, sight.now, deed, find_typed_boxes(steps, sight.now, progress))) is not None
    ):
        notes.append(Note(kind="doubt", text=f"the screen says {miss}"))
    if sight.has_news:
        notes.append(Note(kind="sign", text="a note of the environment"))
    if is_whole:
        notes += find_gone(before, sight.now, str(steps[-1]), deed)
        own = sight.now.lines_in(deed.pressed) if deed.pressed is not None else []
        notes += [Note(kind="ran", text=line.text) for line in own if is_at_work(line.text, is_own=True)]
        if has_unreadable(before, sight.now, deed) and deed.is_form:
            notes.append(Note(kind="unsure", text=UNREADABLE))
    if earlier is not None and looks:
        is_new = is_whole and find_turning(before, earlier, sight.now)
        goes_on = {TURNING, PAUSED} & {*progress.noted("busy")} and find_moved(earlier, sight.now)
        notes += [Note(kind="busy", text=TURNING)] if is_new or goes_on else []
        is_still = TURNING in progress.noted("busy") and not find_changed_boxes(earlier, sight.now)
        notes += [Note(kind="busy", text=PAUSED)] if is_still else []
        rising = find_rising(before, earlier, sight.now, progress.noted("busy"))
        notes += [Note(kind="busy", text=text) for text in rising]
        notes += [Note(kind="busy", text="a bar that grows")] if has_grown(before, earlier, sight.now) else []
    bar = find_open_bar(before if is_whole else None, sight.now, deed.pressed, progress.noted("busy"))
    notes += [Note(kind="busy", text=bar)] if bar is not None else []
    was_idle = is_whole if looks == 1 else bool(progress.noted("idle")) and sight.is_stuck
    is_idle = (
        looks and was_idle and not sight.has_news and not (notes or progress.noted("gone") or progress.noted("good"))
    )
    if is_idle and (looks > 1 or _had_no_effect(steps, sight)):
        notes.append(Note(kind="idle", text="nothing changed"))
    return notes


def _conclude(
    last: PlainStep, now: Screen, progress: Progress, deed: Deed, *, has_entry: bool
) -> Failed | Already | None:
    """Judge the last look: work in progress, a revert, no change, or a result that cannot be judged."""
    if progress.noted("idle") and not deed.is_form and not _must_show(last, now, deed):
        return Already(thought="", doubt=f"nothing on the screen changed after the last step ({last})")
    if progress.noted("idle"):
        return Failed(reason=f"nothing on the screen changed after the last step ({last}), so that I cannot claim it")
    busy = progress.noted("busy")
    if busy:
        return Failed(reason=f'after the last step ({last}) it is not finished: the screen still shows "{busy[0]}"')
    if isinstance(last, Tick):
        toggle = find_toggle(now, last.target)
        is_back = toggle is not None and toggle.is_on != last.is_on
        return Failed(reason=f'"{last.target}" went back after I pressed it') if is_back else None
    came, unsure = progress.noted("good"), progress.noted("unsure")
    if has_entry:
        unsure = tuple(text for text in unsure if len(text.split()) > _MAX_TAG_WORDS)  # e.g. the author's name
    back = next(iter(find_returned(now, progress.noted("gone"))), None)
    is_flash = isinstance(last, Click) and _ONCE.match(last.target.text) is not None
    if back is not None and not is_flash:
        return Failed(reason=f'what the last step ({last}) changed went back: "{back}" stands there again')
    new = progress.noted("new")
    if came or not (unsure or new):
        is_silent = is_flash or (isinstance(last, Click) and _SILENT.match(last.target.text) is not None)
        is_back = bool(progress.noted("moved")) and _digest(now, last) in progress.noted("was")
        if came or not is_back or is_silent:
            signs = [*came, *progress.noted("sign"), *progress.noted("gone")]
            is_sent = isinstance(last, PressKeys) and deed.is_form and not {"enter", "return"}.isdisjoint(last.keys)
            if signs or has_entry or not (isinstance(last, Click) or is_sent):
                return None
            return Already(thought="", doubt=f"nothing on the screen says so after the last step ({last})")
        return Failed(
            reason=f"what the last step ({last}) changed went back: the screen says again what it said before"
        )
    sentences = (text for text in unsure if is_sentence(text) and not holds_typed(text, deed))
    long = next((text for text in unsure if text == UNREADABLE), next(sentences, None))
    if long is not None and deed.is_form:
        return Failed(reason=f'after the last step ({last}) the screen says "{long}", and I cannot tell that it worked')
    return Already(thought="", doubt=f'the screen says "{[*unsure, *new][0]}"')


def _digest(screen: Screen, last: PlainStep) -> str:
    """Return a digest of all texts and their approximate positions, without the text of what was clicked."""
    pressed = squash(last.target.text) if isinstance(last, Click) else ""
    texts = ((squash(line.text), *(round(side) // _PLACE_PX for side in line.box_px.center)) for line in screen.lines)
    return hashlib.blake2b(repr([each for each in texts if each[0] != pressed]).encode(), digest_size=6).hexdigest()


def _must_show(last: PlainStep, now: Screen, deed: Deed) -> bool:
    """Return True if a step must change the screen to have worked: its target is not a control, or opens one."""
    if not isinstance(last, Click) or last.target.role == "menu" or len(last.target.text) == 1:
        return True
    if deed.is_button and not _SILENT.match(last.target.text):
        return True
    pressed = find_pressed(now, last.target, deed.typed)
    return pressed is None or pressed.is_heading or is_echo(now, pressed, deed.typed)


def _had_no_effect(steps: Sequence[PlainStep], sight: Sight) -> bool:
    """Return True if a form's button, a heading or a typed text was clicked and nothing else changed."""
    last, before = steps[-1], sight.back(2)
    if before is not None and isinstance(last, (PressFigures, TellFigures)):
        return not find_changed_boxes(before, sight.now)
    if before is None or not isinstance(last, Click) or last.button != "left" or not last.clicks:
        return False
    typed = find_typed(steps)
    if not find_changed_boxes(before, sight.now) and not _SILENT.match(last.target.text):
        return True
    pressed = find_pressed(before, last.target, typed)
    if pressed is None or last.target.role == "menu":
        is_sign = len(last.target.text) == 1 or last.target.role == "menu"
        return is_sign and not find_effects(before, sight.now, pressed.line.box_px if pressed is not None else None)
    is_submit = pressed.button is not None and last.target.role != "tab" and not _SILENT.match(last.target.text)
    if not is_submit and not pressed.is_heading and not is_echo(before, pressed, typed):
        return False
    return not find_effects(before, sight.now, pressed.button or pressed.line.box_px)


def _is_form(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Return True if a form was filled so far, or the last action clicked a button named like a submit button."""
    done = steps[: progress.index + bool(progress.phases)]
    if any(isinstance(step, _FILLING) for step in done):
        return True
    last = done[-1] if done else None
    text = last.target.text.lower().replace("-", "") if isinstance(last, Click) else ""
    return bool(_SUBMITS & {text.replace(" in", "in").replace(" up", "up"), *text.split()})


def _is_sent(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Return True if the last action may have sent a form; red hints during filling are not refusals."""
    is_filling = bool(progress.phases) or (progress.index and isinstance(steps[progress.index - 1], _FILLING))
    return not is_filling and _is_form(steps, progress)


def _named_texts(steps: Sequence[PlainStep]) -> list[str]:
    """Return the texts of the instruction; a message that consists of them is expected."""
    return [str(step) for step in steps]
