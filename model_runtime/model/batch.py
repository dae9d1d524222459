"""Batch of one step, and the data that the attention of all layers shares: rotations (YaRN) and plan.

Source: Su et al. 2021, arXiv 2104.09864, section 3.2; Peng et al. 2023, arXiv 2309.00071, sections 3.2 to 3.4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from model_runtime.config.types import RopeScaling, TextConfig
from model_runtime.ops import CuSeqlens, Ops


class Rope:
    """Rotary angles of positions, calculated in float64: in float32 the angle at position 262,143 is off by 0.02."""

    def __init__(self, text: TextConfig, device: torch.device) -> None:
        self.inv_freq = torch.tensor(make_inv_freq(text), dtype=torch.float64, device=device)  # (rope_dim / 2,)
        scaling = text.rope_scaling
        self.amplitude = 1.0
        if scaling is not None:
            self.amplitude = find_mscale(scaling.factor, scaling.mscale)
            self.amplitude /= find_mscale(scaling.factor, scaling.mscale_all_dim)

    def __call__(self, positions: Tensor) -> Tensor:
        """Return the rotations of positions (N,) int64, shared by all layers: (N, rope_dim / 2) complex64."""
        angles = positions.double().unsqueeze(-1) * self.inv_freq
        return torch.polar(torch.full_like(angles, self.amplitude), angles).to(torch.complex64)


def find_softmax_scale(text: TextConfig) -> float:
    """Return the factor on attention scores: head_dim ** -0.5, and YaRN's sharpening (0.1446796 for the release)."""
    scale = text.qk_head_dim**-0.5
    if text.rope_scaling is None or not text.rope_scaling.mscale_all_dim:
        return scale
    return scale * find_mscale(text.rope_scaling.factor, text.rope_scaling.mscale_all_dim) ** 2


def find_mscale(factor: float, mscale: float) -> float:
    """Return YaRN's magnitude factor. Source: arXiv 2309.00071, equation 22, with a weight on its logarithm."""
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def make_inv_freq(text: TextConfig) -> list[float]:
    """Return radians per position of each pair: fast pairs as trained, slow ones divided by `factor`, a ramp between.

    Source: arXiv 2309.00071, equations 17 to 20 ("NTK-by-parts").
    """
    dim, base, scaling = text.qk_rope_head_dim, text.rope_theta, text.rope_scaling
    trained = [base ** (-2 * pair / dim) for pair in range(dim // 2)]
    if scaling is None:
        return trained
    low, high = find_ramp(dim, base, scaling)
    ramp = [min(max((pair - low) / (high - low), 0.0), 1.0) for pair in range(dim // 2)]
    return [freq * (1 - slowed) + freq / scaling.factor * slowed for freq, slowed in zip(trained, ramp, strict=True)]


def find_ramp(dim: int, base: float, scaling: RopeScaling) -> tuple[float, float]:
    """Return the pairs at the two ends of the ramp: (8, 20) for the release.

    They make `beta_fast` and `beta_slow` turns within the trained context.
    """
    low, high = (
        dim * math.log(scaling.original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (scaling.beta_fast, scaling.beta_slow)
    )
    first, last = max(math.floor(low), 0), min(math.ceil(high), dim - 1)
    return (first, last) if first < last else (first, first + 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardBatch:
    """Concatenated tokens of S sequences, decoding sequences (one token each) first, then prefilling ones.

    The cache is a pool of blocks of `block_size` rows; a sequence's k-th token is in block `block_tables[s, k //
    block_size]`, row `k % block_size`. Attention is causal: a token sees its sequence up to and including itself.

    Attributes:
        positions: (num_tokens,) int64, position of each token in its sequence, from 0.
        slot_mapping: (num_tokens,) int64, `block * block_size + row`: destination of each token's latent.
        block_tables: (S, max_blocks) int32; entries beyond a sequence's length are 0 and never read.
        cu_seqlens_q: S + 1 ints on the host: sequence s has the tokens `cu_seqlens_q[s]:cu_seqlens_q[s + 1]`.
        seq_lens: S ints on the host: tokens of each sequence in the cache, including this step's.
        num_decodes: Number of leading sequences that have exactly one token and use the decode path.
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
        """Number of sequences in the batch."""
        return len(self.seq_lens)

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the batch."""
        return self.cu_seqlens_q[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillRun:
    """Consecutive prefilling sequences with the same form of attention.

    Attributes:
        tokens: Slice of their tokens in the batch.
        context_slots: (M,) int64, cache rows of their contexts, concatenated.
        cu_seqlens_q: Bounds of the sequences in `tokens`, from 0.
        cu_seqlens_k: Bounds of the sequences in `context_slots`.
        is_absorbed: True if queries are projected to the latents instead of latents to keys and values.
    """

    tokens: slice
    context_slots: Tensor
    cu_seqlens_q: CuSeqlens
    cu_seqlens_k: CuSeqlens
    is_absorbed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAttention:
    """Data of one step for the attention of every layer.

    Attributes:
        rotations: (num_tokens, rope_dim / 2) complex64.
        slot_mapping: (num_tokens,) int64.
        num_decodes: Number of leading sequences, and tokens, that decode.
        decode: Result of `plan_decode` for them, or None.
        prefills: The other sequences.
    """

    rotations: Tensor
    slot_mapping: Tensor
    num_decodes: int
    decode: Any
    prefills: tuple[PrefillRun, ...]


def make_plan(batch: ForwardBatch, cache: Tensor, text: TextConfig, rope: Rope, ops: Ops) -> StepAttention:
    """Return the plan of a batch for all layers; `cache` is any layer's."""
    count = batch.num_decodes
    decode = ops.plan_decode(batch.block_tables[:count], batch.seq_lens[:count], cache) if count else None
    return StepAttention(
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
    """Return the cache rows of all tokens of a sequence: (seq_len,) int64."""
    seq_len, size = batch.seq_lens[seq], batch.block_size
    blocks = batch.block_tables[seq, : -(-seq_len // size)].long()
    rows = torch.arange(size, device=blocks.device)
    return (blocks.unsqueeze(1) * size + rows).flatten()[:seq_len]


def is_absorbed_cheaper(text: TextConfig, num_queries: int, num_keys: int) -> bool:
    """Return True if absorbed attention takes fewer multiplications for the last queries of one sequence, per head.

    Plain: the latents of the whole context are projected to keys and values. Absorbed: only the queries and the results
    are projected, but every score and every sum is as wide as a latent.
    """
    pairs = num_queries * num_keys - num_queries * (num_queries - 1) // 2
    through = text.kv_lora_rank * (text.qk_nope_head_dim + text.v_head_dim)
    plain = num_keys * through + pairs * (text.qk_head_dim + text.v_head_dim)
    absorbed = num_queries * through + pairs * (text.latent_dim + text.kv_lora_rank)
    return absorbed < plain
