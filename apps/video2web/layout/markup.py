"""HTML and CSS from a tree of rows and columns: flow, flex and grid, with semantic elements."""

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape

from PIL import Image

from apps.video2web.layout.fonts import measure
from apps.video2web.layout.gradients import Rgb
from apps.video2web.layout.nodes import Node, union
from apps.video2web.layout.primitives import PLAIN, Primitive
from apps.video2web.layout.roles import (
    MAX_LINK_CHARS,
    heading_key,
    heading_sizes,
    is_bold,
    is_button,
    is_code,
    is_code_block,
    is_field,
    is_icon_label,
    is_inline,
    is_item,
    is_menu_column,
    is_mono,
    is_nav,
    is_quote,
    only_text,
    pair_icons,
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
from apps.video2web.layout.tables import write_cells, write_table
from apps.video2web.layout.tree import flow_width
from apps.video2web.pixels import RgbImage

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
_EVEN_PX = 2
_MIN_SPACE = 0.5  # of a space's width; narrower gaps of a line are none
_SAME_INK = 40  # difference of a channel between words of one colour in a line of code
_MAX_HEADER_PX = 160
_MIN_MAIN = 0.5  # of the width of a row that has the page's content beside a menu
_PAGE_HEAD = '<!doctype html>\n<html lang="{lang}">\n<head>\n<meta charset="utf-8">\n'


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
            + indent("\n".join(_with_main(parts)))
            + "\n</body>\n</html>\n"
        )
        return Markup(html=html, css=self._sheet.text(body, tree.box_px.width), images=self._images)

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
            case _ if is_code_block(node):
                return self._code_block(node, place)
            case _ if is_code(node) and not is_button(node):
                return self._code(node, place)
            case _ if is_button(node):
                return self._button(node, place)
            case "table":
                return write_table(node, self._sheet, self._body, place.style, self._mark)
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
        inner = "\n".join(self._menu(node) if place.section == "nav" else self._column(node))
        return self._sheet.tag(
            _section_tag(place), place.section or ("card" if node.look != PLAIN else "group"), style, inner
        )

    def _menu(self, node: Node) -> Iterator[str]:
        """Write a column of short lines as links below each other; bold ones are captions."""
        lines = [
            Node(kind="text", box_px=line.box_px, lines=(line,)) for child in node.children for line in child.lines
        ]
        menu = replace(node, children=tuple(lines))
        for child, written in zip(menu.children, self._column(menu), strict=True):
            is_link = written.startswith("<p ") and not is_bold(child.lines[0])
            yield f'<a href="#"{written[2:-4]}</a>' if is_link else written

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
        items: list[tuple[Node, Style]] = []
        for number, child in enumerate([*node.children, None]):
            if items and (child is None or not is_item(child)):
                yield (
                    self._list(*zip(*items, strict=True))
                    if len(items) > 1
                    else self._node(items[0][0], _Place(style=items[0][1]))
                )
                items = []
            if child is None:
                return
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
            if is_item(child):
                items.append((child, style))
                continue
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

    def _side(self, row: Node, child: Node, place: _Place) -> str:
        """Return the section of a part of a page's row: its content, or a menu or other column beside it."""
        widest = max(row.children, key=lambda each: each.box_px.width)
        is_page = place.section == "section" or row is self._tree
        if not is_page or child.kind in ("text", "image", "rule", "toggle"):
            return ""
        if widest.box_px.width < _MIN_MAIN * row.box_px.width or not any(map(is_menu_column, row.children)):
            return ""
        return "main" if child is widest else "nav" if is_menu_column(child) else "aside"

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
        if is_inline(node):
            if node.look == PLAIN and not place.section:
                return self._inline(node, place)
            line = replace(node, look=PLAIN, box_px=union(node.children))
            return self._frame(Node(kind="column", box_px=node.box_px, look=node.look, children=(line,)), place)
        style: Style = {"display": "flex", "align-items": "flex-start"} | self._box_style(node) | place.style
        is_menu = is_nav(node) and (place.section != "header" or len(node.children) > 2)
        link = "link" if is_nav(node) or place.section == "link" else ""
        is_pair = is_icon_label(node)
        children = node.children if is_pair else pair_icons(node.children)
        inner = union(children)
        gaps = [right.box_px.left - left.box_px.right for left, right in itertools.pairwise(children)]
        is_even = max(gaps) - min(gaps) <= _EVEN_PX if gaps else True
        tops = [child.box_px.top - inner.top for child in children]
        centers = [child.box_px.center[1] for child in children]
        if max(centers) - min(centers) <= 1:
            style["align-items"] = "center"
            tops = [0] * len(tops)
        if is_even and gaps and gaps[0] > 0:
            style["gap"] = css_px(round(sum(gaps) / len(gaps)))
        parts = []
        right = inner.left
        for child, top in zip(children, tops, strict=True):
            inside: Style = {"flex": "none"}
            if top:
                inside["margin-top"] = css_px(top)
            if not is_even and child.box_px.left != right:
                inside["margin-left"] = css_px(child.box_px.left - right)
            if child.kind == "text":
                inside["width"] = css_px(child.box_px.width)
            right = child.box_px.right
            section = link or self._side(node, child, place)
            parts.append(self._node(child, _Place(style=inside, section=section, in_row=True)))
        if place.section == "header" and not is_menu:
            return self._sheet.tag("header", "header", style, "\n".join(parts))
        name = place.section.replace("link", "") or ("nav" if is_menu else "pair" if is_pair else "row")
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
        is_layered = len(node.children) == 2 and node.children[0].box_px == box
        for child in node.children:
            inside = {"position": "absolute", "left": css_px(child.box_px.left - box.left)}
            inside["top"] = css_px(child.box_px.top - box.top)
            inside |= {"grid-area": "1 / 1"} if is_layered else {}
            parts.append(self._node(child, _Place(style=inside | {"margin": "0"})))
        name = "layers" if is_layered else place.section or "stack"
        return self._sheet.tag(_section_tag(place), name, style, "\n".join(parts))

    # -------------------------------------------------------------- text with code

    def _inline(self, node: Node, place: _Place) -> str:
        """Write a row as a line of text with inline code."""
        texts = [child.lines[0] for child in node.children if child.kind == "text"]
        style: Style = font_style(max(texts, key=lambda line: len(line.text)), self._body) if texts else {}
        style["line-height"] = css_px(node.box_px.height)
        parts = [self._part(node.children[0], None)]
        for before, child in itertools.pairwise(node.children):
            parts.append(self._part(child, child.box_px.left - before.box_px.right))
        return self._sheet.tag(
            "p", "text", style | {"white-space": "nowrap"} | place.style, "".join(parts), inline=True
        )

    def _part(self, child: Node, gap: int | None) -> str:
        """Write a text or a code of a line; a gap of the width of a space is a space."""
        line = child.lines[0] if child.lines else child.children[0].lines[0]
        space = round(measure(line.font.face, "n n").right * line.font.size_px / 3) if line.font is not None else 4
        has_space = gap is not None and gap >= _MIN_SPACE * space
        written = self._code(child, _Place(in_row=True)) if not child.lines else self._sheet.line(line)
        return f" {written}" if has_space else written

    def _code(self, node: Node, place: _Place) -> str:
        """Write a small painted frame with one line as inline code."""
        box, text = node.box_px, node.children[0]
        style = box_style(node.look) | font_style(text.lines[0], self._body)
        inside = [text.box_px.left - box.left, box.right - text.box_px.right]
        style["padding"] = f"2px {css_px(max(inside[1], 0))} 2px {css_px(max(inside[0], 0))}"
        kind = "code" if is_mono(text.lines[0]) else "tag"
        code = self._sheet.tag(
            "code" if kind == "code" else "span", kind, style, self._sheet.line(text.lines[0]), inline=True
        )
        return (
            code
            if place.in_row and not place.style
            else self._sheet.tag("div", "line", {"line-height": css_px(box.height)} | place.style, code, inline=True)
        )

    def _code_block(self, node: Node, place: _Place) -> str:
        """Write lines of code with their columns and colours."""
        lines = sorted((line for part in walk(node) for line in part.lines), key=lambda line: line.box_px.center[1])
        usual = max((line for line in lines if is_mono(line)), key=lambda line: len(line.text))
        assert usual.font is not None
        box, left = union(node.children), min(line.box_px.left for line in lines)
        char_px = measure(usual.font.face, "n" * 20).right * usual.font.size_px / 20
        rows: list[list[Primitive]] = []
        for line in lines:
            if rows and line.box_px.center[1] - rows[-1][0].box_px.center[1] < 0.5 * usual.font.size_px:
                rows[-1].append(line)
            else:
                rows.append([line])
        tops = [row[0].box_px.center[1] for row in rows]
        pitches = [low - high for high, low in itertools.pairwise(tops)]
        pitch = min(pitches, default=float(usual.box_px.height))
        pitch = (tops[-1] - tops[0]) / max(sum(round(each / pitch) for each in pitches), 1) or pitch
        text = ""
        for number, row in enumerate(rows):
            text += "\n" * (max(round((tops[number] - tops[number - 1]) / pitch), 1) if number else 0)
            column = 0
            for line in sorted(row, key=lambda line: line.box_px.left):
                gap = max(round((line.box_px.left - left) / char_px) - column, 1 if column else 0)
                color = {} if _is_near(line.rgb, usual.rgb) else {"color": css_color(line.rgb)}
                written = self._sheet.line(line)
                text += " " * gap + (self._sheet.tag("span", "ink", color, written, inline=True) if color else written)
                column += gap + len(line.text)
        style = self._box_style(node) | font_style(usual, self._body) | {"margin": "0"}
        style["line-height"] = css_px(round(pitch, 1))
        above = box.top - node.box_px.top + (usual.box_px.height - pitch) / 2
        style["padding"] = f"{css_px(max(round(above), 0))} 0 0 {css_px(left - node.box_px.left)}"
        style |= {"overflow": "auto"} | place.style
        return self._sheet.tag("pre", "code-block", style, f"<code>{text}</code>", inline=True)

    def _list(self, nodes: Sequence[Node], styles: Sequence[Style]) -> str:
        """Write rows that begin with a mark as a list."""
        items = []
        for node, style in zip(nodes, styles, strict=True):
            mark, rest = node.children[0], node.children[1:]
            inside = rest[0] if len(rest) == 1 else Node(kind="row", box_px=union(rest), children=rest)
            row: Style = {
                "display": "flex",
                "align-items": "center",
                "gap": css_px(inside.box_px.left - mark.box_px.right),
            }
            written = f"{self._mark(mark)}\n{self._node(inside, _Place())}"
            items.append(self._sheet.tag("li", "item", row | style, written))
        return self._sheet.tag("ul", "list", {"list-style": "none"}, "\n".join(items))

    # -------------------------------------------------------------- leaves

    def _mark(self, node: Node) -> str:
        return self._node(node, _Place(style={"flex": "none"}, in_row=True))

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
            text = (" " if can_flow else "<br>").join(map(self._sheet.line, node.lines))
            style["width"] = css_px(width)
            if not can_flow:
                style["white-space"] = "nowrap"
            if node.is_centered:
                style["text-align"] = "center"
                left, extra = place.style.get("margin-left"), round((width - node.box_px.width) / 2)
                if left != "auto" and extra and not place.in_row:
                    add_margin(place.style, "margin-left", -extra)
        else:
            text = self._sheet.line(first)
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
            'button type="button"', "button", style | place.style, self._sheet.line(text.lines[0]), inline=True
        )


def _with_main(parts: Sequence[str]) -> list[str]:
    """Wrap what is between header and footer in `main`, unless a part of it is `main`."""
    first = bool(parts) and parts[0].startswith("<header")
    last = len(parts) - (len(parts) > 1 and parts[-1].startswith("<footer"))
    content = "\n".join(parts[first:last])
    if not content or "<main" in content:
        return list(parts)
    return [*parts[:first], f"<main>\n{indent(content)}\n</main>", *parts[last:]]


def _is_near(color: Rgb, other: Rgb) -> bool:
    return max(abs(a - b) for a, b in zip(color, other, strict=True)) <= _SAME_INK


def _block(place: _Place) -> Style:
    """Return the style that separates a one-line element from its neighbours in a column."""
    return {} if place.in_row else {"display": "block"}


def _section_tag(place: _Place) -> str:
    return place.section if place.section in ("header", "footer", "section", "main", "nav", "aside") else "div"
