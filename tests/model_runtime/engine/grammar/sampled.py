"""Outputs of a model that knows nothing: random logits under a grammar."""

from collections.abc import Sequence

import torch

from model_runtime.engine.contract import EngineRequest
from model_runtime.engine.grammar import GrammarEngine
from model_runtime.engine.sampling import GrammarSpec, SamplingParams
from model_runtime.engine.sampling.sampler import Sampler
from model_runtime.engine.sampling.state import SamplingState, make_state
from model_runtime.media import Prompt
from model_runtime.tokenizer import Tokenizer


def make_states(
    tokenizer: Tokenizer, grammars: GrammarEngine, spec: GrammarSpec, seeds: Sequence[int], in_reasoning: bool = False
) -> list[SamplingState]:
    """Requests that differ in their seed; every other one is filtered by top-p."""
    return [
        make_state(
            EngineRequest(
                request_id=str(seed),
                prompt=Prompt(token_ids=(1,)),
                params=SamplingParams(seed=seed, grammar=spec, top_p=(1.0, 0.95)[seed % 2], temperature=0.9),
                starts_in_reasoning=in_reasoning,
            ),
            tokenizer,
            (tokenizer.special.im_end,),
            grammars,
        )
        for seed in seeds
    ]


def sample_outputs(
    tokenizer: Tokenizer, states: Sequence[SamplingState], *, max_tokens: int, closing: float = 4.0
) -> list[list[int]]:
    """Tokens of each request up to its end token, or `max_tokens`.

    Args:
        closing: Added to the logits of control tokens and of what closes JSON, so that outputs come to an end.
    """
    special = tokenizer.special
    likely = torch.zeros(tokenizer.vocab_size)
    likely[special.first_id :] = closing
    likely[[tokenizer.encode(text)[0] for text in ('"', "}", "]", ",", ":")]] = closing
    sampler = Sampler(tokenizer.vocab_size, special)
    generator = torch.Generator().manual_seed(0)
    outputs: list[list[int]] = [[] for _ in states]
    for _ in range(max_tokens):
        running = [row for row, output in enumerate(outputs) if output[-1:] != [special.im_end]]
        if not running:
            break
        logits = torch.randn(len(running), tokenizer.vocab_size, generator=generator) * 2 + likely
        for row, sampled in zip(running, sampler.sample(logits, [states[row] for row in running]), strict=True):
            assert sampled.fault is None, sampled.fault
            states[row].accept(sampled.token_id)
            outputs[row].append(sampled.token_id)
    return outputs
