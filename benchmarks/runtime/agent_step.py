"""Time to the first token of an agent's next step: the same history and one new 1280x720 screenshot.

    python -m benchmarks.runtime.agent_step [--folded 20] [--runs 5] [--dtype float32]

The conversation is that of a GUI agent: a system prompt of 400 tokens, `--folded` earlier steps of which only 120
tokens of thought are left, two steps with their screenshots, and the new screenshot. The same engine twice, with prefix
and feature caches and without: what an agent gains from not computing again what it sends again. Language model of
about 100 M parameters; vision tower of 4 blocks of width 288.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.runtime.models import SMALL
from model_runtime.checkpoint.tiny import tiny_config, write_tiny
from model_runtime.engine.contract import EngineOptions, EngineRequest, ModelCard
from model_runtime.engine.engine import Engine
from model_runtime.engine.runner import Runner
from model_runtime.engine.sampling import SamplingParams
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.model import load_model
from model_runtime.processor.media_rules import hash_frames
from model_runtime.tokenizer import load_tokenizer

VISION = {
    "hidden_size": 288,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1076,
    "init_pos_emb_height": 64,
    "init_pos_emb_width": 64,
}


def make_engine(folder: Path, *, has_cache: bool) -> Engine:
    """The engine as the server runs it, without its thread."""
    tokenizer = load_tokenizer(folder)
    options = EngineOptions(
        num_blocks=512, has_prefix_cache=has_cache, feature_cache_bytes=(1 << 30) if has_cache else 0
    )
    card = ModelCard(name="small", max_model_len=16_384, vocab_size=tokenizer.vocab_size, stop_token_ids=())
    return Engine(Runner(load_model(folder, kernels="torch"), options), tokenizer, card, options)


def make_prompt(pad: int, folded: int, screenshots: list[MediaItem], words: int = 120) -> Prompt:
    """A system prompt, thoughts of folded steps, then a screenshot and a thought for each step."""
    ids: list[int] = [7] * (400 + folded * words)
    media = []
    for number, item in enumerate(screenshots):
        media.append(MediaSpan(offset=len(ids), item=item))
        ids += [pad] * item.num_tokens + [20 + number] * words
    return Prompt(token_ids=tuple(ids), media=tuple(media))


def make_screenshot(seed: int) -> MediaItem:
    """1280x720 after padding."""
    frames = np.random.default_rng(seed).integers(0, 255, (1, 728, 1288, 3), np.uint8)
    return MediaItem(frames=frames, content_hash=hash_frames(frames))


def first_token_s(engine: Engine, name: str, prompt: Prompt) -> tuple[float, int]:
    """Seconds to the first token, and how many tokens came from the cache."""
    params = SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True)
    started = time.perf_counter()
    engine.add(EngineRequest(request_id=name, prompt=prompt, params=params))
    while engine.has_work:
        for _, output in engine.step():
            cached = output.num_cached_tokens
    return time.perf_counter() - started, cached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folded", type=int, default=20, help="earlier steps without their screenshots")
    parser.add_argument("--history", type=int, default=2, help="screenshots that were sent before")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tiny(folder, config=tiny_config(text=SMALL, vision=VISION, dtype=args.dtype))
        engines = {"cache": make_engine(folder, has_cache=True), "none": make_engine(folder, has_cache=False)}
        times: dict[str, list[float]] = {key: [] for key in engines}
        pad = load_tokenizer(folder).special.media_pad
        for run in range(args.runs + 1):
            known = [make_screenshot(100 * run + i) for i in range(args.history)]
            prompt = make_prompt(pad, args.folded, [*known, make_screenshot(100 * run + 99)])
            first_token_s(engines["cache"], "before", make_prompt(pad, args.folded, known))
            for key, engine in engines.items():
                took_s, cached = first_token_s(engine, "next", prompt)
                if run:  # the first one warms up
                    times[key].append(took_s)
                if key == "cache":
                    reused = cached
    ours, without = statistics.median(times["cache"]), statistics.median(times["none"])
    found = f"{len(prompt.token_ids):,} tokens, {args.history + 1} screenshots, {reused:,} tokens from the cache"
    print(f"{found}, {args.dtype}, {args.threads} threads")
    print(f"first token: {ours:.2f} s with the caches, {without:.2f} s without; ratio {ours / without:.2f}")


if __name__ == "__main__":
    main()
