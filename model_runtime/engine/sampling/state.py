"""Sampling state of one request: counts for penalties, reasoning, grammar, randomness.

It does not depend on the batch, so preemption and other requests do not change the result.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from model_runtime.engine.contract import EngineRequest, SamplingParams
from model_runtime.tokenizer.special import NUM_SLOTS, SpecialTokens

if TYPE_CHECKING:
    from model_runtime.engine.grammar import GrammarEngine, Matcher
    from model_runtime.tokenizer import SpecialTokens, Tokenizer


class OutputTokenCounts:
    """Distinct tokens of a sequence with their count in the output; a token only in the prompt has 0."""

    def __init__(self, prompt_ids: Sequence[int] = ()) -> None:
        self._ids = array("q", dict.fromkeys(prompt_ids))
        self._counts = array("q", bytes(8 * len(self._ids)))
        self._places = {token_id: place for place, token_id in enumerate(self._ids)}

    def add(self, token_id: int) -> None:
        """Count a token of the output."""
        place = self._places.setdefault(token_id, len(self._ids))
        if place == len(self._ids):
            self._ids.append(token_id)
            self._counts.append(0)
        self._counts[place] += 1

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return ids (N,) int64 and counts (N,) int64."""
        ids, counts = (torch.from_numpy(np.array(column, dtype=np.int64)) for column in (self._ids, self._counts))
        return ids.to(device), counts.to(device)


def make_counts(prompt_ids: Sequence[int], params: SamplingParams) -> OutputTokenCounts | None:
    """Return the counts that the penalties of `params` need; None without penalties."""
    if params.repetition_penalty != 1.0:
        return OutputTokenCounts(prompt_ids)
    return OutputTokenCounts() if params.presence_penalty or params.frequency_penalty else None


def apply_penalties(row: Tensor, counts: OutputTokenCounts, params: SamplingParams) -> None:
    """Apply penalties to one row of logits, (V,) float32, in place.

    The repetition penalty comes first and scales; the other two are subtracted.

    Source: repetition: CTRL, arXiv:1909.05858, section 4.1, with negative logits multiplied instead of divided, as in
    all other engines; presence and frequency: OpenAI's API reference.
    """
    ids, number = counts.tensors(row.device)
    logits = row[ids]
    if params.repetition_penalty != 1.0:
        factor = params.repetition_penalty
        logits = torch.where(logits > 0, logits / factor, logits * factor)
    logits -= params.frequency_penalty * number + params.presence_penalty * (number > 0)
    row[ids] = logits


WRITABLE = (
    *("[EOS]", "<|im_end|>", "[EOT]", "<think>", "</think>"),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
)
"""Control tokens that a model may write. The others are written only by the template and the media processor: a role
marker would forge text of the user or the system, a media placeholder needs embeddings that are not there, and the
reserved slots, padding and unknown token have no meaning.
"""


def find_writable_ids(special: SpecialTokens) -> frozenset[int]:
    """Return the ids of the control tokens that a model may write."""
    return frozenset(map(special.id_of, WRITABLE))


def find_banned_ids(special: SpecialTokens) -> tuple[int, ...]:
    """Return the control tokens that are never sampled."""
    writable = find_writable_ids(special)
    slots = range(special.first_id, special.first_id + NUM_SLOTS)
    return tuple(slot for slot in slots if slot not in writable)


@dataclass(slots=True, kw_only=True)
class SamplingState:
    """Counts, reasoning, grammar and randomness of one request, up to the last accepted token.

    Attributes:
        params: Sampling parameters.
        special: Control tokens.
        end_ids: Tokens that end this sequence, including the request's own.
        counts: Counts for penalties; None without them.
        matcher: Position of the output in its grammar; None without one.
        in_reasoning: True while the reasoning block is open.
        num_output_tokens: Number of accepted tokens.
        num_reasoning_tokens: Number of accepted tokens in reasoning, without its markers.
        uniform: Random number in [0, 1) that draws the next token. It changes only when a token is accepted, so that
            the n-th token of a seed always uses the n-th number, even if a step is repeated.
    """

    params: SamplingParams
    special: "SpecialTokens"
    end_ids: frozenset[int] = frozenset()
    counts: OutputTokenCounts | None = None
    matcher: "Matcher | None" = None
    in_reasoning: bool = False
    num_output_tokens: int = 0
    num_reasoning_tokens: int = 0
    uniform: float = field(init=False)
    _random: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        seed = self.params.seed
        self._random = np.random.default_rng(None if seed is None else seed % 2**64)
        self.uniform = self._random.random()

    @property
    def forced_id(self) -> int | None:
        """Token that must come next because the thinking budget is used up; None if there is none."""
        budget = self.params.thinking_budget
        is_spent = self.in_reasoning and budget is not None and self.num_reasoning_tokens >= budget
        return self.special.think_end if is_spent else None

    @property
    def active_matcher(self) -> "Matcher | None":
        """Matcher of the grammar if it applies to the next token, else None."""
        if self.matcher is None or self.matcher.is_done or self._is_grammar_waiting:
            return None
        return self.matcher

    @property
    def is_complete(self) -> bool:
        """True if the grammar's end token was accepted: the output is over, regardless of `min_tokens` and
        `ignore_eos`.
        """
        return self.matcher is not None and self.matcher.is_done

    @property
    def banned_ids(self) -> frozenset[int]:
        """Tokens that are not allowed next, in addition to those that are never allowed.

        Before `min_tokens`: end tokens, unless the grammar allows nothing else. Before a grammar that waits for the end
        of reasoning: every control token but `</think>`, since a parser would accept a section, a call or an end at any
        position, without the grammar being applied.
        """
        if self._is_grammar_waiting:
            return (self.end_ids | find_writable_ids(self.special)) - {self.special.think_end}
        matcher = self.active_matcher
        if self.num_output_tokens < self.params.min_tokens and not (matcher and matcher.must_end):
            return self.end_ids
        return frozenset()

    @property
    def _is_grammar_waiting(self) -> bool:
        grammar = self.params.grammar
        return grammar is not None and grammar.starts_after_reasoning and self.in_reasoning

    def accept(self, token_id: int) -> None:
        """Accept the next token of the output."""
        if matcher := self.active_matcher:
            matcher.accept(token_id)
        if self.counts is not None:
            self.counts.add(token_id)
        self._follow_reasoning(token_id)
        self.num_output_tokens += 1
        self.uniform = self._random.random()

    def _follow_reasoning(self, token_id: int) -> None:
        if self.in_reasoning:
            self.in_reasoning = token_id not in self.special.reasoning_ends
            self.num_reasoning_tokens += self.in_reasoning
        elif self.num_output_tokens == 0:  # a prompt without the template's opening tag
            self.in_reasoning = token_id == self.special.think_begin


def make_state(
    request: EngineRequest,
    tokenizer: "Tokenizer",
    stop_token_ids: tuple[int, ...],
    grammars: "GrammarEngine | None" = None,
) -> SamplingState:
    """Return the state of a request before its first token.

    Raises:
        RequestError: If the grammar is invalid, or no engine for grammars was given.
    """
    params = request.params
    matcher = None
    if params.grammar is not None:
        if grammars is None:
            raise ValueError("the request has a grammar, and there is no GrammarEngine to compile it")
        matcher = grammars.compile(params.grammar).make_matcher()
    own = () if params.ignore_eos else stop_token_ids
    return SamplingState(
        params=params,
        special=tokenizer.special,
        end_ids=frozenset((*own, *params.stop_token_ids)),
        counts=make_counts(request.prompt.token_ids, params),
        matcher=matcher,
        in_reasoning=request.starts_in_reasoning,
    )
