"""The roofline: the machine's two peaks, measured first in each run, and the least work of single operators.

An operator's floor is each input read once and each output written once, at those peaks. Layers have theirs in `cost/`.
"""

from collections.abc import Sequence
from math import prod

import torch

from benchmarks.kernels.cost.hardware import Grid, Hardware, Work, patches_of
from benchmarks.kernels.cost.moe import weight_bytes
from benchmarks.kernels.device import Device
from benchmarks.kernels.timing import measure
from model_runtime.config import K25Config, TextConfig, VisionConfig
from model_runtime.launch.sizes import BF16_BYTES, FP32_BYTES, distinct_experts, expert_parameters

COPY_BYTES = 2 << 30
MATMUL_SIZE = 8192


def measure_peaks(
    device: Device, *, seconds: float = 0.5, copy_bytes: int = COPY_BYTES, size: int = MATMUL_SIZE
) -> Hardware:
    """A large copy, by the quicker of the driver's and a kernel's; and a large matmul of normal numbers in bf16."""
    place = device.torch_device
    source = torch.zeros(copy_bytes // FP32_BYTES, dtype=torch.float32, device=place)
    target = torch.empty_like(source)
    ways = (lambda: target.copy_(source), lambda: torch.neg(source, out=target))
    copy = min((measure(device, [way], seconds=seconds / 2) for way in ways), key=lambda timing: timing.us)
    a, b = (torch.randn(size, size, device=place).bfloat16() for _ in range(2))
    matmul = measure(device, [lambda: a @ b], seconds=seconds)
    return Hardware(copy_tb_s=2 * copy_bytes / copy.us / 1e6, matmul_tflop_s=2 * size**3 / matmul.us / 1e6)


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
