"""The versions of Triton for which kernels are compiled: ours for development, and the one beside torch on an H200.

The second lies in a folder of its own. Put before all others on PYTHONPATH it hides the installed one; it compiles, but
torch and all else stay the environment's.
"""

import os
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
