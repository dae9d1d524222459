"""One MoE layer: router, routed experts, the shared one, and how we cut it into launches; routing is uniform.

Sizes of a layer's weights are those of `launch/sizes.py`. Rows of an expert are then binomial: T draws at top_k / E.
The launches are those of the kernels' own `moe.py`, with the table's tiles.
"""

from functools import cache
from math import ceil, exp, lgamma, log

from benchmarks.kernels.cost.hardware import Part, Work
from model_runtime.config import K25Config, TextConfig
from model_runtime.kernels.tiles import find_tile
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


MAX_GEMV_TOKENS = 8
"""As in `kernels/moe.py`, which is not imported because it needs torch; a test compares them."""

KERNELS = {"bf16": "moe_dense", "int4": "moe_int4"}
GEMV_KERNELS = {"bf16": "moe_gemv_dense", "int4": "moe_gemv_int4"}


def layer_parts(config: K25Config, tokens: int, variant: str) -> list[Part]:
    """Router, routed experts, the shared one (by torch, one after the other), their sum."""
    text = config.text
    return [
        *router_parts(text, tokens),
        *expert_parts(config, tokens, variant),
        *shared_parts(text, tokens),
        Part(name="add", work=Work(bytes=3.0 * tokens * text.hidden_size * BF16_BYTES)),
    ]


def router_parts(text: TextConfig, tokens: int) -> list[Part]:
    """Logits, in as many parts as sums are cut into, then the choice."""
    tile, experts = find_tile("router.logits", tokens), text.n_routed_experts
    rows, columns = ceil(tokens / tile.block_m), ceil(experts / tile.block_n)
    logits = float(tile.split_k * tokens * experts * FP32_BYTES)
    work = Work(
        bytes=(tokens + experts) * text.hidden_size * BF16_BYTES + logits,
        flops=2.0 * rows * tile.block_m * columns * tile.block_n * text.hidden_size,
    )
    chosen = tokens * text.num_experts_per_tok * (FP32_BYTES + ID_BYTES)
    return [
        Part(name="router.logits", work=work, programs=rows * columns * tile.split_k),
        Part(name="router.select", work=Work(bytes=logits + chosen), programs=tokens),
    ]


def expert_parts(config: K25Config, tokens: int, variant: str) -> list[Part]:
    """What the operator `experts` starts."""
    text = config.text
    pieces = tokens * ceil(text.hidden_size / find_tile("combine", tokens).block_n)
    combine = Part(name="combine", work=combine_work(text, tokens), programs=pieces)
    if tokens <= MAX_GEMV_TOKENS:
        return [*_gemv_parts(config, tokens, variant), combine]
    dispatch = Part(name="dispatch", work=dispatch_work(text, tokens))
    return [dispatch, *_grouped_parts(config, tokens, variant), combine]


def _grouped_parts(config: K25Config, tokens: int, variant: str) -> list[Part]:
    """Tiles of rows of one expert; weights of experts in use once."""
    text, file = config.text, KERNELS[variant]
    hidden, inter = text.hidden_size, text.moe_intermediate_size
    tile, down = find_tile(f"{file}.gate_up", tokens), find_tile(f"{file}.down", tokens)
    pairs, rows = tokens * text.num_experts_per_tok, padded_rows(text, tokens, tile.block_m)
    read = distinct_experts(text, tokens) * hidden * inter * weight_bytes(config, variant)
    inner, outer = pairs * inter * BF16_BYTES, pairs * hidden * BF16_BYTES
    tiles = rows / tile.block_m
    first = Work(bytes=2 * read + outer + inner, flops=4.0 * rows * hidden * inter)
    second = Work(bytes=read + inner + outer, flops=2.0 * rows * hidden * inter)
    return [
        Part(name=f"{file}.gate_up", work=first, programs=tiles * ceil(inter / tile.block_n)),
        Part(name=f"{file}.down", work=second, programs=tiles * ceil(hidden / down.block_n)),
    ]


def _gemv_parts(config: K25Config, tokens: int, variant: str) -> list[Part]:
    """Each pair by itself, on CUDA cores; pairs that share an expert find it in L2 but for the first."""
    text, file = config.text, GEMV_KERNELS[variant]
    hidden, inter = text.hidden_size, text.moe_intermediate_size
    pairs = tokens * text.num_experts_per_tok
    read = distinct_experts(text, tokens) * hidden * inter * weight_bytes(config, variant)
    inner, outer = pairs * inter * BF16_BYTES, pairs * hidden * BF16_BYTES
    first, second = find_tile(f"{file}.gate_up", tokens), find_tile(f"{file}.down", tokens)
    return [
        Part(
            name=f"{file}.gate_up",
            work=Work(bytes=2 * read + tokens * hidden * BF16_BYTES + inner),
            programs=pairs * ceil(inter / first.block_n),
        ),
        Part(
            name=f"{file}.down",
            work=Work(bytes=read + inner + outer),
            programs=pairs * ceil(hidden / second.block_n),
        ),
    ]


def shared_parts(text: TextConfig, tokens: int) -> list[Part]:
    """The expert of every token: two matmuls of torch's, and the activation between them in two launches."""
    hidden, inter = text.hidden_size, text.n_shared_experts * text.moe_intermediate_size
    value = tokens * BF16_BYTES

    def matmul(name: str, k: int, n: int) -> Part:
        return Part(name=name, work=Work(bytes=float(k * n * BF16_BYTES + value * (k + n)), flops=2.0 * tokens * k * n))

    return [
        matmul("shared.gate_up", hidden, 2 * inter),
        Part(name="shared.silu", work=Work(bytes=2.0 * value * inter)),
        Part(name="shared.mul", work=Work(bytes=3.0 * value * inter)),
        matmul("shared.down", inter, hidden),
    ]
