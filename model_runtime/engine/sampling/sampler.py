"""Logits of a batch to one token for each request, with log-probabilities.

The order: penalties, grammar, bans, temperature, top-k, top-p, min-p, draw. A row that cannot be sampled fails alone.

Log-probabilities are the model's own, or those of the distribution that was drawn from (`logprobs_mode`). At
temperature 0 that one has all its mass on the likeliest token, whose log-probability is therefore 0, as is that of a
token that the thinking budget puts in. Such a token has no ratio to a policy: 0 shows that to a trainer at once, where
a value at temperature 1 would hide it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from model_runtime.engine.contract import TokenLogprob
from model_runtime.engine.grammar import apply_grammars
from model_runtime.engine.sampling.draw import Drawn, draw, make_drawn, make_options
from model_runtime.engine.sampling.state import SamplingState, apply_penalties, find_banned_ids
from model_runtime.tokenizer.special import SpecialTokens


def make_raw_logprobs(logits: Tensor, token_ids: Sequence[int], tops: Sequence[int]) -> list[TokenLogprob]:
    """What the model itself thought of the tokens that were taken.

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
    return _list_logprobs(logits, token_ids, tops, lambda values: values - norm[:, None])


def make_processed_logprobs(
    logits: Tensor, drawn: Drawn, temperature: Sequence[float], tops: Sequence[int]
) -> list[TokenLogprob]:
    """The probabilities with which the tokens were drawn, and those of what could have come instead.

    Args:
        logits: (N, V) float32, after penalties, grammar and bans, before temperature.
        drawn: From these logits.
        temperature: Of each row; 0 where the likeliest token was taken.
        tops: As in `make_raw_logprobs`; fewer are listed where the filters keep fewer.

    Returns:
        One for each row.
    """
    if not len(logits):
        return []
    peak, log_mass = logits.amax(-1, keepdim=True).double(), drawn.mass.log()[:, None]
    scale = torch.tensor([one or 1.0 for one in temperature], dtype=torch.float64, device=logits.device)[:, None]
    most = torch.minimum(drawn.num_kept, (logits > float("-inf")).sum(-1))
    kept = [min(top, num) for top, num in zip(tops, most.tolist(), strict=True)]
    return _list_logprobs(
        logits, drawn.token_ids.tolist(), kept, lambda values: (values.double() - peak) / scale - log_mass
    )


def make_prompt_logprobs(logits: Tensor, token_ids: Sequence[int], top: int) -> list[TokenLogprob]:
    """The same for prompt tokens: row i of `logits`, (N, V) float32, is what the model expected in place of token i."""
    found = make_raw_logprobs(logits, token_ids, [top] * len(token_ids))
    return [replace(one, sampled=False) for one in found]


def _list_logprobs(
    logits: Tensor, token_ids: Sequence[int], tops: Sequence[int], normalize: Callable[[Tensor], Tensor]
) -> list[TokenLogprob]:
    """`normalize` makes log-probabilities, (N, K), of (N, K) logits, K for each row."""
    taken = normalize(logits.gather(1, torch.tensor(token_ids, device=logits.device)[:, None]))[:, 0]
    values, ids = _find_top(logits, max(tops))
    best = normalize(values).tolist()
    return [
        TokenLogprob(token_id=token_id, logprob=logprob, top=tuple(zip(row_ids[:top], row[:top], strict=True)))
        for token_id, logprob, row_ids, row, top in zip(
            token_ids, taken.tolist(), ids.tolist(), best, tops, strict=True
        )
    ]


def _find_top(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(N, size) largest entries and ids. topk says nothing of equals, so that a few more are looked at and sorted."""
    wide = min(size + 20, logits.shape[-1])
    ids = logits.topk(wide, dim=-1, sorted=False).indices.sort(dim=-1).values
    values, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values[:, :size], ids.gather(1, order)[:, :size]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The next token of one request.

    Attributes:
        token_id: The token; -1 with a fault.
        logprob: Its log-probability, where asked for.
        fault: Why no token could be taken.
    """

    token_id: int
    logprob: TokenLogprob | None = None
    fault: str | None = None


class Sampler:
    """Samples for a vocabulary.

    Args:
        vocab_size: Columns of the logits.
        special: Control tokens.
        banned_ids: Tokens that are never sampled; None for `find_banned_ids(special)`. Comparing outputs with an
            engine that bans nothing needs `()`.
    """

    def __init__(self, vocab_size: int, special: SpecialTokens, *, banned_ids: tuple[int, ...] | None = None) -> None:
        self.vocab_size = vocab_size
        banned = find_banned_ids(special) if banned_ids is None else banned_ids
        self._banned = torch.tensor(banned, dtype=torch.int64)

    def sample(self, logits: Tensor, states: Sequence[SamplingState]) -> list[Sampled]:
        """One token for each state; the states do not change until they `accept` it.

        Args:
            logits: (S, V) float32; overwritten.
            states: One for each row.
        """
        if not states:
            return []
        faults = _find_faults(logits)
        asked = [row for row, state in enumerate(states) if state.params.logprobs is not None and row not in faults]
        raw_rows = [row for row in asked if states[row].params.logprobs_mode == "raw_logprobs"]
        raw = logits[raw_rows] if raw_rows else logits[:0]
        faults |= self._constrain(logits, states, faults)
        for row in faults:
            logits[row] = 0  # drawn with the others, and thrown away
        drawn = _draw_batch(logits, states)
        token_ids: list[int] = drawn.token_ids.tolist()
        tops = [states[row].params.logprobs or 0 for row in raw_rows]
        found = make_raw_logprobs(raw, [token_ids[row] for row in raw_rows], tops)
        logprobs = dict(zip(raw_rows, found, strict=True))
        logprobs |= _list_processed(logits, drawn, states, [row for row in asked if row not in logprobs])
        for row in _find_unsampled(logits, states, asked):
            logprobs[row] = replace(logprobs[row], sampled=False)
        return [
            Sampled(token_id=-1, fault=faults[row])
            if row in faults
            else Sampled(token_id=token_ids[row], logprob=logprobs.get(row))
            for row in range(len(states))
        ]

    def _constrain(self, logits: Tensor, states: Sequence[SamplingState], faults: dict[int, str]) -> dict[int, str]:
        """Penalties, grammars and bans in place; returns rows where nothing is left, with the reason."""
        for row, state in enumerate(states):
            if state.counts is not None:
                apply_penalties(logits[row], state.counts, state.params)
        matchers = {
            row: matcher
            for row, state in enumerate(states)
            if row not in faults and state.forced_id is None and (matcher := state.active_matcher)
        }
        found = apply_grammars(logits, matchers)
        if len(self._banned):
            self._banned = self._banned.to(logits.device)
            logits.index_fill_(1, self._banned, float("-inf"))
        for row, state in enumerate(states):
            if banned := state.banned_ids:
                logits[row, list(banned)] = float("-inf")
        for row, peak in enumerate(logits.amax(-1).tolist()):
            if peak == float("-inf") and row not in faults and states[row].forced_id is None:
                found.setdefault(row, "no token is left: grammar, bans and min_tokens contradict each other")
        return found


def _find_faults(logits: Tensor) -> dict[int, str]:
    """Rows that are no distribution, with what was seen. The largest entry of a row tells them all: NaN wins."""
    faults = {}
    for row, peak in enumerate(logits.amax(-1).tolist()):
        if peak != peak:
            faults[row] = f"the model gave NaN in {int(logits[row].isnan().sum())} of {logits.shape[1]} logits"
        elif peak in (float("inf"), float("-inf")):
            count = int((logits[row] == peak).sum())
            faults[row] = f"the model gave {peak} in {count} of {logits.shape[1]} logits"
    return faults


def _list_processed(
    logits: Tensor, drawn: Drawn, states: Sequence[SamplingState], rows: Sequence[int]
) -> dict[int, TokenLogprob]:
    """Log-probabilities of some rows' draws. One that was put in stands alone in its row, with all probability."""
    forced = {row: forced_id for row in rows if (forced_id := states[row].forced_id) is not None}
    free = [row for row in rows if row not in forced]
    index = torch.tensor(free, dtype=torch.int64, device=logits.device)
    of_free = Drawn(token_ids=drawn.token_ids[index], num_kept=drawn.num_kept[index], mass=drawn.mass[index])
    asked = [states[row].params for row in free]
    found = make_processed_logprobs(
        logits[index], of_free, [one.temperature for one in asked], [one.logprobs or 0 for one in asked]
    )
    alone = {
        row: TokenLogprob(token_id=token_id, logprob=0.0, top=((token_id, 0.0),) if states[row].params.logprobs else ())
        for row, token_id in forced.items()
    }
    return alone | dict(zip(free, found, strict=True))


def _find_unsampled(logits: Tensor, states: Sequence[SamplingState], rows: Sequence[int]) -> list[int]:
    """Rows in which one token alone could come: put in for the thinking budget, or left by the grammar."""
    forced = [row for row in rows if states[row].forced_id is not None]
    ruled = [row for row in rows if row not in forced and states[row].active_matcher is not None]
    if not ruled:
        return forced
    num_left = (logits[ruled] > float("-inf")).sum(-1).tolist()
    return forced + [row for row, num in zip(ruled, num_left, strict=True) if num == 1]


def _draw_batch(logits: Tensor, states: Sequence[SamplingState]) -> Drawn:
    """Greedy rows take the largest entry, the lowest id of equals; forced ones what is forced; the others draw."""
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


def _draw_rows(logits: Tensor, states: Sequence[SamplingState], rows: Sequence[int]) -> Drawn:
    options = []
    for row in rows:
        params = states[row].params
        options.append((params.temperature, params.top_k, params.top_p, params.min_p, states[row].uniform))
    return draw(logits, make_options(options, logits.shape[1], logits.device))
