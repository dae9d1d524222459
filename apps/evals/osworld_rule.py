"""The score that OSWorld's own harness would give to an episode of the suite `osworld`.

Source: `lib_run_single.py` of xlang-ai/OSWorld.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from apps.evals.plan import EvalPlan
from apps.evals.statistics import Key
from cua.batch import EpisodeResult
from envs.errors import EnvSetupError
from envs.suites.osworld.task_file import UPSTREAM, TaskData

SUITE = "osworld"


def upstream_scores(
    plan: EvalPlan, results: Iterable[EpisodeResult], is_capped: Callable[[EpisodeResult], bool]
) -> dict[Key, float]:
    """The harness's score of each episode that is scored.

    It replaces the action of the last step that is allowed by FAIL, whatever the agent does there, and takes an agent
    that never ends for one that fails: right where a task cannot be done, and wrong everywhere else.

    Args:
        plan: What is evaluated.
        results: The episodes.
        is_capped: Whether the run of an episode ended at a limit.
    """
    infeasible = _infeasible(plan)
    found = {}
    for one in results:
        if one.score is not None:
            is_infeasible = one.task_id.partition("/")[2] in infeasible
            fails = one.num_steps >= plan.max_steps or is_capped(one)
            found[one.key] = float(is_infeasible) if fails else one.other_scores.get(UPSTREAM, one.score)
    return found


def _infeasible(plan: EvalPlan) -> frozenset[str]:
    """Keys of the tasks that cannot be done, in the data that was evaluated; in ours where that is gone."""
    given = str(plan.suite_options.get("data") or "")
    try:
        data = TaskData(Path(given) if given else None)
    except EnvSetupError:
        data = TaskData()
    return frozenset(data.keys("infeasible"))
