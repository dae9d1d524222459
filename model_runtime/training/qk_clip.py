"""QK-clip: the weights of a head whose attention scores grow too large are scaled down after the optimizer's step.

Source: Kimi K2 report (arXiv 2507.20534), section 2.1, "MuonClip". In MLA, parts of a query and a key that belong to
one head alone take the square root of the factor each; the rotary part of the query, whose key all heads share, takes
all of it.
"""

import torch
from torch import Tensor

from model_runtime.model import K25Model
from model_runtime.model.mla import Mla
from model_runtime.training.attention import AttentionInputs, find_scores
from model_runtime.training.batch import TrainingBatch

THRESHOLD = 100.0
"""Source: Kimi K2 report, section 2.1: tau."""
MAX_ROWS = 256
"""Tokens of a step whose scores are formed: enough to see a head that grows, and little beside the step itself."""


@torch.no_grad()
def find_score_maxima(model: K25Model, inputs: AttentionInputs, batch: TrainingBatch) -> list[Tensor]:
    """The largest score of each head in the last forward pass, over some evenly spaced tokens and all that they see.

    Args:
        model: One rank.
        inputs: Of all layers.
        batch: The step.

    Returns:
        For each layer (heads,) fp32, with the softmax's own scale; masked pairs do not count.
    """
    rows = torch.linspace(0, len(batch.token_ids) - 1, min(MAX_ROWS, len(batch.token_ids))).long()
    return [
        find_scores(layer.attention, inputs.of_layer[number], batch, rows).amax(dim=(0, 2))
        for number, layer in enumerate(model.layers)
    ]


@torch.no_grad()
def clip_heads(mla: Mla, maxima: Tensor, threshold: float = THRESHOLD) -> int:
    """Scale down the heads of one layer whose largest score is above the threshold, so that it is at the threshold.

    Args:
        mla: The layer's attention, on one rank.
        maxima: (heads,) of `find_score_maxima`.
        threshold: Above 0.

    Returns:
        How many heads were scaled.
    """
    nope = mla.text.qk_nope_head_dim
    too_large = maxima > threshold
    if not too_large.any():
        return 0
    factor = torch.where(too_large, threshold / maxima, 1.0).to(mla.q_b.dtype)[:, None, None]
    queries = mla.q_b.data.view(mla.num_heads, mla.text.qk_head_dim, -1)
    queries[:, :nope] *= factor.sqrt()
    queries[:, nope:] *= factor
    mla.kv_b.data[:, :nope] *= factor.sqrt()
    return int(too_large.sum())
