"""Tables as HTML."""

import itertools
from collections.abc import Callable, Iterable
from html import escape

from apps.video2web.layout.pieces import Piece
from apps.video2web.layout.roles import is_bold, only_text
from apps.video2web.layout.styles import Style, StyleSheet, css_px, font_style, line_at, look_style
from apps.video2web.layout.tree import Node, union


def write_table(node: Node, sheet: StyleSheet, body: Piece | None, margins: Style) -> str:
    """Lines of text in rows and columns, as a table."""
    edges = [left for left, _ in node.columns]
    edges.append(node.box_px.right)
    columns = "".join(f'<col style="width: {css_px(right - left)}">' for left, right in itertools.pairwise(edges))
    count = len(node.columns)
    rows = [node.children[start : start + count] for start in range(0, len(node.children), count)]
    boxes = [union([cell for cell in row if cell.lines] or row) for row in rows]
    lines = []
    for number, row in enumerate(rows):
        end = boxes[number + 1].top if number + 1 < len(rows) else max(node.box_px.bottom, boxes[number].bottom)
        rule = next((rule for rule in node.rules if boxes[number].bottom - 4 <= rule.box_px.top <= end), None)
        style: Style = {"height": css_px(end - boxes[number].top)}
        if rule is not None:
            style["background"] = line_at(rule, boxes[number].top)
        cells = []
        for cell, (left, right) in zip(row, node.columns, strict=True):
            is_right = cell.box_px.left - left > 4 and abs(cell.box_px.right - right) <= 3
            inside: Style = {"text-align": "right", "padding-right": css_px(edges[1] - right)} if is_right else {}
            if is_right:
                number_of = node.columns.index((left, right))
                inside["padding-right"] = css_px(max(edges[number_of + 1] - right, 0))
            elif cell.box_px.left > left and cell.lines:
                inside["padding-left"] = css_px(cell.box_px.left - left)
            text = "".join(escape(line.text) for line in cell.lines)
            font = font_style(cell.lines[0], body) if cell.lines else {}
            tag = "th" if number == 0 and cell.lines and is_bold(cell.lines[0]) else "td"
            if tag == "th":
                inside.setdefault("text-align", "left")
            cells.append(sheet.tag(tag, "cell", {**font, **inside, "white-space": "nowrap"}, text, inline=True))
        lines.append(sheet.tag("tr", "line", style, "\n".join(cells)))
    first = boxes[0].top - node.box_px.top
    style = {"width": css_px(node.box_px.width)} | look_style(node.look) | margins
    if first:
        style["margin-top"] = css_px(first + int(float(style.get("margin-top", "0px")[:-2])))
    inner = f"<colgroup>{columns}</colgroup>\n" + "\n".join(lines)
    return sheet.tag("table", "table", style, inner)


def write_cells(
    node: Node, sheet: StyleSheet, body: Piece | None, margins: Style, write: Callable[[Node], Iterable[str]]
) -> str:
    """Framed cells as a table; `write` gives what is in a cell that holds more than a line."""
    count, lines = len(node.columns), []
    widths = "".join(f'<col style="width: {css_px(right - left)}">' for left, right in node.columns)
    for start in range(0, len(node.children), count):
        cells = []
        for cell in node.children[start : start + count]:
            style: Style = look_style(cell.look) | {"height": css_px(cell.box_px.height - cell.look.border_px)}
            text = only_text(cell)
            inner = "\n".join(write(cell))
            if cell.children:
                content, border = union(cell.children), cell.look.border_px
                above, beside = content.top - cell.box_px.top, content.left - cell.box_px.left
                style["padding"] = f"{css_px(max(above - border, 0))} 0 0 {css_px(max(beside - border, 0))}"
            if text is not None and len(text.lines) == 1:
                style |= font_style(text.lines[0], body) | {"white-space": "nowrap"}
                inner = escape(text.lines[0].text)
            is_head = not start and text is not None and is_bold(text.lines[0])
            style |= {"text-align": "left"} if is_head else {}
            cells.append(sheet.tag("th" if is_head else "td", "cell", style, inner, inline="\n" not in inner))
        lines.append(sheet.tag("tr", "line", {}, "\n".join(cells)))
    style = {"width": css_px(node.box_px.width)} | margins
    return sheet.tag("table", "table", style, f"<colgroup>{widths}</colgroup>\n" + "\n".join(lines))
