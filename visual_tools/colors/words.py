"""Common names of colours, parsing of colours, and the distance between two colours."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

from visual_tools.errors import ImageError, require
from visual_tools.packages import cv2

ColorLike = str | Sequence[int] | NDArray[np.integer]

_ANCHORS = {
    "black": "#000000 #1a1a1a #10101c",
    "dark gray": "#404040 #585858",
    "gray": "#808080 #7f7f7f #9a9a9a #708090",
    "light gray": "#c0c0c0 #d8d8d8 #c7c7c7 #e6e6e6",
    "white": "#ffffff #f7f7f7",
    "red": "#ff0000 #d62728 #e41a1c #c82020 #ff4040 #ee3b2f",
    "dark red": "#8b0000 #6e0b14 #a01515",
    "pink": "#ff9896 #ffc0cb #f781bf #ff69b4 #e377c2 #fbb4ae",
    "magenta": "#ff00ff #e7298a #d01c8b #cc00aa",
    "orange": "#ff7f0e #ffa500 #ff8c00 #f28e2b #fc8d62 #e6770b",
    "light orange": "#ffbb78 #fdb462 #fdd0a2",
    "brown": "#8c564b #8b4513 #a65628 #5d3a1a #a0522d",
    "light brown": "#c49c94 #c49a6c #d2b48c #b07a5e",
    "yellow": "#ffff00 #ffd92f #ffe119 #f5d020 #ffff66 #eeca3b",
    "light yellow": "#ffffb3 #fff2ae #ffffcc",
    "olive": "#808000 #bcbd22 #6b6b00 #9a9a20",
    "green": "#008000 #2ca02c #00ff00 #4daf4a #22bb44 #33cc33 #66bb22",
    "dark green": "#004d00 #1b5e20 #0b3d0b",
    "light green": "#98df8a #90ee90 #b2df8a #ccebc5 #a6d854 #66c2a5",
    "teal": "#008080 #1b9e77 #2a9d8f",
    "cyan": "#00ffff #17becf #00ced1 #26c6da",
    "light cyan": "#9edae5 #b2ebf2 #8dd3c7",
    "blue": "#0000ff #1f77b4 #377eb8 #4169e1 #1565c0 #3399ff #2060d0",
    "dark blue": "#00008b #0b2545 #08306b #14305c",
    "light blue": "#aec7e8 #87ceeb #add8e6 #a6cee3 #80b1d3",
    "purple": "#800080 #9467bd #984ea3 #6a3d9a #8a2be2 #7b3fa0",
    "light purple": "#c5b0d5 #cab2d6 #bebada #d8bfd8",
}
_BASE_WORDS = "black gray white red pink magenta orange brown yellow olive green teal cyan blue purple".split()
_GREY = {"grey": "gray", "dark grey": "dark gray", "light grey": "light gray", "violet": "purple"}


def parse_color(color: ColorLike) -> tuple[int, int, int]:
    """Parse a colour to (red, green, blue) from 0 to 255.

    Args:
        color: A common name (`"red"`, `"light blue"`), a CSS name, `"#1f77b4"`, `"rgb(31, 119, 180)"`, or three
            numbers.

    Raises:
        ImageError: If it is none of these.
    """
    if isinstance(color, str):
        word = _plain(color)
        if word in _ANCHORS:
            color = _ANCHORS[word].split()[0]
        try:
            red, green, blue = ImageColor.getrgb(color.replace(" ", "") if not color.startswith("rgb") else color)[:3]
        except ValueError as error:
            raise ImageError(
                f"found the colour {color!r}; expected a word like 'red' or 'light blue', a hex colour like '#1f77b4', "
                "or three numbers (red, green, blue) from 0 to 255"
            ) from error
        return red, green, blue
    values = [int(value) for value in color]
    if len(values) != 3 or not all(0 <= value <= 255 for value in values):
        raise ImageError(f"found the colour {values}; expected three numbers (red, green, blue) from 0 to 255")
    return values[0], values[1], values[2]


def color_name(rgb: Sequence[int] | NDArray[np.integer]) -> str:
    """Return the common name of a colour: `color_name((31, 119, 180))` is `"blue"`."""
    words, _, tree = _anchor_tree()
    _, index = tree.query(to_lab(np.asarray([rgb], dtype=np.uint8)))
    return words[int(index[0])]


def is_plain_word(color: ColorLike) -> bool:
    """Return True if a colour is given as one of the names that `color_name` returns."""
    return isinstance(color, str) and _plain(color) in _ANCHORS


def word_lut(word: ColorLike) -> NDArray[np.bool_]:
    """Return the colours with a common name, by their upper six bits of red, green and blue: (64, 64, 64) bool.

    A name without "light" or "dark" includes both: "blue" covers "light blue" and "dark blue".
    """
    wanted = _plain(str(word))
    words, kinds, _ = _anchor_tree()
    names = {name for name in words if name == wanted or (wanted in _BASE_WORDS and name.split()[-1] == wanted)}
    if wanted == "gray":
        names |= {"dark gray", "light gray"}
    chosen = np.array([name in names for name in words])
    result: NDArray[np.bool_] = chosen[kinds]
    return result


def to_lab(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert colours (N, 3) uint8 to CIE L*a*b* (D65; L 0 to 100), (N, 3) float32."""
    scaled = np.ascontiguousarray(rgb, dtype=np.float32).reshape(1, -1, 3) / np.float32(255)
    lab: NDArray[np.float32] = cv2.cvtColor(scaled, cv2.COLOR_RGB2LAB)[0]
    return lab


@functools.cache
def cell_lab() -> NDArray[np.float32]:
    """Return L*a*b* of the center of each of the 64 x 64 x 64 cells of RGB, as (262144, 3), red slowest."""
    levels = np.arange(64, dtype=np.uint8) * 4 + 2
    grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    return to_lab(grid)


@functools.cache
def _anchor_tree() -> tuple[list[str], NDArray[np.intp], Any]:
    """Return the names of all anchors, the nearest anchor of each cell, and the search tree of the anchors."""
    spatial = require("scipy.spatial", "visual")
    words = [word for word, colors in _ANCHORS.items() for _ in colors.split()]
    colors = np.array([ImageColor.getrgb(color) for text in _ANCHORS.values() for color in text.split()], np.uint8)
    tree = spatial.cKDTree(to_lab(colors))
    return words, tree.query(cell_lab())[1].reshape(64, 64, 64), tree


def _plain(color: str) -> str:
    word = " ".join(color.lower().split())
    return _GREY.get(word, word)
