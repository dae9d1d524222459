"""Score of an episode of the suite `osworld` by the rule of OSWorld's own harness.

Source: `lib_run_single.py` of xlang-ai/OSWorld.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from apps.evals.plan import EvalPlan
from apps.evals.statistics import Key
from cua.batch.episode import EpisodeResult
from envs.errors import EnvSetupError
from envs.suites.osworld.task_file import UPSTREAM, OsworldTaskData

SUITE = "osworld"


def upstream_scores(
    plan: EvalPlan, results: Iterable[EpisodeResult], is_capped: Callable[[EpisodeResult], bool]
) -> dict[Key, float]:
    """Return the harness's score of each scored episode.

    The harness replaces the action of the last allowed step by FAIL, and treats an agent that never ends as one that
    answers FAIL: correct for an infeasible task, and wrong for all others.

    Args:
        plan: Plan of the evaluation.
        results: The episodes.
        is_capped: Returns True if the run of an episode ended at a limit.
    """
    infeasible = _infeasible(plan)
    scores = {}
    for result in results:
        if result.score is not None:
            is_infeasible = result.task_id.partition("/")[2] in infeasible
            fails = result.num_steps >= plan.max_steps or is_capped(result)
            scores[result.key] = float(is_infeasible) if fails else result.other_scores.get(UPSTREAM, result.score)
    return scores


def _infeasible(plan: EvalPlan) -> frozenset[str]:
    """Return the keys of infeasible tasks in the evaluated data, or in the built-in data if that is missing."""
    data_name = str(plan.suite_options.get("data") or "")
    try:
        data = OsworldTaskData(Path(data_name) if data_name else None)
    except EnvSetupError:
        data = OsworldTaskData()
    return frozenset(data.keys("infeasible"))
