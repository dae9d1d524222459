"""The paged latent cache: how many blocks fit, names of equal beginnings, and which sequence uses which block.

A block's name is one hash over everything up to its end. Placeholder tokens are the same for all media, so it also
covers the content of the media in it and where in the media it begins. Two prompts share a block exactly when tokens
and images up to its end are equal.

Source: Kwon et al. 2023, arXiv 2309.06180 (paged cache); blocks found by content hash as in vLLM's prefix caching.
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


def hash_block(parent: bytes, token_ids: Sequence[int], media: Sequence[MediaSpan], start: int) -> bytes:
    """Hash of the block that holds the tokens from index `start` on.

    Args:
        parent: Hash of the block before it; empty for the first.
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
    """Blocks 0 to `num_blocks` - 1, counted by how many sequences use them.

    A block that nobody uses keeps its hash and can be taken up again by a sequence with the same beginning, until it
    is needed for something else: the longest unused one goes first.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._users = [0] * num_blocks
        self._hash_of: list[bytes | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))

    @property
    def num_free(self) -> int:
        """Blocks that nobody uses, remembered beginnings included."""
        return len(self._free)

    def find(self, block_hash: bytes) -> int | None:
        """The block that holds this content, used or not."""
        return self._block_of.get(block_hash)

    def is_free(self, block: int) -> bool:
        """Whether nobody uses the block."""
        return self._users[block] == 0

    def take(self) -> int:
        """A block with forgotten content, used once. IndexError when none is free."""
        if not self._free:
            raise IndexError("no free block")
        block, _ = self._free.popitem(last=False)
        self._forget(block)
        self._users[block] = 1
        return block

    def share(self, block: int) -> int:
        """One more user of a block that `find` gave; the block back."""
        if self._users[block] == 0:
            del self._free[block]
        self._users[block] += 1
        return block

    def release(self, blocks: Iterable[int]) -> None:
        """One user less for each of a sequence's blocks, in the sequence's order.

        The end of a sequence is forgotten before its beginning, which others are likelier to share.
        """
        for block in reversed(list(blocks)):
            self._users[block] -= 1
            if self._users[block] == 0:
                self._free[block] = None
                if self._hash_of[block] is None:
                    self._free.move_to_end(block, last=False)

    def publish(self, block: int, block_hash: bytes) -> None:
        """Let others find a block whose rows are all computed. Of two equal blocks the first stays the known one."""
        if self._hash_of[block] is None and block_hash not in self._block_of:
            self._hash_of[block] = block_hash
            self._block_of[block_hash] = block

    def forget(self, blocks: Iterable[int]) -> None:
        """Drop these blocks from the prefix cache; sequences that use them keep them."""
        for block in blocks:
            self._forget(block)

    def _forget(self, block: int) -> None:
        known = self._hash_of[block]
        if known is not None:
            del self._block_of[known]
            self._hash_of[block] = None
