"""How long the vision tower takes for a screenshot, beside transformers' own on the same weights.

    python -m benchmarks.runtime.vision [--runs 7] [--threads 2] [--layers 4]

The width is a quarter of the release's (288, 4 heads of 72, MLP 1076, projector to 1792) with the release's position
table, patches and head width. Compared is everything from uint8 pixels to rows for the language model. Transformers
runs with its default attention (`sdpa`) and all items of a call at once; its runs and ours take turns. Attention itself
is the same torch kernel on both sides and takes most of the time of a large image: its time is printed too. On a
busy machine take `--threads 1` and the seconds of the processor.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from model_runtime.config import VisionConfig
from model_runtime.media import MediaItem
from model_runtime.vision import VisionTower
from tests.model_runtime.vision.weights import Peer, make_item, make_weights

CASES = {
    "a 1920x1080 screenshot": [(1, 78, 138)],
    "an 800x600 screenshot": [(1, 44, 58)],
    "two chunks of four 640x360 frames": [(4, 26, 46)] * 2,
}


def make_config(layers: int) -> VisionConfig:
    """A quarter of the release's width."""
    return VisionConfig(
        hidden_size=288,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=1076,
        mm_hidden_size=288,
        text_hidden_size=1792,
    )


def take_turns(runs: int, *functions: Callable[[], object]) -> list[tuple[float, float]]:
    """Median seconds of each function, called one after the other: by the clock, and of the processor."""
    taken: list[list[tuple[float, float]]] = [[] for _ in functions]
    for _ in range(runs + 1):
        for function, times in zip(functions, taken, strict=True):
            started, used = time.perf_counter(), time.process_time()
            function()
            times.append((time.perf_counter() - started, time.process_time() - used))
    warm = [list(zip(*times[1:], strict=True)) for times in taken]  # without the first run
    return [(statistics.median(clock), statistics.median(used)) for clock, used in warm]


def attend(config: VisionConfig, items: list[MediaItem], dtype: torch.dtype) -> Callable[[], None]:
    """The attention kernel alone, as often as the tower calls it."""
    length, heads = items[0].num_patches, config.num_attention_heads
    q, k, v = torch.randn(3, len(items), length, heads, config.head_dim).to(dtype).transpose(2, 3)

    def run() -> None:
        for _ in range(config.num_hidden_layers):
            torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config = make_config(arguments.layers)
    weights = make_weights(config)
    print(f"vision tower at a quarter of its width, {arguments.layers} layers, {arguments.threads} threads,")
    print(f"medians of {arguments.runs} runs")
    for dtype in (torch.float32, torch.bfloat16):
        peer, tower = Peer(config, weights, dtype), VisionTower(config, dtype=dtype)
        tower.load(weights)
        for name, grids in CASES.items():
            items = [make_item(*grid, seed=seed) for seed, grid in enumerate(grids)]
            calls = (lambda: tower(items)), (lambda: peer.encode(items)), attend(config, items, dtype)  # noqa: B023
            ours, theirs, kernel = take_turns(arguments.runs, *calls)
            far = (torch.cat(tower(items)) - peer.encode(items)).abs().max().item()
            print(f"  {str(dtype).removeprefix('torch.')}, {name}; largest difference {far:.1e}")
            for place, unit in enumerate(("by the clock", "of the processor")):
                a, b, part = ours[place], theirs[place], kernel[place]
                text = f"ours {a:.3f} s, transformers {b:.3f} s: {b / a:.2f}x"
                print(f"    {unit:16} {text}; the attention kernel alone {part:.3f} s")


if __name__ == "__main__":
    main()
