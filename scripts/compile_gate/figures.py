"""Figures of all cases for each version of Triton: as a committed file, as what has changed since, and as Markdown.

Triton and its ptxas are deterministic: one version makes the same code of the same launch, on every machine. So each
difference from `docs/kernels-resources.json` comes from a change of a kernel, of a tile or of a version.

Kernels are compiled for two versions: ours for development, and the one beside torch on an H200. The second lies in a
folder of its own. Put before all others on PYTHONPATH it hides the installed one; it compiles, but torch and all else
stay the environment's.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from model_runtime.errors import ConfigError

VERSIONS: dict[str, Path | None] = {"3.9.0": None, "3.6.0": Path(".venv/triton-3.6.0")}
"""Version -> its folder in the repository; None is the installed one."""


def find_environment(version: str, root: Path) -> dict[str, str]:
    """Variables of a process that gets this version.

    Args:
        version: One of `VERSIONS`.
        root: Of the repository.

    Raises:
        ConfigError: Its folder is not there.
    """
    folder = VERSIONS[version]
    if folder is None:
        return dict(os.environ)
    if not (root / folder / "triton").is_dir():
        command = f".venv/bin/python -m pip install --target {folder} --no-deps triton=={version}"
        raise ConfigError(f"triton {version} is not in {folder}; get it with: {command}")
    paths = [str(root / folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


REWRITE = ".venv/bin/python -m scripts.make_kernel_docs --compile"


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
        yield f"{path} is out of date; if the change is intended, regenerate it with: {REWRITE}"


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


COLUMNS: dict[str, Callable[[Resources], str]] = {
    "registers": lambda found: str(found.registers),
    "shared KiB": lambda found: f"{found.shared_bytes / 1024:.1f}",
    "stack": lambda found: str(found.stack_bytes),
    "matrix op": lambda found: _count(HGMMA=found.hgmma, HMMA=found.hmma),
    "async copies": lambda found: _count(LDGSTS=found.ldgsts, UTMALDG=found.utmaldg),
    "int to float": lambda found: str(found.int_to_float),
    "instructions": lambda found: f"{found.instructions:,}",
}


def _count(**counts: int) -> str:
    return " + ".join(f"{count} {name}" for name, count in counts.items() if count) or "-"


def make_table(figures: Mapping[str, Figures]) -> str:
    """Markdown of all figures; where versions differ, a cell has one value for each, in the order of the versions.

    Args:
        figures: By version of Triton.
    """
    versions = sorted(figures)
    names = list(dict.fromkeys(name for version in versions for name in figures[version]))
    files: dict[str, list[str]] = {}
    for name in names:
        files.setdefault(_file_of(name), []).append(name)
    head = f"triton {' / '.join(versions)}"
    return "\n\n".join("\n".join(_make_rows(head, file, files[file], figures)) for file in files)


def _file_of(name: str) -> str:
    """The kernel's file, with which a case's name begins."""
    return re.split("[ .]", name, maxsplit=1)[0]


def _make_rows(head: str, file: str, names: list[str], figures: Mapping[str, Figures]) -> Iterator[str]:
    yield f"| {file}, {head} | " + " | ".join(COLUMNS) + " |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for name in names:
        found = [figures[version].get(name) for version in sorted(figures)]
        cells = [name.removeprefix(file).lstrip(" .") or name, *(_cell(show, found) for show in COLUMNS.values())]
        yield f"| {' | '.join(cells)} |"


def _cell(show: Callable[[Resources], str], found: list[Resources | None]) -> str:
    values = ["none" if resources is None else show(resources) for resources in found]
    return values[0] if len(set(values)) == 1 else " / ".join(values)
