"""One MoE layer: router, routed experts, the shared one; routing is uniform.

Sizes of a layer's weights are those of `launch/sizes.py`. Rows of an expert are then binomial: T draws at top_k / E.
"""

from functools import cache
from math import ceil, exp, lgamma, log

from model_runtime.config import K25Config, TextConfig
from model_runtime.kernels.cost.hardware import Work
from model_runtime.launch.sizes import BF16_BYTES, FP32_BYTES, distinct_experts, expert_parameters, expert_weight_bytes

VARIANTS = ("bf16", "int4")
PLACE_BYTES, ID_BYTES = 4, 8


def weight_bytes(config: K25Config, variant: str) -> float:
    """Of one weight of a routed expert."""
    return expert_weight_bytes(config) if variant == "int4" else BF16_BYTES


def layer_work(config: K25Config, tokens: int, variant: str) -> Work:
    """The floor's work of the whole layer: weights in use once, rows in and out once."""
    text = config.text
    experts = text.n_shared_experts * BF16_BYTES + distinct_experts(text, tokens) * weight_bytes(config, variant)
    active = (text.n_shared_experts + text.num_experts_per_tok) * expert_parameters(text) + _router_weights(text)
    return Work(
        bytes=experts * expert_parameters(text) + _router_weights(text) * BF16_BYTES + _rows(text, 2 * tokens),
        flops=2.0 * tokens * active,
    )


def routed_work(config: K25Config, tokens: int, variant: str) -> Work:
    """The floor's work of the routed experts alone."""
    text = config.text
    weights = distinct_experts(text, tokens) * expert_parameters(text) * weight_bytes(config, variant)
    flops = 2.0 * tokens * text.num_experts_per_tok * expert_parameters(text)
    return Work(bytes=weights + _rows(text, 2 * tokens), flops=flops)


def router_work(text: TextConfig, tokens: int) -> Work:
    """The floor's work of the router: rows and its weight once, weights (fp32) and ids (int64) of the chosen."""
    chosen = 12 * tokens * text.num_experts_per_tok
    return Work(
        bytes=_rows(text, tokens) + _router_weights(text) * BF16_BYTES + chosen,
        flops=2.0 * tokens * _router_weights(text),
    )


def dispatch_work(text: TextConfig, tokens: int) -> Work:
    """Each pair's expert read and its place written."""
    return Work(bytes=float(tokens * text.num_experts_per_tok * (ID_BYTES + PLACE_BYTES)))


def combine_work(text: TextConfig, tokens: int) -> Work:
    """The rows of all pairs in, with share and expert of each; their sums out."""
    pairs = tokens * text.num_experts_per_tok
    return Work(bytes=_rows(text, pairs + tokens) + pairs * (FP32_BYTES + ID_BYTES))


def unfused_bytes(text: TextConfig, tokens: int) -> float:
    """Of gate_up's result, the activation and down's result of all experts, if each goes through memory."""
    rows = tokens * (text.num_experts_per_tok + text.n_shared_experts)
    return 2.0 * rows * (3 * text.moe_intermediate_size + text.hidden_size) * BF16_BYTES


def padded_rows(text: TextConfig, tokens: int, block_m: int) -> float:
    """Rows of all routed experts when each one's are filled up to whole tiles; on average over routings."""
    return (
        text.n_routed_experts * block_m * _mean_tiles(tokens, text.num_experts_per_tok, text.n_routed_experts, block_m)
    )


@cache
def _mean_tiles(tokens: int, top_k: int, experts: int, block_m: int) -> float:
    """Tiles of one expert: the mean of ceil(rows / block_m) over a binomial number of rows."""
    hit, miss = log(top_k / experts), log(1 - top_k / experts)
    whole = lgamma(tokens + 1)
    return sum(
        ceil(rows / block_m)
        * exp(whole - lgamma(rows + 1) - lgamma(tokens - rows + 1) + rows * hit + (tokens - rows) * miss)
        for rows in range(1, tokens + 1)
    )


def _router_weights(text: TextConfig) -> int:
    return text.n_routed_experts * text.hidden_size


def _rows(text: TextConfig, count: float) -> float:
    return count * text.hidden_size * BF16_BYTES
