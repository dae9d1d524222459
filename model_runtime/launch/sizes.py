"""Size of the model and bytes read per step, calculated from the configuration.

Source: tensor shapes of the release (Kimi K2.5 report, section 2; DeepSeek-V3, arXiv 2412.19437, sections 2.1.1 and
2.1.2; MoonViT-3D of Kimi-VL, arXiv 2504.07491). Nothing here is measured.
"""

from dataclasses import dataclass, fields

from model_runtime.config import K25Config, QuantizationConfig, TextConfig

BF16_BYTES = 2
FP32_BYTES = 4
BYTES_OF = {"bfloat16": 2, "float16": 2, "float32": 4}
ROUTER_BIAS_BYTES = 4  # e_score_correction_bias is float32 in every release


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Bytes, or parameters, of each kind of weight in the whole model."""

    routed_experts: int
    shared_experts: int
    attention: int
    dense_layers: int
    router: int
    embedding: int
    head: int
    norms: int
    vision: int

    @property
    def total(self) -> int:
        """Sum of all kinds."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def language_model(self) -> int:
        """Sum without the vision tower and its projector."""
        return self.total - self.vision


def count_parameters(config: K25Config) -> ModelSizes:
    """Return parameters by kind."""
    text = config.text
    num_moe = count_moe_layers(text, range(text.num_hidden_layers))
    num_dense = text.num_hidden_layers - num_moe
    return ModelSizes(
        routed_experts=num_moe * text.n_routed_experts * expert_parameters(text),
        shared_experts=num_moe * text.n_shared_experts * expert_parameters(text),
        attention=text.num_hidden_layers * sum(attention_parameters(text)),
        dense_layers=num_dense * 3 * text.hidden_size * text.intermediate_size,
        router=num_moe * text.n_routed_experts * (text.hidden_size + 1),
        embedding=text.vocab_size * text.hidden_size,
        head=text.vocab_size * text.hidden_size,
        norms=text.num_hidden_layers * (2 * text.hidden_size + text.q_lora_rank + text.kv_lora_rank) + text.hidden_size,
        vision=vision_parameters(config),
    )


def count_bytes(config: K25Config) -> ModelSizes:
    """Return bytes by kind, as stored: routed experts packed if the configuration packs them."""
    count, width = count_parameters(config), BYTES_OF[config.dtype]
    num_moe = count_moe_layers(config.text, range(config.text.num_hidden_layers))
    biases = num_moe * config.text.n_routed_experts
    stored = {field.name: getattr(count, field.name) * width for field in fields(ModelSizes)}
    stored["routed_experts"] = round(count.routed_experts * expert_weight_bytes(config))
    stored["router"] = (count.router - biases) * width + biases * ROUTER_BIAS_BYTES
    return ModelSizes(**stored)


def expert_weight_bytes(config: K25Config) -> float:
    """Return bytes per weight of a routed expert: 0.5625 for INT4 with a bf16 scale per 32."""
    packed: QuantizationConfig | None = config.quantization
    if packed is None:
        return BYTES_OF[config.dtype]
    return packed.num_bits / 8 + BF16_BYTES / packed.group_size


def expert_parameters(text: TextConfig) -> int:
    """Return the number of weights of one expert: gate, up and down."""
    return 3 * text.hidden_size * text.moe_intermediate_size


def attention_parameters(text: TextConfig) -> tuple[int, int]:
    """Return the number of weights of one layer's MLA: (split by heads over tensor-parallel ranks, held by each
    rank).
    """
    heads = text.num_attention_heads
    by_heads = text.q_lora_rank * heads * text.qk_head_dim
    by_heads += text.kv_lora_rank * heads * (text.qk_nope_head_dim + text.v_head_dim)
    by_heads += heads * text.v_head_dim * text.hidden_size
    return by_heads, text.hidden_size * (text.q_lora_rank + text.latent_dim)


def vision_parameters(config: K25Config) -> int:
    """Return the number of weights and biases of the tower and its projector."""
    vision = config.vision
    width, inner = vision.hidden_size, vision.intermediate_size
    block = 4 * width + 4 * (width * width + width) + 2 * width * inner + inner + width
    patches = 3 * vision.patch_size**2 * width + width
    positions = vision.init_pos_emb_height * vision.init_pos_emb_width * width
    merged = vision.mm_hidden_size * vision.merge_kernel_size[0] * vision.merge_kernel_size[1]
    projector = 2 * vision.mm_hidden_size + merged * merged + merged + merged * vision.text_hidden_size
    projector += vision.text_hidden_size
    return vision.num_hidden_layers * block + patches + positions + 2 * width + projector


def count_moe_layers(text: TextConfig, layers: range) -> int:
    """Return how many of these layers have routed experts."""
    return sum(text.is_moe_layer(layer) for layer in layers)


def cache_bytes_per_token(text: TextConfig, num_layers: int | None = None) -> int:
    """Return the bytes per token in a bf16 cache of `num_layers` layers (all by default): one latent row per layer."""
    return (text.num_hidden_layers if num_layers is None else num_layers) * text.latent_dim * BF16_BYTES


def distinct_experts(text: TextConfig, num_tokens: int) -> float:
    """Return the expected number of distinct experts of a layer for `num_tokens` tokens with uniform routing."""
    missed = (1 - text.num_experts_per_tok / text.n_routed_experts) ** num_tokens
    return text.n_routed_experts * (1 - missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBytes:
    """Bytes read by one decode step: each required weight once, and the cache of its sequences once.

    Attributes:
        routed_experts: Bytes of the selected experts, split over all ranks.
        cut_weights: Bytes of weights that are split over tensor-parallel ranks.
        held_weights: Bytes of weights that each rank holds and reads entirely.
        cache: Bytes of the cache of all sequences.
    """

    routed_experts: float
    cut_weights: float
    held_weights: float
    cache: float = 0.0

    @property
    def weights(self) -> float:
        """Bytes without the cache."""
        return self.routed_experts + self.cut_weights + self.held_weights


def step_bytes(config: K25Config, num_tokens: int, context_len: int = 0) -> StepBytes:
    """Return the bytes read by a decode step with one token of each of `num_tokens` sequences of `context_len`
    tokens.
    """
    stored, text = count_bytes(config), config.text
    share = distinct_experts(text, num_tokens) / text.n_routed_experts
    by_heads, whole = (text.num_hidden_layers * count * BYTES_OF[config.dtype] for count in attention_parameters(text))
    cut = by_heads + stored.shared_experts + stored.head + stored.dense_layers
    return StepBytes(
        routed_experts=stored.routed_experts * share,
        cut_weights=float(cut),
        held_weights=float(whole + stored.router + stored.norms),
        cache=float(num_tokens * context_len * cache_bytes_per_token(text)),
    )


RELEASE = K25Config(quantization=QuantizationConfig())
"""Published model: INT4 experts, everything else in bf16."""
