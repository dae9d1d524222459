"""The figures as Markdown, one table for each kernel's file."""

import re
from collections.abc import Callable, Iterator, Mapping

from model_runtime.kernels.aot.figures import Figures, Resources

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
