"""Scroll, wait, read values and check texts."""

import re

from apps.literal.do_pointer import locate, report_missing
from apps.literal.find_field import choose
from apps.literal.find_text import TextHit, find_text, keep_best, name_nearest
from apps.literal.message_words import is_in_progress
from apps.literal.screen import OcrScreen
from apps.literal.step_outcome import Done, Failed, NotFound, RunCode, StepOutcome, StepPlans, StepView, at, wait
from apps.literal.steps import CheckShown, ReportValue, ScrollBy, ScrollUntil, WaitFor, WaitSeconds
from apps.literal.targets import ElementTarget
from apps.literal.text_match import CONTAINED, WHOLE, fit_texts
from visual_tools.box import Box
from visual_tools.ink import find_runs
from visual_tools.ocr import TextLine

_NO_VALUE = re.compile(r"[-–—−一_=.…·:\s]*")
_SAME_LOOKS = 0.25
_BLOCK_PX, _BLOCK_STEP = 40, 10
_CELL_GAP_PX = 6


def read_value(screen: OcrScreen, target: ElementTarget) -> str | None:
    """Return the text right of a label in its line or row, else the one below it; None if it is missing or a dash.

    A label in a column of labels has its value only in its own row. With a row given ("the Amount in the row of
    Coffee"), the value is the cell where the label's column meets the row.
    """
    value = _read_any(screen, target)
    return None if value is None or _NO_VALUE.fullmatch(value) else value


def _read_any(screen: OcrScreen, target: ElementTarget) -> str | None:
    if target.relation is not None and target.relation.kind in ("row", "inside"):
        cell = _read_cell(screen, target, target.relation.anchor)
        if cell is not None:
            return cell
    if target.relation is not None and not target.text:
        target = ElementTarget(text=target.relation.anchor)
    choice = choose(screen, target)
    if choice is None:
        return None
    label = choice.hit.box_px
    rest = _rest_of_line(choice.hit)
    if rest is not None or _is_beside_empty_cell(screen, label):
        return rest
    beside = _right_of(screen, label)
    if beside is not None or _is_in_label_column(screen, label) or _is_beside_block(screen, label):
        return beside
    return _below(screen, label)


def _rest_of_line(hit: TextHit) -> str | None:
    if hit.line.box_px == hit.box_px:
        return None
    words = [word for word, box in hit.line.words if box.left >= hit.box_px.right - 2]
    rest = " ".join(words).strip()
    return re.sub(r"^[\s:=\-–]+", "", rest) or rest.strip(": ") or None


def _is_beside_empty_cell(screen: OcrScreen, label: Box) -> bool:
    """Return True if a label fills a bordered cell whose right neighbour holds no text."""
    boxes = [rectangle.box_px for rectangle in screen.rectangles]
    cells = [box for box in boxes if box.contains(label, slack_px=2) and box.height < 4 * label.height]
    return any(
        abs(other.top - cell.top) <= 2
        and abs(other.bottom - cell.bottom) <= 2
        and 0 <= other.left - cell.right <= _CELL_GAP_PX
        and not any(line.box_px.intersection(other) > 0 for line in screen.lines)
        for cell in cells
        for other in boxes
    )


def _is_in_label_column(screen: OcrScreen, label: Box) -> bool:
    """Return True if texts below a label look like it, share its left edge, and one of them has a text to its right."""
    contrast = screen.contrast(label)
    below = [
        line
        for line in screen.lines
        if line.box_px.top >= label.bottom
        and abs(line.box_px.left - label.left) <= 0.5 * label.height
        and abs(line.box_px.height - label.height) <= _SAME_LOOKS * label.height + 2
        and abs(screen.contrast(line.box_px) - contrast) <= _SAME_LOOKS * contrast
        and re.match(r"[^\W\d_]{2}", line.text)
    ]
    return any(_right_of(screen, line.box_px) for line in below)


def _is_beside_block(screen: OcrScreen, label: Box) -> bool:
    """Return True if a plain block is right of a label in place of a text, as while a value is loading."""
    y = round(label.center[1])
    row = screen.strength[y, label.right + 2 : label.right + screen.width // 2] > _BLOCK_STEP
    return any(end - start >= _BLOCK_PX for start, end in find_runs(row))


def _right_of(screen: OcrScreen, label: Box) -> str | None:
    beside = [
        line
        for line in screen.lines
        if line.box_px.left >= label.right - 2
        and line.box_px.overlap_y(label) > 0.4 * min(line.box_px.height, label.height)
        and line.box_px.left - label.right < 0.5 * screen.width
    ]
    return min(beside, key=lambda line: line.box_px.left).text.strip() if beside else None


def _below(screen: OcrScreen, label: Box) -> str | None:
    under = [
        line
        for line in screen.lines
        if 0 <= line.box_px.top - label.bottom < 3 * max(label.height, 12) and line.box_px.overlap_x(label) > 0
    ]
    return min(under, key=lambda line: line.box_px.top).text.strip() if under else None


def _read_cell(screen: OcrScreen, target: ElementTarget, anchor: str) -> str | None:
    rows = keep_best(find_text(screen, anchor))
    headers = [hit for hit in find_text(screen, target.text) if hit.fit >= CONTAINED]
    cells = [
        (
            _header_rank(header, row),
            abs(line.box_px.center[0] - header.box_px.center[0]) - 20 * header.fit - 20 * row.fit,
            line,
            row,
        )
        for row in rows
        for header in headers
        for line in screen.lines
        if header.box_px.center[1] < row.box_px.top
        and line.box_px.overlap_y(row.box_px) > 0.4 * min(line.box_px.height, row.box_px.height)
        and line.box_px.overlap_x(header.box_px) > -12
        and line is not row.line
    ]
    if not cells:
        return None
    *_, line, row = min(cells, key=lambda cell: cell[:2])
    return " ".join(line.text.strip() for line in _cell_lines(screen, line, row.box_px))


def _cell_lines(screen: OcrScreen, first: TextLine, anchor: Box) -> list[TextLine]:
    """Return the lines of a cell from its first line; a line with text in the anchor's column starts a new row."""
    lines = [first]
    height = first.box_px.height
    for line in sorted(screen.lines, key=lambda line: line.box_px.top):
        box, last = line.box_px, lines[-1].box_px
        goes_on = abs(box.left - first.box_px.left) < 0.5 * height and -2 <= box.top - last.bottom < 1.5 * height
        if line is not first and goes_on and box.top > last.top:
            beside = [other for other in screen.lines if other.box_px.overlap_y(box) > 0.4 * min(height, box.height)]
            if any(other.box_px.overlap_x(anchor) > 0 for other in beside):
                break
            lines.append(line)
    return lines


def _header_rank(header: TextHit, row: TextHit) -> tuple[bool, bool, int]:
    """Return the sort key of a column header: texts that are not buttons, then full matches, then the nearest."""
    return header.button is not None, header.fit < WHOLE, row.box_px.top - header.box_px.bottom


_MAX_SCROLLS = 40
_MAX_WAITS = 20
_MAX_VALUE_WAITS = 10
_END_NOTCHES = 30


def plan_scroll(step: ScrollBy, view: StepView) -> StepOutcome:
    """Turn the mouse wheel over the middle of the screen or over a target."""
    screen = view.now
    point = screen.box.center
    if step.over is not None:
        target_point, _ = locate(step.over, screen)
        if target_point is None:
            return report_missing(screen, step.over)
        point = target_point
    notches = step.notches if step.notches is not None else _END_NOTCHES
    repeat = 1 if step.notches is not None else 4
    return RunCode(code=(scroll(step.direction, notches, at(screen, point)),) * repeat, thought="I scroll.")


def scroll(direction: str, notches: int, point: str) -> str:
    """Return the code of one scroll call."""
    call = "hscroll" if direction in ("left", "right") else "scroll"
    amount = notches if direction in ("up", "right") else -notches
    return f"pyautogui.{call}({amount}, {point})"


def plan_scroll_until(step: ScrollUntil, view: StepView) -> StepOutcome:
    """Scroll a little and look again."""
    screen = view.now
    point, why = locate(step.target, screen)
    if point is not None:
        return Done(f"{why} It is visible.")
    tries = view.progress.count("scroll down") + view.progress.count("scroll up")
    if tries >= _MAX_SCROLLS or (tries and view.sight.is_stuck):
        return Failed(
            f"{step.target} was not found while scrolling {step.direction} to the end; "
            + _seen(screen, step.target.text)
        )
    middle = at(screen, screen.box.center)
    phase = "scroll up" if step.direction in ("up", "left") else "scroll down"
    return RunCode(code=(scroll(step.direction, 5, middle),), thought="It is not visible yet.", phase=phase)


def plan_wait_for(step: WaitFor, view: StepView) -> StepOutcome:
    """Check every second."""
    screen = view.now
    is_there = any(hit.fit >= CONTAINED for hit in find_text(screen, step.text))
    if is_there == step.is_shown:
        return Done(f'"{step.text}" is {"there" if is_there else "gone"}.')
    if view.progress.count("wait") >= _MAX_WAITS:
        failure = "did not appear" if step.is_shown else "is still there"
        return Failed(f'"{step.text}" {failure} after {_MAX_WAITS} screenshots; {_seen(screen, step.text)}')
    return wait(1, "Not yet.")


def plan_wait(step: WaitSeconds, view: StepView) -> StepOutcome:
    """Wait for a fixed time."""
    return wait(step.duration_s, "I wait for the given time.", phase="")


def plan_report(step: ReportValue, view: StepView) -> StepOutcome:
    """Read the text next to a label; wait if its value is still loading."""
    screen = view.now
    answer = read_value(screen, step.target)
    if answer is not None and is_in_progress(answer):
        if view.progress.count("wait") < _MAX_VALUE_WAITS:
            return wait(1, f'It still says "{answer}"; I wait.')
        return Failed(f'{step.target} still says "{answer}" after {_MAX_VALUE_WAITS} screenshots')
    if answer is not None:
        return RunCode(code=("time.sleep(0.1)",), thought=f"I read it: {answer}", answer=answer)
    if choose(screen, step.target) is not None:
        if view.progress.count("wait") < _MAX_VALUE_WAITS:
            return wait(1, "It has no value yet; I wait.")
        return Failed(f"no value found next to {step.target}")
    return report_missing(screen, step.target)


def plan_check(step: CheckShown, view: StepView) -> StepOutcome:
    """Check that a text is shown, or what is next to it."""
    screen = view.now
    choice = choose(screen, step.target)
    is_there = choice is not None and choice.hit.fit >= CONTAINED
    if step.value is not None:
        return _check_value(step, screen, step.value)
    if is_there == step.is_shown:
        return Done(f"{step.target} is {'shown' if is_there else 'not shown'}, as expected.")
    if not step.is_shown:
        return Failed(f"{step.target} is shown, expected it not to be")
    return report_missing(screen, step.target)


def _check_value(step: CheckShown, screen: OcrScreen, value: str) -> StepOutcome:
    seen = read_value(screen, step.target)
    if seen is not None and any(fit.score >= CONTAINED for fit in fit_texts(value, seen)):
        return Done(f'{step.target} is "{seen}", as expected.')
    if seen is None:
        return NotFound(what=f"a value next to {step.target}", nearest=tuple(name_nearest(screen, step.target.text)))
    return Failed(f'{step.target} is "{seen}", expected {value!r}')


def _seen(screen: OcrScreen, text: str) -> str:
    return "most similar visible texts: " + ", ".join(f'"{near}"' for near in name_nearest(screen, text))


PLANS: StepPlans = {
    ScrollBy: plan_scroll,
    ScrollUntil: plan_scroll_until,
    WaitFor: plan_wait_for,
    WaitSeconds: plan_wait,
    ReportValue: plan_report,
    CheckShown: plan_check,
}
