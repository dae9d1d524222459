"""Calls tasks and environments of third parties, and converts their exceptions to known error classes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from cua.errors import CuaError, TaskError
from cua.run.budget import CapReachedError
from cua.run.control import StoppedError
from envs import Action, ActionCheck, Env, EnvError, Observation, ReadableScreen, ScreenTexts, StepResult, Task
from envs.errors import EvaluationError
from envs.foreign import contained, describe_defect
from visual_tools.errors import SandboxError

T = TypeVar("T")
_OURS = (EnvError, CuaError, SandboxError)


async def run_task_code(call: Callable[[], Awaitable[T]]) -> T:
    """Await code of a task; exceptions of unknown classes become `TaskError`."""
    try:
        with contained():
            return await call()
    except _OURS:
        raise
    except EvaluationError as error:
        raise TaskError(str(error)) from error
    except Exception as error:
        raise TaskError(describe_defect(error)) from error


async def reset_env(env: Env, task: Task) -> Observation:
    """Reset an environment, which sets the task up.

    Raises:
        EnvError: If the environment raises it, or does not return an observation.
        TaskError: If the task's `setup`, or the environment's own code, raises anything else.
    """
    result: object = await run_task_code(lambda: env.reset(task))
    if not isinstance(result, Observation):
        raise EnvError(f"reset() returned a {type(result).__name__}, expected an Observation", retryable=False)
    return result


async def step_env(env: Env, actions: Sequence[Action], check: ActionCheck | None = None) -> StepResult:
    """Execute one step in an environment.

    Raises:
        EnvError: If the environment raises it, raises anything else, or does not return a `StepResult`.
        StoppedError: If `check` raises it.
        CapReachedError: If `check` raises it.
    """
    try:
        with contained():
            result: object = await env.step(actions, check)
    except (*_OURS, StoppedError, CapReachedError):
        raise
    except Exception as error:
        raise EnvError(f"the environment's own code raised {describe_defect(error)}", retryable=False) from error
    if not isinstance(result, StepResult):
        raise EnvError(f"step() returned a {type(result).__name__}, expected a StepResult", retryable=False)
    return result


async def read_env_texts(env: ReadableScreen, timeout_s: float) -> ScreenTexts:
    """Read the texts of a screen; on failure or timeout there are none, and `is_cut` is set."""
    result: object = None
    with contextlib.suppress(*_OURS):
        result = await run_task_code(lambda: asyncio.wait_for(env.read_texts(), timeout_s))
    return result if isinstance(result, ScreenTexts) else ScreenTexts(is_cut=True)
