"""How long sampling takes for a batch at the release's vocabulary, and what a grammar adds.

    python benchmarks/runtime/sampling.py [--rows 32] [--runs 7]

Beside ours, in the same run and on the same logits: transformers' logits processors with softmax and multinomial for
sampling, and llguidance's own bitmask functions on numpy for masks. Times are processor time of one thread. `peaked`
rows have nearly all mass on 300 tokens, as a trained model's have; `flat` ones are noise, the worst case of top-p.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

import tiktoken
import torch
from llguidance.numpy import allocate_token_bitmask, apply_token_bitmask_inplace, fill_next_token_bitmask
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from model_runtime.engine.grammar import GrammarEngine, Matcher, apply_grammars, make_tools_grammar
from model_runtime.engine.sampling import GrammarSpec, SamplingParams
from model_runtime.engine.sampling.sampler import Sampler
from model_runtime.engine.sampling.state import SamplingState
from model_runtime.tokenizer import SpecialTokens, Tokenizer
from model_runtime.tokenizer.tokenizer import PATTERN

ALPHABET = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"{}[]:,._-é漢'
CASES: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.7},
    "top_p 0.95": {"temperature": 1.0, "top_p": 0.95},
    "top_k 50": {"temperature": 1.0, "top_k": 50},
    "min_p 0.05": {"temperature": 1.0, "min_p": 0.05},
    "top_k 50, top_p 0.95": {"temperature": 0.6, "top_k": 50, "top_p": 0.95},
}
SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "num": {"type": "integer"}, "kind": {"enum": ["web", "image"]}},
    "required": ["query", "num", "kind"],
    "additionalProperties": False,
}
ANSWER = '{"query": "weather in Paris tomorrow morning", "num": 12, "kind": "web"}'


def make_vocabulary(num_ranks: int = 163_584, seed: int = 0) -> Tokenizer:
    """A vocabulary of the release's size with made-up tokens: all bytes, then random pieces of 2 to 9 characters."""
    draw = random.Random(seed)
    ranks = {bytes([byte]): byte for byte in range(256)}
    while len(ranks) < num_ranks:
        piece = "".join(draw.choices(ALPHABET, k=draw.randint(2, 9))).encode()
        ranks.setdefault(piece, len(ranks))
    special = SpecialTokens(num_ranks)
    encoding = tiktoken.Encoding("made-up", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return Tokenizer(special, (*ranks, *(text.encode() for text in special.ids)), encoding)


def make_logits(kind: str, rows: int, vocab_size: int) -> Tensor:
    """(rows, vocab_size) float32."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, vocab_size, generator=generator)
    if kind == "peaked":
        for row in logits:
            row[torch.randperm(vocab_size, generator=generator)[:300]] += torch.linspace(18, 8, 300)
    return logits


def median_ms(run: Callable[[Tensor], object], logits: Tensor, runs: int) -> float:
    """Median milliseconds of processor time, each run on a fresh copy."""
    times = []
    for _ in range(runs):
        fresh = logits.clone()
        started = time.thread_time()
        run(fresh)
        times.append(time.thread_time() - started)
    return statistics.median(times) * 1e3


def make_peer(params: dict[str, float]) -> Callable[[Tensor], Tensor]:
    """transformers' way: processors over the whole vocabulary, softmax, multinomial."""
    if params["temperature"] == 0:
        return lambda logits: logits.argmax(-1)
    warpers = [TemperatureLogitsWarper(params["temperature"])]
    if "top_k" in params:
        warpers.append(TopKLogitsWarper(int(params["top_k"])))
    if "top_p" in params:
        warpers.append(TopPLogitsWarper(params["top_p"]))
    if "min_p" in params:
        warpers.append(MinPLogitsWarper(params["min_p"]))
    processors = LogitsProcessorList(warpers)
    prompt = torch.zeros(1, 1, dtype=torch.int64)
    return lambda logits: torch.multinomial(processors(prompt, logits).softmax(-1), 1)


def compare_sampling(tokenizer: Tokenizer, rows: int, runs: int) -> None:
    """Print a line for each case."""
    sampler = Sampler(tokenizer.vocab_size, tokenizer.special)
    print(f"sampling, {rows} rows of {tokenizer.vocab_size} logits, ms a batch (ours / transformers)")
    for kind in ("peaked", "flat"):
        logits = make_logits(kind, rows, tokenizer.vocab_size)
        for name, params in CASES.items():
            states = [
                SamplingState(params=SamplingParams(seed=row, **params), special=tokenizer.special)  # type: ignore[arg-type]
                for row in range(rows)
            ]
            ours = median_ms(lambda fresh, states=states: sampler.sample(fresh, states), logits, runs)  # type: ignore[misc]
            peer = median_ms(make_peer(params), logits, runs)
            print(f"  {kind:6} {name:22} {ours:8.1f} {peer:8.1f}   {ours / peer:5.2f}")


def follow(matcher: Matcher, token_ids: list[int], vocab_size: int) -> list[float]:
    """Milliseconds of each mask on the way through an answer."""
    words = torch.zeros((vocab_size + 31) // 32, dtype=torch.int32)
    times = []
    for token_id in token_ids:
        started = time.thread_time()
        matcher.fill(words)
        times.append((time.thread_time() - started) * 1e3)
        assert matcher.accept(token_id), matcher.fault
    return times


def compare_masks(tokenizer: Tokenizer, rows: int, runs: int) -> None:
    """Print what grammars cost."""
    started = time.thread_time()
    grammars = GrammarEngine(tokenizer)
    print(f"grammars: vocabulary built in {time.thread_time() - started:.2f} s")
    special = tokenizer.special
    tools = [{"type": "function", "function": {"name": f"tool_{i}", "parameters": SCHEMA}} for i in range(100)]
    calls = make_tools_grammar(tools, tool_choice="required", parallel=True, first_index=0)
    assert calls is not None
    begin, argument = special.id_of("<|tool_call_begin|>"), special.id_of("<|tool_call_argument_begin|>")
    call = [special.section_begin, begin, *tokenizer.encode("functions.tool_42:0"), argument]
    for name, spec, answer in (
        ("JSON schema", GrammarSpec(kind="json_schema", text=json.dumps(SCHEMA)), tokenizer.encode(ANSWER)),
        ("any JSON object", GrammarSpec(kind="json_object"), tokenizer.encode(ANSWER)),
        ("100 tools", calls, [*call, *tokenizer.encode(ANSWER)]),
        ("regex .*", GrammarSpec(kind="regex", text=r"(.|\n)*"), tokenizer.encode(ANSWER)),
    ):
        started = time.thread_time()
        grammar = grammars.compile(spec)
        compiled_ms = (time.thread_time() - started) * 1e3
        times = follow(grammar.make_matcher(), answer, tokenizer.vocab_size)
        middle, most = statistics.median(times), max(times)
        print(f"  {name:16} compiled {compiled_ms:6.1f} ms; a mask {middle:.3f} ms, at most {most:.2f}")
    grammar = grammars.compile(GrammarSpec(kind="json_schema", text=json.dumps(SCHEMA)))
    matchers = {row: grammar.make_matcher() for row in range(rows)}
    logits = make_logits("flat", rows, tokenizer.vocab_size)

    def peer(fresh: Tensor) -> None:
        mask = allocate_token_bitmask(rows, tokenizer.vocab_size)
        for row, matcher in matchers.items():
            fill_next_token_bitmask(matcher._inner, mask, row)
        apply_token_bitmask_inplace(fresh.numpy(), mask)

    ours = median_ms(lambda fresh: apply_grammars(fresh, matchers), logits, runs)
    theirs = median_ms(peer, logits, runs)
    print(f"  masks of {rows} rows computed and applied, ms a batch (ours / llguidance.numpy)")
    print(f"  {'':29} {ours:8.1f} {theirs:8.1f}   {ours / theirs:5.2f}")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = make_vocabulary()
    compare_sampling(tokenizer, options.rows, options.runs)
    compare_masks(tokenizer, options.rows, options.runs)


if __name__ == "__main__":
    main()
