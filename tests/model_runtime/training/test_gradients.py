"""Gradients of the modules that serve, beside those of transformers' own model on the same folder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from model_runtime.checkpoint.names import expected_tensors
from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.model import K25Model, load_model
from model_runtime.training.batch import Example, forward, make_batch
from model_runtime.training.release import release_tensors
from tests.model_runtime.model.drive import Drive, difference, make_ids
from tests.model_runtime.model.peer import Peer, make_patches
from tests.model_runtime.vision.weights import make_item

IDS = make_ids(30)
IMAGES = (make_item(1, 4, 6, seed=1), make_item(1, 8, 4, seed=2))


@pytest.fixture
def trained(tiny_dir: Path) -> K25Model:
    return load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_()


def with_images(pad: int) -> Example:
    ids = (*IDS[:5], *[pad] * 6, *IDS[5:9], *[pad] * 8, *IDS[9:])
    return Example(trunk=ids, images=IMAGES)


def loss_of(logits: Tensor, token_ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[:-1].float(), token_ids[1:])


def test_the_names_are_those_of_the_release(trained: K25Model, tiny_dir: Path) -> None:
    source = Checkpoint.open(tiny_dir)
    named = release_tensors(trained)
    biases = {name for name in expected_tensors(trained.config) if name.endswith("e_score_correction_bias")}
    assert set(named) | biases == set(expected_tensors(trained.config))
    for name, tensor in named.items():
        assert torch.equal(tensor, source.get(name).float()), name
    parameters = {parameter.data_ptr() for parameter in trained.parameters()}
    storages = {tensor.untyped_storage().data_ptr() for tensor in named.values()}
    assert storages == parameters  # views, and no weight is left out


def test_gradients_are_those_of_transformers(trained: K25Model, tiny_dir: Path, tmp_path: Path) -> None:
    """Every weight's, the vision tower's too, through two images."""
    pad = trained.config.media_placeholder_token_id
    batch = make_batch([with_images(pad)], pad)
    loss = loss_of(trained.logits(forward(trained, batch).hidden), batch.token_ids)
    loss.backward()
    peer = Peer(tiny_dir).model.requires_grad_()
    inputs = {
        "input_ids": batch.token_ids[None],
        "pixel_values": torch.cat([make_patches(item) for item in IMAGES]),
        "image_grid_thw": torch.tensor([item.grid for item in IMAGES]),
    }
    theirs = loss_of(peer(**inputs).logits[0], batch.token_ids)
    theirs.backward()
    assert abs(loss.item() - theirs.item()) <= 1e-5
    wanted = save_gradients(peer, tmp_path)
    for name, found in release_tensors(trained, lambda weight: weight.grad).items():
        expected = wanted[name]
        assert expected.any() or ".experts." in name, name  # an expert that no token went to
        assert difference(found, expected) <= 1e-5 * max(1.0, expected.abs().max().item()), name


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_the_gradients_goes_on_into_the_images(tiny_dir: Path, share: float) -> None:
    """What is computed is the same, and what is read from the images' rows alone reaches the tower in full."""
    model, other = (load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_() for _ in range(2))
    pad = model.config.media_placeholder_token_id
    batch = make_batch([with_images(pad)], pad)
    seen, whole = forward(model, batch, image_gradient=share), forward(other, batch)
    assert torch.equal(seen.hidden, whole.hidden)
    seen.hidden.square().sum().backward(retain_graph=True)
    whole.hidden.square().sum().backward(retain_graph=True)
    assert model.vision is not None and other.vision is not None
    ours, theirs = model.vision.patch_embed.weight, other.vision.patch_embed.weight
    assert theirs.grad is not None and theirs.grad.any()
    if share:
        assert ours.grad is not None
        assert difference(ours.grad, share * theirs.grad) <= 1e-5 * theirs.grad.abs().max().item()
    else:
        assert ours.grad is None
    assert model.embedding.weight.grad is not None
    assert torch.equal(model.embedding.weight.grad, other.embedding.weight.grad)
    model.zero_grad()
    other.zero_grad()
    torch.cat(seen.images).square().sum().backward()
    torch.cat(whole.images).square().sum().backward()
    assert ours.grad is not None and theirs.grad is not None
    assert torch.equal(ours.grad, theirs.grad)


def save_gradients(peer: Any, folder: Path) -> dict[str, Tensor]:
    """Their gradients, written as if they were the weights: the layout of the release, and nearly its names."""
    for parameter in peer.parameters():
        parameter.data = parameter.grad
    peer.save_pretrained(folder)
    stored = load_file(next(folder.glob("*.safetensors")))
    return {rename(name): tensor for name, tensor in stored.items()}


def rename(name: str) -> str:
    name = name.replace("language_model.model.blocks.", "language_model.model.layers.")
    name = name.removeprefix("model.") if name.startswith("model.mm_projector") else name
    return name.replace("encoder.patch_embed", "patch_embed")


def test_what_trains_is_what_serves(trained: K25Model, tiny_dir: Path) -> None:
    serving = load_model(tiny_dir, dtype=torch.float32)
    pad = trained.config.media_placeholder_token_id
    example = with_images(pad)
    ours = trained.logits(forward(trained, make_batch([example], pad)).hidden)
    assert ours.requires_grad
    rows = serving.embed(torch.tensor(example.trunk))
    rows[torch.tensor(example.trunk) == pad] = torch.cat(serving.encode_media(IMAGES))
    drive = Drive(serving)
    theirs = torch.cat([drive.step_rows({"one": chunk})["one"] for chunk in rows.split(7)])
    assert not theirs.requires_grad
    assert difference(ours, theirs) <= 1e-5


def test_branches_are_sequences_that_share_their_beginning(tiny_dir: Path) -> None:
    pad = load_model(tiny_dir, dtype=torch.float32).config.media_placeholder_token_id
    first, second = with_images(pad), Example(trunk=tuple(IDS[:7]))
    tails = ((3, 4, 5), (6,), (7, 8, 9, 10))
    joined = [
        Example(trunk=first.trunk, images=IMAGES, branches=tails),
        Example(trunk=second.trunk, branches=((1, 2),)),
    ]
    losses, gradients = [], []
    for alone in (False, True):
        model = load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_()
        losses.append(sum_of_alone(model, joined) if alone else sum_of_branches(model, joined))
        losses[-1].backward()
        gradients.append(release_tensors(model, lambda weight: weight.grad))
    assert abs(losses[0].item() - losses[1].item()) <= 1e-5 * losses[1].item()
    for name, found in gradients[0].items():
        assert difference(found, gradients[1][name]) <= 2e-5 * max(1.0, gradients[1][name].abs().max().item()), name


def sum_of_branches(model: K25Model, examples: list[Example]) -> Tensor:
    batch = make_batch(examples, model.config.media_placeholder_token_id)
    logits = model.logits(forward(model, batch).hidden)
    spans = [span for of_trunk in batch.branches for span in of_trunk]
    return torch.stack([logits[span].logsumexp(-1).sum() for span in spans]).sum()


def sum_of_alone(model: K25Model, examples: list[Example]) -> Tensor:
    """Each branch with the whole trunk before it, as a sequence of its own."""
    parts = []
    for example in examples:
        for branch in example.branches:
            whole = Example(trunk=(*example.trunk, *branch), images=example.images)
            batch = make_batch([whole], model.config.media_placeholder_token_id)
            parts.append(model.logits(forward(model, batch).hidden)[-len(branch) :].logsumexp(-1).sum())
    return torch.stack(parts).sum()


def test_a_prefix_is_shared(tiny_dir: Path) -> None:
    model = load_model(tiny_dir, dtype=torch.float32, kernels="autograd").requires_grad_()
    pad, prefix, tail = model.config.media_placeholder_token_id, tuple(IDS[20:29]), (3, 4, 5)
    examples = [Example(trunk=with_images(pad).trunk, images=IMAGES, branches=(tail,)), Example(trunk=(1, 2))]
    batch = make_batch(examples, pad, prefix)
    joined = model.logits(forward(model, batch).hidden)
    whole = Example(trunk=(*prefix, *examples[0].trunk, *tail), images=IMAGES)
    alone = model.logits(forward(model, make_batch([whole], pad)).hidden)
    assert difference(joined[batch.branches[0][0]], alone[-3:]) <= 1e-5
    second = model.logits(forward(model, make_batch([Example(trunk=(*prefix, 1, 2))], pad)).hidden)
    assert difference(joined[batch.trunks[1]], second[-2:]) <= 1e-5
    assert difference(joined[batch.prefix], second[: len(prefix)]) <= 1e-5


def test_placeholders_have_to_fit_their_images() -> None:
    with pytest.raises(ValueError, match="example 1 has 5 placeholders, expected 6"):
        make_batch([Example(trunk=(1,)), Example(trunk=(9,) * 5, images=IMAGES[:1])], 9)
    with pytest.raises(ValueError, match="example 0 has placeholders in a branch"):
        make_batch([Example(trunk=(1, 2), branches=((3, 9),))], 9)
