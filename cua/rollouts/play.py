"""Rollouts of episodes: any `Player` of a batch (GUI agent, tools, swarm) as a `RolloutSpec`."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import cast

from cua.batch.episode import Episode, Player, classify_end
from cua.errors import ModelError
from cua.model import Model
from cua.rollouts.prompts import RolloutPrompt
from cua.rollouts.rollout import Rollout, RolloutLimits, RolloutOutcome, RolloutSpec
from cua.rollouts.samples import RolloutSample
from cua.run.budget import Caps
from cua.run.end import RunResult
from cua.run.scope import RunScope
from envs import Env, EnvError, EnvSpec, Observation, Task, TaskVerdict

_GRACE_S = 30.0  # for an agent to end its last step, and be evaluated, after its time limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSession:
    """Model of one attempt, whose replies are recorded.

    Attributes:
        model: Model of the agent, and of its sub-agents.
        read_branches: Returns the samples after the run.
    """

    model: Model
    read_branches: Callable[[], Awaitable[Sequence[RolloutSample]]]


def make_episode_spec(
    episode: Episode,
    player: Player,
    *,
    scope: RunScope,
    env: EnvSpec | None = None,
    caps: Caps | None = None,
    limits: RolloutLimits | None = None,
    prompt: RolloutPrompt | None = None,
    open_session: Callable[[Rollout], AbstractAsyncContextManager[ModelSession]] | None = None,
) -> RolloutSpec:
    """Return the spec of an episode.

    The agent ends itself after `limits.run_s`, and is evaluated then; it is cancelled 30 s later.

    Args:
        episode: Task, model, and, without `env`, environment.
        player: Player that runs it; gets environment and task as in a batch.
        scope: Budget and control that all rollouts share.
        env: Environment that the scheduler leases; None: the player needs none, or `episode.make_env` makes it.
        caps: Limits of the agent; None: the defaults.
        limits: Time limits of the states; None: the defaults.
        prompt: What was drawn for the group: its constraints follow the instruction and are part of the score. System
            prompt, tools and scale of images are settings of the player.
        open_session: Opens the model of an attempt instead of that of `episode`; see `GatewayModels.open`. None: tokens
            are not recorded.
    """
    caps, limits = caps or Caps(), limits or RolloutLimits()
    if limits.run_s is not None:
        caps = replace(caps, max_time_s=min(limits.run_s, caps.max_time_s or limits.run_s))
        limits = replace(limits, run_s=limits.run_s + _GRACE_S)

    agent_caps, drawn = caps, prompt or RolloutPrompt()

    async def play(rollout: Rollout) -> RolloutOutcome:
        async with open_session(rollout) if open_session else nullcontext() as session:
            staged = replace(
                episode,
                make_task=lambda: _stage_task(episode.make_task(), rollout, drawn.suffix),
                make_env=lambda: _take_env(episode, rollout),
                make_model=(lambda: session.model) if session else episode.make_model,
            )
            run_scope = scope.make_run(agent_caps)
            try:
                run = await player(staged, run_scope)
            finally:
                rollout.run_dir = run_scope.run_dir
            outcome = drawn.judge(make_outcome(run), run.end.answer)
            return replace(outcome, branches=tuple(await session.read_branches()) if session else ())

    draws = {} if prompt is None else prompt.to_json()
    return RolloutSpec(task_id=episode.task_id, seed=episode.seed, play=play, env=env, limits=limits, draws=draws)


def make_outcome(run: RunResult) -> RolloutOutcome:
    """Return the outcome of a run; a run that reached a limit has the score of what it left behind.

    Raises:
        EnvError: If the environment failed.
        ModelError: If the model failed.
    """
    end = run.end
    kind, score = classify_end(end)
    is_truncated = end.status == "capped"
    if kind == "timeout" and end.source is None:
        score = end.score
    if kind == "env_error":
        raise EnvError(end.reason, retryable=end.retryable)
    if kind == "model_error":
        raise ModelError(end.reason, retryable=end.retryable)
    return RolloutOutcome(score=score, reason=end.reason, is_truncated=is_truncated, parts=dict(end.other_scores))


async def _take_env(episode: Episode, rollout: Rollout) -> Env:
    if rollout.spec.env is not None:
        env = await rollout.acquire()
    else:
        rollout.enter("acquiring")
        made = episode.make_env()
        env = await made if isawaitable(made) else made

    async def reset(task: Task) -> Observation:
        rollout.enter("resetting")
        observation = await env.reset(task)
        rollout.enter("running")
        return observation

    return cast(Env, _Overridden(env, {"reset": reset}))


def _stage_task(task: Task, rollout: Rollout, suffix: str) -> Task:
    async def evaluate(env: object) -> TaskVerdict:
        rollout.enter("evaluating")
        return await task.evaluate(env)

    return cast(Task, _Overridden(task, {"evaluate": evaluate}, suffix))


class _Overridden:
    """Object of third parties with some methods replaced; everything else, its class included, is the original's."""

    __slots__ = ("_methods", "_original", "_suffix")

    def __init__(self, original: object, methods: dict[str, object], suffix: str = "") -> None:
        for name, value in (("_original", original), ("_methods", methods), ("_suffix", suffix)):
            object.__setattr__(self, name, value)

    def __getattribute__(self, name: str) -> object:
        methods = object.__getattribute__(self, "_methods")
        if name in methods:
            return methods[name]
        value: object = getattr(object.__getattribute__(self, "_original"), name)
        return f"{value}{object.__getattribute__(self, '_suffix')}" if name == "instruction" else value

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_original"), name, value)
