"""A tokenizer made for tests."""

from pathlib import Path

import pytest

from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole tiny checkpoint, fp32-like sizes, bf16 weights."""
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tiny_dir: Path) -> Tokenizer:
    return load_tokenizer(tiny_dir)
