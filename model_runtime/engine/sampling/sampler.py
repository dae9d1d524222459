"""Logits of a batch to one token for each request, with log-probabilities of the model's own distribution.

The order: penalties, grammar, bans, temperature, top-k, top-p, min-p, draw. A row that cannot be sampled fails alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model_runtime.engine.contract import TokenLogprob
from model_runtime.engine.grammar import apply_grammars
from model_runtime.engine.sampling.draw import draw, make_options
from model_runtime.engine.sampling.state import SamplingState, apply_penalties, find_banned_ids
from model_runtime.tokenizer.special import SpecialTokens


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The next token of one request.

    Attributes:
        token_id: The token; -1 with a fault.
        logprob: What the model itself thought of it, where asked for.
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
        raw = logits[asked] if asked else logits[:0]
        faults |= self._constrain(logits, states, faults)
        for row in faults:
            logits[row] = 0  # drawn with the others, and thrown away
        token_ids = _draw_batch(logits, states)
        for row, state in enumerate(states):
            forced_id = state.forced_id
            token_ids[row] = token_ids[row] if forced_id is None else forced_id
        tops = [states[row].params.logprobs or 0 for row in asked]
        logprobs = dict(zip(asked, make_logprobs(raw, [token_ids[row] for row in asked], tops), strict=True))
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


def _draw_batch(logits: Tensor, states: Sequence[SamplingState]) -> list[int]:
    """Greedy rows take the largest entry, the lowest id of equals; the others draw."""
    rows = [row for row, state in enumerate(states) if state.params.temperature > 0 and state.forced_id is None]
    if len(rows) == len(states):
        token_ids: list[int] = _draw_rows(logits, states, rows)
        return token_ids
    token_ids = logits.max(-1).indices.tolist()
    if rows:
        for row, token_id in zip(rows, _draw_rows(logits[rows], states, rows), strict=True):
            token_ids[row] = token_id
    return token_ids


def _draw_rows(logits: Tensor, states: Sequence[SamplingState], rows: Sequence[int]) -> list[int]:
    options = []
    for row in rows:
        params = states[row].params
        options.append((params.temperature, params.top_k, params.top_p, params.min_p, states[row].uniform))
    token_ids: list[int] = draw(logits, make_options(options, logits.shape[1], logits.device)).tolist()
    return token_ids
