"""What is said and done about fonts, with a real browser that sees only the fonts of a folder."""

import os
import shlex
from pathlib import Path

import pytest

from apps.setup.install import run_setup
from apps.setup.packages import APT_FONTS
from apps.setup.verify import SCRIPTS
from tests.apps.setup.drawn_fonts import LETTERS, TEXT, write_font
from tests.apps.setup.machine import BareMachine, real_browser

BROWSER = real_browser()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on PATH or in $K25_BROWSER"),
]
EMOJI = dict.fromkeys("0123456789#*", 1245)
INSTALLED = shlex.join(("apt-get", "install", "-y", "--no-install-recommends", *APT_FONTS))


@pytest.fixture(autouse=True)
def browser(machine: BareMachine) -> None:
    machine.link("chromium-headless-shell", BROWSER or "")


@pytest.mark.long
async def test_fonts_with_every_script_and_digits_of_their_own_are_enough(fonts: Path, machine: BareMachine) -> None:
    write_font(fonts / "text.ttf", "DejaVu Sans", TEXT)
    write_font(fonts / "emoji.ttf", "Test Color Emoji", EMOJI)

    report = await run_setup(print, desktop=False, sandbox=False)

    assert [(row.name, row.level) for row in report.rows] == [("browser", "ok"), ("fonts", "ok")]


@pytest.mark.long
async def test_scripts_that_are_drawn_as_boxes_are_named_with_the_command_that_mends_it(
    fonts: Path, machine: BareMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lacking = {*SCRIPTS["Thai"], SCRIPTS["Korean"][-1], SCRIPTS["emoji"][0]}
    same = dict.fromkeys(SCRIPTS["Tamil"], 700)  # as fonts that show a script's name in place of its letters
    write_font(fonts / "text.ttf", "DejaVu Sans", {one: TEXT[one] for one in TEXT if one not in lacking} | same)
    machine.add("apt-get")

    report = await run_setup(print, desktop=False, sandbox=False)

    row = report.rows[-1]
    assert (row.name, row.level) == ("fonts", "warn")
    assert row.actual == "drawn as boxes or not at all: Korean, Tamil, Thai, emoji"
    assert row.fix == f"sudo apt-get update && sudo {INSTALLED}"
    assert machine.log == []


@pytest.mark.long
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
    assert "no digits but those of an emoji font" in row.actual and "1.2" in row.actual
    assert row.fix == f"sudo apt-get update && sudo {INSTALLED}"
    assert machine.log == []


@pytest.mark.long
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


@pytest.mark.long
async def test_no_font_at_all_is_told(fonts: Path, machine: BareMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    report = await run_setup(print, desktop=False, sandbox=False)

    assert [(row.name, row.level, row.actual) for row in report.rows[1:]] == [
        ("fonts", "warn", "none: text is drawn as boxes or not at all")
    ]
