"""One step's tokens of several sequences, as the attention sees them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBatch:
    """Tokens of S sequences laid end to end, decoding sequences (one token each) first, then prefilling ones.

    The cache is a pool of blocks of `block_size` rows; a sequence's k-th token lies in block `block_tables[s, k //
    block_size]`, row `k % block_size`. Sequences are causal: a token sees what its sequence holds up to itself.

    Attributes:
        positions: (num_tokens,) int64, place of each token in its sequence, from 0.
        slot_mapping: (num_tokens,) int64, `block * block_size + row`: where each token's latent is written.
        block_tables: (S, max_blocks) int32; entries beyond a sequence's length are 0 and never read.
        cu_seqlens_q: S + 1 ints on the host: sequence s has the tokens `cu_seqlens_q[s]:cu_seqlens_q[s + 1]`.
        seq_lens: S ints on the host: tokens of each sequence in the cache once this step's are written.
        num_decodes: How many sequences, from the first, have exactly one token and take the decode path.
        block_size: Rows in a block.
    """

    positions: "Tensor"
    slot_mapping: "Tensor"
    block_tables: "Tensor"
    cu_seqlens_q: tuple[int, ...]
    seq_lens: tuple[int, ...]
    num_decodes: int
    block_size: int

    @property
    def num_seqs(self) -> int:
        """Sequences in the batch."""
        return len(self.seq_lens)

    @property
    def num_tokens(self) -> int:
        """Tokens in the batch."""
        return self.cu_seqlens_q[-1]
