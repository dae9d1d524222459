"""Logits to tokens."""

from model_runtime.engine.sampling.params import GrammarSpec, SamplingParams

__all__ = ["GrammarSpec", "SamplingParams"]
