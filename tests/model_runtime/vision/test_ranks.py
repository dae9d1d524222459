"""Several ranks hold one tower."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from model_runtime.errors import CapacityError, CheckpointError
from model_runtime.parallel.comm import OneRank
from model_runtime.vision import VisionTower
from tests.model_runtime.vision.weights import TINY, DictSource, make_item, make_weights

FOUR_HEADS = replace(TINY, hidden_size=96, mm_hidden_size=96, num_attention_heads=4)
ITEMS = [make_item(1, 4, 6), make_item(4, 4, 4), make_item(3, 4, 4), make_item(1, 8, 2)]


@dataclass
class Meeting:
    """Where the threads of a test hand in their tensors."""

    size: int
    parts: dict[int, Tensor] = field(default_factory=dict)
    num_sums: int = 0

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=30)


@dataclass(frozen=True)
class ThreadComm:
    """`Comm` between threads."""

    meeting: Meeting
    rank: int

    @property
    def size(self) -> int:
        return self.meeting.size

    def _share(self, tensor: Tensor) -> list[Tensor]:
        self.meeting.parts[self.rank] = tensor.clone()
        self.meeting.barrier.wait()
        parts = [self.meeting.parts[rank] for rank in range(self.size)]
        self.meeting.barrier.wait()
        return parts

    def all_reduce(self, tensor: Tensor) -> Tensor:
        self.meeting.num_sums += not self.rank
        return tensor.copy_(torch.stack(self._share(tensor)).sum(0))

    def all_gather(self, tensor: Tensor, dim: int = -1) -> Tensor:
        return torch.cat(self._share(tensor), dim)


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_together_give_what_one_gives(size: int) -> None:
    source, meeting = make_weights(FOUR_HEADS), Meeting(size)

    def encode(rank: int) -> list[Tensor]:
        tower = VisionTower(FOUR_HEADS, comm=ThreadComm(meeting, rank), dtype=torch.float32)
        tower.load(source)
        return tower(ITEMS)

    alone = VisionTower(FOUR_HEADS, dtype=torch.float32)
    alone.load(source)
    expected = alone(ITEMS)
    with ThreadPoolExecutor(size) as pool:
        for found in pool.map(encode, range(size)):
            assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))
    assert meeting.num_sums == 2 * FOUR_HEADS.num_hidden_layers + 1


def test_each_rank_holds_its_part_only() -> None:
    whole, part = (VisionTower(FOUR_HEADS, comm=OneRank(rank=3, size=size)) for size in (1, 4))
    sizes = {name: tensor.numel() for name, tensor in whole.named_parameters()}
    shared = {name for name, tensor in part.named_parameters() if tensor.numel() * 4 == sizes[name]}
    assert {name for name in sizes if name.endswith("weight")} - shared == {
        "patch_embed.weight",
        "position.weight",
        "final_norm.weight",
        "projector.pre_norm.weight",
        *(f"blocks.{block}.{norm}.weight" for block in (0, 1) for norm in ("norm0", "norm1")),
    }


def test_heads_that_cannot_be_shared() -> None:
    with pytest.raises(CapacityError, match="4 heads of the vision tower cannot be split over 3 ranks"):
        VisionTower(FOUR_HEADS, comm=OneRank(rank=0, size=3))


@pytest.mark.parametrize(
    "name",
    [
        "vision_tower.patch_embed.proj.weight",
        "vision_tower.encoder.blocks.1.mlp.fc1.bias",
        "mm_projector.proj.0.weight",
        "vision_tower.encoder.final_layernorm.weight",
    ],
)
def test_checkpoints_that_do_not_fit(name: str) -> None:
    source = make_weights(TINY)
    tower = VisionTower(TINY, dtype=torch.float32)
    missing = DictSource({other: tensor for other, tensor in source.tensors.items() if other != name})
    with pytest.raises(CheckpointError, match=name):
        tower.load(missing)
    misshapen = DictSource(source.tensors | {name: source.tensors[name][:-1]})
    with pytest.raises(CheckpointError, match=f"{name} has the shape"):
        tower.load(misshapen)
