"""Tables among the parts of a page: lines of text in rows and columns, striped rows, framed cells."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from apps.video2web.layout.nodes import MIN_COLUMN_GAP_PX, SAME_EDGE_PX, Node, core, split, union
from apps.video2web.layout.pieces import PLAIN
from apps.video2web.layout.shades import Rgb
from visual_tools.box import Box

_MIN_ROWS, _MIN_CELLS = 3, 0.6
_TOUCH_PX = 1
_MAX_HEAD = 1.2  # of a row's height, how far above the first painted row the heads may begin
_MAX_STRIPE_GAP = 1.6  # of a row's height, from one row to the text of the next


def find_table(nodes: Sequence[Node]) -> Node | None:
    """Lines of text in at least three rows and two columns, with or without rules between the rows."""
    texts = [node for node in nodes if node.kind != "rule"]
    rules = [node for node in nodes if node.kind == "rule"]
    if any(node.kind != "text" or len(node.lines) != 1 for node in texts) or len(texts) < 2 * _MIN_ROWS:
        return None
    rows = split(texts, core, 0)
    columns = split(texts, lambda node: (node.box_px.left, node.box_px.right), MIN_COLUMN_GAP_PX)
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


def join_ruled_rows(nodes: Sequence[Node]) -> list[Node]:
    """Rows of text below each other with lines between them become a table."""
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
    return node.kind == "row" and len(node.children) >= 2 and all(map(_is_one_line, node.children))


def _is_one_line(node: Node) -> bool:
    return node.kind == "text" and len(node.lines) == 1


def _is_line(node: Node) -> bool:
    return node.kind == "rule" and node.box_px.width > node.box_px.height


def _table_of_run(run: Sequence[Node]) -> list[Node]:
    """A run as a table, with what follows the last row of it; as it was where it is none."""
    last = max((place for place, node in enumerate(run) if node.kind != "text"), default=-1)
    head, rest = run[: last + 1], list(run[last + 1 :])
    if not any(map(_is_line, head)) or any(node.look != PLAIN for node in head):
        return list(run)
    parts = [part for node in head for part in (node.children if node.kind == "row" else (node,))]
    table = find_table(parts)
    return [table, *rest] if table is not None else list(run)


# ------------------------------------------------------------------ striped rows


def group_stripes(nodes: Sequence[Node]) -> list[Node]:
    """Painted rows of text of one width, and bare ones between and below them, are a table."""
    frames = [node for node in nodes if _is_stripe(node)]
    groups: dict[tuple[int, int], list[Node]] = {}
    for frame in frames:
        near = next((key for key in groups if _is_same_span(key, frame.box_px)), None)
        groups.setdefault(near or (frame.box_px.left, frame.box_px.right), []).append(frame)
    kept = list(nodes)
    for group in groups.values():
        found = _stripe_table(sorted(group, key=lambda node: node.box_px.top), kept)
        if found is not None:
            table, members = found
            kept = [*(node for node in kept if id(node) not in members), table]
    return kept


def _is_stripe(node: Node) -> bool:
    return node.look.fill is not None and node.look.border is None and not node.look.radius_px and _is_text_row(node)


def _is_same_span(span: tuple[int, int], box: Box) -> bool:
    return abs(span[0] - box.left) <= SAME_EDGE_PX and abs(span[1] - box.right) <= SAME_EDGE_PX


def _stripe_table(frames: Sequence[Node], nodes: Sequence[Node]) -> tuple[Node, set[int]] | None:
    """The table of painted rows, and the ids of the nodes that it takes the place of."""
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
    """What each row is painted with, from where to where; None where a frame holds another number of rows than one."""
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
        if not found or value - found[-1] > SAME_EDGE_PX:
            found.append(value)
    return found
