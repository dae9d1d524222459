"""Several ranks hold one model: real processes over gloo give what one gives."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.multiprocessing

from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.config import K25Config
from model_runtime.errors import CapacityError, ConfigError
from model_runtime.model import load_model
from model_runtime.ops import DenseExperts, Int4Experts
from model_runtime.parallel.comm import OneRank, check_ranks, open_group, shard_slice
from tests.model_runtime.parallel.worker import CASES, NUM_RANKS, compute, run_rank


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the folders of both models, and what each rank of each case found."""
    path = tmp_path_factory.mktemp("ranks")
    write_tiny(path / "dense")
    write_tiny(path / "int4", quantized=True)
    torch.multiprocessing.spawn(run_rank, (path,), nprocs=NUM_RANKS)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_rank_finds_what_one_alone_finds(work_dir: Path, case: str) -> None:
    folder, _ = CASES[case]
    alone = compute(load_model(work_dir / folder, dtype=torch.float32))
    for rank in range(NUM_RANKS):
        found = torch.load(work_dir / f"{case}.{rank}")
        assert found.keys() == alone.keys()
        for name, tensor in found.items():
            torch.testing.assert_close(tensor, alone[name], rtol=0, atol=1e-5, msg=f"{name} on rank {rank}")


@pytest.mark.long
def test_ranks_of_a_model_hold_equal_parts_and_together_everything(work_dir: Path) -> None:
    """Loading needs no other rank: only the layers talk."""
    parts = [load_model(work_dir / "int4", comm=OneRank(rank=rank, size=4)) for rank in range(4)]
    whole = load_model(work_dir / "int4")
    experts = [part.layers[1].mlp.experts for part in parts]
    assert all(isinstance(each, Int4Experts) and each.num_experts == 2 for each in experts)
    packed = torch.cat([each.gate_up_packed for each in experts])
    assert torch.equal(packed, whole.layers[1].mlp.experts.gate_up_packed)
    assert torch.equal(torch.cat([part.layers[2].attention.q_b for part in parts]), whole.layers[2].attention.q_b)
    assert torch.equal(torch.cat([part.layers[2].attention.o for part in parts], 1), whole.layers[2].attention.o)
    assert torch.equal(torch.cat([part.head.weight for part in parts]), whole.head.weight)


@pytest.mark.long
def test_a_rank_reads_its_part_of_the_file_only(work_dir: Path) -> None:
    model = load_model(work_dir / "dense", comm=OneRank(rank=1, size=4))
    experts = model.layers[1].mlp.experts
    assert isinstance(experts, DenseExperts)
    assert experts.gate_up.untyped_storage().nbytes() == 2 * 64 * 64 * 2


def test_shares_are_neighbours_in_rank_order() -> None:
    assert [shard_slice(12, OneRank(rank=rank, size=3), "things") for rank in range(3)] == [
        slice(0, 4),
        slice(4, 8),
        slice(8, 12),
    ]


def test_what_cannot_be_shared_says_what_can() -> None:
    with pytest.raises(
        CapacityError, match=r"^64 attention heads cannot be split over 3 ranks.*1, 2, 4, 8, 16, 32, 64"
    ):
        check_ranks(K25Config(), OneRank(size=3))
    for size in (1, 2, 4, 8, 16, 32, 64):
        check_ranks(K25Config(), OneRank(size=size))


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("intermediate_size", 129, "columns of the dense MLP"),
        ("moe_intermediate_size", 33, "columns of the shared expert"),
        ("n_routed_experts", 7, "routed experts"),
        ("vocab_size", 1281, "words of the vocabulary"),
    ],
)
def test_each_part_is_checked(field: str, value: int, what: str) -> None:
    config = tiny_config()
    with pytest.raises(CapacityError, match=f"{value} {what} cannot be split over 2 ranks"):
        check_ranks(replace(config, text=replace(config.text, **{field: value})), OneRank(size=2))


def test_a_rank_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="rank 2 of 2 does not exist"):
        open_group(2, 2, "tcp://127.0.0.1:1")
