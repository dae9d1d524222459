"""Fill the generated parts of docs/kernels.md; `--check` only says whether they are up to date.

python -m scripts.make_kernel_docs [--check] [--compile]

With `--compile` every shipped kernel is compiled with each version of Triton (minutes), and the figures are written to
docs/kernels-resources.json, or with `--check` compared with it; without, that file is taken as it is. Measurements are
those in benchmarks/kernels/*.json.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.kernels.cost.hardware import Hardware
from benchmarks.kernels.cost.measured import measured_tables, read_measurements
from benchmarks.kernels.cost.table import floor_tables
from model_runtime.errors import ConfigError
from model_runtime.launch.sizes import RELEASE
from scripts.compile_gate.figures import VERSIONS, Resources, find_environment, make_table, read_figures, write_figures

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "kernels.md"
FIGURES = ROOT / "docs" / "kernels-resources.json"
MEASURED = ROOT / "benchmarks" / "kernels"
COMMAND = ".venv/bin/python -m scripts.make_kernel_docs"


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything is out of date")
    parser.add_argument("--compile", action="store_true", help="compile all kernels with all versions of Triton")
    options = parser.parse_args()
    try:
        if options.compile and options.check:
            check_figures()
        elif options.compile:
            write_figures(FIGURES, compile_figures())
        update_page(is_check=options.check)
    except ConfigError as error:
        raise SystemExit(f"error: {error}") from error


def compile_figures() -> dict[str, dict[str, Resources]]:
    """Figures of all cases by version; all of them must keep the rules.

    Raises:
        ConfigError: They do not, or a version is missing.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for version in VERSIONS:
            report = Path(folder) / f"{version}.json"
            run_gate(version, "--json", str(report))
            cases = json.loads(report.read_text("utf-8"))["cases"]
            found[version] = {name: Resources(**figures) for name, figures in cases.items()}
    return found


def check_figures() -> None:
    """Compile all and compare with the committed figures.

    Raises:
        ConfigError: They differ, or break a rule.
    """
    for version in VERSIONS:
        run_gate(version, "--check")


def run_gate(version: str, *options: str) -> None:
    """The check as a process with this version of Triton.

    Raises:
        ConfigError: It found something; what, it has said.
    """
    command = [sys.executable, "-m", "scripts.compile_gate", *options]
    done = subprocess.run(command, cwd=ROOT, env=find_environment(version, ROOT), check=False)
    if done.returncode:
        raise ConfigError(f"kernels do not pass with triton {version}; see above")


def update_page(*, is_check: bool) -> None:
    """Fill the page's parts.

    Raises:
        ConfigError: It has no such parts, or with `is_check` they are out of date.
    """
    before = PAGE.read_text("utf-8")
    after = fill(before, make_parts())
    if before != after and is_check:
        raise ConfigError(f"docs/kernels.md is out of date; run: {COMMAND}")
    if before != after:
        PAGE.write_text(after, "utf-8")
        print(f"wrote {PAGE}")


def make_parts() -> dict[str, str]:
    """Text by the name of its part."""
    runs = [read_measurements(path) for path in sorted(MEASURED.glob("*.json"))]
    return {
        "resources": make_table(read_figures(FIGURES)),
        "floors": floor_tables(RELEASE, Hardware()),
        "measured": measured_tables(runs),
    }


def fill(page: str, parts: dict[str, str]) -> str:
    """The page with each part's text between `<!-- generated: NAME -->` and the next `<!-- end -->`.

    Raises:
        ConfigError: A part is there not once.
    """
    for name, text in parts.items():
        start, end = f"<!-- generated: {name} -->", "<!-- end -->"
        pattern = re.compile(f"({re.escape(start)}\n).*?({re.escape(end)})", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise ConfigError(f"docs/kernels.md must have one part from {start} to {end}")
        page = pattern.sub(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    main()
