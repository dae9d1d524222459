"""How many cache blocks there is room for."""

import os

import torch

from model_runtime.config import TextConfig
from model_runtime.errors import CapacityError

SHARE_OF_FREE = 0.3
"""On a CPU: other programs and the batch's own tensors need the rest."""
SHARE_OF_FREE_GPU = 0.85


def find_block_bytes(config: TextConfig, block_size: int, dtype: torch.dtype) -> int:
    """Bytes of one block over all layers. Every rank holds whole rows: the latent is shared by all heads."""
    return config.num_hidden_layers * block_size * config.latent_dim * dtype.itemsize


def find_free_bytes(device: torch.device) -> int:
    """Memory that a cache may take on this device, once the weights are loaded."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free * SHARE_OF_FREE_GPU)
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE_OF_FREE)


def find_num_blocks(block_bytes: int, free_bytes: int, *, block_size: int, max_tokens: int) -> int:
    """Blocks of the cache.

    Args:
        block_bytes: Of one block, over all layers.
        free_bytes: What the cache may take.
        block_size: Tokens in a block.
        max_tokens: Tokens that can ever be in use at once; more room is of use for shared beginnings only.

    Raises:
        CapacityError: There is room for less than two blocks.
    """
    blocks = min(free_bytes // block_bytes, max(2, -(-max_tokens // block_size)))
    if blocks < 2:
        text = f"{free_bytes / 2**20:.0f} MiB are left for the cache, and one block takes {block_bytes / 2**20:.1f} MiB"
        raise CapacityError(f"{text}. Use more ranks, a smaller block_size, or a machine with more memory")
    return blocks
