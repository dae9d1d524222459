"""From the pieces of a page to a tree of rows and columns: frames by what they contain, the rest by the gaps."""

import itertools
from collections.abc import Sequence

from apps.video2web.layout.find_tables import find_table, group_cells, group_stripes, join_ruled_rows
from apps.video2web.layout.fonts import measure
from apps.video2web.layout.nodes import MIN_COLUMN_GAP_PX, SAME_EDGE_PX, Node, NodeKind, core, split, union
from apps.video2web.layout.pieces import PLAIN, Look, PagePieces, Piece
from visual_tools.box import Box

_COLUMNS_FIRST = 1.15
"""Gaps between columns must be so many times as wide as those between rows to be cut first."""

_MAX_PITCH = 1.95  # of the font size, between base lines of one paragraph
_SAME_SIZE = 1.08
_MAX_DEPTH = 40
_LIST_ROOM = 0.65  # of the column: lines that end before it are items of a list, not of a paragraph
_MIN_BREAK_PX, _MIN_BREAK = 5, 0.015
"""Room that a browser may be off by, in pixels and of the width, before a line breaks elsewhere."""


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
        look = frames[index].look if index is not None else Look(fill=pieces.background, shade=pieces.shade)
        box = frames[index].box_px if index is not None else page
        below = [
            make(child, depth + 1) for child, parent in enumerate(parents) if parent == index and depth < _MAX_DEPTH
        ]
        nodes = [*below, *(_leaf(piece) for piece in inside.get(index, ()))]
        nodes = group_cells(group_stripes(nodes))
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
    table = find_table(nodes)
    if table is not None:
        return table
    rows = split(nodes, lambda node: core(node), 0)
    columns = split(nodes, lambda node: (node.box_px.left, node.box_px.right), MIN_COLUMN_GAP_PX)
    if depth > _MAX_DEPTH or (len(rows) == 1 and len(columns) == 1):
        return _stack(nodes, depth)
    if len(columns) > 1 and (len(rows) == 1 or _is_columns_first(rows, columns)):
        return _make_row([arrange(column, depth + 1) for column in columns])
    return _make_column([arrange(row, depth + 1) for row in rows])


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
    merged = _merge_grids(_merge_lines(join_ruled_rows(flat)))
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
    is_left = abs(paragraph.box_px.left - line.box_px.left) <= SAME_EDGE_PX
    is_centered = abs(last.box_px.center[0] - line.box_px.center[0]) <= SAME_EDGE_PX
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
    return [(find_table(node.children) or node) if node.kind == "grid" else node for node in merged]


def _join_grid(above: Node, row: Node) -> Node | None:
    if above.look != PLAIN or above.kind not in ("row", "grid"):
        return None
    columns = above.columns or tuple((child.box_px.left, child.box_px.right) for child in above.children)
    if len(columns) < 2 or len(columns) < len(row.children):
        return None
    for (left, right), child in zip(columns, row.children, strict=False):
        box = child.box_px
        if abs(box.left - left) > SAME_EDGE_PX and abs((box.left + box.right) - (left + right)) > 2 * SAME_EDGE_PX:
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
