"""Find the rectangles that accept text or open a list, excluding buttons, tools and frames around other elements."""

import re

import numpy as np

from apps.literal.find_text import find_button
from apps.literal.screen import OcrScreen, reading_order
from apps.literal.text_match import alphanumeric
from visual_tools.box import Box
from visual_tools.ink import find_background, find_ink, find_runs, largest_channel
from visual_tools.regions.components import find_components
from visual_tools.widgets import has_down_arrow

_MAX_FIELD_SHARE = 0.4
_MIN_ROWS = 3
_TOOLBAR_GAP_PX = 12
_MIN_TOOLS = 3
_STRONG_COLOUR = 70
_SELECTED_PX = 5
_MAX_PADDING_PX = 44
_SAME_COLOUR = 12
_BORDER_STEP = 20
_MANY_LINES = 2.3
_GRIP_PX = 12
_MIN_GRIP = 5
_CELL_GAP_PX = 24
_MIN_DOTS = 2
_DOT_FILL = 0.45
_MIN_DOT_STEP = 24


def find_field_boxes(screen: OcrScreen) -> list[Box]:
    """Return rectangles that may accept text: wide enough, low or large, containing no other such rectangle."""
    boxes: list[Box] = []
    for box in screen.boxes:
        if box.height < 15 or box.width < 36 or (box.width < 1.2 * box.height and box.height < 60):
            continue
        if box.area > 0.75 * screen.width * screen.height or any(
            box.contains(inner) and inner.height > 14 for inner in boxes
        ):
            continue
        boxes.append(box)
    return boxes


def find_outlines(screen: OcrScreen) -> list[Box]:
    """Return boxes with their own border on all four sides, whatever they contain; letters may touch the border."""
    outlines = []
    found = find_components(screen.strength > _BORDER_STEP)
    for component in found:
        box = component.box_px
        if box.width < 30 or box.height < 11 or box.area > _MAX_FIELD_SHARE * screen.box.area:
            continue
        mask = found.labels[box.slices] == component.label
        sides = (mask[:3].any(axis=0), mask[-3:].any(axis=0), mask[:, :3].any(axis=1), mask[:, -3:].any(axis=1))
        if all(side.mean() > 0.9 for side in sides):
            outlines.append(box.padded(-1))
    return outlines


def find_inputs(screen: OcrScreen) -> list[Box]:
    """Return fields of any height that may accept text, in reading order: outlined boxes and `find_fields`.

    Cells of a table and buttons are excluded.
    """
    outlined = [box for box in find_outlines(screen) if not is_button(screen, box) and not is_frame(screen, box)]
    others = [
        box
        for box in find_fields(screen)
        if not any(box.intersection(outline) > 0.5 * box.area for outline in outlined)
    ]
    boxes = [*outlined, *others]
    buttons = [button_box for line in screen.lines if (button_box := find_button(screen, line.box_px)) is not None]
    grid = [*boxes, *find_field_boxes(screen)]
    free = [box for box in boxes if not is_cell(box, boxes) and not _is_in_grid(box, grid) and not is_list(screen, box)]
    free = [box for box in free if not any(box.intersection(button) > 0.8 * box.area for button in buttons)]
    return sorted(free, key=reading_order)


def is_text_area(screen: OcrScreen, box: Box) -> bool:
    """Return True if a field accepts several lines: it has a resize grip, or space for them."""
    return has_grip(screen, box) or box.height > max(_MANY_LINES * screen.text_height_px, 48)


def has_grip(screen: OcrScreen, box: Box) -> bool:
    """Return True if the lower right corner of a box has slanted strokes."""
    corner = Box(box.right - _GRIP_PX, box.bottom - _GRIP_PX, box.right - 1, box.bottom - 1)
    ink = find_ink(screen.crop(corner.clipped(screen.width, screen.height)))
    if ink.shape != (_GRIP_PX - 1, _GRIP_PX - 1):
        return False
    rows, columns = np.indices(ink.shape)
    is_lower = rows + columns >= ink.shape[0] - 3
    strokes = ink & is_lower
    is_slanted = strokes.any(axis=1).sum() >= _MIN_GRIP and strokes.any(axis=0).sum() >= _MIN_GRIP
    return bool(is_slanted and not (ink & ~is_lower).any() and strokes.mean() < 0.4)


def find_fields(screen: OcrScreen) -> list[Box]:
    """Return boxes that accept text, excluding buttons, lists and frames around other elements."""
    boxes = [box for box in find_field_boxes(screen) if not is_button(screen, box)]
    return [box for box in boxes if not is_list(screen, box) and not is_frame(screen, box)]


def find_lists(screen: OcrScreen) -> list[Box]:
    """Return boxes with an arrow that opens them, or else boxes that show several rows."""
    closed = [box for box in find_field_boxes(screen) if is_list(screen, box)]
    return closed or [
        box for box in screen.boxes if len(screen.lines_in(box)) >= _MIN_ROWS and not _is_page(screen, box)
    ]


def is_frame(screen: OcrScreen, box: Box) -> bool:
    """Return True if a box contains other boxes, or lies at the image's corner, as panels and pages do."""
    if _is_page(screen, box):
        return True
    return any(
        other != box
        and box.contains(other, slack_px=1)
        and 14 < other.height < box.height - 12
        and other.width > 14
        and other.area < 0.8 * box.area
        for other in screen.boxes
    )


def _is_page(screen: OcrScreen, box: Box) -> bool:
    return box.left <= 0 or box.top <= 0 or box.area > _MAX_FIELD_SHARE * screen.width * screen.height


def find_containing_field(screen: OcrScreen, text: Box, boxes: list[Box]) -> Box | None:
    """Return the field of which a text is the placeholder or value; None for labels, buttons and card headings.

    Args:
        screen: Screen with the text.
        text: Box of the text.
        boxes: Candidate fields.
    """
    for box in boxes:
        if not box.contains(text, slack_px=2):
            continue
        words = [line for line in screen.lines_in(box) if len(line.text) > 1]  # an icon is read as one letter
        if any(not text.has_point(*line.box_px.center) for line in words):
            continue
        if is_label_cell(screen, box, boxes):
            continue
        left, right = text.left - box.left, box.right - text.right
        if is_filled(screen, box) and max(left, right) <= _SELECTED_PX:
            return _widen(screen, box)
        if not is_filled(screen, box) and not is_cell(box, boxes) and not is_button(screen, box):
            is_low = box.height <= min(4 * text.height, text.height + _MAX_PADDING_PX)
            return box if is_low and left < right else None
    return None


def _widen(screen: OcrScreen, selected: Box) -> Box:
    """Return the field of a selected text, which extends to the right of the selection in one colour."""
    row = screen.image[int(selected.center[1]), selected.right + 2 :].astype(np.int16)
    if not len(row):
        return selected
    same = np.abs(row - row[0]).max(axis=1) <= _SAME_COLOUR
    length = len(row) if same.all() else int(np.argmin(same))
    return Box(selected.left, selected.top, selected.right + 2 + length, selected.bottom)


def is_button(screen: OcrScreen, box: Box) -> bool:
    """Return True if a rectangle holds one short text in its middle, as buttons do."""
    lines = screen.lines_in(box)
    if len(lines) != 1 or box.height > 70:
        return False
    left, right = lines[0].box_px.left - box.left, box.right - lines[0].box_px.right
    return abs(left - right) <= max(6, 0.2 * max(left, right)) and left > 6


def is_cell(box: Box, boxes: list[Box]) -> bool:
    """Return True if a rectangle is part of a grid: a neighbour of the same height touches its side."""
    return any(
        other is not box
        and abs(other.top - box.top) <= 2
        and abs(other.bottom - box.bottom) <= 2
        and min(abs(other.left - box.right), abs(box.left - other.right)) <= 3
        for other in boxes
    )


def is_label_cell(screen: OcrScreen, box: Box, boxes: list[Box]) -> bool:
    """Return True if a rectangle is a table cell whose right neighbour contains a field, which is lower."""
    return bool(screen.lines_in(box)) and any(
        abs(other.left - box.right) <= _CELL_GAP_PX
        and box.top < other.top
        and other.bottom < box.bottom
        and other.height > 0.5 * box.height
        and not is_button(screen, other)
        for other in boxes
    )


def _is_in_grid(box: Box, boxes: list[Box]) -> bool:
    """Return True if neighbours, even button-like ones, touch a rectangle at a side and above or below."""
    return is_cell(box, boxes) and any(
        abs(other.left - box.left) <= 2
        and abs(other.right - box.right) <= 2
        and min(abs(other.top - box.bottom), abs(box.top - other.bottom)) <= 3
        for other in boxes
    )


def is_list(screen: OcrScreen, box: Box) -> bool:
    """Return True if a box has the arrow of a list."""
    return has_down_arrow(screen.crop(box))


def is_filled(screen: OcrScreen, box: Box) -> bool:
    """Return True if a box is filled with a strong colour, as buttons are and fields are not."""
    colour = next((each.colour for each in screen.rectangles if each.box_px == box), (0, 0, 0))
    return max(colour) - min(colour) > _STRONG_COLOUR


def is_tool(screen: OcrScreen, box: Box, boxes: list[Box]) -> bool:
    """Return True if a box is part of a toolbar: low, with a centred icon, next to others of its height."""
    if box.height > 60 or box.width > 150:
        return False
    neighbours = [
        other
        for other in boxes
        if abs(other.top - box.top) <= 2
        and abs(other.height - box.height) <= 3
        and -box.overlap_x(other) <= _TOOLBAR_GAP_PX * _MIN_TOOLS
    ]
    return len(neighbours) >= _MIN_TOOLS or _has_centred_mark(screen, box)


def _has_centred_mark(screen: OcrScreen, box: Box) -> bool:
    """Return True if the contents of a box are centred, as icons and button texts are."""
    columns = np.flatnonzero(find_ink(screen.crop(box.padded(-3))).any(axis=0))
    if columns.size < 4:
        return False
    left, right = int(columns[0]), box.width - 6 - int(columns[-1])
    return left > 4 and abs(left - right) <= max(4, 0.2 * max(left, right))


def may_be_field(screen: OcrScreen, box: Box, boxes: list[Box]) -> bool:
    """Return True if an unlabelled box looks like a field: not a button, tool, grid cell or card."""
    if is_button(screen, box) or is_cell(box, boxes) or is_filled(screen, box) or is_tool(screen, box, boxes):
        return False
    lines = screen.lines_in(box)
    return not any(screen.is_large(line.box_px) for line in lines) and (len(lines) < 2 or box.height >= 60)


def is_dotted(seen: str, screen: OcrScreen, box: Box) -> bool:
    """Return True if a field shows a password: a row of equal marks, read as nothing or one character, such as "o"."""
    return len(set(alphanumeric(seen))) <= 1 and re.search(r"[1-9]", seen) is None and _holds_dots(screen, box)


def _holds_dots(screen: OcrScreen, box: Box) -> bool:
    """Return True if a field holds a row of equal marks, as passwords are shown."""
    crop = screen.crop(box.padded(-3))
    if crop.size == 0:
        return False
    difference = largest_channel(np.abs(crop.astype(np.int16) - find_background(crop).astype(np.int16)))
    ink = difference >= max(_MIN_DOT_STEP, int(difference.max()) // 2)  # soft edges of small dots touch
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
