"""Causal attention of prompts in the interpreter, against float64 written out here."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import mla_prefill as kernels
from model_runtime.kernels.launch import LaunchError, run
from model_runtime.kernels.mla_schedule import plan_spans
from model_runtime.kernels.tiles import Tile
from model_runtime.ops import CuSeqlens
from model_runtime.ops.reference.attention import mla_prefill as reference
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

SCALE = 0.3
SPANS = [(1, 1), (0, 0), (5, 20), (33, 33), (1, 40), (0, 3), (17, 64)]
"""(queries, keys): tails, empty ones, whole blocks and one key, chunks behind a prefix."""

Bounds = tuple[CuSeqlens, CuSeqlens]


def bounds_of(spans: list[tuple[int, int]]) -> Bounds:
    return CuSeqlens.of_lengths([queries for queries, _ in spans]), CuSeqlens.of_lengths([keys for _, keys in spans])


def attend_exactly(q: Tensor, k: Tensor, v: Tensor, bounds: Bounds) -> Tensor:
    """In float64."""
    out = q.new_zeros(*q.shape[:2], v.shape[2], dtype=torch.float64)
    for (a, b), (c, d) in zip(bounds[0].spans(), bounds[1].spans(), strict=True):
        keys, values = (x[c:d].double().expand(-1, q.shape[1], -1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[a:b].double(), keys) * SCALE
        hidden = torch.ones(b - a, d - c).triu(d - c - (b - a) + 1).bool()
        out[a:b] = torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), values)
    return out


def make_plain_inputs(
    spans: list[tuple[int, int]], heads: int, key_dim: int, value_dim: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Bounds]:
    torch.manual_seed(0)
    bounds = bounds_of(spans)
    q, k = (torch.randn(seqs.bounds[-1], heads, key_dim).to(dtype) for seqs in bounds)
    return guarded(q), guarded(k), guarded(torch.randn(len(k), heads, value_dim).to(dtype)), bounds


def make_absorbed_inputs(
    spans: list[tuple[int, int]], heads: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Bounds]:
    torch.manual_seed(0)
    bounds = bounds_of(spans)
    q = torch.randn(bounds[0].bounds[-1], heads, 40).to(dtype)
    k = guarded(torch.randn(bounds[1].bounds[-1], 1, 40).to(dtype))
    return guarded(q), k, k[..., :32], bounds


@pytest.mark.parametrize(("key_dim", "value_dim"), [(24, 16), (7, 7), (48, 40)])
def test_plain_fp32_is_exact(key_dim: int, value_dim: int) -> None:
    q, k, v, bounds = make_plain_inputs(SPANS, 2, key_dim, value_dim)
    assert relative_error(kernels.mla_prefill(q, k, v, *bounds, SCALE), attend_exactly(q, k, v, bounds)) < 1e-6


@pytest.mark.parametrize(
    "tile", [Tile(block_m=16, block_n=32), Tile(block_m=32, block_n=16), Tile(block_m=64)], ids=str
)
def test_plain_with_other_blocks(tile: Tile) -> None:
    q, k, v, bounds = make_plain_inputs(SPANS, 1, 24, 16)
    items = kernels.plan_plain(bounds[0].bounds, bounds[1].bounds, tile.block_m, q.device)
    out = poisoned(len(q), 1, 16)
    run(kernels.make_plain(q, k, v, items, out, SCALE, tile))
    assert_guards(out)
    assert relative_error(out, attend_exactly(q, k, v, bounds)) < 1e-6


def test_plain_bf16_at_the_release_s_widths() -> None:
    q, k, v, bounds = make_plain_inputs([(130, 150), (3, 3)], 1, 192, 128, torch.bfloat16)
    found = kernels.mla_prefill(q / 8, k, v, *bounds, SCALE)
    assert found.dtype == torch.bfloat16
    assert relative_error(found, attend_exactly(q / 8, k, v, bounds)) < 1e-2


@pytest.mark.parametrize("heads", [1, 4, 16, 24])
def test_absorbed_fp32_is_exact(heads: int) -> None:
    q, k, v, bounds = make_absorbed_inputs(SPANS[:5] if heads == 4 else [(3, 20), (5, 5)], heads)
    assert relative_error(kernels.mla_prefill(q, k, v, *bounds, SCALE), attend_exactly(q, k, v, bounds)) < 1e-6


def test_absorbed_bf16_within_its_rounding() -> None:
    q, k, v, bounds = make_absorbed_inputs([(5, 40), (17, 17)], 8, torch.bfloat16)
    assert relative_error(kernels.mla_prefill(q, k, v, *bounds, SCALE), attend_exactly(q, k, v, bounds)) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_keys", "pieces"), [(1250, 10), (1025, 9)], ids=["ragged", "a last piece of little more than a grain"]
)
def test_absorbed_in_pieces(num_keys: int, pieces: int) -> None:
    q, k, v, bounds = make_absorbed_inputs([(4, num_keys), (2, 5)], 4)
    plan = plan_spans(kernels.find_spans(bounds[0].bounds, bounds[1].bounds, 4), q.device, num_programs=100)
    assert plan.joins[:, 3].tolist() == [pieces]
    tile = Tile(block_m=16, block_n=64)
    found = kernels.attend(q, k, plan, 32, SCALE, tile)
    assert relative_error(found, attend_exactly(q, k, v, bounds)) < 1e-6
    assert torch.equal(found, kernels.attend(q, k, plan, 32, SCALE, tile))


@pytest.mark.parametrize("kind", ["plain", "absorbed", "shared keys, other values"])
def test_as_the_reference(kind: str) -> None:
    spans = [(5, 9), (12, 12)]
    q, k, v, bounds = make_plain_inputs(spans, 3, 40, 32) if kind == "plain" else make_absorbed_inputs(spans, 3)
    if kind.startswith("shared"):
        v = torch.randn(v.shape)
    expected = reference(q, k, v, *bounds, SCALE)
    assert relative_error(kernels.mla_prefill(q, k, v, *bounds, SCALE), expected) < 2e-6


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["plain", "absorbed"])
def test_strided_rows_and_nobody_s_rows(kind: str) -> None:
    """Queries, keys and values between values of others; NaN stands in keys that no query of theirs may see."""
    spans = [(3, 18), (16, 16)]
    make = make_absorbed_inputs if kind == "absorbed" else lambda spans, heads: make_plain_inputs(spans, heads, 24, 16)
    q, k, v, bounds = make(spans, 2)
    expected = attend_exactly(q, k, v, bounds)

    def strided(x: Tensor) -> Tensor:
        return torch.full((len(x), x.shape[1] + 1, 64), torch.nan)[:, : x.shape[1], : x.shape[2]].copy_(x)

    far = strided(k)
    found = kernels.mla_prefill(strided(q), far, far[..., :32] if kind == "absorbed" else strided(v), *bounds, SCALE)
    assert relative_error(found, expected) < 1e-6
    k[18:] = torch.nan  # the second sequence's
    assert not kernels.mla_prefill(q, k, v, *bounds, SCALE)[:3].isnan().any()


@pytest.mark.long
def test_values_behind_keys_of_an_odd_width() -> None:
    q, k, v, bounds = make_plain_inputs(SPANS, 3, 12, 6)
    behind = torch.cat((torch.randn(*v.shape[:2], 10), v), dim=-1)[..., 10:]
    assert behind.data_ptr() % 16
    assert torch.equal(kernels.mla_prefill(q, k, behind, *bounds, SCALE), kernels.mla_prefill(q, k, v, *bounds, SCALE))


def test_large_scores_neither_overflow_nor_vanish() -> None:
    for q, k, v, bounds in (make_plain_inputs([(20, 40)], 1, 24, 16), make_absorbed_inputs([(3, 40)], 4)):
        found = kernels.mla_prefill(60 * q, k, v, *bounds, SCALE)
        assert relative_error(found, attend_exactly(60 * q, k, v, bounds)) < 1e-3


def test_one_head_of_its_own_is_plain() -> None:
    q, k, v, bounds = make_plain_inputs([(4, 6)], 1, 24, 16)
    assert not kernels.is_part(v, k)
    assert relative_error(kernels.mla_prefill(q, k, v, *bounds, SCALE), attend_exactly(q, k, v, bounds)) < 1e-6


def test_no_tokens() -> None:
    q, k, v, bounds = make_plain_inputs([(0, 0), (0, 3)], 2, 24, 16)
    assert kernels.mla_prefill(q, k, v, *bounds, SCALE).shape == (0, 2, 16)


def test_the_same_twice() -> None:
    q, k, v, bounds = make_plain_inputs([(40, 50)], 1, 24, 16, torch.bfloat16)
    assert torch.equal(kernels.mla_prefill(q, k, v, *bounds, SCALE), kernels.mla_prefill(q, k, v, *bounds, SCALE))


def test_longest_first_and_kept() -> None:
    bounds_q, bounds_k = ((0, 5, 10), (0, 5, 40))
    items = kernels.plan_plain(bounds_q, bounds_k, 4, torch.device("cpu"))
    assert items.tolist() == [[9, 1, 5, 35], [5, 4, 5, 34], [4, 1, 0, 5], [0, 4, 0, 4]]
    assert kernels.plan_plain(bounds_q, bounds_k, 4, torch.device("cpu")) is items


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda q, k, v: (q[:-1], k, v), r"sequences end at \(queries, keys\) \(4, 6\), .* there are rows: \(3, 6\)"),
        (lambda q, k, v: (q, k, v[:-1]), r"v has the shape \(5, 2, 16\), expected \(6, 2, 16\)"),
        (lambda q, k, v: (q, k[..., :20], v), r"k has the shape \(6, 2, 20\), expected \(6, 2, 24\)"),
        (lambda q, k, v: (q, k.bfloat16(), v), "k is bfloat16, expected float32"),
        (lambda q, k, v: (q.long(), k.long(), v.long()), "q is int64, expected bfloat16 or float16 or float32"),
        (lambda q, k, v: (q.mT.contiguous().mT, k, v), "q has the strides"),
        (lambda q, k, v: (q, k, v.mT.contiguous().mT), "v has the strides"),
    ],
)
def test_what_does_not_fit_is_told(change: Callable[..., tuple[Tensor, Tensor, Tensor]], text: str) -> None:
    q, k, v, bounds = make_plain_inputs([(4, 6)], 2, 24, 16)
    with pytest.raises(LaunchError, match=text):
        kernels.mla_prefill(*change(q, k, v), *bounds, SCALE)


def test_more_queries_than_keys_are_told() -> None:
    q, k, v, bounds = make_plain_inputs([(1, 1), (4, 3)], 2, 24, 16)
    with pytest.raises(LaunchError, match="sequence 1 has 4 queries and 3 keys; expected no more queries than keys"):
        kernels.mla_prefill(q, k, v, *bounds, SCALE)
