"""Fonts of rectangles that have the letters a test wants."""

from pathlib import Path

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from apps.setup.verify import SCRIPTS

LATIN = {letter: 250 if letter in "ijl" else 900 if letter in "mwMW" else 610 for letter in map(chr, range(65, 123))}
LETTERS = {one: 680 + 80 * at for letters in SCRIPTS.values() for at, one in enumerate(letters)} | LATIN
TEXT = LETTERS | dict.fromkeys("0123456789", 560)


def write_font(path: Path, family: str, widths: dict[str, int]) -> None:
    """A font of rectangles.

    Args:
        path: Where to.
        family: Its name.
        widths: Advance of each character, in thousandths of the font size.
    """
    builder = FontBuilder(1000, isTTF=True)
    names = {character: f"uni{ord(character):04X}" for character in widths}
    builder.setupGlyphOrder([".notdef", *names.values()])
    builder.setupCharacterMap({ord(character): name for character, name in names.items()})
    builder.setupGlyf({".notdef": draw_bar(600)} | {names[one]: draw_bar(width) for one, width in widths.items()})
    builder.setupHorizontalMetrics({".notdef": (600, 40)} | {names[one]: (width, 40) for one, width in widths.items()})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    builder.setupPost()
    builder.save(path)


def draw_bar(width: int) -> object:
    pen = TTGlyphPen(None)
    pen.moveTo((40, 0))
    for corner in ((40, 700), (width - 40, 700), (width - 40, 0)):
        pen.lineTo(corner)
    pen.closePath()
    return pen.glyph()
