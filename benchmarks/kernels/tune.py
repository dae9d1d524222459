"""Look for faster tiles on this GPU: `python -m benchmarks.kernels.tune [--only moe_int4.gate_up]`.

For each group of lines of `model_runtime/kernels/tiles.json` (the kernels of one file, for the same tokens): from the
table's tiles on, one number is changed at a time; what the compiler would not let us ship is not run, what gives a
wrong result is dropped, and what is quickest is kept. The time is that of the file's launches in one call of the
operator, at the most tokens that the line is for or at those of `--tokens` (decoding: one sequence; matrix-vector
kernels: one token). A group is written as soon as it is done, with machine, versions, commit, size and time; lines that
were not run stay as they are.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.kernels import (
    latent,
    merge_patches,
    mla_decode,
    mla_prefill,
    moe,
    norm,
    router,
    vision_attention,
)
from benchmarks.kernels.bench import Bench, describe
from benchmarks.kernels.candidates import find_candidates
from benchmarks.kernels.case import Case
from benchmarks.kernels.device import CudaDevice, find_commit, find_versions
from benchmarks.kernels.measurement import Measurement, find_fault, keep_used, make_judge
from benchmarks.kernels.search import Found, Group, Judge, find_groups, mark, search
from benchmarks.kernels.sizes import Sizes
from benchmarks.kernels.table import read_lines, use_table, write_lines
from model_runtime.errors import ConfigError
from model_runtime.kernels import tiles
from model_runtime.ops.registry import find_ops

MOST_TOKENS = 16_384
"""At which lines without an upper end are timed; patches of an image at its limit, too."""

DECODE_CONTEXT = 65_536
"""From here on the cache, and not the launch, decides about decoding."""

NO_GPU = "tune measures, and torch finds no GPU here. Nothing was measured, and the table of tiles is as it was"

MakeCase = Callable[[int], Case]


class Workloads:
    """The case that runs a file's kernels with so many tokens."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self._moe = bench, moe.Layer(bench)
        self._makers: dict[str, MakeCase] = {
            **dict.fromkeys(("moe_int4", "combine", "dispatch"), lambda tokens: self._experts("int4", tokens)),
            "moe_dense": lambda tokens: self._experts("bf16", tokens),
            "moe_gemv_dense": lambda _: self._experts("bf16", 1),
            "moe_gemv_int4": lambda _: self._experts("int4", 1),
            "router": lambda tokens: router.make_case(bench, tokens),
            "norm": lambda tokens: norm.make_case(bench, "rms_norm", bench.sizes.text.hidden_size, tokens),
            "latent": lambda tokens: latent.make_case(bench, tokens),
            "mla_decode": lambda _: mla_decode.make_case(bench, 1, DECODE_CONTEXT),
            "mla_prefill": lambda tokens: mla_prefill.make_case(bench, tokens),
            "vision_attention": lambda tokens: vision_attention.make_case(bench, "tuned", [(1, 2, tokens // 2)]),
            "merge_patches": lambda tokens: merge_patches.make_case(bench, "tuned", [(1, 2, tokens // 2)]),
        }

    def __call__(self, group: Group) -> Case:
        """A group's.

        Raises:
            ConfigError: There is none for its file.
        """
        if group.file not in self._makers:
            raise ConfigError(f"there is no case for kernels of {group.file}")
        return self._makers[group.file](group.tokens)

    def _experts(self, variant: str, tokens: int) -> Case:
        return self._moe.experts(variant, tokens, self._moe.our_peers(variant))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels.tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="kernels whose name begins so, for example moe_int4.gate_up")
    parser.add_argument("--tokens", type=int, help="only the lines for so many tokens, timed at this number")
    parser.add_argument("--tiles", type=Path, metavar="FILE", help="table to read and write; made from the shipped one")
    parser.add_argument("--budget-s", type=float, default=3600.0, help="shared evenly by the groups; %(default)s")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Search and write.

    Returns:
        0; 1 when no line could be measured; 2 without a GPU or when the options make no sense.
    """
    args = parse(argv)
    try:
        if not torch.cuda.is_available():
            raise ConfigError(NO_GPU)
        if args.tiles:
            if not args.tiles.exists():
                shutil.copyfile(tiles.TABLE, args.tiles)
            use_table(args.tiles)
        groups = find_groups(read_lines(tiles.TABLE), args.only, MOST_TOKENS, args.tokens)
        if not groups:
            raise ConfigError(f"--only {args.only}: no kernel of {tiles.TABLE.name} begins so")
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    bench = make_bench(args.budget_s)
    measured = {"machine": bench.device.name(), "versions": find_versions(), "commit": find_commit()}
    with torch.inference_mode():
        count = tune(groups, Tuner(bench, args.only), measured, args.only)
    print(f"{count} of {len(groups)} groups measured")
    return 0 if count else 1


def make_bench(budget_s: float) -> Bench:
    """This GPU at the release's sizes."""
    device, deadline = CudaDevice(), time.monotonic() + budget_s
    return Bench(
        device=device,
        sizes=Sizes(),
        reference=find_ops(device.torch_device, "torch"),
        candidates=find_candidates(device.torch_device, with_interpreter=False),
        peaks=None,
        seconds_left=lambda: deadline - time.monotonic(),
        row_seconds=0.1,
    )


class Tuner:
    """Searches one group on a bench."""

    def __init__(self, bench: Bench, only: str) -> None:
        self.bench, self.only = bench, only
        self.workloads = Workloads(bench)
        self._judges: dict[str, Judge] = {}

    def __call__(self, group: Group, share: float) -> tuple[Group, Found]:
        """The lines that are taken, and the quickest; `share` is the group's part of the time that is left.

        Raises:
            Exception: The table's own tiles do not run, whatever the reason.
        """
        self.bench.device.tidy()
        measurement = Measurement(group.file, self.workloads(group), self.bench)
        group = keep_used(group, measurement)
        end = self.bench.seconds_left() * (1 - share)
        judge = self._judges.setdefault(group.file, make_judge(group.file, find_fault))
        found = search(group, judge, measurement, lambda: self.bench.seconds_left() - end, only=self.only, emit=print)
        return group, found


def tune(
    groups: Sequence[Group],
    run: Callable[[Group, float], tuple[Group, Found]],
    measured: dict[str, Any],
    only: str = "",
) -> int:
    """Search all groups, each with an even share of the time, and write each one's lines.

    Returns:
        How many were measured; a group that cannot be is told, and its lines stay.
    """
    count = 0
    for place, group in enumerate(groups):
        try:
            group, found = run(group, 1 / (len(groups) - place))
        except Exception as error:
            print(f"{group.name}: left as it is: {describe(error)}")
            continue
        lines = mark(group, found, measured, only)
        write_lines(tiles.TABLE, lines)
        count += bool(lines)
        print(f"{group.name}: {found.before_us:.1f} -> {found.us:.1f} us, {found.num_timed} tiles timed")
    return count


if __name__ == "__main__":
    sys.exit(main())
