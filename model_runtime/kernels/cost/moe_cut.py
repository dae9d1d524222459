"""How we cut one MoE layer into launches, for the prediction: as the kernels' own `moe.py`, with the table's tiles."""

from math import ceil

from model_runtime.config import K25Config, TextConfig
from model_runtime.kernels.cost.hardware import Part, Work
from model_runtime.kernels.cost.moe import ID_BYTES, combine_work, dispatch_work, padded_rows, weight_bytes
from model_runtime.kernels.tiles import find_tile
from model_runtime.launch.sizes import BF16_BYTES, FP32_BYTES, distinct_experts

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
