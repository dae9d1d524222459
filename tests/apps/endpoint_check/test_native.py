"""Our own server, started as people start it, stands the test: a random tiny model, so what needs sense stays open."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apps.endpoint_check import SelfTestOptions, run_self_test
from apps.endpoint_check.probes import PROBES
from model_runtime.checkpoint.tiny import write_tiny

CUA = [sys.executable, "-m", "apps.cli.main", "serve"]


@pytest.mark.slow
def test_our_server_stands_the_test(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    process = subprocess.Popen(
        [*CUA, "--model", str(tmp_path), "--port", "0", "--max-model-len", "1600", "--served-name", "tiny"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on http://"), process.communicate(timeout=60)
        report = run_self_test(SelfTestOptions(url=line.split()[-1]))
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    open_ones = {name: outcome for name, outcome in report.outcomes if outcome.status != "ok"}
    assert {name: outcome for name, outcome in open_ones.items() if outcome.status != "inconclusive"} == {}
    assert set(open_ones) <= {
        "end-token",
        "json-schema",
        "tool-call",
        "parallel-calls",
        "tool-choice",
        "image-order",
        "memory",
    }
    assert len(report.outcomes) == len(PROBES)
    assert "Traceback" not in told
