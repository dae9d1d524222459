"""Semantic roles of the parts of a page: heading, navigation, button, field."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from apps.video2web.layout.nodes import Node
from apps.video2web.layout.primitives import PLAIN, Primitive
from apps.video2web.losses import IMAGE_PX

# Heuristics without another source; measured together in benchmarks/video2web.md, "Generated pages".
MAX_LINK_CHARS = 28
_HEADING_RATIOS = (1.18, 1.05)
_FIELD_HEIGHT_PX = (22, 64)
_MAX_BUTTON_PX = (420, 72)
MAX_BULLET_PX = 28  # of a mark before an item, and of its distance from the text
_MAX_CODE_HEIGHT = 1.65  # of its font size; buttons are higher
_MAX_WORD_GAP = 0.9  # of the font size, between the parts of one line
_MIN_MONO = 0.6  # of the characters of a code block: short parts of its lines are fitted with other fonts
_NOT_CODE = ("image", "toggle", "rule")


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all its descendants, in reading order."""
    yield node
    for child in node.children:
        yield from walk(child)


def usual_text(texts: Sequence[Primitive]) -> Primitive | None:
    """Return a line in the font and colour that most characters have."""
    weights: Counter[tuple[Any, ...]] = Counter()
    for line in texts:
        weights[heading_key(line), line.rgb] += len(line.text)
    if not weights:
        return None
    key = weights.most_common(1)[0][0]
    return next(line for line in texts if (heading_key(line), line.rgb) == key)


def heading_key(line: Primitive) -> tuple[Any, ...]:
    """Return the face and size of a line, which identify its heading level."""
    return (line.font.face, line.font.size_px) if line.font is not None else ()


def heading_sizes(texts: Sequence[Primitive], body: Primitive | None) -> dict[tuple[Any, ...], int]:
    """Return the heading level of each font: larger fonts, and bold ones that are not smaller than the body."""
    if body is None or body.font is None:
        return {}
    sized_keys = []
    for key in {heading_key(line) for line in texts if line.font is not None}:
        face, size = key
        is_bold = face.weight > body.font.face.weight
        if size >= _HEADING_RATIOS[1 if is_bold else 0] * body.font.size_px:
            sized_keys.append((size, key))
    sizes = sorted({size for size, _ in sized_keys}, reverse=True)[:3]
    return {key: sizes.index(size) + 1 for size, key in sized_keys if size in sizes}


def is_bold(line: Primitive) -> bool:
    """Return whether a line is bold."""
    return line.font is not None and line.font.face.weight > 500


def is_nav(node: Node) -> bool:
    """Return whether a row is a menu: three short texts or more, without code, which is in sentences."""
    texts = [child for child in node.children if child.kind == "text"]
    is_short = all(len(child.lines) == 1 and len(child.lines[0].text) <= MAX_LINK_CHARS for child in texts)
    return len(texts) >= 3 and is_short and not any(map(is_code, node.children))


def is_quote(node: Node) -> bool:
    """Return whether a row has a vertical line at its left, about as high as the rest."""
    bar, rest = node.children[0], node.children[1:]
    if node.look != PLAIN or bar.kind != "rule" or bar.box_px.height <= bar.box_px.width or not rest:
        return False
    top, bottom = min(each.box_px.top for each in rest), max(each.box_px.bottom for each in rest)
    is_around = bar.box_px.top <= top + 4 and bottom <= bar.box_px.bottom + 4
    return is_around and not any(each.kind == "rule" for each in rest)


def only_text(node: Node) -> Node | None:
    """Return the text of a frame that contains nothing else."""
    return node.children[0] if len(node.children) == 1 and node.children[0].kind == "text" else None


def is_mono(line: Primitive) -> bool:
    """Return whether a line is in a font of fixed width."""
    return line.font is not None and "Mono" in line.font.face.family


def is_code(node: Node) -> bool:
    """Return whether a frame is inline code: painted, hardly higher than its only line, without a border."""
    text = only_text(node)
    if text is None or len(text.lines) != 1 or node.look.fill is None or node.look.border is not None:
        return False
    font = text.lines[0].font
    return font is not None and node.box_px.height <= _MAX_CODE_HEIGHT * font.size_px


def is_inline(node: Node) -> bool:
    """Return whether a row is one line of text with inline code in it."""
    children = node.children
    size = max((line.font.size_px for child in walk(node) for line in child.lines if line.font), default=0.0)
    gaps = [right.box_px.left - left.box_px.right for left, right in itertools.pairwise(children)]
    return (
        any(map(is_code, children))
        and all(is_code(child) or (child.kind == "text" and len(child.lines) == 1) for child in children)
        and all(gap <= _MAX_WORD_GAP * size for gap in gaps)
    )


def is_code_block(node: Node) -> bool:
    """Return whether a frame holds nothing but lines of code."""
    parts = list(walk(node))
    lines = [line for part in parts for line in part.lines]
    if node.look.fill is None or len(lines) < 2 or any(part.kind in _NOT_CODE for part in parts):
        return False
    num_chars = sum(len(line.text) for line in lines)
    return sum(len(line.text) for line in lines if is_mono(line)) >= _MIN_MONO * num_chars


def is_bullet(node: Node) -> bool:
    """Return whether a node is the mark before an item of a list."""
    return node.kind == "image" and max(node.box_px.width, node.box_px.height) <= MAX_BULLET_PX


def is_icon_label(node: Node) -> bool:
    """Return whether a row is a small picture and the text beside it, which stay together in a narrow window."""
    return len(node.children) == 2 and [is_icon(child) for child in node.children].count(True) == 1


def is_icon(node: Node) -> bool:
    """Return whether a node is a small picture."""
    return node.kind == "image" and max(node.box_px.width, node.box_px.height) <= IMAGE_PX


def pair_icons(children: Sequence[Node]) -> tuple[Node, ...]:
    """Return the parts of a row, each small picture in a row of its own with the nearer one of its neighbours."""
    parts = list(children)
    for icon in [child for child in children if is_icon(child)]:
        at = parts.index(icon)
        beside = [each for each in parts[max(at - 1, 0) : at + 2] if each.kind in ("text", "column")]
        nearest = min(beside, key=lambda each: -each.box_px.overlap_x(icon.box_px), default=None)
        if nearest is not None and -nearest.box_px.overlap_x(icon.box_px) <= MAX_BULLET_PX:
            first = min(at, parts.index(nearest))
            pair = tuple(parts[first : first + 2])
            parts[first : first + 2] = [Node(kind="row", box_px=icon.box_px.union(nearest.box_px), children=pair)]
    return tuple(parts)


def is_mark(node: Node) -> bool:
    """Return whether a node is a bullet, or a single character that may be a tick or a cross."""
    text = node.lines[0].text if node.kind == "text" and len(node.lines) == 1 else ""
    return is_bullet(node) or (len(text) == 1 and (not text.isalnum() or text in "XxVv"))


def is_item(node: Node) -> bool:
    """Return whether a row is an item of a list: a small mark, then text."""
    if node.kind != "row" or node.look != PLAIN or not is_mark(node.children[0]):
        return False
    rest = node.children[1:]
    gap = rest[0].box_px.left - node.children[0].box_px.right if rest else 0
    return bool(rest) and gap <= MAX_BULLET_PX and all(each.kind == "text" or is_code(each) for each in rest)


def is_menu_column(node: Node) -> bool:
    """Return whether a column is a menu: nothing but three short lines or more."""
    lines = [line for child in node.children for line in child.lines]
    return (
        node.kind == "column"
        and len(lines) >= 3
        and all(child.kind == "text" for child in node.children)
        and all(len(line.text) <= MAX_LINK_CHARS for line in lines)
    )


def is_button(node: Node) -> bool:
    """Return whether a frame is a button: small, painted, one line in its middle."""
    text = only_text(node)
    if text is None or node.look == PLAIN or len(text.lines) != 1 or (is_code(node) and is_mono(text.lines[0])):
        return False
    box = node.box_px
    is_small = box.width <= _MAX_BUTTON_PX[0] and box.height <= _MAX_BUTTON_PX[1]
    is_middle = abs(box.center[0] - text.box_px.center[0]) <= 5 and abs(box.center[1] - text.box_px.center[1]) <= 5
    return is_small and is_middle and text.box_px.left - box.left >= 4


def is_field(node: Node) -> bool:
    """Return whether a frame is an input field: bordered, low, empty or with a pale text at its left."""
    box, text = node.box_px, only_text(node)
    if node.look.border is None or not _FIELD_HEIGHT_PX[0] <= box.height <= _FIELD_HEIGHT_PX[1] or box.width < 80:
        return False
    if not node.children:
        return True
    if text is None or len(text.lines) != 1:
        return False
    is_pale = min(text.lines[0].rgb) > 90
    return is_pale and text.box_px.left - box.left <= 24 and text.box_px.width < 0.75 * box.width
