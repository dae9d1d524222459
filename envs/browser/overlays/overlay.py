"""What stands over a page and takes the input in its place; the boxes, text and edited line that it is drawn with."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from envs.actions import Action
from envs.target import Target

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont
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

_FONT_FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "/Library/Fonts",
    "/System/Library/Fonts",
    "C:/Windows/Fonts",
)
_OTHER_FONTS = ("DejaVuSans", "NotoSans-Regular", "LiberationSans-Regular", "Arial Unicode", "arial")
_CJK_FONTS = ("NotoSansCJK-Regular", "wqy-zenhei", "DroidSansFallbackFull", "msgothic")
_MAX_DRAWN = 4000
_NO_CHAR = "\ue123"  # a private one, which fonts show as a box
_CJK = re.compile("[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle, CSS pixels of the viewport; right and bottom are outside of it."""

    left: int
    top: int
    width: int
    height: int

    def holds(self, x_px: int, y_px: int) -> bool:
        """Whether a point is inside."""
        return self.left <= x_px < self.left + self.width and self.top <= y_px < self.top + self.height


class Canvas:
    """An image to draw on in CSS pixels, whatever its scale.

    Attributes:
        image: The image, RGB.
        redact: Takes secrets out of every text drawn.
    """

    def __init__(self, image: "Image", scale: float, redact: Callable[[str], str]) -> None:
        from PIL import ImageDraw

        self.image = image
        self.redact = redact
        self._scale = scale
        self._draw = ImageDraw.Draw(image)

    def box(self, box: Box, fill: Colour, *, outline: Colour | None = None, radius_px: int = 0) -> None:
        """Fill a rectangle."""
        edge = max(1, round(self._scale))
        self._draw.rounded_rectangle(
            self._corners(box), radius=radius_px * self._scale, fill=fill, outline=outline, width=edge
        )

    def shadow(self, box: Box) -> None:
        """A soft edge around a rectangle, to be drawn before it."""
        for grow, shade in ((3, 225), (2, 205), (1, 180)):
            around = Box(
                left=box.left - grow, top=box.top - grow, width=box.width + 2 * grow, height=box.height + 2 * grow
            )
            self.box(around, (shade, shade, shade), radius_px=10)

    def text(self, x_px: int, y_px: int, text: str, ink: Colour = INK, *, size_px: int = TEXT_PX) -> None:
        """Write one line, its top left corner at a point."""
        text = self.redact(text)
        self._draw.text(
            (round(x_px * self._scale), round(y_px * self._scale)),
            text,
            fill=ink,
            font=_font(text, size_px * self._scale),
        )

    def button(self, box: Box, label: str, *, is_default: bool) -> None:
        """A push button."""
        self.box(box, BLUE if is_default else PAPER, outline=BLUE if is_default else EDGE, radius_px=box.height // 2)
        left = box.left + (box.width - text_width_px(label)) // 2
        self.text(left, box.top + (box.height - TEXT_PX) // 2 - 1, label, PAPER if is_default else BLUE)

    def field(self, box: Box, text: str, *, is_selected: bool) -> None:
        """A text field that has the focus; the end of a long text is shown."""
        self.box(box, PAPER, outline=BLUE, radius_px=4)
        shown = self.redact(text)[-200:]
        while len(shown) > 1 and text_width_px(shown) > box.width - 16:
            shown = shown[1:]
        if is_selected:
            marked = Box(left=box.left + 8, top=box.top + 5, width=text_width_px(shown), height=box.height - 10)
            self.box(marked, SELECTION)
        self.text(box.left + 8, box.top + (box.height - TEXT_PX) // 2 - 1, shown)

    def _corners(self, box: Box) -> tuple[int, int, int, int]:
        scale = self._scale
        right, bottom = (box.left + box.width) * scale - 1, (box.top + box.height) * scale - 1
        return round(box.left * scale), round(box.top * scale), round(right), round(bottom)


def text_width_px(text: str, size_px: int = TEXT_PX) -> int:
    """Width of one line, CSS pixels."""
    return round(_font(text, size_px).getlength(text))


def wrap(text: str, width_px: int, max_lines: int) -> list[str]:
    """Break a text into lines of at most `width_px`; what is too long ends in an ellipsis."""
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
    """Words with the spaces after them; long ones, and those of scripts without spaces, in pieces."""
    words: list[str] = []
    for word in paragraph.replace("\t", "    ").split(" "):
        while text_width_px(word) > width_px:
            cut = max(1, len(word) * width_px // max(1, text_width_px(word)) - 1)
            words.append(word[:cut])
            word = word[cut:]
        words.append(f"{word} ")
    return words


def _font(text: str, size: float) -> "FreeTypeFont | ImageFont":
    if all(map(_is_in_default_font, text)):
        return _load_font(None, round(size))
    names = _CJK_FONTS + _OTHER_FONTS if _CJK.search(text) else _OTHER_FONTS + _CJK_FONTS
    return _load_font(_find_font(names), round(size))


@functools.lru_cache(maxsize=4096)
def _is_in_default_font(char: str) -> bool:
    font = _load_font(None, 16)
    return char == " " or bytes(font.getmask(char)) != bytes(font.getmask(_NO_CHAR))


@functools.lru_cache(maxsize=32)
def _load_font(path: str | None, size: int) -> "FreeTypeFont | ImageFont":
    from PIL import ImageFont

    return ImageFont.truetype(path, size) if path else ImageFont.load_default(size=size)


@functools.cache
def _find_font(names: tuple[str, ...]) -> str | None:
    """The first of these fonts that this system has."""
    folders = [Path(folder) for folder in _FONT_FOLDERS if Path(folder).is_dir()]
    for name in names:
        for folder in folders:
            for path in folder.glob(f"**/{name}.tt[fc]"):
                return str(path)
    return None


class TextField:
    """Text with a caret; what was there at first is selected, so that typing replaces it."""

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
        """Take an editing key (canonical name); False when it is none."""
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
        """The text with its caret."""
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
    """Something drawn over the page that takes actions first.

    Attributes:
        page: The page that it belongs to.
        is_done: It has gone away.
    """

    page: "Page | None"
    is_done: bool

    async def act(self, action: Action, point_px: tuple[int, int]) -> bool:
        """Take an action.

        Args:
            action: What to do; keys in it are canonical.
            point_px: The point that the action means, or the pointer for actions without one.

        Returns:
            False: this one is the page's.

        Raises:
            ActionError: This cannot be done here; the text says what can.
        """
        ...

    def draw(self, canvas: Canvas) -> None:
        """Draw it as it is now."""
        ...

    def target_at(self, x_px: int, y_px: int) -> Target | None:
        """What a click there activates; None when that is the page's."""
        ...

    def targets_of_key(self, key: str) -> tuple[Target, ...] | None:
        """What a canonical key activates, nothing for one that edits; None when the key is the page's."""
        ...

    def notes(self) -> tuple[str, ...]:
        """What the agent should know about it."""
        ...
