"""One step's tokens of several sequences, and what the attention of all layers shares in it: rotations and plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from model_runtime.config.types import TextConfig
from model_runtime.model.rope import Rope
from model_runtime.ops import CuSeqlens, Ops

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillRun:
    """Neighbouring prefilling sequences that take the same form of attention.

    Attributes:
        tokens: Their tokens in the batch.
        context_slots: (M,) int64, cache rows of their contexts, end to end.
        cu_seqlens_q: Bounds of the sequences in `tokens`, from 0.
        cu_seqlens_k: Bounds of the sequences in `context_slots`.
        is_absorbed: Queries are brought to the latents, not latents to keys and values.
    """

    tokens: slice
    context_slots: Tensor
    cu_seqlens_q: CuSeqlens
    cu_seqlens_k: CuSeqlens
    is_absorbed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPlan:
    """One step as every layer's attention sees it.

    Attributes:
        rotations: (num_tokens, rope_dim / 2) complex64.
        slot_mapping: (num_tokens,) int64.
        num_decodes: Sequences, and tokens, from the first, that decode.
        decode: What `plan_decode` made of them, or None.
        prefills: The others.
    """

    rotations: Tensor
    slot_mapping: Tensor
    num_decodes: int
    decode: Any
    prefills: tuple[PrefillRun, ...]


def make_plan(batch: ForwardBatch, cache: Tensor, text: TextConfig, rope: Rope, ops: Ops) -> AttentionPlan:
    """Bring a batch into the form that all layers use; `cache` is any layer's."""
    count = batch.num_decodes
    decode = ops.plan_decode(batch.block_tables[:count], batch.seq_lens[:count], cache) if count else None
    return AttentionPlan(
        rotations=rope(batch.positions),
        slot_mapping=batch.slot_mapping,
        num_decodes=count,
        decode=decode,
        prefills=tuple(_make_runs(batch, text)),
    )


def _make_runs(batch: ForwardBatch, text: TextConfig) -> list[PrefillRun]:
    bounds = batch.cu_seqlens_q

    def is_absorbed(seq: int) -> bool:
        return is_absorbed_cheaper(text, bounds[seq + 1] - bounds[seq], batch.seq_lens[seq])

    runs = groupby(range(batch.num_decodes, batch.num_seqs), key=is_absorbed)
    return [_make_run(batch, list(seqs), choice) for choice, seqs in runs]


def _make_run(batch: ForwardBatch, seqs: Sequence[int], is_absorbed: bool) -> PrefillRun:
    bounds = batch.cu_seqlens_q[seqs[0] : seqs[-1] + 2]
    return PrefillRun(
        tokens=slice(bounds[0], bounds[-1]),
        context_slots=torch.cat([find_slots(batch, seq) for seq in seqs]),
        cu_seqlens_q=CuSeqlens([bound - bounds[0] for bound in bounds]),
        cu_seqlens_k=CuSeqlens.of_lengths([batch.seq_lens[seq] for seq in seqs]),
        is_absorbed=is_absorbed,
    )


def find_slots(batch: ForwardBatch, seq: int) -> Tensor:
    """Cache rows of all tokens of a sequence: (seq_len,) int64."""
    seq_len, size = batch.seq_lens[seq], batch.block_size
    blocks = batch.block_tables[seq, : -(-seq_len // size)].long()
    rows = torch.arange(size, device=blocks.device)
    return (blocks.unsqueeze(1) * size + rows).flatten()[:seq_len]


def is_absorbed_cheaper(text: TextConfig, num_queries: int, num_keys: int) -> bool:
    """Which form of attention takes fewer multiplications for the last queries of one sequence, per head.

    Plain: the latents of the whole context become keys and values. Absorbed: only the queries and the results pass
    through those matrices, but every score and every sum is as wide as a latent.

    Args:
        text: The model's numbers.
        num_queries: Tokens of the chunk.
        num_keys: Tokens of the context with the chunk.
    """
    pairs = num_queries * num_keys - num_queries * (num_queries - 1) // 2
    through = text.kv_lora_rank * (text.qk_nope_head_dim + text.v_head_dim)
    plain = num_keys * through + pairs * (text.qk_head_dim + text.v_head_dim)
    absorbed = num_queries * through + pairs * (text.latent_dim + text.kv_lora_rank)
    return absorbed < plain
