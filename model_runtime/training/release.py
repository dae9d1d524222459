"""A model's weights as views under the names of the release: writes to a view change the weight, and vice versa.

The mapping from joined weights to tensors is used for export, for the optimizer, which updates each of the release's
matrices separately, and for all other code that needs tensor names.

A trained model is exported to a folder in the release's layout, in bf16 or with its experts packed to INT4.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from model_runtime.checkpoint.folder import IGNORE, dtype_of, pack_named, write_folder
from model_runtime.checkpoint.names import expected_tensors
from model_runtime.config.types import DType, K25Config, QuantizationConfig
from model_runtime.model import K25Model
from model_runtime.model.layers import Mlp
from model_runtime.model.mla import Mla
from model_runtime.model.moe import Moe
from model_runtime.vision.block import ColumnLinear, LayerNorm, RowLinear, VisionBlock
from model_runtime.vision.tower import CHANNELS, VisionTower

Of = Callable[[nn.Parameter], Tensor]
Named = Iterator[tuple[str, Tensor]]


def release_tensors(model: K25Model, of: Of = lambda weight: weight.data) -> dict[str, Tensor]:
    """Return views of every tensor of the release except packed experts, in the order of the model, which is on one
    rank.

    `of` selects the data of a weight: itself, or a tensor of the same shape such as its gradient.
    """
    named: dict[str, Tensor] = {}
    body = "language_model.model."
    named[f"{body}embed_tokens.weight"] = of(model.embedding.weight)
    for number, layer in enumerate(model.layers):
        prefix = f"{body}layers.{number}."
        named[f"{prefix}input_layernorm.weight"] = of(layer.input_norm.weight)
        named.update(_name_attention(layer.attention, f"{prefix}self_attn.", of))
        named[f"{prefix}post_attention_layernorm.weight"] = of(layer.post_norm.weight)
        if isinstance(layer.mlp, Moe):
            named.update(_name_moe(layer.mlp, f"{prefix}mlp.", of))
        else:
            named.update(_name_mlp(layer.mlp, f"{prefix}mlp.", of))
    named[f"{body}norm.weight"] = of(model.norm.weight)
    named["language_model.lm_head.weight"] = of(model.head.weight)
    if model.vision is not None:
        named.update(_name_vision(model.vision, of))
    return named


def _name_attention(mla: Mla, prefix: str, of: Of) -> Named:
    rank = mla.text.q_lora_rank
    joined = of(mla.qkv_a)
    yield f"{prefix}q_a_proj.weight", joined[:rank]
    yield f"{prefix}q_a_layernorm.weight", of(mla.q_norm.weight)
    yield f"{prefix}q_b_proj.weight", of(mla.q_b)
    yield f"{prefix}kv_a_proj_with_mqa.weight", joined[rank:]
    yield f"{prefix}kv_a_layernorm.weight", of(mla.kv_norm.weight)
    yield f"{prefix}kv_b_proj.weight", of(mla.kv_b).flatten(0, 1)
    yield f"{prefix}o_proj.weight", of(mla.o)


def _name_mlp(mlp: Mlp, prefix: str, of: Of) -> Named:
    gate, up = of(mlp.gate_up).chunk(2)
    yield f"{prefix}gate_proj.weight", gate
    yield f"{prefix}up_proj.weight", up
    yield f"{prefix}down_proj.weight", of(mlp.down)


def _name_moe(moe: Moe, prefix: str, of: Of) -> Named:
    yield f"{prefix}gate.weight", of(moe.router)
    if moe.shared is not None:
        yield from _name_mlp(moe.shared, f"{prefix}shared_experts.", of)
    gate_up, down = of(find_trained(moe, "gate_up")), of(find_trained(moe, "down"))
    for number in range(len(down)):
        gate, up = gate_up[number].chunk(2)
        yield f"{prefix}experts.{number}.gate_proj.weight", gate
        yield f"{prefix}experts.{number}.up_proj.weight", up
        yield f"{prefix}experts.{number}.down_proj.weight", down[number]


def find_trained(module: nn.Module, name: str) -> nn.Parameter:
    """Return the trained weight of an attribute that may have a parametrization such as rounding."""
    if is_parametrized(module, name):
        return cast(nn.Parameter, cast(Any, module.parametrizations)[name].original)
    return cast(nn.Parameter, getattr(module, name))


def _name_vision(tower: VisionTower, of: Of) -> Named:
    embed, size = tower.patch_embed, tower.patch_embed.patch_size
    pixels = of(embed.weight).view(-1, size, size, CHANNELS)  # memory order of an image
    yield "vision_tower.patch_embed.proj.weight", pixels.permute(0, 3, 1, 2)
    yield "vision_tower.patch_embed.proj.bias", of(embed.bias)
    yield "vision_tower.patch_embed.pos_emb.weight", of(tower.position.weight)
    for number, block in enumerate(tower.blocks):
        yield from _name_block(block, f"vision_tower.encoder.blocks.{number}.", of)
    yield from _name_pair(tower.final_norm, "vision_tower.encoder.final_layernorm", of)
    yield from _name_pair(tower.projector.pre_norm, "mm_projector.pre_norm", of)
    yield from _name_pair(tower.projector.first, "mm_projector.proj.0", of)
    yield from _name_pair(tower.projector.second, "mm_projector.proj.2", of)


def _name_block(block: VisionBlock, prefix: str, of: Of) -> Named:
    yield from _name_pair(block.norm0, f"{prefix}norm0", of)
    yield from _name_pair(block.norm1, f"{prefix}norm1", of)
    yield f"{prefix}wqkv.weight", of(block.attention.qkv_weight)
    yield f"{prefix}wqkv.bias", of(block.attention.qkv_bias)
    yield from _name_pair(block.attention.wo, f"{prefix}wo", of)
    yield from _name_pair(block.mlp.fc0, f"{prefix}mlp.fc0", of)
    yield from _name_pair(block.mlp.fc1, f"{prefix}mlp.fc1", of)


def _name_pair(module: LayerNorm | ColumnLinear | RowLinear, name: str, of: Of) -> Named:
    yield f"{name}.weight", of(module.weight)
    yield f"{name}.bias", of(module.bias)


def export_model(
    model: K25Model,
    model_dir: Path,
    *,
    ranks: bytes,
    dtype: DType = "bfloat16",
    group_size: int | None = None,
) -> K25Config:
    """Export a model.

    Args:
        model: Model on one rank, with dense experts.
        model_dir: Folder to create; files in it are overwritten.
        ranks: Content of its `tiktoken.model`.
        dtype: Dtype of all tensors that are not packed.
        group_size: Inputs that share a scale, for experts in INT4; None to keep them in `dtype`.

    Returns:
        The config as written.

    Raises:
        ConfigError: If the sizes contradict each other.
    """
    scheme = QuantizationConfig(group_size=group_size, ignore=IGNORE) if group_size else None
    config = replace(model.config, dtype=dtype, quantization=scheme)
    write_folder(model_dir, config, export_tensors(model, config), ranks=ranks, num_shards=1)
    return config


def export_tensors(model: K25Model, config: K25Config) -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors of the release on the CPU, for a folder or for `WeightUpdate`.

    Args:
        model: Model on one rank, with dense experts.
        config: Config to export for: its dtype, and its quantization of the experts.
    """
    expected = expected_tensors(config)
    weights = {name: tensor.cpu() for name, tensor in release_tensors(model).items()}
    for number, layer in enumerate(model.layers):
        if isinstance(layer.mlp, Moe):
            weights[f"language_model.model.layers.{number}.mlp.gate.e_score_correction_bias"] = layer.mlp.bias.cpu()
    for name, tensor in weights.items():
        if name in expected:
            yield name, tensor.to(getattr(torch, dtype_of(expected[name], config.dtype)))
        else:  # matrix of a packed expert
            assert config.quantization is not None
            yield from pack_named(name, tensor.to(getattr(torch, config.dtype)), config.quantization.group_size)
