from pathlib import Path

import pytest
import torch

from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.model import K25Model, load_model
from model_runtime.ops.reference.norm import rotate
from model_runtime.training.losses import PatchRows, log_shares_padded, log_shares_per_image
from tests.model_runtime.training.two_memories import two_memories
from tests.model_runtime.vision.weights import make_item

IMAGES = [make_item(1, *size, seed=seed) for seed, size in enumerate([(6, 6), (4, 6), (2, 2)])]


@pytest.fixture
def model(tiny_dir: Path) -> K25Model:
    return load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_()


@pytest.mark.parametrize("block", [2, 3])
def test_shares_are_those_of_the_tower_s_own_attention(tmp_path: Path, block: int) -> None:
    """Values that name their patch come out of a block's attention as the shares themselves."""
    write_tiny(tmp_path, config=tiny_config(vision={"num_hidden_layers": 4}, dtype="float32"))
    model = load_model(tmp_path, dtype=torch.float32, kernels="autograd").requires_grad_()
    assert model.vision is not None
    rows = PatchRows(model.vision)
    assert (rows.letter_block, rows.target_block) == (2, 3)
    model.encode_media(IMAGES)
    attention = model.vision.blocks[block].attention
    place, at, head = 36 + 7, 36 + 20, 1  # of the second image
    (x, packing) = next(inputs for inputs in rows._inputs[block] if len(inputs[0]) == 64)
    first = 4  # the tower takes the smallest first
    qkv = torch.nn.functional.linear(x, attention.qkv_weight, attention.qkv_bias).view(64, -1, attention.head_dim)
    turned = rotate(qkv[:, : 2 * attention.num_heads], packing.rotations)
    keys = turned[first : first + 24, attention.num_heads + head]
    expected = (keys @ turned[first + 7, head] / attention.head_dim**0.5).log_softmax(-1)[20]
    found = rows.compute_log_shares(IMAGES, torch.tensor([[place, at, head]]), block=block)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    asked = torch.tensor([[place, 36 + key, head] for key in range(24)])
    assert rows.compute_log_shares(IMAGES, asked, block=block).exp().sum().item() == pytest.approx(1.0, rel=1e-5)


def test_together_they_are_what_each_is() -> None:
    """Images and heads that nothing is asked of included; with gradients, and nothing of the host on a GPU."""
    sizes, generator = [36, 24, 4, 12], torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(sum(sizes), 3, 8, generator=generator, requires_grad=True) for _ in range(2))
    patch_targets = torch.tensor(
        [[40, 37, 1], [1, 35, 0], [37, 59, 1], [2, 0, 0], [61, 60, 2], [38, 38, 0], [75, 64, 1]]
    )
    each = log_shares_per_image(queries, keys, patch_targets, sizes)
    with two_memories():
        device = torch.device("cpu")
        together = log_shares_padded(queries.to(device), keys.to(device), patch_targets, sizes)
        assert (together - each.to(device)).abs().max() <= 1e-6
    weights = torch.arange(1.0, 8.0)
    ours = torch.autograd.grad((each * weights).sum(), (queries, keys))
    theirs = torch.autograd.grad((together * weights).sum(), (queries, keys))
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max() <= 1e-5


def test_rows_are_kept_as_they_were(model: K25Model) -> None:
    """Without gradients, later blocks write over what earlier ones gave."""
    assert model.vision is not None
    rows = PatchRows(model.vision)
    model.encode_media(IMAGES)
    taught = rows.find_middle(IMAGES)
    with torch.no_grad():
        model.requires_grad_(False).encode_media(IMAGES)
        assert (rows.find_middle(IMAGES) - taught).abs().max() <= 1e-5
    rows.close()
    rows.close()
    model.encode_media(IMAGES)
    assert not rows._middle and not rows._inputs
