"""One layer in the release's own sizes, cut to few experts and few words, with random weights and no file."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from model_runtime.checkpoint.names import TensorInfo, expected_tensors
from model_runtime.config import K25Config, QuantizationConfig, TextConfig
from model_runtime.model import K25Model
from model_runtime.ops import find_ops
from model_runtime.parallel.comm import OneRank
from model_runtime.placement import ModelPlacement
from tests.model_runtime.model.drive import Drive, make_ids

TEXT = TextConfig(vocab_size=1024, num_hidden_layers=1, n_routed_experts=8, num_experts_per_tok=2)


class RandomSource:
    """Tensors of the release's names and shapes; each repeats one random run, whose odd length keeps rows apart."""

    def __init__(self, config: K25Config) -> None:
        self.infos: dict[str, TensorInfo] = expected_tensors(config)
        self.values = torch.empty(1_000_003).uniform_(-1.7, 1.7)
        self.words = torch.randint(-(2**31), 2**31, (1_000_003,), dtype=torch.int32)

    def has(self, name: str) -> bool:
        return name in self.infos

    def get(self, name: str, index: tuple[slice, ...] = ()) -> Tensor:
        shape = torch.empty(self.infos[name].shape, device="meta")[index].shape
        if name.endswith("weight_packed"):
            return repeat(self.words, shape)
        if name.endswith("weight_scale"):
            return torch.full(shape, 0.004, dtype=torch.bfloat16)
        spread = shape[-1] ** -0.5 if len(shape) == 2 else 1.0
        return repeat((self.values * spread).bfloat16(), shape)


def repeat(values: Tensor, shape: torch.Size) -> Tensor:
    return values.repeat(-(-shape.numel() // len(values)))[: shape.numel()].view(shape)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense layer", "INT4 experts"])
def test_one_layer(kind: str) -> None:
    """Finite, and decoding goes on where the prompt ended: the forms of attention differ by bf16's rounding only."""
    text = replace(TEXT, first_k_dense_replace=int(kind == "dense layer"))
    config = K25Config(text=text, quantization=QuantizationConfig() if kind == "INT4 experts" else None)
    place = ModelPlacement(
        device=torch.device("cpu"), dtype=torch.bfloat16, comm=OneRank(), ops=find_ops("cpu", "torch")
    )
    torch.manual_seed(0)
    model = K25Model(config, RandomSource(config), place)
    ids = make_ids(12, vocab_size=text.vocab_size)
    whole = Drive(model).step({"one": ids})["one"]
    drive = Drive(model)
    drive.step({"one": ids[:11]})
    last = drive.step({"one": ids[11:]})["one"]
    assert whole.shape == (12, 1024)
    assert 0.2 < whole.std() < 5
    assert (last - whole[11:]).abs().max() <= 0.05 * whole.abs().max()
