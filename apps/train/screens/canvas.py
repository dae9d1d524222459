"""Drawing on an array of pixels: boxes with round corners, lines, text, and the pointer."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from apps.train.screens.fonts import SizedFont

Color = tuple[int, int, int]
Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are exclusive."""


class DrawnLetter(NamedTuple):
    """A drawn letter; a page has hundreds, so the class is cheap to construct.

    Attributes:
        text: The character.
        x: Horizontal centre of its ink, in pixels.
        y: Vertical centre of its ink, in pixels.
        read_at: Centre of the text that it belongs to.
        from_end: Number of letters that follow it in that text.
    """

    text: str
    x: float
    y: float
    read_at: tuple[float, float] = (0.0, 0.0)
    from_end: int = 0


class PixelCanvas:
    """An image to draw on.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        color: Background colour.
    """

    def __init__(self, width: int, height: int, color: Color) -> None:
        self.pixels = np.empty((height, width, 3), np.uint8)
        self._rows = self.pixels.reshape(height, -1)  # the same memory: whole rows are copied faster than triples
        self.fill((0, 0, width, height), color)
        self.letters: list[DrawnLetter] = []

    @property
    def width(self) -> int:
        """Width in pixels."""
        return self.pixels.shape[1]

    @property
    def height(self) -> int:
        """Height in pixels."""
        return self.pixels.shape[0]

    def copy(self) -> "PixelCanvas":
        """Return a copy that can be drawn on."""
        new = PixelCanvas.__new__(PixelCanvas)
        new.pixels = self.pixels.copy()
        new._rows = new.pixels.reshape(self.height, -1)
        new.letters = list(self.letters)
        return new

    def fill(self, box: Box, color: Color) -> None:
        """Draw a box with sharp corners, clipped to the image."""
        left, top, right, bottom = (max(edge, 0) for edge in box)
        right = min(right, self.width)
        if left < right:
            row = np.frombuffer(bytes(color) * (right - left), np.uint8)
            self._rows[top:bottom, 3 * left : 3 * right] = row

    def round_box(self, box: Box, color: Color, radius: int = 0, edge: Color | None = None) -> None:
        """Draw a box with round corners, and a border of one pixel inside it."""
        if edge is not None:
            self._round_box(box, edge, radius)
            left, top, right, bottom = box
            box, radius = (left + 1, top + 1, right - 1, bottom - 1), max(radius - 1, 0)
        self._round_box(box, color, radius)

    def _round_box(self, box: Box, color: Color, radius: int) -> None:
        left, top, right, bottom = box
        radius = max(min(radius, (right - left) // 2, (bottom - top) // 2), 0)
        if not radius:
            self.fill(box, color)
            return
        self.fill((left, top + radius, right, bottom - radius), color)
        self.fill((left + radius, top, right - radius, top + radius), color)
        self.fill((left + radius, bottom - radius, right - radius, bottom), color)
        corner = _corner(radius)
        self._blend(left, top, corner, color)
        self._blend(right - radius, top, corner[:, ::-1], color)
        self._blend(left, bottom - radius, corner[::-1], color)
        self._blend(right - radius, bottom - radius, corner[::-1, ::-1], color)

    def disc(self, x: int, y: int, radius: int, color: Color) -> None:
        """Draw a filled circle around a point."""
        self._round_box((x - radius, y - radius, x + radius, y + radius), color, radius)

    def text(self, x: int, middle: int, text: str, face: SizedFont, color: Color) -> tuple[float, float]:
        """Draw a text that starts at a point; letters whose centre is outside the image are not recorded.

        Returns:
            The centre of the text.
        """
        glyphs = face.glyphs(text)
        baseline, pen = middle + round(0.35 * face.size_px), float(x)
        read_at = ((x + round(x + sum([glyph.advance for glyph in glyphs]))) / 2, float(middle))
        bottom, right = self.pixels.shape[:2]
        inked = []
        for place, glyph in enumerate(glyphs):
            height, width = glyph.alpha.shape
            if width and height:  # in some fonts, a space has a width
                left, top = round(pen) + glyph.left, baseline + glyph.top
                inked.append((left, top, left + width, top + height, glyph.alpha))
                across, down = left + width / 2, top + height / 2
                if 0 <= across < right and 0 <= down < bottom:
                    self.letters.append(DrawnLetter(text[place], across, down, read_at, len(text) - 1 - place))
            pen += glyph.advance
        self._blend_together(inked, color)
        return read_at

    def _blend_together(self, inked: list[tuple[int, int, int, int, np.ndarray]], color: Color) -> None:
        """Blend shapes with their boxes in one pass; one by one if their ink overlaps, where it covers twice."""
        if not inked:
            return
        lefts, tops, rights, bottoms, _ = zip(*inked, strict=True)
        x, y = min(lefts), min(tops)
        mask, end = np.zeros((max(bottoms) - y, max(rights) - x), np.uint8), x
        for left, top, right, bottom, alpha in inked:
            part = mask[top - y : bottom - y, left - x : right - x]
            if left >= end:
                part[:] = alpha
            elif (part * alpha.astype(bool)).any():
                for shape in inked:
                    self._blend(shape[0], shape[1], shape[4], color)
                return
            else:
                part += alpha
            end = max(end, right)
        self._blend(x, y, mask, color)

    def stamp(self, x: int, y: int, mask: np.ndarray, color: Color) -> None:
        """Blend a shape, (height, width) uint8, with its upper left corner at a point."""
        self._blend(x, y, mask, color)

    def hide_letters(self, box: Box) -> None:
        """Remove the letters in a box that was drawn over."""
        left, top, right, bottom = box
        self.letters = [
            letter for letter in self.letters if not (left <= letter.x < right and top <= letter.y < bottom)
        ]

    def _blend(self, left: int, top: int, alpha: np.ndarray, color: Color) -> None:
        height, width = alpha.shape
        x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + width, self.width), min(top + height, self.height)
        if x0 >= x1 or y0 >= y1:
            return
        part = self.pixels[y0:y1, x0:x1]
        share = alpha[y0 - top : y1 - top, x0 - left : x1 - left, None].astype(np.uint16)
        part[:] = (part * (255 - share) + np.array(color, np.uint16) * share + 127) // 255


@lru_cache(maxsize=64)
def _corner(radius: int) -> np.ndarray:
    """Return the upper left quarter of a disc, (radius, radius) uint8, anti-aliased."""
    places = np.arange(radius) + 0.5 - radius
    distance = np.hypot(places[:, None], places[None])
    return np.asarray(np.clip(radius - distance + 0.5, 0, 1) * 255, np.uint8)


POINTER_ROWS = (
    "X,XX,X.X,X..X,X...X,X....X,X.....X,X......X,X.......X,X........X,X.....XXXXX,"
    "X..X..X,X.X X..X,XX  X..X,X    X..X,     X..X,      XX"
)
"""Rows of an arrow: X is its outline, a dot its inside."""


@lru_cache(maxsize=1)
def make_pointer() -> tuple[np.ndarray, np.ndarray]:
    """Return an arrow as masks of its outline and its inside, (17, 12) uint8 each."""
    rows = [row.ljust(12) for row in POINTER_ROWS.split(",")]
    edge, inside = (np.array([[255 * (cell == sign) for cell in row] for row in rows], np.uint8) for sign in "X.")
    return edge, inside


def find_cells(letters: list[DrawnLetter], width_px: int, height_px: int) -> Iterator[tuple[int, int, DrawnLetter]]:
    """Yield row, column and letter of each grid cell with a letter: the one whose centre is horizontally nearest to the
    cell's.
    """
    nearest: dict[tuple[int, int], tuple[float, DrawnLetter]] = {}
    for letter in letters:
        place = (int(letter.y // height_px), int(letter.x // width_px))
        distance = abs(letter.x - (place[1] + 0.5) * width_px)
        if place not in nearest or distance < nearest[place][0]:
            nearest[place] = (distance, letter)
    for (row, column), (_, letter) in nearest.items():
        yield row, column, letter
