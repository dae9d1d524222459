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
    rows = torch.tensor(list(matchers), device=logits.device)
    barred = ~unpack_bits(bits.to(logits.device), vocab_size)
    logits[rows] = logits[rows].masked_fill_(barred, float("-inf"))
    return {row: f"the grammar cannot go on: {matcher.fault}" for row, matcher in matchers.items() if matcher.fault}


def unpack_bits(bits: Tensor, size: int) -> Tensor:
    """(N, W) int32 words, lowest bit first, to (N, size) bool."""
    octets = bits.view(torch.uint8)  # (N, 4 W); the machines this runs on are little-endian
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return (octets[..., None] >> places).bitwise_and_(1).view(len(bits), -1)[:, :size].bool()
