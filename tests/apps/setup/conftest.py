from pathlib import Path

import pytest

from tests.apps.setup.drawn_fonts import TEXT, write_font
from tests.apps.setup.machine import BareMachine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BareMachine:
    return BareMachine(tmp_path, monkeypatch)


@pytest.fixture
def fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the only fonts that browsers know; empty."""
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
    return folder


@pytest.fixture
def all_fonts(fonts: Path) -> None:
    """Browsers have a font with every script."""
    write_font(fonts / "text.ttf", "DejaVu Sans", TEXT)
