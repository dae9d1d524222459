"""What is said and done about fonts, with a real browser that sees only the fonts of a folder."""

import os
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from apps.setup.install import run_setup
from tests.apps.setup.machine import BareMachine, real_browser

BROWSER = real_browser()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH or in $K25_BROWSER"),
]
LETTERS = {letter: 250 if letter in "ijl" else 900 if letter in "mwMW" else 600 for letter in map(chr, range(65, 123))}
TEXT = LETTERS | dict.fromkeys("0123456789", 560)
EMOJI = dict.fromkeys("0123456789#*", 1245)
INSTALLED = "apt-get install -y --no-install-recommends fonts-dejavu-core fonts-liberation"


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


@pytest.fixture
def fonts(machine: BareMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the only fonts that the machine's browser knows."""
    folder = tmp_path / "fonts"
    folder.mkdir()
    config = tmp_path / "fonts.conf"
    prefer = "".join(
        f"<alias><family>{family}</family><prefer><family>DejaVu Sans</family></prefer></alias>"
        for family in ("sans-serif", "serif", "monospace")
    )
    config.write_text(
        f'<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">'
        f"<fontconfig><dir>{folder}</dir><cachedir>{tmp_path}/cache</cachedir>{prefer}</fontconfig>"
    )
    monkeypatch.setenv("FONTCONFIG_FILE", str(config))
    machine.link("chromium-headless-shell", BROWSER or "")
    return folder


async def test_fonts_with_digits_of_their_own_are_enough(fonts: Path, machine: BareMachine) -> None:
    write_font(fonts / "text.ttf", "DejaVu Sans", TEXT)
    write_font(fonts / "emoji.ttf", "Test Color Emoji", EMOJI)

    report = await run_setup(print, desktop=False, sandbox=False)

    assert [(row.name, row.level) for row in report.rows] == [("browser", "ok"), ("fonts", "ok")]


async def test_digits_of_an_emoji_font_are_told(
    fonts: Path, machine: BareMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    write_font(fonts / "letters.ttf", "DejaVu Sans", LETTERS)
    write_font(fonts / "emoji.ttf", "Test Color Emoji", EMOJI)
    machine.add("apt-get")

    report = await run_setup(print, desktop=False, sandbox=False)

    row = report.rows[-1]
    assert (row.name, row.level) == ("fonts", "warn")
    assert "no digits but those of an emoji font" in row.found and "1.2" in row.found
    assert row.fix == f"sudo apt-get update && sudo {INSTALLED}"
    assert machine.log == []


async def test_root_gets_fonts_where_digits_come_from_an_emoji_font(
    fonts: Path, machine: BareMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    write_font(fonts / "emoji.ttf", "Test Color Emoji", EMOJI | LETTERS)
    write_font(tmp_path / "text.ttf", "DejaVu Sans", TEXT)
    machine.add("apt-get", f'case "$*" in *fonts-dejavu-core*) cp {tmp_path}/text.ttf {fonts}/;; esac')

    report = await run_setup(print, desktop=False, sandbox=False)

    assert [(row.name, row.level) for row in report.rows] == [("browser", "ok"), ("fonts", "ok")]
    assert machine.log == ["apt-get update", INSTALLED.replace("install", "-o DPkg::Lock::Timeout=300 install", 1)]


async def test_no_font_at_all_is_told(fonts: Path, machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    report = await run_setup(print, desktop=False, sandbox=False)

    assert [(row.name, row.level, row.found) for row in report.rows[1:]] == [
        ("fonts", "warn", "none: text is drawn as boxes or not at all")
    ]
