"""The pool of cache blocks: who uses which, and which still hold a beginning that may come again.

Source: Kwon et al. 2023, arXiv 2309.06180 (paged cache); blocks found by content hash as in vLLM's prefix caching.
"""

from collections import OrderedDict
from collections.abc import Iterable


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
        """Let nobody find these blocks' content any more; whoever uses them goes on."""
        for block in blocks:
            self._forget(block)

    def _forget(self, block: int) -> None:
        known = self._hash_of[block]
        if known is not None:
            del self._block_of[known]
            self._hash_of[block] = None
