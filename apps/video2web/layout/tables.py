"""HTML tables from lines of text in rows and columns, and from framed cells."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from apps.video2web.layout.gradients import Rgb
from apps.video2web.layout.nodes import Node, union
from apps.video2web.layout.primitives import Primitive
from apps.video2web.layout.roles import is_bold, only_text
from apps.video2web.layout.styles import Style, StyleSheet, add_margin, box_style, css_color, css_px, font_style


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Row of a table: its vertical extent, its fill, the rule at its end."""

    cells: Sequence[Node]
    start: int
    end: int
    fill: Rgb | None = None
    rule: Primitive | None = None


def write_table(
    node: Node, sheet: StyleSheet, body: Primitive | None, margins: Style, write: Callable[[Node], str]
) -> str:
    """Write lines of text in rows and columns as a table; `write` writes a mark."""
    box = node.box_px
    pad = max(node.columns[0][0] - box.left, 0)
    edges = [box.left]
    for (_, right), (left, _) in itertools.pairwise(node.columns):
        edges.append(max(right, left - pad))
    edges.append(box.right)
    rows = list(_rows_of(node))
    columns = "".join(f'<col style="width: {css_px(right - left)}">' for left, right in itertools.pairwise(edges))
    lines = []
    for number, row in enumerate(rows):
        cells = [
            _write_cell(cell, span, (edges[at], edges[at + 1]), row, sheet, body, write, is_head=number == 0)
            for at, (cell, span) in enumerate(zip(row.cells, node.columns, strict=True))
        ]
        painted: Style = {"background": css_color(row.fill)} if row.fill is not None else {}
        lines.append(sheet.tag("tr", "line", painted, "\n".join(cells)))
    style: Style = {"width": css_px(box.width), "border-collapse": "separate", "border-spacing": "0"}
    style |= box_style(node.look) | margins
    add_margin(style, "margin-top", rows[0].start - box.top)
    return sheet.tag("table", "table", style, f"<colgroup>{columns}</colgroup>\n" + "\n".join(lines))


def _rows_of(node: Node) -> Iterator[_Row]:
    """Yield the rows of a table of text; a row ends at its rule, or where the next row begins."""
    count = len(node.columns)
    rows = [node.children[start : start + count] for start in range(0, len(node.children), count)]
    boxes = [union([cell for cell in row if cell.lines] or row) for row in rows]
    lines = sorted(
        (rule for rule in node.rules if rule.box_px.width > rule.box_px.height), key=lambda rule: rule.box_px
    )
    above = [rule.box_px.bottom for rule in lines if node.box_px.top <= rule.box_px.top < boxes[0].top]
    start = max(above, default=boxes[0].top)
    for number, (row, box) in enumerate(zip(rows, boxes, strict=True)):
        next_top = boxes[number + 1].top if number + 1 < len(rows) else max(node.box_px.bottom, box.bottom)
        rule = next((line for line in lines if box.bottom - 4 <= line.box_px.top <= next_top), None)
        if node.row_fills:
            fill, start, end = node.row_fills[number]
            yield _Row(cells=row, start=start, end=end, fill=fill, rule=rule)
            continue
        end = rule.box_px.bottom if rule is not None else next_top
        yield _Row(cells=row, start=start, end=end, rule=rule)
        start = end


def _write_cell(
    cell: Node, span: tuple[int, int], edges: tuple[int, int], row: _Row, sheet: StyleSheet, body: Primitive | None,
    write: Callable[[Node], str], *, is_head: bool,
) -> str:  # fmt: skip
    style: Style = {"height": css_px(row.end - row.start)}
    if row.rule is not None:
        style["border-bottom"] = f"{row.rule.box_px.height}px solid {css_color(row.rule.rgb)}"
    box = cell.box_px
    if not cell.lines:
        if cell.kind == "image":
            style["padding"] = f"{css_px(max(box.top - row.start, 0))} 0 0 {css_px(max(box.left - edges[0], 0))}"
        return sheet.tag("td", "cell", style, write(cell) if cell.kind == "image" else "", inline=True)
    line = cell.lines[0]
    is_right = box.left - span[0] > 4 and abs(box.right - span[1]) <= 3
    style |= font_style(line, body) | {"white-space": "nowrap"}
    style["padding"] = f"{css_px(max(box.top - row.start, 0))} 0 0"
    if is_right:
        style |= {"text-align": "right", "padding-right": css_px(max(edges[1] - box.right, 0))}
    else:
        style |= {"text-align": "left", "padding-left": css_px(max(box.left - edges[0], 0))}
    tag = "th" if is_head and is_bold(line) else "td"
    return sheet.tag(tag, "cell", style, "".join(map(sheet.line, cell.lines)), inline=True)


def write_cells(
    node: Node, sheet: StyleSheet, body: Primitive | None, margins: Style, write: Callable[[Node], Iterable[str]]
) -> str:
    """Write framed cells as a table; `write` writes the content of a cell that holds more than a line."""
    count, lines = len(node.columns), []
    widths = "".join(f'<col style="width: {css_px(right - left)}">' for left, right in node.columns)
    for start in range(0, len(node.children), count):
        cells = []
        for cell in node.children[start : start + count]:
            style: Style = box_style(cell.look) | {"height": css_px(cell.box_px.height - cell.look.border_px)}
            text = only_text(cell)
            inner = "\n".join(write(cell))
            if cell.children:
                content, border = union(cell.children), cell.look.border_px
                above, beside = content.top - cell.box_px.top, content.left - cell.box_px.left
                style["padding"] = f"{css_px(max(above - border, 0))} 0 0 {css_px(max(beside - border, 0))}"
            if text is not None and len(text.lines) == 1:
                style |= font_style(text.lines[0], body) | {"white-space": "nowrap"}
                inner = sheet.line(text.lines[0])
            is_head = not start and text is not None and is_bold(text.lines[0])
            style |= {"text-align": "left"} if is_head else {}
            cells.append(sheet.tag("th" if is_head else "td", "cell", style, inner, inline="\n" not in inner))
        lines.append(sheet.tag("tr", "line", {}, "\n".join(cells)))
    style = {"width": css_px(node.box_px.width)} | margins
    return sheet.tag("table", "table", style, f"<colgroup>{widths}</colgroup>\n" + "\n".join(lines))
