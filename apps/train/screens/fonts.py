"""Fonts as atlases: every letter is drawn once in each size, and copied from then on."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np

FONT_DIRS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
FAMILIES = ("dejavu", "liberation")
"""What the names of families begin with: two that every distribution has, so that the same screens are drawn anywhere,
whatever else is installed. Debian's packages are fonts-dejavu-core, fonts-dejavu-extra and fonts-liberation."""
HELD_SHARE = 5
"""One family in so many is never drawn in training."""
HELD_SALT = 14
"""Which ones: DejaVu Sans and Liberation Sans, in which Debian shows most pages, are not among them."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True, eq=False)
class Glyph:
    """A letter as it is copied.

    Attributes:
        alpha: (height, width) uint8, how much ink each pixel has.
        left: Pixels from the pen to the first column.
        top: Pixels from the baseline up to the first row, negative above it.
        advance: Pixels that the pen goes on.
    """

    alpha: np.ndarray
    left: int
    top: int
    advance: float


@dataclass(frozen=True, slots=True)
class Face:
    """A font in one size.

    Attributes:
        path: Its file.
        size_px: Height of its em.
    """

    path: Path
    size_px: int

    def glyphs(self, text: str) -> list[Glyph]:
        """Its letters, each drawn the first time."""
        atlas = _find_atlas(self.path, self.size_px)
        return [atlas[letter] for letter in text]

    def width_px(self, text: str) -> float:
        """How far the pen goes; pairs are not drawn nearer together."""
        return sum([glyph.advance for glyph in self.glyphs(text)])


class _Atlas(dict[str, Glyph]):
    """The letters of a font in one size, by themselves; one that is not there is drawn."""

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
    """Fonts of `FAMILIES` on this machine that have the letters, by path.

    Args:
        held_out: Those of the families that training never sees, or the others.

    Raises:
        FileNotFoundError: There are none.
    """
    found = sorted(path for folder in FONT_DIRS for ending in ("ttf", "otf") for path in folder.rglob(f"*.{ending}"))
    usable = [path for path in found if _has_letters(path)]
    chosen = tuple(path for path in usable if is_held_out(path) is held_out)
    if not chosen:
        kind = "held-out fonts" if held_out else "fonts"
        places = " and ".join(map(str, FONT_DIRS))
        raise FileNotFoundError(
            f"no {kind} in {places}: apt-get install fonts-dejavu-core fonts-dejavu-extra fonts-liberation"
        )
    return chosen


def is_held_out(path: Path) -> bool:
    """Whether a font's family is kept for tests: by the family's name, whatever else is installed."""
    family = path.stem.partition("-")[0].lower()
    return crc32(f"{family} {HELD_SALT}".encode()) % HELD_SHARE == 0


def _has_letters(path: Path) -> bool:
    if not path.name.lower().startswith(FAMILIES) or "math" in path.name.lower():
        return False
    try:
        face = Face(path, 16)
        shapes = {glyph.alpha.tobytes() for glyph in face.glyphs(LETTERS)}
    except OSError:
        return False
    return len(shapes) > 0.9 * len(LETTERS)  # a font without them draws one box for all
