"""Tokens per second while decoding: our engine beside transformers' generate on the same weights.

    python -m benchmarks.runtime.decode [--batches 1 8 32] [--prompt 128] [--new 96] [--runs 3] [--dtype float32]
    python -m benchmarks.runtime.decode --batch-invariant --dtype bfloat16 --new 32     # the cost of that mode

Both are asked for the same greedy tokens from prompts of equal length, in one process, with the same number of threads.
Only decoding is timed: each figure is the time to all tokens less the time to the first. What is compared is the whole
of it: our scheduler, sampler and detokenizer included, their generate loop included.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.runtime.models import count_parameters, write_small
from model_runtime.engine.contract import EngineOptions, EngineRequest, ModelCard
from model_runtime.engine.engine import Engine
from model_runtime.engine.runner import Runner
from model_runtime.engine.sampling import SamplingParams
from model_runtime.engine.sampling.sampler import Sampler
from model_runtime.media import Prompt
from model_runtime.model import load_model
from model_runtime.tokenizer import load_tokenizer


class Ours:
    """The engine as the server runs it, without its thread."""

    def __init__(self, folder: Path, max_num_seqs: int, *, is_invariant: bool = False) -> None:
        tokenizer = load_tokenizer(folder)
        options = EngineOptions(
            num_blocks=1024, max_num_seqs=max_num_seqs, has_prefix_cache=False, is_batch_invariant=is_invariant
        )
        card = ModelCard(name="small", max_model_len=4096, vocab_size=tokenizer.vocab_size, stop_token_ids=())
        runner = Runner(load_model(folder, kernels="invariant" if is_invariant else "torch"), options)
        sampler = Sampler(tokenizer.vocab_size, tokenizer.special, banned_ids=())  # theirs bans nothing
        self.engine = Engine(runner, tokenizer, card, options, sampler)
        self.prompt_s = 0.0
        self.clock = time.perf_counter

    def run(self, prompts: list[list[int]], new: int) -> tuple[float, list[list[int]]]:
        """Seconds of decoding beyond the first token, and the tokens."""
        for row, ids in enumerate(prompts):
            params = SamplingParams(temperature=0.0, max_tokens=new, ignore_eos=True)
            self.engine.add(EngineRequest(request_id=str(row), prompt=Prompt(token_ids=tuple(ids)), params=params))
        tokens: list[list[int]] = [[] for _ in prompts]
        begun, started = self.clock(), None
        while self.engine.has_work:
            for name, output in self.engine.step():
                tokens[int(name)] += output.token_ids
            if started is None and all(tokens):
                started = self.clock()
                self.prompt_s = started - begun
        assert started is not None
        return self.clock() - started, tokens


class Theirs:
    """transformers' own Kimi K2.5."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        from transformers import Kimi_K25ForConditionalGeneration, logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.model = Kimi_K25ForConditionalGeneration.from_pretrained(folder, dtype=dtype).eval()

    def run(self, prompts: list[list[int]], new: int) -> tuple[float, list[list[int]]]:
        """Seconds of decoding beyond the first token, and the tokens."""
        first_s, _ = self._generate(prompts, 1)
        all_s, tokens = self._generate(prompts, new)
        return all_s - first_s, tokens

    @torch.inference_mode()
    def _generate(self, prompts: list[list[int]], new: int) -> tuple[float, list[list[int]]]:
        ids = torch.tensor(prompts)
        started = time.perf_counter()
        out = self.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            min_new_tokens=new,
            do_sample=False,
            use_cache=True,
            pad_token_id=0,
        )
        return time.perf_counter() - started, out[:, ids.shape[1] :].tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-invariant", action="store_true", help="compare that mode with the usual one")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_small(folder, dtype=args.dtype)
        print(f"{count_parameters(folder) / 1e6:.0f} M parameters, {args.dtype}, {args.threads} threads")
        ours, most = Ours(folder, max(args.batches)), max(args.batches)
        if args.batch_invariant:
            theirs: Ours | Theirs = Ours(folder, most, is_invariant=True)
            ours.clock = theirs.clock = time.process_time  # does not depend on the load of the machine
        else:
            theirs = Theirs(folder, getattr(torch, args.dtype))
        for batch in args.batches:
            compare(ours, theirs, batch, args)


def compare(ours: Ours, theirs: Ours | Theirs, batch: int, args: argparse.Namespace) -> None:
    """Print one batch size: medians of runs that take turns."""
    generator = torch.Generator().manual_seed(batch)
    prompts = torch.randint(0, 1000, (batch, args.prompt), generator=generator).tolist()
    for model in (ours, theirs):
        model.run(prompts, 4)
    pairs = [(ours.run(prompts, args.new), theirs.run(prompts, args.new)) for _ in range(args.runs)]
    (_, mine), (_, peer) = pairs[0]
    same = sum(a == b for row, other in zip(mine, peer, strict=True) for a, b in zip(row, other, strict=True))
    tokens = batch * (args.new - 1)
    our_s = statistics.median(pair[0][0] for pair in pairs)
    their_s = statistics.median(pair[1][0] for pair in pairs)
    peer_name = "invariant" if isinstance(theirs, Ours) else "transformers"
    print(
        f"batch {batch:3}: ours {tokens / our_s:7.0f} tokens/s   {peer_name} {tokens / their_s:7.0f} tokens/s   "
        f"ratio {their_s / our_s:5.2f}   equal tokens {same}/{batch * args.new}"
    )
    if isinstance(theirs, Ours):
        print(f"    the prompts: ours {ours.prompt_s:.2f} s, invariant {theirs.prompt_s:.2f} s")


if __name__ == "__main__":
    main()
