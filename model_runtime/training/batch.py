"""Examples as one step of the model: a prefix that all share, a trunk with images, and branches that go on from it.

A trunk sees the prefix, a branch the prefix and its trunk, as sequences with a cached beginning do when the model
serves: a system prompt costs a step once, and several questions about one image cost the image once. The latents of
the step are its cache, a row a token, made anew for each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model_runtime.media import MediaItem
from model_runtime.model import ForwardBatch, K25Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Input of the model: a trunk of token ids with as many placeholders for each image as it has rows, and branches.

    Each branch continues the trunk; without any it is a plain sequence.
    """

    trunk: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...] = ()
    images: tuple[MediaItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBatch:
    """Examples laid end to end: the prefix, all trunks in order, then all branches in order; on the host.

    Attributes:
        token_ids: (N,) int64.
        forward: Which token belongs where; blocks of the cache have one row.
        prefix: Tokens that all examples begin with.
        images: Of all examples, in order.
        image_rows: (rows of all images,) int64: tokens that are placeholders.
        trunks: Tokens of each example's trunk.
        branches: Tokens of each branch, for each example.
    """

    token_ids: Tensor
    forward: ForwardBatch
    prefix: slice
    images: tuple[MediaItem, ...]
    image_rows: Tensor
    trunks: tuple[slice, ...]
    branches: tuple[tuple[slice, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """What a forward pass gives to losses, on the model's device.

    Attributes:
        hidden: (N, hidden), normed, ready for `model.logits`.
        images: (rows, hidden) of each image, as they stand in place of their tokens.
        caches: (N, 1, latent_dim) of each layer.
    """

    hidden: Tensor
    images: tuple[Tensor, ...]
    caches: tuple[Tensor, ...]


def make_batch(examples: Sequence[Example], placeholder_id: int, prefix: Sequence[int] = ()) -> TrainingBatch:
    """Lay examples end to end.

    Args:
        examples: One at least.
        placeholder_id: The token that a image's rows replace.
        prefix: Token ids that every example begins with, without images.

    Raises:
        ValueError: The placeholders of an example are not as many as the rows of its images, or stand in a branch.
    """
    for number, example in enumerate(examples):
        _check_images(example, number, placeholder_id)
    trunks = _lay([len(example.trunk) for example in examples], len(prefix))
    first = trunks[-1].stop
    flat = [branch for example in examples for branch in example.branches]
    spans = iter(_lay([len(branch) for branch in flat], first))
    branches = tuple(tuple(next(spans) for _ in example.branches) for example in examples)
    token_ids = torch.tensor([token for ids in (prefix, *(e.trunk for e in examples), *flat) for token in ids])
    return TrainingBatch(
        token_ids=token_ids,
        forward=_make_forward(len(prefix), trunks, branches),
        prefix=slice(0, len(prefix)),
        images=tuple(image for example in examples for image in example.images),
        image_rows=(token_ids == placeholder_id).nonzero().flatten(),
        trunks=trunks,
        branches=branches,
    )


def run(
    model: K25Model,
    batch: TrainingBatch,
    *,
    trains_images: bool = True,
    image_gradient: float = 1.0,
    bf16: bool = False,
) -> Activations:
    """The model's forward pass, the very one that serves.

    Args:
        model: Loaded with the operators `autograd` where gradients are wanted.
        batch: Of `make_batch`.
        trains_images: Whether gradients reach the vision tower and the projector.
        image_gradient: Share of the language model's that do; what is read from `images` sends its own in full.
        bf16: Whether these compute matrix products in bf16.
    """
    device = model.device
    embeds = model.embed(batch.token_ids.to(device))
    with torch.set_grad_enabled(trains_images and torch.is_grad_enabled()):
        images = _encode(model, batch, bf16) if batch.images else ()
    if images:
        given = torch.cat(images).to(embeds.dtype)
        if image_gradient != 1:
            given = torch.lerp(given.detach(), given, image_gradient) if image_gradient else given.detach()
        embeds = embeds.index_copy(0, batch.image_rows.to(device), given)
    text = model.config.text
    shape = (len(embeds), 1, text.latent_dim)
    caches = tuple(embeds.new_zeros(shape) for _ in range(text.num_hidden_layers))
    return Activations(hidden=model(embeds, _move(batch.forward, device), caches), images=images, caches=caches)


def see(model: K25Model, batch: TrainingBatch, *, bf16: bool = False) -> Activations:
    """The vision tower and the projector alone: no row of the language model is computed."""
    images = _encode(model, batch, bf16)
    return Activations(hidden=images[0].new_zeros((0, images[0].shape[1])), images=images, caches=())


def _encode(model: K25Model, batch: TrainingBatch, bf16: bool) -> tuple[Tensor, ...]:
    assert model.vision is not None
    embed = model.vision.patch_embed
    hook = embed.register_forward_hook(lambda _module, _inputs, rows: rows.float())  # what blocks add up
    with hook, torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
        return tuple(rows.float() for rows in model.encode_media(batch.images))


def _move(forward: ForwardBatch, device: torch.device) -> ForwardBatch:
    return replace(
        forward,
        positions=forward.positions.to(device),
        slot_mapping=forward.slot_mapping.to(device),
        block_tables=forward.block_tables.to(device),
    )


def _check_images(example: Example, number: int, placeholder_id: int) -> None:
    found = example.trunk.count(placeholder_id)
    expected = sum(image.num_tokens for image in example.images)
    if found != expected:
        raise ValueError(f"example {number} has {found} placeholders, expected {expected}, the rows of its images")
    if any(placeholder_id in branch for branch in example.branches):
        raise ValueError(f"example {number} has placeholders in a branch; images belong into the trunk")


def _lay(lengths: Sequence[int], first: int) -> tuple[slice, ...]:
    spans = []
    for length in lengths:
        spans.append(slice(first, first + length))
        first += length
    return tuple(spans)


def _make_forward(num_prefix: int, trunks: Sequence[slice], branches: Sequence[Sequence[slice]]) -> ForwardBatch:
    prefix = range(num_prefix)
    sequences: list[tuple[Sequence[int], slice]] = []  # each: the tokens before it, its own
    if num_prefix:
        sequences.append((range(0), slice(0, num_prefix)))
    sequences += [(prefix, trunk) for trunk in trunks]
    pasts = [(*prefix, *range(trunk.start, trunk.stop)) for trunk in trunks]
    sequences += [(past, branch) for past, of_trunk in zip(pasts, branches, strict=True) for branch in of_trunk]
    slots = [(*past, *range(own.start, own.stop)) for past, own in sequences]
    width = max(map(len, slots))
    places = [range(len(past), len(seen)) for (past, _), seen in zip(sequences, slots, strict=True)]
    ends = [0, *(own.stop for _, own in sequences)]
    return ForwardBatch(
        positions=torch.tensor([position for here in places for position in here]),
        slot_mapping=torch.arange(ends[-1]),
        block_tables=torch.tensor([[*row, *([0] * (width - len(row)))] for row in slots], dtype=torch.int32),
        cu_seqlens_q=tuple(ends),
        seq_lens=tuple(map(len, slots)),
        num_decodes=0,
        block_size=1,
    )
