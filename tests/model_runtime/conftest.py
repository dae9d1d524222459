"""Tiny checkpoints for all tests here, which are left out where torch is missing: see `tests/test_runtime_extra.py`."""

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from model_runtime.tokenizer import Tokenizer

NEEDED = ("torch", "transformers", "safetensors", "tiktoken", "llguidance", "fastapi", "compressed_tensors")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

collect_ignore_glob = ["*"] if MISSING else []

# For tests/model_runtime/kernels. Triton looks when it is first imported, which compressed_tensors and others do.
# On a GPU: TRITON_INTERPRET=0 pytest -m gpu
os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole tiny checkpoint as a release has it: bf16, a vocabulary of 1,024 ranks."""
    from model_runtime.checkpoint.tiny import write_tiny

    folder = tmp_path_factory.mktemp("tiny") / "bf16"
    write_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def int4_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with its routed experts packed."""
    from model_runtime.checkpoint.tiny import write_tiny

    folder = tmp_path_factory.mktemp("tiny") / "int4"
    write_tiny(folder, quantized=True)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tiny_dir: Path) -> "Tokenizer":
    """The tiny checkpoint's."""
    from model_runtime.tokenizer import load_tokenizer

    return load_tokenizer(tiny_dir)


@pytest.fixture
def root() -> Path:
    """The repository."""
    return Path(__file__).parents[2]
