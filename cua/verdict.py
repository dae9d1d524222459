"""From the state of the world to the end of a run: the task's score decides, the agent's word does not."""

from cua.run.caps import CapReachedError
from cua.run.end import End
from envs import Env, EnvError, Task, Terminate


async def judge(task: Task, env: Env, terminate: Terminate) -> End:
    """How a run ends whose agent said that it is finished."""
    score = await task.evaluate(env)
    answer = terminate.answer
    if score is None and terminate.status == "success":
        reason = "the agent reports success; this task has no check of its own"
        return End(status="unverified", reason=reason, answer=answer)
    if score is None:
        return End(status="failed", reason=f"the agent gave up: {answer or 'no reason given'}", answer=answer)
    if score >= 1.0:
        return End(status="succeeded", reason="the task's own check passed", score=score, answer=answer)
    claim = (
        "although the agent reports success" if terminate.status == "success" else f"the agent gave up: {answer or '-'}"
    )
    return End(status="failed", reason=f"the task's own check gave {score:g}; {claim}", score=score, answer=answer)


async def judge_capped(task: Task, env: Env, cap: CapReachedError) -> End:
    """How a run ends that ran into a limit: never as success, though the score is noted."""
    try:
        score = await task.evaluate(env)
    except EnvError:
        score = None
    return End(status="capped", cap=cap.cap, reason=str(cap), score=score)
