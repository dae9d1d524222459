"""What a measurement was made with."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]


def find_versions() -> dict[str, str]:
    """Of everything that figures depend on."""
    found = {"torch": torch.__version__, "triton": _package("triton"), "transformers": _package("transformers")}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
        found["driver"] = _ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]
    return found | {"python": platform.python_version()}


def find_commit() -> str:
    """The repository's, and whether files were changed since."""
    commit = _ask("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    is_changed = _ask("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    return f"{commit} with changes" if commit != UNKNOWN and is_changed not in ("", UNKNOWN) else commit


UNKNOWN = "unknown"


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
