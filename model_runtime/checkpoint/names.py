"""Names, shapes and dtypes of all tensors of a release: 208,550 for Kimi K2.5.

Source: the release's tensor list; layer names follow DeepSeek-V3 (`language_model.`) and MoonViT (`vision_tower.`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from model_runtime.config.types import K25Config, QuantizationConfig, TextConfig, VisionConfig

FLOATS = ("bfloat16", "float32", "float16")
TEXT = "language_model.model."
Named = tuple[str, "TensorInfo"]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Expected shape, (out, in) for linear layers, and allowed dtypes of a tensor of the release."""

    shape: tuple[int, ...]
    dtypes: tuple[str, ...] = FLOATS


def expected_tensors(config: K25Config, *, quantized: bool | None = None) -> dict[str, TensorInfo]:
    """Return all tensors of a model, in reading order; with `quantized` None, the config decides if routed experts are
    packed.
    """
    packed = config.quantization is not None if quantized is None else quantized
    scheme = (config.quantization or QuantizationConfig()) if packed else None
    text = config.text
    tensors = dict(_linear(TEXT + "embed_tokens", text.vocab_size, text.hidden_size))
    for layer in range(text.num_hidden_layers):
        tensors.update(_layer(text, layer, scheme))
    tensors[TEXT + "norm.weight"] = TensorInfo((text.hidden_size,))
    tensors.update(_linear("language_model.lm_head", text.vocab_size, text.hidden_size))
    tensors.update(_vision(config.vision))
    return tensors


def _linear(name: str, num_out: int, num_in: int, *, bias: bool = False) -> Iterator[Named]:
    yield f"{name}.weight", TensorInfo((num_out, num_in))
    if bias:
        yield f"{name}.bias", TensorInfo((num_out,))


def _norm(name: str, size: int) -> Iterator[Named]:
    """Yield the tensors of a LayerNorm with bias, as in the vision tower."""
    yield f"{name}.weight", TensorInfo((size,))
    yield f"{name}.bias", TensorInfo((size,))


def _layer(text: TextConfig, layer: int, scheme: QuantizationConfig | None) -> Iterator[Named]:
    prefix = f"{TEXT}layers.{layer}."
    yield prefix + "input_layernorm.weight", TensorInfo((text.hidden_size,))
    yield from _attention(prefix + "self_attn.", text)
    yield prefix + "post_attention_layernorm.weight", TensorInfo((text.hidden_size,))
    if text.is_moe_layer(layer):
        yield from _moe(prefix + "mlp.", text, scheme)
    else:
        yield from _mlp(prefix + "mlp.", text.hidden_size, text.intermediate_size)


def _attention(prefix: str, text: TextConfig) -> Iterator[Named]:
    hidden, heads = text.hidden_size, text.num_attention_heads
    yield from _linear(prefix + "q_a_proj", text.q_lora_rank, hidden)
    yield prefix + "q_a_layernorm.weight", TensorInfo((text.q_lora_rank,))
    yield from _linear(prefix + "q_b_proj", heads * text.qk_head_dim, text.q_lora_rank)
    yield from _linear(prefix + "kv_a_proj_with_mqa", text.latent_dim, hidden)
    yield prefix + "kv_a_layernorm.weight", TensorInfo((text.kv_lora_rank,))
    yield from _linear(prefix + "kv_b_proj", heads * (text.qk_nope_head_dim + text.v_head_dim), text.kv_lora_rank)
    yield from _linear(prefix + "o_proj", hidden, heads * text.v_head_dim)


def _mlp(prefix: str, hidden: int, width: int) -> Iterator[Named]:
    yield from _linear(prefix + "gate_proj", width, hidden)
    yield from _linear(prefix + "up_proj", width, hidden)
    yield from _linear(prefix + "down_proj", hidden, width)


def _moe(prefix: str, text: TextConfig, scheme: QuantizationConfig | None) -> Iterator[Named]:
    hidden, width = text.hidden_size, text.moe_intermediate_size
    yield from _linear(prefix + "gate", text.n_routed_experts, hidden)
    yield prefix + "gate.e_score_correction_bias", TensorInfo((text.n_routed_experts,), ("float32", "bfloat16"))
    yield from _mlp(prefix + "shared_experts.", hidden, width * text.n_shared_experts)
    expert = list(_mlp("", hidden, width))
    if scheme is not None:
        expert = [packed for name, info in expert for packed in _packed(name, info, scheme.group_size)]
    for number in range(text.n_routed_experts):
        yield from ((f"{prefix}experts.{number}.{name}", info) for name, info in expert)


def _packed(name: str, info: TensorInfo, group_size: int) -> Iterator[Named]:
    num_out, num_in = info.shape
    yield f"{name}_packed", TensorInfo((num_out, -(-num_in // 8)), ("int32",))
    yield f"{name}_scale", TensorInfo((num_out, num_in // group_size))
    yield f"{name}_shape", TensorInfo((2,), ("int32", "int64"))


def _vision(vision: VisionConfig) -> Iterator[Named]:
    hidden, size = vision.hidden_size, vision.patch_size
    merged = vision.mm_hidden_size * vision.merge_kernel_size[0] * vision.merge_kernel_size[1]
    yield "vision_tower.patch_embed.proj.weight", TensorInfo((hidden, 3, size, size))
    yield "vision_tower.patch_embed.proj.bias", TensorInfo((hidden,))
    grid = (vision.init_pos_emb_height, vision.init_pos_emb_width, hidden)
    yield "vision_tower.patch_embed.pos_emb.weight", TensorInfo(grid)
    for block in range(vision.num_hidden_layers):
        prefix = f"vision_tower.encoder.blocks.{block}."
        yield from _norm(prefix + "norm0", hidden)
        yield from _norm(prefix + "norm1", hidden)
        yield from _linear(prefix + "wqkv", 3 * hidden, hidden, bias=True)
        yield from _linear(prefix + "wo", hidden, hidden, bias=True)
        yield from _linear(prefix + "mlp.fc0", vision.intermediate_size, hidden, bias=True)
        yield from _linear(prefix + "mlp.fc1", hidden, vision.intermediate_size, bias=True)
    yield from _norm("vision_tower.encoder.final_layernorm", hidden)
    yield from _norm("mm_projector.pre_norm", vision.mm_hidden_size)
    yield from _linear("mm_projector.proj.0", merged, merged, bias=True)
    yield from _linear("mm_projector.proj.2", vision.text_hidden_size, merged, bias=True)
