"""Tree of rows and columns from the pieces of a page: frames by containment, the rest by gaps."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from apps.video2web.layout.fonts import measure
from apps.video2web.layout.gradients import Rgb
from apps.video2web.layout.nodes import MIN_COLUMN_GAP_PX, SAME_EDGE_PX, Node, NodeKind, core, split, union
from apps.video2web.layout.primitives import PLAIN, BoxStyle, PagePieces, Primitive
from apps.video2web.layout.roles import is_bullet, is_code, is_inline, is_item, is_mark
from visual_tools.box import Box

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_MIN_ROWS, _MIN_CELLS = 3, 0.6
_TOUCH_PX = 1
_MAX_HEAD = 1.2  # of a row's height, maximum distance of the column heads above the first painted row
_MAX_STRIPE_GAP = 1.6  # of a row's height, from one row to the text of the next
_COLUMNS_FIRST = 1.15
"""Minimum ratio of gaps between columns to gaps between rows for cutting columns first."""

_MAX_PITCH = 1.95  # of the font size, between baselines of one paragraph
_SAME_SIZE = 1.08
_MAX_DEPTH = 40
_LIST_ROOM = 0.65  # of the column: lines that end before it are items of a list, not of a paragraph
_MIN_BREAK_PX, _MIN_BREAK = 5, 0.015
"""Tolerance before a browser breaks a line elsewhere, in pixels and as a share of the width."""


def find_table(nodes: Sequence[Node]) -> Node | None:
    """Return lines of text in at least three rows and two columns as a table, with or without rules."""
    texts = [node for node in nodes if node.kind != "rule"]
    rules = [node for node in nodes if node.kind == "rule"]
    if not all(_is_one_line(node) or is_bullet(node) for node in texts) or len(texts) < 2 * _MIN_ROWS:
        return None
    rows = split(texts, core, 0)
    columns = split(texts, lambda node: (node.box_px.left, node.box_px.right), MIN_COLUMN_GAP_PX)
    if len(rows) < _MIN_ROWS or len(columns) < 2 or len(columns) > 20 or all(map(is_mark, columns[0])):
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
    table_rules = tuple(node.piece for node in rules if node.piece is not None)
    return Node(kind="table", box_px=box, children=tuple(cells), columns=spans, rules=table_rules)


def _height(texts: Sequence[Node]) -> float:
    heights = sorted(node.box_px.height for node in texts if node.lines)
    return heights[len(heights) // 2] / 1.2


def join_ruled_rows(nodes: Sequence[Node]) -> list[Node]:
    """Join rows of text that are separated by lines into tables."""
    joined: list[Node] = []
    run: list[Node] = []
    for node in [*nodes, None]:
        if node is not None and (_is_text_row(node) or (run and _is_line(node)) or (run and _is_one_line(node))):
            run.append(node)
            continue
        joined += _table_of_run(run)
        run = []
        joined += [node] if node is not None else []
    return joined


def _is_text_row(node: Node) -> bool:
    return (
        node.kind == "row"
        and len(node.children) >= 2
        and _is_one_line(node.children[0])
        and all(_is_one_line(child) or is_bullet(child) for child in node.children)
    )


def _is_one_line(node: Node) -> bool:
    return node.kind == "text" and len(node.lines) == 1


def _is_line(node: Node) -> bool:
    return node.kind == "rule" and node.box_px.width > node.box_px.height


def _table_of_run(run: Sequence[Node]) -> list[Node]:
    """Return a run as a table with the nodes after its last row; unchanged if it is not a table."""
    last = max((place for place, node in enumerate(run) if node.kind != "text"), default=-1)
    head, rest = run[: last + 1], list(run[last + 1 :])
    if not any(map(_is_line, head)) or any(node.look != PLAIN for node in head):
        return list(run)
    parts = [part for node in head for part in (node.children if node.kind == "row" else (node,))]
    table = find_table(parts)
    return [table, *rest] if table is not None else list(run)


# ------------------------------------------------------------------ striped rows


def group_stripes(nodes: Sequence[Node]) -> list[Node]:
    """Group painted rows of text of one width, and bare ones between and below them, into tables."""
    frames = [node for node in nodes if _is_stripe(node)]
    groups: dict[tuple[int, int], list[Node]] = {}
    for frame in frames:
        left, right = frame.box_px.left, frame.box_px.right
        spans = (span for span in groups if max(abs(span[0] - left), abs(span[1] - right)) <= SAME_EDGE_PX)
        groups.setdefault(next(spans, (left, right)), []).append(frame)
    kept = list(nodes)
    for group in groups.values():
        table_and_members = _stripe_table(sorted(group, key=lambda node: node.box_px.top), kept)
        if table_and_members is not None:
            table, members = table_and_members
            kept = [*(node for node in kept if id(node) not in members), table]
    return kept


def _is_stripe(node: Node) -> bool:
    return node.look.fill is not None and node.look.border is None and not node.look.radius_px and _is_text_row(node)


def _stripe_table(frames: Sequence[Node], nodes: Sequence[Node]) -> tuple[Node, set[int]] | None:
    """Return the table of painted rows, and the ids of the nodes that it replaces."""
    height = sorted(frame.box_px.height for frame in frames)[len(frames) // 2]
    left, right = frames[0].box_px.left - SAME_EDGE_PX, frames[0].box_px.right + SAME_EDGE_PX
    top = frames[0].box_px.top
    within = [node for node in nodes if left <= node.box_px.left and node.box_px.right <= right]
    loose = [node for node in within if (_is_one_line(node) or _is_line(node)) and node.box_px.top >= top]
    head = [node for node in within if _is_one_line(node) and top - _MAX_HEAD * height <= node.box_px.top]
    head = [node for node in head if node.box_px.bottom <= top + SAME_EDGE_PX]
    taken: list[Node] = []
    end = frames[0].box_px.bottom
    for node in sorted([*frames[1:], *loose], key=lambda node: node.box_px.top):
        if node.box_px.top - end > _MAX_STRIPE_GAP * height:
            break
        end = max(end, node.box_px.bottom)
        taken.append(node)
    members = [*(head if len(head) > 1 and len(split(head, core, 0)) == 1 else ()), frames[0], *taken]
    table = find_table([part for node in members for part in (node.children if _is_stripe(node) else (node,))])
    if table is None:
        return None
    fills = _row_fills(table, [node for node in members if _is_stripe(node)])
    if fills is None:
        return None
    box = Box(frames[0].box_px.left, fills[0][1], frames[0].box_px.right, fills[-1][2])
    return replace(table, box_px=box, row_fills=fills), {id(node) for node in members}


def _row_fills(table: Node, frames: Sequence[Node]) -> tuple[tuple[Rgb | None, int, int], ...] | None:
    """Return the fill and extent of each row; None if a frame does not hold exactly one row."""
    count = len(table.columns)
    rows = [union([cell for cell in table.children[at : at + count] if cell.lines])
            for at in range(0, len(table.children), count)]  # fmt: skip
    painted: list[Node | None] = []
    for row in rows:
        over = [frame for frame in frames if frame.box_px.top <= row.center[1] < frame.box_px.bottom]
        painted.append(over[0] if len(over) == 1 else None)
    if len({id(frame) for frame in painted if frame is not None}) < len(frames):
        return None
    usual = sorted(low.top - high.top for high, low in itertools.pairwise(rows))[(len(rows) - 1) // 2]
    fills: list[tuple[Rgb | None, int, int]] = []
    for place, frame in enumerate(painted):
        after = painted[place + 1] if place + 1 < len(painted) else None
        start = fills[-1][2] if fills else rows[0].top
        if frame is not None:
            fills.append((frame.look.fill, frame.box_px.top, frame.box_px.bottom))
        else:
            fills.append((None, start, after.box_px.top if after is not None else start + usual))
    return tuple(fills)


# ------------------------------------------------------------------ framed cells


def group_cells(nodes: Sequence[Node]) -> list[Node]:
    """Group frames that touch in at least two rows and two columns into the cells of a table."""
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


def _do_touch(box: Box, other: Box) -> bool:
    return box.overlap_x(other) >= -_TOUCH_PX and box.overlap_y(other) >= -_TOUCH_PX


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
    """Return the distinct values, nearly equal ones merged."""
    edges: list[int] = []
    for value in sorted(values):
        if not edges or value - edges[-1] > SAME_EDGE_PX:
            edges.append(value)
    return edges


def build_tree(pieces: PagePieces) -> Node:
    """Build the tree of a page; its root is a column of the page's size."""
    width, height = pieces.size_px
    page = Box(0, 0, width, height)
    frames = sorted(pieces.frames, key=lambda frame: -frame.box_px.area)
    parents: list[int | None] = []
    for index, frame in enumerate(frames):
        around = [other for other in range(index) if frames[other].box_px.contains(frame.box_px, slack_px=2)]
        parents.append(max(around, default=None))
    inside: dict[int | None, list[Primitive]] = {}
    for leaf in pieces.leaves:
        x, y = leaf.box_px.center
        holding = [index for index, frame in enumerate(frames) if frame.box_px.has_point(x, y)]
        holding = [index for index in holding if leaf.kind == "text" or frames[index].box_px.area > leaf.box_px.area]
        inside.setdefault(max(holding, default=None), []).append(leaf)

    def make(index: int | None, depth: int) -> Node:
        look = frames[index].look if index is not None else BoxStyle(fill=pieces.background, gradient=pieces.gradient)
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


def _leaf(piece: Primitive) -> Node:
    if piece.kind == "text":
        return Node(kind="text", box_px=piece.box_px, lines=(piece,))
    kind: NodeKind = "image" if piece.kind == "image" else "rule" if piece.kind == "rule" else "toggle"
    return Node(kind=kind, box_px=piece.box_px, piece=piece)


def arrange(nodes: Sequence[Node], depth: int = 0) -> Node:
    """Arrange nodes in rows and columns along the gaps between them."""
    if len(nodes) == 1:
        return nodes[0]
    table = find_table(nodes)
    if table is not None:
        return table
    rows = split(nodes, lambda node: core(node), 0)
    columns = split(nodes, lambda node: (node.box_px.left, node.box_px.right), MIN_COLUMN_GAP_PX)
    if len(rows) == 1 and _is_line_with_code(nodes):
        return _make_row(sorted(nodes, key=lambda node: node.box_px.left))
    if depth > _MAX_DEPTH or (len(rows) == 1 and len(columns) == 1):
        return _stack(nodes, depth)
    if len(columns) > 1 and (len(rows) == 1 or _is_columns_first(rows, columns)):
        return _make_row([arrange(column, depth + 1) for column in columns])
    return _make_column([arrange(row, depth + 1) for row in rows])


def _is_line_with_code(nodes: Sequence[Node]) -> bool:
    """Return whether nodes are parts of one line with inline code, which may touch."""
    if not any(map(is_code, nodes)) or not all(_is_one_line(node) or is_code(node) for node in nodes):
        return False
    ordered = sorted((node.box_px for node in nodes), key=lambda box: box.left)
    return all(left.overlap_x(right) <= MIN_COLUMN_GAP_PX for left, right in itertools.pairwise(ordered))


def _is_columns_first(rows: Sequence[Sequence[Node]], columns: Sequence[Sequence[Node]]) -> bool:
    if all(map(is_mark, columns[0])) and len(columns[0]) <= len(rows):
        return False
    above = [union(line) for line in rows]
    beside = [union(line) for line in columns]
    row_gap = max(low.top - high.bottom for high, low in itertools.pairwise(above))
    column_gap = max(right.left - left.right for left, right in itertools.pairwise(beside))
    return column_gap > _COLUMNS_FIRST * max(row_gap, 1)


def _stack(nodes: Sequence[Node], depth: int) -> Node:
    """Arrange overlapping nodes: on the largest one if it holds the others, else each at its own position."""
    largest = max(nodes, key=lambda node: node.box_px.area)
    others = [node for node in nodes if node is not largest]
    if all(largest.box_px.contains(node.box_px, slack_px=4) for node in others) and depth <= _MAX_DEPTH:
        return Node(kind="stack", box_px=largest.box_px, children=(largest, arrange(others, depth + 1)))
    ordered = sorted(nodes, key=lambda node: (node.kind == "text", -node.box_px.area))  # text is never covered
    return Node(kind="stack", box_px=union(nodes), children=tuple(ordered))


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
    """Merge consecutive lines into paragraphs."""
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
    """Append a line to a paragraph if it has the same font and would not have fitted on the line above."""
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
    """Merge rows whose children have the same columns into a grid."""
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
    if above.look != PLAIN or above.kind not in ("row", "grid") or is_item(row) or is_inline(row):
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
    """Return a width at which a paragraph breaks as it does on the image, and whether such a width exists."""
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
