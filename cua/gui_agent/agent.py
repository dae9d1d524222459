"""GUI agent: observes, decides, acts and records until the episode ends.

Each action is checked by the guard, recorded, filled in with its secrets and then executed in the environment.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cua.answer import AnswerSchema
from cua.errors import CodeError
from cua.guard.guard import Guard, GuardVerdict, StepCheck
from cua.guard.requests import RequestGuard
from cua.gui_agent.decide import Decider, Decision
from cua.gui_agent.episode import EpisodeState
from cua.gui_agent.page_texts import PageJudge, PageTexts
from cua.gui_agent.protocol import ProtocolOptions
from cua.messages import Sampling, Usage
from cua.model import Model
from cua.redaction import MIN_SECRET_CHARS, Masker, redacted
from cua.run.budget import CapReachedError, Caps
from cua.run.control import StoppedError
from cua.run.end import End, RunResult
from cua.run.events import Decided, Listener, Observed, StepDone
from cua.run.foreign import reset_env, run_task_code, step_env
from cua.run.scope import RunScope, Spent
from cua.run.verdict import judge, judge_capped
from cua.secrets import Secrets
from cua.step import Step
from cua.trajectory.describe import describe_action
from cua.trajectory.writer import TrajectoryWriter
from envs import (
    Action,
    Env,
    EnvSetupError,
    Observation,
    RequestHolder,
    StepResult,
    Task,
    Terminate,
    VersionedScreen,
)
from envs.env import checked_files, checked_warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Result of executing one decision.

    Attributes:
        observation: Observation after the step.
        error: Reason why an action was refused or failed; None on success.
        is_over: True if the episode was ended by the agent or the environment.
        is_cut_off: True if the environment ended the episode at one of its own limits.
        terminate: Action that ended the episode; None if the environment ended it.
        reward: Reward that the environment returned for this step.
        info: Information that the environment returned for this step, for the operator.
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
    """Executor of decisions that the guard allows, after they are recorded on disk."""

    env: Env
    guard: Guard
    secrets: Secrets
    masker: Masker | None
    schema: AnswerSchema | None
    scope: RunScope
    requests: RequestGuard
    pages: PageTexts

    async def act(self, index: int, decision: Decision, observation: Observation) -> StepOutcome:
        """Execute one decision, or refuse all of it.

        Raises:
            EnvDiedError: If the environment no longer responds.
            StoppedError: If a person stopped the run during the step, which may be partly executed.
            CapReachedError: If the time limit was reached during the step, which may be partly executed.
            TrajectoryError: If the record cannot be written; nothing was executed then.
        """
        started = time.monotonic()
        try:
            await self.scope.control.unless_stopped(self.pages.check(decision, observation))
            verdict = await self._check_actions(decision, observation)
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
            self.masker.add_typed(self.secrets.values_in(decision.actions))
        check = None
        if not self.guard.allows_all:
            check = StepCheck(self.guard, decision.turn, decision.actions, observation, verdict)
            self.requests.is_strict = self.pages.is_exposed  # ask about every change once a page has given instructions
            self.requests.begin_step(check)
        if observation.generation is not None and isinstance(self.env, VersionedScreen):
            self.env.expect(observation.generation)
        try:
            result = await self._execute(index, filled, check)
        finally:
            if check is not None:
                check.end()
        info = self._refused_info(check, result.info)
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

    async def _execute(self, index: int, actions: Sequence[Action], check: StepCheck | None) -> StepResult:
        try:
            return await self.scope.control.unless_stopped(step_env(self.env, actions, check))
        except (StoppedError, CapReachedError) as why:
            self.scope.note("cut", f"step {index} was cut off: some of its {len(actions)} actions may be done ({why})")
            raise

    def add_typed(self, steps: Sequence[Step]) -> None:
        """Register the values typed in earlier steps, which may still be visible on the screen."""
        if self.masker is not None:
            self.masker.add_typed([value for step in steps for value in self.secrets.values_in(step.actions)])

    async def without_secrets(self, observation: Observation) -> Observation:
        """Return the observation for the record and the model: texts redacted, typed values blacked out in images."""
        if not self.secrets.by_name:
            return observation
        observation = redacted(observation, self.secrets.redact)
        return observation if self.masker is None else await asyncio.to_thread(self.masker.mask, observation)

    def _refused_info(self, check: StepCheck | None, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the step's information; if the step was refused midway, add the number of the refused action."""
        if check is None or check.refusal is None:
            return info
        self.scope.note(
            "refused",
            f"after {check.num_done} action{'s' * (check.num_done != 1)}: not allowed: {check.refusal.reason}",
        )
        return {**info, "refused_action": check.num_done + 1}

    async def _check_actions(self, decision: Decision, observation: Observation) -> GuardVerdict:
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


_MAX_SHOWN = 20
"""Maximum number of a person's actions that are listed for the model; the record has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Settings of an agent.

    Attributes:
        protocol: Prompt variant, number of images, coordinates.
        caps: Limits.
        sampling: Sampling settings of every call; None for the defaults of the model client.
        answer_schema: Schema that the final answer must match.
    """

    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    caps: Caps = field(default_factory=Caps)
    sampling: Sampling | None = None
    answer_schema: AnswerSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Initial state of a run: empty, after an earlier part of the run, or the current screen, without a reset."""

    steps: Sequence[Step] = ()
    usage: Usage = field(default_factory=Usage)
    time_s: float = 0.0
    note: str | None = None
    is_on_screen: bool = False


class Agent:
    """GUI agent, which runs tasks one at a time. `control` pauses, resumes, stops and redirects a run from outside.

    Args:
        model: Model that decides on the actions.
        env: Environment; the caller closes it.
        options: Settings of the agent.
        guard: Rules for allowed actions.
        secrets: Values that are filled in after the model has decided; the model sees only placeholders.
        masker: Blacks out typed secrets in images.
        page_judge: Model that checks new page texts for instructions to the agent where the rules find none. None: only
            the rules are used.
        scope: Scope of the parent run; its limits take precedence over `options`.
        record: Writer of the trajectory, used without a `scope`.
        listener: Called with every event, used without a `scope`.
    """

    def __init__(
        self,
        *,
        model: Model,
        env: Env,
        options: AgentOptions | None = None,
        guard: Guard | None = None,
        secrets: Secrets | None = None,
        masker: Masker | None = None,
        page_judge: Model | None = None,
        scope: RunScope | None = None,
        record: TrajectoryWriter | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.model = model
        self.env = env
        self.options = options or AgentOptions()
        self.secrets = secrets or Secrets()
        self.scope = scope or RunScope(caps=self.options.caps, record=record, listener=listener)
        self.control = self.scope.control
        self._guard = (guard or Guard()).for_run(
            self.control.await_person, sees_requests=isinstance(env, RequestHolder)
        )
        self._executor = StepExecutor(
            env=env,
            guard=self._guard,
            secrets=self.secrets,
            masker=masker,
            schema=self.options.answer_schema,
            scope=self.scope,
            requests=RequestGuard(self._guard, self.control.unless_stopped),
            pages=PageTexts(
                env=env,
                guard=self._guard,
                secrets=self.secrets,
                scope=self.scope,
                judge=PageJudge(model=page_judge, scope=self.scope) if page_judge is not None else None,
            ),
        )
        self._decider = Decider(
            model=model,
            protocol=_with_extra_prompt(self.options, self.secrets),
            sampling=self.options.sampling,
            scope=self.scope,
        )

    @property
    def pages(self) -> PageTexts:
        """Texts addressed to the agent on the pages of its run."""
        return self._executor.pages

    async def run(self, task: Task, start: Start | None = None) -> RunResult:
        """Run one episode, from `env.reset` to the recorded result. The caller closes the environment."""
        start = start or Start()
        episode = EpisodeState(instruction=task.instruction, keep_images=self.options.protocol.max_images)
        episode.add(start.steps)
        spent = Spent(usage=start.usage, num_steps=len(start.steps), time_s=start.time_s)
        self.scope.begin(task.instruction, spent)
        end = await self.scope.run_to_end(lambda: self._episode(task, episode, start))
        return await self.scope.finish(end, num_steps=len(episode.steps))

    async def _episode(self, task: Task, episode: EpisodeState, start: Start) -> End:
        num_noted = 0
        try:
            self._note_short_secrets()
            self._executor.add_typed(start.steps)
            seen = await self.control.unless_stopped(self._first_observation(task, start))
            self._take_instruction(task, episode)
            num_noted = self._note_warnings(task)
            observation = await self._executor.without_secrets(seen)
            await self._hold_requests(task, seen)
            return await self._loop(task, episode, _with_note(observation, start.note))
        finally:
            self._executor.pages.end()
            if actions := self.control.take_user_actions():  # the run ended before the agent could observe the screen
                self._note_person(actions)
            try:
                self._note_warnings(task, num_noted)
                await self.scope.record.keep(checked_files(task))
            finally:
                await run_task_code(lambda: task.teardown(self.env))

    async def _first_observation(self, task: Task, start: Start) -> Observation:
        if not start.is_on_screen:
            return await reset_env(self.env, task)
        self.env.terminate = None
        return (await step_env(self.env, ())).observation

    async def _hold_requests(self, task: Task, observation: Observation) -> None:
        if not self._guard.allows_all and isinstance(self.env, RequestHolder):
            self._executor.requests.begin(observation.url, task.instruction)
            await self.env.hold_requests(self._executor.requests)

    async def _drop_requests(self) -> None:
        """Drop held requests and stop checking new ones, before the task evaluates the pages."""
        if not self._guard.allows_all and isinstance(self.env, RequestHolder):
            await self.env.hold_requests(None)

    async def _loop(self, task: Task, episode: EpisodeState, observation: Observation) -> End:
        try:
            while True:
                await self.control.checkpoint()
                observation = await self._observe_user_actions(observation)
                outcome = await self._step(episode, observation)
                observation = outcome.observation
                if outcome.is_over or outcome.is_cut_off:
                    await self.scope.record.observed(episode.next_index, observation)  # the last screen, for display
                if outcome.is_over:
                    await self._drop_requests()
                    return await judge(task, self.env, outcome.terminate)
                if outcome.is_cut_off:
                    raise CapReachedError("env", "the environment ended the episode at its own limit")
        except CapReachedError as cap:
            await self._drop_requests()
            return await judge_capped(task, self.env, cap)

    async def _step(self, episode: EpisodeState, observation: Observation) -> StepOutcome:
        self._take_redirect(episode)
        started_at, record_s = time.time(), await self._record_observation(episode.next_index, observation)
        decision = await self._decider.decide(episode, observation)
        self.scope.emit(Decided(index=episode.next_index, turn=decision.turn, actions=decision.actions))
        await self.control.checkpoint()
        if self.control.is_handed_back:  # the decision is based on a screen that a person has changed since
            return StepOutcome(observation=observation)
        nudge = self._check_loop(episode, decision, observation)
        outcome = await self._executor.act(episode.next_index, decision, observation)
        await self._record_step(episode, observation, decision, outcome, started_at=started_at, record_s=record_s)
        return replace(outcome, observation=_with_note(outcome.observation, nudge))

    async def _record_observation(self, index: int, observation: Observation) -> float:
        """Record the observation, start to read its texts, and return the seconds spent on recording."""
        self._executor.pages.begin(observation)
        started = time.monotonic()
        await self.scope.record.observed(index, observation)
        record_s = time.monotonic() - started
        self.scope.emit(Observed(index=index, observation=observation))
        return record_s

    async def _record_step(
        self,
        episode: EpisodeState,
        observation: Observation,
        decision: Decision,
        outcome: StepOutcome,
        *,
        started_at: float,
        record_s: float,
    ) -> None:
        if outcome.info.get("is_outdated"):  # nothing was executed, so a repeat does not count as a loop
            episode.loops.forget_last()
        step = Step(
            index=episode.next_index,
            observation=observation,
            reply=decision.reply,
            turn=decision.turn,
            actions=decision.actions,
            error=outcome.error,
            started_at=started_at,
            timings=_timings(decision, outcome, record_s),
        )
        await self.scope.record.acted(step, outcome.reward, outcome.info)
        episode.add([step])
        self.scope.emit(StepDone(step=step, usage=self.scope.budget.usage))

    async def _observe_user_actions(self, observation: Observation) -> Observation:
        """Return a new observation with a note if a person used the screen, else the given observation."""
        actions = self.control.take_user_actions()
        if actions is None:
            return observation
        text = self._note_person(actions)
        result = await self.control.unless_stopped(step_env(self.env, ()))
        seen = await self._executor.without_secrets(result.observation)
        return _with_note(seen, f"In the meantime {text}. Go on from what you see now.")

    def _note_person(self, actions: Sequence[Action]) -> str:
        did = "; ".join(map(describe_action, actions[:_MAX_SHOWN])) or "nothing that changes it"
        more = f" and {len(actions) - _MAX_SHOWN} more" if len(actions) > _MAX_SHOWN else ""
        text = f"a person worked on the screen: {did}{more}"
        self.scope.note("person", text, actions=actions)
        return text

    def _note_warnings(self, task: Task, num_noted: int = 0) -> int:
        """Note the task's warnings from number `num_noted` on, and return how many have been noted in all."""
        warnings = checked_warnings(task)
        for text in warnings[num_noted:]:
            self.scope.note("task", text)
        return max(num_noted, len(warnings))

    def _note_short_secrets(self) -> None:
        short = [name for name, secret in self.secrets.by_name.items() if len(secret.value) < MIN_SECRET_CHARS]
        if short:
            names = ", ".join("{{" + name + "}}" for name in short)
            self.scope.note(
                "secrets",
                f"{names}: shorter than {MIN_SECRET_CHARS} characters, so texts that merely look alike are redacted "
                "too, and images are not searched for it by OCR",
            )

    def _check_loop(self, episode: EpisodeState, decision: Decision, observation: Observation) -> str | None:
        """Return a warning for the model if it repeats itself without effect; end the run at the limit."""
        count = episode.loops.count(decision.actions, observation.screenshot)
        caps = self.scope.caps
        if count >= caps.loop_cap:
            raise CapReachedError("loop", f"the same action on the same screen, {count} times")
        if episode.loops.num_waits >= caps.wait_cap:
            raise CapReachedError("loop", f"waited {caps.wait_cap} times on a screen that does not change")
        if count < caps.loop_nudge:
            return None
        text = f"You did the same thing on the same screen {count} times and nothing changed. Try another way."
        self.scope.note("loop", text)
        return text

    def _take_instruction(self, task: Task, episode: EpisodeState) -> None:
        """Take over the task's instruction after its setup, and note it if the setup changed it."""
        instruction = task.instruction
        if not instruction.strip():
            raise EnvSetupError(f"the task {task.spec.id!r} has no instruction once it is set up; expected a text")
        if instruction != episode.instruction:
            episode.instruction = instruction
            self.scope.note("instruction", instruction)

    def _take_redirect(self, episode: EpisodeState) -> None:
        for instruction in self.control.take_redirects():
            episode.instruction = instruction
            self._executor.requests.add_instruction(instruction)
            self.scope.note("redirect", instruction)


def _with_extra_prompt(options: AgentOptions, secrets: Secrets) -> ProtocolOptions:
    """Return the protocol with the answer schema and the names of the secrets added to its system prompt."""
    extra_prompt = [options.protocol.extra_prompt] if options.protocol.extra_prompt else []
    if options.answer_schema:
        extra_prompt.append(options.answer_schema.note)
    if secrets.by_name:
        names = ", ".join("{{" + name + "}}" for name in secrets.by_name)
        extra_prompt.append(f"To type a secret value, write its placeholder as the text: {names}")
    return replace(options.protocol, extra_prompt="\n".join(extra_prompt))


def _timings(decision: Decision, outcome: StepOutcome, record_s: float) -> dict[str, float]:
    stages = {"model": decision.model_s, "interpret": decision.interpret_s, **outcome.timings}
    return {**stages, "record": stages.get("record", 0.0) + record_s}


def _with_note(observation: Observation, note: str | None) -> Observation:
    return replace(observation, notes=(*observation.notes, note)) if note else observation
