"""What the web apps of the suite `apps` cost: start, reset, memory. `python -m benchmarks.web_apps [--rounds N]`

A reset is what puts an app back after a task, and its first answer then: the app alone, without the browser. Memory is
the PSS of the app's processes.
"""

import argparse
import statistics
import time
from pathlib import Path
from tempfile import mkdtemp

import psutil

from envs.desktop.programs import Programs
from envs.suites.apps.app import RunningApp, initial_state
from envs.suites.apps.suite import APPS


def measure(app: RunningApp, rounds: int) -> tuple[float, float, float, float, float]:
    """Seconds of the start, median and longest seconds of a reset, of the facts, and MB."""
    since = time.perf_counter()
    app.prepare()
    start_s = time.perf_counter() - since
    resets = []
    for _ in range(rounds):
        app.ask("GET", app.app.start_path)
        since = time.perf_counter()
        app.prepare()
        app.ask("GET", app.app.start_path)
        resets.append(time.perf_counter() - since)
    since = time.perf_counter()
    app.app.facts(app)
    facts_s = time.perf_counter() - since
    family = [psutil.Process(app.pid), *psutil.Process(app.pid).children(recursive=True)]
    size_mb = sum(process.memory_full_info().pss for process in family) / 1e6
    return start_s, statistics.median(resets), max(resets), facts_s, size_mb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    print("| app | start s | reset s, median | longest | facts s | memory MB |\n|---|---|---|---|---|---|")
    for app in APPS:
        if (reason := app.why_missing()) is not None:
            print(f"| {app.name} | not installed: {reason} | | | | |")
            continue
        initial_state(app)
        programs = Programs(Path(mkdtemp(prefix="k25-apps-")))
        try:
            start_s, median_s, longest_s, facts_s, size_mb = measure(RunningApp(app, programs), given.rounds)
        finally:
            programs.close()
        print(
            f"| {app.name} | {start_s:.2f} | {median_s:.3f} | {longest_s:.3f} | {facts_s:.3f} | {size_mb:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
