"""The swarms of examples/ do what they say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envs.browser.launch import find_browser


def run(name: str, folder: Path) -> list[str]:
    environment = {**os.environ, "K25_RUNS_DIR": str(folder), "K25_CONFIG": str(folder / "none.toml")}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "examples.swarms", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, env=environment, cwd=root)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_table_is_collected(tmp_path: Path) -> None:
    pytest.importorskip("trafilatura")
    lines = run("table", tmp_path)
    assert sum(" finished " in line for line in lines) == 6


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
def test_children_read_orders_in_browsers_of_their_own(tmp_path: Path) -> None:
    lines = run("browsers", tmp_path)
    assert "t002 finished 427.00" in lines
    assert sum(" finished " in line for line in lines) == 3
