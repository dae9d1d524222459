"""Transfer text: the clipboard, selected text, and values read or computed from the page."""

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from apps.literal.do_keyboard import field_point, type_and_check
from apps.literal.do_pointer import report_missing
from apps.literal.field_boxes import find_inputs, is_button, is_text_area
from apps.literal.find_field import Field, find_field
from apps.literal.find_text import find_text
from apps.literal.screen import OcrScreen, find_changed_boxes, has_changed_inside
from apps.literal.step_outcome import (
    Done,
    Failed,
    NotFound,
    RunCode,
    StepOutcome,
    StepPlans,
    StepView,
    at,
    drag,
    replace_text,
)
from apps.literal.steps import ComputeAnswer, CopyText, FillFromPage, PasteText, SelectText, TypeAnswer
from apps.literal.targets import ElementTarget, nth
from apps.literal.text_match import CONTAINED, alphanumeric, normalize, similarity
from apps.literal.verify_typed import check_typed
from visual_tools.box import Box
from visual_tools.ink import find_ink, find_runs
from visual_tools.ocr import TextLine

_MAX_FIELDS = 30
_MIN_ALIKE = 4
_ALIKE = 0.85
_MAX_EDITOR_SHARE = 0.75
_SURE = 0.9


def find_writable(screen: OcrScreen, target: ElementTarget, *, is_area: bool) -> Box | None:
    """Return a field by its type ("the textarea", "the 2nd text area", "the text input") or by its label."""
    if target.text:
        field = find_field(screen, target, kind="text")
        return None if field is None else field.box_px
    boxes = find_inputs(screen)
    alike = [box for box in boxes if is_text_area(screen, box) == is_area] or boxes
    return nth(alike, target.ordinal)


def plan_copy(step: CopyText, view: StepView) -> StepOutcome:
    """Click into the field and copy all of its text."""
    screen = view.now
    box = find_writable(screen, step.field, is_area=True)
    if box is None:
        return report_missing_field(screen, step.field)
    code = replace_text(screen, field_point(box), "pyautogui.hotkey('ctrl', 'c')")
    return RunCode(code=code, thought="I copy the text of that field.")


def plan_paste(step: PasteText, view: StepView) -> StepOutcome:
    """Paste over the contents of the field, then check that it changed."""
    screen = view.now
    box = find_writable(screen, step.field, is_area=False)
    if view.progress.last == "type" and view.before is not None:
        was = find_writable(view.before, step.field, is_area=False)
        if was is not None and has_changed_inside(view.before, screen, was):
            return Done("The field shows the text.")
        return Failed("the field did not change after pasting")
    if box is None:
        return report_missing_field(screen, step.field)
    code = replace_text(screen, field_point(box), "pyautogui.hotkey('ctrl', 'v')")
    return RunCode(code=code, thought="I paste into it.", phase="type")


def report_missing_field(screen: OcrScreen, field: ElementTarget) -> StepOutcome:
    """Report that a field is missing, or that several match."""
    count = len(find_inputs(screen))
    if count and not field.text and field.ordinal is None:
        return Failed(f"found {count} fields for {field}: the step must say which one")
    return report_missing(screen, field)


def find_paragraphs(screen: OcrScreen) -> list[list[TextLine]]:
    """Return blocks of text outside buttons and fields: lines with a common left edge, close below each other."""
    free = [
        replace(line, box_px=_tighten(screen, line.box_px))
        for line in screen.lines
        if not any(box.contains(line.box_px, 2) and box.height < 4 * line.box_px.height for box in screen.boxes)
    ]
    free.sort(key=lambda line: line.box_px.top)
    paragraphs: list[list[TextLine]] = []
    for line in free:
        home = next((group for group in paragraphs if _goes_on(group[-1], line)), None)
        if home is None:
            paragraphs.append([line])
        else:
            home.append(line)
    return paragraphs


def _tighten(screen: OcrScreen, box: Box) -> Box:
    """Shrink a box to the rows of the line's ink; OCR boxes of close lines are so loose that they overlap."""
    reach = box.padded(0, 4).clipped(screen.width, screen.height)
    runs = find_runs(find_ink(screen.crop(reach)).any(axis=1))
    middle = box.center[1] - reach.top
    if not runs:
        return box
    start, end = min(runs, key=lambda run: abs((run[0] + run[1]) / 2 - middle) - (run[1] - run[0]) / 2)
    return Box(box.left, reach.top + start, box.right, reach.top + end)


def _goes_on(above: TextLine, line: TextLine) -> bool:
    """Return True if a line continues the one above it, with no more space between them than within a paragraph."""
    gap = line.box_px.top - above.box_px.bottom
    is_beside = abs(line.box_px.center[1] - above.box_px.center[1]) < 0.4 * above.box_px.height
    height = min(above.box_px.height, line.box_px.height)
    is_below = -4 <= gap <= 0.9 * height and abs(line.box_px.left - above.box_px.left) <= 8
    is_alike = abs(line.box_px.height - above.box_px.height) <= 0.7 * height
    return is_alike and (is_below or (is_beside and 0 < line.box_px.left - above.box_px.right < 2 * height))


def plan_select_text(step: SelectText, view: StepView) -> StepOutcome:
    """Select the text by dragging, or all text of the editor; press the style's keys; check that the screen changed."""
    screen = view.now
    if view.progress.count("part") and view.before is not None:
        if not find_changed_boxes(view.before, screen):
            return Failed(f"nothing changed after this step: {step}")
        return Done("The text looks selected.")
    keys = (f"pyautogui.hotkey('ctrl', '{step.style}')",) if step.style else ()
    if step.is_all:
        inside = _find_edited(screen)
        if not inside:
            return Failed("no text in an editor found")
        code = replace_text(screen, inside[0].box_px.center, *keys)
        return RunCode(code=code, thought="I select all text.", phase="part")
    span = _find_span(screen, step)
    if span is None:
        if step.text:
            return report_missing(screen, ElementTarget(text=step.text))
        count = len(find_paragraphs(screen))
        return Failed(f"{step}: found {count} paragraphs: the step must say which one")
    return RunCode(code=(*drag(screen, *span), *keys), thought="I drag over the text.", phase="part")


def _find_edited(screen: OcrScreen) -> list[TextLine]:
    """Return the lines of the largest box that contains text and is neither a button nor the page."""
    boxes = (box for box in reversed(screen.boxes) if box.left > 0 and not is_button(screen, box))
    inside = (screen.lines_in(box) for box in boxes if box.area < _MAX_EDITOR_SHARE * screen.box.area)
    return next((lines for lines in inside if any(len(line.text) > 1 for line in lines)), [])


def _find_span(screen: OcrScreen, step: SelectText) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return the start and end points of a text, for a drag."""
    if step.text:
        hits = [hit for hit in find_text(screen, step.text) if hit.fit >= CONTAINED]
        if not hits:
            return None
        box = hits[0].box_px
        return (box.left, box.center[1]), (box.right + 1, box.center[1])
    chosen = nth(find_paragraphs(screen), step.paragraph)
    if chosen is None:
        return None
    first, last = chosen[0].box_px, chosen[-1].box_px
    return (first.left - 1.0, first.center[1]), (last.right + 3.0, last.center[1])


def plan_type_answer(step: TypeAnswer, view: StepView) -> StepOutcome:
    """Type the answer that was read last."""
    if not view.progress.answers:
        return Failed("no earlier step read an answer to type")
    answer, field = view.progress.answers[-1], step.field
    if field.text or field.relation is not None:
        return type_and_check(field, answer, view)
    if view.progress.last == "type" and view.before is not None:
        was = find_writable(view.before, field, is_area=False)
        if was is None:
            return Done("I typed it.")
        texts = tuple(line.text for line in view.before.lines_in(was))
        return check_typed(answer, Field(box_px=was, label=None, texts=texts, why=""), view.before, view.now)
    box = find_writable(view.now, field, is_area=False)
    if box is None:
        return report_missing_field(view.now, field)
    code = replace_text(view.now, field_point(box), f"pyautogui.write({answer!r})")
    return RunCode(code=code, thought=f'I type "{answer}".', phase="type")


def plan_fill_from_page(step: FillFromPage, view: StepView) -> StepOutcome:
    """Type the next value; done when no empty field is left whose label also occurs elsewhere."""
    screen = view.now
    done = view.progress.count("part")
    labelled = list_labelled_values(screen)
    empty = [(label, value) for label, value, holds in labelled if not holds]
    unknown = [label.text for label, value in empty if value is None]
    if unknown and not done:
        return Failed(f'no value for "{unknown[0]}" found next to the same label elsewhere')
    if len(labelled) - len(empty) < done:
        return Failed("a field does not show the typed value")
    if not empty:
        return Done("Each field has its value.") if done else NotFound(what="a field to fill from the page")
    if done >= _MAX_FIELDS:
        return Failed(f"there are more than {_MAX_FIELDS} fields")
    label, value = empty[0]
    if value is None:
        return Failed(f'no value for "{label.text}" found next to the same label elsewhere')
    same = [line for line in screen.lines if normalize(line.text) == normalize(label.text)]
    ordinal = same.index(label) + 1 if len(same) > 1 else None
    field = find_field(screen, ElementTarget(text=label.text, role="field", ordinal=ordinal))
    if field is None or field.label is None or field.label.box_px != label.box_px:
        field = _field_right_of(screen, label)
    if field is None:
        return Failed(f'no field found for "{label.text}"')
    code = replace_text(screen, field_point(field.box_px), f"pyautogui.write({value!r})")
    return RunCode(code=code, thought=f'"{label.text}" is "{value}" elsewhere on the page.', phase="part")


def _field_right_of(screen: OcrScreen, label: TextLine) -> Field | None:
    boxes = _right_of(label.box_px, find_inputs(screen), slack_px=4)
    nearest = min(boxes, key=lambda box: box.left, default=None)
    return None if nearest is None else Field(box_px=nearest, label=label, texts=(), why="right of its label")


def list_labelled_values(screen: OcrScreen) -> list[tuple[TextLine, str | None, bool]]:
    """Return labels with a field to their right, each with its value found elsewhere and True for a filled field."""
    fields = find_inputs(screen)
    labels = [line for line in screen.lines if not any(box.contains(line.box_px, slack_px=2) for box in fields)]
    labelled = []
    for label in labels:
        field = _field_right_of(screen, label)
        others = (other.box_px for other in labels if other is not label)
        if field is None or any(box.left <= field.box_px.left for box in _right_of(label.box_px, others)):
            continue  # the field belongs to another label between them
        free = [line for line in screen.lines if line is not label and _field_right_of(screen, line) is None]
        same = [line for line in free if alphanumeric(line.text) == alphanumeric(label.text)]
        alike = same or [line for line in free if _is_misread(alphanumeric(line.text), alphanumeric(label.text))]
        value = _value_beside(screen, alike[0]) if len(alike) == 1 else None
        has_ink = bool(find_ink(screen.crop(field.box_px.padded(-3))).any())
        labelled.append((label, value, bool(screen.lines_in(field.box_px)) or has_ink))
    return labelled


def _is_misread(text: str, other: str) -> bool:
    return min(len(text), len(other)) > _MIN_ALIKE and similarity(text, other) > _ALIKE


def _right_of(label: Box, boxes: Iterable[Box], slack_px: int = 0) -> list[Box]:
    """Return the boxes right of a label in its row."""
    right = (box for box in boxes if box.left >= label.right - slack_px)
    return [box for box in right if box.overlap_y(label) > 0.5 * min(box.height, label.height)]


def _value_beside(screen: OcrScreen, label: TextLine) -> str | None:
    beside = [line for line in screen.lines if _right_of(label.box_px, [line.box_px])]
    nearest = min(beside, key=lambda line: line.box_px.left, default=None)
    return None if nearest is None or nearest.confidence < _SURE else nearest.text


_SURE_READING = 0.9
_END_NOTCHES = 50
_INSET_PX, _BAR_PX, _MIN_LINE_PX = 3, 18, 4
_SCALES = (2.0, 3.0, 1.5)
"""Scales at which a decisive word is read again."""


def plan_compute(step: ComputeAnswer, view: StepView) -> StepOutcome:
    """Compute the answer and store it."""
    screen = view.now
    if step.is_in_area:
        box = find_writable(screen, ElementTarget(role="area"), is_area=True)
        if box is None:
            return report_missing_field(screen, ElementTarget(role="area"))
        if step.ordinal == -1 and not view.progress.count("part"):
            code = (f"pyautogui.scroll(-{_END_NOTCHES}, {at(screen, box.center)})", "time.sleep(0.2)")
            return RunCode(code=code, thought="The last word may be below the visible part.", phase="part")
        answer, problem = _read_word_in(screen, box, step.ordinal)
    elif step.kind == "word":
        answer, problem = _read_word(screen, step.ordinal)
    else:
        answer, problem = _solve(screen)
    if answer is None:
        return Failed(problem)
    return RunCode(code=("time.sleep(0.1)",), thought=f"{step}: {answer}", answer=answer)


def _read_word(screen: OcrScreen, ordinal: int) -> tuple[str | None, str]:
    texts = [group for group in find_paragraphs(screen) if sum(len(line.text.split()) for line in group) > 1]
    if len(texts) != 1:
        return None, f"I see {len(texts)} texts, and cannot tell which one is meant"
    lines = texts[0]
    return _pick_word(screen, lines, ordinal, lines, "text has")


def _read_word_in(screen: OcrScreen, box: Box, ordinal: int) -> tuple[str | None, str]:
    """Return a word of a text area, counted within its visible part."""
    lines = screen.lines_in(box)
    bottom = max((line.box_px.bottom for line in lines), default=box.bottom)
    rest = Box(box.left + _INSET_PX, bottom + 1, box.right - _BAR_PX, box.bottom - _INSET_PX)
    if ordinal == -1 and rest.height >= _MIN_LINE_PX <= find_ink(screen.crop(rest)).any(axis=1).sum():
        return None, "I cannot read the last line of the text area"
    return _pick_word(screen, lines, ordinal, lines[-1:] if ordinal == -1 else lines, "text area shows")


def _pick_word(
    screen: OcrScreen, lines: list[TextLine], ordinal: int, needed: list[TextLine], situation: str
) -> tuple[str | None, str]:
    """Return a word if the lines it depends on were read with certainty and two readings of it agree."""
    words = [(word, line, index) for line in lines for index, word in enumerate(line.text.split())]
    match = nth(words, ordinal)
    if match is None:
        return None, f"the {situation} {len(words)} words"
    if min(line.confidence for line in needed) < _SURE_READING:
        return None, "I cannot read the text with certainty"
    word, line, index = match
    readings = [_bare(word)]
    for scale in _SCALES:
        again = screen.engine.read_crop(screen.crop(line.box_px.padded(2)), scale, is_latin=line.text.isascii())[0]
        readings += [_bare(other) for other in again.split()[index : index + 1]]
        if readings.count(readings[-1]) > 1:
            return readings[-1], ""
    quoted = " and ".join(f'"{reading}"' for reading in dict.fromkeys(readings))
    return None, f"the word cannot be read with certainty: read as {quoted}"


def _bare(word: str) -> str:
    return word.strip(".,;:!?\"'()")


_SIGNS = {"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "X": "x", "＋": "+", "＝": "=", ":": "/"}


def _solve(screen: OcrScreen) -> tuple[str | None, str]:
    """Return the value of the only sum, or equation with one unknown, on the screen."""
    line_of_answer: dict[str, str] = {}
    for line in [*screen.lines, *_joined_rows(screen)]:
        text = "".join(_SIGNS.get(char, char) for char in line.text.replace(" ", ""))
        answer = solve(text)
        if answer is not None:
            line_of_answer[answer] = line.text
    if len(line_of_answer) != 1:
        texts = ", ".join(f'"{line.text}"' for line in screen.lines[:4])
        return None, f"I see no single sum that I can work out; I see: {texts}"
    return next(iter(line_of_answer)), ""


def _joined_rows(screen: OcrScreen) -> list[TextLine]:
    """Return the joined texts of each row; a sum may be set in large characters with wide gaps."""
    rows: list[list[TextLine]] = []
    for line in sorted(screen.lines, key=lambda line: line.box_px.left):
        row = next((row for row in rows if row[-1].box_px.overlap_y(line.box_px) > 0.5 * line.box_px.height), None)
        if row is None:
            rows.append([line])
        else:
            row.append(line)
    wrapped = [
        [line, below]
        for line in screen.lines
        if line.text.rstrip().endswith(("=", "＝"))
        for below in screen.lines
        if re.fullmatch(r"-?\d{1,6}", below.text.strip())
        and 0 < below.box_px.center[1] - line.box_px.center[1] < 2 * line.box_px.height
        and below.box_px.overlap_x(line.box_px) > 0
    ]
    return [
        TextLine(
            text=" ".join(line.text for line in row),
            box_px=row[0].box_px.union(row[-1].box_px),
            confidence=min(line.confidence for line in row),
        )
        for row in [*rows, *wrapped]
        if len(row) > 1
    ]


def solve(text: str) -> str | None:
    """Return the value of "3+4=", "12-5=?", or of the unknown in "2+x=8" and "x-3=4"; None for any other text.

    Accepts one operator between two numbers of at most six digits; a fraction is not an answer.
    """
    sides = text.rstrip("?_").split("=")
    if len(sides) > 2 or not sides[0]:
        return None
    left = re.fullmatch(r"(-?\d{1,6}|[a-z])([-+*/x])(-?\d{1,6}|[a-z])", sides[0])
    if left is None:
        return None
    right = sides[1] if len(sides) == 2 else ""
    first, sign, second = left[1], "*" if left[2] == "x" else left[2], left[3]
    numbers = [term for term in (first, second, right) if re.fullmatch(r"-?\d{1,6}", term)]
    if len(numbers) != 2 or (right and right not in numbers):
        return None
    known, other = map(Fraction, numbers)
    try:
        if not right or (second.isalpha() and sign in "-/"):
            value = _APPLY[sign](known, other)
        else:
            value = _APPLY[_INVERSE[sign]](other, known)
    except ZeroDivisionError:
        return None
    return str(value) if value.denominator == 1 else None


_APPLY: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv
}  # fmt: skip
_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}


PLANS: StepPlans = {
    CopyText: plan_copy,
    PasteText: plan_paste,
    SelectText: plan_select_text,
    ComputeAnswer: plan_compute,
    TypeAnswer: plan_type_answer,
    FillFromPage: plan_fill_from_page,
}
