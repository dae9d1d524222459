"""The GUI agent: look, decide, act, write down, until somebody or something says that it is over."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cua.act import Actor, Outcome
from cua.answer import AnswerSchema
from cua.decide import Decider, Decision
from cua.episode import Episode
from cua.errors import ModelError, TrajectoryError
from cua.guard import Guard
from cua.masking import MIN_CHARS, Masker
from cua.messages import Sampling, Usage
from cua.model import Model
from cua.protocol import ProtocolOptions
from cua.record import NoRecord, Record
from cua.run.caps import CapReachedError, Caps
from cua.run.control import Control, StoppedError
from cua.run.end import End, RunResult
from cua.run.events import Decided, Event, Listener, Noted, NoteKind, Observed, RunEnded, RunStarted, StepDone
from cua.secrets import Secrets
from cua.step import Step
from cua.verdict import judge, judge_capped
from envs import Env, EnvError, Observation, Task, Terminate


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How an agent works.

    Attributes:
        protocol: Prompt variant, number of images, coordinates.
        caps: Limits.
        sampling: Sampling settings for every call; None leaves them to the model client.
        answer_schema: What the final answer must look like.
    """

    protocol: ProtocolOptions = field(default_factory=ProtocolOptions)
    caps: Caps = field(default_factory=Caps)
    sampling: Sampling | None = None
    answer_schema: AnswerSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a run begins: empty, or the record of an earlier part of it."""

    steps: Sequence[Step] = ()
    usage: Usage = field(default_factory=Usage)
    time_s: float = 0.0
    note: str | None = None


class Agent:
    """Runs tasks, one at a time. `control` pauses, resumes, stops and redirects from outside."""

    def __init__(
        self,
        *,
        model: Model,
        env: Env,
        options: AgentOptions | None = None,
        guard: Guard | None = None,
        secrets: Secrets | None = None,
        masker: Masker | None = None,
        record: Record | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.model = model
        self.env = env
        self.options = options or AgentOptions()
        self.secrets = secrets or Secrets()
        self.record: Record = record or NoRecord()
        self.control = Control(max_time_s=self.options.caps.max_time_s)
        self._listener = listener
        self._actor = Actor(
            env=env,
            guard=(guard or Guard()).waiting_by(self.control.away),
            secrets=self.secrets,
            masker=masker,
            schema=self.options.answer_schema,
            control=self.control,
            record=self.record,
            note=self._note,
        )
        self._decider = Decider(
            model=model,
            protocol=_with_brief(self.options, self.secrets),
            sampling=self.options.sampling,
            max_parse_errors=self.options.caps.max_parse_errors,
            control=self.control,
            record=self.record,
            check_caps=self._check_caps,
            note=self._note,
        )

    async def run(self, task: Task, start: Start | None = None) -> RunResult:
        """One episode, from `env.reset` to a written end. Whoever made the env closes it.

        Raises:
            Exception: Only what is a defect of ours or of the task's own code.
        """
        start = start or Start()
        self.control.attach(earlier_s=start.time_s)
        episode = Episode(
            instruction=task.instruction,
            keep_images=self.options.protocol.max_images,
            usage=start.usage,
        )
        episode.add(start.steps)
        self._tell(RunStarted(instruction=task.instruction, run_dir=_run_dir(self.record)))
        end = await self._to_the_end(task, episode, start)
        result = RunResult(
            end=end,
            num_steps=len(episode.steps),
            usage=episode.usage,
            duration_s=self.control.time_s,
            run_dir=_run_dir(self.record),
        )
        result = self._written(result)
        self._tell(RunEnded(result=result))
        return result

    def _written(self, result: RunResult) -> RunResult:
        """The result, on disk; or, when that fails, the result that says so."""
        if result.end.source == "record":
            return result
        try:
            self.record.ended(result)
        except TrajectoryError as error:
            end = replace(result.end, status="error", source="record", reason=str(error), retryable=True)
            return replace(result, end=end)
        return result

    async def _to_the_end(self, task: Task, episode: Episode, start: Start) -> End:
        try:
            try:
                self._note_short_secrets()
                self._actor.typed(start.steps)
                seen = await self.control.unless_stopped(self.env.reset(task))
                observation = await self._actor.without_secrets(seen)
                return await self._loop(task, episode, _with_note(observation, start.note))
            finally:
                await task.teardown(self.env)
        except CapReachedError as cap:  # before there was anything to judge
            return End(status="capped", cap=cap.cap, reason=str(cap))
        except StoppedError as error:
            return End(status="stopped", reason=str(error))
        except ModelError as error:
            return End(status="error", source="model", reason=str(error), retryable=error.retryable)
        except EnvError as error:
            return End(status="error", source="env", reason=str(error), retryable=error.retryable)
        except TrajectoryError as error:
            return End(status="error", source="record", reason=str(error), retryable=True)

    async def _loop(self, task: Task, episode: Episode, observation: Observation) -> End:
        try:
            while True:
                await self.control.checkpoint()
                observation, terminate = await self._step(episode, observation)
                if terminate is not None:
                    self.record.observed(episode.next_index, observation)  # the last screen, for people
                    return await judge(task, self.env, terminate)
        except CapReachedError as cap:
            return await judge_capped(task, self.env, cap)

    async def _step(self, episode: Episode, observation: Observation) -> tuple[Observation, Terminate | None]:
        self._take_redirect(episode)
        index, started_at, started = episode.next_index, time.time(), time.monotonic()
        self.record.observed(index, observation)
        record_s = time.monotonic() - started
        self._tell(Observed(index=index, observation=observation))
        decision = await self._decider.decide(episode, observation)
        self._tell(Decided(index=index, turn=decision.turn, actions=decision.actions))
        nudge = self._check_loop(episode, decision, observation)
        outcome = await self._actor.act(index, decision, observation)
        step = Step(
            index=index,
            observation=observation,
            reply=decision.reply,
            turn=decision.turn,
            actions=decision.actions,
            error=outcome.error,
            started_at=started_at,
            timings=_timings(decision, outcome, record_s),
        )
        self.record.acted(step, outcome.reward, outcome.info)
        episode.add([step])
        self._tell(StepDone(step=step, usage=episode.usage))
        return _with_note(outcome.observation, nudge), outcome.terminate

    def _note_short_secrets(self) -> None:
        short = [name for name, secret in self.secrets.by_name.items() if len(secret.value) < MIN_CHARS]
        if short:
            names = ", ".join("{{" + name + "}}" for name in short)
            self._note(
                "secrets",
                f"{names}: shorter than {MIN_CHARS} characters, so texts that merely look alike are redacted too, and "
                "pictures are not searched for it by OCR",
            )

    def _check_caps(self, episode: Episode) -> None:
        reached = self.options.caps.reached(
            num_steps=len(episode.steps), time_s=self.control.time_s, usage=episode.usage
        )
        if reached:
            raise CapReachedError(*reached)

    def _check_loop(self, episode: Episode, decision: Decision, observation: Observation) -> str | None:
        count = episode.loops.count(decision.actions, observation.screenshot)
        caps = self.options.caps
        if count >= caps.loop_cap:
            raise CapReachedError("loop", f"the same action on the same screen, {count} times")
        if episode.loops.num_waits >= caps.wait_cap:
            raise CapReachedError("loop", f"waited {caps.wait_cap} times on a screen that does not change")
        if count < caps.loop_nudge:
            return None
        text = f"You did the same thing on the same screen {count} times and nothing changed. Try another way."
        self._note("loop", text)
        return text

    def _take_redirect(self, episode: Episode) -> None:
        instruction = self.control.take_redirect()
        if instruction is not None:
            episode.instruction = instruction
            self._note("redirect", instruction)

    def _note(self, kind: NoteKind, text: str) -> None:
        self.record.note(kind, text)
        self._tell(Noted(kind=kind, text=text))

    def _tell(self, event: Event) -> None:
        if self._listener is not None:
            self._listener(event)


def _with_brief(options: AgentOptions, secrets: Secrets) -> ProtocolOptions:
    """The protocol, its system prompt ending with what this run's agent has to know besides."""
    brief = [options.protocol.extra_prompt] if options.protocol.extra_prompt else []
    if options.answer_schema:
        brief.append(options.answer_schema.note)
    if secrets.by_name:
        names = ", ".join("{{" + name + "}}" for name in secrets.by_name)
        brief.append(f"To type a secret value, write its placeholder as the text: {names}")
    return replace(options.protocol, extra_prompt="\n".join(brief))


def _timings(decision: Decision, outcome: Outcome, record_s: float) -> dict[str, float]:
    stages = {"model": decision.model_s, "interpret": decision.interpret_s, **outcome.timings}
    return {**stages, "record": stages.get("record", 0.0) + record_s}


def _with_note(observation: Observation, note: str | None) -> Observation:
    return replace(observation, notes=(*observation.notes, note)) if note else observation


def _run_dir(record: Any) -> str | None:
    run_dir = getattr(record, "run_dir", None)
    return str(run_dir) if run_dir is not None else None
