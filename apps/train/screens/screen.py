"""Whole screens: layout families that place elements where real screens have them."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from apps.train.screens.canvas import Box, DrawnLetter, PixelCanvas, make_pointer
from apps.train.screens.theme import Theme, draw_theme
from apps.train.screens.widgets import (
    ICONS,
    Draw,
    DrawnElement,
    Pen,
    draw_bare_field,
    draw_button,
    draw_checkbox,
    draw_field,
    draw_icon,
    draw_item,
    draw_link,
    draw_menu,
    draw_radio,
    draw_slider,
    draw_tab,
    fill_field,
    mark_chosen,
    tick,
)
from apps.train.screens.words import DrawnTexts

SIZES_PX = ((160, 210), (280, 224), (400, 300), (480, 320), (640, 480), (800, 600), (1024, 768), (1280, 720))
FORM_PX = 150
"""Minimum width of a form."""
READING = "page"
"""Family of screens that hold only words."""
SINGLE: tuple[Draw, ...] = (draw_button, draw_link, draw_field, draw_checkbox, draw_radio, draw_slider)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenOptions:
    """Options of drawn screens.

    Attributes:
        families: Names of layouts.
        sizes_px: Width and height, one of these is drawn.
        text_px: Minimum and maximum text size.
        near_share: Probability that a name is one letter away from another one on the screen.
        held_out_names: True to use names that training never has.
        held_out_fonts: True to use fonts that training never has.
        held_out_theme: True to draw boxes in a style that training never has.
        max_elements: Maximum number of elements on one screen.
        inset_share: Share of forms that start anywhere on the screen and not in its upper left corner.
    """

    families: tuple[str, ...]
    sizes_px: tuple[tuple[int, int], ...] = SIZES_PX
    text_px: tuple[int, int] = (11, 26)
    near_share: float = 0.3
    held_out_names: bool = False
    held_out_fonts: bool = False
    held_out_theme: bool = False
    max_elements: int = 14
    inset_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnScreen:
    """An image and its description.

    Attributes:
        family: Name of its layout.
        targets: Elements that can be asked for; no two of one kind have the same name.
        pen: Pen that it was drawn with.
    """

    family: str
    targets: tuple[DrawnElement, ...]
    pen: Pen = field(repr=False)

    @property
    def pixels(self) -> np.ndarray:
        """Pixels, (height, width, 3) uint8."""
        return self.pen.canvas.pixels

    @property
    def letters(self) -> tuple[DrawnLetter, ...]:
        """Visible letters with their positions."""
        return tuple(self.pen.canvas.letters)


class ScreenBuilder:
    """Builder of a screen.

    Args:
        rng: Source of randomness.
        options: Options of the screen.
    """

    def __init__(self, rng: random.Random, options: ScreenOptions) -> None:
        width, height = rng.choice(options.sizes_px)
        largest = min(options.text_px[1], max(options.text_px[0], height // 10))
        self.rng, self.options, self._sizes_px = rng, options, (options.text_px[0], largest)
        self.words = DrawnTexts(rng, held_out=options.held_out_names, near_share=options.near_share)
        theme = self._draw_theme(self._sizes_px)
        self.pen = Pen(canvas=PixelCanvas(width, height, theme.ground), theme=theme, rng=rng)
        self.targets: list[DrawnElement] = []

    def _draw_theme(self, sizes_px: tuple[int, int]) -> Theme:
        fonts, theme = self.options.held_out_fonts, self.options.held_out_theme
        return draw_theme(self.rng, sizes_px=sizes_px, held_out_fonts=fonts, held_out_theme=theme)

    def redraw_theme(self) -> Theme:
        """Switch to another theme, more often with small text than with large: more text then fits."""
        smallest, largest = self._sizes_px
        sizes = (smallest, self.rng.randint(smallest, largest))
        self.pen = replace(self.pen, theme=self._draw_theme(sizes))
        return self.pen.theme

    @property
    def canvas(self) -> PixelCanvas:
        """Canvas of the pen."""
        return self.pen.canvas

    @property
    def theme(self) -> Theme:
        """Theme of the pen."""
        return self.pen.theme

    @property
    def is_full(self) -> bool:
        """True if it has the maximum number of elements."""
        return len(self.targets) >= self.options.max_elements

    def find_name(self, width_px: int) -> str:
        """Return a name that fits into a width."""
        letter = max(self.theme.face.width_px("n"), 1.0)
        return self.words.name(min(max(int(0.9 * width_px / letter), 3), 16))

    def find_filler(self, width_px: int, count: int = 9) -> str:
        """Return at most `count` words that are never asked for, as many as fit into a width."""
        words = self.words.filler(count).split()
        while words and self.pen.width_px(" ".join(words)) > width_px:
            words.pop()
        return " ".join(words)

    def add(self, draw: Draw, x: int, y: int, width: int, *, name: str | None = None) -> DrawnElement:
        """Draw an element and record it."""
        target = draw(self.pen, self.find_name(width - 40) if name is None else name, x, y, width)
        if target.kind == "field" and self.rng.random() < 0.3:
            target = fill_field(self.pen, target, self.words.value())
        self.targets.append(target)
        return target

    def finish(self, family: str) -> DrawnScreen:
        """Return the screen, with the pointer drawn at a random position most of the time."""
        if self.rng.random() < 0.7:
            x, y = self.rng.randrange(self.canvas.width), self.rng.randrange(self.canvas.height)
            edge, inside = make_pointer()
            self.canvas.stamp(x, y, edge, (0, 0, 0))
            self.canvas.stamp(x, y, inside, (255, 255, 255))
        whole = [target for target in self.targets if is_inside(target.box, self.canvas)]
        return DrawnScreen(family=family, targets=tuple(whole), pen=self.pen)


def is_inside(box: Box, canvas: PixelCanvas) -> bool:
    """Return True if a box lies in the image and has an area."""
    left, top, right, bottom = box
    return 0 <= left < right <= canvas.width and 0 <= top < bottom <= canvas.height


def make_screen(rng: random.Random, options: ScreenOptions) -> DrawnScreen:
    """Return a screen with at least one element.

    Args:
        rng: Source of randomness: the same state gives the same screen.
        options: Options of the screen.

    Raises:
        KeyError: If the family does not exist.
    """
    while True:
        family = rng.choice(options.families)
        builder = ScreenBuilder(rng, options)
        FAMILIES[family](builder)
        screen = builder.finish(family)
        if screen.targets:
            return screen


def _scatter(builder: ScreenBuilder) -> None:
    """Draw buttons and links at random positions without overlap."""
    occupied: list[Box] = []
    line = builder.pen.line_px
    for _ in range(60):
        if builder.is_full or len(occupied) > 12:
            return
        x, y = (
            builder.rng.randrange(2, builder.canvas.width - 30),
            builder.rng.randrange(2, builder.canvas.height - line),
        )
        room = min(builder.canvas.width - x - 2, 9 * line)
        box = (x - 4, y - 4, x + room + 4, y + line + 20)
        if y + line + 16 > builder.canvas.height or room < 2 * line:
            continue
        if any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in occupied
        ):
            continue
        drawn = builder.add(builder.rng.choice((draw_button, draw_button, draw_link)), x, y, room)
        occupied.append((drawn.box[0] - 4, drawn.box[1] - 4, drawn.box[2] + 4, drawn.box[3] + 4))


def _column(builder: ScreenBuilder, x: int, y: int, width: int, kinds: tuple[Draw, ...]) -> int:
    """Draw elements below each other while they fit; return the bottom of the last one."""
    while not builder.is_full:
        draw = builder.rng.choice(kinds)
        tall = builder.pen.line_px * (2 if draw in (draw_field, draw_slider) else 1) + 26
        if y + tall > builder.canvas.height:
            break
        drawn = builder.add(draw, x, y, width)
        y = drawn.box[3] + builder.rng.randint(4, 16)
    return y


def _form(builder: ScreenBuilder) -> None:
    """Draw a heading, fields and choices, and buttons side by side."""
    x, y = builder.rng.randint(6, 30), builder.rng.randint(4, 20)
    if builder.options.inset_share and builder.rng.random() < builder.options.inset_share:
        x = builder.rng.randint(6, max(builder.canvas.width - FORM_PX, 30))
        y = builder.rng.randint(4, builder.canvas.height // 3)
    builder.pen.write(x, y + builder.pen.line_px // 2, builder.words.filler(2), builder.theme.ink)
    width = min(builder.canvas.width - x - 6, builder.rng.randint(140, 420))
    kinds = builder.rng.choice(((draw_field,), (draw_field, draw_checkbox), (draw_field, draw_radio), SINGLE))
    y = _column(builder, x, y + builder.pen.line_px + 6, width, kinds)
    _row(builder, x, y, (draw_button,))


def _row(builder: ScreenBuilder, x: int, y: int, kinds: tuple[Draw, ...]) -> None:
    """Draw elements side by side while they fit."""
    tall = builder.pen.line_px + 16
    for _ in range(builder.rng.randint(2, 7)):
        room = builder.canvas.width - x - 6
        if room < 4 * builder.pen.line_px or y + tall > builder.canvas.height:
            return
        x = builder.add(builder.rng.choice(kinds), x, y, min(room, 9 * builder.pen.line_px)).box[2]
        x += builder.rng.randint(4, 16)


def _list(builder: ScreenBuilder) -> None:
    """Draw rows of a list next to or below other elements."""
    x, y = builder.rng.randint(2, 30), builder.rng.randint(2, 30)
    width = min(builder.canvas.width - x - 4, builder.rng.randint(100, 400))
    while not builder.is_full and y + builder.pen.line_px + 8 < builder.canvas.height:
        y = builder.add(draw_item, x, y, width).box[3]
    if builder.canvas.width - x - width > 8 * builder.pen.line_px:
        _column(builder, x + width + 12, 20, builder.canvas.width - x - width - 18, (draw_button, draw_link))


def _toolbar(builder: ScreenBuilder) -> None:
    """Draw a menu bar, icons, tabs, and a page of choices below."""
    tall = builder.pen.line_px + 8
    builder.canvas.fill((0, 0, builder.canvas.width, tall), builder.theme.panel)
    _row(builder, 4, 1, (draw_menu,))
    x, y = 8, tall + 8
    for name in builder.rng.sample(ICONS, builder.rng.randint(1, 5)):
        if x + 2 * tall < builder.canvas.width and y + tall < builder.canvas.height:
            x = builder.add(draw_icon, x, y, tall, name=name).box[2] + 12
    _row(builder, 4, y + tall + 6, (draw_tab,))
    _column(builder, 12, y + 2 * tall + 24, builder.canvas.width - 24, (draw_checkbox, draw_link, draw_radio))


def _dialog(builder: ScreenBuilder) -> None:
    """Draw a dialog over a page that cannot be reached: only elements in the dialog are targets."""
    _column(builder, 8, 8, builder.canvas.width - 16, (draw_button, draw_link, draw_checkbox))
    builder.targets.clear()
    wide, tall = round(builder.canvas.width * 0.8), round(builder.canvas.height * builder.rng.uniform(0.5, 0.8))
    left = builder.rng.randint(0, builder.canvas.width - wide)
    top = builder.rng.randint(0, builder.canvas.height - tall)
    box = (left, top, left + wide, top + tall)
    builder.canvas.hide_letters(box)
    builder.pen.draw_box(box, builder.theme.panel, builder.theme.radius, builder.theme.faint)
    pen, x, y = builder.pen, left + 10, top + 6
    pen.write(x, y + pen.line_px // 2, builder.words.filler(1), builder.theme.ink)
    builder.add(draw_icon, box[2] - pen.line_px - 10, y + 2, pen.line_px, name="close")
    pen.write(x, y + round(1.6 * pen.line_px), builder.words.filler(2), builder.theme.ink)
    y += round(2.4 * pen.line_px)
    for draw in builder.rng.sample((draw_button, draw_button, draw_checkbox, draw_field), 3):
        need = pen.line_px * (2 if draw is draw_field else 1) + 18
        if y + need < box[3]:
            y = builder.add(draw, x, y, wide - 20).box[3] + 6


def _grid(builder: ScreenBuilder) -> None:
    """Draw a grid of named boxes of one size, as in keypads and galleries."""
    columns, line = builder.rng.randint(2, 4), builder.pen.line_px
    wide, tall = (builder.canvas.width - 8) // columns, line * builder.rng.randint(2, 3)
    for number in range(builder.options.max_elements):
        x, y = 4 + wide * (number % columns), 4 + tall * (number // columns)
        if y + tall > builder.canvas.height:
            return
        builder.add(draw_button, x + 2, y + 2, wide - 6)


def _settings(builder: ScreenBuilder) -> None:
    """Draw two columns: names of sections on the left, choices and sliders on the right."""
    left = max(builder.canvas.width // 3, 6 * builder.pen.line_px)
    builder.canvas.fill((0, 0, left, builder.canvas.height), builder.theme.panel)
    y = 6
    while len(builder.targets) < 6 and y + 2 * builder.pen.line_px < builder.canvas.height:
        y = builder.add(draw_item, 0, y, left).box[3]
    if builder.canvas.width - left > 7 * builder.pen.line_px:
        _column(builder, left + 12, 10, builder.canvas.width - left - 20, (draw_checkbox, draw_slider, draw_field))


def _prompt(builder: ScreenBuilder) -> None:
    """Draw a question on a coloured background, an unlabelled field or choices to answer it, and buttons below."""
    rng, pen, canvas = builder.rng, builder.pen, builder.canvas
    width = round(canvas.width * rng.choice((1.0, rng.uniform(0.5, 1.0))))
    y = 2
    for _ in range(rng.randint(0, 3)):
        canvas.fill((0, y, width, y + pen.line_px), builder.theme.accent)
        pen.write(4, y + pen.line_px // 2, builder.find_filler(width - 8), builder.theme.on_accent)
        y += pen.line_px
    x, y = rng.randint(2, 16), y + rng.randint(2, 16)
    if rng.random() < 0.4 and width - x > 70 and y + 2 * pen.line_px < canvas.height:
        y = builder.add(draw_bare_field, x, y, width - x, name="").box[3] + rng.randint(4, 16)
    else:
        draw = rng.choice((draw_checkbox, draw_radio))
        for _ in range(rng.randint(2, 7)):
            if y + pen.line_px < canvas.height and width - x > 5 * pen.line_px:
                y = builder.add(draw, x, y, width - x - 4).box[3] + rng.randint(0, 4)
    if y + pen.line_px + 18 < canvas.height and width - x > 4 * pen.line_px:
        builder.add(draw_button, x, y + rng.randint(2, 10), width - x)


def _article(builder: ScreenBuilder) -> None:
    """Draw running text with links."""
    rng, pen = builder.rng, builder.pen
    left, y = rng.randint(2, 20), rng.randint(2, 40)
    right, tall = builder.canvas.width - rng.randint(2, 20), pen.line_px + rng.randint(0, 4)
    while y + tall < builder.canvas.height:
        x = left
        while right - x > 2 * pen.line_px:
            if not builder.is_full and rng.random() < 0.2:
                drawn = builder.add(draw_link, x, y, right - x, name=builder.find_name(right - x))
                x = drawn.box[2]
            else:
                word = builder.find_filler(right - x, 1)
                if not word:
                    break
                pen.write(x, y + pen.line_px // 2, word, builder.theme.ink)
                x += pen.width_px(word)
            x += max(pen.line_px // 4, 3)
        y += tall


def _page(builder: ScreenBuilder) -> None:
    """Draw a page of words in rows of several sizes and fonts, some on a coloured background, for training to read."""
    y = builder.rng.randint(0, 8)
    while not builder.is_full:
        theme, canvas = builder.redraw_theme(), builder.canvas
        tall = builder.pen.line_px + builder.rng.randint(0, 6)
        if y + tall > canvas.height:
            return
        ground, ink = builder.rng.choice(
            ((theme.ground, theme.ink), (theme.panel, theme.ink), (theme.accent, theme.on_accent))
        )
        canvas.fill((0, y, canvas.width, y + tall), ground)
        x = builder.rng.randint(2, 16)
        while not builder.is_full and canvas.width - x > 2 * builder.pen.line_px:
            name = builder.find_name(canvas.width - x)
            read_at = builder.pen.write(x, y + tall // 2, name, ink)
            right = x + builder.pen.width_px(name)
            builder.targets.append(DrawnElement(kind="link", name=name, box=(x, y, right, y + tall), read_at=read_at))
            x = right + builder.rng.randint(builder.pen.line_px // 3, builder.pen.line_px)
        y += tall


FAMILIES: dict[str, Callable[[ScreenBuilder], None]] = {
    "scatter": _scatter,
    "form": _form,
    "list": _list,
    "toolbar": _toolbar,
    "dialog": _dialog,
    "grid": _grid,
    "settings": _settings,
    READING: _page,
    "prompt": _prompt,
    "article": _article,
}
HELD_OUT_FAMILIES = ("settings",)
"""Layouts that training never uses."""
LATER_FAMILIES = ("prompt", "article")
"""Layouts used in later stages of training; not used in exams."""
TRAINED_FAMILIES = tuple(name for name in FAMILIES if name not in (*HELD_OUT_FAMILIES, *LATER_FAMILIES, READING))
"""Layouts that training and exams have in common."""


def show_done(screen: DrawnScreen, target: DrawnElement, typed: str = "") -> DrawnScreen:
    """Return the screen after an action on an element: a typed text, a tick, a chosen row.

    Args:
        screen: The screen before; not modified.
        target: One of its elements. Buttons, links and similar do not change.
        typed: Text in a field that was empty.
    """
    pen = replace(screen.pen, canvas=screen.pen.canvas.copy())
    match target.kind:
        case "field":
            after = fill_field(pen, target, typed)
        case "checkbox" | "radio":
            after = tick(pen, target)
        case "item" | "tab":
            after = mark_chosen(pen, target)
        case _:
            return screen
    targets = tuple(after if other is target else other for other in screen.targets)
    return DrawnScreen(family=screen.family, targets=targets, pen=pen)
