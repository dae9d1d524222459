"""Log-probabilities of the tokens of a sequence, under the distributions that they were sampled from.

The counterpart of the sampler's `processed_logprobs`: logits divided by the temperature and normalized over the tokens
that could be drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model_runtime.media import MediaItem
from model_runtime.model import K25Model
from model_runtime.training.batch import Example, forward, make_batch

MAX_ROWS = 256
"""Rows of logits in memory at a time, each as wide as the vocabulary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSequence:
    """Sequence of which some tokens were sampled.

    Attributes:
        token_ids: Ids of the T tokens, with as many placeholders for each image as it has rows.
        images: Images, in order.
        positions: (P,) int64, positions of the sampled tokens, ascending and above 0.
        temperatures: (P,) temperature of each sampled token, above 0.
        num_kept: (P,) int64, size of the kept set of each sampled token; 0 if it was drawn from all tokens.
        kept_ids: (sum of `num_kept`,) int64, the kept sets, one after the other.
        banned_ids: Tokens that are never sampled.
    """

    token_ids: tuple[int, ...]
    images: tuple[MediaItem, ...] = ()
    positions: Tensor
    temperatures: Tensor
    num_kept: Tensor
    kept_ids: Tensor
    banned_ids: Sequence[int] = ()


def score_tokens(model: K25Model, sequence: SampledSequence) -> Tensor:
    """Return the log-probability of each sampled token, (P,) float32.

    Args:
        model: Model; for gradients, loaded with the operators `autograd`.
        sequence: The sequence.

    Raises:
        ValueError: If placeholders and images do not match.
    """
    batch = make_batch(
        [Example(trunk=sequence.token_ids, images=sequence.images)], model.config.media_placeholder_token_id
    )
    hidden = forward(model, batch).hidden
    banned = torch.tensor(sequence.banned_ids, dtype=torch.int64)
    token_ids, offsets = batch.token_ids[sequence.positions], sequence.num_kept.cumsum(0) - sequence.num_kept
    scores = []
    for start in range(0, len(sequence.positions), MAX_ROWS):
        rows = slice(start, start + MAX_ROWS)
        num_kept = sequence.num_kept[rows]
        first = int(offsets[start])
        kept_ids = sequence.kept_ids[first : first + int(num_kept.sum())]
        logits = model.logits(hidden[(sequence.positions[rows] - 1).to(model.device)])
        left_out = _find_left_out(logits.shape[1], num_kept, kept_ids, banned).to(model.device)
        scaled = logits / sequence.temperatures[rows, None].to(logits)
        logprobs = scaled.masked_fill(left_out, float("-inf")).log_softmax(-1)
        scores.append(logprobs.gather(1, token_ids[rows, None].to(model.device))[:, 0])
    return torch.cat(scores) if scores else hidden.new_zeros(0)


def _find_left_out(vocab_size: int, num_kept: Tensor, kept_ids: Tensor, banned: Tensor) -> Tensor:
    """Return (R, V) bool: True for the tokens that could not be drawn."""
    left_out = (num_kept > 0)[:, None].repeat(1, vocab_size)
    left_out.index_fill_(1, banned, True)
    left_out[torch.arange(len(num_kept)).repeat_interleave(num_kept), kept_ids] = False
    return left_out
