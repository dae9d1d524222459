"""Filters against a slow plain reference, and draws against the exact distribution."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from model_runtime.engine.sampling.sampler import draw, find_head, make_options
from tests.fuzz.settings import fuzzed

Filters = tuple[float, int, float, float]  # temperature, top_k, top_p, min_p


def reference(row: NDArray[np.float64], filters: Filters) -> NDArray[np.float64]:
    """Probabilities after the filters, one after the other, in the plainest way."""
    temperature, top_k, top_p, min_p = filters
    weights = np.exp((row - row.max()) / temperature)
    order = sorted(range(len(row)), key=lambda token: (-row[token], token))
    kept = order[:top_k] if top_k else order
    if top_p < 1:
        mass, nucleus, enough = 0.0, [], top_p * weights[kept].sum()
        for token in kept:
            nucleus.append(token)
            mass += weights[token]
            if mass >= enough:
                break
        kept = nucleus
    kept = [token for token in kept if weights[token] >= min_p]
    probabilities = np.zeros_like(weights)
    probabilities[kept] = weights[kept]
    return probabilities / probabilities.sum()


def draw_many(row: Tensor, filters: Filters, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    options = [(*filters, uniform) for uniform in uniforms.tolist()]
    found = draw(row.expand(len(uniforms), -1).clone(), make_options(options, len(row), row.device))
    return np.asarray(found.token_ids.numpy(), dtype=np.int64)


def support(row: Tensor, filters: Filters) -> set[int]:
    """Every token that some random number gives; fine enough for probabilities of a thousandth."""
    return set(draw_many(row, filters, (np.arange(4000) + 0.5) / 4000).tolist())


FILTERS: dict[str, Filters] = {
    "none": (1.0, 0, 1.0, 0.0),
    "hot": (2.5, 0, 1.0, 0.0),
    "cold": (0.4, 0, 1.0, 0.0),
    "top_k": (1.0, 7, 1.0, 0.0),
    "top_p": (1.0, 0, 0.8, 0.0),
    "min_p": (1.0, 0, 1.0, 0.1),
    "all": (0.8, 20, 0.9, 0.02),
}


@pytest.mark.slow
@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("vocab_size", [40, 700])
def test_draws_follow_the_exact_distribution(filters: Filters, vocab_size: int) -> None:
    row = torch.randn(vocab_size, generator=torch.Generator().manual_seed(vocab_size)) * 1.5
    expected = reference(row.double().numpy(), filters)
    num_draws = 2_000_000 // vocab_size
    counts = np.bincount(draw_many(row, filters, np.random.default_rng(7).random(num_draws)), minlength=vocab_size)
    assert set(np.flatnonzero(counts)) <= set(np.flatnonzero(expected)), "a token that the filters leave out was drawn"
    is_common = expected * num_draws >= 5
    rest = counts[~is_common].sum(), num_draws * expected[~is_common].sum()
    observed, wanted = np.append(counts[is_common], rest[0]), np.append(num_draws * expected[is_common], rest[1])
    chi_square = ((observed - wanted) ** 2 / np.maximum(wanted, 1e-9))[wanted > 0].sum()
    freedom = (wanted > 0).sum() - 1
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom) + 5


rows = st.lists(st.integers(-6, 6).map(lambda x: x / 2), min_size=2, max_size=40)


@fuzzed
@given(
    values=rows,
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.integers(0, 12),
    top_p=st.sampled_from([0.11, 0.37, 0.73, 0.93, 1.0]),
    min_p=st.sampled_from([0.0, 0.03, 0.21, 1.0]),
    barred=st.sets(st.integers(0, 39)),
)
@pytest.mark.slow
def test_filters_keep_what_the_reference_keeps_with_ties(
    values: list[float], temperature: float, top_k: int, top_p: float, min_p: float, barred: set[int]
) -> None:
    row = torch.tensor(values)
    row[[token for token in barred if 0 < token < len(row)]] = float("-inf")
    filters = (temperature, top_k, top_p, min_p)
    expected = reference(row.double().numpy(), filters)
    assert {token for token, p in enumerate(expected) if p > 1e-3} <= support(row, filters)
    assert support(row, filters) <= set(np.flatnonzero(expected))


@pytest.mark.parametrize("top_p", [0.5, 0.97])
@pytest.mark.parametrize("top_k", [0, 300, 600, 9000])
def test_a_nucleus_wider_than_the_head_is_found(top_p: float, top_k: int) -> None:
    """Nearly flat rows with many equals, so that one head size after the other is too small."""
    row = (torch.randn(9300, generator=torch.Generator().manual_seed(3)) * 4).round() / 20
    expected = reference(row.double().numpy(), (1.0, top_k, top_p, 0.0))
    cumulative = np.cumsum(expected[np.lexsort((np.arange(len(row)), -row.numpy()))])
    uniforms = np.array([0.0, 0.1, 0.5, 0.9, 0.999999, 1 - 1e-12])
    order = np.lexsort((np.arange(len(row)), -row.numpy()))
    places = np.minimum(np.searchsorted(cumulative, uniforms, side="right"), np.count_nonzero(expected) - 1)
    found = draw_many(row, (1.0, top_k, top_p, 0.0), uniforms)
    ranks = np.argsort(order)[found]
    assert np.abs(ranks - places).max() <= 1  # one place of rounding between float32 and float64
    assert set(found) <= set(np.flatnonzero(expected))


def test_what_else_is_in_the_batch_changes_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(24, 9000, generator=generator) * torch.linspace(0.1, 8, 24)[:, None]
    filters = [list(FILTERS.values())[place % len(FILTERS)] for place in range(24)]
    options = [(*chosen, place / 24) for place, chosen in enumerate(filters)]
    together = draw(logits.clone(), make_options(options, 9000, logits.device)).token_ids.tolist()
    alone = [
        int(draw(logits[place : place + 1].clone(), make_options([options[place]], 9000, logits.device)).token_ids)
        for place in range(24)
    ]
    assert together == alone


@pytest.mark.parametrize("size", [3, 700, 9000])
def test_a_head_is_sorted_with_the_lower_id_first(size: int) -> None:
    logits = torch.randint(0, 5, (2, 9000), generator=torch.Generator().manual_seed(1)).float()
    values, ids = find_head(logits, size)
    assert torch.equal(values, logits.gather(1, ids))
    pairs = list(zip((-values[0]).tolist(), ids[0].tolist(), strict=True))
    assert pairs == sorted(pairs)


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("filters", [(1e-9, 0, 1.0, 0.0), (100.0, 0, 1.0, 0.0), (1e-9, 5, 0.5, 0.0)])
def test_extremes_give_only_tokens_that_may_come(uniform: float, filters: Filters) -> None:
    row = torch.full((1000,), float("-inf"))
    row[[17, 998]] = torch.tensor([3e38, -3e38])
    assert draw_many(row, filters, np.array([uniform])).tolist() == [17]


def test_rare_tokens_at_the_end_of_a_large_vocabulary_are_drawn() -> None:
    """A cumulative sum in float32 would lose them: each is about a forty-millionth of the mass."""
    row = torch.zeros(163_840)
    row[-100_000:] = -10.0
    total = 63_840 + 100_000 * np.exp(-10.0)
    uniforms = (63_840 + (np.arange(5) * 20_000 + 0.5) * np.exp(-10.0)) / total
    found = draw_many(row, (1.0, 0, 1.0, 0.0), uniforms)
    assert np.abs(found - (63_840 + np.arange(5) * 20_000)).max() <= 2
