"""A trained model as a folder in the release's layout, in bf16 or with its experts packed to INT4."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from model_runtime.checkpoint.folder import IGNORE, dtype_of, pack_named, write_folder
from model_runtime.checkpoint.names import expected_tensors
from model_runtime.config.types import DType, K25Config, QuantizationConfig
from model_runtime.model import K25Model
from model_runtime.model.moe import Moe
from model_runtime.processor import MediaOptions
from model_runtime.training.release import release_tensors


def export_model(
    model: K25Model,
    model_dir: Path,
    *,
    ranks: bytes,
    media: MediaOptions | None = None,
    dtype: DType = "bfloat16",
    group_size: int | None = None,
) -> K25Config:
    """Write a model.

    Args:
        model: On one rank, with dense experts.
        model_dir: Folder to make; files in it are overwritten.
        ranks: Content of its `tiktoken.model`.
        media: Limits of its processor; None are the release's.
        dtype: Of all that is not packed.
        group_size: Inputs that share a scale, for experts in INT4; None leaves them in `dtype`.

    Returns:
        The config as written.

    Raises:
        ConfigError: The sizes contradict each other.
    """
    scheme = QuantizationConfig(group_size=group_size, ignore=IGNORE) if group_size else None
    config = replace(model.config, dtype=dtype, quantization=scheme)
    write_folder(model_dir, config, _tensors(model, config), ranks=ranks, media=media, num_shards=1)
    return config


def _tensors(model: K25Model, config: K25Config) -> Iterator[tuple[str, Tensor]]:
    expected = expected_tensors(config)
    weights = {name: tensor.cpu() for name, tensor in release_tensors(model).items()}
    for number, layer in enumerate(model.layers):
        if isinstance(layer.mlp, Moe):
            weights[f"language_model.model.layers.{number}.mlp.gate.e_score_correction_bias"] = layer.mlp.bias.cpu()
    for name, tensor in weights.items():
        if name in expected:
            yield name, tensor.to(getattr(torch, dtype_of(expected[name], config.dtype)))
        else:  # an expert's matrix, where those are packed
            assert config.quantization is not None
            yield from pack_named(name, tensor.to(getattr(torch, config.dtype)), config.quantization.group_size)
