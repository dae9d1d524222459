"""Compile every shipped kernel for Hopper and judge its machine code; no GPU is needed.

python -m scripts.compile_gate [--only TEXT] [--check] [--json FILE]

Exit status: 0 all may be shipped, 1 something is wrong (all of it is listed), 2 it could not be found out.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import triton

from model_runtime.errors import ConfigError
from scripts.compile_gate.figures import compare_figures, make_table
from scripts.compile_gate.gate import CASES, Verdict, run_gate

COMMITTED = Path("docs/kernels-resources.json")


def main() -> int:
    """Run the check as the command line asks; the exit status."""
    options = _parse_options()
    started = time.monotonic()
    print(f"triton {triton.__version__}, {options.workers} workers", file=sys.stderr)
    try:
        verdicts = run_gate(options.module, options.only, options.workers, _Progress())
        found = {verdict.name: verdict.resources for verdict in verdicts if verdict.resources}
        wrong = [f"{verdict.name}: {text}" for verdict in verdicts for text in verdict.violations]
        if options.check:
            wrong += compare_figures(options.committed, triton.__version__, found, options.only)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(make_table({triton.__version__: found}))
    if options.json:
        figures = {name: asdict(resources) for name, resources in found.items()}
        report = {"triton": triton.__version__, "cases": figures, "violations": wrong}
        options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    for text in wrong:
        print(f"- {text}")
    seconds = time.monotonic() - started
    print(f"{len(verdicts)} cases with triton {triton.__version__}, {len(wrong)} violations, {seconds:.0f} s")
    return 1 if wrong else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.compile_gate", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument("--module", default=CASES, help="take another module's release_cases()")
    parser.add_argument("--workers", type=int, default=2, help="processes that compile at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and violations there")
    parser.add_argument("--check", action="store_true", help="compare with the committed figures, too")
    parser.add_argument("--committed", type=Path, default=COMMITTED, metavar="FILE", help=f"instead of {COMMITTED}")
    return parser.parse_args()


class _Progress:
    """Says each verdict on stderr."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, verdict: Verdict) -> None:
        self.done += 1
        outcome = "WRONG" if verdict.violations else "ok"
        print(f"{self.done:4} {verdict.name:48} {verdict.seconds:5.1f} s  {outcome}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
