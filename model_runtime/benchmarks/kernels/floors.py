"""Floors of single operators beside those of the cost model: each input read once, each output written once."""

from collections.abc import Sequence
from math import prod

from model_runtime.config import TextConfig, VisionConfig
from model_runtime.kernels.cost.hardware import Work
from model_runtime.kernels.cost.shapes import Grid, patches_of
from model_runtime.launch.sizes import BF16_BYTES, FP32_BYTES


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
