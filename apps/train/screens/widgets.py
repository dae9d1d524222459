"""Elements of screens: each draws itself at a position and returns its kind, name and click position."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from apps.train.screens.canvas import Box, Color, PixelCanvas
from apps.train.screens.theme import Theme, shade

Kind = Literal["button", "link", "field", "checkbox", "radio", "tab", "item", "menu", "icon", "slider"]
FIELD_CLICK_PX = 24
"""Click position of a field, from its left edge."""
ICONS = ("search", "close", "add", "remove", "menu", "play", "stop", "mail", "check", "back", "next", "download")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnElement:
    """An element that can be asked for.

    Attributes:
        kind: Kind of element.
        name: Text on it or next to it; empty for a field without a label.
        box: Clickable bounding box, in pixels.
        read_at: Centre of the letters of its name, in pixels.
        is_on: True if it is ticked, chosen or open.
        value: Content of a field; position of a slider, 0 to 100.
    """

    kind: Kind
    name: str
    box: Box
    read_at: tuple[float, float]
    is_on: bool = False
    value: str = ""

    @property
    def click_point(self) -> tuple[float, float]:
        """Click position: the centre of the name if it is clickable, else of the box; for a field, near its left edge.

        A position close to the name is easier to learn.
        """
        left, top, right, bottom = self.box
        x, y = self.read_at
        if left <= x < right and top <= y < bottom:
            return x, y
        middle = (left + right) / 2
        return min(left + FIELD_CLICK_PX, middle) if self.kind == "field" else middle, (top + bottom) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """Tools to draw elements with."""

    canvas: PixelCanvas
    theme: Theme
    rng: random.Random

    @property
    def line_px(self) -> int:
        """Height of a line of text."""
        return round(self.theme.face.size_px * 1.35)

    def width_px(self, text: str) -> int:
        """Return the width of a text."""
        return round(self.theme.face.width_px(text))

    def write(self, x: int, middle: int, text: str, color: Color) -> tuple[float, float]:
        """Write a text vertically centred at `middle`; return the centre of its letters."""
        return self.canvas.text(x, middle, text, self.theme.face, color)

    def draw_box(
        self, box: Box, color: Color, radius: int = 0, edge: Color | None = None, *, is_sunken: bool = False
    ) -> None:
        """Draw a box in the theme's style: flat with or without a border, or raised or sunken by a light and a dark
        edge.
        """
        width = self.theme.relief_px
        if not width:
            self.canvas.round_box(box, color, radius, edge)
            return
        left, top, right, bottom = box
        light, dark = shade(color, 0.7), shade(color, -0.5)
        self.canvas.fill(box, light if is_sunken else dark)
        self.canvas.fill((left, top, right - width, bottom - width), dark if is_sunken else light)
        self.canvas.fill((left + width, top + width, right - width, bottom - width), color)


Draw = Callable[[Pen, str, int, int, int], DrawnElement]
"""Function that draws an element with a name, upper left corner x, y and maximum width."""


def draw_button(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a box with its name in the middle."""
    pad, tall = pen.rng.randint(5, 18), pen.line_px + pen.rng.randint(4, 14)
    wide = min(pen.width_px(name) + 2 * pad, width)
    box = (x, y, x + wide, y + tall)
    is_main = pen.rng.random() < 0.5
    ground, ink = (pen.theme.accent, pen.theme.on_accent) if is_main else (pen.theme.panel, pen.theme.ink)
    has_edge = not is_main or pen.rng.random() < 0.3
    pen.draw_box(box, ground, pen.theme.radius, pen.theme.faint if has_edge else None)
    read_at = pen.write(x + (wide - pen.width_px(name)) // 2, y + tall // 2, name, ink)
    return DrawnElement(kind="button", name=name, box=box, read_at=read_at)


def draw_link(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a text with a line below it."""
    wide, tall = min(pen.width_px(name), width), pen.line_px
    read_at = pen.write(x, y + tall // 2, name, pen.theme.ink)
    pen.canvas.fill((x, y + tall - 2, x + wide, y + tall - 1), pen.theme.ink)
    return DrawnElement(kind="link", name=name, box=(x, y, x + wide, y + tall), read_at=read_at)


def draw_field(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a label, and to its right or below it a box that is filled or empty."""
    tall, label = pen.line_px + pen.rng.randint(4, 12), pen.width_px(name)
    is_beside = label + 60 < width and pen.rng.random() < 0.5
    left, top = (x + label + 8, y) if is_beside else (x, y + pen.line_px)
    read_at = pen.write(x, y + (tall if is_beside else pen.line_px) // 2, name, pen.theme.ink)
    box = (left, top, min(left + pen.rng.randint(60, 260), x + width), top + tall)
    pen.draw_box(box, pen.theme.panel, min(pen.theme.radius, 6), pen.theme.faint, is_sunken=True)
    return DrawnElement(kind="field", name=name, box=box, read_at=read_at)


def draw_bare_field(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a field without a label, the only one of its screen."""
    box = (x, y, min(x + pen.rng.randint(60, 260), x + width), y + pen.line_px + pen.rng.randint(4, 12))
    pen.draw_box(box, pen.theme.panel, min(pen.theme.radius, 6), pen.theme.faint, is_sunken=True)
    read_at = (min(x + FIELD_CLICK_PX, (box[0] + box[2]) / 2), (box[1] + box[3]) / 2)
    return DrawnElement(kind="field", name=name, box=box, read_at=read_at)


def fill_field(pen: Pen, target: DrawnElement, text: str) -> DrawnElement:
    """Draw a text in a field, as much as fits."""
    left, top, right, bottom = target.box
    while text and pen.width_px(text) > right - left - 8:
        text = text[:-1]
    pen.write(left + 4, (top + bottom) // 2, text, pen.theme.ink)
    return replace(target, value=text)


def draw_checkbox(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a small box, ticked or not, with its name on the right; both can be clicked."""
    return _draw_choice(pen, name, (x, y, width), kind="checkbox")


def draw_radio(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a small circle, chosen or not, with its name on the right."""
    return _draw_choice(pen, name, (x, y, width), kind="radio")


def _draw_choice(pen: Pen, name: str, place: tuple[int, int, int], *, kind: Kind) -> DrawnElement:
    x, y, width = place
    size, tall, is_on = max(pen.theme.face.size_px - 2, 10), pen.line_px, pen.rng.random() < 0.4
    middle = y + tall // 2
    box = (x, middle - size // 2, x + size, middle - size // 2 + size)
    if kind == "radio":
        pen.canvas.round_box(box, pen.theme.panel, size // 2, pen.theme.ink)
    else:
        pen.draw_box(box, pen.theme.panel, min(pen.theme.radius, 3), pen.theme.ink, is_sunken=True)
    if is_on:
        _fill_mark(pen, box, kind)
    read_at = pen.write(x + size + 6, middle, name, pen.theme.ink)
    right = min(x + size + 6 + pen.width_px(name), x + width)
    return DrawnElement(kind=kind, name=name, box=(x, y, right, y + tall), read_at=read_at, is_on=is_on)


def _fill_mark(pen: Pen, box: Box, kind: Kind) -> None:
    inside = (box[0] + 3, box[1] + 3, box[2] - 3, box[3] - 3)
    pen.canvas.round_box(inside, pen.theme.accent, (box[2] - box[0]) // 2 if kind == "radio" else 0)


def tick(pen: Pen, target: DrawnElement) -> DrawnElement:
    """Draw the mark of a checkbox or radio button that is on."""
    left, top, _, bottom = target.box
    size, middle = max(pen.theme.face.size_px - 2, 10), top + (bottom - top) // 2
    _fill_mark(pen, (left, middle - size // 2, left + size, middle - size // 2 + size), target.kind)
    return replace(target, is_on=True)


def mark_chosen(pen: Pen, target: DrawnElement) -> DrawnElement:
    """Draw the bar along the lower edge of a chosen list row or tab."""
    left, _, right, bottom = target.box
    pen.canvas.fill((left, bottom - 3, right, bottom), pen.theme.accent)
    return replace(target, is_on=True)


def draw_item(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a row of a list, as wide as the list."""
    tall = pen.line_px + 6
    is_on = pen.rng.random() < 0.15
    box = (x, y, x + width, y + tall)
    ground, ink = (pen.theme.accent, pen.theme.on_accent) if is_on else (pen.theme.panel, pen.theme.ink)
    pen.canvas.fill(box, ground)
    read_at = pen.write(x + 8, y + tall // 2, name, ink)
    pen.canvas.fill((x, y + tall - 1, x + width, y + tall), pen.theme.faint)
    return DrawnElement(kind="item", name=name, box=box, read_at=read_at, is_on=is_on)


def draw_tab(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a tab; the open one has a bar below it."""
    tall, wide = pen.line_px + 10, min(pen.width_px(name) + 20, width)
    is_on = pen.rng.random() < 0.3
    pen.canvas.fill((x, y, x + wide, y + tall), pen.theme.panel)
    read_at = pen.write(x + 10, y + tall // 2, name, pen.theme.ink)
    if is_on:
        pen.canvas.fill((x, y + tall - 3, x + wide, y + tall), pen.theme.accent)
    return DrawnElement(kind="tab", name=name, box=(x, y, x + wide, y + tall), read_at=read_at, is_on=is_on)


def draw_menu(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a name in a menu bar."""
    tall, wide = pen.line_px + 6, min(pen.width_px(name) + 16, width)
    read_at = pen.write(x + 8, y + tall // 2, name, pen.theme.ink)
    return DrawnElement(kind="menu", name=name, box=(x, y, x + wide, y + tall), read_at=read_at)


def draw_slider(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw a label, and below it a bar with a knob."""
    read_at = pen.write(x, y + pen.line_px // 2, name, pen.theme.ink)
    wide, middle, value = min(pen.rng.randint(80, 200), width), y + pen.line_px + 8, pen.rng.randrange(101)
    pen.canvas.round_box((x, middle - 2, x + wide, middle + 2), pen.theme.faint, 2)
    pen.canvas.disc(x + round(wide * value / 100), middle, 6, pen.theme.accent)
    return DrawnElement(
        kind="slider", name=name, box=(x, middle - 8, x + wide, middle + 8), read_at=read_at, value=str(value)
    )


def draw_icon(pen: Pen, name: str, x: int, y: int, width: int) -> DrawnElement:
    """Draw an icon in place of a name, which must be in `ICONS`."""
    size = min(max(pen.line_px, 16), width)
    if pen.rng.random() < 0.5:
        pen.draw_box((x - 3, y - 3, x + size + 3, y + size + 3), pen.theme.panel, pen.theme.radius)
    pen.canvas.stamp(x, y, make_icon(name, size), pen.theme.ink)
    box = (x - 3, y - 3, x + size + 3, y + size + 3)
    return DrawnElement(kind="icon", name=name, box=box, read_at=(x + size / 2, y + size / 2))


def make_icon(name: str, size: int) -> np.ndarray:
    """Return the mask of an icon, (size, size) uint8.

    Raises:
        KeyError: If no icon has that name.
    """
    v, u = np.mgrid[0:size, 0:size] / (size - 1) * 2 - 1  # both from -1 to 1, v downwards
    stroke = max(0.16, 2.2 / size)
    return np.asarray(255 * _SHAPES[name](u, v, stroke), np.uint8)


def _line(u: np.ndarray, v: np.ndarray, ends: tuple[float, float, float, float], stroke: float) -> np.ndarray:
    """Return the pixels near the line between two points."""
    x0, y0, x1, y1 = ends
    along = np.clip(((u - x0) * (x1 - x0) + (v - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2), 0, 1)
    return np.asarray(np.hypot(u - x0 - along * (x1 - x0), v - y0 - along * (y1 - y0)) < stroke)


def _lines(*lines: tuple[float, float, float, float]) -> Callable[[np.ndarray, np.ndarray, float], np.ndarray]:
    def draw(u: np.ndarray, v: np.ndarray, stroke: float) -> np.ndarray:
        return np.asarray(np.any([_line(u, v, ends, stroke) for ends in lines], axis=0))

    return draw


def _search(u: np.ndarray, v: np.ndarray, stroke: float) -> np.ndarray:
    ring = np.abs(np.hypot(u + 0.2, v + 0.2) - 0.55) < stroke
    return np.asarray(ring | _line(u, v, (0.25, 0.25, 0.85, 0.85), stroke))


_SHAPES: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "search": _search,
    "close": _lines((-0.7, -0.7, 0.7, 0.7), (-0.7, 0.7, 0.7, -0.7)),
    "add": _lines((-0.8, 0, 0.8, 0), (0, -0.8, 0, 0.8)),
    "remove": _lines((-0.8, 0, 0.8, 0)),
    "menu": _lines((-0.8, -0.6, 0.8, -0.6), (-0.8, 0, 0.8, 0), (-0.8, 0.6, 0.8, 0.6)),
    "play": lambda u, v, _stroke: (u > -0.6) & (np.abs(v) < 0.8 * (0.8 - u) / 1.4),
    "stop": lambda u, v, _stroke: (np.abs(u) < 0.65) & (np.abs(v) < 0.65),
    "mail": _lines(
        (-0.9, -0.6, 0.9, -0.6), (-0.9, 0.6, 0.9, 0.6), (-0.9, -0.6, -0.9, 0.6), (0.9, -0.6, 0.9, 0.6),
        (-0.9, -0.6, 0, 0.15), (0.9, -0.6, 0, 0.15),
    ),
    "check": _lines((-0.75, 0.05, -0.2, 0.6), (-0.2, 0.6, 0.8, -0.55)),
    "back": _lines((0.4, -0.8, -0.4, 0), (-0.4, 0, 0.4, 0.8)),
    "next": _lines((-0.4, -0.8, 0.4, 0), (0.4, 0, -0.4, 0.8)),
    "download": _lines((0, -0.8, 0, 0.35), (-0.45, -0.1, 0, 0.35), (0.45, -0.1, 0, 0.35), (-0.8, 0.75, 0.8, 0.75)),
}  # fmt: skip
