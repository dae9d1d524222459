"""Sampling of one token per request from a batch's logits, with log-probabilities.

The order: penalties, grammar, bans, temperature, top-k, top-p, min-p, draw. A row that cannot be sampled fails alone.

Log-probabilities are the model's own, or those of the distribution that was drawn from (`logprobs_mode`). At
temperature 0, the latter has all its mass on the most likely token, whose log-probability is therefore 0, as is that of
a token inserted by the thinking budget. Such a token has no ratio to a policy: 0 makes that visible to a trainer, where
a value at temperature 1 would hide it.

A row's draw depends only on that row. Weights are exp((logit - largest) / temperature): the most likely token has 1, so
that min-p is a plain threshold and no temperature overflows.

Source: top-p: Holtzman et al., arXiv:1904.09751, section 3.1; min-p: Nguyen et al., arXiv:2407.01082, equation 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from model_runtime.engine.contract import MAX_KEPT_IDS, TokenLogprob
from model_runtime.engine.grammar import apply_grammars
from model_runtime.engine.sampling.state import SamplingState, apply_penalties, find_banned_ids
from model_runtime.tokenizer.special import SpecialTokens

HEAD_SIZES = (512, 8192)  # most rows need few candidates; the others try a larger head, then all
BLOCK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawOptions:
    """Options with one value per row, (R,): float64, `top_k` int64 with the vocabulary's size for all."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    uniform: Tensor

    def rows(self, index: Tensor) -> "DrawOptions":
        """Return the options of some rows."""
        names = ("temperature", "top_k", "top_p", "min_p", "uniform")
        return DrawOptions(**{name: getattr(self, name)[index] for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTokens:
    """Token drawn in each row, and the distribution that it was drawn from.

    The filters keep the most likely tokens of a row, ordered by id if equal, so their number and total weight describe
    the distribution. A kept token has the probability exp((logit - largest) / temperature) / mass.

    Attributes:
        token_ids: (R,) int64.
        num_kept: (R,) int64, number of tokens that the filters keep; may include tokens that are banned or have no
            weight.
        mass: (R,) float64, sum of the kept weights; the most likely token has weight 1.
    """

    token_ids: Tensor
    num_kept: Tensor
    mass: Tensor

    def put(self, index: Tensor, rows: "SampledTokens") -> None:
        """Overwrite some rows."""
        self.token_ids[index], self.num_kept[index], self.mass[index] = rows.token_ids, rows.num_kept, rows.mass


def make_drawn(token_ids: Tensor) -> SampledTokens:
    """Return a result for tokens without alternatives."""
    mass = torch.ones(len(token_ids), dtype=torch.float64, device=token_ids.device)
    return SampledTokens(token_ids=token_ids, num_kept=torch.ones_like(token_ids), mass=mass)


def draw(logits: Tensor, options: DrawOptions) -> SampledTokens:
    """Draw one token of each row of (R, V) float32 logits, of which at least one is finite; -inf bans a token."""
    is_headed = (options.top_k < logits.shape[-1]) | (options.top_p < 1)
    if not bool(is_headed.any()):
        return _draw_whole(logits, options)
    drawn = make_drawn(torch.empty(len(logits), dtype=torch.int64, device=logits.device))
    for index, draw_some in ((is_headed.nonzero()[:, 0], _draw_headed), ((~is_headed).nonzero()[:, 0], _draw_whole)):
        if len(index):
            drawn.put(index, draw_some(logits[index], options.rows(index)))
    return drawn


def _draw_whole(logits: Tensor, options: DrawOptions) -> SampledTokens:
    """Draw from rows without top-k and top-p, which need no sorting."""
    weights = _to_weights(logits, logits.amax(-1), options)
    num_kept = torch.full(logits.shape[:1], logits.shape[-1], dtype=torch.int64, device=logits.device)
    if bool((options.min_p > 0).any()):
        is_kept = weights >= options.min_p[:, None]
        num_kept = is_kept.sum(-1)
        weights.mul_(is_kept)
    token_ids, mass = _pick(weights, options.uniform)
    return SampledTokens(token_ids=token_ids, num_kept=num_kept, mass=mass)


def _draw_headed(logits: Tensor, options: DrawOptions) -> SampledTokens:
    """Draw from rows with top-k or top-p: sort the few hundred most likely tokens first, all if these are not
    enough.
    """
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
        # complete only if no token outside equals the last one kept, and top-k's mass is known
        is_known = (some.top_k <= size) | (some.top_k == vocab_size)
        is_done = (values.gather(1, last)[:, 0] > values[:, -1]) & is_known | (size == vocab_size)
        mass = cumulative.gather(1, last)
        token_ids = ids.gather(1, _search(cumulative, some.uniform[:, None] * mass, last))
        finished = SampledTokens(token_ids=token_ids[is_done, 0], num_kept=last[is_done, 0] + 1, mass=mass[is_done, 0])
        drawn.put(left[is_done], finished)
        left = left[~is_done]
        if not len(left):
            break
    return drawn


def find_head(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the `size` largest entries of each row, (R, size), and their ids: largest first, equal ones by id."""
    if size == logits.shape[-1]:
        values, ids = logits.sort(dim=-1, descending=True, stable=True)
        return values, ids
    ids = logits.topk(size, dim=-1, sorted=False).indices.sort(dim=-1).values
    values, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def _find_last(weights: Tensor, cumulative: Tensor, total: Tensor, options: DrawOptions) -> Tensor:
    """Return the index of the last entry, (R, 1), that the filters keep of a head; all before it are kept."""
    size = weights.shape[-1]
    last_k = (options.top_k - 1).clamp(max=size - 1)[:, None]
    mass = torch.where(options.top_k <= size, cumulative.gather(1, last_k)[:, 0], total)  # top-p applies after top-k
    last_p = torch.searchsorted(cumulative, (options.top_p * mass)[:, None])
    last_p = torch.where(options.top_p[:, None] < 1, last_p, size - 1)
    floor = options.min_p.clamp(min=torch.finfo(weights.dtype).tiny)
    last_floor = (weights >= floor[:, None]).sum(-1, keepdim=True) - 1
    return torch.minimum(torch.minimum(last_k, last_p), last_floor)


def _to_weights(logits: Tensor, peak: Tensor, options: DrawOptions) -> Tensor:
    return (logits - peak[:, None]).div_(options.temperature.float()[:, None]).exp_()


def _pick(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entry, (R,), selected by the uniform number in the row's cumulative sum, and the sum, (R,) float64.

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
    """Return the first index up to `last` where a cumulative sum exceeds `target`, all (R, 1); never an entry without
    weight.
    """
    most = cumulative.gather(1, last)
    return torch.searchsorted(cumulative, torch.minimum(target, torch.nextafter(most, -most)), right=True)


def make_options(
    rows: Sequence[tuple[float, int, float, float, float]], vocab_size: int, device: torch.device
) -> DrawOptions:
    """Return options from (temperature, top_k, top_p, min_p, uniform) of each row."""
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


def make_raw_logprobs(logits: Tensor, token_ids: Sequence[int], tops: Sequence[int]) -> list[TokenLogprob]:
    """Return the model's own log-probabilities of the chosen tokens.

    Args:
        logits: (N, V) float32, as returned by the model.
        token_ids: Chosen token in each row.
        tops: Number of most likely tokens to list in each row; equal ones are ordered by id.
    """
    if not token_ids:
        return []
    norm = torch.logsumexp(logits, dim=-1)
    return _list_logprobs(logits, token_ids, tops, lambda values: values - norm[:, None])


def make_processed_logprobs(
    logits: Tensor, drawn: SampledTokens, temperature: Sequence[float], tops: Sequence[int]
) -> list[TokenLogprob]:
    """Return log-probabilities of the drawn tokens and of the alternatives, in the distribution that was drawn from.

    Args:
        logits: (N, V) float32, after penalties, grammar and bans, before temperature.
        drawn: Tokens drawn from these logits.
        temperature: Temperature of each row; 0 for greedy rows.
        tops: See `make_raw_logprobs`; fewer are listed if the filters keep fewer.
    """
    if not len(logits):
        return []
    peak, log_mass = logits.amax(-1, keepdim=True).double(), drawn.mass.log()[:, None]
    scale = torch.tensor([value or 1.0 for value in temperature], dtype=torch.float64, device=logits.device)[:, None]
    most = torch.minimum(drawn.num_kept, (logits > float("-inf")).sum(-1))
    kept = [min(top, num) for top, num in zip(tops, most.tolist(), strict=True)]
    return _list_logprobs(
        logits, drawn.token_ids.tolist(), kept, lambda values: (values.double() - peak) / scale - log_mass
    )


def find_kept_ids(logits: Tensor, num_kept: Tensor) -> list[tuple[int, ...]]:
    """Return the kept set of each row in ascending order; empty for one of more than `MAX_KEPT_IDS`.

    Args:
        logits: (N, V) float32, after penalties, grammar and bans.
        num_kept: (N,) int64; see `SampledTokens`.
    """
    if not len(logits):
        return []
    num_kept = torch.minimum(num_kept, (logits > float("-inf")).sum(-1))
    values = logits.topk(min(MAX_KEPT_IDS, logits.shape[1]), dim=-1).values
    floors = values.gather(1, (num_kept - 1).clamp(max=values.shape[1] - 1)[:, None])[:, 0]
    sets: list[tuple[int, ...]] = []
    for row, floor, num in zip(logits, floors, num_kept.tolist(), strict=True):
        if num > MAX_KEPT_IDS:
            sets.append(())
            continue
        above, equal = (row > floor).nonzero()[:, 0], (row == floor).nonzero()[:, 0]
        ids = torch.cat([above, equal[: num - len(above)]]).sort().values  # of equal ones, those of the lowest ids
        sets.append(tuple(ids.tolist()))
    return sets


def make_prompt_logprobs(logits: Tensor, token_ids: Sequence[int], top: int) -> list[TokenLogprob]:
    """Return log-probabilities of prompt tokens: row i of `logits`, (N, V) float32, is the prediction of token i."""
    logprobs = make_raw_logprobs(logits, token_ids, [top] * len(token_ids))
    return [replace(logprob, sampled=False) for logprob in logprobs]


def _list_logprobs(
    logits: Tensor, token_ids: Sequence[int], tops: Sequence[int], normalize: Callable[[Tensor], Tensor]
) -> list[TokenLogprob]:
    """List log-probabilities of each row. `normalize` converts (N, K) logits to log-probabilities."""
    chosen = normalize(logits.gather(1, torch.tensor(token_ids, device=logits.device)[:, None]))[:, 0]
    values, ids = _find_top(logits, max(tops))
    best = normalize(values).tolist()
    return [
        TokenLogprob(token_id=token_id, logprob=logprob, top=tuple(zip(row_ids[:top], row[:top], strict=True)))
        for token_id, logprob, row_ids, row, top in zip(
            token_ids, chosen.tolist(), ids.tolist(), best, tops, strict=True
        )
    ]


def _find_top(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the (N, size) largest entries and ids. topk does not order equal ones, so a few more are selected and
    sorted.
    """
    wide = min(size + 20, logits.shape[-1])
    ids = logits.topk(wide, dim=-1, sorted=False).indices.sort(dim=-1).values
    values, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values[:, :size], ids.gather(1, order)[:, :size]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The next token of one request.

    Attributes:
        token_id: The token; -1 with a fault.
        logprob: Its log-probability, if requested.
        fault: Reason why no token could be sampled.
    """

    token_id: int
    logprob: TokenLogprob | None = None
    fault: str | None = None


class Sampler:
    """Sampler for a vocabulary.

    Args:
        vocab_size: Columns of the logits.
        special: Control tokens.
        banned_ids: Tokens that are never sampled; None for `find_banned_ids(special)`. Use `()` to compare outputs with
            an engine that bans nothing.
    """

    def __init__(self, vocab_size: int, special: SpecialTokens, *, banned_ids: tuple[int, ...] | None = None) -> None:
        self.vocab_size = vocab_size
        banned = find_banned_ids(special) if banned_ids is None else banned_ids
        self._banned = torch.tensor(banned, dtype=torch.int64)

    def sample(self, logits: Tensor, states: Sequence[SamplingState]) -> list[Sampled]:
        """Sample one token for each state; (S, V) float32 logits are overwritten, and the caller updates states with
        `accept`.
        """
        if not states:
            return []
        faults = _find_faults(logits)
        logprob_rows = [
            row for row, state in enumerate(states) if state.params.logprobs is not None and row not in faults
        ]
        raw_rows = [row for row in logprob_rows if states[row].params.logprobs_mode == "raw_logprobs"]
        raw = logits[raw_rows] if raw_rows else logits[:0]
        faults |= self._constrain(logits, states, faults)
        for row in faults:
            logits[row] = 0  # drawn with the others, and discarded
        drawn = _draw_batch(logits, states)
        token_ids: list[int] = drawn.token_ids.tolist()
        tops = [states[row].params.logprobs or 0 for row in raw_rows]
        listed = make_raw_logprobs(raw, [token_ids[row] for row in raw_rows], tops)
        logprobs = dict(zip(raw_rows, listed, strict=True))
        logprobs |= _list_processed(logits, drawn, states, [row for row in logprob_rows if row not in logprobs])
        kept_rows = [row for row in logprob_rows if _has_kept_set(states[row])]
        for row, kept_ids in zip(kept_rows, find_kept_ids(logits[kept_rows], drawn.num_kept[kept_rows]), strict=True):
            logprobs[row] = replace(logprobs[row], kept_ids=kept_ids)
        for row in _find_unsampled(logits, states, logprob_rows):
            logprobs[row] = replace(logprobs[row], sampled=False)
        return [
            Sampled(token_id=-1, fault=faults[row])
            if row in faults
            else Sampled(token_id=token_ids[row], logprob=logprobs.get(row))
            for row in range(len(states))
        ]

    def _constrain(self, logits: Tensor, states: Sequence[SamplingState], faults: dict[int, str]) -> dict[int, str]:
        """Apply penalties, grammars and bans in place; return rows where no token is left, with the reason."""
        for row, state in enumerate(states):
            if state.counts is not None:
                apply_penalties(logits[row], state.counts, state.params)
        matchers = {
            row: matcher
            for row, state in enumerate(states)
            if row not in faults and state.forced_id is None and (matcher := state.active_matcher)
        }
        faults_found = apply_grammars(logits, matchers)
        if len(self._banned):
            self._banned = self._banned.to(logits.device)
            logits.index_fill_(1, self._banned, float("-inf"))
        for row, state in enumerate(states):
            if banned := state.banned_ids:
                logits[row, list(banned)] = float("-inf")
        for row, peak in enumerate(logits.amax(-1).tolist()):
            if peak == float("-inf") and row not in faults and states[row].forced_id is None:
                faults_found.setdefault(row, "no token is left: grammar, bans and min_tokens contradict each other")
        return faults_found


def _find_faults(logits: Tensor) -> dict[int, str]:
    """Return rows that are not a distribution, with the cause. The largest entry is enough to detect them: NaN
    propagates.
    """
    faults = {}
    for row, peak in enumerate(logits.amax(-1).tolist()):
        if peak != peak:
            faults[row] = f"the model gave NaN in {int(logits[row].isnan().sum())} of {logits.shape[1]} logits"
        elif peak in (float("inf"), float("-inf")):
            count = int((logits[row] == peak).sum())
            faults[row] = f"the model gave {peak} in {count} of {logits.shape[1]} logits"
    return faults


def _list_processed(
    logits: Tensor, drawn: SampledTokens, states: Sequence[SamplingState], rows: Sequence[int]
) -> dict[int, TokenLogprob]:
    """Return log-probabilities of some rows' draws. A forced token is the only one in its row, with probability 1."""
    forced = {row: forced_id for row in rows if (forced_id := states[row].forced_id) is not None}
    free = [row for row in rows if row not in forced]
    index = torch.tensor(free, dtype=torch.int64, device=logits.device)
    of_free = SampledTokens(token_ids=drawn.token_ids[index], num_kept=drawn.num_kept[index], mass=drawn.mass[index])
    params = [states[row].params for row in free]
    listed = make_processed_logprobs(
        logits[index],
        of_free,
        [row_params.temperature for row_params in params],
        [row_params.logprobs or 0 for row_params in params],
    )
    alone = {
        row: TokenLogprob(token_id=token_id, logprob=0.0, top=((token_id, 0.0),) if states[row].params.logprobs else ())
        for row, token_id in forced.items()
    }
    return alone | dict(zip(free, listed, strict=True))


def _has_kept_set(state: SamplingState) -> bool:
    """Return True if the kept set is requested, and filters or a grammar may leave out tokens of this draw."""
    is_limited = state.params.is_filtered or state.active_matcher is not None
    return state.params.return_kept_ids and is_limited and state.forced_id is None


def _find_unsampled(logits: Tensor, states: Sequence[SamplingState], rows: Sequence[int]) -> list[int]:
    """Return rows in which only one token was possible: forced by the thinking budget, or by the grammar."""
    forced = [row for row in rows if states[row].forced_id is not None]
    ruled = [row for row in rows if row not in forced and states[row].active_matcher is not None]
    if not ruled:
        return forced
    num_left = (logits[ruled] > float("-inf")).sum(-1).tolist()
    return forced + [row for row, num in zip(ruled, num_left, strict=True) if num == 1]


def _draw_batch(logits: Tensor, states: Sequence[SamplingState]) -> SampledTokens:
    """Draw one token per row: the largest entry, of equal ones the lowest id, in greedy rows; the forced token in
    forced ones.
    """
    rows = [row for row, state in enumerate(states) if state.params.temperature > 0 and state.forced_id is None]
    if len(rows) == len(states):
        return _draw_rows(logits, states, rows)
    drawn = make_drawn(logits.max(-1).indices)
    if rows:
        drawn.put(torch.tensor(rows, device=logits.device), _draw_rows(logits[rows], states, rows))
    for row, state in enumerate(states):
        if state.forced_id is not None:
            drawn.token_ids[row] = state.forced_id
    return drawn


def _draw_rows(logits: Tensor, states: Sequence[SamplingState], rows: Sequence[int]) -> SampledTokens:
    options = []
    for row in rows:
        params = states[row].params
        options.append((params.temperature, params.top_k, params.top_p, params.min_p, states[row].uniform))
    return draw(logits, make_options(options, logits.shape[1], logits.device))
