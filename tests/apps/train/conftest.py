"""Tests of what needs torch are left out where it is missing: see `tests/test_runtime_extra.py`."""

import importlib.util
from pathlib import Path

import pytest

from model_runtime.tokenizer import Tokenizer
from model_runtime.tokenizer.tokenizer import load_tokenizer

NEED_TORCH = ("episodes", "exam", "lessons", "loader", "page", "run", "skills")

collect_ignore = [] if importlib.util.find_spec("torch") else [f"test_{name}.py" for name in NEED_TORCH]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that nothing was taught yet; tests only read it."""
    from apps.train.nano import make_config, make_model
    from apps.train.vocabulary import make_vocabulary

    made = tmp_path_factory.mktemp("nano")
    make_model(made, make_config(make_vocabulary()), seed=0)
    return made


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> Tokenizer:
    """Its vocabulary."""
    return load_tokenizer(folder)
