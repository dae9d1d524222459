"""Find drawn figures by colour, shape and size; click, drag, count and classify them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from apps.literal.find_text import find_button, find_whole, name_nearest
from apps.literal.screen import OcrScreen, ScreenHistory, find_changed_boxes, reading_order
from apps.literal.step_outcome import Done, Failed, NotFound, RunCode, StepOutcome, StepPlans, StepView, click, drag
from apps.literal.steps import ClickFigures, DescribeFigures, DragFigures
from apps.literal.targets import COLOURS, FigureStyle, name_colours
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ink import find_background, largest_channel
from visual_tools.regions.components import find_components, trace_outline

_MIN_SIDE_PX = 5  # longer side of a figure; smaller ones are dots of text and noise
_MAX_SHARE = 0.5  # of the screen; a larger area is a panel, not a figure
_SAME = 20  # difference of a channel within one colour: anti-aliasing and JPEG stay below, shades of a palette above
_INK_STEP = 24  # contrast with the background from which pixels belong to a figure; lower values join shadows
_BLEND_STEP = 40  # difference that the mixed pixels of an edge may have from two colours
_MIN_PIXELS = 12  # of a colour; fewer are the edge of another one
_MIN_SOLID_PX = 6  # shorter side of a filled figure; thinner ones are lines
_BAR_PX = 18  # width of a scroll bar at the edge of the screen, which is no figure
_MAX_SPECK = 8  # pixels of another colour inside a figure that are no mark on it
_MIN_COVERED_PX = 20  # shorter side of a figure that others cover in part; smaller ones cannot be named safely
_MIN_UPON_PX = 12  # shorter side of a figure on another one; smaller ones are its decoration
_SIGN_PX = (6, 40)  # heights of a single letter or digit that is drawn as a figure
_MAX_BUTTON_PX = 48  # height of a button; a higher box with a mark is a figure
_MIN_MARK_PX = 9  # longer side of a hollow figure; smaller ones are letters such as "o"
_SOLID_SHARE = 0.93  # of its outline that a filled figure covers; the rest is its anti-aliased edge
_LARGE_PX = 14  # divides small from large figures where their sizes have no clear gap
_SIZE_STEP = 1.3  # ratio of neighbouring sizes that is a clear gap
_TWOFOLD = set("oO0lI1")
"""Characters that can be read as a letter or as a digit."""

_X_HEIGHT = set("acemnorsuvwxz")
_SOLID = 0.85  # of its convex hull that a shape covers; below it is a glyph or a star
_SURE = 0.6  # confidence of the OCR for a single character; lower ones are often drawn shapes
_CERTAIN = 0.9  # confidence of the OCR that a shape with a hole is a letter such as "A"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Figure drawn on the page.

    Attributes:
        box_px: Bounding box.
        colour: Fill colour, or border colour of a hollow figure, RGB.
        kind: circle, square, rectangle, triangle, polygon, frame (a hollow rectangle) or glyph.
        text: Text of a glyph.
        size_px: Height; for a glyph, the estimated font size.
        num_sides: Number of sides; 0 for circles and glyphs.
    """

    box_px: Box
    colour: tuple[int, int, int]
    kind: str
    text: str = ""
    size_px: float = 0.0
    num_sides: int = 0


def find_figures(screen: OcrScreen) -> list[Figure]:
    """Return the figures on the page in reading order, without texts, buttons and fields; each has one colour."""
    figures: list[Figure] = []
    for box, mask in _components(screen.strength > _INK_STEP):
        pixels = screen.crop(box)
        background = screen.paper[box.top, box.left]
        for part, part_mask, colour in _split_colours(pixels, mask, background):
            figure_box = part.moved(box.left, box.top)
            if _is_page(screen, figure_box) or any(
                other.kind != "frame"
                and other.box_px.padded(2).contains(figure_box)
                and (
                    min(figure_box.width, figure_box.height) < _MIN_UPON_PX or figure_box.area > 0.7 * other.box_px.area
                )
                for other in figures
            ):
                continue
            figure = _describe(screen, figure_box, part_mask, colour)
            if figure is not None:
                figures.append(figure)
    figures = [figure for figure in figures if not _is_scroll_bar(screen, figure.box_px, figures)]
    return sorted(figures, key=lambda figure: reading_order(figure.box_px))


def _is_scroll_bar(screen: OcrScreen, box: Box, figures: Sequence[Figure]) -> bool:
    """Return True if a figure is a scroll bar's thumb or arrow, in the strip of a long, thin figure at an edge."""
    for other in figures:
        long = other.box_px
        is_upright = long.right >= screen.width - _BAR_PX and long.height > 3 * long.width and long.width < _BAR_PX
        is_flat = long.bottom >= screen.height - _BAR_PX and long.width > 3 * long.height and long.height < _BAR_PX
        if (is_upright and box.left >= long.left - 4) or (is_flat and box.top >= long.top - 4):
            return True
    return False


def _split_colours(
    pixels: NDArray[np.uint8], mask: NDArray[np.bool_], background: NDArray[np.int16]
) -> list[tuple[Box, NDArray[np.bool_], tuple[int, int, int]]]:
    """Return a one-colour shape as a whole with its soft edges, or the parts of a multicolour shape, largest first."""
    difference = pixels.astype(np.int16) - background
    strength = largest_channel(np.abs(difference))
    strong = mask & (strength >= 0.8 * strength[mask].max())
    colour = np.median(pixels[strong], axis=0)
    towards = colour - background
    share = np.clip((difference @ towards) / max(float(towards @ towards), 1.0), 0, 1)
    rest = np.abs(difference - share[..., None] * towards).max(axis=2)
    whole = Box(0, 0, mask.shape[1], mask.shape[0])
    if (rest[mask] <= _BLEND_STEP).mean() > 0.9:
        most = _list_colours(pixels, mask)[:1]
        near = np.abs(pixels[mask].astype(np.int16) - np.array(most[0] if most else colour)).max(axis=1) <= _SAME
        red, green, blue = (int(value) for value in (most[0] if most and near.mean() > 0.5 else colour))
        return [(whole, mask, (red, green, blue))]
    parts = []
    for each in _list_colours(pixels, mask):
        near = mask & (largest_channel(np.abs(pixels.astype(np.int16) - np.array(each, np.int16))) <= _SAME)
        parts += [(part, part_mask, each) for part, part_mask in _components(near)]
    return sorted(parts, key=lambda part: -int(part[1].sum()))


def _list_colours(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Return the frequent colours of the pixels in a mask, most frequent first."""
    pixels = image[mask]
    if not len(pixels):
        return []
    codes = (pixels >> 4).astype(np.uint32) @ np.array([256, 16, 1], np.uint32)
    counts = np.bincount(codes, minlength=4096)
    colours: list[tuple[int, int, int]] = []
    for code in np.argsort(-counts)[:48]:
        if counts[code] < _MIN_PIXELS:
            break
        red, green, blue = (int(value) for value in np.median(pixels[codes == code], axis=0))
        if all(max(abs(red - r), abs(green - g), abs(blue - b)) > _SAME for r, g, b in colours):
            colours.append((red, green, blue))
    return colours


def _components(mask: NDArray[np.bool_]) -> list[tuple[Box, NDArray[np.bool_]]]:
    """Return the connected parts of a mask, without dots of text and noise."""
    found = find_components(mask)
    sides = (sorted((part.box_px.width, part.box_px.height)) for part in found)
    kept = [part for part, (short, long) in zip(found, sides, strict=True) if short >= 2 and long >= _MIN_SIDE_PX]
    return [(part.box_px, found.labels[part.box_px.slices] == part.label) for part in kept]


def _is_page(screen: OcrScreen, box: Box) -> bool:
    """Return True if a component is the page's frame or reaches the edge of the screen."""
    return not screen.box.padded(-1).contains(box) or box.area > _MAX_SHARE * screen.box.area


def _is_in_text(screen: OcrScreen, box: Box) -> bool:
    """Return True if a component is part of a text, or a button or field around a text."""
    for line in screen.lines:
        is_word = len(line.text) > 1 or find_button(screen, line.box_px) is not None
        if is_word and line.box_px.padded(2).contains(box):
            return True
        if is_word and box.contains(line.box_px, slack_px=2) and box.height < 4 * line.box_px.height:
            return True
    return False


def _is_letter(screen: OcrScreen, box: Box) -> bool:
    """Return True if a shape with a hole is a single letter or digit read with high confidence, such as "A"."""
    lone = (line for line in screen.lines if len(line.text) == 1 and line.text.isalnum() and line.confidence > _CERTAIN)
    return any(line.box_px.intersection(box) > 0.7 * max(line.box_px.area, box.area) for line in lone)


def _describe(screen: OcrScreen, box: Box, mask: NDArray[np.bool_], colour: tuple[int, int, int]) -> Figure | None:
    cv2 = require("cv2", "literal")
    outline = trace_outline(mask)
    filled = np.zeros(mask.shape, np.uint8)
    cv2.drawContours(filled, [outline], -1, 1, thickness=-1)
    area, own = float(filled.sum()), float(mask.sum())
    kind, num_sides = _name_shape(outline, area, box)
    figure = Figure(box_px=box, colour=colour, kind=kind, size_px=box.height, num_sides=num_sides)
    is_solid = own >= _SOLID_SHARE * area and min(box.width, box.height) >= _MIN_SOLID_PX
    if not is_solid and _is_letter(screen, box):
        return _read_glyph(screen, box, colour)
    if _is_in_text(screen, box):  # letters are not solid or simple; a figure misread as text may be
        holds_text = any(box.contains(line.box_px) for line in screen.lines)
        if not is_solid or kind == "" or holds_text or max(box.width, box.height) < _MIN_MARK_PX:
            return None
    if is_solid and box.height < _MAX_BUTTON_PX and _holds_mark(screen.crop(box), filled, colour):
        return None  # a button
    if own < 0.6 * area:  # hollow
        inner = box.padded(-max(2, min(box.width, box.height) // 6))
        inside = screen.crop(inner)
        if kind in ("square", "rectangle") and inside.size:
            red, green, blue = (int(value) for value in find_background(inside))
            fill = red, green, blue
            is_paper = max(abs(a - int(b)) for a, b in zip(fill, screen.paper[box.top, box.left], strict=True)) < 12
            if not is_paper and box.height < _MAX_BUTTON_PX and _holds_mark(screen.crop(box), filled, fill):
                return None
            if is_paper:
                return replace(figure, kind="frame")
            return replace(figure, colour=fill)
        if kind in ("circle", "triangle", "polygon") and max(box.width, box.height) > 24:
            return figure
    elif kind != "" and (is_solid or (own > 0.7 * area and min(box.width, box.height) >= _MIN_COVERED_PX)):
        return figure
    return _read_glyph(screen, box, colour)


def _holds_mark(crop: NDArray[np.uint8], filled: NDArray[np.uint8], colour: tuple[int, int, int]) -> bool:
    """Return True if a shape has something in its middle, such as a button's text or icon."""
    cv2 = require("cv2", "literal")
    inner = cv2.erode(filled, np.ones((7, 7), np.uint8), borderValue=0).astype(bool)
    apart = largest_channel(np.abs(crop.astype(np.int16) - np.array(colour, np.int16))) > 2 * _BLEND_STEP
    rows, columns = np.nonzero(apart & inner)
    if len(rows) <= _MAX_SPECK:
        return False
    height, width = filled.shape
    is_middle_x = abs((columns.min() + columns.max()) / 2 - width / 2) < 0.15 * width + 1
    return bool(is_middle_x and abs((rows.min() + rows.max()) / 2 - height / 2) < 0.2 * height + 1)


def _name_shape(outline: NDArray[np.int32], area: float, box: Box) -> tuple[str, int]:
    """Return the name of a filled outline and the number of its sides; ("", 0) if it is not a simple shape."""
    cv2 = require("cv2", "literal")
    width, height = box.width, box.height
    share = area / max(width * height, 1)
    if width >= 26 and height >= 26:
        hull = cv2.convexHull(outline)
        if cv2.contourArea(outline) < _SOLID * cv2.contourArea(hull):
            return "", 0
        corners = cv2.approxPolyDP(hull, 0.03 * cv2.arcLength(hull, True), True)
        circle = area / (np.pi * cv2.minEnclosingCircle(outline)[1] ** 2)
        if circle > 0.93 and len(corners) > 6:
            return "circle", 0
        names = {3: "triangle", 4: "square" if 0.85 < width / height < 1.18 else "rectangle"}
        return names.get(len(corners), "polygon"), len(corners)
    if share > 0.93:
        return ("square" if 0.85 <= width / height <= 1.18 else "rectangle"), 4
    if 0.72 <= share <= 0.92 and 0.88 <= width / height <= 1.14 and _has_round_corners(outline, width, height):
        return "circle", 0
    if 0.42 <= share <= 0.62 and 0.7 <= width / height <= 1.4 and _narrows(outline, height):
        return "triangle", 3
    return "", 0


def _has_round_corners(outline: NDArray[np.int32], width: int, height: int) -> bool:
    """Return True if no point of an outline lies in a corner of its bounding box."""
    points = outline - outline.min(axis=0)
    reach = max(1, round(0.12 * min(width, height)))
    near_x = (points[:, 0] < reach) | (points[:, 0] >= width - reach)
    near_y = (points[:, 1] < reach) | (points[:, 1] >= height - reach)
    return not bool((near_x & near_y).any())


def _narrows(outline: NDArray[np.int32], height: int) -> bool:
    """Return True if a shape widens steadily from top to bottom or from bottom to top."""
    rows = range(int(outline[:, 1].min()), int(outline[:, 1].max()) + 1)
    widths = [float(np.ptp(outline[outline[:, 1] == row, 0])) for row in rows]
    steps = np.sign(np.diff([np.mean(part) for part in np.array_split(np.array(widths), 4)]))
    return bool(height >= 4 and (np.all(steps > 0) or np.all(steps < 0)))


def _read_glyph(screen: OcrScreen, box: Box, colour: tuple[int, int, int]) -> Figure | None:
    """Read a single letter or digit: text is "" if it is unreadable; None if the size does not fit a glyph."""
    if box.height > 60 or box.width > 1.8 * box.height:
        return None
    if min(box.width, box.height) < 2 or max(box.width, box.height) < _MIN_SIDE_PX:
        return None
    text, confidence = _read_sign(screen, box)
    text = text.strip('"')
    if len(text) != 1 or not text.isalnum() or confidence < _SURE:
        return Figure(box_px=box, colour=colour, kind="glyph", size_px=box.height * 1.35)
    ratio = 1.9 if text in _X_HEIGHT else 1.35
    return Figure(box_px=box, colour=colour, kind="glyph", text=text, size_px=box.height * ratio)


def _read_sign(screen: OcrScreen, box: Box) -> tuple[str, float]:
    crop = screen.crop(box.padded(max(3, box.height // 2), max(2, box.height // 4)))
    text, confidence = screen.engine.read_crop(crop, scale=max(1.0, 30 / box.height), is_latin=True)
    return text.strip(" .,'`-_|"), confidence


def find_signs(screen: OcrScreen, char: str) -> list[Box]:
    """Find a single letter, digit or sign on any background, which the text detector may miss."""
    signs: list[Box] = []
    everything = np.ones(screen.image.shape[:2], bool)
    for colour in _list_colours(screen.image, everything):
        near = largest_channel(np.abs(screen.image.astype(np.int16) - np.array(colour, np.int16))) <= 2 * _SAME
        for box, mask in _components(near):
            if not _SIGN_PX[0] <= box.height <= _SIGN_PX[1] or box.width > 1.5 * box.height or mask.mean() > 0.8:
                continue
            if any(box.intersection(known) > 0.3 * box.area for known in signs) or _is_in_text(screen, box):
                continue
            text, confidence = _read_sign(screen, box)
            if text == char and confidence > _SURE:
                signs.append(box)
    return signs


def pick_figures(figures: Sequence[Figure], looks: FigureStyle, paper: Collection[str] = ()) -> list[Figure]:
    """Return the figures that match a description, in reading order.

    Args:
        figures: All figures on the screen.
        looks: Description to match.
        paper: Names of the page's background colour, which a frame's inside has.
    """
    sized = _split_sizes(figures)
    return [
        figure
        for figure in figures
        if (not looks.kind or _is_kind(figure, looks.kind))
        and (not looks.glyph or figure.text.casefold() == looks.glyph.casefold())
        and (
            not looks.colour
            or looks.colour in name_colours(figure.colour)
            or (figure.kind == "frame" and looks.colour in paper)
        )
        and (not looks.size or sized[figures.index(figure)] == looks.size)
    ]


def has_ambiguous_glyph(figures: Sequence[Figure], looks: FigureStyle) -> bool:
    """Return True if an unreadable or ambiguous glyph may match the description."""
    if not (looks.kind or looks.glyph) or looks.kind in ("item", "box"):
        return False
    is_sign = looks.kind in ("letter", "digit")
    sizes = _split_sizes(figures)
    return any(
        figure.kind == "glyph"
        and (not figure.text or (is_sign and figure.text in _TWOFOLD))
        and (not looks.size or sizes[index] == looks.size)
        and (not looks.colour or looks.colour in name_colours(figure.colour))
        for index, figure in enumerate(figures)
    )


def nearest_in_colour(figures: Sequence[Figure], colour: str) -> Figure:
    """Return the figure whose colour is closest to the named CSS colour; the first figure if no colour is given."""
    wanted = COLOURS.get(colour, (0, 0, 0))
    if not colour:
        return figures[0]
    return min(figures, key=lambda figure: sum(abs(a - b) for a, b in zip(figure.colour, wanted, strict=True)))


_KINDS = {
    "item": {"circle", "square", "rectangle", "triangle", "polygon", "glyph"},
    "shape": {"circle", "square", "rectangle", "triangle", "polygon"},
    "box": {"square", "rectangle", "frame"},
    "rectangle": {"square", "rectangle"},
}
"""Kinds of figures that a word means, if not its own alone."""


def _is_kind(figure: Figure, kind: str) -> bool:
    if kind in ("letter", "digit"):
        return figure.text.isalpha() if kind == "letter" else figure.text.isdigit()
    return figure.kind in _KINDS.get(kind, {kind})


def _split_sizes(figures: Sequence[Figure]) -> list[str]:
    """Return "small" or "large" for each figure, split at the largest gap between sizes or else at a fixed limit."""
    sizes = sorted(figure.size_px for figure in figures)
    gaps = [(other / size, (size + other) / 2) for size, other in pairwise(sizes)]
    widest = max(gaps, default=(1.0, 0.0))
    limit = widest[1] if widest[0] >= _SIZE_STEP else float(_LARGE_PX)
    return ["large" if figure.size_px > limit else "small" for figure in figures]


_MAX_PRESSED = 60  # figures that one step clicks; bounds the step
_MAX_DRAGS = 30  # drags of one figure; bounds the step
_DRAG_SHARE = (
    0.15  # of the shorter side of the screen that one drag moves: far enough to be seen, near enough to stay inside
)
_INSET_PX = 6  # distance from the edge that a dragged figure keeps


def plan_click_figures(step: ClickFigures, view: StepView) -> StepOutcome:
    """Click the figure that matches, or the next one if all are to be clicked."""
    screen = view.now
    if step.phrase and not view.progress.phases:
        named = find_whole(screen, step.phrase)
        if named:
            return click(screen, named[0].point, f'"{step.phrase}" is visible.')
    figures = find_figures(screen)
    matches = _pick(screen, figures, step.looks)
    if (step.is_all or not matches) and has_ambiguous_glyph(figures, step.looks):
        return Failed(f"some characters cannot be read, and one of them may match: {step.looks}")
    if not matches:
        return NotFound(
            what=f"a figure that looks like: {step.looks}", nearest=tuple(name_nearest(screen, step.phrase))
        )
    if step.is_only and len(matches) != 1:
        return Failed(f"found {len(matches)} figures, expected exactly one {step.phrase}")
    if not step.is_all:
        chosen = nearest_in_colour(matches, step.looks.colour)
        return click(screen, chosen.box_px.center, f"Found {len(matches)} matching figures.")
    pressed = view.progress.count("part")
    if pressed >= len(matches) or pressed >= _MAX_PRESSED:
        return Done(f"I clicked all {pressed} of them.")
    return click(screen, matches[pressed].box_px.center, f"Found {len(matches)} matching figures.", "part")


def _pick(screen: OcrScreen, figures: list[Figure], looks: FigureStyle) -> list[Figure]:
    exact = pick_figures(figures, looks)
    if exact or looks.kind not in ("box", "square", "rectangle"):
        return exact
    red, green, blue = (int(value) for value in screen.page_colour)
    return pick_figures(figures, looks, paper=name_colours((red, green, blue)))


def plan_drag_figures(step: DragFigures, view: StepView) -> StepOutcome:
    """Drag a figure once in a direction, or drag each matching figure into the box until none is outside."""
    screen = view.now
    figures = find_figures(screen)
    drags = view.progress.count("part")
    if step.direction:
        return _drag_aside(step, view.sight, drags)
    if step.box == "larger":
        return _drag_into_larger(step, view.sight, drags)
    box = _find_box(figures, step.box)
    if box is None:
        return NotFound(what=f"the {step.box} box", nearest=())
    frames = [figure.box_px for figure in figures if figure.kind == "frame"]
    loose = [
        figure
        for figure in figures
        if figure.kind != "frame" and not any(_is_inside(figure, frame) for frame in frames)
    ]
    meant = pick_figures(loose, step.looks)
    wanted = [figure for figure in loose if (figure in meant) != step.is_others]
    if not wanted:
        inside = [figure for figure in figures if figure.kind != "frame" and _is_inside(figure, box)]
        if not drags and not inside:
            return NotFound(what=f"figures that look like: {step.looks}", nearest=())
        return Done(f"None of them is outside the box; I dragged {drags}.")
    has_moved = view.before is None or bool(find_changed_boxes(view.before, screen))
    if drags >= _MAX_DRAGS or (drags and not has_moved):
        return Failed(f"{step}: the figures do not stay in the box")
    return _drag(screen, wanted[0], box.center, f"{len(wanted)} of them are outside the box.")


def _is_inside(figure: Figure, box: Box) -> bool:
    return box.has_point(*figure.box_px.center)


def _find_box(figures: list[Figure], description: str) -> Box | None:
    frames = [figure for figure in figures if figure.kind == "frame"]
    if description in ("left", "right"):
        ordered = sorted(frames, key=lambda figure: figure.box_px.left)
        return ordered[0 if description == "left" else -1].box_px if len(ordered) > 1 else None
    if description:
        frames = [figure for figure in frames if description in name_colours(figure.colour)]
    return frames[0].box_px if len(frames) == 1 else None


def _drag(screen: OcrScreen, figure: Figure, end: tuple[float, float], thought: str) -> RunCode:
    return RunCode(code=drag(screen, figure.box_px.center, end), thought=thought, phase="part")


def _pick_movable(screen: OcrScreen, looks: FigureStyle) -> list[Figure]:
    """Return the figures that match; "the item" may also be a frame if there is nothing else."""
    figures = find_figures(screen)
    return pick_figures(figures, looks) or (figures if looks == FigureStyle(kind="item") else [])


def _drag_aside(step: DragFigures, sight: ScreenHistory, drags: int) -> StepOutcome:
    """Drag one figure in a direction by a limited distance, then check that it moved."""
    screen = sight.now
    matches = _pick_movable(screen, step.looks)
    if len(matches) != 1:
        return Failed(f"found {len(matches)} figures that look like: {step.looks}; expected one")
    x, y = matches[0].box_px.center
    sign_x, sign_y = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}[step.direction]
    if drags:
        before = _pick_movable(sight.before, step.looks) if sight.before is not None else []
        was_x, was_y = before[0].box_px.center if before else (x, y)
        if (x - was_x) * sign_x + (y - was_y) * sign_y > 2:
            return Done("It moved in that direction.")
        return Failed("the figure did not move")
    half_x, half_y = matches[0].box_px.width / 2 + _INSET_PX, matches[0].box_px.height / 2 + _INSET_PX
    reach = _DRAG_SHARE * min(screen.width, screen.height)
    end_x = min(max(x + sign_x * reach, half_x), screen.width - half_x)
    end_y = min(max(y + sign_y * reach, half_y), screen.height - half_y)
    return _drag(screen, matches[0], (end_x, end_y), "I drag it.")


def _drag_into_larger(step: DragFigures, sight: ScreenHistory, drags: int) -> StepOutcome:
    """Drag the smaller of two boxes to the centre of the larger one."""
    screen = sight.now
    boxes = sorted(pick_figures(find_figures(screen), FigureStyle(kind="box")), key=lambda figure: figure.box_px.area)
    if drags:
        if len(boxes) == 2 and boxes[1].box_px.contains(boxes[0].box_px):
            return Done("It is inside.")
        return Failed("the smaller box is not inside the larger one")
    if len(boxes) != 2 or boxes[0].box_px.area >= 0.8 * boxes[1].box_px.area:
        return Failed(f"found {len(boxes)} boxes, expected a smaller and a larger one")
    return _drag(screen, boxes[0], boxes[1].box_px.center, "I drag the smaller one onto the larger one.")


def plan_describe_figures(step: DescribeFigures, view: StepView) -> StepOutcome:
    """Press the button with the answer, or return the answer."""
    screen = view.now
    figures = find_figures(screen)
    if step.what == "count":
        if has_ambiguous_glyph(figures, step.looks):
            return Failed("some characters cannot be read, so the count is unknown")
        answers = [str(len(_pick(screen, figures, step.looks)))]
    else:
        if step.what == "sides":
            figures = [figure for figure in figures if figure.kind != "glyph"]
        if len(figures) != 1:
            return Failed(f"found {len(figures)} figures, expected one")
        answers = _names_of(figures[0]) if step.what == "name" else [str(figures[0].num_sides)]
    if not answers or (answers == ["0"] and step.what == "sides"):
        return Failed("the figure could not be classified")
    for answer in answers:
        buttons = [hit for hit in find_whole(screen, answer) if hit.button is not None]
        if buttons:
            return click(screen, buttons[0].point, f"{step}: {answer}. I click the button with this text.")
    if step.what == "count":
        return RunCode(code=("time.sleep(0.1)",), thought=f"{step}: {answers[0]}", answer=answers[0])
    return NotFound(
        what=f"a button with the text {' or '.join(answers)}", nearest=tuple(name_nearest(screen, answers[0]))
    )


def _names_of(figure: Figure) -> list[str]:
    if figure.kind == "glyph":
        return (["Number", "Digit"] if figure.text.isdigit() else ["Letter"]) if figure.text else []
    return {"square": ["Square", "Rectangle"], "frame": ["Rectangle", "Square"]}.get(
        figure.kind, [figure.kind.capitalize()]
    )


PLANS: StepPlans = {
    ClickFigures: plan_click_figures,
    DragFigures: plan_drag_figures,
    DescribeFigures: plan_describe_figures,
}
