"""One try at a task: what to run, its states, its end, and what its code may ask for while it runs."""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cua.errors import ConfigError
from cua.rollouts.samples import RolloutSample
from envs import Env, EnvSpec
from envs.foreign import contained

RolloutState = Literal["queued", "acquiring", "resetting", "running", "waiting", "evaluating"]
"""States before the end. `waiting`: for sub-tasks, without an environment."""
RolloutEndKind = Literal["scored", "excluded", "stale", "error"]
"""Kinds of ends. `excluded`: no score, and not the agent's failure, such as an evaluation that failed; `stale`: scored,
but sampled by a policy that is too old to train on; `error`: the environment, the model or code failed."""
POLICY = "policy"
"""Name of the policy that is trained; samples of others, such as `frozen:nano@3`, have an empty mask."""
_CANCEL_AGAIN_S = 5.0
_CONTEXT = contextvars.Context()  # of all timers, which need no context variables: one for each would take 64 bytes
STOPPED = "stopped"
"""Reason of an `excluded` rollout that was stopped from outside; another process that resumes runs it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLimits:
    """Time limits of the states of an attempt; None: no limit.

    Attributes:
        acquire_s: Seconds until an environment is leased, including the wait for a free one.
        reset_s: Seconds of a reset, which sets the task up.
        run_s: Seconds in the state `running`, without those in `waiting`.
        evaluate_s: Seconds of an evaluation.
    """

    acquire_s: float | None = 3_600.0
    reset_s: float | None = 120.0
    run_s: float | None = 3_600.0
    evaluate_s: float | None = 300.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if (limit := getattr(self, name)) is not None and limit <= 0:
                raise ConfigError(f"{name} is {limit}, expected a number of seconds above 0, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOutcome:
    """Result of an attempt.

    Attributes:
        score: Score in [0, 1]; None excludes the rollout from its group, for `reason`.
        reason: One line for a person.
        is_truncated: True if a limit cut the rollout off; the score rates the state at that time.
        parts: Scores by other rules, by name.
        branches: Samples, whose weights add up to 1; empty if the tokens are not recorded.
    """

    score: float | None
    reason: str = ""
    is_truncated: bool = False
    parts: Mapping[str, float] = field(default_factory=dict)
    branches: tuple[RolloutSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEnd:
    """End of a rollout; each rollout has exactly one.

    Attributes:
        kind: See `RolloutEndKind`.
        reason: One line for a person.
        score: Score in [0, 1] if `scored` or `stale`, otherwise None: an error is never a score of 0.
        is_truncated: True if a limit cut the rollout off.
        num_attempts: Number of attempts in all processes.
        version: Version of the policy when the last attempt started.
        run_dir: Folder of the record of the last attempt, in the journal relative to its folder; None without one.
    """

    kind: RolloutEndKind
    reason: str = ""
    score: float | None = None
    is_truncated: bool = False
    num_attempts: int = 1
    version: int = 0
    run_dir: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSpec:
    """Task of a rollout, and how to run it.

    Attributes:
        task_id: Id of the task, such as `miniwob/click-button`.
        seed: Seed of the task; None if nothing is drawn.
        play: Runs one attempt; see `cua.rollouts.play` for agents.
        env: Environment that `Rollout.acquire` leases; None: the task needs none.
        limits: Time limits.
        policy: Policy that samples; only the tokens of `POLICY` are trained.
        draws: Names and values of what was drawn for the group, such as its system prompt; recorded.
    """

    task_id: str
    seed: int | None = None
    play: "Callable[[Rollout], Awaitable[RolloutOutcome]]" = field(repr=False)
    env: EnvSpec | None = None
    limits: RolloutLimits = RolloutLimits()
    policy: str = POLICY
    draws: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutServices:
    """Functions of the scheduler for its rollouts.

    Attributes:
        moved: Called with the earlier state when the rollout has entered another.
        take_env: Leases an environment.
        run_children: Runs sub-tasks and returns their ends.
        get_version: Returns the current version of the policy.
    """

    moved: "Callable[[Rollout, RolloutState], None]"
    take_env: Callable[[EnvSpec], Awaitable[Env]]
    run_children: "Callable[[Rollout, Sequence[RolloutSpec]], Awaitable[Sequence[RolloutEnd]]]"
    get_version: Callable[[], int]


class Rollout:
    """Running rollout, as its code sees it.

    Attributes:
        id: Unique id: group and member, preceded by the parent's id for a sub-task.
        spec: What is run.
        depth: 1 for a submitted rollout, 2 for its sub-tasks, and so on.
        attempt: Number of the attempt, from 1.
        version: Version of the policy when the attempt started.
        state: Current state.
        since: Time of `time.monotonic` when the state was entered.
        stop_reason: Reason why the rollout is being cancelled from outside; "" if it is not.
        expired: State whose time limit was reached in this attempt; None if none was.
        task: Asyncio task that runs it.
        num_children: Number of sub-tasks of this attempt so far.
        run_dir: Folder of the agent's record in this attempt; set by the code that runs it, None without one.
        end: End of the last attempt; None before that.
        is_ending: True while the end is recorded, which is not cancelled.
    """

    __slots__ = (
        "_counted_from",
        "_env",
        "_is_paused",
        "_run_left_s",
        "_services",
        "_timer",
        "attempt",
        "depth",
        "end",
        "expired",
        "id",
        "is_ending",
        "num_children",
        "run_dir",
        "since",
        "spec",
        "state",
        "stop_reason",
        "task",
        "version",
    )

    def __init__(self, id: str, spec: RolloutSpec, services: RolloutServices, *, depth: int, attempt: int) -> None:
        self.id = id
        self.spec = spec
        self.depth = depth
        self.attempt = attempt
        self.version = 0
        self.state: RolloutState = "queued"
        self.since = time.monotonic()
        self.stop_reason = ""
        self.expired: RolloutState | None = None
        self.task: asyncio.Task[RolloutEnd] | None = None
        self.num_children = 0
        self.run_dir: str | None = None
        self.end: RolloutEnd | None = None
        self.is_ending = False
        self._services = services
        self._env: Env | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._run_left_s = spec.limits.run_s
        self._counted_from = self.since
        self._is_paused = False

    @property
    def current_version(self) -> int:
        """Current version of the policy, for the version spans of samples."""
        return self._services.get_version()

    def begin_attempt(self) -> None:
        """Start an attempt, with all of the time to run; called by the scheduler."""
        self.attempt += 1
        self.version = self._services.get_version()
        self.expired = None
        self.num_children = 0
        self.run_dir = None
        self._run_left_s = self.spec.limits.run_s
        self.enter("acquiring" if self.spec.env is not None else "running")

    def enter(self, state: RolloutState) -> None:
        """Enter a state: record it, and start its time limit."""
        earlier = self.state
        self._count_time()
        self.state, self.since = state, time.monotonic()
        self._services.moved(self, earlier)
        self._start_timer()

    async def acquire(self) -> Env:
        """Lease the environment of the spec, and return an earlier one. It is returned when the attempt ends.

        Raises:
            EnvError: If the environment cannot be made.
            ConfigError: If the spec names no environment.
        """
        if self.spec.env is None:
            raise ConfigError(f"the rollout {self.id} needs an environment, and its spec names none")
        await self.release()
        if self.state != "acquiring":
            self.enter("acquiring")
        self._env = await self._services.take_env(self.spec.env)
        return self._env

    async def release(self) -> None:
        """Return the environment to its pool, if one is leased."""
        env, self._env = self._env, None
        if env is not None:
            with contextlib.suppress(Exception), contained():  # a pool has dropped it, and the score is known
                await env.close()

    async def run_children(self, *specs: RolloutSpec) -> Sequence[RolloutEnd]:
        """Run sub-tasks and return their ends, in order.

        The environment is returned first, as sub-tasks may need the same pool: what comes after must acquire and reset
        another. If this rollout is cancelled, its sub-tasks are cancelled, too.

        Raises:
            ConfigError: If sub-tasks of this depth are not allowed.
        """
        return await self._services.run_children(self, specs)

    def limit_s(self, state: RolloutState) -> float | None:
        """Return the time limit of a state; None if it has none, such as `waiting`: sub-tasks have their own."""
        limits = self.spec.limits
        by_state: dict[RolloutState, float | None] = {
            "acquiring": limits.acquire_s,
            "resetting": limits.reset_s,
            "running": limits.run_s,
            "evaluating": limits.evaluate_s,
        }
        return by_state.get(state)

    def stop(self, reason: str) -> None:
        """Cancel the rollout from outside."""
        self.stop_reason = self.stop_reason or reason
        self._cancel()

    def set_paused(self, is_paused: bool) -> None:
        """Stop the time of the state `running` while its code waits for the model, or let it go on."""
        self._count_time()
        self._is_paused = is_paused
        if self.state == "running":
            self._start_timer()

    def uncancel(self) -> None:
        """Make the task usable after a cancellation that has become the rollout's end."""
        while self.task is not None and self.task.cancelling():
            self.task.uncancel()

    def end_timer(self) -> None:
        """Stop the time limit of the current state."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _count_time(self) -> None:
        """Subtract the time since the timer was started from that of the state `running`."""
        if self.state == "running" and self._run_left_s is not None and not self._is_paused:
            self._run_left_s -= time.monotonic() - self._counted_from

    def _start_timer(self) -> None:
        self.end_timer()
        self._counted_from = time.monotonic()
        limit_s = self._run_left_s if self.state == "running" else self.limit_s(self.state)
        if limit_s is not None and not (self._is_paused and self.state == "running"):
            self._timer = asyncio.get_running_loop().call_later(max(0.0, limit_s), self._expire, context=_CONTEXT)

    def _expire(self) -> None:
        """Cancel the attempt, and again later if its code ignores that."""
        self.expired = self.expired or self.state
        self._cancel()
        self._timer = asyncio.get_running_loop().call_later(_CANCEL_AGAIN_S, self._expire, context=_CONTEXT)

    def _cancel(self) -> None:
        if self.task is not None and not self.is_ending:
            self.task.cancel()
