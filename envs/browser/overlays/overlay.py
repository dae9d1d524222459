"""Overlays over a page that handle its input, and the boxes, texts and text fields to draw them."""

import contextlib
import functools
import subprocess
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from envs.actions import Action
from envs.target import Target

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont
    from playwright.async_api import Page

Colour = tuple[int, int, int]
INK: Colour = (32, 33, 36)
GREY: Colour = (95, 99, 104)
EDGE: Colour = (189, 193, 198)
PAPER: Colour = (255, 255, 255)
BLUE: Colour = (11, 87, 208)
SELECTION: Colour = (174, 203, 250)
TEXT_PX = 15
LINE_PX = 22

_MAX_DRAWN = 4000  # bounds the time to draw a page's text
_NO_CHAR = "\ue123"  # a private-use character, which fonts draw as a box
_JOINED = ("Mn", "Mc", "Me", "Cf", "Sk")
"""Unicode categories of marks that combine with the preceding character."""
_known_fonts: list[str | None] = [None]
_asked: list[str] = []
_MAX_ASKED = 64
"""Limit of fontconfig queries, which take some milliseconds each; one result covers a whole script."""
_MAX_WIDTH_PX = 400
_MAX_LINES = 10
_BELOW_POINTER_PX = 20
_FILL = (255, 255, 240)


@dataclass(frozen=True, slots=True, kw_only=True)
class CssRect:
    """Rectangle in CSS pixels of the viewport; the right and bottom edges are exclusive."""

    left: int
    top: int
    width: int
    height: int

    def holds(self, x_px: int, y_px: int) -> bool:
        """Return True if a point is inside."""
        return self.left <= x_px < self.left + self.width and self.top <= y_px < self.top + self.height


class CssCanvas:
    """Image to draw on in CSS pixels at any scale.

    Attributes:
        image: The image, RGB.
        redact: Removes secrets from every drawn text.
    """

    def __init__(self, image: "Image", scale: float, redact: Callable[[str], str]) -> None:
        from PIL import ImageDraw

        self.image = image
        self.redact = redact
        self._scale = scale
        self._draw = ImageDraw.Draw(image)

    def box(self, box: CssRect, fill: Colour, *, outline: Colour | None = None, radius_px: int = 0) -> None:
        """Fill a rectangle."""
        edge = max(1, round(self._scale))
        self._draw.rounded_rectangle(
            self._corners(box), radius=radius_px * self._scale, fill=fill, outline=outline, width=edge
        )

    def shadow(self, box: CssRect) -> None:
        """Draw a soft shadow around a rectangle, before the rectangle itself."""
        for grow, shade in ((3, 225), (2, 205), (1, 180)):
            around = CssRect(
                left=box.left - grow, top=box.top - grow, width=box.width + 2 * grow, height=box.height + 2 * grow
            )
            self.box(around, (shade, shade, shade), radius_px=10)

    def text(self, x_px: int, y_px: int, text: str, ink: Colour = INK, *, size_px: int = TEXT_PX) -> None:
        """Draw one line of text with its top left corner at a point."""
        size, left = size_px * self._scale, x_px * self._scale
        base = round(y_px * self._scale) + _load_font(None, round(size)).getmetrics()[0]
        for font, piece in _pieces(self.redact(text), size):
            self._draw.text((round(left), base), piece, fill=ink, font=font, anchor="ls")
            left += font.getlength(piece)

    def button(self, box: CssRect, label: str, *, is_default: bool) -> None:
        """Draw a push button."""
        self.box(box, BLUE if is_default else PAPER, outline=BLUE if is_default else EDGE, radius_px=box.height // 2)
        left = box.left + (box.width - text_width_px(label)) // 2
        self.text(left, box.top + (box.height - TEXT_PX) // 2 - 1, label, PAPER if is_default else BLUE)

    def field(self, box: CssRect, text: str, *, is_selected: bool) -> None:
        """Draw a focused text field; of a long text the end is shown."""
        self.box(box, PAPER, outline=BLUE, radius_px=4)
        shown = self.redact(text)[-200:]
        while len(shown) > 1 and text_width_px(shown) > box.width - 16:
            shown = shown[1:]
        if is_selected:
            marked = CssRect(left=box.left + 8, top=box.top + 5, width=text_width_px(shown), height=box.height - 10)
            self.box(marked, SELECTION)
        self.text(box.left + 8, box.top + (box.height - TEXT_PX) // 2 - 1, shown)

    def _corners(self, box: CssRect) -> tuple[int, int, int, int]:
        scale = self._scale
        right, bottom = (box.left + box.width) * scale - 1, (box.top + box.height) * scale - 1
        return round(box.left * scale), round(box.top * scale), round(right), round(bottom)


def text_width_px(text: str, size_px: int = TEXT_PX) -> int:
    """Return the width of one line, CSS pixels."""
    return round(sum(font.getlength(piece) for font, piece in _pieces(text, size_px)))


def wrap(text: str, width_px: int, max_lines: int) -> list[str]:
    """Break a text into at most `max_lines` lines of at most `width_px`; a longer text ends in an ellipsis."""
    lines: list[str] = []
    for paragraph in text[:_MAX_DRAWN].splitlines() or [""]:
        line = ""
        for word in _words(paragraph, width_px):
            if line and text_width_px(line + word.rstrip()) > width_px:
                lines.append(line.rstrip())
                line = ""
            line += word
        lines.append(line.rstrip())
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], f"{lines[max_lines - 1][:40]}…"]
    return lines


def _words(paragraph: str, width_px: int) -> list[str]:
    """Return words with the spaces after them; long words, and texts without spaces, are split."""
    words: list[str] = []
    for word in paragraph.replace("\t", "    ").split(" "):
        while text_width_px(word) > width_px:
            cut = max(1, len(word) * width_px // max(1, text_width_px(word)) - 1)
            words.append(word[:cut])
            word = word[cut:]
        words.append(f"{word} ")
    return words


def _pieces(text: str, size: float) -> Iterator[tuple["FreeTypeFont", str]]:
    """Split a text by the fonts that can draw it; spaces and combining marks stay with the preceding character."""
    pieces: list[tuple[str | None, str]] = []
    for char in unicodedata.normalize("NFC", text):
        is_joined = char.isspace() or unicodedata.category(char) in _JOINED
        if pieces and (is_joined or _font_file(char) == pieces[-1][0]):
            pieces[-1] = pieces[-1][0], pieces[-1][1] + char
        else:
            pieces.append((_font_file(char), char))
    for path, piece in pieces:
        yield _load_font(path, round(size)), piece


@functools.lru_cache(maxsize=4096)
def _font_file(char: str) -> str | None:
    """Return the file of a font that draws a character; None: Pillow's own font, which may draw a box."""
    for path in _known_fonts:
        if _is_drawn(char, path):
            return path
    path = _ask_fontconfig(char) if len(_asked) < _MAX_ASKED else None
    if path is None or not _is_drawn(char, path):
        return None
    _known_fonts.append(path)
    return path


def _ask_fontconfig(char: str) -> str | None:
    """Return the fallback font of this system for a character, as a browser uses it."""
    _asked.append(char)
    command = ("fc-match", "-f", "%{file}", f"sans:charset={ord(char):x}")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=2.0, check=True).stdout or None
    return None


def _is_drawn(char: str, path: str | None) -> bool:
    """Return True if a font has a glyph for a character."""
    try:
        font = _load_font(path, 16)
        return bytes(font.getmask(char)) != bytes(font.getmask(_NO_CHAR))
    except OSError:  # a font with fixed sizes only, such as a colour emoji font
        return False


@functools.lru_cache(maxsize=64)
def _load_font(path: str | None, size: int) -> "FreeTypeFont":
    from PIL import ImageFont

    font = ImageFont.truetype(path, size) if path else ImageFont.load_default(size=size)
    assert isinstance(font, ImageFont.FreeTypeFont)  # every wheel of Pillow has FreeType
    return font


class TextField:
    """Text with a caret; the initial text is selected, so that typing replaces it."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.is_selected = bool(text)
        self._caret = len(text)

    def type(self, text: str) -> None:
        """Insert text at the caret, or in place of the selection."""
        self._drop_selection()
        self.text = self.text[: self._caret] + text + self.text[self._caret :]
        self._caret += len(text)

    def press(self, key: str) -> bool:
        """Handle an editing key (canonical name); return False for other keys."""
        if key == "space":
            key = " "
        if len(key) == 1:
            self.type(key)
        elif key in ("backspace", "delete"):
            self._delete(-1 if key == "backspace" else 0)
        elif key in ("left", "right", "home", "end"):
            self._go(key)
        else:
            return False
        return True

    def select_all(self) -> None:
        """Select the whole text."""
        self.is_selected = bool(self.text)

    def shown(self) -> str:
        """Return the text with its caret."""
        return self.text if self.is_selected else f"{self.text[: self._caret]}|{self.text[self._caret :]}"

    def _drop_selection(self) -> None:
        if self.is_selected:
            self.text, self._caret, self.is_selected = "", 0, False

    def _delete(self, offset: int) -> None:
        if self.is_selected:
            self._drop_selection()
            return
        at = self._caret + offset
        if 0 <= at < len(self.text):
            self.text = self.text[:at] + self.text[at + 1 :]
            self._caret = at

    def _go(self, key: str) -> None:
        steps = {"left": self._caret - 1, "right": self._caret + 1, "home": 0, "end": len(self.text)}
        self._caret = min(max(steps[key], 0), len(self.text))
        self.is_selected = False


class Overlay(Protocol):
    """Overlay drawn over the page that handles actions first.

    Attributes:
        page: Page that it belongs to.
        is_done: True if it was closed.
    """

    page: "Page | None"
    is_done: bool

    async def act(self, action: Action, point_px: tuple[int, int]) -> bool:
        """Handle an action.

        Args:
            action: Action with canonical keys.
            point_px: Point of the action, or the pointer position for actions without one.

        Returns:
            False if the action is for the page.

        Raises:
            ActionError: If it is not possible here; the text says what is.
        """
        ...

    def draw(self, canvas: CssCanvas) -> None:
        """Draw the current state."""
        ...

    def target_at(self, x_px: int, y_px: int) -> Target | None:
        """Return what a click at a point activates; None if the click goes to the page."""
        ...

    def targets_of_key(self, key: str) -> tuple[Target, ...] | None:
        """Return what a canonical key activates, empty for an editing key; None if the key goes to the page."""
        ...

    def notes(self) -> tuple[str, ...]:
        """Return notes on the overlay for the agent."""
        ...


def draw_tooltip(canvas: CssCanvas, text: str, pointer_px: tuple[int, int], viewport_px: tuple[int, int]) -> None:
    """Draw a tooltip below the pointer, or above it if it does not fit below."""
    lines = wrap(canvas.redact(text), min(_MAX_WIDTH_PX, viewport_px[0] - 16), _MAX_LINES)
    width = max(map(text_width_px, lines)) + 12
    height = len(lines) * LINE_PX + 6
    left = max(0, min(pointer_px[0], viewport_px[0] - width))
    top = pointer_px[1] + _BELOW_POINTER_PX
    if top + height > viewport_px[1]:
        top = max(0, pointer_px[1] - height - 4)
    canvas.box(CssRect(left=left, top=top, width=width, height=height), _FILL, outline=EDGE, radius_px=3)
    for number, line in enumerate(lines):
        canvas.text(left + 6, top + 4 + number * LINE_PX, line)
