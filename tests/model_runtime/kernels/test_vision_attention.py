"""Vision attention in the interpreter, against float64 written out here."""

import pytest
import torch
from torch import Tensor

from model_runtime.kernels import vision_attention as kernels
from model_runtime.kernels.launch import LaunchError, run
from model_runtime.kernels.tiles import Tile
from model_runtime.ops import CuSeqlens
from model_runtime.ops.reference.attention import rotate
from model_runtime.ops.reference.attention import vision_attention as reference
from tests.model_runtime.kernels.tools import assert_guards, guarded, poisoned, relative_error

SMALL = Tile(block_m=16, block_n=16)
LENGTHS = (1, 3, 17, 70)


@pytest.fixture(autouse=True)
def _small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that items of a few dozen rows have whole blocks, short ones and several of each."""
    monkeypatch.setattr(kernels, "find_tile", lambda name, tokens: SMALL if name.endswith("attention") else Tile())


def make_inputs(lengths: tuple[int, ...], heads: int, head_dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    angles = torch.rand(sum(lengths), head_dim // 2) * 6.3
    qkv = torch.randn(sum(lengths), 3 * heads, head_dim).to(dtype)
    return qkv, torch.polar(torch.ones_like(angles), angles)


def attend_exactly(qkv: Tensor, rotations: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """In float64; turned queries and keys are rounded to qkv's dtype, as the operator does."""
    q, k, v = qkv.double().chunk(3, dim=1)
    turns = rotations.to(torch.complex128)[:, None]
    q, k = (torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turns) for x in (q, k))
    q, k = (x.flatten(-2).to(qkv.dtype).double() for x in (q, k))
    parts = []
    for item in torch.arange(len(qkv)).split(list(lengths)):
        scores = torch.einsum("qhd,khd->hqk", q[item], k[item]) * qkv.shape[-1] ** -0.5
        parts.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[item]))
    return torch.cat(parts)


@pytest.mark.parametrize("head_dim", [8, 12, 72])
def test_fp32_is_exact(head_dim: int) -> None:
    qkv, rotations = make_inputs(LENGTHS, 1, head_dim, torch.float32)
    exact = attend_exactly(qkv, rotations, LENGTHS)
    found = kernels.vision_attention(qkv, rotations, CuSeqlens.of_lengths(LENGTHS))
    assert relative_error(found, exact) < 1e-6


@pytest.mark.parametrize("head_dim", [16, 72, 80, 128])
def test_bf16_within_its_rounding(head_dim: int) -> None:
    """Queries and keys are turned here: what the interpreter truncates is then the weights and the result."""
    lengths = (33, 5)
    qkv, rotations = make_inputs(lengths, 1, head_dim, torch.bfloat16)
    exact = attend_exactly(qkv, rotations, lengths)
    rotate(qkv[:, :2], rotations)
    out = poisoned(38, 1, head_dim, dtype=torch.bfloat16)
    run(kernels.make_attend(qkv, CuSeqlens.of_lengths(lengths), out))
    assert relative_error(out, exact) < 1e-2
    assert_guards(out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("head_dim", [12, 72])
def test_queries_and_keys_are_turned_as_in_the_reference(head_dim: int, dtype: torch.dtype) -> None:
    qkv, rotations = make_inputs((19,), 3, head_dim, dtype)
    expected = qkv.clone()
    rotate(expected[:, :6], rotations)
    found = guarded(qkv)
    run(kernels.make_rotation(found, rotations))
    assert relative_error(found, expected) < (1e-6 if dtype == torch.float32 else 8e-3)
    assert torch.equal(found[:, 6:], qkv[:, 6:])
    assert_guards(found)


def test_shipped_tiles_and_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    lengths = (130, 64)
    qkv, rotations = make_inputs(lengths, 2, 72, torch.float32)
    bounds = CuSeqlens.of_lengths(lengths)
    expected = reference(qkv.clone(), rotations, bounds)
    assert relative_error(kernels.vision_attention(qkv, rotations, bounds), expected) < 1e-6


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, of NaN
def test_nothing_is_read_or_written_beside() -> None:
    """NaN around qkv, between its strided rows, and in the first and last item: the items between stay clean."""
    qkv, rotations = make_inputs(LENGTHS, 1, 72, torch.float32)
    exact = attend_exactly(qkv, rotations, LENGTHS)
    wide = guarded(torch.full((len(qkv), 4, 72), torch.nan))
    wide[:, :3] = qkv
    wide[:1], wide[21:] = torch.nan, torch.nan
    out = poisoned(len(qkv), 1, 72)
    run(kernels.make_rotation(wide[:, :3], rotations))
    run(kernels.make_attend(wide[:, :3], CuSeqlens.of_lengths(LENGTHS), out))
    assert relative_error(out[1:21], exact[1:21]) < 1e-6
    assert out[:1].isnan().all() and out[21:].isnan().all() and wide[:, 3].isnan().all()
    assert_guards(wide, out)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_heads_of_nan_stay_alone() -> None:
    """The rest of a head is loaded in blocks wider than it: what follows it belongs to the next head."""
    qkv, rotations = make_inputs((40,), 2, 72, torch.float32)
    exact = attend_exactly(qkv, rotations, (40,))
    qkv[:, 1::2] = torch.nan
    found = kernels.vision_attention(qkv, rotations, CuSeqlens((0, 40)))
    assert relative_error(found[:, 0], exact[:, 0]) < 1e-6
    assert found[:, 1].isnan().all()


def test_large_scores_do_not_overflow() -> None:
    qkv, rotations = make_inputs((20,), 1, 16, torch.float32)
    qkv[:, :2] *= 100
    exact = attend_exactly(qkv, rotations, (20,))
    found = kernels.vision_attention(qkv, rotations, CuSeqlens((0, 20)))
    assert relative_error(found, exact) < 1e-3  # scores in the thousands: fp32 leaves them three digits


def test_no_rows_and_empty_items() -> None:
    qkv, rotations = make_inputs((), 1, 16, torch.float32)
    assert kernels.vision_attention(qkv, rotations, CuSeqlens((0,))).shape == (0, 1, 16)
    qkv, rotations = make_inputs((2,), 1, 16, torch.float32)
    exact = attend_exactly(qkv, rotations, (2,))
    assert relative_error(kernels.vision_attention(qkv, rotations, CuSeqlens((0, 0, 2, 2))), exact) < 1e-6


def test_work_of_long_items_comes_first_and_is_kept() -> None:
    plan = kernels.plan_work((0, 3, 23), 16, torch.device("cpu"))
    assert plan.tolist() == [[3, 23, 3], [3, 23, 19], [0, 3, 0]]
    assert kernels.plan_work((0, 3, 23), 16, torch.device("cpu")) is plan


@pytest.mark.parametrize(
    ("head_dim", "parts"), [(8, (16, 0)), (12, (16, 0)), (16, (16, 0)), (20, (16, 16)), (72, (64, 16)), (96, (64, 32))]
)
def test_heads_are_split_into_powers_of_two(head_dim: int, parts: tuple[int, int]) -> None:
    assert kernels.split_head(head_dim) == parts


def test_what_it_cannot_do_is_said() -> None:
    qkv, rotations = make_inputs((4,), 1, 16, torch.float32)
    bounds = CuSeqlens((0, 4))
    with pytest.raises(LaunchError, match=r"expected \(rows, 3 \* heads"):
        kernels.vision_attention(qkv[:, :2], rotations, bounds)
    with pytest.raises(LaunchError, match="each row in one piece"):
        kernels.vision_attention(qkv.transpose(1, 2).contiguous().transpose(1, 2), rotations, bounds)
    with pytest.raises(LaunchError, match="qkv is float64"):
        kernels.vision_attention(qkv.double(), rotations, bounds)
    with pytest.raises(LaunchError, match="ends at row 3, expected 4"):
        kernels.vision_attention(qkv, rotations, CuSeqlens((0, 3)))
    with pytest.raises(LaunchError, match="rotations has the shape"):
        kernels.vision_attention(qkv, rotations[:, :4], bounds)
    with pytest.raises(LaunchError, match="rotations is complex128"):
        kernels.vision_attention(qkv, rotations.to(torch.complex128), bounds)
    with pytest.raises(LaunchError, match=r"call contiguous\(\)"):
        kernels.vision_attention(qkv, rotations.t().contiguous().t(), bounds)
