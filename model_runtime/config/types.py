"""Configuration of a Kimi K2.5, with the release's values as defaults, and its consistency check.

Source: Kimi K2.5 report, sections 2 and 4; `config.json` of the release. Field names follow the release's text part;
the vision part drops the prefix `vt_`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

DType = Literal["bfloat16", "float32", "float16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """YaRN parameters that extend rotary frequencies from the trained context to the served one.

    Source: Peng et al. 2023, arXiv 2309.00071, section 3.
    """

    factor: float = 64.0
    original_max_position_embeddings: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    mscale: float = 1.0
    mscale_all_dim: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig:
    """The language model: MLA attention and a mixture of experts (DeepSeek-V3 family)."""

    vocab_size: int = 163_840
    hidden_size: int = 7168
    intermediate_size: int = 18_432
    moe_intermediate_size: int = 2048
    num_hidden_layers: int = 61
    first_k_dense_replace: int = 1
    moe_layer_freq: int = 1
    num_attention_heads: int = 64
    q_lora_rank: int = 1536
    kv_lora_rank: int = 512
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    n_routed_experts: int = 384
    num_experts_per_tok: int = 8
    n_shared_experts: int = 1
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.827
    rms_norm_eps: float = 1e-5
    latent_norm_eps: float = 1e-6
    """Epsilon of the two norms inside MLA: 1e-6 in the published modelling code and transformers, 1e-5 in vLLM and
    SGLang.
    """
    rope_theta: float = 50_000.0
    rope_scaling: RopeScaling | None = RopeScaling()
    max_position_embeddings: int = 262_144
    bos_token_id: int = 163_584
    eos_token_id: int = 163_585
    pad_token_id: int = 163_839

    @property
    def qk_head_dim(self) -> int:
        """Width of one query or key head: the part without position, then the rotary part."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def latent_dim(self) -> int:
        """Values per token in the cache of one layer: latent, then rotary key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    def is_moe_layer(self, layer: int) -> bool:
        """Return True if decoder layer `layer` (from 0) has routed experts instead of one dense MLP."""
        return layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionConfig:
    """MoonViT-3D and its projector."""

    patch_size: int = 14
    hidden_size: int = 1152
    num_hidden_layers: int = 27
    num_attention_heads: int = 16
    intermediate_size: int = 4304
    init_pos_emb_height: int = 64
    init_pos_emb_width: int = 64
    init_pos_emb_time: int = 4
    merge_kernel_size: tuple[int, int] = (2, 2)
    mm_hidden_size: int = 1152
    text_hidden_size: int = 7168
    projector_ln_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        """Width of one attention head (72 in the release)."""
        return self.hidden_size // self.num_attention_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationConfig:
    """Packing of routed experts (compressed-tensors `pack-quantized`)."""

    num_bits: int = 4
    group_size: int = 32
    symmetric: bool = True
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class K25Config:
    """Configuration of a whole model. `extra` has the values of the file that this runtime does not use."""

    text: TextConfig = TextConfig()
    vision: VisionConfig = VisionConfig()
    quantization: QuantizationConfig | None = None
    media_placeholder_token_id: int = 163_605
    dtype: DType = "bfloat16"
    extra: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def check_config(config: K25Config, faults: list[str]) -> None:
    """Append contradictions to `faults`; reading continues."""
    _check_text(config.text, faults)
    _check_experts(config.text, faults)
    _check_tokens(config, faults)
    _check_vision(config.vision, config.text, faults)
    if config.quantization is not None:
        _check_quantization(config.quantization, config.text, faults)


def _check_text(text: TextConfig, faults: list[str]) -> None:
    if text.qk_rope_head_dim % 2:
        faults.append(f"text_config.qk_rope_head_dim is {text.qk_rope_head_dim}, expected an even number")
    scaling = text.rope_scaling
    if scaling is None:
        return
    reach = scaling.original_max_position_embeddings * scaling.factor
    if text.max_position_embeddings > reach:
        expected = f"at most {reach:g} (original_max_position_embeddings x factor of rope_scaling)"
        faults.append(f"text_config.max_position_embeddings is {text.max_position_embeddings}, expected {expected}")
    if scaling.beta_fast < scaling.beta_slow:
        value = f"{scaling.beta_fast:g}, expected beta_slow ({scaling.beta_slow:g}) or more"
        faults.append(f"text_config.rope_scaling.beta_fast is {value}")


def _check_experts(text: TextConfig, faults: list[str]) -> None:
    experts, groups = text.n_routed_experts, text.n_group
    if experts % groups:
        faults.append(f"text_config.n_group is {groups}, expected a divisor of n_routed_experts ({experts})")
        return
    if text.topk_group > groups:
        faults.append(f"text_config.topk_group is {text.topk_group}, expected at most n_group ({groups})")
    in_reach = min(text.topk_group, groups) * (experts // groups)
    if text.num_experts_per_tok > in_reach:
        expected = f"at most {in_reach} (the experts of topk_group groups)"
        faults.append(f"text_config.num_experts_per_tok is {text.num_experts_per_tok}, expected {expected}")


def _check_tokens(config: K25Config, faults: list[str]) -> None:
    text = config.text
    ids = {
        "bos_token_id": text.bos_token_id,
        "eos_token_id": text.eos_token_id,
        "pad_token_id": text.pad_token_id,
        "media_placeholder_token_id": config.media_placeholder_token_id,
    }
    for name, token_id in ids.items():
        if token_id >= text.vocab_size:
            faults.append(f"{name} is {token_id}, expected less than vocab_size ({text.vocab_size})")


def _check_vision(vision: VisionConfig, text: TextConfig, faults: list[str]) -> None:
    if vision.text_hidden_size != text.hidden_size:
        expected = f"{text.hidden_size} as text_config.hidden_size"
        faults.append(f"vision_config.text_hidden_size is {vision.text_hidden_size}, expected {expected}")
    if vision.mm_hidden_size != vision.hidden_size:
        expected = f"{vision.hidden_size} as vt_hidden_size"
        faults.append(f"vision_config.mm_hidden_size is {vision.mm_hidden_size}, expected {expected}")
    hidden, heads = vision.hidden_size, vision.num_attention_heads
    if hidden % heads:
        faults.append(
            f"vision_config.vt_hidden_size is {hidden}, expected a multiple of vt_num_attention_heads ({heads})"
        )
    elif vision.head_dim % 4:
        name = f"vision_config.vt_hidden_size / vt_num_attention_heads is {vision.head_dim}"
        faults.append(f"{name}, expected a multiple of 4 (pairs of rotary x and y)")


def _check_quantization(quantization: QuantizationConfig, text: TextConfig, faults: list[str]) -> None:
    size = quantization.group_size
    if size % 8:
        faults.append(f"quantization_config group_size is {size}, expected a multiple of 8 (values in one int32)")
    for name, width in (("hidden_size", text.hidden_size), ("moe_intermediate_size", text.moe_intermediate_size)):
        if width % size:
            faults.append(f"text_config.{name} is {width}, expected a multiple of the INT4 group_size ({size})")
