"""Floors of single operators beside those of the cost model: each input read once, each output written once."""

from collections.abc import Sequence
from math import prod

from model_runtime.config import K25Config, TextConfig, VisionConfig
from model_runtime.kernels.cost.hardware import Work
from model_runtime.kernels.cost.moe import weight_bytes
from model_runtime.kernels.cost.shapes import Grid, patches_of
from model_runtime.launch.sizes import BF16_BYTES, FP32_BYTES, distinct_experts, expert_parameters


def rms_norm(tokens: int, width: int, *, num_rows: int = 2) -> Work:
    """`num_rows` of each token are read or written, and the weight."""
    return Work(bytes=float((num_rows * tokens + 1) * width * BF16_BYTES))


def write_latent(text: TextConfig, tokens: int) -> Work:
    """A row of each token read and written, its slot, its rotations, and the norm's weight."""
    each = 2 * text.latent_dim * BF16_BYTES + 8 + text.qk_rope_head_dim * FP32_BYTES
    return Work(bytes=float(tokens * each + text.kv_lora_rank * BF16_BYTES))


def merge_patches(vision: VisionConfig, grids: Sequence[Grid]) -> Work:
    """All frames in, their mean out."""
    kept = sum(prod(grid[1:]) for grid in grids)
    return Work(bytes=float((patches_of(list(grids)) + kept + 2) * vision.hidden_size * BF16_BYTES))


def expert_half(config: K25Config, tokens: int, variant: str, half: str) -> Work:
    """Either matmul of the routed experts: its part of the weights in use, rows in, rows of all pairs out."""
    text = config.text
    pairs, hidden, inner = tokens * text.num_experts_per_tok, text.hidden_size, text.moe_intermediate_size
    outputs, inputs = (2 * inner, hidden) if half == "gate_up" else (hidden, inner)
    rows = tokens * hidden + pairs * inner if half == "gate_up" else pairs * (inner + hidden)
    weights = distinct_experts(text, tokens) * outputs * inputs * weight_bytes(config, variant)
    return Work(bytes=weights + rows * BF16_BYTES, flops=2.0 * pairs * outputs * inputs)


def repack(config: K25Config, num_experts: int) -> Work:
    """Packed weights and scales read and written."""
    return Work(bytes=2.0 * num_experts * expert_parameters(config.text) * weight_bytes(config, "int4"))


def shared_expert(text: TextConfig, tokens: int) -> Work:
    """Its weights, rows in and out."""
    weights = text.n_shared_experts * expert_parameters(text)
    rows = 2 * tokens * text.hidden_size
    return Work(bytes=float((weights + rows) * BF16_BYTES), flops=2.0 * tokens * weights)
