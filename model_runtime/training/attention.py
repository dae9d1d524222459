"""Attention scores of a layer's heads, for losses on attention and for clipping.

Fused attention returns neither scores nor their softmax (attention weights, here called shares); they are recomputed
for the requested rows, from the layer's input and the latents in its cache.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model_runtime.model import K25Model
from model_runtime.model.batch import StepAttention
from model_runtime.model.mla import Mla
from model_runtime.training.batch import TrainingBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerInput:
    """Input of one layer's attention.

    Attributes:
        x: (N, hidden), normalized.
        plan: Plan of the step.
        cache: (N, 1, latent_dim), written by the layer.
    """

    x: Tensor
    plan: StepAttention
    cache: Tensor


class AttentionInputs:
    """Recorder of the attention input of some layers (None: all) in the last forward pass."""

    def __init__(self, model: K25Model, layers: Sequence[int] | None = None) -> None:
        self.of_layer: dict[int, LayerInput] = {}
        numbers = range(len(model.layers)) if layers is None else layers
        self._hooks = [
            model.layers[number].attention.register_forward_pre_hook(self._keep(number)) for number in numbers
        ]

    def _keep(self, number: int) -> Callable[[nn.Module, tuple[Tensor, StepAttention, Tensor]], None]:
        def hook(_module: nn.Module, inputs: tuple[Tensor, StepAttention, Tensor]) -> None:
            x, plan, cache = inputs
            self.of_layer[number] = LayerInput(x=x, plan=plan, cache=cache)

        return hook

    def close(self) -> None:
        """Stop recording and drop the data; may be called twice."""
        for hook in self._hooks:
            hook.remove()
        self.of_layer.clear()


def compute_scores(mla: Mla, inputs: LayerInput, batch: TrainingBatch, rows: Tensor) -> Tensor:
    """Return scores of some tokens with all tokens they see, before the softmax.

    Args:
        mla: The layer's attention.
        inputs: Its input.
        batch: Batch of the step.
        rows: (R,) int64, tokens of the batch.

    Returns:
        (R, heads, keys) fp32: a token's k-th key is the k-th token of its sequence; minus infinity after the token.
    """
    sequences, lengths = find_sequences(batch, rows)
    some, sequence_of = sequences.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    slots = batch.forward.block_tables[some][:, : int(lengths.max())].long()  # (S, keys), padded with token 0
    latents = inputs.cache.view(-1, inputs.cache.shape[-1])
    device = latents.device
    # gathered once for all rows of a sequence
    keys = latents.index_select(0, slots.flatten().to(device)).view(*slots.shape, -1)  # (S, keys, latent_dim)
    own = rows.to(device)
    queries = mla.find_queries(inputs.x.index_select(0, own), inputs.plan.rotations[own])  # (R, heads, latent_dim)
    order = sequence_of.argsort(stable=True)
    counts = sequence_of.bincount()
    number = torch.empty_like(order)  # index of a row in its sequence
    number[order] = torch.arange(len(order)) - (counts.cumsum(0) - counts)[sequence_of[order]]
    row_of = (sequence_of * int(counts.max()) + number).to(device)
    padded = queries.new_zeros(len(some) * int(counts.max()), *queries.shape[1:]).index_copy(0, row_of, queries)
    scores = padded.view(len(some), -1, queries.shape[-1]) @ keys.transpose(1, 2)  # (S, longest * heads, keys)
    scores = scores.view(-1, queries.shape[1], slots.shape[1]).index_select(0, row_of).float() * mla.scale
    is_seen = torch.arange(slots.shape[1]) < lengths.unsqueeze(1)
    return scores.masked_fill(~is_seen.unsqueeze(1).to(device), -torch.inf)


def find_sequences(batch: TrainingBatch, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sequence, from 0, of some tokens, and the number of its tokens that each sees.

    Args:
        batch: Batch of the step.
        rows: (R,) int64, tokens of the batch.

    Returns:
        (R,) int64 and (R,) int64.
    """
    forward = batch.forward
    ends = torch.tensor(forward.cu_seqlens_q[1:])
    return torch.searchsorted(ends, rows, right=True), forward.positions[rows] + 1


def compute_log_shares(scores: Tensor, targets: Tensor, *, head: int) -> Tensor:
    """Return the log of a head's attention share from each of some tokens to a token that it sees.

    Args:
        scores: (R, heads, keys), result of `compute_scores` for the looking tokens.
        targets: (R,) int64, the target of each, as an index in its sequence.
        head: Head, from 0.

    Returns:
        (R,) fp32, at most 0.
    """
    return scores[:, head].log_softmax(-1).gather(1, targets.unsqueeze(1).to(scores.device)).squeeze(1)
