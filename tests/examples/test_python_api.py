import os
import subprocess
import sys
from pathlib import Path

import pytest

from envs.browser.launch import find_browser

EXAMPLE = Path(__file__).parents[2] / "examples" / "python_api.py"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_browser() is None, reason="no browser found; run `cua setup`")
def test_the_python_example_runs_and_prints_its_answer(tmp_path: Path) -> None:
    environment = {**os.environ, "K25_RUNS_DIR": str(tmp_path), "K25_CONFIG": str(tmp_path / "none.toml")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "unverified 427.00\n"), done.stderr
