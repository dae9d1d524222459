"""The command: `python -m benchmarks.kernels`; the package's docstring says what it does."""

import argparse
import datetime
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import ModuleType

import torch

import benchmarks.kernels as package
from benchmarks.kernels import (
    combine,
    dispatch,
    expert_halves,
    latent,
    merge_patches,
    mla_decode,
    mla_prefill,
    moe,
    norm,
    overlap,
    repack,
    report,
    router,
    vision_attention,
)
from benchmarks.kernels.bench import Bench, LostDeviceError, run_cases
from benchmarks.kernels.candidates import find_candidates, find_files
from benchmarks.kernels.case import Case, Row
from benchmarks.kernels.device import ROOT, CpuDevice, CudaDevice, Device, find_commit, find_versions
from benchmarks.kernels.roofline import measure_peaks
from benchmarks.kernels.sizes import Sizes, toy_sizes
from benchmarks.kernels.table import use_table
from model_runtime.errors import ConfigError
from model_runtime.ops.registry import find_ops


def _by_name(*modules: ModuleType) -> dict[str, Callable[[Bench], Iterator[Case]]]:
    return {module.__name__.rpartition(".")[2]: module.cases for module in modules}


FILES: dict[str, Callable[[Bench], Iterator[Case]]] = {
    **_by_name(router, moe, mla_decode, mla_prefill, vision_attention, overlap),
    **{file: partial(expert_halves.cases, file=file) for file in expert_halves.FILES},  # weights change least so
    **_by_name(dispatch, combine, norm, latent, merge_patches, repack),
}
"""One for each file of kernels, operators first; when the budget of time is spent, the last are left out."""

ALL = ",".join(FILES)

ROW_SECONDS = 0.3
TOY_ROW_SECONDS = 0.002


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels",
        description=package.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--only", default=ALL, help="files of kernels, with commas between: %(default)s")
    parser.add_argument("--variant", default="", help="only cases whose variant begins so, for example int4")
    parser.add_argument("--tokens", default="", help="only cases with these numbers of tokens, with commas between")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, too")
    parser.add_argument("--save", action="store_true", help="keep a GPU's figures in benchmarks/kernels/")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="adapters of other projects' kernels")
    parser.add_argument("--toy", action="store_true", help="toy sizes; nothing is measured")
    parser.add_argument("--interpreter", action="store_true", help="on a CPU: our kernels in Triton's interpreter, too")
    parser.add_argument("--tiles", type=Path, metavar="FILE", help="table to use in place of the shipped table")
    parser.add_argument("--budget-s", type=float, default=540.0, help="cases that would begin later are left out")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print the table, write what was asked for.

    Returns:
        0; 1 when a row is wrong, or a kernel broke the device, so that the table is not whole; 2 when the options make
        no sense.
    """
    argv = sys.argv[1:] if argv is None else argv
    args = parse(argv)
    try:
        chosen = [partial(keep_cases, cases, args.variant, find_tokens(args.tokens)) for cases in find_cases(args.only)]
        if args.tiles:
            use_table(args.tiles)
        bench = make_bench(args)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    rows: list[Row] = []
    result = make_report(bench, rows, ["python", "-m", "benchmarks.kernels", *argv])
    try:
        is_whole = run_all(chosen, bench, rows, lambda: report.write(result, args.json) if args.json else None)
    except OSError as error:
        print(error, file=sys.stderr)
        return 2
    print(report.as_table(result))
    wrong = [row for row in rows if row.is_wrong]
    for row in wrong:
        print(f"wrong: {row.kernel} {row.variant} {row.peer}: {row.note}", file=sys.stderr)
    return 2 if not keep(result, args) else int(bool(wrong) or not is_whole)


def find_cases(names: str) -> list[Callable[[Bench], Iterator[Case]]]:
    """By name.

    Raises:
        ConfigError: There is none of that name.
    """
    wanted = [name.strip() for name in names.split(",")]
    if unknown := sorted(set(wanted) - FILES.keys()):
        raise ConfigError(f"--only {', '.join(unknown)}: there is no such file; there are {', '.join(FILES)}")
    return [cases for name, cases in FILES.items() if name in wanted]


def find_tokens(text: str) -> frozenset[int]:
    """The numbers of `--tokens`.

    Raises:
        ConfigError: One of them is not a number.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if odd := [word for word in words if not word.isdecimal()]:
        raise ConfigError(f"--tokens {', '.join(odd)}: expected numbers with commas between, for example 1,8,64")
    return frozenset(map(int, words))


def keep_cases(
    cases: Callable[[Bench], Iterator[Case]], variant: str, tokens: frozenset[int], bench: Bench
) -> Iterator[Case]:
    """The cases of a variant and of some numbers of tokens; cases without tokens are kept."""
    for case in cases(bench):
        if case.variant.startswith(variant) and (not tokens or case.size.get("tokens") in {*tokens, None}):
            yield case


def make_bench(args: argparse.Namespace) -> Bench:
    """What a run has; on a CPU always toy sizes.

    Raises:
        ConfigError: The options do not fit together.
    """
    if args.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda: torch finds no GPU here; leave it out for toy sizes on the CPU")
    if args.device == "cuda" and args.interpreter:
        raise ConfigError("--interpreter is for --device cpu")
    is_toy = args.toy or args.device == "cpu"
    if args.save and is_toy:
        raise ConfigError("--save: results at toy sizes are not saved; --json FILE writes them")
    if args.save and (args.only != ALL or args.variant or args.tokens):
        raise ConfigError("--save keeps whole runs; with --only and the like, --json FILE writes what was measured")
    files = find_files(args.peers)
    device: Device = CpuDevice() if args.device == "cpu" else CudaDevice()
    deadline = time.monotonic() + args.budget_s
    candidates = find_candidates(device.torch_device, with_interpreter=args.interpreter)
    if not device.is_gpu:
        torch.set_num_threads(1)  # toy sizes gain nothing from more
    return Bench(
        device=device,
        sizes=toy_sizes(torch.float32 if args.interpreter else torch.bfloat16) if is_toy else Sizes(),
        reference=find_ops(device.torch_device, "torch"),
        candidates=candidates,
        peaks=None if is_toy else measure_peaks(device),
        seconds_left=lambda: deadline - time.monotonic(),
        row_seconds=TOY_ROW_SECONDS if is_toy else ROW_SECONDS,
        peer_files=files,
    )


def run_all(
    chosen: Sequence[Callable[[Bench], Iterator[Case]]], bench: Bench, rows: list[Row], save: Callable[[], None]
) -> bool:
    """Fill `rows`, telling each on stderr and calling `save` as it comes; False when a kernel broke the device."""
    try:
        with torch.inference_mode():
            for row in chain.from_iterable(run_cases(cases(bench), bench) for cases in chosen):
                rows.append(row)
                emit(row)
                save()
    except LostDeviceError as error:
        print(f"the device is lost after this row: {error}", file=sys.stderr)
        return False
    return True


def emit(row: Row) -> None:
    """One row as soon as it is there, so that a run that is cut off has said something."""
    size = " ".join(f"{name} {number}" for name, number in row.size.items())
    figure = row.note if row.us is None else f"{row.us:.1f} us"
    print(f"{row.kernel} {row.variant} {size} {row.peer}: {figure}", file=sys.stderr, flush=True)


def make_report(bench: Bench, rows: Sequence[Row], command: Sequence[str]) -> report.Report:
    """The run with what it was made with."""
    toy = f"toy sizes on a {'GPU' if bench.device.is_gpu else 'CPU'}, no measurement"
    return report.Report(
        machine=toy if bench.peaks is None else bench.device.name(),
        versions=find_versions(),
        commit=find_commit(),
        command=" ".join(command),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        peaks=bench.peaks,
        rows=rows,
    )


def keep(result: report.Report, args: argparse.Namespace) -> bool:
    """Write the files that were asked for; False where one cannot be written."""
    try:
        if args.json:
            report.write(result, args.json)
        if args.save:
            folder = ROOT / "benchmarks" / "kernels"
            folder.mkdir(exist_ok=True)
            report.write(result, path := report.place_of(result, folder))
            print(f"\nwritten to {path}")
    except (OSError, ConfigError) as error:
        print(error, file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
