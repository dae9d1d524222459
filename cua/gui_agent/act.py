"""From actions to the next observation: guard, record, secrets, world."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cua.answer import AnswerSchema
from cua.errors import CodeError
from cua.guard import Guard, RequestGuard, StepCheck, Verdict
from cua.gui_agent.decide import Decision
from cua.gui_agent.page_texts import PageTexts
from cua.redaction import Masker, redacted
from cua.run.budget import CapReachedError
from cua.run.control import StoppedError
from cua.run.foreign import step_env
from cua.run.scope import RunScope
from cua.secrets import Secrets
from cua.step import Step
from envs import Action, Env, Observation, StepResult, Terminate, VersionedScreen


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Result of carrying out one decision.

    Attributes:
        observation: What the agent sees next.
        error: Why something was refused or failed, None when all went well.
        is_over: Whether the episode has ended, by the agent or by the env.
        is_cut_off: Whether the env has cut it off by a limit of its own.
        terminate: The action that ended the episode; None when the env did.
        reward: What the env measured in this step.
        info: The env's facts of the step, for the operator.
        timings: Seconds by stage.
    """

    observation: Observation
    error: str | None = None
    is_over: bool = False
    is_cut_off: bool = False
    terminate: Terminate | None = None
    reward: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExecutor:
    """Carries out decisions that the guard lets pass, after they are on disk."""

    env: Env
    guard: Guard
    secrets: Secrets
    masker: Masker | None
    schema: AnswerSchema | None
    scope: RunScope
    requests: RequestGuard
    pages: PageTexts

    async def act(self, index: int, decision: Decision, observation: Observation) -> StepOutcome:
        """Carry out one decision, or refuse it whole.

        Raises:
            EnvDiedError: The world is gone.
            StoppedError: A person stopped the run meanwhile; the step may be carried out in part.
            CapReachedError: The time was used up meanwhile; the same.
            TrajectoryError: The record cannot be written; nothing was carried out then.
        """
        started = time.monotonic()
        try:
            await self.scope.control.unless_stopped(self.pages.check(decision, observation))
            verdict = await self._guard(decision, observation)
            self._check_answer(decision.actions)
            filled = self.secrets.fill(decision.actions)
        except CodeError as error:
            self.scope.note("refused", str(error))
            return StepOutcome(
                observation=replace(observation, last_action_error=str(error), notes=()),
                error=str(error),
                timings={"guard": time.monotonic() - started},
            )
        guarded = time.monotonic()
        await self.scope.record.acting(index, decision.turn, decision.actions)
        recorded = time.monotonic()
        if self.masker is not None:
            self.masker.typed(self.secrets.values_in(decision.actions))
        check = None
        if not self.guard.is_idle:
            check = StepCheck(self.guard, decision.turn, decision.actions, observation, verdict)
            self.requests.is_strict = self.pages.is_exposed
            self.requests.begin_step(check)
        if observation.generation is not None and isinstance(self.env, VersionedScreen):
            self.env.expect(observation.generation)
        try:
            result = await self._carry_out(index, filled, check)
        finally:
            if check is not None:
                check.end()
        info = self._told(check, result.info)
        shown = await self.without_secrets(result.observation)
        return StepOutcome(
            observation=shown,
            error=shown.last_action_error,
            is_over=result.terminated,
            is_cut_off=result.truncated,
            terminate=self.env.terminate if result.terminated else None,
            reward=result.reward,
            info=info,
            timings={"guard": guarded - started, "record": recorded - guarded, **result.info.get("timings", {})},
        )

    async def _carry_out(self, index: int, actions: Sequence[Action], check: StepCheck | None) -> StepResult:
        try:
            return await self.scope.control.unless_stopped(step_env(self.env, actions, check))
        except (StoppedError, CapReachedError) as why:
            self.scope.note("cut", f"step {index} was cut off: some of its {len(actions)} actions may be done ({why})")
            raise

    def typed(self, steps: Sequence[Step]) -> None:
        """Values that an earlier part of the run has typed may stand on the screen."""
        if self.masker is not None:
            self.masker.typed([value for step in steps for value in self.secrets.values_in(step.actions)])

    async def without_secrets(self, observation: Observation) -> Observation:
        """The observation as the record and the model may see it: texts redacted, typed values blacked out."""
        if not self.secrets.by_name:
            return observation
        observation = redacted(observation, self.secrets.redact)
        return observation if self.masker is None else await asyncio.to_thread(self.masker.mask, observation)

    def _told(self, check: StepCheck | None, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """The facts of a step with how far it came, when it was refused midway."""
        if check is None or check.refusal is None:
            return info
        self.scope.note(
            "refused",
            f"after {check.num_done} action{'s' * (check.num_done != 1)}: not allowed: {check.refusal.reason}",
        )
        return {**info, "refused_action": check.num_done + 1}

    async def _guard(self, decision: Decision, observation: Observation) -> Verdict:
        check = self.guard.check(decision.turn, decision.actions, observation, self.env)
        verdict = await self.scope.control.unless_stopped(check)
        if verdict.decision == "deny":
            raise CodeError(f"not allowed: {verdict.reason}")
        if verdict.reason:
            self.scope.note("approved", verdict.reason)
        return verdict

    def _check_answer(self, actions: Sequence[Action]) -> None:
        last = actions[-1] if actions else None
        if self.schema is None or not isinstance(last, Terminate) or last.status != "success":
            return
        try:
            self.schema.parse(last.answer)
        except ValueError as error:
            raise CodeError(str(error)) from error
