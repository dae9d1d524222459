"""The parts' own programs: `python -m benchmarks.gpu_check.programs NAME --json FILE`.

Each prints its rows, writes them with a title to FILE, and ends with 1 where something is wrong.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_check.random_model import (
    RandomSource,
    make_config,
    make_model,
    make_screenshot,
    make_tokenizer,
    make_tower,
)
from model_runtime.config import K25Config
from model_runtime.engine.contract import EngineOptions
from model_runtime.engine.runner import Runner, StepInput
from model_runtime.media import MediaItem, MediaSpan, Prompt
from model_runtime.model import K25Model
from model_runtime.ops import find_ops
from model_runtime.parallel.comm import OneRank
from model_runtime.placement import ModelPlacement

BLOCK_SIZE = 64


@dataclass(slots=True)
class Found:
    """What a program says. `bars` are (label, length, text) of its image; `faults` end it with 1."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    bars: list[tuple[str, float, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, *row: Any) -> None:
        """A row, told at once."""
        self.rows.append(row)
        print(*row, sep="  ", flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a program runs."""

    device: torch.device
    is_toy: bool

    def wait(self) -> None:
        """Until the device has done what it was given; faults of kernels show here."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def make_steps(counts: Sequence[int], before: Sequence[int], config: K25Config, seed: int) -> StepInput:
    """One step: `counts` new tokens of each sequence behind `before` that the cache holds; logits of every last one."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(old + new for old, new in zip(before, counts, strict=True))
    each = -(-longest // BLOCK_SIZE)
    positions = [range(old, old + new) for old, new in zip(before, counts, strict=True)]
    ends = [0]
    for new in counts:
        ends.append(ends[-1] + new)
    # neighbouring blocks of a sequence lie apart, as those of a long-running engine do
    tables = [[place * len(counts) + row for place in range(each)] for row in range(len(counts))]
    slots = [
        table[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE
        for table, here in zip(tables, positions, strict=True)
        for position in here
    ]
    ids = torch.randint(0, config.text.vocab_size - 256, (ends[-1],), generator=generator)
    return StepInput(
        token_ids=ids.tolist(),
        positions=[position for here in positions for position in here],
        slot_mapping=slots,
        block_tables=tables,
        cu_seqlens_q=tuple(ends),
        seq_lens=tuple(here.stop for here in positions),
        num_decodes=sum(new == 1 and old > 0 for new, old in zip(counts, before, strict=True)),
        drop=(),
        encode=(),
        placements=(),
        logit_rows=[end - 1 for end in ends[1:]],
    )


def make_runner(model: K25Model, *, has_graphs: bool, num_blocks: int = 512, max_num_seqs: int = 32) -> Runner:
    """A runner over a cache of its own."""
    options = EngineOptions(
        block_size=BLOCK_SIZE,
        num_blocks=num_blocks,
        max_num_seqs=max_num_seqs,
        max_model_len=num_blocks * BLOCK_SIZE // max_num_seqs,
        has_cuda_graphs=has_graphs,
    )
    return Runner(model, options)


ODD_SIZES = (1, 7, 8, 9, 16, 33, 64, 130, 512, 1027)
MAX_ERROR = {torch.float32: 1e-4, torch.bfloat16: 0.06}
"""Largest difference of logits over the largest logit. bf16: two roundings that differ in one unit go through every
layer; a kernel that is wrong is off by its whole value."""


def check_operators(place: Place) -> Found:
    """Whole layers through our kernels beside torch's operators, at numbers of tokens on both sides of each tile."""
    found = Found("Our kernels against torch's operators", ("dtype", "step", "largest difference", "allowed"))
    sizes = ODD_SIZES[:5] if place.is_toy else ODD_SIZES
    for dtype in (torch.float32, torch.bfloat16):
        if place.is_toy and dtype == torch.bfloat16:
            continue  # the interpreter multiplies bit patterns of bf16
        compare_kernels(place, dtype, sizes, found)
    return found


def check_layer(place: Place) -> Found:
    """The same in few steps, for a checker that makes each of them a hundred times longer."""
    found = Found("Layers under the memory checker", ("dtype", "step", "largest difference", "allowed"))
    dtype, sizes = (torch.float32, (1, 9)) if place.is_toy else (torch.bfloat16, (1, 9, 64, 512))
    compare_kernels(place, dtype, sizes, found)
    return found


class SharedChoice:
    """Sends a second model's tokens to the experts that the first one chose.

    Where two scores differ by less than a rounding, either choice is right, and everything behind it differs as a
    whole. What the second model would have chosen is counted.

    Args:
        device: Of both models.
    """

    def __init__(self, device: torch.device) -> None:
        self._first, self._second = (find_ops(device, kernels).route for kernels in ("torch", "triton"))
        self._made: deque[tuple[Tensor, Tensor]] = deque()
        self.num_tokens, self.num_others = 0, 0

    def lead(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        """`route` of the model that runs first."""
        made = self._first(*inputs)
        self._made.append(made)
        return made

    def follow(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        """`route` of the other one, which must ask for the same tokens in the same order."""
        _, experts = self._second(*inputs)
        made = self._made.popleft()
        is_same = (experts.sort(-1).values == made[1].sort(-1).values).all(-1)
        self.num_tokens, self.num_others = self.num_tokens + len(experts), self.num_others + int((~is_same).sum())
        return made


MOST_OTHERS = {torch.float32: 0.0, torch.bfloat16: 0.05}
"""Share of tokens whose experts may differ."""


def compare_kernels(place: Place, dtype: torch.dtype, sizes: Sequence[int], found: Found) -> None:
    """A dense layer and one with experts: prompts, decoding behind contexts of different lengths, images."""
    config = make_config(layers=2, experts=16, vocab_size=4352, is_toy=place.is_toy)
    choice = SharedChoice(place.device)
    theirs = make_model(config, place.device, "torch", dtype=dtype, route=choice.lead)
    ours = make_model(config, place.device, "triton", dtype=dtype, route=choice.follow)
    steps = [(f"prompt of {size}", make_steps([size], [0], config, size)) for size in sizes]
    runners = [make_runner(model, has_graphs=False) for model in (theirs, ours)]
    for name, step in steps:
        judge(found, dtype, name, *(runner.run(step) for runner in runners))
        place.wait()
    for batch in (1, 3) if place.is_toy else (1, 3, 9):
        before = [1 + (9 if place.is_toy else 67) * row for row in range(batch)]
        for runner in runners:
            runner.run(make_steps(before, [0] * batch, config, batch))
        step = make_steps([1] * batch, before, config, 100 + batch)
        judge(found, dtype, f"decoding, batch {batch}", *(runner.run(step) for runner in runners))
        place.wait()
    items = [make_screenshot(config, 1, is_toy=True), make_screenshot(config, 2, is_toy=place.is_toy)]
    features = [torch.cat(model.encode_media(items)).float() for model in (theirs, ours)]
    judge(found, dtype, "images", *features)
    share, most = choice.num_others / choice.num_tokens, MOST_OTHERS[dtype]
    found.add(str(dtype).removeprefix("torch."), "share of tokens sent to other experts", share, most)
    if share > most:
        found.faults.append(f"{choice.num_others} of {choice.num_tokens} tokens went to other experts in {dtype}")
    place.wait()


def judge(found: Found, dtype: torch.dtype, name: str, theirs: Tensor, ours: Tensor) -> None:
    """A row, and a fault where they are too far apart."""
    error = float((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max())
    allowed = MAX_ERROR[dtype]
    found.add(str(dtype).removeprefix("torch."), name, error, allowed)
    if not error <= allowed:
        found.faults.append(f"{name} in {dtype}: {error:.2e} from torch's operators, {allowed:g} is allowed")


def run_in_turn(main: Callable[[], Tensor], side: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """In place of `run_concurrently`: one stream."""
    return main(), side()


def check_graphs(place: Place) -> Found:
    """Decode steps four ways, which must give the same bits: graphs or launches, one stream or two."""
    found = Found(
        "CUDA graphs against plain launches", ("batch", "step", "way", "different logits", "largest difference")
    )
    config = make_config(layers=3, experts=16, vocab_size=4352, is_toy=place.is_toy)
    dtype = torch.float32 if place.is_toy else torch.bfloat16  # the interpreter multiplies bit patterns of bf16
    models = {
        "one stream": make_model(config, place.device, "triton", dtype=dtype, run_concurrently=run_in_turn),
        "two streams": make_model(config, place.device, "triton", dtype=dtype),
    }
    ways = {f"{name}, launches": make_runner(model, has_graphs=False) for name, model in models.items()}
    ways |= {f"{name}, graphs": make_runner(model, has_graphs=True) for name, model in models.items()}
    for name, runner in ways.items():
        if place.device.type == "cuda" and name.endswith("graphs") and runner.graphs is None:
            found.faults.append(f"{name}: the capture failed; see the log")
    for batch in (1, 2) if place.is_toy else (1, 8, 32):
        before = [5 + (7 if place.is_toy else 31) * row for row in range(batch)]
        for runner in ways.values():
            runner.run(make_steps(before, [0] * batch, config, batch))
        for number in range(1 if place.is_toy else 4):
            step = make_steps([1] * batch, [old + number for old in before], config, 1000 * batch + number)
            results = {name: runner.run(step).clone() for name, runner in ways.items()}
            place.wait()
            compare_ways(found, batch, number, results)
    return found


def compare_ways(found: Found, batch: int, number: int, results: dict[str, Tensor]) -> None:
    """All against the first."""
    (_, wanted), *others = results.items()
    for name, logits in others:
        count = int((logits != wanted).sum())
        found.add(batch, number, name, count, float((logits - wanted).abs().max()))
        if count or not torch.isfinite(logits).all():
            found.faults.append(f"batch {batch}, step {number}, {name}: {count} logits differ or are not finite")


def measure_machine(place: Place) -> Found:
    """Copy and matmul."""
    from benchmarks.kernels.device import CpuDevice, CudaDevice
    from benchmarks.kernels.roofline import measure_peaks

    found = Found("Peaks of this machine", ("what", "found", "an H200's"))
    if place.is_toy:
        peaks = measure_peaks(CpuDevice(), seconds=0.05, copy_bytes=1 << 20, size=64)
    else:
        peaks = measure_peaks(CudaDevice(), seconds=3.0)
    found.add("copy, GB/s read and written", round(peaks.copy_tb_s * 1e3), 4300)
    found.add("bf16 matmul, TFLOP/s", round(peaks.matmul_tflop_s, 1), 790)
    return found


TOWER_GOAL = 1.7
"""Times the floor of tower and projector."""


def measure_tower(place: Place) -> Found:
    """Vision tower and projector at one screenshot of 1920x1080, as the engine calls them, against their floor."""
    from benchmarks.kernels.cost.hardware import Hardware
    from benchmarks.kernels.cost.vision import encoder_work
    from benchmarks.kernels.device import CpuDevice, CudaDevice
    from benchmarks.kernels.roofline import measure_peaks
    from benchmarks.kernels.timing import measure

    found = Found("The vision tower at 1080p", ("operators", "ms", "floor ms", "times the floor", "goal"))
    device = CpuDevice() if place.is_toy else CudaDevice()
    peaks = Hardware() if place.is_toy else measure_peaks(device, seconds=1.0)
    config = make_config(layers=1, experts=16, vocab_size=4352, is_toy=place.is_toy)
    item = make_screenshot(config, 1, is_toy=place.is_toy)
    floor_ms = encoder_work(config.vision, [item.grid]).floor_us(peaks) / 1e3
    source = RandomSource(config, place.device)
    for kernels in ("triton", "torch"):
        dtype = torch.float32 if place.is_toy else torch.bfloat16
        ops = find_ops(place.device, kernels)
        model_place = ModelPlacement(device=place.device, dtype=dtype, comm=OneRank(), ops=ops)
        tower = make_tower(source, config, model_place)
        timing = measure(device, [partial(tower, [item])], seconds=0.01 if place.is_toy else 5.0, is_recorded=False)
        ms = timing.us / 1e3
        found.add(kernels, ms, floor_ms, ms / floor_ms, TOWER_GOAL)
        found.bars.append((kernels, ms, f"{ms:.1f} ms, {ms / floor_ms:.2f} times the floor"))
    return found


ENGINE_LAYERS = 8
"""One dense and seven with 384 experts, 9.5 GB each in INT4: 76 GB with embedding and head, of a card's 141."""

BATCHES, PROMPT_TOKENS = (1, 8, 32), 512
NEW_TOKENS = {"triton": 64, "torch": 8}
"""torch's operators unpack an expert at each use, which takes long enough to be measured with few."""

AGENT_RUNS = {"triton": 4, "torch": 2}


def measure_engine(place: Place) -> Found:
    """Decoding and an agent's next step, with ours and with torch's operators."""
    found = Found("The whole engine", ("operators", "what", "found", "unit"))
    vocab = 163_840
    config = make_config(layers=ENGINE_LAYERS, experts=384, vocab_size=vocab, is_toy=place.is_toy)
    tokenizer = make_tokenizer(config.text.vocab_size)
    for kernels in ("triton", "torch"):
        engine = make_engine(config, tokenizer, place, kernels)
        for batch in (1,) if place.is_toy else BATCHES:
            tokens_s = decode(engine, place, batch, 3 if place.is_toy else NEW_TOKENS[kernels])
            found.add(kernels, f"decoding, batch {batch}", tokens_s, "tokens/s")
            found.bars.append((f"{kernels}, batch {batch}", tokens_s, f"{tokens_s:,.0f} tokens/s"))
        for name, seconds in first_token(engine, config, place, 1 if place.is_toy else AGENT_RUNS[kernels]):
            found.add(kernels, f"first token of the next step, {name}", seconds, "s")
        del engine
        gc.collect()
        if place.device.type == "cuda":
            torch.cuda.empty_cache()
    return found


def make_engine(config: K25Config, tokenizer: Any, place: Place, kernels: str) -> Any:
    """The engine as the server runs it, without its thread."""
    from model_runtime.engine.contract import ModelCard
    from model_runtime.engine.engine import Engine
    from model_runtime.engine.sampling.sampler import Sampler

    model = make_model(config, place.device, kernels, dtype=torch.float32 if place.is_toy else torch.bfloat16)
    options = EngineOptions(
        block_size=BLOCK_SIZE,
        num_blocks=64 if place.is_toy else 2048,
        max_num_seqs=32,
        max_num_batched_tokens=256 if place.is_toy else 4096,
        max_model_len=None if place.is_toy else 32_768,
    )
    card = ModelCard(name="random", max_model_len=32_768, vocab_size=tokenizer.vocab_size, stop_token_ids=())
    sampler = Sampler(tokenizer.vocab_size, tokenizer.special)
    return Engine(Runner(model, options), tokenizer, card, options, sampler)


def decode(engine: Any, place: Place, batch: int, new: int) -> float:
    """Tokens a second beyond the first ones, the second time."""
    length = 20 if place.is_toy else PROMPT_TOKENS
    for number in range(2):
        generator = torch.Generator().manual_seed(10 * batch + number)
        prompts = torch.randint(0, 1000, (batch, length), generator=generator).tolist()
        requests = [(f"{number}-{row}", Prompt(token_ids=tuple(ids)), new) for row, ids in enumerate(prompts)]
        seconds = run_engine(engine, requests)
    return batch * (new - 1) / seconds


def run_engine(engine: Any, requests: Sequence[tuple[str, Prompt, int]], *, from_first: bool = True) -> float:
    """Seconds until all is generated: from when each has its first token on, or from the start."""
    from model_runtime.engine.contract import EngineRequest
    from model_runtime.engine.sampling import SamplingParams

    missing, started = {name for name, _, _ in requests}, time.perf_counter()
    for name, prompt, new in requests:
        params = SamplingParams(temperature=0.0, max_tokens=new, ignore_eos=True)
        engine.add(EngineRequest(request_id=name, prompt=prompt, params=params))
    while engine.has_work:
        for name, output in engine.step():
            if output.error:
                raise RuntimeError(f"{name}: {output.error}")
            missing.discard(name)
        if from_first and not missing:
            started, from_first = time.perf_counter(), False
    return time.perf_counter() - started


def first_token(engine: Any, config: K25Config, place: Place, runs: int) -> Iterator[tuple[str, float]]:
    """Two screenshots and their thoughts that the cache holds, and a new screenshot; the same without the cache."""
    times: dict[str, list[float]] = {"with the cache": [], "without": []}
    for number in range(runs):
        shots = [make_screenshot(config, 10 * number + place_, is_toy=place.is_toy) for place_ in range(3)]
        before, after = (make_agent_prompt(config, shots[:count], number, place) for count in (2, 3))
        run_engine(engine, [(f"before-{number}", before, 1)], from_first=False)
        times["with the cache"].append(run_engine(engine, [(f"next-{number}", after, 1)], from_first=False))
        fresh = [make_screenshot(config, 1000 + 10 * number + place_, is_toy=place.is_toy) for place_ in range(3)]
        cold = make_agent_prompt(config, fresh, 500 + number, place)
        times["without"].append(run_engine(engine, [(f"cold-{number}", cold, 1)], from_first=False))
    for name, taken in times.items():
        yield name, statistics.median(taken[1:] or taken)  # the first one warms up


def make_agent_prompt(config: K25Config, shots: Sequence[MediaItem], seed: int, place: Place) -> Prompt:
    """A system prompt, then a screenshot and a thought for each step."""
    system, thought = (20, 6) if place.is_toy else (400, 120)
    ids, media = [7 + seed % 500] * system, []
    for number, item in enumerate(shots):
        media.append(MediaSpan(offset=len(ids), item=item))
        ids += [config.media_placeholder_token_id] * item.num_tokens + [20 + number] * thought
    return Prompt(token_ids=tuple(ids), media=tuple(media))


PROGRAMS: dict[str, Callable[[Place], Found]] = {
    "operators": check_operators,
    "layer": check_layer,
    "graphs": check_graphs,
    "peaks": measure_machine,
    "tower": measure_tower,
    "engine": measure_engine,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=tuple(PROGRAMS))
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--toy", action="store_true", help="on the CPU, kernels in Triton's interpreter")
    parser.add_argument("--tiles", type=Path, metavar="FILE", help="table to use in place of the shipped table")
    args = parser.parse_args(argv)
    if args.tiles:
        from benchmarks.kernels.table import use_table

        use_table(args.tiles)
    if args.toy:
        torch.set_num_threads(1)
    place = Place(device=torch.device("cpu" if args.toy else "cuda:0"), is_toy=args.toy)
    with torch.inference_mode():
        found = PROGRAMS[args.program](place)
    values = {name: getattr(found, name) for name in ("title", "columns", "rows", "bars", "faults")}
    args.json.write_text(json.dumps(values, indent=1) + "\n", "utf-8")
    for fault in found.faults:
        print(f"wrong: {fault}", file=sys.stderr)
    return int(bool(found.faults))


if __name__ == "__main__":
    sys.exit(main())
