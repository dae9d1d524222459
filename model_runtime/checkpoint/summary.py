"""What a checkpoint holds: parameters and bytes of each part of the model."""

import math
from collections import Counter
from dataclasses import dataclass

from model_runtime.checkpoint.check import is_quantized
from model_runtime.checkpoint.names import expected_tensors
from model_runtime.checkpoint.reader import Checkpoint
from model_runtime.config.types import K25Config, QuantizationConfig

PARTS = (
    ("routed experts", ".mlp.experts."),
    ("shared experts", ".shared_experts."),
    ("router", ".mlp.gate."),
    ("dense MLP", ".mlp."),
    ("attention", ".self_attn."),
    ("embeddings", ".embed_tokens."),
    ("output head", ".lm_head."),
    ("norms", "language_model."),
)
"""Parts of the language model by what their names contain; the first that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A checkpoint in numbers.

    Attributes:
        num_params: Parameters of each part; packed values count as parameters, their scales do not.
        size_bytes: Bytes of each part in the files.
        dtypes: Bytes of each dtype in the files.
        group_size: Of packed experts; None where nothing is packed.
        num_tensors: Tensors in the files.
        num_shards: Files with tensors.
    """

    num_params: dict[str, int]
    size_bytes: dict[str, int]
    dtypes: dict[str, int]
    group_size: int | None
    num_tensors: int
    num_shards: int


def summarize(checkpoint: Checkpoint, config: K25Config) -> Summary:
    """Count what a checkpoint holds that fits its config (`check_tensors`)."""
    params: Counter[str] = Counter()
    for name, info in expected_tensors(config, quantized=False).items():
        params[part_of(name)] += math.prod(info.shape)
    sizes: Counter[str] = Counter()
    dtypes: Counter[str] = Counter()
    for name, place in checkpoint.places.items():
        sizes[part_of(name)] += place.stored.size_bytes
        dtypes[place.stored.dtype] += place.stored.size_bytes
    scheme = config.quantization or QuantizationConfig()
    return Summary(
        num_params=dict(params.most_common()),
        size_bytes=dict(sizes),
        dtypes=dict(dtypes.most_common()),
        group_size=scheme.group_size if is_quantized(checkpoint) else None,
        num_tensors=len(checkpoint.places),
        num_shards=len({place.file_name for place in checkpoint.places.values()}),
    )


def part_of(name: str) -> str:
    """The part of the model that a tensor belongs to."""
    if not name.startswith("language_model."):
        return "projector" if name.startswith("mm_projector.") else "vision tower"
    return next(part for part, piece in PARTS if piece in name)
