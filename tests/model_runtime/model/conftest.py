from pathlib import Path

import pytest
import torch

from model_runtime.model import K25Model, load_model


@pytest.fixture(scope="session")
def tiny(tiny_dir: Path) -> K25Model:
    return load_model(tiny_dir, dtype=torch.float32)
