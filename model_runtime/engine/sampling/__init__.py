"""Sampling of tokens from logits."""

from model_runtime.engine.contract import GrammarSpec, SamplingParams

__all__ = ["GrammarSpec", "SamplingParams"]
