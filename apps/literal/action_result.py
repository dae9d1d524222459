"""Find texts that appeared after an action, and signs of work in progress."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.literal.error_messages import find_tone, is_control, is_named
from apps.literal.field_boxes import find_field_boxes
from apps.literal.find_text import joined_lines
from apps.literal.message_words import (
    CODE_ASKED,
    GOOD,
    REFUSED,
    WALL,
    MessageVerdict,
    classify_message,
    fold,
    is_in_progress,
    is_incomplete,
    to_number,
    without_instructed,
)
from apps.literal.screen import OcrScreen, find_changed_boxes, find_changed_regions, find_new_lines, fraction_kept
from apps.literal.step_outcome import ScreenNote
from apps.literal.text_match import CONTAINED, alphanumeric, fit_texts
from apps.literal.verify_typed import compare_typed
from visual_tools.box import Box
from visual_tools.ink import find_background, find_ink
from visual_tools.ocr import TextLine

_BAR_PX, _MIN_LENGTH_PX, _MIN_UNEVEN = (4, 40), 80, 4
_BAR_NOTE = re.compile(r"a bar that is not full \((\d+), (\d+), (\d+), (\d+)\)")
_EVEN, _OTHER, _SOFT_EDGE_PX = 12, 30, 8
_ABOVE_PX, _PALE = 6, 5
_MAX_SPREAD = 12
_PLACEHOLDER_PX, _MAX_PLACEHOLDER_PX, _MIN_PLACEHOLDERS, _PALE_FILL, _RIM_PX = (6, 26), 240, 3, 40, 4
_STRIP_PX, _MIN_STRIP_PX = (2, 16), 60
PLACEHOLDERS = "placeholders without text"
TURNING, PAUSED = "a moving element", "an element that moved a moment ago"
_MIN_TURNING_PX, _MAX_TURNING_PX = 4, 120
_DURATION = re.compile(r"\d:\d\d|\bago\b|\d ?(?:s|sec\w*|min\w*|h|hours?)\b")


def find_open_bar(
    before: OcrScreen | None, now: OcrScreen, pressed: Box | None, note_texts: Iterable[str]
) -> str | None:
    """Return a note on a progress bar that appeared, or was noted earlier, and is only partly filled.

    Args:
        before: Screen on which the action was executed; None if it is no longer known.
        now: A later screen.
        pressed: Box that was clicked.
        note_texts: Earlier notes of work in progress.
    """
    bar_notes = (_BAR_NOTE.fullmatch(text) for text in note_texts)
    bars = [Box(*(int(number) for number in bar_note.groups())) for bar_note in bar_notes if bar_note is not None]
    if before is not None:
        effects = find_changed_regions(before, now, pressed)
        (least, most), long_px = _BAR_PX, _MIN_LENGTH_PX
        bars += [
            _with_pale_part(now, box)
            for box in effects
            if least <= box.height <= most
            and box.width >= max(long_px, _MIN_UNEVEN * box.height)
            and not _has_text(now, box)
        ]
    open_bars = [box for box in dict.fromkeys(bars) if _is_partly_filled(now.crop(box))]
    if len(open_bars) != 1:
        return None
    box = open_bars[0]
    return f"a bar that is not full ({box.left}, {box.top}, {box.right}, {box.bottom})"


def has_progress_grown(before: OcrScreen, earlier: OcrScreen, now: OcrScreen) -> bool:
    """Return True if a filled strip that appeared after an action grew between two looks."""
    if not before.image.shape == earlier.image.shape == now.image.shape:
        return False
    return any(_is_growth(before, now, box) for box in find_changed_boxes(earlier, now))


def find_rising_numbers(
    before: OcrScreen, earlier: OcrScreen, now: OcrScreen, note_texts: Iterable[str]
) -> Iterator[str]:
    """Return texts that appeared after an action and whose number rose between two looks, except clocks.

    Args:
        before: Screen on which the action was executed, or the earliest one that is known.
        earlier: Screen before the current one.
        now: Current screen.
        note_texts: Earlier notes of work in progress, which appeared after the action.
    """
    known = {_without_numbers(line.text) for line in before.lines} - {_without_numbers(text) for text in note_texts}
    for line in now.lines:
        words, number = _without_numbers(line.text), _first_number(line.text)
        folded = fold(line.text)
        if (
            number is None
            or re.search(r"\b100 ?%", folded)
            or words in known
            or _DURATION.search(folded)
            or GOOD.search(folded)
        ):
            continue
        old = [each for each in earlier.lines if each.box_px.overlap_y(line.box_px) > 0]
        if any(_without_numbers(each.text) == words and (_first_number(each.text) or 0) < number for each in old):
            yield line.text


def has_spinner(before: OcrScreen, earlier: OcrScreen, now: OcrScreen) -> bool:
    """Return True if something without text moves in a region that was empty or held text before the action."""
    new = find_changed_boxes(before, earlier)
    return any(
        any(box.intersection(other) > 0 for other in new) and not _has_mark(before, box)
        for box in find_moving_boxes(earlier, now)
        if min(box.width, box.height) >= _MIN_TURNING_PX or box.width >= _MIN_STRIP_PX
    )


def find_moving_boxes(earlier: OcrScreen, now: OcrScreen) -> list[Box]:
    """Return changed boxes without text: those of a spinner's size, low strips, and plain areas of another colour."""
    return [
        box
        for box in find_changed_boxes(earlier, now)
        if (
            max(box.width, box.height) <= _MAX_TURNING_PX
            or _STRIP_PX[0] <= box.height <= _STRIP_PX[1]
            or not any(find_ink(screen.crop(box.padded(-_RIM_PX))).any() for screen in (earlier, now))
        )
        and not any(_is_text(line, box) for screen in (earlier, now) for line in screen.lines)
    ]


def has_placeholders(before: OcrScreen | None, now: OcrScreen) -> bool:
    """Return True if new pale placeholder bars show where text is still loading."""
    least, most = _PLACEHOLDER_PX
    if before is None or not find_new_lines(before, now):  # among texts, tall bars may be pictures
        most = _MAX_PLACEHOLDER_PX
    old = before.boxes if before is not None else []
    page = find_background(now.image).astype(int)
    bars = [
        each.box_px
        for each in now.rectangles
        if least <= each.box_px.height <= most
        and each.box_px.width > max(_MIN_STRIP_PX, 1.5 * each.box_px.height)
        and each.box_px not in old
        and abs(np.array(each.colour, dtype=int) - page).max() < _PALE_FILL
        and not any(line.box_px.intersection(each.box_px) > 0 for line in now.lines)
        and not find_ink(now.crop(each.box_px.padded(-3))).any()
    ]
    return len(bars) >= _MIN_PLACEHOLDERS and len({box.width for box in bars}) > 1


def _has_text(screen: OcrScreen, box: Box) -> bool:
    return any(line.box_px.intersection(box) > 0 for line in screen.lines)


def _with_pale_part(screen: OcrScreen, box: Box) -> Box:
    """Return a bar extended by its empty part, which may be too pale to count as a change.

    The bar ends where it no longer differs from the background above it.
    """
    above = screen.image[max(0, box.top - _ABOVE_PX) : max(1, box.top - _ABOVE_PX // 2)].mean(axis=0)
    row = _colours_along(screen.image[box.top : box.bottom])
    is_bar = np.abs(row - above).max(axis=1) > _PALE
    left, right = box.left, box.right
    while right < screen.width and is_bar[right]:
        right += 1
    while left > 0 and is_bar[left - 1]:
        left -= 1
    return Box(left, box.top, right, box.bottom)


def _is_partly_filled(crop: NDArray[np.uint8]) -> bool:
    colours = _colours_along(crop)[3:-3]
    is_left, is_right = (np.abs(colours - end).max(axis=1) < _EVEN for end in (colours[0], colours[-1]))
    is_two = np.abs(colours[0] - colours[-1]).max() > _OTHER
    num_left, num_right = int(is_left.sum()), int(is_right.sum())
    is_one_edge = bool(is_left[:num_left].all() and is_right[len(colours) - num_right :].all())
    return bool(is_two and is_one_edge and num_left + num_right >= len(colours) - _SOFT_EDGE_PX)


def _is_growth(before: OcrScreen, now: OcrScreen, box: Box) -> bool:
    if not _BAR_PX[0] <= box.height <= _BAR_PX[1] or box.left < _SOFT_EDGE_PX or _has_text(now, box):
        return False
    wider = Box(box.left - _SOFT_EDGE_PX, box.top, box.right, box.bottom)
    new, old = _colours_along(now.crop(wider))[:-2], _colours_along(before.crop(wider))[:-2]
    is_even = len(new) > 0 and np.abs(new - new[0]).max() < _EVEN
    return bool(is_even and np.abs(new - old).max(axis=1).min() > _OTHER)


def _colours_along(crop: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the median colour of each column, shape (W, 3)."""
    quarter = crop.shape[0] // 4
    return np.asarray(np.median(crop[quarter : crop.shape[0] - quarter], axis=0))


def _without_numbers(text: str) -> str:
    return re.sub(r"[\d\W_]+", "", fold(text))


def _first_number(text: str) -> float | None:
    match = re.search(r"\d+(?:\.\d+)?", text)
    return float(match[0]) if match is not None else None


def _is_text(line: TextLine, box: Box) -> bool:
    """Return True if a line lies in a box and has more than one letter, so it is not a ring read as a letter."""
    return line.box_px.intersection(box) > 0 and len(re.findall(r"\w", line.text)) > 1


def _has_mark(before: OcrScreen, box: Box) -> bool:
    """Return True if a box held something other than text before; a strip may contain an edge along its full length."""
    if any(_is_text(line, box) for line in before.lines):
        return False
    crop = before.crop(box)
    if box.height <= _STRIP_PX[1] < box.width:
        return bool(np.ptp(crop.astype(int), axis=1).max() > _MAX_SPREAD)
    return bool(find_ink(crop).any())


_SAME_PAGE, _SAME_FORM = 0.4, 0.6
_MAX_FORM_LINES, _MAX_LINES, _MAX_WALL_LINES = 10, 4, 15
_MIN_WALL_WORDS, _MAX_ENTRY_WORDS = 3, 2
_MAX_QUESTION_LINES = 6
_MIN_TEXT_PX, _MAX_TEXT_PX = (90, 14), 90
_NEAR_PX = (300, 60)
_MIN_LETTERS, _OWN_PX = 3, 6
_MAX_GREY_SPREAD, _MAX_GREY, _SAME_COLOUR = 12, 244, 24
UNREADABLE = "a text that cannot be read"
_LONE_SHARE = re.compile(r"\W*\d{1,2}(?:[.,]\d+)? ?%\W*")
_MARKS = ".,:;!?\"'()"
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MIN_MISS, _MISS_RATIO, _MIN_STEM = 5, 0.72, 5
_STATE = re.compile(r"\W*(?:waiting|in progress|searching|checking|pending)\W*")
_AGE = re.compile(r".{0,20}\b(?:just now|(?:\d+|an?|a few) \w+ ago|today|now)\W*(?:at [\d:. apm]+)?")
_TIME = re.compile(r"\d:\d\d")
_GENERAL = re.compile(
    r"show|view|see|open|details?|more|menu|next|back|previous|prev|expand|help|info|about|edit|new|home|start|continue|go|the"
    r"|here|read|all|search|find|visit|learn|get|full|click|to|page|link"
)
"""Words of links that the opened page does not have to repeat."""
_SECRET = re.compile(
    r"\W*(?:password|passwort|kennwort|mot de passe|contrasena|senha|wachtwoord|haslo|losenord|sifre)\W*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAction:
    """Last action, as far as its result depends on it.

    Attributes:
        named: Texts of the instruction.
        typed: Typed texts.
        pressed: Box that was clicked, if known.
        is_form: True if a form was filled or sent.
        is_button: True if a button was clicked that does more than open something.
        opened: Text of what was clicked; "" for another action.
        colour: Background colour of what was clicked, RGB.
    """

    named: Sequence[str]
    typed: Sequence[str]
    pressed: Box | None
    is_form: bool
    is_button: bool
    opened: str = ""
    colour: NDArray[np.uint8] | None = None


def read_result(before: OcrScreen, now: OcrScreen, action: LastAction) -> tuple[str | None, list[ScreenNote]]:
    """Return a refusal shown on the screen, or None, and the notes to remember about this screen.

    Args:
        before: Screen on which the action was executed, or the earliest one after it.
        now: Screen after it.
        action: The action.
    """
    new = [line for line in find_new_lines(before, now) if not _is_content(line, before, now, action)]
    kept = fraction_kept(before, now, action.pressed)
    own = action.pressed.padded(_OWN_PX) if action.pressed is not None else Box(0, 0, 0, 0)
    at_work = [line for line in new if is_in_progress(line.text, is_own=own.has_point(*line.box_px.center))]
    if len(new) > _MAX_LINES:  # status words in several rows are page content
        at_work = [line for line in at_work if not _STATE.fullmatch(fold(line.text))]
    shares = [line for line in new if _LONE_SHARE.fullmatch(line.text)]
    at_work += shares if len(shares) == 1 else []
    notes = [ScreenNote("busy", line.text) for line in at_work]
    notes += [ScreenNote("busy", PLACEHOLDERS)] if has_placeholders(before, now) else []
    if not now.lines and int(now.image.max()) - int(now.image.min()) < _MAX_GREY_SPREAD:
        notes.append(ScreenNote("busy", "an empty page"))
    is_act = action.is_form or action.is_button
    if kept < _SAME_PAGE and is_act:
        return _find_blocking_page(new, now, action), [*notes, *_classify_new_page(new, now, action)]
    wall = _find_blocking_page(new, now, action) if kept < _SAME_PAGE else None
    if wall is not None and (CODE_ASKED.search(fold(wall)) or WALL.search(fold(wall))):
        return (wall, notes) if CODE_ASKED.search(fold(wall)) else (None, [*notes, ScreenNote("unsure", wall)])
    num_texts = len({line.text for line in new})
    if num_texts <= _MAX_QUESTION_LINES:
        questions = (line for line in new if line.text.rstrip().endswith(("?", "？")))
        notes += [ScreenNote("unsure", line.text) for line in questions if len(line.text.split()) >= _MIN_WALL_WORDS]
    if kept < _SAME_FORM and is_act and (wall := _find_blocking_page(new, now, action)) is not None:
        return wall, notes
    if kept < _SAME_FORM or num_texts > (_MAX_FORM_LINES if action.is_form else _MAX_LINES):
        return None, [*notes, *(_classify_new_page(new, now, action) if is_act else [])]
    new = [line for line in new if line not in at_work]
    bad = next((line.text for line in joined_lines(new) if is_incomplete(fold(line.text))), None)
    if bad is not None and is_act:
        return bad, notes
    is_good = any(classify_message(line.text, action.named) == "good" for line in new)
    for line in new:
        verdict = _judge_line(line, now, action)
        if verdict == "bad" and is_good and classify_message(line.text, action.named) == "unknown":
            continue  # words are stronger evidence than colour
        if not is_act:  # an opened page may contain any text; only an isolated refusal counts
            notes += [ScreenNote("unsure", line.text)] if verdict == "bad" or bad is not None else []
            continue
        if verdict == "bad":
            return line.text, notes
        if verdict in ("good", "unknown"):
            notes.append(ScreenNote("good" if verdict == "good" else "unsure", line.text))
    return None, notes


def note_effect(before: OcrScreen, now: OcrScreen, action: LastAction) -> list[ScreenNote]:
    """Note evidence for an action (something opened, a changed count), or a new page unrelated to it.

    A changed count is an earlier text with other numbers; a time is not one.
    """
    new = find_new_lines(before, now)
    if fraction_kept(before, now, action.pressed) < _SAME_PAGE:
        wanted = {word for word in re.findall(r"[^\W_]{3,}", fold(action.opened)) if not _GENERAL.fullmatch(word)}
        shown = " ".join(fold(line.text) for line in now.lines)
        is_wanted = not wanted or any(word[:_MIN_STEM] in shown for word in wanted)
        is_sign = is_wanted or len(now.lines) > _MAX_WALL_LINES
        return [ScreenNote("sign" if is_sign else "new", line.text) for line in new[:1]]
    if not new or (len(new) <= _MAX_FORM_LINES and (action.is_form or action.is_button)):
        counts = [line for line in new if re.search(r"\d", line.text) and not _TIME.search(line.text)]
        new = [line for line in counts if _differs_in_numbers(line, before)]
    return [ScreenNote("sign", line.text) for line in new[:1]]


def _differs_in_numbers(line: TextLine, before: OcrScreen) -> bool:
    """Return True if a text is an earlier text with other numbers."""
    return _without_numbers(line.text) in {_without_numbers(old.text) for old in before.lines}


def has_entry(now: OcrScreen, action: LastAction, fields: Sequence[Box]) -> bool:
    """Return True if a text contains what was typed, outside the fields into which it was typed."""
    return any(holds_typed(line.text, action) and not _is_in(line, fields) for line in now.lines)


def _is_in(line: TextLine, boxes: Sequence[Box]) -> bool:
    return any(box.padded(_OWN_PX).has_point(*line.box_px.center) for box in boxes)


def find_near_miss(before: OcrScreen, now: OcrScreen, action: LastAction, fields: Sequence[Box]) -> str | None:
    """Find a new text that almost equals a typed text that is not shown; one misread character is not enough."""
    known = {alphanumeric(line.text) for line in before.lines}
    rows = [
        line.text.split() for line in now.lines if alphanumeric(line.text) not in known and not _is_in(line, fields)
    ]
    for text in action.typed:
        size = len(text.split())
        parts = [" ".join(row[at : at + size]).strip(_MARKS) for row in rows for at in range(len(row) - size + 1)]
        if any(compare_typed(text, part) != "different" for part in parts):
            continue
        words = {alphanumeric(word) for row in rows for word in row}
        figures = [word for word in text.split() if re.search(r"\d", word) and alphanumeric(word) not in words]
        if size > 2 and figures and 2 * len(words & set(map(alphanumeric, text.split()))) >= size:
            return f'"{text}" without "{figures[0]}"'
        near = next((part for part in parts if _is_near_miss(text, part)), None)
        if near is not None:
            return f'"{near}", and I entered "{text}"'
    return None


def _is_near_miss(text: str, part: str) -> bool:
    """Return True for another spelling of a name, or a number with the same digits and another value."""
    if re.search(r"\d", text) is None:
        ratio = difflib.SequenceMatcher(None, fold(text), fold(part), autojunk=False).ratio()
        return len(text) >= _MIN_MISS and ratio >= _MISS_RATIO and fold(text) not in fold(part)
    figures, shown = (re.sub(r"\D", "", each).strip("0") for each in (text, part))
    numbers = [_NUMBER.search(each) for each in (text, part)]
    if figures != shown or len(figures) < 2 or numbers[0] is None or numbers[1] is None:
        return False
    is_code = text.startswith("0") and text[1:2].isdigit()
    return is_code or to_number(numbers[0][0]) != to_number(numbers[1][0])


def _classify_new_page(new: Sequence[TextLine], now: OcrScreen, action: LastAction) -> list[ScreenNote]:
    """Judge a short page that replaced the result without a refusal: good, a new entry, or a doubt."""
    if not new or len(now.lines) > _MAX_WALL_LINES or any(_holds_entry(line, action) for line in _free_lines(now)):
        return []
    good = next((line for line in new if classify_message(line.text, action.named) == "good"), None)
    if good is not None:
        return [ScreenNote("good", good.text)]
    first = min(new, key=lambda line: line.box_px.top)
    return [ScreenNote("new", first.text)]


def _free_lines(now: OcrScreen) -> list[TextLine]:
    """Return the texts outside fields."""
    fields = find_field_boxes(now)
    return [line for line in now.lines if not any(field.contains(line.box_px) for field in fields)]


def find_vanished(before: OcrScreen, now: OcrScreen, named: str, action: LastAction) -> list[ScreenNote]:
    """Return notes on texts that disappeared and are named by the last step or were close to what was clicked."""
    left = {alphanumeric(line.text) for line in now.lines}
    texts = [alphanumeric(line.text) for line in before.lines]
    gone = [
        line
        for line, text in zip(before.lines, texts, strict=True)
        if len(text) > 1 and text not in left and sum(text in other for other in texts) == 1
    ]
    return [ScreenNote("gone", line.text) for line in gone if is_named(line.text, [named]) or _is_near(line, action)]


def has_unreadable(before: OcrScreen, now: OcrScreen, action: LastAction) -> bool:
    """Return True if something shaped like a message appeared whose text cannot be read."""
    fields = find_field_boxes(before)
    return any(
        box.width >= max(_MIN_TEXT_PX[0], 3 * box.height)
        and _MIN_TEXT_PX[1] <= box.height <= _MAX_TEXT_PX
        and not any(line.box_px.intersection(box) > 0 for line in now.lines)
        and not any(box.intersection(field) > 0 for field in fields)
        and find_ink(now.crop(box)).any()
        for box in find_changed_regions(before, now, action.pressed)
    )


def _judge_line(line: TextLine, now: OcrScreen, action: LastAction) -> MessageVerdict | None:
    """Judge a new text by its words, else by its colour; None for text that is not a message, such as a new entry."""
    verdict, tone = classify_message(line.text, action.named), find_tone(now, line)
    if verdict == "good":
        return verdict
    if action.pressed is not None and action.pressed.padded(_OWN_PX).contains(line.box_px):
        return _judge_own(line, now, verdict, action)
    if verdict != "unknown":
        return verdict
    if _is_new_control(line, now, action) or _holds_entry(line, action) or _AGE.fullmatch(fold(line.text)):
        return None
    if len(re.findall(r"[^\W\d_]", line.text)) < _MIN_LETTERS:
        return None if re.search(r"\d", line.text) else verdict
    if tone:
        return "good" if tone == "green" else "bad" if action.is_form or tone == "orange" else verdict
    return verdict


def _judge_own(line: TextLine, now: OcrScreen, verdict: MessageVerdict, action: LastAction) -> MessageVerdict | None:
    """Judge the new text of the clicked button: a refusal such as "Sold out" counts, text on grey is a doubt."""
    if verdict == "bad" and REFUSED.search(without_instructed(fold(line.text), action.named)):
        return verdict
    ground = find_background(now.crop(line.box_px.padded(2))).astype(int)
    is_grey = ground.max() - ground.min() < _MAX_GREY_SPREAD and 80 < ground.mean() < _MAX_GREY
    return "unknown" if is_grey else None


def _is_new_control(line: TextLine, now: OcrScreen, action: LastAction) -> bool:
    """Return True if a text is a command, or a button that looks like others; a box of another colour is a message."""
    if not is_control(now, line):
        return False
    if action.colour is None or len(line.text.split()) > _MIN_WALL_WORDS:
        return len(line.text.split()) <= _MIN_WALL_WORDS
    ground = find_background(now.crop(line.box_px.padded(2))).astype(int)
    return any(abs(ground - other.astype(int)).max() < _SAME_COLOUR for other in (action.colour, now.page_colour))


def _is_content(line: TextLine, before: OcrScreen, now: OcrScreen, action: LastAction) -> bool:
    """Return True if a new text is named by the instruction or is an earlier text with other digits (a clock)."""
    is_counter = _differs_in_numbers(line, before) and not is_incomplete(fold(line.text))
    return is_counter or is_named(line.text, action.named)


def _find_blocking_page(new: Sequence[TextLine], now: OcrScreen, action: LastAction) -> str | None:
    """Return the text of a page that replaced the result (login, check, notice); the first matching text counts."""
    if len(now.lines) > _MAX_WALL_LINES or any(_holds_entry(line, action) for line in _free_lines(now)):
        return None
    secret = next((line.text for line in new if _SECRET.fullmatch(fold(line.text))), None)
    if secret is not None:
        return secret
    for line in sorted(new, key=lambda line: line.box_px.top):
        verdict = classify_message(line.text, action.named)
        if verdict == "good":
            return None
        is_said = now.is_large(line.box_px) or len(line.text.split()) >= _MIN_WALL_WORDS
        if verdict == "bad" and is_said:
            return line.text
    return None


def holds_typed(text: str, action: LastAction) -> bool:
    """Return True if a text contains what was typed."""
    return any(fit.score >= CONTAINED for typed in action.typed if len(typed) > 2 for fit in fit_texts(typed, text))


def _holds_entry(line: TextLine, action: LastAction) -> bool:
    """Return True if a short text contains what was typed and is not a refusal."""
    is_short = len(line.text.split()) <= _MAX_ENTRY_WORDS + sum(len(text.split()) for text in action.typed)
    return _is_entry(line, action) or (
        is_short and holds_typed(line.text, action) and classify_message(line.text, action.named) in ("good", "unknown")
    )


def _is_entry(line: TextLine, action: LastAction) -> bool:
    """Return True if a text consists of what was typed and numbers: a new entry, not a message about it."""
    left = f" {fold(line.text)} "
    for typed in sorted((fold(text) for text in action.typed), key=len, reverse=True):
        left = left.replace(typed, " ")
    has_typed = holds_typed(line.text, action) or left.strip() != fold(line.text).strip()
    return has_typed and len(re.findall(r"[^\W\d_]", left)) < _MIN_LETTERS


def _is_near(line: TextLine, action: LastAction) -> bool:
    if action.pressed is None:
        return False
    x, y = (abs(a - b) for a, b in zip(line.box_px.center, action.pressed.center, strict=True))
    return x < _NEAR_PX[0] and y < _NEAR_PX[1]
