"""The vision tower and its projector: linear layers, attention within each item, patches merged 2 x 2."""

from collections.abc import Iterator, Sequence
from math import ceil, prod

from benchmarks.kernels.cost.hardware import Grid, Part, Work, patches_of
from model_runtime.config import VisionConfig
from model_runtime.kernels.tiles import find_tile
from model_runtime.launch.sizes import BF16_BYTES, FP32_BYTES

CHANNELS = 3


def linear_flops(vision: VisionConfig, patches: int) -> float:
    """Of all linear layers, the first on pixels included."""
    width = vision.hidden_size
    block = 4 * width**2 + 2 * width * vision.intermediate_size
    pixels = CHANNELS * vision.patch_size**2
    return 2.0 * patches * (vision.num_hidden_layers * block + pixels * width)


def attention_flops(vision: VisionConfig, grids: Sequence[Grid], head_dim: int | None = None) -> float:
    """Of all layers, every row against every row of its item; `head_dim` as if heads were so wide."""
    width = vision.num_attention_heads * (head_dim or vision.head_dim)
    return 4.0 * vision.num_hidden_layers * width * sum(prod(grid) ** 2 for grid in grids)


def projector_flops(vision: VisionConfig, tokens: int) -> float:
    """Of both linear layers."""
    merged = vision.mm_hidden_size * prod(vision.merge_kernel_size)
    return 2.0 * tokens * (merged**2 + merged * vision.text_hidden_size)


def tokens_of(vision: VisionConfig, grids: Sequence[Grid]) -> int:
    """Rows that reach the language model: frames are averaged, neighbours merged."""
    return sum(rows * columns for _, rows, columns in grids) // prod(vision.merge_kernel_size)


def encoder_work(vision: VisionConfig, grids: Sequence[Grid], head_dim: int | None = None) -> Work:
    """The floor's work of tower and projector. Only matmuls: weights and pixels are too few to matter."""
    patches = patches_of(grids)
    flops = linear_flops(vision, patches) + attention_flops(vision, grids, head_dim)
    return Work(bytes=0.0, flops=flops + projector_flops(vision, tokens_of(vision, grids)))


def attention_work(vision: VisionConfig, grids: Sequence[Grid]) -> Work:
    """The floor's work of one layer's attention: queries, keys and values read once, results written once."""
    moved = 4 * patches_of(grids) * vision.hidden_size * BF16_BYTES + patches_of(grids) * vision.head_dim * FP32_BYTES
    return Work(bytes=float(moved), flops=attention_flops(vision, grids) / vision.num_hidden_layers)


def attention_parts(vision: VisionConfig, grids: Sequence[Grid]) -> list[Part]:
    """One layer's: queries and keys turned in place, then blocks of queries against all keys of their item."""
    rows, width, heads = patches_of(grids), vision.hidden_size, vision.num_attention_heads
    turn, attend = find_tile("vision_attention.turn", rows), find_tile("vision_attention", rows)
    rotations = rows * vision.head_dim * FP32_BYTES
    blocks = [ceil(prod(grid) / attend.block_m) for grid in grids]
    pairs = sum(count * attend.block_m * prod(grid) for count, grid in zip(blocks, grids, strict=True))
    return [
        Part(
            name="vision_attention.turn",
            work=Work(bytes=float(4 * rows * width * BF16_BYTES + rotations)),
            programs=ceil(rows / turn.block_m) * ceil(2 * width / turn.block_n),
        ),
        Part(
            name="vision_attention.attend",
            work=Work(bytes=float(4 * rows * width * BF16_BYTES), flops=4.0 * heads * padded_head(vision) * pairs),
            programs=sum(blocks) * heads,
        ),
    ]


def padded_head(vision: VisionConfig) -> int:
    """Columns that are computed for a head: a power of two and one, from 16 on, for the rest. 72 is 64 + 16."""
    main = 1 << (vision.head_dim.bit_length() - 1)
    rest = vision.head_dim - main
    return main + (max(16, 1 << (rest - 1).bit_length()) if rest else 0)


def encoder_parts(vision: VisionConfig, grids: Sequence[Grid]) -> Iterator[Part]:
    """All launches of tower and projector; what is not ours is torch's, one launch for each of its operations."""
    rows, width, inner = patches_of(grids), vision.hidden_size, vision.intermediate_size
    merged, tokens = vision.mm_hidden_size * prod(vision.merge_kernel_size), tokens_of(vision, grids)
    yield _linear("patches", rows, CHANNELS * vision.patch_size**2, width)
    yield _elementwise("positions", 3 * rows * width)
    for _ in range(vision.num_hidden_layers):
        yield _elementwise("norm0", 2 * rows * width)
        yield _linear("qkv", rows, width, 3 * width)
        yield from attention_parts(vision, grids)
        yield _linear("projection", rows, width, width)
        yield _elementwise("add", 3 * rows * width)
        yield _elementwise("norm1", 2 * rows * width)
        yield _linear("fc0", rows, width, inner)
        yield _elementwise("gelu", 2 * rows * inner)
        yield _linear("fc1", rows, inner, width)
        yield _elementwise("add", 3 * rows * width)
    yield _elementwise("final_norm", 2 * rows * width)
    yield _elementwise("merge_patches", rows * width + tokens * merged)
    yield _linear("projector.first", tokens, merged, merged)
    yield _elementwise("projector.gelu", 2 * tokens * merged)
    yield _linear("projector.second", tokens, merged, vision.text_hidden_size)


def _linear(name: str, rows: int, k: int, n: int) -> Part:
    return Part(name=name, work=Work(bytes=float((k * n + rows * (k + n)) * BF16_BYTES), flops=2.0 * rows * k * n))


def _elementwise(name: str, values: int) -> Part:
    return Part(name=name, work=Work(bytes=float(values * BF16_BYTES)))
