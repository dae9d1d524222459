"""Read typed text back from its field, right after typing and again after the last step."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apps.literal.field_boxes import is_dotted
from apps.literal.find_field import Field
from apps.literal.screen import OcrScreen, find_new_lines, has_changed_inside
from apps.literal.step_outcome import Done, Failed, ScreenNote, StepProgress
from apps.literal.text_match import CONTAINED, alphanumeric, fit_texts, plain_signs
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs

Likeness = Literal["same", "doubtful", "different"]
Part = Literal["whole", "start", "end"]
_ORDER: tuple[Likeness, ...] = ("different", "doubtful", "same")

_CONFUSED = ("0Oo", "1Il|L")
"""Characters that OCR confuses.

Measured on 360 random texts (codes, amounts, addresses, names; 4,323 characters) in five fonts of 13 to 17 px: 20 were
misread, 12 times 0 for O or O for 0, 8 times I, l and L; all others were read correctly.
"""

_MIN_READABLE = 3
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}")
_READ_SCRIPTS = re.compile(r"LATIN|CJK|HIRAGANA|KATAKANA|HANGUL|FULLWIDTH|MICRO|ORDINAL")
_GROUPED = re.compile(r"([-+]?)\d{1,3}(?:[,.'](\d{3}))+(?:[.,]\d+)?")
_MAX_CUT = 2
_MIN_PART = 4
_SCALES = (2.0, 3.0)
_ROOM_PX, _CARET_PX = 4, 2
_ICON_GAP, _ICON_WIDTH = 0.4, 1.6
_PALE = 0.8

WordRow = list[tuple[str, Box]]


def check_typed(
    text: str, field: Field, before: OcrScreen, now: OcrScreen, *, shown: str | None = None, part: Part = "whole"
) -> Done | Failed:
    """Compare the text shown by a field with the typed text: same, possibly same, or different.

    A field may show part of a long text, a date in its own format, dots (a password), or text that cannot be read back
    (one letter, an unsupported script); in that case it must have changed.

    Args:
        text: Typed text.
        field: Field as found on the earlier screen.
        before: Screen before typing.
        now: Screen after typing.
        shown: The text in the field's own format, such as a date.
        part: Part of the field's text that was typed.
    """
    box = _find_box(field.box_px, now)
    rows = _read_rows(now, box)
    seen = _join(rows)
    compare = partial(_find_likeness, rows=rows, field=field, before=before, now=now, box=box, part=part)
    wanted = [each for each in (text, shown) if each is not None]
    likeness = max((compare(each, is_moment=shown is not None) for each in wanted), key=_ORDER.index)
    if likeness == "same":
        return Done("The field shows the text.")
    doubt = f'the field shows "{seen}" after I typed "{text}"'
    if likeness == "doubtful":
        return Done(f"{doubt}, which may be the same.", doubt=doubt)
    has_changed = has_changed_inside(before, now, box)
    if has_changed and is_dotted(seen, now, box):
        return Done("The field shows the text as dots.")
    if has_changed and not is_readable(text):
        is_number = text.strip().isdigit() and seen.strip().isdigit()
        return Failed(doubt) if is_number else Done("I typed it; the field's text cannot be read.")
    elsewhere = _find_elsewhere(text, before, now, box)
    if elsewhere:
        return Failed(f'the text was typed into another field: "{elsewhere}"')
    if not has_changed:
        return Failed("the field did not change after typing" + (f'; it shows "{seen}"' if seen else ""))
    if alphanumeric(seen):
        return Failed(doubt)
    if find_ink(now.crop(box.padded(-2))).any():
        return Done("I typed it; the field's text cannot be read.", doubt=f'"{text}" cannot be read from the field')
    return Failed("the field is empty after typing")


def read_field(field: Field, now: OcrScreen) -> str:
    """Return the text of a field without icons at the ends of its rows."""
    return _join([*map(_without_icons, _read_rows(now, _find_box(field.box_px, now)))])


def find_altered(text: str, field: Field, now: OcrScreen, *, was: str, held: str, shown: str | None) -> str | None:
    """Return the text shown instead of the typed one; None if it is the same or the field is empty.

    Args:
        text: Typed text.
        field: Field on the current screen.
        now: Screen to judge.
        was: Text shown right after typing, if it was judged correct.
        held: Text shown before typing, possibly a placeholder.
        shown: The text in the format of a date field, as for `check_typed`.
    """
    box = _find_box(field.box_px, now)
    rows = [*map(_without_icons, _read_rows(now, box))]
    seen = _join(rows)
    is_kept = not alphanumeric(seen) or _bare(seen) == _bare(was) or _is_placeholder(seen, held, field, now)
    if is_kept or is_dotted(seen, now, box):
        return None
    if not is_readable(text) and not (text.strip().isdigit() and seen.strip().isdigit()):
        return None
    for wanted in (each for each in (text, was, shown) if each):
        likeness = _find_likeness(wanted, rows, field, now, now, box, "whole", is_moment=shown is not None)
        start = _bare(seen)[:-1]  # the last letter may be cut off
        is_start = len(start) >= _MIN_PART and compare_typed(_bare(wanted)[: len(start)], start) != "different"
        if likeness != "different" or (_is_full(rows, box) and is_start):
            return None
    return seen


def _is_placeholder(seen: str, held: str, field: Field, now: OcrScreen) -> bool:
    """Return True if a field shows its text from before typing, in paler letters than its label, or an icon."""
    inside = now.lines_in(field.box_px)
    if _bare(seen) != _bare(held):
        return False
    if len(_bare(seen)) == 1 and not seen.isdigit():
        return True
    label = field.label
    return label is not None and bool(inside) and now.contrast(inside[0].box_px) < _PALE * now.contrast(label.box_px)


def compare_typed(text: str, seen: str) -> Likeness:
    """Compare a read text with a typed one, ignoring spaces; each word may have one commonly confused character."""
    wanted, read = _bare(text), _bare(seen)
    if wanted == read:
        return "same"
    ends = {0}
    for word in text.split():
        ends = {end for start in ends for end in _find_ends(_bare(word), read, start)}
    if len(read) in ends or (_without_marks(wanted) == _without_marks(read)):
        return "doubtful"
    return "doubtful" if _is_grouped(wanted, read) else "different"


def is_readable(text: str) -> bool:
    """Return True if a text should be readable: enough letters of a supported script, no secret's placeholder."""
    letters = (char for char in text if char.isalpha())
    is_known = all(_READ_SCRIPTS.match(unicodedata.name(char, "")) for char in letters)
    return is_known and _PLACEHOLDER.search(text) is None and len(alphanumeric(text)) >= _MIN_READABLE


def _bare(text: str) -> str:
    return re.sub(r"\s+", "", plain_signs(text))


def _without_marks(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))


def _find_ends(word: str, read: str, start: int) -> Iterator[int]:
    """Yield the end positions of a word that begins at `start`, with at most one commonly confused character."""
    if read.startswith(word, start):
        yield start + len(word)
        return
    for index, char in enumerate(word):
        at = start + index
        if at >= len(read):
            return
        is_confused = any(char in alike and read[at] in alike for alike in _CONFUSED)
        if is_confused and read.startswith(word[index + 1 :], at + 1):
            yield start + len(word)
        if read[at] != char:
            return


def _is_grouped(wanted: str, read: str) -> bool:
    """Return True for a number with thousands separators, or a long one in groups ("(555) 123-4567")."""
    if re.sub(r"\D", "", wanted) != re.sub(r"\D", "", read):
        return False
    if re.fullmatch(r"\d{7,}", wanted) and re.fullmatch(r"\(?\d+(?:[-()/]+\d+)+", read):
        return True
    grouped = _GROUPED.fullmatch(read)
    thousands = re.sub(r"(?<=\d)[,.'](?=\d{3}(?!\d))", "", read)
    return grouped is not None and thousands.replace(",", ".") == wanted.replace(",", ".")


def _compare_moment(text: str, seen: str) -> Likeness:
    """Compare a date or time with one in a field's own order; "different" for other texts."""
    numbers, shown = ([int(part) for part in re.findall(r"\d+", each)] for each in (text, seen))
    is_time = ":" in text and ":" in seen
    if len(numbers) < 2 or len(numbers) != len(shown) or not (is_time or len(numbers) == 3):
        return "different"
    halves = [set(re.findall(r"[ap](?=\.?m\b)", each.lower())) for each in (text, seen)]
    if halves[0] != halves[1] or re.sub(r"[\d\s:./,T-]|[ap]\.?m\b", "", seen, flags=re.I):
        return "different"
    if numbers == shown:
        return "same"
    is_iso = re.match(r"\s*\d{4}-\d{1,2}-\d{1,2}", text) is not None and sorted(numbers) == sorted(shown)
    if not is_iso:
        return "different"
    return "same" if numbers[2] > 12 or numbers[1] == numbers[2] else "doubtful"


def _find_likeness(
    text: str,
    rows: Sequence[WordRow],
    field: Field,
    before: OcrScreen,
    now: OcrScreen,
    box: Box,
    part: Part,
    *,
    is_moment: bool,
) -> Likeness:
    """Return the best likeness of a text and any reading of a field; `is_moment` compares dates as dates."""
    best: Likeness = "different"
    for seen in _readings(rows, field, before, now, box):
        likeness = _compare_part(text, seen, part, is_moment=is_moment)
        if likeness == "different" and _is_full(rows, box):
            likeness = _compare_cut(text, seen)
        if likeness == "same":
            return likeness
        best = likeness if likeness == "doubtful" else best
    return best


def _compare_part(text: str, seen: str, part: Part, *, is_moment: bool) -> Likeness:
    if part == "whole":
        moment = _compare_moment(text, seen) if is_moment or ":" in text else "different"
        return compare_typed(text, seen) if moment == "different" else moment
    wanted, read = _bare(text), _bare(seen)
    return compare_typed(wanted, read[: len(wanted)] if part == "start" else read[-len(wanted) :])


def _compare_cut(text: str, seen: str) -> Likeness:
    """Compare a text with its end shown by a full field, where the caret is; the first letters may be cut off."""
    wanted, read = _bare(text), _bare(seen)
    if not _MIN_PART <= len(read) < len(wanted):
        return "different"
    ends = (read[cut:] for cut in range(_MAX_CUT + 1))
    likeness = max((compare_typed(wanted[-len(end) :], end) for end in ends), key=_ORDER.index)
    if likeness == "different" and compare_typed(wanted[: len(read) - 1], read[:-1]) != "different":
        return "doubtful"
    return likeness


def _readings(rows: Sequence[WordRow], field: Field, before: OcrScreen, now: OcrScreen, box: Box) -> Iterator[str]:
    """Yield possible readings of a field, most certain first; some omit text that was there before."""
    new = ([pair for pair in row if has_changed_inside(before, now, pair[1].padded(3))] for row in rows)  # e.g. no unit
    typed = [row for row in map(_without_icons, new) if row]
    known = {alphanumeric(each) for each in (*field.texts, field.label.text if field.label is not None else "")}
    values = [row for row in typed if alphanumeric(_join([row])) not in known]
    for chosen in (rows, typed, values):
        yield _join(chosen)
    spans = dict.fromkeys(tuple(map(_span, chosen)) for chosen in (rows, typed, values))
    if len(rows) == 1:
        spans[(Box(box.left, _span(rows[0]).top, box.right, _span(rows[0]).bottom),)] = None
    for scale in _SCALES if now.engine is not None else ():
        for row_spans in spans:
            crops = [_crop_row(now, span, box) for span in row_spans]
            yield _read_crops(now, crops, scale)
            bare = [*(_without_icon(crop, now) for crop in crops[:1]), *crops[1:]]
            if any(cut.shape != crop.shape for cut, crop in zip(bare, crops, strict=True)):
                yield _read_crops(now, bare, scale)


def _span(row: WordRow) -> Box:
    tops, bottoms = ([getattr(hit, side) for _, hit in row] for side in ("top", "bottom"))
    return Box(row[0][1].left, min(tops), row[-1][1].right, max(bottoms))


def _without_icons(row: WordRow) -> WordRow:
    """Drop single characters at the end of a row that are separated by a gap."""
    kept = [*row]
    while len(kept) > 1 and len(kept[-1][0]) == 1 and kept[-1][1].left - kept[-2][1].right > kept[-2][1].height:
        kept = kept[:-1]
    return kept


def _crop_row(screen: OcrScreen, row: Box, box: Box) -> NDArray[np.uint8]:
    """Crop a row of a field without the field's border and the caret."""
    left, right = max(row.left - _ROOM_PX, box.left + 1), min(row.right + _ROOM_PX, box.right - 1)
    top, bottom = max(row.top - _ROOM_PX, box.top + 1), min(row.bottom + _ROOM_PX, box.bottom - 1)
    crop = screen.crop(Box(left, top, right, bottom))
    return _without_caret(crop) if crop.size else crop


def _read_crops(screen: OcrScreen, crops: Sequence[NDArray[np.uint8]], scale: float) -> str:
    return " ".join(screen.engine.read_crop(crop, scale=scale)[0] if crop.size else "" for crop in crops)


def _without_icon(crop: NDArray[np.uint8], screen: OcrScreen) -> NDArray[np.uint8]:
    """Crop off an icon at the start of a row: about as wide as high and separated from the letters."""
    ink = find_ink(crop)
    rows = np.flatnonzero(ink.any(axis=1))
    if rows.size == 0:
        return crop
    height = int(rows[-1] - rows[0] + 1)
    groups = find_runs(ink.any(axis=0), max_gap=int(_ICON_GAP * height))
    if len(groups) < 2 or groups[0][1] - groups[0][0] > _ICON_WIDTH * height:
        return crop
    sign, _ = screen.engine.read_crop(crop[:, : groups[0][1] + 1], scale=2.0)
    icon_px = int(np.ptp(np.flatnonzero(ink[:, : groups[0][1]].any(axis=1))))
    is_icon = len(sign) <= 1 and not sign.isdigit() and icon_px > height // 2
    return crop[:, groups[1][0] - 1 :] if is_icon else crop


def _without_caret(crop: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Crop off a last stroke that is taller than all letters."""
    ink = find_ink(crop)
    runs = find_runs(ink.any(axis=0))
    if len(runs) < 2 or runs[-1][1] - runs[-1][0] > _CARET_PX:
        return crop
    start = runs[-1][0]
    letters, caret = (np.flatnonzero(part.any(axis=1)) for part in (ink[:, :start], ink[:, start:]))
    is_caret = caret[0] < letters[0] and caret[-1] >= letters[-1]
    return crop[:, :start] if is_caret else crop


def _find_box(box: Box, now: OcrScreen) -> Box:
    """Return the field's box on the current screen; it may have grown with its text."""
    return next((outer for outer in now.boxes if outer.padded(4).contains(box) and outer.area < 3 * box.area), box)


def _read_rows(screen: OcrScreen, box: Box) -> list[WordRow]:
    """Return the words in a box row by row, even if OCR joined them with the preceding words."""
    reach = box.padded(2)
    inside = [pair for line in screen.lines for pair in line.words if reach.has_point(*pair[1].center)]
    rows: list[WordRow] = []
    for word, hit in sorted(inside, key=lambda pair: pair[1].center[1]):  # a caret may split a line
        if rows and hit.overlap_y(rows[-1][0][1]) > 0.5 * min(hit.height, rows[-1][0][1].height):
            rows[-1].append((word, hit))
        else:
            rows.append([(word, hit)])
    return [sorted(row, key=lambda pair: pair[1].left) for row in rows]


def _join(rows: Sequence[WordRow]) -> str:
    return re.sub(r"(?<=.)\|$", "", " ".join(word for row in rows for word, _ in row))  # the caret


def _is_full(rows: Sequence[WordRow], box: Box) -> bool:
    """Return True if a field has no space for more text: its longest row, or all rows together, fill it."""
    if not rows:
        return False
    height = rows[0][0][1].height
    is_wide = max(row[-1][1].right - row[0][1].left for row in rows) > box.width - 3 * height
    return is_wide or (len(rows) > 1 and rows[-1][0][1].bottom - rows[0][0][1].top > 0.6 * box.height)


def _find_elsewhere(text: str, before: OcrScreen, now: OcrScreen, box: Box) -> str | None:
    if not is_readable(text):
        return None
    for line in find_new_lines(before, now):
        for fit in fit_texts(text, line.text):
            if fit.score >= CONTAINED and not box.padded(4).has_point(*line.span(fit.start, fit.end).center):
                return line.text
    return None


_SAME_PLACE_PX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedField:
    """Field into which a step typed.

    `held` is its text before typing, including a placeholder; `shown` its text after it, if that was judged correct.
    """

    box_px: Box
    held: str
    shown: str

    def is_at(self, box: Box) -> bool:
        """Return True if a box is close to the field's position; the field may have grown with its text."""
        return max(abs(box.left - self.box_px.left), abs(box.top - self.box_px.top)) <= _SAME_PLACE_PX


def note_typed(index: int, field: Field, now: OcrScreen) -> tuple[ScreenNote, ...]:
    """Return notes on a field that shows what a step typed into it.

    Args:
        index: 0-based index of the step.
        field: Field as found on the screen before typing.
        now: Screen after typing.
    """
    box = field.box_px
    hit = f"{box.left},{box.top},{box.right},{box.bottom}"
    held = (ScreenNote("held", f"{index} {field.text}"),) if field.text else ()
    return (*held, ScreenNote("typed", f"{index} {hit} {read_field(field, now)}"))


def read_typed(progress: StepProgress, index: int) -> TypedField | None:
    """Return the field that a step typed into, from the notes; None without a note."""
    box_text, shown = "", ""
    for text in progress.note_texts("typed"):
        number, hit, *rest = text.split(" ", 2)
        if int(number) == index:
            box_text, shown = hit, "".join(rest)
    if not box_text:
        return None
    held = [text.partition(" ")[2] for text in progress.note_texts("held") if text.partition(" ")[0] == str(index)]
    left, top, right, bottom = map(int, box_text.split(","))
    return TypedField(box_px=Box(left, top, right, bottom), held=held[-1] if held else "", shown=shown)
