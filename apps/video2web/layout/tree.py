"""From the pieces of a page to a tree of rows and columns: frames by what they contain, the rest by the gaps."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from apps.video2web.layout.fonts import measure
from apps.video2web.layout.pieces import PLAIN, Look, PagePieces, Piece
from visual_tools.box import Box

NodeKind = Literal["column", "row", "grid", "table", "cells", "stack", "text", "image", "rule", "toggle"]

_CORE = 0.22
"""Line boxes of neighbours may overlap by this share of their height and are still above each other."""

_MIN_COLUMN_GAP_PX = 5
_COLUMNS_FIRST = 1.15
"""Gaps between columns must be so many times as wide as those between rows to be cut first."""

_SAME_EDGE_PX = 3
_MAX_PITCH = 1.95  # of the font size, between base lines of one paragraph
_SAME_SIZE = 1.08
_MIN_ROWS, _MIN_CELLS = 3, 0.6
_MAX_DEPTH = 40
_TOUCH_PX = 1
_LIST_ROOM = 0.65  # of the column: lines that end before it are items of a list, not of a paragraph
_MIN_BREAK_PX, _MIN_BREAK = 5, 0.015
"""Room that a browser may be off by, in pixels and of the width, before a line breaks elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A part of a page.

    Attributes:
        kind: How its children stand, or which leaf it is.
        box_px: On the page.
        children: Left to right or top to bottom; of a grid or a table row by row.
        look: How it is painted.
        lines: Lines of a text.
        is_centered: Whether the lines of a text stand centred.
        piece: What an image, a rule or a toggle was found as.
        columns: Left and right of each column (grid, table, cells: a table of framed cells).
        rules: Whether a table has lines between its rows.
    """

    kind: NodeKind
    box_px: Box
    children: "tuple[Node, ...]" = ()
    look: Look = PLAIN
    lines: tuple[Piece, ...] = ()
    is_centered: bool = False
    piece: Piece | None = None
    columns: tuple[tuple[int, int], ...] = ()
    rules: tuple[Piece, ...] = ()


def build_tree(pieces: PagePieces) -> Node:
    """The tree of a page; its root is a column of the page's size."""
    width, height = pieces.size_px
    page = Box(0, 0, width, height)
    frames = sorted(pieces.frames, key=lambda frame: -frame.box_px.area)
    parents: list[int | None] = []
    for index, frame in enumerate(frames):
        around = [other for other in range(index) if frames[other].box_px.contains(frame.box_px, slack_px=2)]
        parents.append(max(around, default=None))
    inside: dict[int | None, list[Piece]] = {}
    for leaf in pieces.leaves:
        x, y = leaf.box_px.center
        holding = [index for index, frame in enumerate(frames) if frame.box_px.has_point(x, y)]
        holding = [index for index in holding if leaf.kind == "text" or frames[index].box_px.area > leaf.box_px.area]
        inside.setdefault(max(holding, default=None), []).append(leaf)

    def make(index: int | None, depth: int) -> Node:
        look = frames[index].look if index is not None else Look(fill=pieces.background)
        box = frames[index].box_px if index is not None else page
        below = [
            make(child, depth + 1) for child, parent in enumerate(parents) if parent == index and depth < _MAX_DEPTH
        ]
        nodes = [*below, *(_leaf(piece) for piece in inside.get(index, ()))]
        nodes = _group_cells(nodes)
        content = arrange(nodes) if nodes else Node(kind="column", box_px=box)
        if content.look == PLAIN and content.kind in ("column", "row", "grid", "table") and nodes:
            return Node(
                kind=content.kind, box_px=box, children=content.children, look=look, columns=content.columns,
                rules=content.rules,
            )  # fmt: skip
        return Node(kind="column", box_px=box, children=(content,) if nodes else (), look=look)

    return make(None, 0)


def _leaf(piece: Piece) -> Node:
    if piece.kind == "text":
        return Node(kind="text", box_px=piece.box_px, lines=(piece,))
    kind: NodeKind = "image" if piece.kind == "image" else "rule" if piece.kind == "rule" else "toggle"
    return Node(kind=kind, box_px=piece.box_px, piece=piece)


def arrange(nodes: Sequence[Node], depth: int = 0) -> Node:
    """Put nodes into rows and columns along the gaps between them."""
    if len(nodes) == 1:
        return nodes[0]
    table = _find_table(nodes)
    if table is not None:
        return table
    rows = _split(nodes, lambda node: _core(node), 0)
    columns = _split(nodes, lambda node: (node.box_px.left, node.box_px.right), _MIN_COLUMN_GAP_PX)
    if depth > _MAX_DEPTH or (len(rows) == 1 and len(columns) == 1):
        return _stack(nodes, depth)
    if len(columns) > 1 and (len(rows) == 1 or _is_columns_first(rows, columns)):
        return _make_row([arrange(column, depth + 1) for column in columns])
    return _make_column([arrange(row, depth + 1) for row in rows])


def union(nodes: Sequence[Node]) -> Box:
    """The box around nodes."""
    box = nodes[0].box_px
    for node in nodes[1:]:
        box = box.union(node.box_px)
    return box


def _core(node: Node) -> tuple[int, int]:
    box = node.box_px
    margin = round(_CORE * (box.height / max(len(node.lines), 1))) if node.kind == "text" else min(1, box.height // 4)
    return box.top + margin, max(box.bottom - margin, box.top + margin + 1)


def _split(nodes: Sequence[Node], extent: Callable[[Node], tuple[int, int]], min_gap: int) -> list[list[Node]]:
    groups: list[list[Node]] = []
    end = 0
    for node in sorted(nodes, key=lambda node: (extent(node), node.box_px)):
        first, last = extent(node)
        if groups and first < end + min_gap:
            groups[-1].append(node)
            end = max(end, last)
        else:
            groups.append([node])
            end = last
    return groups


def _is_columns_first(rows: Sequence[Sequence[Node]], columns: Sequence[Sequence[Node]]) -> bool:
    above = [union(one) for one in rows]
    beside = [union(one) for one in columns]
    row_gap = max(low.top - high.bottom for high, low in itertools.pairwise(above))
    column_gap = max(right.left - left.right for left, right in itertools.pairwise(beside))
    return column_gap > _COLUMNS_FIRST * max(row_gap, 1)


def _stack(nodes: Sequence[Node], depth: int) -> Node:
    """Nodes that overlap: on the largest one, if it holds the others; else each at its own place."""
    largest = max(nodes, key=lambda node: node.box_px.area)
    others = [node for node in nodes if node is not largest]
    if all(largest.box_px.contains(node.box_px, slack_px=4) for node in others) and depth <= _MAX_DEPTH:
        return Node(kind="stack", box_px=largest.box_px, children=(largest, arrange(others, depth + 1)))
    return Node(kind="stack", box_px=union(nodes), children=tuple(sorted(nodes, key=lambda node: -node.box_px.area)))


# ------------------------------------------------------------------ rows and columns


def _make_row(children: list[Node]) -> Node:
    flat: list[Node] = []
    for child in children:
        flat.extend(child.children if child.kind == "row" and child.look == PLAIN else (child,))
    return Node(kind="row", box_px=union(flat), children=tuple(flat))


def _make_column(children: list[Node]) -> Node:
    flat: list[Node] = []
    for child in children:
        flat.extend(child.children if child.kind == "column" and child.look == PLAIN else (child,))
    merged = _merge_grids(_merge_lines(flat))
    return merged[0] if len(merged) == 1 else Node(kind="column", box_px=union(merged), children=tuple(merged))


def _merge_lines(nodes: Sequence[Node]) -> list[Node]:
    """Lines that continue each other become paragraphs."""
    room = union(nodes).width
    merged: list[Node] = []
    for node in nodes:
        if merged and node.kind == "text" and merged[-1].kind == "text":
            joined = _continue(merged[-1], node, room)
            if joined is not None:
                merged[-1] = joined
                continue
        merged.append(node)
    return merged


def _continue(paragraph: Node, node: Node, room_px: int) -> Node | None:
    """A paragraph with another line, if that one goes on in the same font and would not have fitted above."""
    last, line = paragraph.lines[-1], node.lines[0]
    if last.font is None or line.font is None or last.font.face != line.font.face:
        return None
    size = line.font.size_px
    if max(size, last.font.size_px) > _SAME_SIZE * min(size, last.font.size_px):
        return None
    if max(abs(a - b) for a, b in zip(last.rgb, line.rgb, strict=True)) > 40:
        return None
    pitch = line.box_px.top - last.box_px.top
    if not 0.9 * size <= pitch <= _MAX_PITCH * size:
        return None
    if len(paragraph.lines) > 1:
        usual = paragraph.lines[-1].box_px.top - paragraph.lines[-2].box_px.top
        if abs(usual - pitch) > max(2, 0.1 * usual):
            return None
    is_left = abs(paragraph.box_px.left - line.box_px.left) <= _SAME_EDGE_PX
    is_centered = abs(last.box_px.center[0] - line.box_px.center[0]) <= _SAME_EDGE_PX
    if not (is_left and not paragraph.is_centered) and not is_centered:
        return None
    words = line.text.split()
    needed = last.box_px.width + (measure(line.font.face, f" {words[0]}").right * size if words else 0)
    widest = max(paragraph.box_px.width, line.box_px.width)
    if needed < min(widest, room_px) - 0.3 * size and needed < 0.93 * widest:
        return None
    is_new = line.text[:1].isupper() or line.text[:1].isdigit()
    if needed < _LIST_ROOM * room_px and (is_new or pitch > 1.6 * size):
        return None
    return Node(
        kind="text", box_px=paragraph.box_px.union(line.box_px), lines=(*paragraph.lines, line),
        is_centered=is_centered and not is_left,
    )  # fmt: skip


def _merge_grids(nodes: Sequence[Node]) -> list[Node]:
    """Rows below each other whose children stand in the same columns become a grid."""
    merged: list[Node] = []
    for node in nodes:
        if merged and node.kind == "row" and node.look == PLAIN and len(node.children) >= 2:
            joined = _join_grid(merged[-1], node)
            if joined is not None:
                merged[-1] = joined
                continue
        merged.append(node)
    return [(_find_table(node.children) or node) if node.kind == "grid" else node for node in merged]


def _join_grid(above: Node, row: Node) -> Node | None:
    if above.look != PLAIN or above.kind not in ("row", "grid"):
        return None
    columns = above.columns or tuple((child.box_px.left, child.box_px.right) for child in above.children)
    if len(columns) < 2 or len(columns) < len(row.children):
        return None
    for (left, right), child in zip(columns, row.children, strict=False):
        box = child.box_px
        if abs(box.left - left) > _SAME_EDGE_PX and abs((box.left + box.right) - (left + right)) > 2 * _SAME_EDGE_PX:
            return None
    if len(row.children) < len(columns) and any(child.look == PLAIN for child in row.children):
        return None
    wide = tuple(
        (min(left, child.box_px.left), max(right, child.box_px.right))
        for (left, right), child in zip(columns, row.children, strict=False)
    )
    return Node(
        kind="grid", box_px=above.box_px.union(row.box_px), children=(*above.children, *row.children),
        columns=(*wide, *columns[len(wide) :]),
    )  # fmt: skip


def flow_width(node: Node) -> tuple[float, bool]:
    """A width at which a paragraph breaks where it did, and whether there is one."""
    lines = node.lines
    widest = max(line.box_px.width for line in lines)
    most = float("inf")
    for line, after in itertools.pairwise(lines):
        if line.font is not None and after.text.split():
            word = measure(after.font.face if after.font else line.font.face, f" {after.text.split()[0]}").right
            most = min(most, line.box_px.width + word * line.font.size_px)
    if most < widest + max(_MIN_BREAK_PX, _MIN_BREAK * widest):
        return widest + 4.0, False
    return round(min((widest + most) / 2, widest + 12.0)), True


# ------------------------------------------------------------------ tables


def _find_table(nodes: Sequence[Node]) -> Node | None:
    """Lines of text in at least three rows and two columns, with or without rules between the rows."""
    texts = [node for node in nodes if node.kind != "rule"]
    rules = [node for node in nodes if node.kind == "rule"]
    if any(node.kind != "text" or len(node.lines) != 1 for node in texts) or len(texts) < 2 * _MIN_ROWS:
        return None
    rows = _split(texts, _core, 0)
    columns = _split(texts, lambda node: (node.box_px.left, node.box_px.right), _MIN_COLUMN_GAP_PX)
    if len(rows) < _MIN_ROWS or len(columns) < 2 or len(columns) > 20:
        return None
    places = {id(node): number for number, column in enumerate(columns) for node in column}
    cells: list[Node] = []
    for row in rows:
        taken = {places[id(node)]: node for node in row}
        if len(taken) < len(row):
            return None
        box = union(row)
        cells += [taken.get(number, Node(kind="column", box_px=Box(box.left, box.top, box.left, box.bottom)))
                  for number in range(len(columns))]  # fmt: skip
    tops = [union(row).top for row in rows]
    pitches = [low - high for high, low in itertools.pairwise(tops)]
    usual = sorted(pitches)[len(pitches) // 2]
    is_even = sum(abs(pitch - usual) <= 0.25 * usual for pitch in pitches) >= 0.7 * len(pitches)
    if (
        not is_even
        or len(texts) < _MIN_CELLS * len(rows) * len(columns)
        or (not rules and usual < 1.5 * _height(texts))
    ):
        return None
    spans = tuple((union(column).left, union(column).right) for column in columns)
    box = union(nodes)
    found = tuple(node.piece for node in rules if node.piece is not None)
    return Node(kind="table", box_px=box, children=tuple(cells), columns=spans, rules=found)


def _height(texts: Sequence[Node]) -> float:
    heights = sorted(node.box_px.height for node in texts)
    return heights[len(heights) // 2] / 1.2


def _group_cells(nodes: Sequence[Node]) -> list[Node]:
    """Frames that touch each other in at least two rows and two columns are the cells of a table."""
    frames = [node for node in nodes if node.look != PLAIN and node.kind in ("column", "row")]
    groups: list[list[Node]] = []
    for frame in frames:
        touching = [group for group in groups if any(_do_touch(frame.box_px, other.box_px) for other in group)]
        groups = [group for group in groups if group not in touching]
        groups.append([frame, *(other for group in touching for other in group)])
    kept = list(nodes)
    for group in groups:
        table = _cell_table(group)
        if table is not None:
            members = {id(node) for node in group}
            kept = [*(node for node in kept if id(node) not in members), table]
    return kept


def _do_touch(one: Box, other: Box) -> bool:
    return one.overlap_x(other) >= -_TOUCH_PX and one.overlap_y(other) >= -_TOUCH_PX


def _cell_table(cells: Sequence[Node]) -> Node | None:
    lefts, tops = _clusters([cell.box_px.left for cell in cells]), _clusters([cell.box_px.top for cell in cells])
    if min(len(lefts), len(tops)) < 2 or len(cells) < 0.9 * len(lefts) * len(tops):
        return None
    places: dict[tuple[int, int], Node] = {}
    for cell in cells:
        row = min(range(len(tops)), key=lambda index: abs(tops[index] - cell.box_px.top))
        column = min(range(len(lefts)), key=lambda index: abs(lefts[index] - cell.box_px.left))
        if (row, column) in places:
            return None
        places[row, column] = cell
    box = union(cells)
    edges = [*lefts, box.right]
    ordered = []
    for row, top in enumerate(tops):
        below = [*tops, box.bottom][row + 1]
        ordered += [places.get((row, column), Node(kind="column", box_px=Box(left, top, edges[column + 1], below)))
                    for column, left in enumerate(lefts)]  # fmt: skip
    spans = tuple((left, right) for left, right in itertools.pairwise(edges))
    return Node(kind="cells", box_px=box, children=tuple(ordered), columns=spans)


def _clusters(values: Sequence[int]) -> list[int]:
    """Different values, those that are nearly the same as one."""
    found: list[int] = []
    for value in sorted(values):
        if not found or value - found[-1] > _SAME_EDGE_PX:
            found.append(value)
    return found
