"""Compiled loops where nothing can be cached, and after a fork."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOLVE = """
import sys
import numpy as np
import visual_tools as vt
for options in ({}, {"connectivity": 8}, {"method": "astar"}, {"method": "centered"}):
    assert vt.shortest_path(np.ones((5, 6), bool), start=(0, 0), goal=(5, 4), **options).found, options
"""
FORK = """
import os
child = os.fork()
assert vt.shortest_path(np.ones((9, 9), bool), start=(0, 0), goal=(8, 8), method="astar").num_steps == 16
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def run(code: str, **more: object) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **more)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_nowhere_to_keep_machine_code(tmp_path: Path) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (ROOT / "visual_tools").rglob("*.py"):
            file.write(path, path.relative_to(ROOT))
    nowhere = {"HOME": "/dev/null", "NUMBA_CACHE_DIR": "/dev/null/none", "PYTHONPATH": str(archive)}
    run(SOLVE + f"assert vt.__file__.startswith({str(archive)!r})", cwd=tmp_path, env=nowhere)


@pytest.mark.long
def test_after_a_fork() -> None:
    run(SOLVE + FORK, cwd=ROOT)
