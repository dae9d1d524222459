import pytest
import torch
from torch import Tensor

from model_runtime.training.updates import RMS, Muon, find_update_scale, orthogonalize, share_out

SHAPES = {"tall": (40, 24), "wide": (24, 40), "square": (16, 16), "also tall": (40, 24)}


def make_matrices(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def test_the_same_as_torchs_own() -> None:
    """Theirs iterates in bf16, so an update differs by some thousandths."""
    ours, theirs = make_matrices(0), {name: torch.nn.Parameter(value) for name, value in make_matrices(0).items()}
    muon = Muon(ours, lr=0.02, momentum=0.9, weight_decay=0.1)
    peer = torch.optim.Muon(theirs.values(), lr=0.02, momentum=0.9, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for step in range(4):
        before = {name: value.clone() for name, value in ours.items()}
        gradients = make_matrices(10 + step)
        muon.step(gradients)
        for name, parameter in theirs.items():
            parameter.grad = gradients[name]
        peer.step()
        for name, parameter in theirs.items():
            moved = (ours[name] - before[name]).norm()
            assert (ours[name] - parameter).norm() <= 0.02 * (step + 1) * moved, name


@pytest.mark.parametrize("shape", [(3, 40, 24), (2, 24, 40), (1, 30, 30)])
def test_singular_values_come_near_to_one(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalize(matrices)
    in_its_basis = u.transpose(1, 2) @ found @ v.transpose(1, 2)
    off_diagonal = in_its_basis - torch.diag_embed(in_its_basis.diagonal(dim1=1, dim2=2))
    assert off_diagonal.abs().max() <= 1e-3  # the directions stay
    values = in_its_basis.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.3
    assert values.max() < 1.3
    assert (orthogonalize(1e4 * matrices) - found).abs().max() <= 1e-3  # whatever the scale


def test_an_update_is_as_large_as_one_of_adamw() -> None:
    matrices = make_matrices(0)
    before = {name: value.clone() for name, value in matrices.items()}
    Muon(matrices, lr=0.5, weight_decay=0.0).step(make_matrices(1))
    for name, value in matrices.items():
        rms = ((value - before[name]) / 0.5).square().mean().sqrt()
        assert 0.5 * RMS < rms < 1.2 * RMS, name


@pytest.mark.parametrize(
    ("shape", "factor"), [((12288, 1536), 22.17), ((7168, 2048), 16.93), ((4096, 7168), 16.93), ((16, 16), 0.8)]
)
def test_scale_of_an_update(shape: tuple[int, int], factor: float) -> None:
    """Moonlight, equation 4; torch's default scales the first two by 2.83 and 1.87."""
    assert find_update_scale(shape) == pytest.approx(factor, abs=5e-3)


def test_a_part_of_a_joined_weight_is_updated_in_it() -> None:
    joined = torch.randn(60, 24, generator=torch.Generator().manual_seed(2))
    kept, parts = joined.clone(), {"upper": joined[:20], "lower": joined[20:]}
    gradient = torch.randn(60, 24, generator=torch.Generator().manual_seed(3))
    alone = {name: part.clone() for name, part in parts.items()}
    Muon(parts, lr=0.1).step({"upper": gradient[:20], "lower": gradient[20:]})
    Muon(alone, lr=0.1).step({"upper": gradient[:20], "lower": gradient[20:]})
    assert torch.equal(joined, torch.cat((alone["upper"], alone["lower"])))
    assert not torch.equal(joined, kept)


class Pair:
    """The first of two processes, which is told what the other one has made."""

    size = 2

    def __init__(self, rank: int, others: list[Tensor]) -> None:
        self.rank, self.others, self.own = rank, others, []

    def all_reduce(self, tensor: Tensor) -> Tensor:
        self.own.append(tensor.clone())
        return tensor.add_(self.others.pop(0)) if self.others else tensor


def test_processes_share_the_iteration_and_come_to_the_same() -> None:
    alone, unhelped, shared = make_matrices(0), make_matrices(0), make_matrices(0)
    Muon(alone, lr=0.1).step(make_matrices(1))
    second = Pair(1, [])
    Muon(unhelped, lr=0.1).step(make_matrices(1), second)
    first = Pair(0, second.own)
    Muon(shared, lr=0.1).step(make_matrices(1), first)
    torch.testing.assert_close(shared, alone)
    assert any(not torch.equal(unhelped[name], alone[name]) for name in SHAPES)
    (made,) = first.own
    assert 0 < made.count_nonzero() < len(made)


def test_the_costliest_matrices_are_shared_out_first() -> None:
    shapes = {"large": (512, 512), "a": (512, 256), "b": (512, 256), "c": (512, 256), "d": (512, 256)}
    owners = share_out(shapes, 2)
    assert [owners[name] for name in shapes] == [0, 1, 1, 1, 1]


def test_saved_and_loaded_it_goes_on_alike() -> None:
    first, second = make_matrices(0), make_matrices(0)
    one = Muon(first, lr=0.1)
    one.step(make_matrices(1))
    state = {name: value.clone() for name, value in one.state_dict().items()}
    for name, value in first.items():
        second[name].copy_(value)
    two = Muon(second, lr=0.1)
    two.load_state_dict(state)
    one.step(make_matrices(2))
    two.step(make_matrices(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    with pytest.raises(KeyError, match="tall"):
        two.load_state_dict({})
