"""Paged latent cache: number of blocks, hashes of prefixes, and allocation of blocks to sequences.

A block's hash covers everything up to its end. Placeholder tokens are the same for all media, so it also covers the
content of the media in it and the offset in the media at which it starts. Two prompts share a block exactly if tokens
and images up to its end are equal.

Source: Kwon et al. 2023, arXiv 2309.06180 (paged cache); lookup of blocks by content hash as in vLLM's prefix caching.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from struct import pack

import torch

from model_runtime.config import TextConfig
from model_runtime.errors import CapacityError
from model_runtime.media import MediaSpan

SHARE_OF_FREE = 0.3
"""Share of free memory on a CPU: other programs and the batch's own tensors need the rest."""
SHARE_OF_FREE_GPU = 0.85  # the rest is for activations and fragmentation; more risks running out of memory


def find_block_bytes(config: TextConfig, block_size: int, dtype: torch.dtype) -> int:
    """Return the bytes of one block over all layers. Every rank holds whole rows, as all heads share the latent."""
    return config.num_hidden_layers * block_size * config.latent_dim * dtype.itemsize


def find_free_bytes(device: torch.device) -> int:
    """Return the memory available to a cache on this device after the weights are loaded."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free * SHARE_OF_FREE_GPU)
    return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE_OF_FREE)


def find_num_blocks(block_bytes: int, free_bytes: int, *, block_size: int, max_tokens: int) -> int:
    """Return the number of blocks of the cache.

    Args:
        block_bytes: Bytes of one block over all layers.
        free_bytes: Memory for the cache.
        block_size: Tokens in a block.
        max_tokens: Maximum number of tokens in use at once; more blocks would only help to share prefixes.

    Raises:
        CapacityError: If fewer than two blocks fit.
    """
    blocks = min(free_bytes // block_bytes, max(2, -(-max_tokens // block_size)))
    if blocks < 2:
        text = f"{free_bytes / 2**20:.0f} MiB are left for the cache, and one block takes {block_bytes / 2**20:.1f} MiB"
        raise CapacityError(f"{text}. Use more ranks, a smaller block_size, or a machine with more memory")
    return blocks


def hash_block(parent: bytes, token_ids: Sequence[int], media: Sequence[MediaSpan], start: int) -> bytes:
    """Return the hash of the block that holds the tokens from index `start` on.

    Args:
        parent: Hash of the previous block; empty for the first.
        token_ids: The block's tokens.
        media: The sequence's media, in order.
        start: Index of the block's first token in the sequence.
    """
    digest = blake2b(parent, digest_size=16)
    digest.update(pack(f"<{len(token_ids)}i", *token_ids))
    end = start + len(token_ids)
    for span in media:
        if span.offset < end and start < span.end:
            digest.update(pack("<qq", span.offset - start, span.item.num_tokens))
            digest.update(span.item.content_hash)
    return digest.digest()


class BlockPool:
    """Blocks 0 to `num_blocks` - 1 with reference counts.

    An unused block keeps its hash and can be reused by a sequence with the same prefix, until it is needed for other
    content; the least recently used one is evicted first.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._users = [0] * num_blocks
        self._hash_of: list[bytes | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))

    @property
    def num_free(self) -> int:
        """Number of unused blocks, including those with a cached prefix."""
        return len(self._free)

    def find(self, block_hash: bytes) -> int | None:
        """Return the block with this content, used or not; None if there is none."""
        return self._block_of.get(block_hash)

    def is_free(self, block: int) -> bool:
        """Return True if the block is unused."""
        return self._users[block] == 0

    def take(self) -> int:
        """Take an unused block and drop its content. Raises IndexError if there is none."""
        if not self._free:
            raise IndexError("no free block")
        block, _ = self._free.popitem(last=False)
        self._forget(block)
        self._users[block] = 1
        return block

    def share(self, block: int) -> int:
        """Add a user to a block returned by `find`, and return the block."""
        if self._users[block] == 0:
            del self._free[block]
        self._users[block] += 1
        return block

    def release(self, blocks: Iterable[int]) -> None:
        """Remove one user from each of a sequence's blocks, given in the sequence's order.

        The end of a sequence is evicted before its beginning, which is more likely to be shared.
        """
        for block in reversed(list(blocks)):
            self._users[block] -= 1
            if self._users[block] == 0:
                self._free[block] = None
                if self._hash_of[block] is None:
                    self._free.move_to_end(block, last=False)

    def publish(self, block: int, block_hash: bytes) -> None:
        """Make a fully computed block available to other sequences. Of two equal blocks, the first remains
        registered.
        """
        if self._hash_of[block] is None and block_hash not in self._block_of:
            self._hash_of[block] = block_hash
            self._block_of[block_hash] = block

    def forget(self, blocks: Iterable[int]) -> None:
        """Remove these blocks from the prefix cache; sequences that use them keep them."""
        for block in blocks:
            self._forget(block)

    def _forget(self, block: int) -> None:
        known = self._hash_of[block]
        if known is not None:
            del self._block_of[known]
            self._hash_of[block] = None
