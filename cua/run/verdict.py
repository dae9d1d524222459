"""Converts the end of an episode and its task's verdict to the result of the run."""

from dataclasses import dataclass, replace
from pathlib import Path

from cua.errors import CuaError, TaskError
from cua.json_text import Json
from cua.run.budget import CapReachedError
from cua.run.end import End
from cua.run.foreign import run_task_code
from envs import Env, EnvError, Task, TaskVerdict, Terminate
from envs.env import evaluate_task
from envs.foreign import describe_defect
from visual_tools.errors import SandboxError


async def _evaluate(task: Task, env: "Env | AnswerEnv") -> TaskVerdict:
    """Return the task's verdict; errors other than `EnvError` become `TaskError`."""
    try:
        return await run_task_code(lambda: evaluate_task(task, env))
    except (EnvError, TaskError):
        raise
    except (CuaError, SandboxError) as error:
        raise TaskError(describe_defect(error)) from error


async def judge(task: Task, env: "Env | AnswerEnv", terminate: Terminate | None) -> End:
    """Return the result of a finished episode: ended by the agent, or, without a `terminate`, by the environment."""
    verdict = await _evaluate(task, env)
    score = verdict.score
    answer = terminate.answer if terminate else None
    if score is None and terminate is None:
        reason = "the environment ended the episode; this task has no check of its own"
        return End(status="unverified", reason=reason)
    if score is None and terminate is not None and terminate.status == "failure":
        return End(
            status="failed", reason=f"the agent gave up: {answer or 'no reason given'}", answer=answer, claim="failure"
        )
    if score is None:
        reason = "the agent reports success; this task has no check of its own"
        return End(status="unverified", reason=reason, answer=answer, claim="success")
    fields: Json = {**_more(verdict), "claim": terminate.status if terminate else None}
    if score >= 1.0:
        return End(status="succeeded", reason="the task's own check passed", score=score, answer=answer, **fields)
    reason = f"the task's own check gave {score:g}; {_claim(terminate)}"
    return End(status="failed", reason=reason, score=score, answer=answer, **fields)


def _more(verdict: TaskVerdict) -> Json:
    """Return the other scores and the info of a verdict as fields of an `End`."""
    return {"other_scores": dict(verdict.other_scores), "info": dict(verdict.info)}


def _claim(terminate: Terminate | None) -> str:
    if terminate is None:
        return "the environment ended the episode"
    if terminate.status == "success":
        return "although the agent reports success"
    return f"the agent gave up: {terminate.answer or '-'}"


async def judge_capped(task: Task, env: "Env | AnswerEnv", cap: CapReachedError) -> End:
    """Return the result of a run that reached a limit: never a success, with the score or why it is missing."""
    try:
        verdict = await _evaluate(task, env)
    except EnvError as error:
        reason = f"{cap}; the task's verdict could not be reached: {error}"
        return End(status="capped", cap=cap.cap, source="env", reason=reason, retryable=error.retryable)
    return End(status="capped", cap=cap.cap, reason=str(cap), score=verdict.score, **_more(verdict))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEnv:
    """Replacement for the environment when a `QuestionTask` is evaluated.

    Attributes:
        terminate: Final action of the agent.
        folder: Working folder of the agent.
    """

    terminate: Terminate
    folder: Path | None = None


async def judge_answer(task: Task | None, end: End, folder: Path | None = None) -> End:
    """Return the result of an agent with tools, by its task if it has one; answers at a limit are evaluated as well."""
    if task is None or end.status not in ("unverified", "capped"):
        return end
    terminate = Terminate(status="success", answer=end.answer)
    env = AnswerEnv(terminate=terminate, folder=folder)
    if end.cap is None:
        return await judge(task, env, terminate)
    capped = await judge_capped(task, env, CapReachedError(end.cap, end.reason))
    return replace(capped, answer=end.answer)
