"""Absorbed decoding in the interpreter, against float64 written out here."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import mla_decode as kernels
from model_runtime.kernels import mla_schedule
from model_runtime.kernels.launch import LaunchError, run
from model_runtime.kernels.mla_schedule import KernelSchedule, make_plan
from model_runtime.kernels.tiles import Tile
from model_runtime.ops.reference import attention as reference
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

VALUE_DIM, LATENT_DIM, SCALE = 32, 40, 0.3
NARROW, WIDE = Tile(block_m=16, block_n=16), Tile(block_m=64, block_n=32)


class Paged:
    """Sequences in a cache whose blocks are shuffled; all that is no sequence's is NaN."""

    def __init__(self, lens: list[int], size: int, dtype: torch.dtype = torch.float32, dim: int = LATENT_DIM) -> None:
        torch.manual_seed(0)
        counts = [-(-length // size) for length in lens]
        pool = (torch.randperm(sum(counts) + 2)).tolist()  # two blocks are nobody's, and stand in no table
        self.lens = lens
        self.rows = [torch.randn(length, dim).to(dtype) for length in lens]
        self.cache = guarded(torch.full((len(pool), size, dim), torch.nan, dtype=dtype))
        self.tables = torch.full((len(lens), max(counts) + 3), pool.pop(), dtype=torch.int32)
        for seq, count in enumerate(counts):
            for block in range(count):
                part = self.rows[seq][block * size : (block + 1) * size]
                self.tables[seq, block] = place = pool.pop()
                self.cache[place, : len(part)] = part

    def queries(self, heads: int) -> Tensor:
        return torch.randn(len(self.lens), heads, self.cache.shape[2]).to(self.cache.dtype)

    def attend_exactly(self, q: Tensor, value_dim: int = VALUE_DIM) -> Tensor:
        """In float64."""
        parts = []
        for query, rows in zip(q.double(), self.rows, strict=True):
            shares = (query @ rows.double().T * SCALE).softmax(-1)
            parts.append(shares @ rows[:, :value_dim].double())
        return torch.stack(parts)


def decode(
    q: Tensor, paged: Paged, plan: KernelSchedule | None = None, tile: Tile = NARROW, value_dim: int = VALUE_DIM
) -> Tensor:
    """Into poisoned memory."""
    plan = plan or make_plan(paged.tables, paged.lens)
    places = (plan.num_places, plan.queries_per_item, q.shape[1])
    results = kernels.Results(
        out=poisoned(*q.shape[:2], value_dim, dtype=q.dtype),
        partials=poisoned(*places, value_dim),
        partial_lse=poisoned(*places),
    )
    run(kernels.make_attend(q, paged.cache, plan, results, SCALE, tile))
    run(kernels.make_join(plan, results))
    assert_guards(results.out, results.partials, results.partial_lse)
    return results.out


@pytest.mark.parametrize("size", [8, 16, 64])
def test_fp32_is_exact(size: int) -> None:
    paged = Paged([1, size - 1, size, size + 1, 3 * size + 5], size)
    q = paged.queries(4)
    found = kernels.mla_decode(q, paged.cache, make_plan(paged.tables, paged.lens), VALUE_DIM, SCALE)
    assert relative_error(found, paged.attend_exactly(q)) < 1e-6


@pytest.mark.parametrize(("heads", "tile"), [(4, NARROW), (16, WIDE), (24, NARROW)], ids=str)
def test_any_number_of_heads(heads: int, tile: Tile) -> None:
    paged = Paged([5, 70], 8)
    q = paged.queries(heads)
    assert relative_error(decode(q, paged, tile=tile), paged.attend_exactly(q)) < 1e-6


@pytest.mark.parametrize(("latent_dim", "value_dim"), [(40, 32), (23, 20), (96, 64)])
def test_bf16_within_its_rounding(latent_dim: int, value_dim: int) -> None:
    paged = Paged([67, 1, 16], 16, torch.bfloat16, latent_dim)
    q = paged.queries(4)
    plan = kernels.plan_decode(paged.tables, paged.lens, paged.cache)
    found = kernels.mla_decode(q, paged.cache, plan, value_dim, SCALE)
    assert found.dtype == torch.bfloat16
    assert relative_error(found, paged.attend_exactly(q, value_dim)) < 1e-2


def test_the_release_s_heads_and_widths() -> None:
    paged = Paged([70], 64, torch.bfloat16, 576)
    q = paged.queries(64) / 8
    found = kernels.mla_decode(q, paged.cache, make_plan(paged.tables, paged.lens), 512, SCALE)
    assert relative_error(found, paged.attend_exactly(q, 512)) < 1e-2


@pytest.mark.long
def test_pieces_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts in twenty pieces, five and two, and one of a single key."""
    paged = Paged([1250, 300, 1, 100], 16)
    q = paged.queries(4)
    pieces = make_plan(paged.tables, paged.lens, num_programs=100)
    monkeypatch.setattr(mla_schedule, "GRAIN", 2048)
    whole = make_plan(paged.tables, paged.lens, num_programs=100)
    assert (len(whole.joins), whole.num_places) == (0, 0)
    assert pieces.joins[:, 3].tolist() == [20, 5, 2]
    found = decode(q, paged, pieces, WIDE)
    assert relative_error(found, paged.attend_exactly(q)) < 1e-6
    assert relative_error(found, decode(q, paged, whole, WIDE)) < 1e-6
    assert torch.equal(found, decode(q, paged, pieces, WIDE))


@pytest.mark.parametrize("num_places", [0, 40, 400])
@pytest.mark.parametrize("count", [2, 16, 39])
def test_joins_of_many_pieces(count: int, num_places: int) -> None:
    """Peaks far apart, in rising order and not, tiles for 1, 13 and 133 pieces a query; places of others are NaN."""
    torch.manual_seed(0)
    part, lse = (
        torch.randn(count, 1, 3, VALUE_DIM),
        torch.arange(count).view(-1, 1, 1) * 2.0 + 9 * torch.randn(count, 1, 3),
    )
    results = kernels.Results(
        out=poisoned(2, 3, VALUE_DIM),
        partials=poisoned(count + 3, 1, 3, VALUE_DIM),
        partial_lse=poisoned(count + 3, 1, 3),
    )
    results.partials[1 : count + 1], results.partial_lse[1 : count + 1] = part, lse
    joins = torch.tensor([[1, 1, 1, count], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.int32)
    launch = kernels.make_join(replace(make_plan(joins, [1, 1]), joins=joins, num_places=num_places), results)
    assert launch.constexprs["BLOCK_P"] == {0: 4, 40: 16, 400: 64}[num_places]
    run(launch)
    exact = ((lse.double() * math.log(2)).softmax(0)[..., None] * part.double()).sum(0)
    assert relative_error(results.out[1:], exact) < 1e-6
    assert not results.out[0].any()


def test_as_the_reference() -> None:
    paged = Paged([9, 40, 41], 8)
    q = paged.queries(4)
    plan = reference.plan_decode(paged.tables, paged.lens, paged.cache)
    expected = reference.mla_decode(q, paged.cache, plan, VALUE_DIM, SCALE)
    found = kernels.mla_decode(q, paged.cache, make_plan(paged.tables, paged.lens), VALUE_DIM, SCALE)
    assert relative_error(found, expected) < 2e-6


def test_strided_queries_and_rows() -> None:
    """Rows and heads of the queries, rows of the cache and of the tables."""
    paged = Paged([20, 7], 8)
    q = torch.full((2, 5, 2 * LATENT_DIM), torch.nan)[:, :4, LATENT_DIM:].copy_(paged.queries(4))
    wide = torch.full((*paged.cache.shape[:2], 64), torch.nan)
    wide[..., :LATENT_DIM] = paged.cache
    tables = torch.full((2, 40), 10**9, dtype=torch.int32)
    tables[:, : paged.tables.shape[1]] = paged.tables
    plan = make_plan(tables[:, : paged.tables.shape[1]], paged.lens)
    found = kernels.mla_decode(q, wide[..., :LATENT_DIM], plan, VALUE_DIM, SCALE)
    assert relative_error(found, paged.attend_exactly(q)) < 1e-6


@pytest.mark.long
def test_a_plan_that_lasts() -> None:
    """Fixed sizes and addresses; each step's own pieces; rows without a sequence are zeros."""
    first, second = Paged([600, 40], 16), Paged([9, 530, 33], 16)
    tables = torch.zeros(3, 60, dtype=torch.int32)

    def widened(paged: Paged) -> Tensor:
        rows = tables[: len(paged.lens)].clone()
        rows[:, : paged.tables.shape[1]] = paged.tables
        return rows

    plan = make_plan(widened(first), first.lens, max_seqs=4, num_programs=6)
    addresses = [tensor.data_ptr() for tensor in (plan.items, plan.joins, plan.block_tables) if tensor is not None]
    for paged in (first, second, first):
        plan.update(widened(paged), paged.lens)
        q = torch.full((4, 4, LATENT_DIM), torch.nan)
        q[: len(paged.lens)] = paged.queries(4)
        found = decode(q, paged, plan)
        assert relative_error(found[: len(paged.lens)], paged.attend_exactly(q[: len(paged.lens)])) < 1e-6
        assert not found[len(paged.lens) :].any()
        assert addresses == [tensor.data_ptr() for tensor in (plan.items, plan.joins, plan.block_tables)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda q, cache, plan: (q.double(), cache, plan), "q is float64, expected bfloat16 or float16 or float32"),
        (lambda q, cache, plan: (q, cache.bfloat16(), plan), "the cache is bfloat16, expected float32"),
        (lambda q, cache, plan: (q[:1], cache, plan), r"q has the shape \(1, 4, 40\), expected \(2, any, any\)"),
        (lambda q, cache, plan: (q, cache[..., :36], plan), r"expected \(any, any, 40\)"),
        (lambda q, cache, plan: (q.mT.contiguous().mT, cache, plan), "q has the strides"),
        (lambda q, cache, plan: (q, cache.mT.contiguous().mT, plan), "the cache has the strides"),
        (lambda q, cache, plan: (q[..., :32], cache[..., :32], plan), "of 32 values the first 32 are the value"),
        (
            lambda q, cache, plan: (q, cache, replace(plan, block_tables=plan.block_tables.long())),
            "the block tables is int64, expected int32",
        ),
        (lambda q, cache, plan: (q, cache, replace(plan, queries_per_item=5)), "a tile of 16 rows and 16 keys for 5"),
    ],
)
def test_what_does_not_fit_is_told(change: Callable[..., tuple[Tensor, Tensor, KernelSchedule]], text: str) -> None:
    paged = Paged([3, 9], 8)
    q, cache, plan = change(paged.queries(4), paged.cache, make_plan(paged.tables, paged.lens))
    with pytest.raises(LaunchError, match=text):
        kernels.mla_decode(q, cache, plan, VALUE_DIM, SCALE)
