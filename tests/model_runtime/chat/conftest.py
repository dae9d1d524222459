from pathlib import Path

import pytest

from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a release has it, with a vocabulary of 1,024 ranks."""
    folder = tmp_path_factory.mktemp("release")
    write_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(release: Path) -> Tokenizer:
    """Its tokenizer."""
    return load_tokenizer(release)
