"""The numbers that make a Kimi K2.5: defaults are the release's.

Source: Kimi K2.5 report, sections 2 and 4; `config.json` of the release. Field names follow the release's text part;
the vision part drops the prefix `vt_`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

DType = Literal["bfloat16", "float32", "float16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """YaRN: how rotary frequencies are stretched from the trained context to the served one.

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
    """Of the two norms inside MLA: 1e-6 in the published modelling code and transformers, 1e-5 in vLLM and SGLang."""
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
        """Values a token takes in the cache of one layer: latent, then rotary key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    def is_moe_layer(self, layer: int) -> bool:
        """Whether decoder layer `layer` (from 0) has routed experts instead of one dense MLP."""
        return layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionConfig:
    """MoonViT-3D and the projector behind it."""

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
    """How routed experts are packed (compressed-tensors `pack-quantized`)."""

    num_bits: int = 4
    group_size: int = 32
    symmetric: bool = True
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class K25Config:
    """A whole model. `extra` keeps what the file held and this runtime does not use."""

    text: TextConfig = TextConfig()
    vision: VisionConfig = VisionConfig()
    quantization: QuantizationConfig | None = None
    media_placeholder_token_id: int = 163_605
    dtype: DType = "bfloat16"
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
