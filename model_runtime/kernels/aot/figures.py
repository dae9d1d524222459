"""The figures of all cases as a file that is committed, `docs/kernels-resources.json`, and what has changed since.

Triton and its ptxas are deterministic: one version makes the same code of the same launch, on every machine. So each
difference comes from a change of a kernel, of a tile or of a version.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from model_runtime.errors import ConfigError

REWRITE = ".venv/bin/python scripts/make_kernel_docs.py --compile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Figures of one kernel's machine code.

    Attributes:
        registers: Of one thread.
        stack_bytes: Of one thread, spilled registers included.
        shared_bytes: Of one program: dynamic, and static with the kilobyte that the system keeps where any is used.
        instructions: All but the NOPs that fill up the end.
        hgmma: Matrix instructions of four warps.
        hmma: Matrix instructions of one warp.
        ldgsts: Asynchronous copies of up to 16 bytes a thread.
        utmaldg: Asynchronous copies of whole tiles.
        loop_copies: Of both kinds of copies, those in the loop along the sum; all where the compiler has unrolled it.
        ldg_128: Loads of 16 bytes a thread into registers.
        int_to_float: Conversions of integers to floats.
        spills: Loads and stores of local memory.
        hazards: Writes to registers that a matrix instruction under way still reads.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    instructions: int
    hgmma: int
    hmma: int
    ldgsts: int
    utmaldg: int
    loop_copies: int
    ldg_128: int
    int_to_float: int
    spills: int
    hazards: int


Figures = Mapping[str, Resources]
"""Name of a case -> its figures."""


def read_figures(path: Path) -> dict[str, dict[str, Resources]]:
    """Figures by version of Triton.

    Raises:
        ConfigError: The file cannot be read or is malformed.
    """
    try:
        return {
            version: {name: Resources(**figures) for name, figures in cases.items()}
            for version, cases in json.loads(path.read_text("utf-8")).items()
        }
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} has no figures of compiled kernels: {error!r}; write it with: {REWRITE}") from error


def write_figures(path: Path, figures: Mapping[str, Figures]) -> None:
    """Write figures by version of Triton, one case a line, in the order of the cases."""
    parts = []
    for version, cases in sorted(figures.items()):
        lines = [f"  {json.dumps(name)}: {json.dumps(asdict(cases[name]))}" for name in cases]
        parts.append(f"{json.dumps(version)}: {{\n" + ",\n".join(lines) + "\n}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def compare_figures(path: Path, version: str, found: Figures, only: str = "") -> Iterator[str]:
    """What differs from the committed figures, in words; nothing where all are equal.

    Args:
        path: The committed file.
        version: Of Triton.
        found: What was compiled now.
        only: Text in the names of the cases that were compiled.

    Raises:
        ConfigError: The file is malformed, or has nothing of this version.
    """
    figures = read_figures(path)
    if version not in figures:
        there = ", ".join(figures) or "none"
        raise ConfigError(f"{path} has figures of triton {there}, but this is {version}; write it with: {REWRITE}")
    committed = {name: value for name, value in figures[version].items() if only in name}
    differences = list(find_differences(committed, found))
    for name, figure, before, now in differences:
        yield f"{name}: {figure}: committed {before}, now {now}"
    if differences:
        yield f"{path} is out of date; if that is meant, write it anew with: {REWRITE}"


def find_differences(committed: Figures, now: Figures) -> Iterator[tuple[str, str, object, object]]:
    """Rows (case, figure, committed, now) of everything that is not equal."""
    for name in sorted({*committed, *now}):
        if name not in now:
            yield name, "case", "there", "gone"
        elif name not in committed:
            yield name, "case", "not there", "new"
        else:
            for field in fields(Resources):
                before, after = getattr(committed[name], field.name), getattr(now[name], field.name)
                if before != after:
                    yield name, field.name, before, after
