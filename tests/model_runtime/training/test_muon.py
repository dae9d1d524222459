import pytest
import torch
from torch import Tensor

from model_runtime.training.muon import RMS, Muon, orthogonalize

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


def test_a_part_of_a_joined_weight_is_updated_in_it() -> None:
    joined = torch.randn(60, 24, generator=torch.Generator().manual_seed(2))
    kept, parts = joined.clone(), {"upper": joined[:20], "lower": joined[20:]}
    gradient = torch.randn(60, 24, generator=torch.Generator().manual_seed(3))
    alone = {name: part.clone() for name, part in parts.items()}
    Muon(parts, lr=0.1).step({"upper": gradient[:20], "lower": gradient[20:]})
    Muon(alone, lr=0.1).step({"upper": gradient[:20], "lower": gradient[20:]})
    assert torch.equal(joined, torch.cat((alone["upper"], alone["lower"])))
    assert not torch.equal(joined, kept)


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
