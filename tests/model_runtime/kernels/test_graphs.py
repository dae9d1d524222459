"""Decode steps replayed from the same memory, beside steps computed as they come. In place of CUDA's capture stands one
that computes again: what is tested is that everything a step depends on reaches the memory that a replay reads."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.engine.contract import EngineOptions
from model_runtime.engine.runner import DecodeGraphs, find_sizes, wants_graphs
from model_runtime.kernels.mla_schedule import make_plan
from model_runtime.model import ForwardBatch, K25Model, load_model

OPTIONS = EngineOptions(num_blocks=12, block_size=4, max_num_seqs=3, max_num_batched_tokens=16, max_model_len=20)


def capture(compute: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
    result = compute()

    def replay() -> None:
        result.copy_(compute())

    return result, replay


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> K25Model:
    folder: Path = tmp_path_factory.mktemp("two") / "layers"
    write_tiny(folder, config=tiny_config(text={"num_hidden_layers": 2}))
    return load_model(folder, dtype=torch.float32, kernels="triton")


def decode(lens: list[int], tables: list[list[int]]) -> ForwardBatch:
    slots = [row[(length - 1) // 4] * 4 + (length - 1) % 4 for row, length in zip(tables, lens, strict=True)]
    return ForwardBatch(
        positions=torch.tensor(lens) - 1,
        slot_mapping=torch.tensor(slots),
        block_tables=torch.tensor(tables, dtype=torch.int32),
        cu_seqlens_q=tuple(range(len(lens) + 1)),
        seq_lens=tuple(lens),
        num_decodes=len(lens),
        block_size=4,
    )


@pytest.mark.slow
def test_replayed_steps_are_those_computed(model: K25Model) -> None:
    cache = torch.randn(model.make_cache(13, 4).shape, generator=torch.Generator().manual_seed(0))
    own = cache.clone()
    graphs = DecodeGraphs(model, own, OPTIONS, capture, make_plan)
    own.copy_(cache)  # what the captures wrote
    steps = [
        decode([9, 2, 17], [[3, 1, 7, 0, 0], [2, 0, 0, 0, 0], [11, 4, 5, 6, 8]]),
        decode([18, 3], [[11, 4, 5, 6, 8], [2, 0, 0, 0, 0]]),
        decode([4], [[2, 0, 0]]),
    ]
    for number, batch in enumerate(steps):
        assert graphs.fits(batch)
        embeds = model.embed(torch.arange(batch.num_tokens) + 7 * number)
        expected = model.logits(model.forward(embeds, batch, cache))
        found = graphs.run(embeds, batch)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
        torch.testing.assert_close(own[:, :12], cache[:, :12], rtol=0, atol=1e-5)


def test_only_decoding_batches_fit(model: K25Model) -> None:
    def skip(compute: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        return torch.empty(0), lambda: None

    graphs = DecodeGraphs(model, model.make_cache(13, 4), replace(OPTIONS, max_num_seqs=2), skip, make_plan)
    two = decode([9, 2], [[3, 1, 7], [2, 0, 0]])
    assert graphs.fits(two)
    assert not graphs.fits(decode([9, 2, 1], [[3, 1, 7], [2, 0, 0], [4, 0, 0]]))
    assert not graphs.fits(replace(two, num_decodes=1))
    assert not graphs.fits(replace(two, cu_seqlens_q=(0, 1, 3), num_decodes=1))


def test_sizes() -> None:
    assert find_sizes(1) == [1]
    assert find_sizes(6) == [1, 2, 4, 6]
    assert find_sizes(20) == [1, 2, 4, 8, 16, 20]
    assert find_sizes(64)[-1] == 64


def test_a_cpu_has_none(model: K25Model) -> None:
    assert not wants_graphs(model, OPTIONS)
