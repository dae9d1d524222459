"""Checker of suites, for the tests of every suite, including user-defined ones.

    await check_suite(make_suite)

Each clause is one function below; the error names the violated clause and the task.
"""

import random
from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn

from envs import registry
from envs.actions import Terminate
from envs.env import Env, EnvSpec, QuestionTask, Task, TaskSpec, check_task, evaluate_task
from envs.errors import EnvError, EvaluationError
from envs.pool import EnvPool
from envs.suite import FAMILY, Suite

NONDETERMINISTIC = "nondeterministic"
"""Metadata key of a task; True if the same seed may give different tasks."""
_MAX_INSTRUCTION_CHARS = 20_000  # longer than any task in words: probably a file was read by mistake


class SuiteContractError(AssertionError):
    """Violation of the contract by a suite; the text starts with the name of the clause."""


async def check_suite(
    make_suite: Callable[[], Suite],
    *,
    task_ids: Iterable[str] | None = None,
    sample: int | None = None,
    max_seeds: int = 2,
    make_env: Callable[[EnvSpec], Env] | None = None,
    env: EnvSpec | None = None,
) -> None:
    """Check a suite: its list, and each of its tasks with an agent that does nothing.

    Two episodes are run per task and seed, in reused environments.

    Args:
        make_suite: Factory of the suite; called twice.
        task_ids: Tasks to check; None: all.
        sample: Number of tasks to draw from them, the same ones each time; None: all.
        max_seeds: Maximum number of seeds per task.
        make_env: Factory of the environments; None: `Suite.make_env`.
        env: Environment of tasks that name none.

    Raises:
        SuiteContractError: If a clause is violated.
        EnvError: If an environment could not be made; this is not a defect of the suite.
    """
    suite = make_suite()
    _check_list(suite, make_suite())
    chosen = tuple(suite.task_ids if task_ids is None else task_ids)
    if sample is not None and sample < len(chosen):
        chosen = tuple(random.Random(0).sample(chosen, sample))
    async with EnvPool(make_env or suite.make_env or registry.make_env) as pool:
        for task_id in chosen:
            for seed in suite.seeds[:max_seeds]:
                await _check_task(suite, task_id, seed, pool, env)


def _check_list(suite: Suite, again: Suite) -> None:
    clause = "a suite made twice is the same"
    for name in ("name", "task_ids", "seeds", "revision"):
        if getattr(suite, name) != getattr(again, name):
            _fail(clause, "", f"its {name} changed")
    for name, baseline in suite.baselines.items():
        if not 0.0 <= baseline.score <= 1.0 or baseline.num_episodes < 1 or not baseline.command:
            _fail("a baseline is a score of episodes, with its command", name, str(baseline))


async def _check_task(suite: Suite, task_id: str, seed: int | None, pool: EnvPool, default: EnvSpec | None) -> None:
    attempt = f"{task_id} with seed {seed}"
    spec = _check_spec(suite, task_id, seed, attempt)
    needs = spec.env or default
    if needs is None:
        _fail("a task names its environment", attempt, "its spec has no env, and no default was given")
    first = await _play_nothing(suite.make_task(task_id, seed), needs, pool, attempt)
    second = await _play_nothing(suite.make_task(task_id, seed), needs, pool, attempt)
    if first != second and not spec.metadata.get(NONDETERMINISTIC):
        _fail(
            "a seed gives the same task each time",
            attempt,
            f"{first[0]!r} with score {first[1]}, then {second[0]!r} with {second[1]}; if that cannot be helped, set "
            f"{NONDETERMINISTIC!r} in its metadata",
        )


def _check_spec(suite: Suite, task_id: str, seed: int | None, attempt: str) -> TaskSpec:
    clause = "a task says which one it is"
    task = suite.make_task(task_id, seed)
    try:
        check_task(task)
    except TypeError as error:
        _fail("a task is an envs.Task", attempt, str(error), error)
    spec = task.spec
    if suite.agents != ("gui",) and not isinstance(task, QuestionTask):
        _fail(
            "tasks for agents with tools are questions", attempt, f"it is no `Question`, and agents are {suite.agents}"
        )
    if (spec.id, spec.seed) != (task_id, seed):
        _fail(clause, attempt, f"its spec says {spec.id!r} with seed {spec.seed}")
    if suite.make_task(task_id, seed).spec != spec:
        _fail(clause, attempt, "made twice, its specs differ")
    if not isinstance(spec.metadata.get(FAMILY), str):
        _fail("a task has a family", attempt, f"{FAMILY!r} in its metadata is {spec.metadata.get(FAMILY)!r}")
    return spec


async def _play_nothing(task: Task, needs: EnvSpec, pool: EnvPool, attempt: str) -> tuple[str, float]:
    """Run an episode that claims success at once, and return the instruction and the score, which must be 0."""
    env = await pool.take(needs)
    try:
        await _own(env.reset(task), "setup raises nothing but an EnvError", attempt)
        instruction = task.instruction
        if not 0 < len(instruction.strip()) <= _MAX_INSTRUCTION_CHARS:
            _fail("a task has an instruction once it is set up", attempt, f"it has {len(instruction)} characters")
        await env.step([Terminate(status="success")])
        score = await _verdict(task, env, attempt)
        if await _verdict(task, env, attempt) != score:
            _fail("evaluating twice gives the same", attempt, f"first {score}")
        if score != 0.0:
            _fail("doing nothing scores 0", attempt, f"an agent that claims success at once gets {score:g}")
        await _own(task.teardown(env), "teardown raises nothing but an EnvError", attempt)
    finally:
        await env.close()
    return instruction, score


async def _verdict(task: Task, env: Env, attempt: str) -> float:
    try:
        score = (await evaluate_task(task, env)).score
    except EnvError:
        raise
    except EvaluationError as error:
        _fail("a verdict is a number in [0, 1]", attempt, str(error), error)
    except Exception as error:  # tasks are third-party code
        _fail("evaluate raises nothing but an EnvError", attempt, f"{type(error).__name__}: {error}", error)
    if score is None:
        _fail("a verdict is a number in [0, 1]", attempt, "it is None")
    return score


async def _own(work: Awaitable[object], clause: str, attempt: str) -> None:
    """Await code of a task."""
    try:
        await work
    except EnvError:
        raise
    except Exception as error:  # tasks are third-party code
        _fail(clause, attempt, f"{type(error).__name__}: {error}", error)


def _fail(clause: str, attempt: str, problem: str, cause: Exception | None = None) -> NoReturn:
    raise SuiteContractError(f"{clause}: {f'{attempt}: ' if attempt else ''}{problem}") from cause
