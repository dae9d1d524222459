"""Log-probabilities of the model's own distribution: before penalties, masks, temperature and filters."""

from collections.abc import Sequence

import torch
from torch import Tensor

from model_runtime.engine.contract import TokenLogprob


def make_logprobs(logits: Tensor, token_ids: Sequence[int], tops: Sequence[int]) -> list[TokenLogprob]:
    """What the model thought of the tokens that were taken.

    Args:
        logits: (N, V) float32, as they came from the model.
        token_ids: The token taken in each row.
        tops: How many of the likeliest to list in each row; of equals the lower id comes first.

    Returns:
        One for each row.
    """
    if not token_ids:
        return []
    norm = torch.logsumexp(logits, dim=-1)
    taken = logits.gather(1, torch.tensor(token_ids, device=logits.device)[:, None])[:, 0] - norm
    values, ids = _find_top(logits, max(tops))
    best = (values - norm[:, None]).tolist()
    return [
        TokenLogprob(token_id=token_id, logprob=logprob, top=tuple(zip(row_ids[:top], row[:top], strict=True)))
        for token_id, logprob, row_ids, row, top in zip(
            token_ids, taken.tolist(), ids.tolist(), best, tops, strict=True
        )
    ]


def make_prompt_logprobs(logits: Tensor, token_ids: Sequence[int], top: int) -> list[TokenLogprob]:
    """The same for prompt tokens: row i of `logits`, (N, V) float32, is what the model expected in place of token i."""
    return make_logprobs(logits, token_ids, [top] * len(token_ids))


def _find_top(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(N, size) largest entries and ids. topk says nothing of equals, so that a few more are looked at and sorted."""
    wide = min(size + 20, logits.shape[-1])
    ids = logits.topk(wide, dim=-1, sorted=False).indices.sort(dim=-1).values
    values, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values[:, :size], ids.gather(1, order)[:, :size]
