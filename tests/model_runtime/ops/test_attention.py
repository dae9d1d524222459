"""Attention, the cache's rows and the norm beside their definitions in float64."""

import pytest
import torch
from torch import Tensor

from model_runtime.ops import CuSeqlens, find_ops
from model_runtime.ops.reference.attention import MAX_QUERIES

OPS = find_ops("cpu", "torch")


def attend_slowly(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Causal, ends aligned: q (n, heads, d), k (m, heads or 1, d), v (m, heads or 1, e) -> (n, heads, e)."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    scores = q @ k.transpose(1, 2) * scale
    num_queries, num_keys = scores.shape[1:]
    hidden = torch.ones(num_queries, num_keys).triu(num_keys - num_queries + 1).bool()
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(0, 1)


@pytest.mark.parametrize(("kv_heads", "key_dim", "value_dim"), [(3, 24, 16), (1, 40, 32), (3, 7, 7)])
@pytest.mark.parametrize(
    "spans",
    [[(1, 1)], [(5, 5)], [(1, 9), (3, 17), (12, 12)], [(MAX_QUERIES + 3, MAX_QUERIES + 3)], [(MAX_QUERIES + 1, 600)]],
    ids=str,
)
def test_prefill(spans: list[tuple[int, int]], kv_heads: int, key_dim: int, value_dim: int) -> None:
    torch.manual_seed(0)
    seqs_q, seqs_k = CuSeqlens.of_lengths([n for n, _ in spans]), CuSeqlens.of_lengths([m for _, m in spans])
    q = torch.randn(seqs_q.bounds[-1], 3, key_dim)
    k, v = (torch.randn(seqs_k.bounds[-1], kv_heads, dim) for dim in (key_dim, value_dim))
    found = OPS.mla_prefill(q, k, v, seqs_q, seqs_k, 0.3)
    assert found.shape == (len(q), 3, value_dim)
    for (a, b), (c, d) in zip(seqs_q.spans(), seqs_k.spans(), strict=True):
        assert (found[a:b] - attend_slowly(q[a:b], k[c:d], v[c:d], 0.3)).abs().max() <= 1e-5


@pytest.mark.parametrize(
    "lens", [[1], [9], [5, 5, 5], [1, 2, 3, 4], [100, 1, 99, 60, 17], [1, 200], [128, 127, 1, 1]], ids=str
)
def test_decode(lens: list[int]) -> None:
    torch.manual_seed(0)
    size, heads, dim, value_dim = 16, 3, 40, 32
    needed = [-(-length // size) for length in lens]
    cache = torch.full((sum(needed) + 1, size, dim), torch.nan)  # block 0 stands in unused entries of the tables
    pool = (1 + torch.randperm(sum(needed))).tolist()
    tables = torch.zeros(len(lens), max(needed) + 2, dtype=torch.int32)
    rows = [torch.randn(length, dim) for length in lens]
    for seq, length in enumerate(lens):
        for block in range(needed[seq]):
            tables[seq, block] = pool.pop()
            part = rows[seq][block * size : (block + 1) * size]
            cache[tables[seq, block], : len(part)] = part
        assert len(rows[seq]) == length
    q = torch.randn(len(lens), heads, dim)
    found = OPS.mla_decode(q, cache, OPS.plan_decode(tables, lens, cache), value_dim, 0.2)
    assert found.shape == (len(lens), heads, value_dim)
    for seq, keys in enumerate(rows):
        expected = attend_slowly(q[seq : seq + 1], keys[:, None], keys[:, None, :value_dim], 0.2)
        assert (found[seq] - expected[0]).abs().max() <= 1e-5


def test_lengths_far_apart_are_not_padded_to_the_longest() -> None:
    lens = [4000, 3900, 30, 20]
    cache = torch.zeros(300, 16, 8)
    plan = OPS.plan_decode(torch.zeros(4, 250, dtype=torch.int32), lens, cache)
    assert sum(len(group.slots) for group in plan) <= 1.25 * sum(lens)


def test_latents_are_written_to_their_slots() -> None:
    cache, rows, weight = torch.zeros(3, 4, 9), torch.randn(3, 9), torch.randn(5)
    rotations = torch.polar(torch.ones(3, 2), torch.rand(3, 2))
    OPS.write_latent(cache, torch.tensor([9, 0, 6]), rows[:, :5], rows[:, 5:], weight, 1e-3, rotations)
    latent = rows[:, :5] / (rows[:, :5].square().mean(-1, keepdim=True) + 1e-3).sqrt() * weight
    pairs = torch.view_as_complex(rows[:, 5:].contiguous().view(3, 2, 2)) * rotations
    expected = torch.zeros(3, 4, 9)
    expected[2, 1], expected[0, 0], expected[1, 2] = torch.cat([latent, torch.view_as_real(pairs).flatten(1)], 1)
    torch.testing.assert_close(cache, expected, rtol=0, atol=1e-6)


def test_the_sum_and_its_norm() -> None:
    x, residual, weight = torch.randn(4, 33), torch.randn(4, 33), torch.randn(33)
    normed, total = OPS.add_rms_norm(x, residual, weight, 1e-3)
    assert torch.equal(total, x + residual)
    assert torch.equal(normed, OPS.rms_norm(total, weight, 1e-3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_of_strided_rows(dtype: torch.dtype) -> None:
    x, weight = torch.randn(6, 50).to(dtype), torch.randn(33).to(dtype)
    rows = x[:, 7:40]
    exact = rows.double() / (rows.double().square().mean(-1, keepdim=True) + 1e-3).sqrt() * weight.double()
    found = OPS.rms_norm(rows, weight, 1e-3)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact, rtol=1e-6 if dtype == torch.float32 else 1.6e-2, atol=1e-6)


def test_bounds_are_copied_to_a_device_once() -> None:
    seqs = CuSeqlens.of_lengths([3, 1, 4])
    assert seqs.bounds == (0, 3, 4, 8)
    assert (seqs.max_len, seqs.spans()) == (4, [(0, 3), (3, 4), (4, 8)])
    first = seqs.on(torch.device("cpu"))
    assert first.tolist() == [0, 3, 4, 8]
    assert first.dtype == torch.int32
    assert seqs.on(torch.device("cpu")) is first
