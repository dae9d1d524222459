"""Tiny checkpoints, copied for tests that break them."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def broken(tiny_dir: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(tiny_dir, tmp_path / "model"))
