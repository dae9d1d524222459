from pathlib import Path

import pytest
import torch

from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.model import K25Model, load_model


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    write_tiny(path)
    return path


@pytest.fixture(scope="session")
def int4_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny_int4")
    write_tiny(path, quantized=True)
    return path


@pytest.fixture(scope="session")
def tiny(tiny_dir: Path) -> K25Model:
    return load_model(tiny_dir, dtype=torch.float32)
