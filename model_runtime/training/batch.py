"""Examples as one step of the model: pictures, a trunk of tokens, and branches that all go on from the trunk.

Branches see the trunk and themselves, as sequences with a cached prefix do when the model serves: several questions
about one picture cost the picture once. The latents of the step are its cache, a row a token, made anew for each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model_runtime.media import MediaItem
from model_runtime.model import ForwardBatch, K25Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What the model reads.

    Attributes:
        trunk: Token ids; each picture has as many placeholders as it has rows.
        branches: Token ids of each continuation; none is a plain sequence.
        pictures: In the order of their placeholders, which lie in the trunk.
    """

    trunk: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...] = ()
    pictures: tuple[MediaItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBatch:
    """Examples laid end to end: all trunks in order, then all branches in order.

    Attributes:
        token_ids: (N,) int64.
        forward: Which token belongs where; blocks of the cache have one row.
        pictures: Of all examples, in order.
        picture_rows: (rows of all pictures,) int64: tokens that are placeholders.
        trunks: Tokens of each example's trunk.
        branches: Tokens of each branch, for each example.
    """

    token_ids: Tensor
    forward: ForwardBatch
    pictures: tuple[MediaItem, ...]
    picture_rows: Tensor
    trunks: tuple[slice, ...]
    branches: tuple[tuple[slice, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """What a forward pass gives to losses.

    Attributes:
        hidden: (N, hidden), normed, ready for `model.logits`.
        pictures: (rows, hidden) of each picture, as they stand in place of their tokens.
        caches: (N, 1, latent_dim) of each layer.
    """

    hidden: Tensor
    pictures: tuple[Tensor, ...]
    caches: tuple[Tensor, ...]


def make_batch(examples: Sequence[Example], placeholder_id: int) -> TrainingBatch:
    """Lay examples end to end.

    Args:
        examples: One at least.
        placeholder_id: The token that a picture's rows replace.

    Raises:
        ValueError: The placeholders of an example are not as many as the rows of its pictures, or stand in a branch.
    """
    for number, example in enumerate(examples):
        _check_pictures(example, number, placeholder_id)
    trunks = _lay([len(example.trunk) for example in examples], 0)
    first = trunks[-1].stop
    flat = [branch for example in examples for branch in example.branches]
    spans = iter(_lay([len(branch) for branch in flat], first))
    branches = tuple(tuple(next(spans) for _ in example.branches) for example in examples)
    token_ids = torch.tensor([token for ids in (*(e.trunk for e in examples), *flat) for token in ids])
    return TrainingBatch(
        token_ids=token_ids,
        forward=_make_forward(trunks, branches),
        pictures=tuple(picture for example in examples for picture in example.pictures),
        picture_rows=(token_ids == placeholder_id).nonzero().flatten(),
        trunks=trunks,
        branches=branches,
    )


def run(model: K25Model, batch: TrainingBatch) -> Activations:
    """The model's forward pass, the very one that serves.

    Args:
        model: Loaded with the operators `autograd` where gradients are wanted.
        batch: Of `make_batch`.
    """
    embeds = model.embed(batch.token_ids.to(model.device))
    pictures = tuple(model.encode_media(batch.pictures)) if batch.pictures else ()
    if pictures:
        embeds = embeds.index_copy(0, batch.picture_rows.to(model.device), torch.cat(pictures).to(embeds.dtype))
    text = model.config.text
    shape = (len(embeds), 1, text.latent_dim)
    caches = tuple(embeds.new_zeros(shape) for _ in range(text.num_hidden_layers))
    return Activations(hidden=model(embeds, batch.forward, caches), pictures=pictures, caches=caches)


def _check_pictures(example: Example, number: int, placeholder_id: int) -> None:
    found = example.trunk.count(placeholder_id)
    expected = sum(picture.num_tokens for picture in example.pictures)
    if found != expected:
        raise ValueError(f"example {number} has {found} placeholders, expected {expected}, the rows of its pictures")
    if any(placeholder_id in branch for branch in example.branches):
        raise ValueError(f"example {number} has placeholders in a branch; pictures belong into the trunk")


def _lay(lengths: Sequence[int], first: int) -> tuple[slice, ...]:
    spans = []
    for length in lengths:
        spans.append(slice(first, first + length))
        first += length
    return tuple(spans)


def _make_forward(trunks: Sequence[slice], branches: Sequence[Sequence[slice]]) -> ForwardBatch:
    pairs = [(slice(0, 0), trunk) for trunk in trunks]
    pairs += [(trunk, branch) for trunk, of_trunk in zip(trunks, branches, strict=True) for branch in of_trunk]
    slots = [(*range(past.start, past.stop), *range(own.start, own.stop)) for past, own in pairs]
    width = max(map(len, slots))
    positions = [
        range(past.stop - past.start, len(all_slots)) for (past, _), all_slots in zip(pairs, slots, strict=True)
    ]
    ends = [0, *(own.stop for _, own in pairs)]
    return ForwardBatch(
        positions=torch.tensor([position for here in positions for position in here]),
        slot_mapping=torch.arange(ends[-1]),
        block_tables=torch.tensor([[*row, *([0] * (width - len(row)))] for row in slots], dtype=torch.int32),
        cu_seqlens_q=tuple(ends),
        seq_lens=tuple(map(len, slots)),
        num_decodes=0,
        block_size=1,
    )
