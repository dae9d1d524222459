"""What the web apps of the suite `apps` cost: start, reset, memory. `python -m benchmarks.apps [--rounds N]`

A reset is what puts an app back after a task, and its first answer then: the app alone, without the browser. Memory is
the PSS of the app's processes.

`python -m benchmarks.apps --table FOLDER`: an evaluation of the suite by app, family, task. *Right*: the verdict is 1.
*Wrong*: the agent claims success, and the verdict is below 1. *Honest*: it gave up, and that was not right.
"""

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp

import psutil

from apps.evals.results import load_evaluation
from apps.evals.statistics import wilson_interval
from cua.batch import EpisodeResult
from envs.apps.app import first_state
from envs.apps.running import RunningApp
from envs.apps.suite import APPS
from envs.desktop.programs import Programs


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


def print_table(folder: Path) -> None:
    """Right, honest and wrong episodes by app, by family and by task, with the Wilson interval of the right ones."""
    evaluation = load_evaluation(folder)
    results, families = evaluation.results, evaluation.plan.families
    print("| | episodes | right | Wilson 95 % | honest | wrong | without a verdict |\n|---|---|---|---|---|---|---|")
    print(_line("**all**", results))
    for name, part in _grouped(results, lambda one: one.task_id.partition("/")[0]):
        print(_line(name, part))
    print(_line("*by family*", []))
    for name, part in sorted(_grouped(results, lambda one: families.get(one.task_id, "-"))):
        print(_line(name, part))
    print("\n| task | steps | s | |\n|---|---|---|---|")
    for one in results:
        print(f"| {one.task_id} | {one.num_steps} | {one.duration_s:.0f} | {_outcome(one)} |")


def _grouped(
    results: Sequence[EpisodeResult], name: Callable[[EpisodeResult], str]
) -> list[tuple[str, list[EpisodeResult]]]:
    groups: dict[str, list[EpisodeResult]] = {}
    for one in results:
        groups.setdefault(name(one), []).append(one)
    return list(groups.items())


def _line(name: str, results: Sequence[EpisodeResult]) -> str:
    count = Counter(map(_outcome, results))
    interval = wilson_interval(count["right"], len(results))
    if interval is None:
        return f"| {name} | | | | | | |"
    right = f"{count['right']} ({100 * count['right'] / len(results):.0f} %)"
    shown = f"{100 * interval.low:.0f} to {100 * interval.high:.0f} %"
    others = f"{count['honest']} | {count['**wrong**']} | {count['no verdict']}"
    return f"| {name} | {len(results)} | {right} | {shown} | {others} |"


def _outcome(one: EpisodeResult) -> str:
    if one.score is None:
        return "no verdict"
    if one.score >= 1:
        return "right"
    return "**wrong**" if "the agent reports success" in one.reason else "honest"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--table", type=Path, help="folder of an evaluation, to print as a table")
    given = parser.parse_args()
    if given.table is not None:
        print_table(given.table)
        return
    print("| app | start s | reset s, median | longest | facts s | memory MB |\n|---|---|---|---|---|---|")
    for app in APPS:
        if (reason := app.why_missing()) is not None:
            print(f"| {app.name} | not installed: {reason} | | | | |")
            continue
        first_state(app)
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
