"""Temperature, top-k, top-p, min-p, and one draw for each row.

A row's result depends on that row alone. Weights are exp((logit - largest) / temperature): the likeliest token has 1,
so that min-p is a plain threshold and no temperature overflows.

Source: top-p: Holtzman et al., arXiv:1904.09751, section 3.1; min-p: Nguyen et al., arXiv:2407.01082, equation 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

HEAD_SIZES = (512, 8192)
BLOCK = 256


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What was drawn in each row, and the distribution that it was drawn from.

    The filters keep the likeliest tokens of a row, the lower id first of equals: how many, and how much they weigh
    together, says it all. A kept token has the probability exp((logit - largest) / temperature) / mass.

    Attributes:
        token_ids: (R,) int64.
        num_kept: (R,) int64, tokens that the filters keep; those that are barred or that weigh nothing may count.
        mass: (R,) float64, sum of the weights that are kept; the likeliest token weighs 1.
    """

    token_ids: Tensor
    num_kept: Tensor
    mass: Tensor

    def put(self, index: Tensor, rows: "Drawn") -> None:
        """Overwrite some rows."""
        self.token_ids[index], self.num_kept[index], self.mass[index] = rows.token_ids, rows.num_kept, rows.mass


def make_drawn(token_ids: Tensor) -> Drawn:
    """Tokens that nothing else could have come in place of."""
    mass = torch.ones(len(token_ids), dtype=torch.float64, device=token_ids.device)
    return Drawn(token_ids=token_ids, num_kept=torch.ones_like(token_ids), mass=mass)


def draw(logits: Tensor, options: DrawOptions) -> Drawn:
    """Draw one token of each row.

    Args:
        logits: (R, V) float32, at least one finite entry a row; -inf bars a token.
        options: Filters and random numbers of the rows.
    """
    is_headed = (options.top_k < logits.shape[-1]) | (options.top_p < 1)
    if not bool(is_headed.any()):
        return _draw_whole(logits, options)
    drawn = make_drawn(torch.empty(len(logits), dtype=torch.int64, device=logits.device))
    for index, draw_some in ((is_headed.nonzero()[:, 0], _draw_headed), ((~is_headed).nonzero()[:, 0], _draw_whole)):
        if len(index):
            drawn.put(index, draw_some(logits[index], options.rows(index)))
    return drawn


def _draw_whole(logits: Tensor, options: DrawOptions) -> Drawn:
    """Rows with neither top-k nor top-p need no order."""
    weights = _to_weights(logits, logits.amax(-1), options)
    num_kept = torch.full(logits.shape[:1], logits.shape[-1], dtype=torch.int64, device=logits.device)
    if bool((options.min_p > 0).any()):
        is_kept = weights >= options.min_p[:, None]
        num_kept = is_kept.sum(-1)
        weights.mul_(is_kept)
    token_ids, mass = _pick(weights, options.uniform)
    return Drawn(token_ids=token_ids, num_kept=num_kept, mass=mass)


def _draw_headed(logits: Tensor, options: DrawOptions) -> Drawn:
    """Rows with top-k or top-p: look at the likeliest few hundred first, at all where these fail."""
    peak, vocab_size = logits.amax(-1), logits.shape[-1]
    total = _to_weights(logits, peak, options).sum(-1).double()
    drawn = make_drawn(torch.empty(len(logits), dtype=torch.int64, device=logits.device))
    left = torch.arange(len(logits), device=logits.device)
    for size in (*(size for size in HEAD_SIZES if size < vocab_size), vocab_size):
        some = options.rows(left)
        values, ids = find_head(logits if len(left) == len(logits) else logits[left], size)
        weights = _to_weights(values, peak[left], some)
        cumulative = weights.cumsum(-1, dtype=torch.float64)
        last = _find_last(weights, cumulative, total[left], some)
        # complete only where no equal of the last one kept can stand outside, and top-k's mass is known
        is_known = (some.top_k <= size) | (some.top_k == vocab_size)
        is_done = (values.gather(1, last)[:, 0] > values[:, -1]) & is_known | (size == vocab_size)
        mass = cumulative.gather(1, last)
        token_ids = ids.gather(1, _search(cumulative, some.uniform[:, None] * mass, last))
        found = Drawn(token_ids=token_ids[is_done, 0], num_kept=last[is_done, 0] + 1, mass=mass[is_done, 0])
        drawn.put(left[is_done], found)
        left = left[~is_done]
        if not len(left):
            break
    return drawn


def find_head(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The `size` largest entries of each row, (R, size), and their ids: largest first, the lower id first of equals."""
    if size == logits.shape[-1]:
        values, ids = logits.sort(dim=-1, descending=True, stable=True)
        return values, ids
    ids = logits.topk(size, dim=-1, sorted=False).indices.sort(dim=-1).values
    values, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def _find_last(weights: Tensor, cumulative: Tensor, total: Tensor, options: DrawOptions) -> Tensor:
    """Place of the last entry, (R, 1), that the filters keep of a head; they keep all before it."""
    size = weights.shape[-1]
    last_k = (options.top_k - 1).clamp(max=size - 1)[:, None]
    mass = torch.where(options.top_k <= size, cumulative.gather(1, last_k)[:, 0], total)  # top-p shares what top-k left
    last_p = torch.searchsorted(cumulative, (options.top_p * mass)[:, None])
    last_p = torch.where(options.top_p[:, None] < 1, last_p, size - 1)
    floor = options.min_p.clamp(min=torch.finfo(weights.dtype).tiny)
    last_floor = (weights >= floor[:, None]).sum(-1, keepdim=True) - 1
    return torch.minimum(torch.minimum(last_k, last_p), last_floor)


def _to_weights(logits: Tensor, peak: Tensor, options: DrawOptions) -> Tensor:
    return (logits - peak[:, None]).div_(options.temperature.float()[:, None]).exp_()


def _pick(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """The entry, (R,), in whose share of the row's sum the uniform number falls, and that sum, (R,) float64.

    In two steps, the block and the entry within it: cumulative sums in float64 over a whole vocabulary are slow, and in
    float32 they would lose the rare tokens at its end.
    """
    num_rows, size = weights.shape
    blocks = pad(weights, (0, -size % BLOCK)).view(num_rows, -1, BLOCK)  # (R, B, 256)
    sums = blocks.sum(-1).cumsum(-1, dtype=torch.float64)
    target = uniform[:, None] * sums[:, -1:]
    block = _search(sums, target, torch.full_like(target, sums.shape[-1] - 1, dtype=torch.int64))
    rows = torch.arange(num_rows, device=weights.device)
    before = torch.where(block > 0, sums.gather(1, (block - 1).clamp(min=0)), 0.0)
    entries = blocks[rows, block[:, 0]].cumsum(-1, dtype=torch.float64)
    entry = _search(entries, target - before, torch.full_like(block, BLOCK - 1))
    return (block * BLOCK + entry)[:, 0], sums[:, -1]


def _search(cumulative: Tensor, target: Tensor, last: Tensor) -> Tensor:
    """The first place up to `last` where a cumulative sum passes `target`, all (R, 1); never one that adds nothing."""
    most = cumulative.gather(1, last)
    return torch.searchsorted(cumulative, torch.minimum(target, torch.nextafter(most, -most)), right=True)


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
