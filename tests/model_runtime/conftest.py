"""Skips everything here where torch is not installed, and keeps torch from taking both cores of every worker."""

import importlib.util
from pathlib import Path

import pytest

NEEDED = ("torch", "transformers", "safetensors", "tiktoken", "llguidance", "fastapi", "compressed_tensors")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

collect_ignore_glob = ["*"] if MISSING else []


def pytest_report_header() -> str | None:
    """Say why the runtime's tests are left out."""
    if not MISSING:
        return None
    return f"tests/model_runtime left out: {', '.join(MISSING)} not installed (pip install 'cua-k25[runtime-dev]')"


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def root() -> Path:
    """The repository."""
    return Path(__file__).parents[2]
