"""Figures of single tasks: instruction, score, endings of their episodes, tokens and cost."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apps.evals.plan import Amount, Count, Line, Share, TaskId
from cua.batch.episode import EpisodeResult
from cua.messages import Usage

ENDINGS = {
    "succeeded": "succeeded",
    "claimed_success": "claimed success, scored below 1",
    "gave_up": "gave up",
    "env_ended": "ended by the environment",
    "steps_limit": "step limit",
    "time_limit": "time limit",
    "tokens_limit": "token limit",
    "cost_limit": "cost limit",
    "calls_limit": "limit of tool calls",
    "loop_limit": "went in a loop",
    "parse_errors_limit": "replies could not be used",
    "env_limit": "limit of the environment",
    "failed": "failed",
    "unverified": "no verdict",
    "env_error": "environment error",
    "model_error": "model error",
    "evaluator_error": "evaluator error",
    "timeout": "timeout",
    "stopped": "stopped",
}
"""Endings of an episode as text; for an episode without a score by its kind."""
MAX_INSTRUCTION_CHARS = 500  # with the limit below: texts of the page; the run's report has them whole
MAX_REASON_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigures:
    """Figures of one task.

    Attributes:
        task_id: Id of the task.
        instruction: Beginning of the instruction in the first recorded episode; "" without a record.
        num_episodes: Number of finished episodes.
        score: Mean score, a missing score counted as 0; null without finished episodes.
        endings: Number of episodes by ending.
        num_steps: Total steps of the agent.
        duration_s: Total seconds.
        input_tokens: Total input tokens.
        output_tokens: Total output tokens.
        cost_usd: Total cost in US dollars; null if a price is unknown.
    """

    task_id: TaskId
    instruction: Line = ""
    num_episodes: Count = 0
    score: Share | None = None
    endings: dict[Line, Count]
    num_steps: Count = 0
    duration_s: Amount = 0.0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Amount | None = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """Attempt after which its episode was played again.

    Attributes:
        task_id: As in `EpisodeResult`.
        seed: As in `EpisodeResult`.
        repeat: As in `EpisodeResult`.
        number: 1-based number of the attempt.
        kind: Kind of failure.
        reason: Reason as one line for a person.
        input_tokens: Input tokens of this attempt; not included in the figures.
        output_tokens: Output tokens of this attempt; not included in the figures.
        cost_usd: Cost of this attempt in US dollars, not included in the figures; null if a price is unknown.
        run_dir: Folder of its record.
    """

    task_id: TaskId
    seed: int | None
    repeat: Count
    number: Count
    kind: Line
    reason: Line
    input_tokens: Count
    output_tokens: Count
    cost_usd: Amount | None
    run_dir: Line | None


def describe_failed_attempt(result: EpisodeResult) -> FailedAttempt:
    """Return a failed attempt as an entry of `results.json`."""
    return FailedAttempt(
        task_id=result.task_id,
        seed=result.seed,
        repeat=result.repeat,
        number=result.num_tries,
        kind=result.kind,
        reason=result.reason[:MAX_REASON_CHARS],
        input_tokens=result.usage.input_tokens,
        output_tokens=result.usage.output_tokens,
        cost_usd=result.usage.cost_usd,
        run_dir=result.run_dir,
    )


def ending_of(result: EpisodeResult) -> str:
    """Return the key in `ENDINGS` of a result; for a log of an earlier version, by the score only."""
    if result.score is None:
        return result.kind
    if result.ending in ENDINGS:
        return result.ending
    return "succeeded" if result.score >= 1.0 else "failed"


def figures_of(
    task_ids: Sequence[str], results: Sequence[EpisodeResult], instructions: Mapping[str, str]
) -> Iterator[TaskFigures]:
    """Yield the figures of each task, in order.

    Args:
        task_ids: All tasks.
        results: Finished episodes.
        instructions: Instructions by task id.
    """
    by_task: dict[str, list[EpisodeResult]] = {}
    for result in results:
        by_task.setdefault(result.task_id, []).append(result)
    for task_id in task_ids:
        task_results = by_task.get(task_id, [])
        usage = sum((result.usage for result in task_results), Usage())
        yield TaskFigures(
            task_id=task_id,
            instruction=instructions.get(task_id, ""),
            num_episodes=len(task_results),
            score=math.fsum(result.score or 0.0 for result in task_results) / len(task_results)
            if task_results
            else None,
            endings=dict(Counter(map(ending_of, task_results))),
            num_steps=sum(result.num_steps for result in task_results),
            duration_s=math.fsum(result.duration_s for result in task_results),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
        )
