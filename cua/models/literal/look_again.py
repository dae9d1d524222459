"""After an act: did it work? Typed text read back, messages, questions left open, buttons that changed nothing."""

import difflib
import re
from collections.abc import Sequence

from cua.models.literal.differences import find_changed_boxes, find_effects, find_new_lines, has_changed_inside
from cua.models.literal.do_pointer import find_pressed
from cua.models.literal.find_field import Field
from cua.models.literal.find_target import is_echo
from cua.models.literal.moves import Act, Failed
from cua.models.literal.progress import Progress
from cua.models.literal.screen import Screen, Sight
from cua.models.literal.steps import (
    AnswerDialog,
    CheckShown,
    ClearField,
    Click,
    Drag,
    OpenAddress,
    PlainStep,
    PressKeys,
    Report,
    ScrollBy,
    ScrollUntil,
    SelectOption,
    SetValue,
    Tick,
    TypeText,
    WaitFor,
    find_typed,
)
from cua.models.literal.text_match import CONTAINED, fit_texts, squash
from cua.models.literal.trouble import find_question, find_trouble, still_stands
from cua.models.literal.work_steps import PressFigures, TellFigures
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs

_MAX_LOOKS = 3
_FILLING = (TypeText, SetValue, SelectOption, Tick, ClearField)
_SLOW = (Click, PressKeys, Drag, AnswerDialog, OpenAddress, PressFigures)
_SUBMITS = frozenset(
    "save submit send apply register login signin signup logon create add order pay buy update confirm post publish"
    " checkout book subscribe store delete remove".split()
)


def find_message(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> str | None:
    """A message that the last act brought up and that says that something is wrong."""
    before = sight.back(1 + progress.num_looks) or sight.back(len(sight.images) - 1)
    if before is None or len(sight.images) < 2 or not progress.last_action or _has_scrolled(steps, progress):
        return None
    return find_trouble(before, sight.now, _named_texts(steps), is_form=_is_sent(steps, progress))


def _has_scrolled(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether the last action only moved the view or opened a list, so that what is new is no message."""
    if progress.phases:
        return progress.last not in ("type", "toggle", "pick", "keys")
    return bool(progress.index) and isinstance(steps[progress.index - 1], (ScrollBy, ScrollUntil, Report, CheckShown))


def is_final(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether a message after the last act cannot be mended by what is still to be done."""
    if progress.phases or not progress.index:
        return False
    last, rest = steps[progress.index - 1], steps[progress.index :]
    return isinstance(last, _SLOW) and not any(isinstance(step, (*_FILLING, CheckShown, WaitFor)) for step in rest)


def look_again(steps: Sequence[PlainStep], sight: Sight, progress: Progress) -> Act | Failed | None:
    """What to do when all steps are done: look once more, say what is wrong, or nothing.

    Args:
        steps: The whole instruction.
        sight: What is seen, and what was seen before.
        progress: All steps done.
    """
    for text in progress.seen:
        if still_stands(text, sight.now):
            return Failed(reason=f'all steps are done, and the screen says "{text}"')
    last = steps[-1]
    if len(sight.images) < 2 or not progress.last_action or not isinstance(last, _SLOW):
        return None
    before = sight.back(1 + progress.num_looks)
    if before is not None:
        question = find_question(before, sight.now, _named_texts(steps))
        if question is not None:
            return Failed(reason=f'a question was left open after the last step ({last}): "{question}"')
    if progress.num_looks == 0 or (progress.num_looks < _MAX_LOOKS and not sight.is_stuck):
        return Act(code=("time.sleep(1)",), thought="I look again whether it worked.", phase="look")
    if progress.num_looks == 1 and not sight.has_news and _had_no_effect(steps, sight):
        return Failed(reason=f"nothing on the screen changed after the last step ({last}), so that I cannot claim it")
    return None


def _had_no_effect(steps: Sequence[PlainStep], sight: Sight) -> bool:
    """Whether a form's button, a heading or what was typed was pressed and nothing but itself looks different."""
    last, before = steps[-1], sight.back(2)
    if before is not None and isinstance(last, (PressFigures, TellFigures)):
        return not find_changed_boxes(before, sight.now)
    if before is None or not isinstance(last, Click) or last.button != "left" or not last.clicks:
        return False
    typed = find_typed(steps)
    pressed = find_pressed(before, last.target, typed)
    if pressed is None or last.target.role == "menu":
        is_sign = len(last.target.text) == 1 or last.target.role == "menu"
        return is_sign and not find_effects(before, sight.now, pressed.line.box_px if pressed is not None else None)
    is_submit = pressed.button is not None and _is_form(steps, Progress(index=len(steps)))
    if not is_submit and not pressed.is_heading and not is_echo(before, pressed, typed):
        return False
    return not find_effects(before, sight.now, pressed.button or pressed.line.box_px)


def _is_form(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether a form was filled so far, or the last act pressed something that is named as such buttons are."""
    done = steps[: progress.index + bool(progress.phases)]
    if any(isinstance(step, _FILLING) for step in done):
        return True
    last = done[-1] if done else None
    text = last.target.text.lower().replace("-", "") if isinstance(last, Click) else ""
    return bool(_SUBMITS & {text.replace(" in", "in").replace(" up", "up"), *text.split()})


def _is_sent(steps: Sequence[PlainStep], progress: Progress) -> bool:
    """Whether the last act may have sent a form: red hints that come up while it is filled are none of a refusal."""
    is_filling = bool(progress.phases) or (progress.index and isinstance(steps[progress.index - 1], _FILLING))
    return not is_filling and _is_form(steps, progress)


def _named_texts(steps: Sequence[PlainStep]) -> list[str]:
    """What the instruction names: a message made of it is wanted."""
    return [str(step) for step in steps]


_MIN_RATIO = 0.6
_MIN_READABLE = 3
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_MIN_DOTS = 2
_CHAR_PX = 6
_MIN_PART = 0.7
_DOT_FILL = 0.45


def check_typed(text: str, field: Field, before: Screen, now: Screen) -> str | None:
    """The problem after a text was typed into a field; None when the text is there, or nothing contradicts it.

    A field may show a part of it (the end of a long text), other signs (a date, a number with separators), dots (a
    password), or what cannot be read back (one letter, a script that is not known): then it must have changed.

    Args:
        text: What was typed.
        field: Where, as it was found on the screen before.
        before: The screen before typing.
        now: The screen after it.
    """
    box = _find_box(field.box_px, now)
    seen = _read_inside(now, box)
    if _is_shown(text, seen) or _is_part(text, seen, box):
        return None
    has_changed = has_changed_inside(before, now, box)
    if has_changed and (not _is_readable(text) or _holds_dots(now, box)):
        return None
    elsewhere = _find_elsewhere(text, before, now, box)
    if elsewhere:
        return f'the text went to another place: it stands in "{elsewhere}"'
    if not has_changed:
        return "the field did not change when I typed" + (f'; it shows "{seen}"' if seen else "")
    if not squash(seen):
        return None if find_ink(now.crop(box.padded(-2))).any() else "the field is empty after I typed"
    return f'the field shows "{seen}" after I typed'


def _find_box(box: Box, now: Screen) -> Box:
    """The field's box on the screen of now: it may have grown with its text."""
    for rectangle in now.rectangles:
        found = rectangle.box_px
        if found.padded(4).contains(box) and found.area < 3 * box.area:
            return found
    return box


def _read_inside(screen: Screen, box: Box) -> str:
    """The words that stand in a box, also when the reader joined them with those before it."""
    reach = box.padded(2)
    inside = [pair for line in screen.lines for pair in line.words if reach.has_point(*pair[1].center)]
    rows: list[list[tuple[str, Box]]] = []
    for word, place in sorted(inside, key=lambda pair: pair[1].center[1]):  # a caret may cut a line in two
        if rows and place.overlap_y(rows[-1][0][1]) > 0.5 * min(place.height, rows[-1][0][1].height):
            rows[-1].append((word, place))
        else:
            rows.append([(word, place)])
    return " ".join(word for row in rows for word, _ in sorted(row, key=lambda pair: pair[1].left))


def _is_shown(text: str, seen: str) -> bool:
    wanted, read = squash(text), squash(seen)
    if not re.search(r"\d", text):
        wanted, read = (re.sub("l+", "l", words) for words in (wanted, read))  # "ill" is read with too few strokes
    if not wanted:
        return text.strip() in seen
    if any(fit.score >= CONTAINED for fit in fit_texts(text, seen)) or wanted in read:
        return True
    if len(read) >= _MIN_READABLE and (read in wanted and len(read) >= 0.4 * min(len(wanted), 30)):
        return read == wanted[-len(read) :] or len(wanted) > 30 or len(read) >= 0.9 * len(wanted)
    digits = sorted(re.sub(r"\D", "", text).lstrip("0"))
    if digits and not re.search(r"[^\W\d]", text):
        return digits == sorted(re.sub(r"\D", "", seen).lstrip("0")) or _same_date(text, seen)
    return len(read) >= _MIN_READABLE and _ratio(wanted, read) >= _MIN_RATIO


def _is_part(text: str, seen: str, box: Box) -> bool:
    """Whether a part of a text is shown by a field that is too narrow for all of it; its ends may be cut letters."""
    wanted, read = squash(text), squash(seen)
    if len(text) * _CHAR_PX < box.width - 8 or len(read) <= _MIN_READABLE:
        return False
    matcher = difflib.SequenceMatcher(None, wanted, read, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks() if block.size > 1) >= _MIN_PART * len(read)


def _same_date(text: str, seen: str) -> bool:
    """Whether both hold the same numbers in any order: a date as its field shows it."""
    numbers = sorted(int(part) for part in re.findall(r"\d+", text))
    return len(numbers) >= 2 and numbers == sorted(int(part) for part in re.findall(r"\d+", seen))


def _ratio(wanted: str, read: str) -> float:
    """How much of what is read is a part of what was typed, in order."""
    matcher = difflib.SequenceMatcher(None, wanted, read, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks() if block.size > 1)
    return same / max(len(read), min(len(wanted), 60))


def _is_readable(text: str) -> bool:
    """Whether a text can be expected to be read back: enough letters, and no secret's placeholder."""
    return _PLACEHOLDER.search(text) is None and len(squash(text)) >= _MIN_READABLE


def _find_elsewhere(text: str, before: Screen, now: Screen, box: Box) -> str | None:
    if not _is_readable(text):
        return None
    for line in find_new_lines(before, now):
        for fit in fit_texts(text, line.text):
            if fit.score >= CONTAINED and not box.padded(4).has_point(*line.span(fit.start, fit.end).center):
                return line.text
    return None


def _holds_dots(screen: Screen, box: Box) -> bool:
    """Whether a field holds a row of equal marks, as passwords are shown."""
    ink = find_ink(screen.crop(box.padded(-3)))
    if ink.size == 0:
        return False
    runs = [(start, end) for start, end in find_runs(ink.any(axis=0)) if end - start > 1]
    if len(runs) < _MIN_DOTS:
        return False
    shapes = [ink[:, start:end] for start, end in runs]
    shapes = [shape[shape.any(axis=1)] for shape in shapes]
    usual_height, usual_width = (
        sorted(sizes)[len(runs) // 2] for sizes in zip(*(s.shape for s in shapes), strict=True)
    )
    equal = sum(
        abs(shape.shape[0] - usual_height) <= 1 and abs(shape.shape[1] - usual_width) <= 1 and shape.mean() > _DOT_FILL
        for shape in shapes
    )
    is_round = usual_height <= 1.3 * usual_width and usual_width <= 1.5 * usual_height
    return bool(is_round and equal >= max(_MIN_DOTS, 0.75 * len(runs)))
