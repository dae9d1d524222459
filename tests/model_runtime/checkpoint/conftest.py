"""Tiny checkpoints, written once and copied for tests that break them."""

import shutil
from pathlib import Path

import pytest

from model_runtime.checkpoint.tiny import write_tiny


@pytest.fixture(scope="session")
def bf16_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "bf16"
    write_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def int4_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "int4"
    write_tiny(folder, quantized=True)
    return folder


@pytest.fixture
def broken(bf16_dir: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(bf16_dir, tmp_path / "model"))
