"""Temperature, top-k, top-p, min-p, and one draw for each row.

A row's result depends on that row alone. Weights are exp((logit - largest) / temperature): the likeliest token has 1,
so that min-p is a plain threshold and no temperature overflows.

Source: top-p: Holtzman et al., arXiv:1904.09751, section 3.1; min-p: Nguyen et al., arXiv:2407.01082, equation 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

HEAD_SIZES = (512, 8192)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawOptions:
    """One value for each row, (R,): float64, but `top_k` int64 with the vocabulary's size for all."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    uniform: Tensor

    def rows(self, index: Tensor) -> "DrawOptions":
        """The options of some rows."""
        names = ("temperature", "top_k", "top_p", "min_p", "uniform")
        return DrawOptions(**{name: getattr(self, name)[index] for name in names})


def draw(logits: Tensor, options: DrawOptions) -> Tensor:
    """Draw one token of each row.

    Args:
        logits: (R, V) float32, at least one finite entry a row; -inf bars a token.
        options: Filters and random numbers of the rows.

    Returns:
        (R,) int64.
    """
    is_headed = (options.top_k < logits.shape[-1]) | (options.top_p < 1)
    if not bool(is_headed.any()):
        return _draw_whole(logits, options)
    token_ids = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    for index, draw_some in ((is_headed.nonzero()[:, 0], _draw_headed), ((~is_headed).nonzero()[:, 0], _draw_whole)):
        if len(index):
            token_ids[index] = draw_some(logits[index], options.rows(index))
    return token_ids


def _draw_whole(logits: Tensor, options: DrawOptions) -> Tensor:
    """Rows with neither top-k nor top-p need no order."""
    weights = _to_weights(logits, logits.amax(-1), options.temperature.float())
    if bool((options.min_p > 0).any()):
        weights.masked_fill_(weights < options.min_p[:, None], 0)
    return _pick(weights, options.uniform)


def _draw_headed(logits: Tensor, options: DrawOptions) -> Tensor:
    """Rows with top-k or top-p: look at the likeliest few hundred first, at all where these fail."""
    peak = logits.amax(-1)
    total = _to_weights(logits, peak, options.temperature.float()).sum(-1, dtype=torch.float64)
    token_ids = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    left = torch.arange(len(logits), device=logits.device)
    vocab_size = logits.shape[-1]
    for size in (*(size for size in HEAD_SIZES if size < vocab_size), vocab_size):
        some = options.rows(left)
        values, ids = find_head(logits if len(left) == len(logits) else logits[left], size)
        weights = _to_weights(values.double(), peak[left].double(), some.temperature)
        is_kept = _keep(weights, total[left], some)
        is_whole = torch.ones_like(left, dtype=torch.bool)
        if size < vocab_size:  # complete only where no equal of the last one kept can stand outside
            last = is_kept.sum(-1, keepdim=True) - 1
            is_whole = values.gather(1, last)[:, 0] > values[:, -1]
        picked = ids.gather(1, _pick(weights * is_kept, some.uniform)[:, None])[:, 0]
        token_ids[left[is_whole]] = picked[is_whole]
        left = left[~is_whole]
        if not len(left):
            break
    return token_ids


def find_head(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The `size` largest entries of each row, (R, size), and their ids: largest first, the lower id first of equals."""
    if size == logits.shape[-1]:
        values, ids = logits.sort(dim=-1, descending=True, stable=True)
        return values, ids
    ids = logits.topk(size, dim=-1, sorted=False).indices.sort(dim=-1).values
    values, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def _keep(weights: Tensor, total: Tensor, options: DrawOptions) -> Tensor:
    """Which of a head's entries, (R, K), the filters keep; always a prefix of the row."""
    size = weights.shape[-1]
    is_kept = torch.arange(size, device=weights.device) < options.top_k[:, None]
    cumulative = (weights * is_kept).cumsum(-1)
    mass = torch.where(options.top_k <= size, cumulative[:, -1], total)  # top-p shares what top-k has left
    before = cumulative - weights
    is_nucleus = (before < (options.top_p * mass)[:, None]) | (options.top_p >= 1)[:, None]
    is_nucleus[:, 0] = True
    return is_kept & is_nucleus & (weights >= options.min_p[:, None]) & (weights > 0)


def _to_weights(logits: Tensor, peak: Tensor, temperature: Tensor) -> Tensor:
    return (logits - peak[:, None]).div_(temperature[:, None]).exp_()


def _pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """Index of the entry, (R,), in whose share of the row's sum the uniform number falls."""
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    total = cumulative[:, -1]
    target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]


def make_options(
    rows: Sequence[tuple[float, int, float, float, float]], vocab_size: int, device: torch.device
) -> DrawOptions:
    """Options from (temperature, top_k, top_p, min_p, uniform) of each row."""
    temperature, top_k, top_p, min_p, uniform = zip(*rows, strict=True)
    sizes = [min(k, vocab_size) or vocab_size for k in top_k]
    floats = (
        torch.tensor(column, dtype=torch.float64, device=device) for column in (temperature, top_p, min_p, uniform)
    )
    temperatures, shares, floors, uniforms = floats
    return DrawOptions(
        temperature=temperatures,
        top_k=torch.tensor(sizes, dtype=torch.int64, device=device),
        top_p=shares,
        min_p=floors,
        uniform=uniforms,
    )
