"""Fonts as atlases: every letter is rendered once per size, and then copied."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np

FONT_DIRS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
FAMILIES = ("dejavu", "liberation")
"""Prefixes of family names: two that every distribution has, so that screens do not depend on other installed fonts.
Debian's packages are fonts-dejavu-core, fonts-dejavu-extra and fonts-liberation.
"""
HELD_SHARE = 5
"""Fraction of families that are held out from training: one in 5."""
HELD_SALT = 14
"""Salt of the held-out choice; with it, DejaVu Sans and Liberation Sans, the fonts of most pages on Debian, are used in
training.
"""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True, eq=False)
class Glyph:
    """A rendered letter.

    Attributes:
        alpha: (height, width) uint8, coverage of each pixel.
        left: Pixels from the pen to the first column.
        top: Pixels from the baseline up to the first row, negative above it.
        advance: Pixels by which the pen advances.
    """

    alpha: np.ndarray
    left: int
    top: int
    advance: float


@dataclass(frozen=True, slots=True)
class SizedFont:
    """A font in one size.

    Attributes:
        path: Path of the font file.
        size_px: Height of its em.
    """

    path: Path
    size_px: int

    def glyphs(self, text: str) -> list[Glyph]:
        """Return the glyphs of a text; each is rendered on first use."""
        atlas = _find_atlas(self.path, self.size_px)
        return [atlas[letter] for letter in text]

    def width_px(self, text: str) -> float:
        """Return the advance width of a text, without kerning."""
        return sum([glyph.advance for glyph in self.glyphs(text)])


class _Atlas(dict[str, Glyph]):
    """Cache of the glyphs of a font in one size; missing ones are rendered."""

    def __init__(self, path: Path, size_px: int) -> None:
        from PIL import ImageFont

        super().__init__()
        self._font = ImageFont.truetype(str(path), size_px)

    def __missing__(self, letter: str) -> Glyph:
        mask, (left, top) = self._font.getmask2(letter, mode="L", anchor="ls")
        width, height = mask.size
        alpha = np.asarray(mask, dtype=np.uint8).reshape(height, width)
        self[letter] = Glyph(alpha=alpha, left=left, top=top, advance=self._font.getlength(letter))
        return self[letter]


_find_atlas = lru_cache(maxsize=1024)(_Atlas)


@lru_cache(maxsize=2)
def find_fonts(*, held_out: bool = False) -> tuple[Path, ...]:
    """Return the fonts of `FAMILIES` on this machine that have the letters, by path.

    Args:
        held_out: True for the held-out families, else the others.

    Raises:
        FileNotFoundError: If there are none.
    """
    paths = sorted(path for folder in FONT_DIRS for ending in ("ttf", "otf") for path in folder.rglob(f"*.{ending}"))
    usable = [path for path in paths if _has_letters(path)]
    chosen = tuple(path for path in usable if is_held_out(path) is held_out)
    if not chosen:
        kind = "held-out fonts" if held_out else "fonts"
        places = " and ".join(map(str, FONT_DIRS))
        raise FileNotFoundError(
            f"no {kind} in {places}: apt-get install fonts-dejavu-core fonts-dejavu-extra fonts-liberation"
        )
    return chosen


def is_held_out(path: Path) -> bool:
    """Return True if a font's family is held out, which depends only on the family's name."""
    family = path.stem.partition("-")[0].lower()
    return crc32(f"{family} {HELD_SALT}".encode()) % HELD_SHARE == 0


def _has_letters(path: Path) -> bool:
    if not path.name.lower().startswith(FAMILIES) or "math" in path.name.lower():
        return False
    try:
        face = SizedFont(path, 16)
        shapes = {glyph.alpha.tobytes() for glyph in face.glyphs(LETTERS)}
    except OSError:
        return False
    return len(shapes) > 0.9 * len(LETTERS)  # a font without them renders the same box for all
