"""Half-split packing: the same weights in the same memory."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from model_runtime.checkpoint import int4
from model_runtime.kernels.launch import LaunchError
from model_runtime.kernels.repack import dequantize, repack, unpack
from model_runtime.ops.registry import Int4Experts

E = 3
FIELDS = ("gate_up", "down")


def pack(q: Tensor) -> Tensor:
    return torch.stack([int4.pack(expert) for expert in q])


def make_experts(
    hidden: int, intermediate: int, dtype: torch.dtype = torch.bfloat16
) -> tuple[Int4Experts, list[Tensor]]:
    """Experts and their values, before anything overwrites them."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((E, 2 * intermediate, hidden), (E, hidden, intermediate))
    q = [torch.randint(-8, 8, shape, generator=generator, dtype=torch.int8) for shape in shapes]
    scales = [torch.randn(*shape[:2], shape[2] // 32, generator=generator).to(dtype) for shape in shapes]
    experts = Int4Experts(
        gate_up_packed=pack(q[0]), gate_up_scale=scales[0], down_packed=pack(q[1]), down_scale=scales[1]
    )
    return experts, q


@pytest.mark.parametrize(("hidden", "intermediate"), [(128, 64), (64, 32), (96, 64), (32, 96)])
def test_all_values_and_weights_come_back(hidden: int, intermediate: int) -> None:
    experts, q = make_experts(hidden, intermediate)
    weights = [
        torch.stack([int4.dequantize(*expert) for expert in zip(packed, scale, strict=True)])
        for packed, scale in (
            (experts.gate_up_packed, experts.gate_up_scale),
            (experts.down_packed, experts.down_scale),
        )
    ]
    split = repack(experts)
    assert (split.num_experts, split.hidden_size, split.intermediate_size) == (E, hidden, intermediate)
    for name, values, weight in zip(FIELDS, q, weights, strict=True):
        packed, scale = getattr(split, name), getattr(split, f"{name}_scale")
        assert torch.equal(unpack(packed, values.shape[-1]), values)
        assert torch.equal(dequantize(packed, scale, values.shape[-1]), weight)


def test_byte_j_of_a_block_holds_inputs_j_and_j_plus_32() -> None:
    experts, q = make_experts(128, 64)
    stored = (q[0] + 8).to(torch.uint8)
    split = repack(experts)
    assert split.gate_up[1, 5, 32 + 7] == stored[1, 5, 64 + 7] | stored[1, 5, 64 + 32 + 7] << 4


def test_memory_is_used_again() -> None:
    experts, _ = make_experts(128, 64)
    split = repack(experts)
    for name in FIELDS:
        for mine, theirs in ((name, f"{name}_packed"), (f"{name}_scale", f"{name}_scale")):
            assert getattr(split, mine).data_ptr() == getattr(experts, theirs).data_ptr()
            assert getattr(split, mine).nbytes == getattr(experts, theirs).nbytes


def test_a_half_block_is_padded_with_zeros() -> None:
    split = repack(make_experts(96, 32)[0])
    assert split.gate_up.shape == (E, 64, 64)
    assert split.gate_up_scale.shape == (E, 4, 64)
    assert split.down.shape == (E, 96, 32)
    assert (unpack(split.gate_up, 128)[..., 96:] == 0).all()
    assert (split.gate_up_scale[:, 3] == 0).all()
    assert (split.down_scale[:, 1] == 0).all()


def test_rows_that_are_not_contiguous_are_copied() -> None:
    experts, q = make_experts(128, 64)
    wide = torch.cat((experts.gate_up_packed, experts.gate_up_packed), -1)
    split = repack(replace(experts, gate_up_packed=wide[..., :16]))
    assert torch.equal(unpack(split.gate_up, 128), q[0])


def test_a_scale_of_float32_stays_one() -> None:
    assert repack(make_experts(64, 64, torch.float32)[0]).down_scale.dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"group_size": 64}, "groups of 64 inputs"),
        ({"gate_up_packed": torch.zeros(E, 128, 16)}, "gate_up_packed is float32, expected int32"),
        ({"down_scale": torch.zeros(E, 128, 4)}, "down_scale has the shape"),
        ({"down_scale": torch.zeros(E, 128, 2, dtype=torch.int8)}, "down_scale is int8"),
        ({"down_packed": torch.zeros(E, 144, 8, dtype=torch.int32)}, "gate_up has 144 inputs"),
    ],
)
def test_what_cannot_be_repacked_is_told(changes: dict[str, object], match: str) -> None:
    with pytest.raises(LaunchError, match=match):
        repack(replace(make_experts(128, 64)[0], **changes))
