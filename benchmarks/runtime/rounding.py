"""How far bf16 puts logits from fp32, with experts in INT4 and in bf16: ours beside transformers', over many seeds.

    python -m benchmarks.runtime.rounding [--seeds 16]

A tiny random model for each seed, 60 tokens; the exact logits are ours in fp32 on the same (rounded) weights. The mean
of a seed says little: where bf16 moves a token's router scores across each other, another expert is taken, and that
token's logits are off by far more than the rounding, for us in one seed and for transformers in the next. So the median
over all logits stands beside it, which such tokens hardly move, and the number of seeds in which ours is nearer.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import torch
import transformers
from torch import Tensor

from model_runtime.checkpoint.tiny import write_tiny
from model_runtime.engine.contract import EngineOptions
from model_runtime.engine.runner import Runner, StepInput
from model_runtime.model import load_model

NUM_TOKENS = 60


def main() -> None:
    """Print a row for each form of the experts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=16)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    print("experts | mean ours | mean transformers | median ours | median transformers | seeds in which ours is nearer")
    for is_packed in (True, False):
        found = [measure(seed, is_packed) for seed in range(seeds)]
        means = [statistics.mean(row[column] for row in found) for column in range(4)]
        nearer = sum(row[2] < row[3] for row in found)
        print("INT4" if is_packed else "bf16", *(f"{mean:.4f}" for mean in means), f"{nearer} of {seeds}", sep=" | ")


def measure(seed: int, is_packed: bool) -> tuple[float, float, float, float]:
    """Mean of ours and of transformers, median of ours and of transformers, as absolute differences of logits."""
    ids = torch.randint(0, 1024, (NUM_TOKENS,), generator=torch.Generator().manual_seed(seed)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder), quantized=is_packed, seed=seed)
        exact = run_ours(Path(folder), ids, torch.float32)
        errors = [(each - exact).abs() for each in (run_ours(Path(folder), ids), run_peer(Path(folder), ids))]
    ours, theirs = errors
    return ours.mean().item(), theirs.mean().item(), ours.median().item(), theirs.median().item()


def run_ours(folder: Path, ids: list[int], dtype: torch.dtype | None = None) -> Tensor:
    """Logits (tokens, vocab) fp32 of the whole prompt at once."""
    runner = Runner(load_model(folder, dtype=dtype, kernels="torch"), EngineOptions(num_blocks=2, block_size=64))
    places = list(range(len(ids)))
    step = StepInput(
        token_ids=ids,
        positions=places,
        slot_mapping=places,
        block_tables=[[0]],
        cu_seqlens_q=(0, len(ids)),
        seq_lens=(len(ids),),
        num_decodes=0,
        drop=(),
        encode=(),
        placements=(),
        logit_rows=places,
    )
    return runner.run(step)


@torch.no_grad()
def run_peer(folder: Path, ids: list[int]) -> Tensor:
    """The same of transformers' own K2.5 in bf16."""
    model = transformers.Kimi_K25ForConditionalGeneration.from_pretrained(folder, dtype=torch.bfloat16)
    logits: Tensor = model(input_ids=torch.tensor([ids])).logits[0].float()
    return logits


if __name__ == "__main__":
    main()
