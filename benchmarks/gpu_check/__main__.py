"""The command; the package's docstring says what it does."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks.gpu_check as package
from benchmarks.gpu_check.parts import PARTS, Part, Setting
from benchmarks.gpu_check.runner import (
    ROOT,
    Device,
    Outcome,
    Plan,
    Results,
    find_device,
    find_version,
    run_parts,
    sigterm_as_exit,
)
from benchmarks.gpu_check.summary import write_summary

LIMIT_S = 2400.0
RESULTS = ROOT / "benchmarks" / "results"
REHEARSAL = Device(name="CPU rehearsal, no measurement")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command's options."""
    names = ", ".join(part.name for part in PARTS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_check",
        description=package.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plan", action="store_true", help="list the parts, and run none")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for results; %(default)s")
    parser.add_argument("--only", metavar="PARTS", help=f"with commas between: {names}")
    parser.add_argument("--again", metavar="PARTS", default="", help="run these even if they have ended; or: all")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="seconds for the whole run; %(default)g")
    parser.add_argument(
        "--rehearse", action="store_true", help="toy sizes on a CPU: shows that the parts' programs work"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None, parts: Sequence[Part] = PARTS) -> int:
    """Run, write the summary, say what failed.

    Returns:
        0; 1 when a part failed, timed out or was cut off; 2 when the options make no sense.
    """
    args = parse(argv)
    try:
        chosen = choose(args.only, parts, "--only") if args.only else list(parts)
        again = {part.name for part in (parts if args.again == "all" else choose(args.again, parts, "--again"))}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if args.plan:
        print_plan(chosen)
        return 0
    setting = Setting(folder=args.out.resolve(), is_rehearsal=args.rehearse)
    device = REHEARSAL if args.rehearse else find_device()
    results, version = Results(setting.folder), find_version()
    print(f"{device.name or 'no GPU'}; code {version}; results in {setting.folder}", flush=True)
    plan = Plan(
        parts=chosen,
        setting=setting,
        device=device,
        version=version,
        limit_s=args.limit_s,
        again=frozenset(again),
        emit=lambda text: print(text, flush=True),
    )
    with sigterm_as_exit():
        outcomes = run_parts(plan, results)
    print(f"summary: {write_summary(parts, results.outcomes, plan)}")
    return tell_faults(outcomes)


def choose(names: str, parts: Sequence[Part], option: str) -> list[Part]:
    """By name.

    Raises:
        ValueError: There is none of that name.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [part.name for part in parts]
    if unknown := sorted(set(wanted) - set(known)):
        raise ValueError(f"{option} {', '.join(unknown)}: there is no such part; there are {', '.join(known)}")
    return [part for part in parts if part.name in wanted]


def print_plan(parts: Sequence[Part]) -> None:
    """What would run."""
    for number, part in enumerate(parts, start=1):
        needs = ", ".join((*part.modules, *([part.program] if part.program else [])))
        print(
            f"{number}. {part.name}: {part.title}\n   at most {part.limit_s:.0f} s; {part.expected}\n   needs {needs}"
        )
    print(f"{sum(part.limit_s for part in parts):.0f} s at most for all of them")


def tell_faults(outcomes: Sequence[Outcome]) -> int:
    """Say at the end what is not as it should be; the command's exit code."""
    bad = [one for one in outcomes if one.state not in ("passed", "skipped")]
    skipped = [one for one in outcomes if one.state == "skipped"]
    for one in skipped:
        print(f"skipped: {one.part}: {one.note}")
    for one in bad:
        print(f"{one.state}: {one.part}: {one.note} (see {one.part}.log)")
    if not bad:
        print(f"{len(outcomes) - len(skipped)} parts passed, {len(skipped)} were skipped")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
