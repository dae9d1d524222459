"""Work an answer out from what is seen: a word of a text, a sum, an unknown."""

import re
from fractions import Fraction

from apps.literal.do_transfer import find_paragraphs, find_writable, miss_field
from apps.literal.moves import Act, Failed, Move, at
from apps.literal.progress import Progress
from apps.literal.screen import Screen
from apps.literal.targets import Target, nth
from apps.literal.work_steps import Work
from visual_tools.box import Box
from visual_tools.ink import find_ink
from visual_tools.ocr import TextLine

_SURE = 0.9
_END_NOTCHES = 50
_INSET_PX, _BAR_PX, _MIN_LINE_PX = 3, 18, 4
_SCALES = (2.0, 3.0, 1.5)
"""In which sizes a word is read again that others rest on."""


def plan_work(step: Work, screen: Screen, progress: Progress) -> Move:
    """Work the answer out, and remember it."""
    if step.is_in_area:
        box = find_writable(screen, Target(role="area"), is_area=True)
        if box is None:
            return miss_field(screen, Target(role="area"))
        if step.ordinal == -1 and not progress.count("part"):
            code = (f"pyautogui.scroll(-{_END_NOTCHES}, {at(screen, box.center)})", "time.sleep(0.2)")
            return Act(code=code, thought="The last word may stand below what is seen.", phase="part")
        answer, problem = _read_word_in(screen, box, step.ordinal)
    elif step.kind == "word":
        answer, problem = _read_word(screen, step.ordinal)
    else:
        answer, problem = _solve(screen)
    if answer is None:
        return Failed(reason=problem)
    return Act(code=("time.sleep(0.1)",), thought=f"{step}: {answer}", answer=answer)


def _read_word(screen: Screen, ordinal: int) -> tuple[str | None, str]:
    texts = [group for group in find_paragraphs(screen) if sum(len(line.text.split()) for line in group) > 1]
    if len(texts) != 1:
        return None, f"I see {len(texts)} texts, and cannot tell which one is meant"
    lines = texts[0]
    return _pick_word(screen, lines, ordinal, lines, "text has")


def _read_word_in(screen: Screen, box: Box, ordinal: int) -> tuple[str | None, str]:
    """A word of a text area, counted from what is seen of it."""
    lines = screen.lines_in(box)
    if ordinal == -1 and lines and _has_ink_below(screen, box, max(line.box_px.bottom for line in lines)):
        return None, "I cannot read the last line of the text area"
    return _pick_word(screen, lines, ordinal, lines[-1:] if ordinal == -1 else lines, "text area shows")


def _has_ink_below(screen: Screen, box: Box, bottom: int) -> bool:
    """Whether something stands in a text area below the last line that was read."""
    rest = Box(box.left + _INSET_PX, bottom + 1, box.right - _BAR_PX, box.bottom - _INSET_PX)
    return rest.height >= _MIN_LINE_PX and int(find_ink(screen.crop(rest)).any(axis=1).sum()) >= _MIN_LINE_PX


def _pick_word(
    screen: Screen, lines: list[TextLine], ordinal: int, needed: list[TextLine], what: str
) -> tuple[str | None, str]:
    """A word of some lines, if those that it rests on were read with certainty, and it was read alike twice."""
    words = [(word, line, index) for line in lines for index, word in enumerate(line.text.split())]
    found = nth(words, ordinal)
    if found is None:
        return None, f"the {what} {len(words)} words"
    if min(line.confidence for line in needed) < _SURE:
        return None, "I cannot read the text with certainty"
    word, line, index = found
    readings = [_bare(word)]
    for scale in _SCALES:
        again = screen.engine.read_crop(screen.crop(line.box_px.padded(2)), scale, is_latin=line.text.isascii())[0]
        readings += [_bare(other) for other in again.split()[index : index + 1]]
        if readings.count(readings[-1]) > 1:
            return readings[-1], ""
    told = " and ".join(f'"{reading}"' for reading in dict.fromkeys(readings))
    return None, f"I cannot read the word with certainty: I read {told}"


def _bare(word: str) -> str:
    return word.strip(".,;:!?\"'()")


_SIGNS = {"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "X": "x", "＋": "+", "＝": "=", ":": "/"}


def _solve(screen: Screen) -> tuple[str | None, str]:
    """The value of the only sum or equation of one unknown that stands on the screen."""
    found: dict[str, str] = {}
    for line in [*screen.lines, *_joined_rows(screen)]:
        text = "".join(_SIGNS.get(char, char) for char in line.text.replace(" ", ""))
        answer = solve(text)
        if answer is not None:
            found[answer] = line.text
    if len(found) != 1:
        texts = ", ".join(f'"{line.text}"' for line in screen.lines[:4])
        return None, f"I see no single sum that I can work out; I see: {texts}"
    return next(iter(found)), ""


def _joined_rows(screen: Screen) -> list[TextLine]:
    """Texts of one row joined: a sum is set in large signs with wide gaps."""
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
    """The value of "3+4=", "12-5=?", or of the unknown in "2+x=8" and "x-3=4"; None when it is neither.

    One sign between two numbers, and numbers of at most six digits; a fraction is no answer.
    """
    sides = text.rstrip("?_").split("=")
    if len(sides) > 2 or not sides[0]:
        return None
    left = re.fullmatch(r"(-?\d{1,6}|[a-z])([-+*/x])(-?\d{1,6}|[a-z])", sides[0])
    if left is None:
        return None
    right = sides[1] if len(sides) == 2 else ""
    terms = [left[1], "*" if left[2] == "x" else left[2], left[3]]
    unknown = [term for term in (terms[0], terms[2]) if term.isalpha()]
    if not unknown and not right:
        value = _apply(terms[1], Fraction(terms[0]), Fraction(terms[2]))
    elif len(unknown) == 1 and re.fullmatch(r"-?\d{1,6}", right):
        value = _find_unknown(terms, Fraction(right))
    else:
        return None
    return str(value) if value is not None and value.denominator == 1 else None


def _apply(sign: str, one: Fraction, other: Fraction) -> Fraction | None:
    match sign:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
        case _:
            return one / other if other else None


def _find_unknown(terms: list[str], result: Fraction) -> Fraction | None:
    """X of `x sign b = result` or `a sign x = result`."""
    if terms[0].isalpha():
        return _apply({"+": "-", "-": "+", "*": "/", "/": "*"}[terms[1]], result, Fraction(terms[2]))
    known = Fraction(terms[0])
    match terms[1]:
        case "+":
            return result - known
        case "-":
            return known - result
        case "*":
            return result / known if known else None
        case _:
            return known / result if result else None
