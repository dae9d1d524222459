"""The two speeds of the machine that floors rest on, measured first in each run."""

import torch

from benchmarks.kernels.device import Device
from benchmarks.kernels.timing import measure
from model_runtime.kernels.cost.hardware import Hardware

COPY_BYTES = 2 << 30
MATMUL_SIZE = 8192


def measure_ceilings(
    device: Device, *, seconds: float = 0.5, copy_bytes: int = COPY_BYTES, size: int = MATMUL_SIZE
) -> Hardware:
    """A large copy, and a large matmul of normal numbers in bf16."""
    place = device.torch_device
    source = torch.empty(copy_bytes, dtype=torch.uint8, device=place)
    target = torch.empty_like(source)
    copy = measure(device, [lambda: target.copy_(source)], seconds=seconds)
    a, b = (torch.randn(size, size, device=place).bfloat16() for _ in range(2))
    matmul = measure(device, [lambda: a @ b], seconds=seconds)
    return Hardware(copy_tb_s=2 * copy_bytes / copy.us / 1e6, matmul_tflop_s=2 * size**3 / matmul.us / 1e6)
