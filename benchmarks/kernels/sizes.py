"""At which sizes everything runs: the release's, and toy ones that a CPU gets through in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch

from benchmarks.kernels.cost import hardware
from benchmarks.kernels.cost.hardware import Grid
from model_runtime.checkpoint.tiny import tiny_config
from model_runtime.config import K25Config, QuantizationConfig, TextConfig, VisionConfig
from model_runtime.launch.sizes import RELEASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """A model and what is sent to it.

    Attributes:
        config: The model's numbers.
        dtype: Of weights and activations.
        block: Tokens in one block of the cache.
        tokens: Batch sizes of MoE layers and router.
        norm_tokens: Of norms.
        contexts: Of decoding.
        batches: Of decoding.
        prompts: Lengths of prefill.
        images: Items of the vision tower by name.
        is_toy: Whether nothing at these sizes is a measurement.
    """

    config: K25Config = RELEASE
    dtype: torch.dtype = torch.bfloat16
    block: int = 64
    tokens: tuple[int, ...] = hardware.TOKENS
    norm_tokens: tuple[int, ...] = (1, 64, 4096)
    contexts: tuple[int, ...] = hardware.CONTEXTS
    batches: tuple[int, ...] = hardware.BATCHES
    prompts: tuple[int, ...] = (4096, 16384)
    images: Mapping[str, list[Grid]] = field(default_factory=lambda: MappingProxyType(_release_images()))
    is_toy: bool = False

    @property
    def text(self) -> TextConfig:
        """The language model's numbers."""
        return self.config.text

    @property
    def vision(self) -> VisionConfig:
        """The vision tower's."""
        return self.config.vision

    @property
    def group(self) -> int:
        """Weights under one scale."""
        return (self.config.quantization or QuantizationConfig()).group_size

    @property
    def scale(self) -> float:
        """Factor on the scores of the language model's attention, without what stretched positions add to it."""
        return float(self.text.qk_head_dim**-0.5)


def _release_images() -> dict[str, list[Grid]]:
    inputs = hardware.vision_inputs(VisionConfig())
    return {name: inputs[name] for name in ("1 screenshot", "3 screenshots", "64 chunks")}


def toy_sizes(dtype: torch.dtype = torch.bfloat16) -> Sizes:
    """A tiny model with every part of the release's, and inputs as small."""
    return Sizes(
        config=tiny_config(),
        dtype=dtype,
        block=16,
        tokens=(1, 33),
        norm_tokens=(1, 33),
        contexts=(40, 100),
        batches=(1, 3),
        prompts=(24,),
        images={"1 screenshot": [(1, 6, 8)], "3 screenshots": [(1, 6, 8)] * 3, "3 chunks": [(4, 4, 4)] * 3},
        is_toy=True,
    )
