"""Examples as one step of the model: a shared prefix, trunks with images, and branches that continue a trunk.

A trunk sees the prefix, a branch the prefix and its trunk, like sequences with a cached prefix in serving: a system
prompt is computed once per step, and an image once for several questions. The latents of the step are its cache, one
row per token, newly created for each step.
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

    Each branch continues the trunk; an example without branches is a plain sequence.
    """

    trunk: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...] = ()
    images: tuple[MediaItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBatch:
    """Concatenated examples on the host: the prefix, all trunks in order, then all branches in order.

    Attributes:
        token_ids: (N,) int64.
        forward: Layout of the tokens; blocks of the cache have one row.
        prefix: Tokens of the common prefix.
        images: Images of all examples, in order.
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
    """Results of a forward pass for the losses, on the model's device.

    Attributes:
        hidden: (N, hidden), normalized, input of `model.logits`.
        images: (rows, hidden) of each image, as inserted in place of its tokens.
        caches: (N, 1, latent_dim) of each layer.
    """

    hidden: Tensor
    images: tuple[Tensor, ...]
    caches: tuple[Tensor, ...]


def make_batch(examples: Sequence[Example], placeholder_id: int, prefix: Sequence[int] = ()) -> TrainingBatch:
    """Concatenate examples.

    Args:
        examples: Examples, at least one.
        placeholder_id: Token that an image's rows replace.
        prefix: Token ids that every example begins with, without images.

    Raises:
        ValueError: If the number of placeholders of an example differs from the rows of its images, or a branch has
            placeholders.
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


def forward(
    model: K25Model,
    batch: TrainingBatch,
    *,
    trains_images: bool = True,
    image_gradient: float = 1.0,
    bf16: bool = False,
    encoded: Sequence[Tensor] | None = None,
) -> Activations:
    """Run the model's forward pass, with the same code as in serving.

    Args:
        model: Model; for gradients, loaded with the operators `autograd`.
        batch: Result of `make_batch`.
        trains_images: True to pass gradients to the vision tower and the projector.
        image_gradient: Share of the language model's gradient that is passed to them; gradients of losses on `images`
            are passed in full.
        bf16: True to compute the matrix products of tower and projector in bf16.
        encoded: Features of the images, such as a `DecoupledEncoder`'s; None to encode them.
    """
    device = model.device
    embeds = model.embed(batch.token_ids.to(device))
    if encoded is None:
        with torch.set_grad_enabled(trains_images and torch.is_grad_enabled()):
            encoded = _encode(model, batch, bf16) if batch.images else ()
    images = tuple(encoded)
    if images:
        media = torch.cat(images).to(embeds.dtype)
        if image_gradient != 1:
            media = torch.lerp(media.detach(), media, image_gradient) if image_gradient else media.detach()
        embeds = embeds.index_copy(0, batch.image_rows.to(device), media)
    text = model.config.text
    shape = (len(embeds), 1, text.latent_dim)
    caches = tuple(embeds.new_zeros(shape) for _ in range(text.num_hidden_layers))
    return Activations(hidden=model(embeds, _move(batch.forward, device), caches), images=images, caches=caches)


def forward_vision(model: K25Model, batch: TrainingBatch, *, bf16: bool = False) -> Activations:
    """Run only the vision tower and the projector, without the language model."""
    images = _encode(model, batch, bf16)
    return Activations(hidden=images[0].new_zeros((0, images[0].shape[1])), images=images, caches=())


def _encode(model: K25Model, batch: TrainingBatch, bf16: bool) -> tuple[Tensor, ...]:
    assert model.vision is not None
    embed = model.vision.patch_embed
    hook = embed.register_forward_hook(lambda _module, _inputs, rows: rows.float())  # residual stream of the blocks
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
    count = example.trunk.count(placeholder_id)
    expected = sum(image.num_tokens for image in example.images)
    if count != expected:
        raise ValueError(f"example {number} has {count} placeholders, expected {expected}, the rows of its images")
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
    positions = [range(len(past), len(of_sequence)) for (past, _), of_sequence in zip(sequences, slots, strict=True)]
    ends = [0, *(own.stop for _, own in sequences)]
    return ForwardBatch(
        positions=torch.tensor([position for own in positions for position in own]),
        slot_mapping=torch.arange(ends[-1]),
        block_tables=torch.tensor([[*row, *([0] * (width - len(row)))] for row in slots], dtype=torch.int32),
        cu_seqlens_q=tuple(ends),
        seq_lens=tuple(map(len, slots)),
        num_decodes=0,
        block_size=1,
    )
