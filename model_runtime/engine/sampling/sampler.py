"""Logits of a batch to one token for each request.

The order: penalties, grammar, bans, temperature, top-k, top-p, min-p, draw. A row that cannot be sampled fails alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model_runtime.engine.contract import TokenLogprob
from model_runtime.engine.grammar.mask import apply_grammars
from model_runtime.engine.sampling.counts import apply_penalties
from model_runtime.engine.sampling.draw import draw, make_options
from model_runtime.engine.sampling.logprobs import make_logprobs
from model_runtime.engine.sampling.state import SamplingState
from model_runtime.engine.sampling.writable import find_banned_ids
from model_runtime.tokenizer.special import SpecialTokens


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
