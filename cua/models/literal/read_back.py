"""Read typed text back from where it was typed."""

import difflib
import re

from cua.models.literal.differences import find_new_lines, has_changed_inside
from cua.models.literal.find_field import Field
from cua.models.literal.screen import Screen
from cua.models.literal.text_match import CONTAINED, fit_texts, squash
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs

_MIN_RATIO = 0.6
_MIN_READABLE = 3
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_MIN_DOTS = 2
_CHAR_PX = 6
_MIN_PART = 0.7
_DOT_FILL = 0.45


def check_typed(text: str, field: Field, before: Screen, now: Screen) -> str | None:
    """What is wrong after a text was typed into a field; None when it stands there, or nothing speaks against it.

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
    words = [word for line in screen.lines for word, place in line.words if reach.has_point(*place.center)]
    return " ".join(words)


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
