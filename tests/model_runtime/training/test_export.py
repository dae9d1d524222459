import random
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model_runtime.checkpoint.folder import unpack_folder
from model_runtime.checkpoint.names import expected_tensors
from model_runtime.checkpoint.reader import Checkpoint, check_tensors
from model_runtime.checkpoint.tiny import tiny_ranks
from model_runtime.config import load_config
from model_runtime.config.types import DType
from model_runtime.errors import ConfigError
from model_runtime.model import K25Model, load_model
from model_runtime.training.precision import start_rounding, stop_rounding
from model_runtime.training.release import export_model, release_tensors
from tests.model_runtime.model.drive import difference, make_ids, run_whole
from tests.model_runtime.model.peer import Peer
from tests.model_runtime.training.test_trainer import make_trainer, train

IDS = make_ids(40)


@pytest.fixture(scope="module")
def trained(tiny_dir: Path) -> K25Model:
    trainer = make_trainer(tiny_dir)
    train(trainer, random.Random(0), 3)
    trainer.losses.close()
    return trainer.model.eval()


@torch.no_grad()
def say(model: K25Model) -> Tensor:
    return run_whole(model, IDS)


def test_an_untrained_model_is_written_as_it_was_read(tiny_dir: Path, tmp_path: Path) -> None:
    model = load_model(tiny_dir, dtype=torch.float32)
    config = export_model(model, tmp_path, ranks=(tiny_dir / "tiktoken.model").read_bytes())
    before, after = Checkpoint.open(tiny_dir), Checkpoint.open(tmp_path)
    for name in expected_tensors(config):
        assert torch.equal(before.get(name), after.get(name)), name
    for name in ("config.json", "tiktoken.model", "tokenizer_config.json", "preprocessor_config.json"):
        assert (tmp_path / name).read_bytes() == (tiny_dir / name).read_bytes(), name


@pytest.mark.parametrize("dtype", ["float32", None])
def test_an_unpacked_model_is_the_packed_one(int4_dir: Path, tmp_path: Path, dtype: DType | None) -> None:
    unpack_folder(int4_dir, tmp_path, dtype)
    packed, dense = load_model(int4_dir, dtype=torch.float32), load_model(tmp_path, dtype=torch.float32)
    assert torch.equal(say(packed), say(dense))
    for name in ("tiktoken.model", "tokenizer_config.json", "preprocessor_config.json"):
        assert (tmp_path / name).read_bytes() == (int4_dir / name).read_bytes(), name


@pytest.mark.long
def test_what_was_trained_is_what_is_served(trained: K25Model, tmp_path: Path) -> None:
    """In fp32, and in bf16 what its rounded weights say, to the last digits; transformers reads the same."""
    ranks = tiny_ranks()
    export_model(trained, tmp_path / "fp32", ranks=ranks, dtype="float32")
    exact = say(trained)
    assert difference(say(load_model(tmp_path / "fp32")), exact) <= 1e-5
    assert difference(Peer(tmp_path / "fp32")(IDS), exact) <= 2e-5
    export_model(trained, tmp_path / "bf16", ranks=ranks)
    rounded = load_model(tmp_path / "fp32", dtype=torch.float32)
    with torch.no_grad():
        for weight in rounded.parameters():
            weight.copy_(weight.bfloat16())
    served = say(load_model(tmp_path / "bf16", dtype=torch.float32))
    assert difference(served, say(rounded)) <= 1e-5
    assert difference(served, exact) > 1e-3
    check_tensors(Checkpoint.open(tmp_path / "bf16"), load_config(tmp_path / "bf16"))


def test_int4_is_what_training_saw(trained: K25Model, tmp_path: Path) -> None:
    """Forward passes in training see the experts as the packed file gives them, to the last digits."""
    config = export_model(trained, tmp_path, ranks=tiny_ranks(), group_size=32)
    assert config.quantization is not None
    check_tensors(Checkpoint.open(tmp_path), load_config(tmp_path))
    exact = say(trained)
    start_rounding(trained)
    start_rounding(trained)
    seen = {name: tensor for name, tensor in release_tensors(trained).items() if ".experts.0." in name}
    rounded = say(trained)
    served = load_model(tmp_path, dtype=torch.float32)
    for name, tensor in release_tensors(trained).items():  # only the experts are to differ
        if ".experts." not in name:
            tensor.copy_(tensor.to(torch.bfloat16))
    assert difference(say(served), say(trained)) <= 1e-5
    assert difference(rounded, exact) > 0.01  # four bits do show
    assert all(torch.equal(tensor, release_tensors(trained)[name]) for name, tensor in seen.items())
    stop_rounding(trained)
    assert type(trained.layers[1].mlp).__name__ == "Moe"


def test_the_gradient_passes_the_rounding(tiny_dir: Path) -> None:
    trainer = make_trainer(tiny_dir)
    before = {name: tensor.clone() for name, tensor in release_tensors(trainer.model).items() if ".experts." in name}
    start_rounding(trainer.model)
    losses = train(trainer, random.Random(0), 3)
    assert all(value == value for value in losses)
    after = release_tensors(trainer.model)
    assert [name for name in before if torch.equal(before[name], after[name])] == []


def test_a_vocabulary_of_another_size_is_refused(trained: K25Model, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1000 ranks, expected 1024"):
        export_model(trained, tmp_path, ranks=tiny_ranks(1000))
