"""Check of a suite before it costs time on GPUs: what is earned without skill, and if its scores can be trusted.

report = await check_rollout_env(load_suite("screens"), solve=solve)
"""

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from cua.batch.episode import make_episodes
from cua.batch.episode_log import EpisodeLog
from cua.batch.player import AgentPlayer
from cua.batch.run import BatchOptions, run_batch
from cua.errors import ConfigError
from cua.models.scripted import BaselineModel
from cua.run.budget import Caps
from envs import Env, EnvSpec, Suite, Task, Wait, registry
from envs.check_suite import NONDETERMINISTIC
from envs.env import evaluate_task
from envs.foreign import abandon
from envs.pool import EnvPool
from envs.supervisor import process_tree

MAX_UNSKILLED_SCORE = 0.05
MIN_SOLVED_SCORE = 0.95
_GONE_S = 10.0  # for processes to disappear after their environment was closed

Solve = Callable[[Task, Env], Awaitable[object]]


class RolloutEnvError(AssertionError):
    """Violations that make a suite unfit for reinforcement learning, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEnvReport:
    """Mean scores of a suite.

    Attributes:
        num_episodes: Number of tasks times seeds.
        null_score: Score of an agent that claims success at once.
        random_score: Score of an agent that clicks at random points first.
        solved_score: Score of the scripted solutions; None without them.
        problems: Violations, one line each.
    """

    num_episodes: int
    null_score: float
    random_score: float
    solved_score: float | None
    problems: tuple[str, ...]


async def check_rollout_env(
    suite: Suite,
    *,
    task_ids: Iterable[str] | None = None,
    max_seeds: int = 2,
    solve: Solve | None = None,
    num_parallel: int = 4,
) -> RolloutEnvReport:
    """Run agents without skill and scripted solutions, evaluate twice, and close an environment during a step.

    Args:
        suite: Suite to check.
        task_ids: Tasks to check; None: all.
        max_seeds: Maximum number of seeds per task.
        solve: Solves a task in an environment that was reset, up to the agent's report; None: not checked.
        num_parallel: Episodes of these agents at a time.

    Raises:
        ConfigError: If the suite is not for GUI agents.
        RolloutEnvError: If an agent without skill scores 0.05 or more on average, a solution less than 0.95, a task is
            solved before any step, a score changes when it is evaluated again, a seed gives another instruction, or
            processes or asyncio tasks are left over.
        EnvError: If an environment cannot be made; this is not a defect of the suite.
    """
    if "gui" not in suite.agents:
        raise ConfigError(f"the suite {suite.name!r} is for {', '.join(suite.agents)}; only `gui` suites are checked")
    chosen = tuple(suite.task_ids if task_ids is None else task_ids)
    keys = [(task_id, seed, 0) for task_id in chosen for seed in suite.seeds[:max_seeds]]
    make_env = suite.make_env or registry.make_env
    problems: list[str] = []
    scores: dict[str, float] = {}
    async with EnvPool(make_env, max_idle=num_parallel) as pool:
        for kind in ("null", "random"):
            scores[kind] = await _play_baseline(suite, keys, kind, pool, num_parallel, problems)
            if scores[kind] >= MAX_UNSKILLED_SCORE:
                problems.append(f"the {kind} agent scores {scores[kind]:.3f}, expected below {MAX_UNSKILLED_SCORE}")
        solved = [await _check_task(suite, *key[:2], pool, solve, problems) for key in keys]
    solved_score = sum(solved) / len(solved) if solve is not None else None
    if solved_score is not None and solved_score < MIN_SOLVED_SCORE:
        problems.append(f"scripted solutions score {solved_score:.3f}, expected at least {MIN_SOLVED_SCORE}")
    problems += await _check_closing(suite.make_task(*keys[0][:2]), make_env)
    if problems:
        raise RolloutEnvError(f"the suite {suite.name!r}:\n" + "\n".join(problems))
    return RolloutEnvReport(
        num_episodes=len(keys),
        null_score=scores["null"],
        random_score=scores["random"],
        solved_score=solved_score,
        problems=tuple(problems),
    )


async def _play_baseline(
    suite: Suite,
    keys: list[tuple[str, int | None, int]],
    kind: str,
    pool: EnvPool,
    num_parallel: int,
    problems: list[str],
) -> float:
    """Return the mean score of an agent without skill; episodes that are not scored are problems."""
    model = BaselineModel(kind)
    episodes = make_episodes(keys, make_task=suite.make_task, take_env=pool.take, make_model=lambda: model)
    caps = Caps(max_steps=suite.max_steps, max_time_s=suite.max_time_s)
    with tempfile.TemporaryDirectory(prefix="k25-check-") as folder, EpisodeLog(Path(folder)) as log:
        play = AgentPlayer(Path(folder) / "runs", approve=suite.approve, max_steps=suite.max_steps)
        options = BatchOptions(num_parallel=num_parallel, caps=caps)
        summary = await run_batch(episodes, play, log=log, options=options)
    for result in summary.results:
        if result.score is None:
            problems.append(f"{result.task_id} with seed {result.seed}: {kind} ended as {result.kind}: {result.reason}")
    return sum(result.score or 0.0 for result in summary.results) / len(keys)


async def _check_task(
    suite: Suite, task_id: str, seed: int | None, pool: EnvPool, solve: Solve | None, problems: list[str]
) -> float:
    """Check the scores of one task, and return the score of its solution; 0 without one."""
    name = f"{task_id} with seed {seed}"
    first = suite.make_task(task_id, seed)
    if first.spec.env is None:
        problems.append(f"{name} names no environment")
        return 0.0
    instruction = await _untouched(first, first.spec.env, pool, name, problems)
    again = suite.make_task(task_id, seed)
    env = await pool.take(first.spec.env)
    try:
        await env.reset(again)
        is_same = _without_ports(again.instruction) == _without_ports(instruction)
        if not is_same and not again.spec.metadata.get(NONDETERMINISTIC):
            problems.append(f"{name} is {instruction!r}, then {again.instruction!r}")
        if solve is None:
            return 0.0
        await solve(again, env)
        score = await _evaluate_twice(again, env, f"{name}, solved", problems)
        await again.teardown(env)
        if score is None or score < MIN_SOLVED_SCORE:
            problems.append(f"{name}: its scripted solution scores {score}")
        return score or 0.0
    finally:
        await env.close()


def _without_ports(instruction: str) -> str:
    """Leave out the ports of servers that a task starts on this machine."""
    return re.sub(r"\b(127\.0\.0\.1|localhost):\d+", r"\1", instruction)


async def _untouched(task: Task, spec: EnvSpec, pool: EnvPool, name: str, problems: list[str]) -> str:
    """Evaluate a task before any step, and return its instruction."""
    env = await pool.take(spec)
    try:
        await env.reset(task)
        score = await _evaluate_twice(task, env, f"{name}, before any step", problems)
        await task.teardown(env)
    finally:
        await env.close()
    if score == 1.0:
        problems.append(f"{name} is solved before any step")
    return task.instruction


async def _evaluate_twice(task: Task, env: Env, name: str, problems: list[str]) -> float | None:
    first, second = [(await evaluate_task(task, env)).score for _ in range(2)]
    if first != second:
        problems.append(f"{name}, scores {first}, and {second} when it is evaluated again")
    return first


async def _check_closing(task: Task, make_env: Callable[[EnvSpec], Env]) -> list[str]:
    """Cancel a step and close the environment, as at a time limit, and return what is left over."""
    if task.spec.env is None:
        return []
    processes, tasks = process_tree(os.getpid()), asyncio.all_tasks()
    env = make_env(task.spec.env)
    await env.reset(task)
    step = asyncio.ensure_future(env.step([Wait(duration_s=2.0)]))
    await asyncio.sleep(0.05)
    step.cancel()
    await asyncio.wait({step}, timeout=_GONE_S)
    if not step.done():
        abandon(step)
        return [f"a step still runs {_GONE_S:g} s after it was cancelled"]
    await env.close()
    give_up_at = time.monotonic() + _GONE_S
    while True:
        left = process_tree(os.getpid()) - processes
        left_tasks = [other for other in asyncio.all_tasks() - tasks if not other.done()]
        if not left and not left_tasks:
            return []
        if time.monotonic() > give_up_at:
            return [f"closing during a step leaves the processes {sorted(left)} and the tasks {left_tasks}"]
        await asyncio.sleep(0.1)
