"""What the heads of a layer look at, for losses on attention and for clipping its scores.

Fused attention gives neither scores nor shares; they are formed here a second time, for the rows that are asked for,
from what the layer was given and the latents that it left in its cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model_runtime.model import K25Model
from model_runtime.model.batch import AttentionPlan
from model_runtime.model.mla import Mla
from model_runtime.training.batch import TrainingBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerInput:
    """What one layer's attention was given.

    Attributes:
        x: (N, hidden), normed.
        plan: The step.
        cache: (N, 1, latent_dim), written by the layer.
    """

    x: Tensor
    plan: AttentionPlan
    cache: Tensor


class AttentionInputs:
    """Keeps, from the last forward pass, what the attention of some layers (None: all) was given."""

    def __init__(self, model: K25Model, layers: Sequence[int] | None = None) -> None:
        self.of_layer: dict[int, LayerInput] = {}
        numbers = range(len(model.layers)) if layers is None else layers
        self._hooks = [
            model.layers[number].attention.register_forward_pre_hook(self._keep(number)) for number in numbers
        ]

    def _keep(self, number: int) -> Callable[[nn.Module, tuple[Tensor, AttentionPlan, Tensor]], None]:
        def hook(_module: nn.Module, inputs: tuple[Tensor, AttentionPlan, Tensor]) -> None:
            x, plan, cache = inputs
            self.of_layer[number] = LayerInput(x=x, plan=plan, cache=cache)

        return hook

    def close(self) -> None:
        """Keep nothing more; may be called twice."""
        for hook in self._hooks:
            hook.remove()
        self.of_layer.clear()


def find_scores(mla: Mla, given: LayerInput, batch: TrainingBatch, rows: Tensor) -> Tensor:
    """Scores before the softmax of some tokens with all that they see.

    Args:
        mla: The layer's attention.
        given: What it was given.
        batch: The step.
        rows: (R,) int64, tokens of the batch.

    Returns:
        (R, heads, keys) fp32: a token's k-th key is the k-th token of its sequence; minus infinity behind itself.
    """
    sequences, lengths = find_sequences(batch, rows)
    some, sequence_of = sequences.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    slots = batch.forward.block_tables[some][:, : int(lengths.max())].long()  # (S, keys), padded with token 0
    latents = given.cache.view(-1, given.cache.shape[-1])
    device = latents.device
    # gathered once for all rows of a sequence
    keys = latents.index_select(0, slots.flatten().to(device)).view(*slots.shape, -1)  # (S, keys, latent_dim)
    own = rows.to(device)
    queries = mla.find_queries(given.x.index_select(0, own), given.plan.rotations[own])  # (R, heads, latent_dim)
    order = sequence_of.argsort(stable=True)
    counts = sequence_of.bincount()
    number = torch.empty_like(order)  # of a row among those of its sequence
    number[order] = torch.arange(len(order)) - (counts.cumsum(0) - counts)[sequence_of[order]]
    place_of = (sequence_of * int(counts.max()) + number).to(device)
    padded = queries.new_zeros(len(some) * int(counts.max()), *queries.shape[1:]).index_copy(0, place_of, queries)
    scores = padded.view(len(some), -1, queries.shape[-1]) @ keys.transpose(1, 2)  # (S, longest * heads, keys)
    scores = scores.view(-1, queries.shape[1], slots.shape[1]).index_select(0, place_of).float() * mla.scale
    is_seen = torch.arange(slots.shape[1]) < lengths.unsqueeze(1)
    return scores.masked_fill(~is_seen.unsqueeze(1).to(device), -torch.inf)


def find_sequences(batch: TrainingBatch, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Of each of some tokens, the sequence, from 0, and how many of its tokens it sees.

    Args:
        batch: The step.
        rows: (R,) int64, tokens of the batch.

    Returns:
        (R,) int64 and (R,) int64.
    """
    forward = batch.forward
    ends = torch.tensor(forward.cu_seqlens_q[1:])
    return torch.searchsorted(ends, rows, right=True), forward.positions[rows] + 1


def find_log_shares(scores: Tensor, targets: Tensor, *, head: int) -> Tensor:
    """Logarithm of the share of its attention that a head gives, from each of some tokens, to a token that it sees.

    Args:
        scores: (R, heads, keys) of `find_scores`, for the tokens that look.
        targets: (R,) int64, what each is to look at, as places in its sequence.
        head: From 0.

    Returns:
        (R,) fp32, at most 0.
    """
    return scores[:, head].log_softmax(-1).gather(1, targets.unsqueeze(1).to(scores.device)).squeeze(1)
