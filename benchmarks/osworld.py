"""Evaluations of OSWorld's local list as tables: the scripted oracle's times, and what agents without skill get.

    python -m benchmarks.osworld ORACLE_FOLDER... [--others NULL_FOLDER...]

Each folder is one of `cua eval osworld --list local`; several together make one table (by domains, for example). Of a
task that several have, the last one counts; tasks that are not in the list any more are left out.
*Reset* is a clean guest with the task's setup and its rest of 3 s, *step* one action with the screen settled,
*verdict* the rest of 3 s, what the task does before it, and its evaluator.
"""

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.evals.results import Evaluation, load_evaluation
from apps.evals.statistics import summarize
from apps.evals.text import describe_interval, describe_share
from cua.batch import EpisodeResult
from envs.suites.osworld.local_tasks import load_local_tasks, local_keys
from envs.suites.osworld.tasks import PREFIX


@dataclass(frozen=True)
class Times:
    """Seconds of one episode: until the first look, of each step, of the verdict."""

    reset_s: float
    step_s: float
    verdict_s: float


def read_times(run: Path) -> Times | None:
    """From a run's record; None: it has no verdict."""
    at: dict[str, list[float]] = defaultdict(list)
    for line in (run / "trajectory.jsonl").read_text("utf-8").splitlines():
        event: dict[str, Any] = json.loads(line)
        at[event["event"]].append(event["at"])
    seen = at["observed"]
    if not seen or not at["ended"]:
        return None
    steps_s = (seen[-1] - seen[0]) / max(len(seen) - 1, 1)
    return Times(seen[0] - at["run"][0], steps_s, at["ended"][-1] - seen[-1])


Played = Mapping[str, tuple[Evaluation, EpisodeResult]]


def latest(evaluations: Sequence[Evaluation]) -> Played:
    """Episodes by key of their task, sorted."""
    valid = local_keys()
    found = {one.task_id.removeprefix(PREFIX): (each, one) for each in evaluations for one in each.results}
    return {key: found[key] for key in sorted(found) if key in valid}


def print_oracle(played: Played) -> None:
    """A line for each task."""
    print("| task | | score | reset s | step s | steps | verdict s |\n" + "|---" * 7 + "|")
    times: list[Times] = []
    for key, (evaluation, one) in played.items():
        run = evaluation.find_run(one)
        found = read_times(evaluation.folder / run) if run else None
        score = "error" if one.score is None else f"{one.score:g}"
        if found is None:
            print(f"| `{key[:-28]}` | {_kind(key)} | {score} | | | | |")
            continue
        times.append(found)
        shown = f"{found.reset_s:.1f} | {found.step_s:.1f} | {one.num_steps} | {found.verdict_s:.1f}"
        print(f"| `{key[:-28]}` | {_kind(key)} | {score} | {shown} |")
    middle = [statistics.median(getattr(one, name) for one in times) for name in ("reset_s", "step_s", "verdict_s")]
    print(f"\nMedian: reset {middle[0]:.1f} s, step {middle[1]:.1f} s, verdict {middle[2]:.1f} s.\n")


def _kind(key: str) -> str:
    task = load_local_tasks()[key]
    return "" if task.solution else "infeasible"


def print_scores(groups: dict[str, list[EpisodeResult]]) -> None:
    """Print a line for each agent: all tasks, feasible tasks, infeasible tasks."""
    print("| agent | tasks | mean score | 95 % interval | errors |\n" + "|---" * 5 + "|")
    for name, results in groups.items():
        parts: dict[str, list[EpisodeResult]] = {"all": results, "feasible": [], "infeasible": []}
        for one in results:
            parts[_kind(one.task_id.removeprefix(PREFIX)) or "feasible"].append(one)
        for part, group in parts.items():
            figures = summarize(group)
            print(
                f"| {name} | {part}: {len(group)} | {describe_share(figures.mean_full)}"
                f" | {describe_interval(figures.success_full_interval)} | {len(group) - figures.num_scored} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oracle", type=Path, nargs="+", help="of `cua eval osworld --model scripted-oracle`")
    parser.add_argument("--others", type=Path, nargs="*", default=[], help="of other agents on the same list")
    given = parser.parse_args()
    evaluations = [load_evaluation(folder) for folder in given.oracle]
    print_oracle(latest(evaluations))
    by_model: dict[str, list[Evaluation]] = defaultdict(list)
    for evaluation in [*evaluations, *map(load_evaluation, given.others)]:
        by_model[evaluation.plan.model].append(evaluation)
    print_scores({name: [one for _, one in latest(group).values()] for name, group in by_model.items()})


if __name__ == "__main__":
    main()
