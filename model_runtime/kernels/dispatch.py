"""Pairs of token and chosen expert, brought into the order of their experts."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Pairs (token, choice) in the order of their experts. P = num_tokens * top_k; pair p is token p // top_k.

    Attributes:
        offsets: (E + 1,) int32: first place of each expert; offsets[E] counts the pairs whose expert is here.
        pairs: (P,) int32: place -> pair, ascending within one expert; places from offsets[E] on are not to be read.
        tile_expert: (max_tiles,) int32: expert of each tile of block_m places; those from num_tiles on are not to be read.
        tile_start: (max_tiles,) int32: its first place; it ends at the expert's end or after block_m places.
        num_tiles: (1,) int32: how many tiles are real.
        block_m: Places of one tile.
        top_k: Choices of one token.
    """

    offsets: Tensor
    pairs: Tensor
    tile_expert: Tensor
    tile_start: Tensor
    num_tiles: Tensor
    block_m: int
    top_k: int

    @property
    def max_tiles(self) -> int:
        """Tiles there can be at most, known to the host: the size of a grid."""
        return self.tile_expert.shape[0]


def max_tiles(num_pairs: int, num_experts: int, block_m: int) -> int:
    """The most tiles that any routing can have: every expert may add one that is not full."""
    return num_pairs // block_m + min(num_experts, num_pairs)


def dispatch(ids: Tensor, num_experts: int, block_m: int) -> Routing:
    """Sort pairs by their experts and cut them into tiles; the host waits for nothing.

    Args:
        ids: (T, K) int64; those outside of 0..E-1 are experts held elsewhere and get no place.
        num_experts: Experts held here, E.
        block_m: Places of one tile; a power of two.

    Returns:
        The routing.
    """
    flat = ids.flatten()
    flat = torch.where((flat >= 0) & (flat < num_experts), flat, num_experts)
    counts = torch.nn.functional.one_hot(flat, num_experts + 1)[:, :num_experts].sum(0)
    ends = counts.cumsum(0)
    offsets = torch.cat([ends.new_zeros(1), ends]).int()
    tiles = (counts + block_m - 1) // block_m
    tile_ends = tiles.cumsum(0)
    index = torch.arange(max_tiles(ids.numel(), num_experts, block_m), device=ids.device)
    tile_expert = torch.searchsorted(tile_ends, index, right=True).clamp(max=num_experts - 1)
    tile_start = offsets[tile_expert] + (index - (tile_ends - tiles)[tile_expert]) * block_m
    return Routing(
        offsets=offsets,
        pairs=flat.argsort(stable=True).int(),
        tile_expert=tile_expert.int(),
        tile_start=tile_start.int(),
        num_tiles=tile_ends[-1:].int(),
        block_m=block_m,
        top_k=ids.shape[1],
    )
