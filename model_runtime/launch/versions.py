"""Which vLLM it is, and what is known of its version with K2.5: one table, a reason for each bound."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from model_runtime.errors import RuntimeFault
from model_runtime.launch.options import VllmOptions

Severity = Literal["error", "warning"]
Version = tuple[int, int, int]

ASK_PYTHON = """
import importlib.metadata as m
names = m.packages_distributions().get("vllm") or ["vllm"]
print(m.version(names[0]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Something that is wrong below a version.

    Attributes:
        below: Versions lower than this have it.
        severity: An error keeps vLLM from being started.
        reason: What is wrong.
        only_with: Field of the options that must be set for it to matter.
    """

    below: Version
    severity: Severity
    reason: str
    only_with: str | None = None


BOUNDS = (
    Bound(below=(0, 15, 0), severity="error", reason="K2.5 is not known to it: first used with 0.15.0"),
    Bound(
        below=(0, 18, 0),
        severity="error",
        reason="EAGLE-3 drafts of K2.5 need 0.18.0",
        only_with="draft_model",
    ),
    Bound(
        below=(0, 20, 0),
        severity="warning",
        reason="streamed answers lose tool calls (vllm-project/vllm 41182) and long arguments are cut (37184); "
        "both are mended in 0.20.0",
    ),
    Bound(
        below=(0, 32, 0),
        severity="warning",
        reason="reasoning and tool calls have separate parsers, so markers can leak where a call starts inside "
        "the reasoning; since 0.32.0 it is one parser",
    ),
)
"""Bounds known in November 2026. K2.6's guide names 0.19.1 as verified."""


def find_vllm(vllm: str) -> Path:
    """The program that `--vllm` means: a program, a virtual environment, or a name on PATH.

    Raises:
        RuntimeFault: There is none.
    """
    path = Path(vllm).expanduser()
    if path.is_dir():
        path = path / "bin" / "vllm"
    found = shutil.which(str(path)) if path.parent != Path() else shutil.which(vllm)
    if found is None:
        advice = "Install vLLM in a virtual environment of its own and name it: --vllm FOLDER"
        raise RuntimeFault(f"{str(path)!r} is no program that can be run. {advice}")
    return Path(found)


def read_version(program: Path, *, timeout_s: float = 120.0) -> Version | None:
    """The version of a vLLM: asked of the interpreter beside the program, else of the program; None if neither says."""
    python = program.with_name("python")
    commands = [[str(python), "-I", "-c", ASK_PYTHON]] if python.exists() else []
    for command in [*commands, [str(program), "--version"]]:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        except (subprocess.TimeoutExpired, OSError):
            continue
        version = parse_version(done.stdout) if done.returncode == 0 else None
        if version is not None:
            return version
    return None


def parse_version(text: str) -> Version | None:
    """The version in the last line of a text, such as `0.20.0rc1+cpu`; None where there is none."""
    lines = text.strip().splitlines()
    found = re.search(r"(?<![\d.])(\d+)\.(\d+)(?:\.(\d+))?", lines[-1]) if lines else None
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def find_bounds(version: Version, options: VllmOptions) -> list[Bound]:
    """What is known to be wrong with this version for these options."""
    return [
        bound
        for bound in BOUNDS
        if version < bound.below and (bound.only_with is None or getattr(options, bound.only_with))
    ]


def check_version(version: Version | None, options: VllmOptions) -> list[str]:
    """Warnings about this version.

    Raises:
        RuntimeFault: It cannot serve K2.5 as asked.
    """
    if version is None:
        return ["the version of vLLM cannot be read; K2.5 needs 0.15.0 or newer, 0.20.0 for streamed tool calls"]
    shown = ".".join(map(str, version))
    bounds = find_bounds(version, options)
    errors = [bound.reason for bound in bounds if bound.severity == "error"]
    if errors:
        raise RuntimeFault(f"vLLM {shown} cannot serve this: {'; '.join(errors)}. Upgrade it, or name another: --vllm")
    return [f"vLLM {shown}: {bound.reason}" for bound in bounds]
