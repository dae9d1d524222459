"""Rotary positions, stretched by YaRN.

Source: Su et al. 2021, arXiv 2104.09864, section 3.2; Peng et al. 2023, arXiv 2309.00071, sections 3.2 to 3.4.
"""

import math

import torch
from torch import Tensor

from model_runtime.config.types import RopeScaling, TextConfig


class Rope:
    """Angles of positions. They are formed in float64: in float32 the angle at position 262,143 is off by 0.02."""

    def __init__(self, text: TextConfig, device: torch.device) -> None:
        self.inv_freq = torch.tensor(make_inv_freq(text), dtype=torch.float64, device=device)  # (rope_dim / 2,)
        scaling = text.rope_scaling
        self.amplitude = 1.0
        if scaling is not None:
            self.amplitude = find_mscale(scaling.factor, scaling.mscale)
            self.amplitude /= find_mscale(scaling.factor, scaling.mscale_all_dim)

    def __call__(self, positions: Tensor) -> Tensor:
        """Rotations of each position, once for all layers.

        Args:
            positions: (N,) int64.

        Returns:
            (N, rope_dim / 2) complex64.
        """
        angles = positions.double().unsqueeze(-1) * self.inv_freq
        return torch.polar(torch.full_like(angles, self.amplitude), angles).to(torch.complex64)


def find_softmax_scale(text: TextConfig) -> float:
    """Factor on attention scores: head_dim ** -0.5, and YaRN's sharpening (0.1446796 for the release)."""
    scale = text.qk_head_dim**-0.5
    if text.rope_scaling is None or not text.rope_scaling.mscale_all_dim:
        return scale
    return scale * find_mscale(text.rope_scaling.factor, text.rope_scaling.mscale_all_dim) ** 2


def find_mscale(factor: float, mscale: float) -> float:
    """Source: arXiv 2309.00071, equation 22, with a weight on its logarithm."""
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def make_inv_freq(text: TextConfig) -> list[float]:
    """Radians a position of each pair: fast pairs as trained, slow ones slowed by `factor`, a ramp between.

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
    """The pairs between which the slowing sets in: (8, 20) for the release.

    They turn `beta_fast` and `beta_slow` times within the trained context.
    """
    low, high = (
        dim * math.log(scaling.original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(base))
        for turns in (scaling.beta_fast, scaling.beta_slow)
    )
    first, last = max(math.floor(low), 0), min(math.ceil(high), dim - 1)
    return (first, last) if first < last else (first, first + 0.001)
