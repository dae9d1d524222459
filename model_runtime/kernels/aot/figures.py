"""The figures of all cases as a file that is committed, `docs/kernels-resources.json`, and what has changed since.

Triton and its ptxas are deterministic: one version makes the same code of the same launch, on every machine. So each
difference comes from a change of a kernel, of a tile or of a version.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path

from model_runtime.errors import ConfigError
from model_runtime.kernels.aot.machine_code import Resources

Figures = Mapping[str, Resources]
"""Name of a case -> its figures."""

REWRITE = ".venv/bin/python scripts/make_kernel_docs.py --compile"


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
    """Write figures by version of Triton, one case a line."""
    parts = []
    for version, cases in sorted(figures.items()):
        lines = [f"  {json.dumps(name)}: {json.dumps(asdict(cases[name]))}" for name in sorted(cases)]
        parts.append(f"{json.dumps(version)}: {{\n" + ",\n".join(lines) + "\n}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


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
