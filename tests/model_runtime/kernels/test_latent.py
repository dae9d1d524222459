"""The write of latents in the interpreter, against float64 written out here."""

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import latent as kernels
from model_runtime.kernels.launch import LaunchError
from model_runtime.ops.reference import norm as reference
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

EPS = 1e-6


def make_inputs(tokens: int, latent_dim: int, rope_dim: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Latents and rotary keys are parts of wider rows, as one matmul gives them; what lies before them is NaN."""
    torch.manual_seed(0)
    rows = torch.full((tokens, 16 + latent_dim + rope_dim), torch.nan)
    rows[:, 16:] = torch.randn(tokens, latent_dim + rope_dim)
    _, latent, k_rope = guarded(rows.to(dtype)).split((16, latent_dim, rope_dim), dim=-1)
    angles = torch.rand(tokens, rope_dim // 2) * 6.3
    return {
        "slot_mapping": torch.randperm(40)[:tokens],
        "latent": latent,
        "k_rope": k_rope,
        "weight": guarded(torch.randn(latent_dim).to(dtype)),
        "rotations": torch.polar(torch.ones_like(angles), angles),
    }


def find_rows(inputs: dict[str, Tensor]) -> Tensor:
    latent, k_rope = inputs["latent"].double(), inputs["k_rope"].double()
    normed = latent / (latent.square().mean(-1, keepdim=True) + EPS).sqrt() * inputs["weight"].double()
    pairs = torch.view_as_complex(k_rope.unflatten(-1, (-1, 2)).contiguous()) * inputs["rotations"].to(torch.complex128)
    return torch.cat((normed, torch.view_as_real(pairs).flatten(1)), dim=-1)


@pytest.mark.parametrize(
    ("sizes", "dtype", "limit"),
    [((32, 8), torch.float32, 1e-6), ((512, 64), torch.float32, 1e-6), ((24, 12), torch.float32, 1e-6),
     ((512, 64), torch.bfloat16, 1e-2)],
)  # fmt: skip
def test_rows_go_to_their_slots_and_nothing_else_is_written(
    sizes: tuple[int, int], dtype: torch.dtype, limit: float
) -> None:
    inputs = make_inputs(5, *sizes, dtype)
    cache = poisoned(10, 4, sum(sizes), dtype=dtype)
    kernels.write_latent(cache, eps=EPS, **inputs)
    written = cache.view(40, -1)[inputs["slot_mapping"]]
    assert relative_error(written, find_rows(inputs)) < limit
    untouched = torch.ones(40, dtype=torch.bool).index_fill_(0, inputs["slot_mapping"], False)
    assert cache.view(40, -1)[untouched].isnan().all()
    assert_guards(cache)


def test_equal_to_the_reference() -> None:
    inputs = make_inputs(7, 32, 8)
    found, expected = torch.zeros(10, 4, 40), torch.zeros(10, 4, 40)
    kernels.write_latent(found, eps=EPS, **inputs)
    reference.write_latent(expected, eps=EPS, **inputs)
    assert relative_error(found, expected) < 1e-6
    assert torch.equal(found == 0, expected == 0)


def test_cache_with_room_between_its_rows() -> None:
    inputs = make_inputs(3, 32, 8)
    wide = torch.full((10, 4, 48), torch.nan)
    kernels.write_latent(wide[..., :40], eps=EPS, **inputs)
    assert relative_error(wide.view(40, -1)[inputs["slot_mapping"], :40], find_rows(inputs)) < 1e-6
    assert wide[..., 40:].isnan().all()


def test_a_token_of_nan_stays_alone() -> None:
    inputs = make_inputs(3, 32, 8)
    exact = find_rows(inputs)
    inputs["latent"][1], inputs["k_rope"][1] = torch.nan, torch.nan
    cache = torch.zeros(10, 4, 40)
    kernels.write_latent(cache, eps=EPS, **inputs)
    written = cache.view(40, -1)[inputs["slot_mapping"]]
    assert written[1].isnan().all() and relative_error(written[::2], exact[::2]) < 1e-6


def test_no_tokens() -> None:
    cache = torch.zeros(10, 4, 40)
    kernels.write_latent(cache, eps=EPS, **make_inputs(0, 32, 8))
    assert not cache.any()


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("cache", lambda x: x[..., :38], r"cache has the shape \(10, 4, 38\), expected \(any, any, 40\)"),
        ("cache", lambda x: x.bfloat16(), "cache is bfloat16, expected float32"),
        ("cache", lambda x: x[:, :2], "must follow each other without gaps"),
        ("slot_mapping", lambda x: x.int(), "slot_mapping is int32, expected int64"),
        ("slot_mapping", lambda x: x[:2], r"slot_mapping has the shape \(2,\)"),
        ("latent", lambda x: x.double(), "latent is float64"),
        ("latent", lambda x: x.t().contiguous().t(), "latent has the strides"),
        ("k_rope", lambda x: x[:2], r"k_rope has the shape \(2, 8\)"),
        ("k_rope", lambda x: x.bfloat16(), "k_rope is bfloat16"),
        ("weight", lambda x: x[:5], r"weight has the shape \(5,\)"),
        ("rotations", lambda x: x.to(torch.complex128), "rotations is complex128"),
        ("rotations", lambda x: x[:, :2], r"rotations has the shape \(3, 2\)"),
    ],
)
def test_what_it_cannot_do_is_said(name, change, text) -> None:  # type: ignore[no-untyped-def]
    inputs = {"cache": torch.zeros(10, 4, 40), **make_inputs(3, 32, 8)}
    inputs[name] = change(inputs[name])
    with pytest.raises(LaunchError, match=text):
        kernels.write_latent(eps=EPS, **inputs)


def test_rotary_keys_are_pairs() -> None:
    inputs = make_inputs(3, 32, 8) | {"k_rope": torch.zeros(3, 7)}
    with pytest.raises(LaunchError, match="k_rope has 7 values a row, expected an even number"):
        kernels.write_latent(torch.zeros(10, 4, 39), eps=EPS, **inputs)
