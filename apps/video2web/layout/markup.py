"""HTML and CSS from a tree of rows and columns: flow, flex and grid, with semantic elements."""

import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from PIL import Image

from apps.video2web.layout.gradients import Rgb
from apps.video2web.layout.nodes import Node, union
from apps.video2web.layout.primitives import PLAIN, Primitive
from apps.video2web.layout.roles import (
    MAX_LINK_CHARS,
    heading_key,
    heading_sizes,
    is_bold,
    is_button,
    is_field,
    is_nav,
    is_quote,
    only_text,
    usual_text,
    walk,
)
from apps.video2web.layout.styles import (
    Style,
    StyleSheet,
    add_margin,
    box_style,
    css_background,
    css_color,
    css_px,
    font_style,
    indent,
)
from apps.video2web.layout.tree import flow_width
from apps.video2web.pixels import RgbImage

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_EVEN_PX = 2
_MAX_HEADER_PX = 160
_PAGE_HEAD = '<!doctype html>\n<html lang="{lang}">\n<head>\n<meta charset="utf-8">\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Row of a table: its vertical extent, its fill, the rule at its end."""

    cells: Sequence[Node]
    start: int
    end: int
    fill: Rgb | None = None
    rule: Primitive | None = None


def write_table(node: Node, sheet: StyleSheet, body: Primitive | None, margins: Style) -> str:
    """Write lines of text in rows and columns as a table."""
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
            _write_cell(cell, span, (edges[at], edges[at + 1]), row, sheet, body, is_head=number == 0)
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
    *, is_head: bool,
) -> str:  # fmt: skip
    style: Style = {"height": css_px(row.end - row.start)}
    if row.rule is not None:
        style["border-bottom"] = f"{row.rule.box_px.height}px solid {css_color(row.rule.rgb)}"
    if not cell.lines:
        return sheet.tag("td", "cell", style, "", inline=True)
    box, line = cell.box_px, cell.lines[0]
    is_right = box.left - span[0] > 4 and abs(box.right - span[1]) <= 3
    style |= font_style(line, body) | {"white-space": "nowrap"}
    style["padding"] = f"{css_px(max(box.top - row.start, 0))} 0 0"
    if is_right:
        style |= {"text-align": "right", "padding-right": css_px(max(edges[1] - box.right, 0))}
    else:
        style |= {"text-align": "left", "padding-left": css_px(max(box.left - edges[0], 0))}
    tag = "th" if is_head and is_bold(line) else "td"
    return sheet.tag(tag, "cell", style, "".join(escape(text_line.text) for text_line in cell.lines), inline=True)


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
                inner = escape(text.lines[0].text)
            is_head = not start and text is not None and is_bold(text.lines[0])
            style |= {"text-align": "left"} if is_head else {}
            cells.append(sheet.tag("th" if is_head else "td", "cell", style, inner, inline="\n" not in inner))
        lines.append(sheet.tag("tr", "line", {}, "\n".join(cells)))
    style = {"width": css_px(node.box_px.width)} | margins
    return sheet.tag("table", "table", style, f"<colgroup>{widths}</colgroup>\n" + "\n".join(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Markup:
    """Generated page as files.

    Attributes:
        html: `index.html`.
        css: `style.css`.
        images: Images (H, W, 3) by file name, relative to the page.
    """

    html: str
    css: str
    images: Mapping[str, RgbImage]

    def files(self, page: str = "") -> dict[str, bytes]:
        """Return the files by name; those of a further page of a site are named after it."""
        html = self.html
        if page:
            html = html.replace('href="style.css"', f'href="{page}.css"').replace(
                'src="images/', f'src="images/{page}-'
            )
        files = {f"{page or 'index'}.html": html.encode(), f"{page or 'style'}.css": self.css.encode()}
        for name, pixels in self.images.items():
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "PNG")
            files[name.replace("images/", f"images/{page}-") if page else name] = buffer.getvalue()
        return files


def write_markup(tree: Node, image: RgbImage) -> Markup:
    """Write a tree as a page.

    Args:
        tree: Result of `build_tree`.
        image: Image of the page, (H, W, 3), from which images are cropped.
    """
    return _Writer(tree, image).write()


@dataclass(slots=True)
class _Place:
    """Context of a node given by its parent."""

    style: Style = field(default_factory=dict)
    section: str = ""
    in_row: bool = False
    is_last: bool = False


class _Writer:
    def __init__(self, tree: Node, image: RgbImage) -> None:
        self._tree, self._image = tree, image
        self._sheet = StyleSheet()
        self._images: dict[str, RgbImage] = {}
        texts = [line for node in walk(tree) for line in node.lines]
        self._body = usual_text(texts)
        self._headings = heading_sizes(texts, self._body)
        self._num_h1 = 0
        self._title = ""

    def write(self) -> Markup:
        tree = self._tree
        background = css_background(tree.look.fill or (255, 255, 255), tree.look.gradient)
        body: Style = {"margin": "0", "background": background}
        body |= {"min-height": css_px(tree.box_px.height), "display": "flow-root"}
        if self._body is not None and self._body.font is not None:
            body |= {"color": css_color(self._body.rgb), "font-family": self._body.font.face.css_family}
            body |= {"font-size": css_px(self._body.font.size_px), "line-height": "1.2"}
        parts = list(self._column(tree, is_page=True)) if tree.kind == "column" else [self._node(tree, _Place())]
        shown = escape(self._title or "Page")
        html = (
            _PAGE_HEAD.format(lang="en")
            + '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            + f'<title>{shown}</title>\n<link rel="stylesheet" href="style.css">\n</head>\n<body>\n'
            + indent("\n".join(parts))
            + "\n</body>\n</html>\n"
        )
        return Markup(html=html, css=self._sheet.text(body), images=self._images)

    # -------------------------------------------------------------- nodes

    def _node(self, node: Node, place: _Place) -> str:
        match node.kind:
            case "text":
                return self._text(node, place)
            case "image":
                return self._image_tag(node, place)
            case "rule":
                style = {"border": "0", "background": css_color(node.piece.rgb if node.piece else (200, 200, 200))}
                style |= {"height": css_px(node.box_px.height), "width": css_px(node.box_px.width), "margin": "0"}
                return self._sheet.tag("hr", "rule", {**style, **place.style}, None)
            case "toggle":
                return self._toggle(node, place)
            case _ if is_field(node):
                return self._field(node, place)
            case _ if is_button(node):
                return self._button(node, place)
            case "table":
                return write_table(node, self._sheet, self._body, place.style)
            case "cells":
                return write_cells(node, self._sheet, self._body, place.style, self._column)
            case "stack":
                return self._stack(node, place)
            case "grid":
                return self._grid(node, place)
            case "row":
                return self._row(node, place)
            case _:
                return self._frame(node, place)

    def _frame(self, node: Node, place: _Place) -> str:
        style = self._box_style(node) | place.style
        inner = "\n".join(self._column(node))
        return self._sheet.tag(
            _section_tag(place), place.section or ("card" if node.look != PLAIN else "group"), style, inner
        )

    def _box_style(self, node: Node) -> Style:
        style = box_style(node.look)
        style["width"] = css_px(node.box_px.width)
        if node.children:
            inner, outer, border = union(node.children), node.box_px, node.look.border_px
            sides = [
                inner.top - outer.top,
                outer.right - inner.right,
                outer.bottom - inner.bottom,
                inner.left - outer.left,
            ]
            if node.look != PLAIN:
                style["padding"] = " ".join(css_px(max(side - border, 0)) for side in sides)
                style["min-height"] = css_px(outer.height)
        elif node.look != PLAIN:
            style["height"] = css_px(node.box_px.height)
        return style

    def _column(self, node: Node, *, is_page: bool = False) -> Iterator[str]:
        """Write children below each other; offsets from the left edge and gaps become margins."""
        if not node.children:
            return
        inner = union(node.children)
        left = 0 if is_page else inner.left
        above = 0 if is_page else inner.top
        middle = node.box_px.center[0]
        for number, child in enumerate(node.children):
            box = child.box_px
            style: Style = {}
            if box.top != above:
                style["margin-top"] = css_px(box.top - above)
            is_middle = abs(box.center[0] - middle) <= _EVEN_PX and box.left - node.box_px.left > 8
            if is_page and is_middle and box.width < node.box_px.width:
                style |= {"margin-left": "auto", "margin-right": "auto"}
            elif box.left != left:
                style["margin-left"] = css_px(box.left - left)
            above = box.bottom
            section = self._section(child, number, len(node.children)) if is_page else ""
            yield self._node(child, _Place(style=style, section=section))

    def _section(self, child: Node, number: int, count: int) -> str:
        height = self._tree.box_px.height
        if child.kind in ("text", "image", "rule", "toggle"):
            return ""
        if number == 0 and child.box_px.top <= 8 and child.box_px.height <= _MAX_HEADER_PX:
            return "header"
        if number == count - 1 and count > 1 and child.box_px.bottom > 0.7 * height and child.look != PLAIN:
            return "footer"
        return "section"

    def _quote(self, node: Node, place: _Place) -> str:
        """Write a row with a vertical line at its left; the line becomes its border."""
        bar, rest = node.children[0], node.children[1:]
        piece, box = bar.piece, bar.box_px
        inside = rest[0] if len(rest) == 1 else Node(kind="row", box_px=union(rest), children=rest)
        above, beside = inside.box_px.top - box.top, inside.box_px.left - box.right
        style: Style = {"width": css_px(node.box_px.width), "min-height": css_px(box.height), "margin": "0"}
        style["border-left"] = f"{box.width}px solid {css_color(piece.rgb if piece else (200, 200, 200))}"
        style["padding"] = f"{css_px(max(above, 0))} 0 0 {css_px(max(beside, 0))}"
        tag = "blockquote" if inside.kind == "text" else "div"
        return self._sheet.tag(tag, "quote", style | place.style, self._node(inside, _Place()))

    def _row(self, node: Node, place: _Place) -> str:
        if is_quote(node):
            return self._quote(node, place)
        style: Style = {"display": "flex", "align-items": "flex-start"} | self._box_style(node) | place.style
        inner = union(node.children)
        gaps = [
            right.box_px.left - left.box_px.right for left, right in zip(node.children, node.children[1:], strict=False)
        ]
        is_even = max(gaps) - min(gaps) <= _EVEN_PX if gaps else True
        tops = [child.box_px.top - inner.top for child in node.children]
        centers = [child.box_px.center[1] for child in node.children]
        if max(centers) - min(centers) <= 1:
            style["align-items"] = "center"
            tops = [0] * len(tops)
        if is_even and gaps and gaps[0] > 0:
            style["gap"] = css_px(round(sum(gaps) / len(gaps)))
        parts = []
        right = inner.left
        for child, top in zip(node.children, tops, strict=True):
            inside: Style = {"flex": "none"}
            if top:
                inside["margin-top"] = css_px(top)
            if not is_even and child.box_px.left != right:
                inside["margin-left"] = css_px(child.box_px.left - right)
            if child.kind == "text":
                inside["width"] = css_px(child.box_px.width)
            right = child.box_px.right
            parts.append(self._node(child, _Place(style=inside, section="link" if is_nav(node) else "", in_row=True)))
        is_menu = is_nav(node) and (place.section != "header" or len(node.children) > 2)
        if place.section == "header" and not is_menu:
            return self._sheet.tag("header", "header", style, "\n".join(parts))
        name = place.section or ("nav" if is_menu else "row")
        tag = "nav" if is_menu and not place.section else _section_tag(place)
        return self._sheet.tag(tag, name, style, "\n".join(parts))

    def _grid(self, node: Node, place: _Place) -> str:
        widths = [right - left for left, right in node.columns]
        gaps = [right[0] - left[1] for left, right in zip(node.columns, node.columns[1:], strict=False)]
        rows = [node.children[start : start + len(widths)] for start in range(0, len(node.children), len(widths))]
        boxes = [union(row) for row in rows]
        row_gaps = [low.top - high.bottom for high, low in itertools.pairwise(boxes)]
        gap = min(gaps) if gaps else 0
        tracks = [width + (gaps[number] - gap if number < len(gaps) else 0) for number, width in enumerate(widths)]
        template = (
            f"repeat({len(tracks)}, {css_px(tracks[0])})" if len(set(tracks)) == 1 else " ".join(map(css_px, tracks))
        )
        style: Style = {"display": "grid", "grid-template-columns": template, "align-items": "start"}
        row_gap = min(row_gaps) if row_gaps else 0
        style |= {"gap": f"{css_px(max(row_gap, 0))} {css_px(max(gap, 0))}"} | self._box_style(node) | place.style
        parts = []
        for number, row in enumerate(rows):
            for child, (left, _) in zip(row, node.columns, strict=False):
                inside: Style = {}
                top = child.box_px.top - boxes[number].top + (max(row_gaps[number - 1] - row_gap, 0) if number else 0)
                if top:
                    inside["margin-top"] = css_px(top)
                if child.box_px.left - left:
                    inside["margin-left"] = css_px(child.box_px.left - left)
                parts.append(self._node(child, _Place(style=inside)))
        return self._sheet.tag(_section_tag(place), place.section or "grid", style, "\n".join(parts))

    def _stack(self, node: Node, place: _Place) -> str:
        box = node.box_px
        style: Style = {"position": "relative", "width": css_px(box.width), "height": css_px(box.height)} | place.style
        parts = []
        for child in node.children:
            inside = {"position": "absolute", "left": css_px(child.box_px.left - box.left)}
            inside["top"] = css_px(child.box_px.top - box.top)
            parts.append(self._node(child, _Place(style=inside | {"margin": "0"})))
        return self._sheet.tag(_section_tag(place), place.section or "stack", style, "\n".join(parts))

    # -------------------------------------------------------------- leaves

    def _text(self, node: Node, place: _Place) -> str:
        first = node.lines[0]
        style = font_style(first, self._body)
        if len(node.lines) > 1:
            pitch = (node.lines[-1].box_px.top - first.box_px.top) / (len(node.lines) - 1)
            style["line-height"] = css_px(round(pitch, 1))
            shift = round((pitch - first.box_px.height) / 2)
            add_margin(place.style, "margin-top", -shift)
            add_margin(place.style, "margin-bottom", -shift)
            width, can_flow = flow_width(node)
            text = (" " if can_flow else "<br>").join(escape(line.text) for line in node.lines)
            style["width"] = css_px(width)
            if not can_flow:
                style["white-space"] = "nowrap"
            if node.is_centered:
                style["text-align"] = "center"
                left, extra = place.style.get("margin-left"), round((width - node.box_px.width) / 2)
                if left != "auto" and extra and not place.in_row:
                    add_margin(place.style, "margin-left", -extra)
        else:
            text = escape(first.text)
            style["white-space"] = "nowrap"
            if place.style.get("margin-left") == "auto":
                style["width"] = "fit-content"
        tag, name = self._text_tag(node, place)
        if not self._title and tag == "h1":
            self._title = " ".join(line.text for line in node.lines)[:120]
        return self._sheet.tag(tag, name, style | place.style, text, inline=True)

    def _text_tag(self, node: Node, place: _Place) -> tuple[str, str]:
        first = node.lines[0]
        if place.section == "link" and len(first.text) <= MAX_LINK_CHARS and first.font is not None:
            return 'a href="#"', "link"
        level = self._headings.get(heading_key(first))
        if level is not None and sum(len(line.text) for line in node.lines) <= 160:
            if level == 1 and self._num_h1:
                level = 2
            self._num_h1 += level == 1
            return f"h{level}", f"title-{level}"
        return ("span", "label") if place.in_row else ("p", "text")

    def _image_tag(self, node: Node, place: _Place) -> str:
        box = node.box_px.clipped(self._image.shape[1], self._image.shape[0])
        name = f"images/image-{len(self._images) + 1}.png"
        self._images[name] = self._image[box.slices]
        style = {"width": css_px(box.width), "height": css_px(box.height)} | place.style
        return self._sheet.tag(f'img src="{name}" alt=""', "image", style, None)

    def _toggle(self, node: Node, place: _Place) -> str:
        piece = node.piece
        kind = "radio" if piece is not None and piece.toggle == "radio" else "checkbox"
        checked = " checked" if piece is not None and piece.is_on else ""
        style = {"width": css_px(node.box_px.width), "height": css_px(node.box_px.height), "margin": "0"} | place.style
        return self._sheet.tag(
            f'input type="{kind}" aria-label="{kind}"{checked}', "toggle", _block(place) | style, None
        )

    def _field(self, node: Node, place: _Place) -> str:
        style = box_style(node.look) | {"width": css_px(node.box_px.width), "height": css_px(node.box_px.height)}
        text = only_text(node)
        attributes = 'input type="text" aria-label="field"'
        if text is not None:
            style |= font_style(text.lines[0], self._body)
            style["padding"] = f"0 {css_px(max(text.box_px.left - node.box_px.left - node.look.border_px, 0))}"
            attributes = f'input type="text" placeholder="{escape(text.lines[0].text)}" aria-label="field"'
        return self._sheet.tag(attributes, "field", _block(place) | style | place.style, None)

    def _button(self, node: Node, place: _Place) -> str:
        text = only_text(node)
        assert text is not None
        style = _block(place) | box_style(node.look)
        style |= {"width": css_px(node.box_px.width), "height": css_px(node.box_px.height)}
        style |= {"padding": "0", "background": style.get("background", "transparent")}
        style |= font_style(text.lines[0], self._body)
        return self._sheet.tag(
            'button type="button"', "button", style | place.style, escape(text.lines[0].text), inline=True
        )


def _block(place: _Place) -> Style:
    """Return the style that separates a one-line element from its neighbours in a column."""
    return {} if place.in_row else {"display": "block"}


def _section_tag(place: _Place) -> str:
    return place.section if place.section in ("header", "footer", "section") else "div"
