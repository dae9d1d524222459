"""An evaluation as tables in Markdown: by site, family, label and task, by other rules, with claims that were not so.

    python -m benchmarks.evaluation_table FOLDER [--together click,enter,choose]

*Right*: score 1. A claim is *wrong* when the agent reports success and the score is 0; claims at a score between 0 and
1 are counted apart. An error is an episode without a verdict.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from apps.evals.results import load_evaluation
from apps.evals.statistics import is_success, summarize
from apps.evals.text import RULES, describe_interval, describe_share
from cua.batch import EpisodeResult

_CLAIMED = "although the agent reports success"
"""In the reason of an episode that did not score 1 and whose agent said that it was done."""


def print_tables(folder: Path, together: Sequence[str]) -> None:
    """All episodes, the families `together` as one row, then each site (where there are several), family and task."""
    evaluation = load_evaluation(folder)
    results, family_of = evaluation.results, evaluation.plan.families
    groups: dict[str, list[EpisodeResult]] = {f"**all, {len(evaluation.plan.task_ids)} tasks**": list(results)}
    if together:
        groups[f"**{', '.join(together)}**"] = [one for one in results if family_of.get(one.task_id) in together]
    sites, families = defaultdict(list), defaultdict(list)
    tasks: dict[str, list[EpisodeResult]] = defaultdict(list)
    for one in results:
        sites[one.task_id.partition("/")[0]].append(one)
        families[family_of.get(one.task_id, "-")].append(one)
        tasks[one.task_id].append(one)
    groups |= sites if len(sites) > 1 else {}
    groups |= {f"*{name}*": group for name, group in sorted(families.items())}
    clusters = evaluation.plan.labels.get(evaluation.plan.cluster_by, {})
    for label, labelled in evaluation.plan.labels.items():
        by_label: dict[str, list[EpisodeResult]] = defaultdict(list)
        for one in results:
            by_label[labelled.get(one.task_id, "-")].append(one)
        groups |= {f"{label}: {name}": by_label[name] for name in sorted(by_label, key=lambda name: (len(name), name))}
    for name, others in evaluation.figures.by_rule.items():
        told = f"{describe_share(others.mean_full)} ({describe_interval(others.mean_full_interval)})"
        print(f"The {RULES.get(name, f'score by the rules {name}')}: {told}.\n")
    print("| | episodes | right | 95 % interval | mean score | wrong claims | errors |\n" + "|---" * 7 + "|")
    for name, group in groups.items():
        if group:
            print(_line(name, group, clusters))
    partly = sum(_CLAIMED in one.reason and one.score not in (0, None) for one in results)
    print(f"\nClaims at a score between 0 and 1: {partly}.\n")
    _print_tasks(tasks)


def _line(name: str, group: Sequence[EpisodeResult], clusters: Mapping[str, str]) -> str:
    figures = summarize(group, clusters)
    wrong = sum(one.score == 0 and _CLAIMED in one.reason for one in group)
    return (
        f"| {name} | {len(group)} | {figures.num_succeeded} ({describe_share(figures.success_full)})"
        f" | {describe_interval(figures.success_full_interval)} | {figures.mean_full or 0.0:.3f}"
        f" | {wrong} ({describe_share(wrong / len(group))}) | {len(group) - figures.num_scored} |"
    )


def _print_tasks(tasks: dict[str, list[EpisodeResult]]) -> None:
    by_score: dict[str, list[str]] = defaultdict(list)
    for task_id, group in tasks.items():
        name = task_id.rpartition("/")[2]
        by_score[f"{sum(is_success(one.score) for one in group)} of {len(group)}"].append(name)
    print("| right | tasks |\n|---|---|")
    for score, names in sorted(by_score.items(), reverse=True):
        print(f"| {score} | {', '.join(names)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of `cua eval`")
    parser.add_argument("--together", default="", help="families that get one row, with commas between them")
    given = parser.parse_args()
    print_tables(given.folder, [name for name in given.together.split(",") if name])


if __name__ == "__main__":
    main()
