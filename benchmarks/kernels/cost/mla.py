"""Latent attention of one layer: absorbed for decoding, with heads of their own for prefill."""

from math import ceil

from benchmarks.kernels.cost.hardware import Part, Work
from model_runtime.config import TextConfig
from model_runtime.kernels.tiles import find_tile
from model_runtime.launch.sizes import BF16_BYTES, FP32_BYTES, attention_parameters

GRAIN, LEAST_GRAINS, PARTIAL_GRAINS = 64, 1, 2
"""As in `mla_schedule.py`, which is not imported because it needs torch; a test compares them."""


def cache_work(text: TextConfig, context: int, batch: int = 1) -> Work:
    """The floor's work of decoding one token of each sequence: its cache once.

    A query and its result, 139 kB a sequence in the release (0.03 us), are left out here and counted in `decode_parts`.
    """
    row, value = text.latent_dim, text.kv_lora_rank
    return Work(
        bytes=float(batch * context * row * BF16_BYTES),
        flops=2.0 * batch * context * text.num_attention_heads * (row + value),
    )


def projections_work(text: TextConfig, tokens: int = 1) -> Work:
    """All projections around the attention of one layer: their weights once."""
    weights = sum(attention_parameters(text))
    return Work(bytes=float(weights * BF16_BYTES), flops=2.0 * tokens * weights)


def prefill_work(text: TextConfig, tokens: int) -> Work:
    """The floor's work of a prompt over itself: half of all pairs."""
    heads, key, value = text.num_attention_heads, text.qk_head_dim, text.v_head_dim
    return Work(
        bytes=float(tokens * heads * 2 * (key + value) * BF16_BYTES),
        flops=1.0 * tokens**2 * heads * (key + value),
    )


def decode_parts(text: TextConfig, context: int, batch: int, multiprocessors: int) -> list[Part]:
    """One layer's decoding as `mla_schedule.py` cuts it: pieces of contexts, then their sums."""
    heads, row, value = text.num_attention_heads, text.latent_dim, text.kv_lora_rank
    pieces, tile = count_pieces(context, batch, multiprocessors), find_tile("mla_decode", batch)
    results = batch * heads * value
    ends = batch * heads * (row + value) * BF16_BYTES
    partials = float(batch * pieces * heads * (value + 1) * FP32_BYTES) if pieces > 1 else 0.0
    attend = cache_work(text, context, batch) + Work(bytes=ends + partials)
    join = Work(bytes=partials + (results * BF16_BYTES if pieces > 1 else 0))
    return [
        Part(name="mla_decode.attend", work=attend, programs=batch * pieces * ceil(heads / tile.block_m)),
        Part(name="mla_decode.join", work=join),
    ]


def count_pieces(context: int, batch: int, multiprocessors: int) -> int:
    """Pieces of each of equally long contexts: as many as fill the chip once, or twice where that is quicker."""
    grains = ceil(context / GRAIN)
    fewest = ceil(batch / multiprocessors)
    options = [(fewest * grains, fewest, 1)]
    for waves in (fewest, fewest + 1):
        most = max(LEAST_GRAINS, ceil(grains / (waves * multiprocessors // batch)))
        options.append((waves * (most + PARTIAL_GRAINS * (most < grains)), waves, ceil(grains / most)))
    return min(options)[2]


def prefill_parts(text: TextConfig, tokens: int) -> list[Part]:
    """One prompt over itself: blocks of queries against whole blocks of keys, the last of which the diagonal cuts."""
    heads, key, value = text.num_attention_heads, text.qk_head_dim, text.v_head_dim
    tile = find_tile("mla_prefill.plain", tokens)
    blocks = ceil(tokens / tile.block_m)
    met = sum(ceil(min((block + 1) * tile.block_m, tokens) / tile.block_n) * tile.block_n for block in range(blocks))
    work = Work(
        bytes=float(tokens * heads * 2 * (key + value) * BF16_BYTES),
        flops=2.0 * tile.block_m * met * heads * (key + value),
    )
    return [Part(name="mla_prefill.plain", work=work, programs=blocks * heads)]
