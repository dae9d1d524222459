"""Colours, corners and fonts of one screen."""

import random
from colorsys import hls_to_rgb
from dataclasses import dataclass, replace
from pathlib import Path

from apps.train.screens.canvas import Color
from apps.train.screens.fonts import SizedFont, find_fonts

MIN_CONTRAST = 4.5
"""Minimum contrast of text, as WCAG 2.2 requires for text of any size (success criterion 1.4.3, level AA)."""
LINEAR = tuple(
    part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
    for part in (value / 255 for value in range(256))
)
"""Linear light of each channel value, as a share of the maximum. Source: WCAG 2.2, "relative luminance"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Style of the elements of a screen.

    Attributes:
        face: Font of text.
        ground: Background colour of the screen.
        panel: Background colour of boxes.
        ink: Colour of text on ground and panel.
        faint: Colour of lines and of less important text.
        accent: Colour of selected elements and of the main button.
        on_accent: Colour of text on the accent.
        radius: Radius of corners, in pixels.
        relief_px: Width of the light and dark edges that raise or sink a box; 0 for flat boxes.
    """

    face: SizedFont
    ground: Color
    panel: Color
    ink: Color
    faint: Color
    accent: Color
    on_accent: Color
    radius: int
    relief_px: int = 0


def draw_theme(
    rng: random.Random, *, sizes_px: tuple[int, int], held_out_fonts: bool, held_out_theme: bool = False
) -> Theme:
    """Draw a random theme with readable text.

    Args:
        rng: Source of randomness.
        sizes_px: Minimum and maximum text size.
        held_out_fonts: True to use a font that training never has.
        held_out_theme: True for boxes in relief, as on desktops of the nineties; training has flat ones.
    """
    path: Path = rng.choice(find_fonts(held_out=held_out_fonts))
    face = SizedFont(path, rng.randint(*sizes_px))
    is_wild, is_dark, hue = rng.random() < 0.25, rng.random() < 0.3, rng.random()
    if is_wild:
        ground, panel = _any_color(rng), _any_color(rng)
    else:
        ground = _color(hue, rng.uniform(0.05, 0.2) if is_dark else rng.uniform(0.88, 1.0), rng.uniform(0, 0.3))
        panel = _color(hue, rng.uniform(0.12, 0.28) if is_dark else rng.uniform(0.93, 1.0), rng.uniform(0, 0.3))
    accent = _color(rng.random(), rng.uniform(0.25, 0.6), rng.uniform(0.3, 0.9))
    theme = Theme(
        face=face,
        ground=ground,
        panel=panel,
        ink=_readable(rng, (ground, panel)),
        faint=_mix(ground, (128, 128, 128), 0.5),
        accent=accent,
        on_accent=_readable(rng, (accent,)),
        radius=rng.choice((0, 0, 2, 4, 6, 10)),
    )
    return _raise(rng, theme) if held_out_theme else theme


def _raise(rng: random.Random, theme: Theme) -> Theme:
    """Return a theme in one shade of gray, with relief instead of round corners."""
    gray = _color(rng.random(), rng.uniform(0.7, 0.82), rng.uniform(0, 0.15))
    ink = _readable(rng, (gray,))
    return replace(theme, ground=gray, panel=gray, ink=ink, faint=shade(gray, -0.3), radius=0, relief_px=2)


def contrast(a: Color, b: Color) -> float:
    """Return the contrast ratio, 1 to 21. Source: WCAG 2.2, "contrast ratio" and "relative luminance"."""
    lighter, darker = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def shade(color: Color, change: float) -> Color:
    """Lighten a colour by a share of its distance to white, or darken it (below 0) by a share of its value."""
    return _mix(color, (255, 255, 255) if change > 0 else (0, 0, 0), abs(change))


def _luminance(color: Color) -> float:
    red, green, blue = color
    return 0.2126 * LINEAR[red] + 0.7152 * LINEAR[green] + 0.0722 * LINEAR[blue]


def _readable(rng: random.Random, grounds: tuple[Color, ...]) -> Color:
    """Return a random colour with enough contrast on all grounds, else black or white, whichever has more."""
    for _ in range(8):
        ink = _any_color(rng) if rng.random() < 0.3 else _gray(rng)
        if min(contrast(ink, ground) for ground in grounds) >= MIN_CONTRAST:
            return ink
    return max(((0, 0, 0), (255, 255, 255)), key=lambda ink: min(contrast(ink, ground) for ground in grounds))


def _any_color(rng: random.Random) -> Color:
    return rng.randrange(256), rng.randrange(256), rng.randrange(256)


def _gray(rng: random.Random) -> Color:
    value = rng.choice((rng.randrange(70), rng.randrange(190, 256)))
    return value, value, value


def _color(hue: float, lightness: float, saturation: float) -> Color:
    red, green, blue = hls_to_rgb(hue, lightness, saturation)
    return round(255 * red), round(255 * green), round(255 * blue)


def _mix(a: Color, b: Color, share: float) -> Color:
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue
