"""INT4 packing against compressed-tensors' own, bit for bit."""

import pytest
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from hypothesis import given
from hypothesis import strategies as st

from model_runtime.checkpoint.int4 import dequantize, pack, quantize, unpack
from tests.fuzz.settings import fuzzed


def random_q(num_out: int, num_in: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 8, (num_out, num_in), generator=generator, dtype=torch.int8)


@fuzzed
@given(num_out=st.integers(1, 9), num_in=st.integers(1, 70), seed=st.integers(0, 2**31))
def test_packs_and_unpacks_as_compressed_tensors(num_out, num_in, seed):
    q = random_q(num_out, num_in, seed)
    packed = pack(q)
    assert packed.dtype is torch.int32
    assert torch.equal(packed, pack_to_int32(q, 4))
    assert torch.equal(unpack(packed, num_in), q)
    assert torch.equal(unpack(packed, num_in), unpack_from_int32(packed, 4, torch.Size((num_out, num_in))))


@pytest.mark.parametrize(
    ("values", "hexadecimal"),
    [(range(-8, 0), 0x76543210), (range(8), 0xFEDCBA98), ([-8] * 8, 0), ([7] * 8, 0xFFFFFFFF)],
)
def test_known_words(values, hexadecimal):
    packed = pack(torch.tensor([list(values)]))
    assert packed.numpy().view("uint32").tolist() == [[hexadecimal]]
    assert unpack(packed).tolist() == [list(values)]


def test_columns_that_leave_part_of_a_word():
    packed = pack(torch.tensor([[0, 1, -8]]))
    assert packed.tolist() == [[0x098]]
    assert unpack(packed).tolist() == [[0, 1, -8, -8, -8, -8, -8, -8]]
    assert unpack(packed, 3).tolist() == [[0, 1, -8]]


def test_unpacks_a_part_of_the_rows_without_copying_them_first():
    packed = pack(random_q(6, 64))
    assert torch.equal(unpack(packed[2:4, 4:]), unpack(packed)[2:4, 32:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16])
def test_quantize_reaches_both_ends_and_is_within_half_a_step(dtype):
    weight = torch.randn(5, 96, generator=torch.Generator().manual_seed(1)).to(dtype)
    weight[0, :32] = 0
    weight[1, 0], weight[1, 1:32] = -30.0, 1.0
    q, scale = quantize(weight, 32)
    assert (q.dtype, tuple(q.shape), scale.dtype, tuple(scale.shape)) == (torch.int8, (5, 96), dtype, (5, 3))
    assert (scale[0, 0].item(), q[0, :32].unique().tolist()) == (0.0, [0])
    assert (scale[1, 0].item(), q[1, 0].item()) == (4.0, -8)
    again = dequantize(pack(q), scale, torch.float32)
    half_step = 0.51 * scale.float().repeat_interleave(32, 1)
    assert torch.all((again - weight.float()).abs() <= half_step + 1e-9)


@fuzzed
@given(num_out=st.integers(1, 5), groups=st.integers(1, 4), size=st.sampled_from([8, 32]), seed=st.integers(0, 2**31))
def test_dequantize_is_value_times_scale_rounded_once(num_out, groups, size, seed):
    q = random_q(num_out, groups * size, seed)
    scale = torch.randn(num_out, groups, generator=torch.Generator().manual_seed(seed)).bfloat16()
    scale[0, 0] = 0
    exact = q.double() * scale.double().repeat_interleave(size, 1)
    assert torch.equal(dequantize(pack(q), scale), exact.bfloat16())
    assert torch.equal(dequantize(pack(q), scale, torch.float32), exact.float())
    assert torch.equal(dequantize(pack(q), scale, torch.float16), exact.half())
    assert torch.equal(
        dequantize(pack(q), scale.half()), (q * scale.half().double().repeat_interleave(size, 1)).bfloat16()
    )


def test_dequantizes_as_compressed_tensors_decompresses():
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    weights = QuantizationArgs(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32)
    q, scale = random_q(16, 64), torch.rand(16, 2, generator=torch.Generator().manual_seed(3)).bfloat16()
    state = {"weight_packed": pack(q), "weight_scale": scale, "weight_shape": torch.tensor([16, 64])}
    compressor = BaseCompressor.get_value_from_registry("pack-quantized")
    peer = compressor.decompress(state, QuantizationScheme(targets=["Linear"], weights=weights))["weight"]
    assert torch.equal(dequantize(state["weight_packed"], scale, peer.dtype), peer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scales_and_rounding_are_those_of_compressed_tensors(dtype):
    """In bf16 its division rounds once more than ours, so the values are compared in float32 only."""
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import quantize as round_to_scale
    from compressed_tensors.quantization.utils import calculate_qparams

    weights = QuantizationArgs(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32)
    weight = torch.randn(64, 128, generator=torch.Generator().manual_seed(4)).to(dtype)
    weight[0, 0] = -9
    groups = weight.unflatten(1, (-1, 32))
    their_scale, zero_point = calculate_qparams(groups.amin(-1), groups.amax(-1), weights)
    q, scale = quantize(weight)
    assert torch.equal(scale, their_scale)
    if dtype == torch.float32:
        assert q.min() == -8
        assert torch.equal(q, round_to_scale(weight, their_scale, zero_point, weights).to(torch.int8))
