"""Pieces found on the image of a page: frames, lines of text, images, rules and toggles, with their visual style."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from apps.video2web.layout.fonts import (
    FontFit,
    Ink,
    InkRun,
    commonest,
    find_ink_runs,
    fit_fonts,
    measure,
    measure_ink,
)
from apps.video2web.layout.gradients import Gradient, Rgb, find_gradients, paint_ground
from apps.video2web.layout.reading import join_overlapping, read_page
from apps.video2web.losses import IMAGE_PX, find_marks, words_of_lines
from apps.video2web.pixels import Levels, RgbImage
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ink import find_background, find_ink
from visual_tools.ocr import TextLine
from visual_tools.widgets import Rectangle, Toggle, find_rectangles, find_toggles

ChangeKind = Literal["frame", "text", "image", "rule", "toggle"]

_MIN_FRAME_PX = (10, 10)  # width and height; smaller frames are marks or noise
_MIN_IMAGE_SIDE_PX = 10  # shorter side of an image; smaller ones are taken for marks and dropped
_MIN_IMAGE_AREA_PX = 160  # pixels that differ from the area below; fewer are remains of text and lines
_SAME_COLOR = 3  # difference of a channel that video compression leaves in a flat area
_SAME_INK = 10  # of text colours, which are estimated from anti-aliased pixels and vary more
_FLAT_STEP = 14  # difference of a channel within a flat area; a larger one is content
_JOIN_PX = 9  # gap that joins parts of one image; a larger value joins neighbouring images
_MAX_GLYPH_PX, _MIN_FILLED = 128, 0.35  # side of a character that is not read, and share of a frame that it fills
_MAX_GLYPH, _STROKE_PX = 1.5, 6  # of a stroke's length, and distance of a stroke from the box of its character
_MAX_RULE_PX, _MAX_LINE_PX = 9, 4  # thickness of a rule, and of a line that is taken out before images are looked for
_MIN_RULE_PX = 24  # length of a rule; shorter ones are dashes of text
_LINE_HEIGHT = 1.2  # of the font size: the `normal` of most browser fonts
_MAX_PIECES = 3000  # primitives of a page; bounds the time of a hostile image
_MAX_UNDER_TEXT = 0.3  # share of a mark, or of a line, that both may cover
_MAX_INLINE = 2.2  # of a line's height: frames that are higher are not part of the line
_MIN_PART_PX = 4  # of a part of a line, such as a full stop after inline code
_MAX_LABEL = 1.6  # of a toggle's height, distance of its label
_RIM, _MIN_TICK_INK, _MAX_TICK_SPREAD = 0.2, 0.04, 100  # of a toggle: border, ink of a tick, levels of its colour
_MAX_OFF_LINE = 24  # levels by which a pixel of a corner may differ from a mixture of two colours
_MAX_RADIUS_PX = 40  # of a corner: bounds the area that is measured
_EDGE_PX, _SCROLL_BAR_PX, _SAME_LEVELS, _MIN_EDGE = 12, 16, 4, 0.5
"""Width of the edge of a page, and of a scroll bar right of it; levels within which the edge has one colour, and share
of it that has. A header, a sidebar and a card that a recording cuts off leave half of the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxStyle:
    """Visual style of a frame.

    Attributes:
        fill: Colour; None for the colour below it.
        gradient: Gradient, over the colour.
        border: Colour of the border; None without one.
        border_px: Thickness of the border.
        radius_px: Radius of the corners.
    """

    fill: Rgb | None = None
    gradient: Gradient | None = None
    border: Rgb | None = None
    border_px: int = 0
    radius_px: int = 0


PLAIN = BoxStyle()
"""Style without any painting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """Piece of a page.

    Attributes:
        kind: Kind of piece.
        box_px: Area that it takes; for a text the CSS line box, not the ink.
        text: Text content (text).
        font: Fitted font (text).
        rgb: Colour of the ink, or of a rule.
        runs: Words of a text in another colour or weight than the rest.
        look: Visual style (frame).
        is_on: True if it is checked (toggle).
        toggle: Kind of toggle.
    """

    kind: ChangeKind
    box_px: Box
    text: str = ""
    font: FontFit | None = None
    rgb: Rgb = (0, 0, 0)
    runs: tuple[InkRun, ...] = ()
    look: BoxStyle = PLAIN
    is_on: bool = False
    toggle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePieces:
    """Pieces on the image of a page.

    Attributes:
        size_px: Width and height.
        background: Colour of the page.
        gradient: The page's gradient, over its colour.
        frames: Frames, large ones first; without the page itself.
        leaves: Texts, images, rules, toggles.
    """

    size_px: tuple[int, int]
    background: Rgb
    gradient: Gradient | None = None
    frames: tuple[Primitive, ...]
    leaves: tuple[Primitive, ...]


def find_pieces(image: RgbImage, lines: Sequence[TextLine] | None = None) -> PagePieces:
    """Find the pieces on the image of a page.

    Args:
        image: (H, W, 3) uint8 RGB.
        lines: Result of `read_page` on it; read if omitted.
    """
    height, width = image.shape[:2]
    page_lines = read_page(image) if lines is None else list(lines)
    background = _find_page_color(image)
    rectangles = [each for each in find_rectangles(image) if each.box_px.area < 0.98 * width * height]
    gradients = find_gradients(image, rectangles)
    page_gradient = gradients.get(Box(0, 0, width, height))
    background = page_gradient.middle if page_gradient else background
    ground = paint_ground(image, background, rectangles, gradients)
    images = _find_images(image, ground, rectangles, page_lines)
    texts = [
        part
        for line in page_lines
        if not any(_is_inside(line.box_px, box) for box in images) and not line.angle_deg
        for part in _split_at_frames(line, rectangles)
    ]
    outside = [
        each
        for each in rectangles
        if not any(box.contains(each.box_px, slack_px=1) for box in images)
        and not any(_is_counter(each.box_px, line) for line in texts)
    ]
    toggles = [each for each in find_toggles(image) if not any(line.box_px.intersection(each.box_px) for line in texts)]
    toggles = [each for each in toggles if _is_control(image, each, texts)]
    marks = [each.box_px for each in toggles]
    images = [box for box in images if not any(mark.padded(3).contains(box) for mark in marks)]
    rules = [each for each in outside if _is_rule(each.box_px)]
    bare = [each for each in outside if not _is_rule(each.box_px)]
    frames = _make_frames(image, background, bare, marks, gradients)
    icons = [frame.box_px for frame in frames if _is_icon(image, frame, texts)]
    frames = [frame for frame in frames if frame.box_px not in icons]
    images += [*icons, *_find_small_images(image, [*images, *marks, *icons], [each.box_px for each in frames], texts)]
    leaves = [
        *_make_texts(image, texts, [each.box_px for each in rectangles]),
        *(Primitive(kind="image", box_px=box) for box in images),
        *(Primitive(kind="rule", box_px=each.box_px, rgb=each.colour) for each in rules),
        *_find_thin_rules(image, ground, frames, texts, images),
        *(Primitive(kind="toggle", box_px=each.box_px, toggle=each.kind, is_on=each.is_on) for each in toggles),
    ]
    frames, leaves = _join_strokes(frames, leaves)
    return PagePieces(
        size_px=(width, height),
        background=background,
        gradient=page_gradient,
        frames=tuple(frames),
        leaves=tuple(leaves[:_MAX_PIECES]),
    )


def _find_page_color(image: RgbImage) -> Rgb:
    """Return the colour of the page itself: that of most of its edge, else the most common one.

    Cards may cover more of a page than is left of its own colour.
    """
    inner = image[:, :-_SCROLL_BAR_PX] if image.shape[1] > 4 * _SCROLL_BAR_PX else image
    strips = (inner[:, :_EDGE_PX], inner[:, -_EDGE_PX:], inner[-_EDGE_PX:])
    edge = np.concatenate([strip.reshape(-1, 3) for strip in strips])
    color = find_background(edge)
    is_most = (np.abs(edge.astype(np.int16) - color).max(axis=1) <= _SAME_LEVELS).mean() >= _MIN_EDGE
    return _color(color if is_most else find_background(image))


def _color(values: RgbImage | Sequence[float]) -> Rgb:
    red, green, blue = (int(level) for level in values)
    return red, green, blue


def _is_near(color: Rgb, other: Rgb, limit: int = _SAME_COLOR) -> bool:
    return max(abs(a - b) for a, b in zip(color, other, strict=True)) <= limit


def _is_inside(inner: Box, outer: Box) -> bool:
    return inner.intersection(outer) > 0.7 * inner.area


def _is_counter(box: Box, line: TextLine) -> bool:
    """Return whether a rectangle is a counter or a stroke of a letter, or the outline of the only one of a line."""
    height, is_only = line.box_px.height, len(line.text) == 1
    is_low, is_stroke = box.height < 0.95 * height and box.width < box.height * 2, box.width < 0.3 * height
    return line.box_px.contains(box, slack_px=4 if is_only else 2) and (is_low or is_stroke or is_only)


def _is_rule(box: Box) -> bool:
    return min(box.width, box.height) <= _MAX_RULE_PX < _MIN_RULE_PX <= max(box.width, box.height)


def _find_images(
    image: RgbImage, ground: RgbImage, rectangles: Sequence[Rectangle], lines: Sequence[TextLine]
) -> list[Box]:
    """Find areas that hold more than flat colour and text."""
    cv2 = require("cv2", "visual")
    other = (np.abs(image.astype(np.int16) - ground).max(axis=2) > _FLAT_STEP).astype(np.uint8)
    for line in lines:
        box = line.box_px.padded(4).clipped(image.shape[1], image.shape[0])
        other[box.slices] = 0
    for each in rectangles:  # borders and round corners
        _clear_edges(other, each.box_px.padded(3), 6)
        reach = min(max(4, _corner(each)), 24)
        for x in (each.box_px.left - 3, each.box_px.right + 3 - reach):
            for y in (each.box_px.top - 3, each.box_px.bottom + 3 - reach):
                other[max(y, 0) : max(y + reach, 0), max(x, 0) : max(x + reach, 0)] = 0
    other = _without_lines(other)
    joined = cv2.morphologyEx(other, cv2.MORPH_CLOSE, np.ones((_JOIN_PX, _JOIN_PX), np.uint8))
    count, _, stats, _ = cv2.connectedComponentsWithStats(joined, connectivity=8)
    boxes = []
    for left, top, width, height, area in stats[1:count].tolist():
        if min(width, height) >= _MIN_IMAGE_SIDE_PX and area >= _MIN_IMAGE_AREA_PX:
            boxes.append(Box(left, top, left + width, top + height))
    return join_overlapping(boxes)


def _find_small_images(
    image: RgbImage, known: Sequence[Box], frames: Sequence[Box], lines: Sequence[TextLine]
) -> list[Box]:
    """Find ticks, icons, bullets and other marks that are neither text nor one of the known images and frames."""
    words = [word.box_px for word in words_of_lines(lines)]
    return [
        box
        for box in find_marks(image, words)
        if not any(other.padded(2).intersection(box) for other in known)
        and not any(line.box_px.intersection(box) > _MAX_UNDER_TEXT * min(box.area, line.box_px.area) for line in lines)
        and not any(frame.intersection(box) > 0.7 * frame.union(box).area for frame in frames)
    ]


def _is_icon(image: RgbImage, frame: Primitive, lines: Sequence[TextLine]) -> bool:
    """Return whether a small painted square holds something other than text."""
    box = frame.box_px
    if frame.look.fill is None or max(box.width, box.height) >= IMAGE_PX:
        return False
    if any(line.box_px.intersection(box) for line in lines):
        return False
    inside = image[box.padded(-max(round(_RIM * box.height), frame.look.border_px + 1)).slices]
    return bool(inside.size and find_ink(inside).mean() >= _MIN_TICK_INK)


def _join_strokes(frames: Sequence[Primitive], leaves: Sequence[Primitive]) -> tuple[list[Primitive], list[Primitive]]:
    """Join the straight strokes of a large character that is not read with the picture of its other strokes.

    A stroke is a line beside a picture and about as long as it, or a small frame that is filled by one.
    """
    lines = [leaf.box_px for leaf in leaves if leaf.kind == "text"]
    chars = [leaf.box_px for leaf in leaves if len(leaf.text) == 1]
    images = [leaf.box_px for leaf in leaves if leaf.kind == "image"]
    rules, kept = [leaf for leaf in leaves if leaf.kind == "rule"], []
    for rule in rules:
        box, length = rule.box_px, max(rule.box_px.width, rule.box_px.height)
        near = [each for each in images if box.padded(_JOIN_PX).intersection(each)]
        glyph = functools.reduce(Box.union, near, box)
        is_letter = any(char.contains(box, slack_px=_STROKE_PX) for char in chars)
        if near and max(glyph.width, glyph.height) <= min(_MAX_GLYPH_PX, _MAX_GLYPH * length):
            images = [each for each in images if each not in near] + [glyph]
        elif not is_letter:
            kept.append(rule)
    outer = []
    for frame in frames:
        box = frame.box_px
        inside = [each for each in images if box.contains(each, slack_px=4)]
        is_free = max(box.width, box.height) <= _MAX_GLYPH_PX and not any(line.intersection(box) for line in lines)
        if is_free and sum(each.area for each in inside) >= _MIN_FILLED * box.area:
            images = [each for each in images if each not in inside] + [box]
        else:
            outer.append(frame)
    others = [leaf for leaf in leaves if leaf.kind not in ("rule", "image")]
    return outer, [*others, *(Primitive(kind="image", box_px=box) for box in join_overlapping(images, 0)), *kept]


def _split_at_frames(line: TextLine, rectangles: Sequence[Rectangle]) -> list[TextLine]:
    """Split a line where it enters or leaves a frame of its height, such as inline code."""
    box = line.box_px
    inside: dict[tuple[int, int], Box] = {}
    for each in rectangles:
        frame = each.box_px
        is_low = frame.height <= _MAX_INLINE * box.height and frame.overlap_y(box) >= 0.7 * box.height
        if is_low and frame.width >= max(_MIN_FRAME_PX[0], 0.8 * box.height) and not frame.contains(box, slack_px=2):
            chars = [at for at, (left, right) in enumerate(line.char_x_px)
                     if frame.left <= (left + right) / 2 < frame.right and not line.text[at].isspace()]  # fmt: skip
            if chars:
                inside[chars[0], chars[-1] + 1] = frame
    cuts = sorted({0, len(line.text), *(at for span in inside for at in span)})
    if len(cuts) == 2:
        return [line]
    parts = []
    for start, end in itertools.pairwise(cuts):
        text = line.text[start:end]
        first, last = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
        if first >= last:
            continue
        part = line.part(first, last)
        left, right = part.box_px.left, part.box_px.right
        for (from_char, to_char), frame in inside.items():  # the position of a character is not exact
            if from_char <= first < to_char:
                left, right = max(left, frame.left + 2), min(right, frame.right - 2)
            elif last <= from_char:
                right = min(right, max(frame.left - 1, left + _MIN_PART_PX))
            elif to_char <= first:
                left = max(left, min(frame.right + 1, right - _MIN_PART_PX))
        if left < right:
            parts.append(replace(part, box_px=Box(left, box.top, right, box.bottom)))
    return parts


def _is_control(image: RgbImage, toggle: Toggle, lines: Sequence[TextLine]) -> bool:
    """Return whether a toggle is one: a label next to it, and empty, or with a tick or a dot in one colour."""
    box = toggle.box_px
    has_label = any(
        line.box_px.overlap_y(box) >= 0.5 * min(box.height, line.box_px.height)
        and -_MAX_LABEL * box.height <= line.box_px.overlap_x(box) < 0
        for line in lines
    )
    inside = image[box.padded(-max(round(_RIM * box.height), 2)).slices]
    if not has_label or not inside.size:
        return False
    ink = find_ink(inside)
    if toggle.kind == "switch" or ink.mean() < _MIN_TICK_INK:
        return True
    count = require("cv2", "visual").connectedComponents(ink.astype(np.uint8), connectivity=8)[0]
    rows, columns = np.nonzero(ink)
    if count != 2 or np.ptp(inside[ink].astype(np.int16), axis=0).max() > 2 * _MAX_TICK_SPREAD:
        return False
    if toggle.kind == "radio":  # a dot in the middle
        off = np.abs(np.array([rows.mean(), columns.mean()]) - np.array(inside.shape[:2]) / 2).max()
        sides = np.ptp(rows) + 1, np.ptp(columns) + 1
        return bool(off <= 0.15 * box.height and rows.size >= 0.6 * max(sides) ** 2)
    low, high = columns[rows == rows.max()].mean(), columns[rows == rows.min()].mean()
    left_row = rows[columns == columns.min()].mean()  # a tick falls from the left, then rises to the right
    width = max(np.ptp(columns), 1)
    return bool(
        0.15 <= (low - columns.min()) / width <= 0.65 < (high - columns.min()) / width and left_row < rows.max()
    )


def _without_lines(mask: Levels) -> Levels:
    """Return a mask without long thin lines, such as the rules of a table."""
    cv2 = require("cv2", "visual")
    thick = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((_MAX_LINE_PX + 2, _MAX_LINE_PX + 2), np.uint8))
    thick = cv2.dilate(thick, np.ones((3, 3), np.uint8))
    lines = cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((1, _MIN_RULE_PX), np.uint8))
    lines |= cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((_MIN_RULE_PX, 1), np.uint8))
    kept: Levels = np.where((lines > 0) & (thick == 0), 0, mask).astype(np.uint8)
    return kept


def _clear_edges(mask: Levels, box: Box, thick_px: int) -> None:
    """Clear the four edges of a box in a mask."""
    left, top, right, bottom = (max(side, 0) for side in (box.left, box.top, box.right, box.bottom))
    mask[top : top + thick_px, left:right] = 0
    mask[max(bottom - thick_px, 0) : bottom, left:right] = 0
    mask[top:bottom, left : left + thick_px] = 0
    mask[top:bottom, max(right - thick_px, 0) : right] = 0


def _corner(rectangle: Rectangle) -> int:
    """Return the maximum corner radius, from the share of its box that the rectangle leaves open."""
    return round(math.sqrt(max(1 - rectangle.fill, 0) * rectangle.box_px.area / 0.86)) + 3


def _make_frames(
    image: RgbImage,
    background: Rgb,
    rectangles: Sequence[Rectangle],
    marks: Sequence[Box],
    gradients: Mapping[Box, Gradient],
) -> list[Primitive]:
    """Return the visible rectangles: of another colour than the area below, or with a border or a gradient."""
    height, width = image.shape[:2]
    frames: list[Primitive] = []
    for each in sorted(rectangles, key=lambda rectangle: -rectangle.box_px.area):
        box = each.box_px
        if (
            box.width < _MIN_FRAME_PX[0]
            or box.height < _MIN_FRAME_PX[1]
            or any(m.padded(2).contains(box) for m in marks)
        ):
            continue
        parents = [frame for frame in frames if frame.box_px.contains(box, slack_px=1)]
        parent = min(parents, key=lambda frame: frame.box_px.area, default=None)
        under = parent.look.fill if parent is not None and parent.look.fill is not None else background
        border, border_px = _find_border(image, box, each.colour, under)
        outer = box.padded(border_px).clipped(width, height)
        gradient = gradients.get(box)
        fill = None if _is_near(each.colour, under) and gradient is None else each.colour
        if fill is None and border is None:
            continue
        if parent is not None and fill is None and parent.box_px.area < 1.1 * outer.area:
            continue
        radius = _find_radius(image, outer, under)
        look = BoxStyle(fill=fill, gradient=gradient, border=border, border_px=border_px, radius_px=radius)
        frames.append(Primitive(kind="frame", box_px=outer, look=look))
    return frames


def _find_border(image: RgbImage, box: Box, fill: Rgb, under: Rgb) -> tuple[Rgb | None, int]:
    """Find colour and thickness of a border around a box: equal on all sides, unlike inside and outside."""
    height, width = image.shape[:2]
    middle_x, middle_y = (box.left + box.right) // 2, (box.top + box.bottom) // 2
    rays = []
    for x, y, dx, dy in (
        (box.left - 1, middle_y, -1, 0), (box.right, middle_y, 1, 0),
        (middle_x, box.top - 1, 0, -1), (middle_x, box.bottom, 0, 1),
    ):  # fmt: skip
        ray = []
        for step in range(-2, 7):
            px, py = x + dx * step, y + dy * step
            if 0 <= px < width and 0 <= py < height:
                ray.append(_color(image[py, px]))
        rays.append([color for color in ray if not _is_near(color, fill)])
    colors = [ray[0] for ray in rays if ray and not _is_near(ray[0], under, 2)]
    if len(colors) < 3 or not all(_is_near(color, colors[0], 12) for color in colors):
        return None, 0
    runs = [
        next((i for i, color in enumerate(ray) if not _is_near(color, colors[0], 12)), len(ray)) for ray in rays if ray
    ]
    thick = int(np.median(runs)) if runs else 0
    return (colors[0], thick) if 1 <= thick <= 5 else (None, 0)


def _find_radius(image: RgbImage, box: Box, under: Rgb) -> int:
    """Return the corner radius: a corner of radius r leaves (1 - pi / 4) r^2 of its square open to the colour below.

    Pixels between the colour below and that of the frame's edge count in part.
    """
    reach = min(box.width // 2, box.height // 2, _MAX_RADIUS_PX)
    if reach < 2:
        return 0
    corners = (image[box.slices], image[box.slices][:, ::-1], image[box.slices][::-1], image[box.slices][::-1, ::-1])
    areas = []
    for corner in corners:
        edge = corner[0, corner.shape[1] // 2].astype(np.float64)  # the frame where its side is straight
        away = edge - np.array(under, np.float64)
        length = float(away @ away)
        if length < 3 * _SAME_COLOR**2:
            return 0
        square = corner[:reach, :reach].astype(np.float64)
        open_share = np.clip(((edge - square) @ away) / length, 0, 1)
        open_share *= np.abs(edge - square - open_share[..., None] * away).max(axis=2) <= _MAX_OFF_LINE
        open_share[open_share < 0.1] = 0
        rises = open_share > np.minimum.accumulate(open_share, axis=1) + 0.05  # the inside of a border
        open_share *= np.minimum.accumulate((open_share > 0) & ~rises, axis=1)
        open_share *= np.minimum.accumulate(open_share[:, :1] > 0, axis=0)
        areas.append(float(open_share.sum()))
    radius = math.sqrt(min(areas) / (1 - math.pi / 4))
    half = min(box.width, box.height) / 2
    if radius >= reach + 2 and half > reach:
        return 0  # the whole square is open: the frame does not reach its corner
    return round(half if radius > 0.85 * half else radius) if radius >= 1.5 else 0


def _find_thin_rules(
    image: RgbImage, ground: RgbImage, frames: Sequence[Primitive], lines: Sequence[TextLine], images: Sequence[Box]
) -> list[Primitive]:
    """Find horizontal and vertical lines of a few pixels that are not part of a frame's border."""
    cv2 = require("cv2", "visual")
    differs = (np.abs(image.astype(np.int16) - ground).max(axis=2) > 6).astype(np.uint8)
    for frame in frames:
        _clear_edges(differs, frame.box_px.padded(1), frame.look.border_px + 3)
    rules = []
    for kernel in (np.ones((1, _MIN_RULE_PX * 2), np.uint8), np.ones((_MIN_RULE_PX, 1), np.uint8)):
        runs = cv2.morphologyEx(differs, cv2.MORPH_OPEN, kernel)
        count, _, stats, _ = cv2.connectedComponentsWithStats(runs, connectivity=8)
        for left, top, width, height, _ in stats[1:count].tolist():
            box = Box(left, top, left + width, top + height)
            is_taken = any(box.intersection(line.box_px) for line in lines)
            is_taken = is_taken or any(box.intersection(each) for each in images)
            if min(width, height) <= _MAX_RULE_PX and not is_taken:
                pixels = image[top : top + height, left : left + width].reshape(-1, 3)
                rules.append(Primitive(kind="rule", box_px=box, rgb=_color(np.median(pixels, axis=0))))
    return rules


def _make_texts(image: RgbImage, lines: Sequence[TextLine], rooms: Sequence[Box]) -> list[Primitive]:
    """Return the lines with their measurements; `rooms` are the flat areas around and over them, small ones first."""
    found: list[tuple[str, Ink, Box]] = []
    for line in lines:
        room = _find_room(line.box_px, rooms, Box(0, 0, image.shape[1], image.shape[0]).padded(1))
        ink = measure_ink(image, line.box_px, room)
        if ink is not None and line.text.strip():
            found.append((line.text.strip(), ink, room))
    texts, inks = [text for text, _, _ in found], _even_colors([ink for _, ink, _ in found])
    fits = fit_fonts(texts, inks)
    usual = commonest((fit, len(text)) for text, fit in zip(texts, fits, strict=True)) if fits else None
    made = []
    for (text, _, room), ink, fit in zip(found, inks, fits, strict=True):
        runs, mixed = find_ink_runs(image, text, ink, (fit, usual or fit), room)
        made.append(_paint_runs(make_text(text, ink, mixed), runs, inks))
    return made


def _find_room(line: Box, rooms: Sequence[Box], page: Box) -> Box:
    """Return the smallest area around a line, less those that cover an end or an edge of it, such as a dialog's."""
    room = next((box for box in rooms if box.contains(line, slack_px=3)), page)
    for box in rooms:
        covered = 0 if box.contains(line, slack_px=3) else box.intersection(line)
        if 0 < covered < line.area / 2 and box.height > _MAX_INLINE * line.height:
            sides = {"right": box.left, "left": box.right, "bottom": box.top, "top": box.bottom}
            room = max((replace(room, **{side: edge}) for side, edge in sides.items()), key=line.intersection)
    return room


def _paint_runs(piece: Primitive, runs: Sequence[InkRun], inks: Sequence[Ink]) -> Primitive:
    """Return a text with the runs of its words, in colours of the page; its own colour is that of most characters."""
    if not runs:
        return piece
    shown = [run.rgb or piece.rgb for run in runs]
    colors = [next((ink.rgb for ink in inks if _is_near(ink.rgb, rgb, _SAME_INK)), rgb) for rgb in shown]
    usual = commonest((color, run.end - run.start) for color, run in zip(colors, runs, strict=True))
    other = [
        replace(run, rgb=None if color == usual else color)
        for run, color in zip(runs, colors, strict=True)
        if color != usual or piece.font is None or run.face != piece.font.face
    ]
    return replace(piece, rgb=usual, runs=tuple(other))


def _even_colors(inks: Sequence[Ink]) -> list[Ink]:
    """Unify colours that differ only by anti-aliasing of thin letters; the line with the most ink gives the colour."""
    known: list[Rgb] = []
    evened: dict[int, Ink] = {}
    for index in sorted(range(len(inks)), key=lambda index: -inks[index].box_px.height):
        rgb = next((color for color in known if _is_near(color, inks[index].rgb, _SAME_INK)), None)
        if rgb is None:
            known.append(rgb := inks[index].rgb)
        evened[index] = replace(inks[index], rgb=rgb)
    return [evened[index] for index in range(len(inks))]


def make_text(text: str, ink: Ink, fit: FontFit) -> Primitive:
    """Return a line of text with its CSS box: as high as its line height, with the baseline at the ink's."""
    of, size = measure(fit.face, text), fit.size_px
    base = ink.box_px.top - of.top * size
    above = (_LINE_HEIGHT * size - (of.ascent + of.descent) * size) / 2 + of.ascent * size
    top, left = round(base - above), round(ink.box_px.left - of.left * size)
    box = Box(left, top, max(ink.box_px.right, left + 1), top + max(round(_LINE_HEIGHT * size), 1))
    return Primitive(kind="text", box_px=box, text=text, font=fit, rgb=ink.rgb)
