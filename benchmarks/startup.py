"""How long a person waits: `cua --help`, imports, what the agents need, and `cua task` until its first screenshot.

python benchmarks/startup.py [--runs 7]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CUA = str(Path(sys.executable).with_name("cua"))
SCRIPT = '{"content": "## Action:\\nDone\\n## Code:\\n```python\\ncomputer.terminate(status=\\"success\\")\\n```"}\n'


def median_s(command: list[str], runs: int) -> float:
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def first_screenshot_s(folder: Path) -> float:
    """From the start of the process to the first `observed` event of a browser run."""
    script = folder / "replies.jsonl"
    script.write_text(SCRIPT)
    command = [CUA, "task", "Look", "--url", "data:text/html,<h1>hi</h1>", "--model", f"scripted:{script}"]
    command += ["--output-format", "stream-json", "--no-report"]
    started = time.perf_counter()
    environment = {**os.environ, "K25_RUNS_DIR": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "observed":
                took = time.perf_counter() - started
                process.stdout.read()
                return took
    raise RuntimeError("no screenshot was taken")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    python = median_s([sys.executable, "-c", "pass"], runs)
    rows = [
        ("cua --help", 0.15, median_s([CUA, "--help"], runs)),
        (
            "import cua, envs, visual_tools",
            0.15,
            median_s([sys.executable, "-c", "import cua, envs, visual_tools"], runs),
        ),
        (
            "from cua import run_task",
            0.3,
            median_s([sys.executable, "-c", "from cua import run_task"], runs),
        ),
    ]
    with tempfile.TemporaryDirectory() as folder:
        shots = [first_screenshot_s(Path(folder)) for _ in range(runs)]
    rows.append(("cua task, first screenshot", 1.0, statistics.median(shots)))
    print(f"python -c pass: {python:.3f} s (median of {runs})")
    for name, goal, took in rows:
        print(
            f"{name}: {took:.3f} s, {took / python:.1f}x an empty python; "
            f"goal {goal} s {'met' if took <= goal else 'missed'}"
        )


if __name__ == "__main__":
    main()
