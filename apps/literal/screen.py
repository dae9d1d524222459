"""Contents of a screen, and its changes since an earlier one."""

import difflib
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from apps.literal.text_match import alphanumeric
from visual_tools.box import Box
from visual_tools.errors import require
from visual_tools.ink import find_background, find_ink, find_runs, largest_channel, measure_contrast, read_sign
from visual_tools.ocr import OcrEngine, TextLine, shared_engine
from visual_tools.regions.components import find_components
from visual_tools.widgets import Rectangle, find_dialog, find_rectangles, find_toggles, without_carets

_NUM_REMEMBERED = 4
_DIMMED_CONTRAST = 185
_PANEL_SHARE = 0.15
_MIN_PAGE_SHARE = 0.25
_GROUND_SHARE = 0.15
_MAX_STRAY = 0.01
_SCROLL_BAR_PX = 18
_HEADING_RATIO = 1.3
_HOME_RATIO = 0.75
_SIDES = "[]|(){}"
_SIDE_PX = 5
_LINE_GAP_PX = 3
_MAX_LINE_SHARE = 0.75
_MIN_SIDE = 0.8
_LESS_SURE = 0.02
_RING_PX = 4
RINGS = frozenset("O0oQDC口□○◯☐[(")
"""Characters as which OCR reads the ring or box of a button in front of its label."""

_RING_GAP_PX, _RING_GAP_SHARE = 3, 0.25
"""Least gap between a ring and its label, in pixels and in heights of the line: letters are closer together."""

_MIN_LABEL = 3
_SURE = 0.9
_FRAME_SHARE = 0.85


@dataclass(eq=False)
class OcrScreen:
    """Image with the elements found on it; all boxes are in its pixels.

    Attributes:
        image: (H, W, 3) uint8 RGB, without a text caret after a letter.
        lines: Lines of text, top to bottom.
        rectangles: Flat regions, smallest first.
    """

    image: NDArray[np.uint8] = field(repr=False)
    engine: OcrEngine = field(repr=False)
    lines: list[TextLine]
    rectangles: list[Rectangle]
    _closer: dict[Box, TextLine] = field(default_factory=dict, init=False, repr=False)

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self.image.shape[1])

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self.image.shape[0])

    @property
    def box(self) -> Box:
        """Box of the whole image."""
        return Box(0, 0, self.width, self.height)

    @cached_property
    def boxes(self) -> list[Box]:
        """Boxes of the rectangles, smallest first."""
        return [rectangle.box_px for rectangle in self.rectangles]

    @cached_property
    def page(self) -> Box:
        """Box of the page, without plain margins beside a narrow page."""
        is_ground = (self.image == find_background(self.image)).all(axis=2)
        runs = find_runs(is_ground.mean(axis=0) < _GROUND_SHARE)
        left, right = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
        if right - left < _MIN_PAGE_SHARE * self.width or is_ground[:, left:right].mean() > _GROUND_SHARE:
            return self.box
        beside = is_ground[: self.height - _SCROLL_BAR_PX, : self.width - _SCROLL_BAR_PX].copy()
        beside[:, left:right] = True
        is_plain = beside.size and (~beside).sum() <= _MAX_STRAY * (~is_ground[:, left:right]).sum()
        return Box(left, 0, right, self.height) if is_plain else self.box

    @property
    def page_colour(self) -> NDArray[np.uint8]:
        """Most frequent colour of the page, RGB."""
        return find_background(self.crop(self.page))

    @cached_property
    def paper(self) -> NDArray[np.int16]:
        """Background colour of each pixel, (H, W, 3): the page's, or that of a large panel."""
        paper = np.empty(self.image.shape, np.int16)
        paper[:] = find_background(self.image)
        paper[:, self.page.left : self.page.right] = self.page_colour
        for rectangle in sorted(self.rectangles, key=lambda rectangle: -rectangle.box_px.area):
            box = rectangle.box_px
            if box.area < _PANEL_SHARE * self.width * self.height:
                break
            paper[box.top : box.bottom, box.left : box.right] = rectangle.colour
        return paper

    @cached_property
    def strength(self) -> NDArray[np.int16]:
        """Difference of each pixel from the background, (H, W), 0 to 255."""
        return largest_channel(np.abs(self.image.astype(np.int16) - self.paper))

    @cached_property
    def dialog(self) -> Box | None:
        """Panel in the middle of a page whose other texts are all dimmed, if any."""
        panel = find_dialog(self.image, self.rectangles)
        if panel is None:
            return None
        inside = [line for line in self.lines if panel.contains(line.box_px)]
        outside = [line for line in self.lines if panel.intersection(line.box_px) == 0]
        is_dimmed = len(outside) > 1 and all(self.contrast(line.box_px) < _DIMMED_CONTRAST for line in outside)
        is_clear = any(self.contrast(line.box_px) >= _DIMMED_CONTRAST for line in inside)
        return panel if is_dimmed and is_clear else None

    @cached_property
    def glyph_lines(self) -> list[TextLine]:
        """Texts in small rectangles that the detector missed, such as single characters on a calculator's keys."""
        glyphs = []
        for rectangle in self.rectangles:
            box = rectangle.box_px
            if box.height > 120 or box.width > 240 or box.height < 12 or self.lines_in(box):
                continue
            line = self._read_glyph(box)
            if line is not None:
                glyphs.append(line)
        return glyphs

    @cached_property
    def text_height_px(self) -> float:
        """Median height of the lines of text in pixels; 0 if there are none."""
        heights = sorted(line.box_px.height for line in self.lines)
        return float(heights[len(heights) // 2]) if heights else 0.0

    def is_large(self, box: Box) -> bool:
        """Return True if a text is larger than most, as headings are."""
        return len(self.lines) > 1 and box.height >= _HEADING_RATIO * self.text_height_px

    def contrast(self, box: Box) -> int:
        """Return the largest difference between a text and its background, 0 to 255."""
        return measure_contrast(self.crop(box.padded(2)))

    def lines_in(self, box: Box) -> list[TextLine]:
        """Return the lines whose centre lies in a box."""
        return [line for line in self.lines if box.has_point(*line.box_px.center)]

    def crop(self, box: Box) -> NDArray[np.uint8]:
        """Return the pixels of a box."""
        inside = box.clipped(self.width, self.height)
        return self.image[inside.top : inside.bottom, inside.left : inside.right]

    def read_closer(self, line: TextLine) -> TextLine:
        """Return a line as read at twice its size, or unchanged if that reading is less certain."""
        box = line.box_px
        if box not in self._closer:
            self._closer[box] = _read_again(line, box, self.image, self.engine)
        return self._closer[box]

    def _read_glyph(self, box: Box) -> TextLine | None:
        inner = box.padded(-2)
        ink = find_ink(self.crop(inner))
        bounds = find_bounds(ink)
        if bounds is None or ink.any(axis=1).sum() > 60:
            return None
        tight = bounds.moved(inner.left, inner.top)
        sign = read_sign(ink)
        if sign:
            return _line(sign, tight, 0.9)
        pad = max(4, min(tight.height // 2, (inner.height - tight.height) // 2 + 2))
        crop = self.crop(tight.padded(pad + 2, pad))
        text, confidence = self.engine.read_crop(crop, scale=2.0)
        if not text.isascii() and tight.width < 2 * tight.height:
            text, confidence = self.engine.read_crop(crop, scale=2.0, is_latin=True)
        if not text or confidence < 0.5 or len(text) > 12:
            return None
        return _line(text, tight, confidence)


def find_bounds(mask: NDArray[np.bool_]) -> Box | None:
    """Return the smallest box around the pixels of a mask; None if it has none."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1) if rows.size else None


def innermost(boxes: Sequence[Box]) -> list[Box]:
    """Return the boxes that contain no other one."""
    return [box for box in boxes if not any(other != box and box.contains(other) for other in boxes)]


def reading_order(box: Box) -> tuple[int, int]:
    """Return a sort key of boxes: rows of eight pixels, then the left side."""
    return round(box.center[1] / 8), box.left


def _line(text: str, box: Box, confidence: float) -> TextLine:
    step = box.width / len(text)
    chars = tuple((box.left + index * step, box.left + (index + 1) * step) for index in range(len(text)))
    return TextLine(text=text, box_px=box, confidence=confidence, char_x_px=chars)


_screens: OrderedDict[bytes, OcrScreen] = OrderedDict()
_screens_lock = threading.Lock()


def read_screen(encoded: bytes, engine: OcrEngine | None = None) -> OcrScreen:
    """Read an encoded image; the last few results are cached.

    Raises:
        ValueError: If the bytes are not an image.
    """
    key = hashlib.blake2b(encoded, digest_size=16).digest()
    with _screens_lock:
        known = _screens.get(key)
        if known is not None:
            _screens.move_to_end(key)
            return known
    image = without_carets(decode_image(encoded))
    reader = engine or shared_engine()
    rectangles = find_rectangles(image)
    split_lines = split_at_rectangles(reader.read_text(image), rectangles)
    unframed = (_without_frame(_without_ring(line, image), image, reader) for line in split_lines)
    lines = [_without_side(line, rectangles, image, reader) for line in unframed]
    screen = OcrScreen(image=image, engine=reader, lines=lines, rectangles=rectangles)
    with _screens_lock:
        _screens[key] = screen
        if len(_screens) > _NUM_REMEMBERED:
            _screens.popitem(last=False)
    return screen


def decode_image(data: bytes) -> NDArray[np.uint8]:
    """Decode PNG, JPEG or WebP bytes to (H, W, 3) uint8 RGB.

    Raises:
        ValueError: If the bytes are not an image.
    """
    cv2 = require("cv2", "literal")
    decoded = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise ValueError("the screenshot is not a PNG, JPEG or WebP image")
    image: NDArray[np.uint8] = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
    return image


def _without_side(line: TextLine, rectangles: list[Rectangle], image: NDArray[np.uint8], engine: OcrEngine) -> TextLine:
    """Reread a label without the adjoining, taller side of its field."""
    box = line.box_px
    if line.angle_deg:
        return line
    fields = (each.box_px for each in rectangles if each.box_px.overlap_y(box) > 0.7 * box.height)
    sides = [field for field in fields if _MIN_SIDE * box.height < field.height < 3 * box.height]
    ends = [side.left - _RING_PX for side in sides if box.center[0] < side.left <= box.right + 1]
    starts = [side.right + _RING_PX for side in sides if box.left - 1 <= side.right < box.center[0]]
    left, right = max(starts, default=box.left), min(ends, default=box.right)
    inside = Box(left, box.top, right, box.bottom)
    if inside.width < 4 or box.width - inside.width > box.height:
        return line
    rows = find_runs(find_ink(image[box.top : box.bottom, left:right]).any(axis=1), max_gap=_LINE_GAP_PX)
    if len(rows) != 1 or rows[0][1] - rows[0][0] > _MAX_LINE_SHARE * box.height:
        return line
    return _read_again(line, Box(left, box.top + rows[0][0], right, box.top + rows[0][1]), image, engine)


def _without_ring(line: TextLine, image: NDArray[np.uint8]) -> TextLine:
    """Drop the ring or box of a button that was read as the first letter of its label; it is separated by a gap."""
    box = line.box_px.clipped(image.shape[1], image.shape[0])
    if line.angle_deg or len(line.text) < _MIN_LABEL or line.text[0] not in RINGS:
        return line
    runs = find_runs(find_ink(image[box.top : box.bottom, box.left : box.right]).any(axis=0))
    if len(runs) < 2 or runs[1][0] - runs[0][1] < max(_RING_GAP_PX, _RING_GAP_SHARE * box.height):
        return line
    first = Box(box.left + runs[0][0], box.top, box.left + runs[0][1], box.bottom)
    near = first.padded(2).clipped(image.shape[1], image.shape[0])
    is_toggle = bool(find_toggles(image[near.top : near.bottom, near.left : near.right]))
    return line.part(1, len(line.text)) if is_toggle else line


def _without_frame(line: TextLine, image: NDArray[np.uint8], engine: OcrEngine) -> TextLine:
    """Reread an uncertain text without the table lines around it."""
    box = line.box_px.clipped(image.shape[1], image.shape[0])
    if line.angle_deg or line.confidence >= _SURE:
        return line
    ink = find_ink(image[box.top : box.bottom, box.left : box.right])
    columns, rows = (find_runs(ink.mean(axis=axis) < _FRAME_SHARE) for axis in (0, 1))
    if not columns or not rows:
        return line
    (left, right), (top, bottom) = (max(runs, key=lambda run: run[1] - run[0]) for runs in (columns, rows))
    inside = Box(box.left + left, box.top + top, box.left + right, box.top + bottom).padded(-1)
    is_framed = right - left < box.width and bottom - top < box.height  # a letter has no row of ink over its full width
    if not is_framed or inside.width < 4 or inside.height < 6:
        return line
    text, confidence = engine.read_crop(image[inside.top : inside.bottom, inside.left : inside.right], scale=2.0)
    return _line(text, inside, confidence) if text and confidence > line.confidence else line


def _read_again(line: TextLine, tight: Box, image: NDArray[np.uint8], engine: OcrEngine) -> TextLine:
    """Read a box at twice its size and return the result if it is as certain as the line was."""
    near = tight.padded(3).clipped(image.shape[1], image.shape[0])
    text, confidence = engine.read_crop(image[near.top : near.bottom, near.left : near.right], scale=2.0)
    is_whole = len(text) >= len(line.text) - 1
    return _line(text, tight, confidence) if is_whole and confidence >= line.confidence - _LESS_SURE else line


def split_at_rectangles(lines: list[TextLine], rectangles: list[Rectangle]) -> list[TextLine]:
    """Split lines that cross the edge of a rectangle, such as neighbouring buttons, tabs or cells."""
    boxes = [rectangle.box_px for rectangle in rectangles if rectangle.box_px.height < 200]
    parts = (part for line in lines for part in _split_line(line, boxes))
    return [trimmed for part in parts for trimmed in _without_border(part, boxes)]


def _without_border(line: TextLine, boxes: list[Box]) -> list[TextLine]:
    """Strip brackets or bars at a line's ends that are sides of a rectangle; return [] if nothing is left."""
    start, end = 0, len(line.text)
    while start < end and (line.text[start].isspace() or _is_side(line, start, boxes)):
        start += 1
    while end > start and (line.text[end - 1].isspace() or _is_side(line, end - 1, boxes)):
        end -= 1
    if (start, end) == (0, len(line.text)):
        return [line]
    return [line.part(start, end)] if end > start else []


def _is_side(line: TextLine, index: int, boxes: list[Box]) -> bool:
    if line.text[index] not in _SIDES:
        return False
    left, right = line.char_x_px[index]
    return any(
        left - _SIDE_PX <= side <= right + _SIDE_PX and box.overlap_y(line.box_px) > 0.5 * line.box_px.height
        for box in boxes
        for side in (box.left, box.right)
    )


def _split_line(line: TextLine, boxes: list[Box]) -> list[TextLine]:
    words = line.words
    homes = [_home(box, boxes) for _, box in words]
    if len(set(homes)) < 2:
        return [line]
    parts, start, position = [], 0, 0
    for index, (word, _) in enumerate(words):
        begin = line.text.index(word, position)
        if index and homes[index] != homes[index - 1]:
            parts.append(line.part(start, position))
            start = begin
        position = begin + len(word)
    return [*parts, line.part(start, position)]


def _home(box: Box, boxes: list[Box]) -> int:
    x, y = box.center
    return next(
        (index for index, home in enumerate(boxes) if home.has_point(x, y) and home.height > _HOME_RATIO * box.height),
        -1,
    )


@dataclass(eq=False)
class ScreenHistory:
    """Most recent screenshots, read on demand.

    Attributes:
        images: Encoded images, oldest first; the last one is the current screen.
        has_news: True if the environment reports something that the image does not show, such as a download.
        is_stuck: True if the last two images are equal except for a caret or a clock.
    """

    images: tuple[bytes, ...]
    has_news: bool = False
    is_stuck: bool = False

    @cached_property
    def now(self) -> OcrScreen:
        """Current screen."""
        return read_screen(self.images[-1])

    def back(self, count: int) -> OcrScreen | None:
        """Return the screen `count` actions ago, or None if it is no longer in the history."""
        return read_screen(self.images[-1 - count]) if len(self.images) > count else None

    @property
    def before(self) -> OcrScreen | None:
        """Screen on which the last action was executed."""
        return self.back(1)


_STEP = 24
_REACH_PX = 7
_CARET_PX = (3, 48)
_SAME_RATIO = 0.85
_NEARLY_RATIO = 0.6
_CHANGE_RING_PX = 7
_RIM_PX = 5
_SHORT = 8


def find_changed_boxes(before: OcrScreen, now: OcrScreen) -> list[Box]:
    """Return the boxes in which the images differ, with close pixels merged and without a blinking caret.

    Images of different sizes differ everywhere.
    """
    if before.image.shape != now.image.shape:
        return [now.box]
    cv2 = require("cv2", "literal")
    changed = (largest_channel(cv2.absdiff(before.image, now.image)) > _STEP).astype(np.uint8)
    merged = cv2.dilate(changed, np.ones((_REACH_PX, _REACH_PX), np.uint8))
    boxes = [component.box_px.padded(-(_REACH_PX // 2)) for component in find_components(merged)]
    return [box for box in boxes if box.width > _CARET_PX[0] or box.height > _CARET_PX[1]]


def has_changed_inside(before: OcrScreen, now: OcrScreen, box: Box) -> bool:
    """Return True if something other than a caret changed inside a box, without its border."""
    inner = box.padded(-3).clipped(min(before.width, now.width), min(before.height, now.height))
    return inner.area > 0 and not _is_caret(before.crop(inner), now.crop(inner))


def find_changed_regions(before: OcrScreen, now: OcrScreen, pressed: Box | None) -> list[Box]:
    """Return the changes after an action, except the look of the clicked element, a focus ring and a caret.

    Args:
        before: Screen on which the action was executed.
        now: Screen after it.
        pressed: Box that was clicked; it may look pressed or hovered.
    """
    frames = [*before.boxes, *now.boxes]
    return [
        box
        for box in find_changed_boxes(before, now)
        if not (pressed is not None and pressed.padded(10).contains(box)) and not _is_ring(before, now, box, frames)
    ]


def _is_ring(before: OcrScreen, now: OcrScreen, box: Box, frames: list[Box]) -> bool:
    """Return True if a change surrounds a rectangle (a field gaining or losing focus) but is not inside it."""
    for frame in frames:
        if min(frame.width, frame.height) <= 2 * _RIM_PX or not frame.padded(_CHANGE_RING_PX).contains(box):
            continue
        inner = frame.padded(-_RIM_PX)
        if box.intersection(inner) == 0:
            return True
        seen = inner.clipped(now.width, now.height)
        if seen.area <= 0:
            continue
        if box.contains(inner) and _is_caret(before.crop(seen), now.crop(seen)):
            return True
    return False


def _is_caret(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> bool:
    """Return True if two crops are equal, or differ by no more than a caret."""
    changed = np.abs(before.astype(np.int16) - now.astype(np.int16)).max(axis=2) > _STEP
    columns = np.flatnonzero(changed.any(axis=0))
    return columns.size == 0 or int(np.ptp(columns)) < _CARET_PX[0]


def find_new_lines(before: OcrScreen, now: OcrScreen) -> list[TextLine]:
    """Return the lines of text that are nowhere on the earlier screen."""
    texts = [alphanumeric(line.text) for line in before.lines]
    joined = "".join(texts)
    return [line for line in now.lines if not _is_known(alphanumeric(line.text), texts, joined)]


def fraction_kept(before: OcrScreen, now: OcrScreen, spared: Box | None = None) -> float:
    """Return the fraction of earlier lines that are still there, 0 to 1; 1 if there were none.

    Args:
        before: Earlier screen.
        now: Later screen.
        spared: Box of a text to ignore, such as the clicked button.
    """
    texts = [alphanumeric(line.text) for line in now.lines]
    joined = "".join(texts)
    shown_texts = [line.text.casefold() for line in now.lines]
    counted = [line for line in before.lines if spared is None or not spared.has_point(*line.box_px.center)]
    kept = [_is_kept(line.text, texts, joined, shown_texts) or _is_misread(line, now) for line in counted]
    return sum(kept) / len(kept) if kept else 1.0


def _is_kept(text: str, texts: list[str], joined: str, shown_texts: list[str]) -> bool:
    """Return True if a text is still shown as a line or as words of another line, not as letters of other words."""
    words = alphanumeric(text)
    if 0 < len(words) <= _SHORT and words not in texts:
        return any(re.search(rf"\b{re.escape(text.casefold())}\b", other) for other in shown_texts)
    return _is_known(words, texts, joined)


def _is_misread(line: TextLine, now: OcrScreen) -> bool:
    """Return True if a line is at its old position with nearly the same letters."""
    here = (other for other in now.lines if other.box_px.has_point(*line.box_px.center))
    return any(
        difflib.SequenceMatcher(None, alphanumeric(line.text), alphanumeric(other.text), autojunk=False).ratio()
        >= _NEARLY_RATIO
        for other in here
    )


def _is_known(text: str, texts: list[str], joined: str) -> bool:
    if not text or text in texts or (len(text) > 3 and text in joined):
        return True
    return len(text) > 5 and any(
        abs(len(text) - len(other)) <= 0.2 * len(text)
        and difflib.SequenceMatcher(None, text, other, autojunk=False).ratio() >= _SAME_RATIO
        for other in texts
    )
