"""Grammars on a batch of logits: a bit for each token of each constrained row."""

from collections.abc import Mapping

import torch
from torch import Tensor

from model_runtime.engine.grammar.matcher import Matcher


def apply_grammars(logits: Tensor, matchers: Mapping[int, Matcher]) -> dict[int, str]:
    """Bar what the grammars do not allow next.

    Args:
        logits: (S, V) float32; rows of `matchers` get -inf in place.
        matchers: By row.

    Returns:
        What went wrong, by row.
    """
    if not matchers:
        return {}
    vocab_size = logits.shape[1]
    bits = torch.zeros(len(matchers), (vocab_size + 31) // 32, dtype=torch.int32)
    for place, matcher in enumerate(matchers.values()):
        matcher.fill(bits[place])
    added = to_logits(bits.to(logits.device), vocab_size)
    for place, row in enumerate(matchers):
        logits[row] += added[place]
    return {row: f"the grammar cannot go on: {matcher.fault}" for row, matcher in matchers.items() if matcher.fault}


def to_logits(bits: Tensor, size: int) -> Tensor:
    """(N, W) int32 words, lowest bit first, to (N, size) float32: 0 where a bit is set, -inf elsewhere."""
    octets = bits.view(torch.uint8).int()  # (N, 4 W); the machines this runs on are little-endian
    return _OCTETS.to(bits.device).index_select(0, octets.view(-1)).view(len(bits), -1)[:, :size]


_OCTETS = torch.where((torch.arange(256)[:, None] >> torch.arange(8)) & 1 == 1, 0.0, float("-inf"))  # (256, 8)
