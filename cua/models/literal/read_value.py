"""Read what stands next to a label."""

import re

from cua.models.literal.find_target import choose
from cua.models.literal.find_text import Found, find_text, keep_best
from cua.models.literal.screen import Screen
from cua.models.literal.steps import Target
from cua.models.literal.text_match import CONTAINED, WHOLE
from visual_tools.box import Box
from visual_tools.ocr import TextLine


def read_value(screen: Screen, target: Target) -> str | None:
    """The text right of a label in its line or row, else the one below it; None when there is none.

    With a row given ("the Amount in the row of Coffee"), the cell where the label's column meets the row.
    """
    if target.relation is not None and target.relation.kind in ("row", "inside"):
        cell = _read_cell(screen, target, target.relation.anchor)
        if cell is not None:
            return cell
    if target.relation is not None and not target.text:
        target = Target(text=target.relation.anchor)
    choice = choose(screen, target)
    if choice is None:
        return None
    return _rest_of_line(choice.place) or _right_of(screen, choice.place.box_px) or _below(screen, choice.place.box_px)


def _rest_of_line(place: Found) -> str | None:
    if place.line.box_px == place.box_px:
        return None
    after = [word for word, box in place.line.words if box.left >= place.box_px.right - 2]
    rest = re.sub(r"^[\s:=\-–]+", "", " ".join(after)).strip()
    return rest or None


def _right_of(screen: Screen, label: Box) -> str | None:
    beside = [
        line
        for line in screen.lines
        if line.box_px.left >= label.right - 2
        and line.box_px.overlap_y(label) > 0.4 * min(line.box_px.height, label.height)
        and line.box_px.left - label.right < 0.5 * screen.width
    ]
    return _text(min(beside, key=lambda line: line.box_px.left)) if beside else None


def _below(screen: Screen, label: Box) -> str | None:
    under = [
        line
        for line in screen.lines
        if 0 <= line.box_px.top - label.bottom < 3 * max(label.height, 12) and line.box_px.overlap_x(label) > 0
    ]
    return _text(min(under, key=lambda line: line.box_px.top)) if under else None


def _read_cell(screen: Screen, target: Target, anchor: str) -> str | None:
    rows = keep_best(find_text(screen, anchor))
    headers = [place for place in find_text(screen, target.text) if place.fit >= CONTAINED]
    cells = [
        (
            _header_rank(header, row),
            abs(line.box_px.center[0] - header.box_px.center[0]) - 20 * header.fit - 20 * row.fit,
            line,
        )
        for row in rows
        for header in headers
        for line in screen.lines
        if header.box_px.center[1] < row.box_px.top
        and line.box_px.overlap_y(row.box_px) > 0.4 * min(line.box_px.height, row.box_px.height)
        and line.box_px.overlap_x(header.box_px) > -12
        and line is not row.line
    ]
    return _text(min(cells, key=lambda cell: cell[:2])[2]) if cells else None


def _header_rank(header: Found, row: Found) -> tuple[bool, bool, int]:
    """Which text is the column's head: one that is no button, in full, and the nearest one above the row."""
    return header.button is not None, header.fit < WHOLE, row.box_px.top - header.box_px.bottom


def _text(line: TextLine) -> str:
    return line.text.strip()
