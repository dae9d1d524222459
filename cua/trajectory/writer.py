"""Writer of a run's record for one of its agents, while the run is active.

Every event is passed to the operating system before its method returns, so a killed process loses nothing. Some events
also wait for the disk: those right before the model is called (`observed`, `asked`), and those right before an action
that must not be repeated (`acting`, `calling`). Agents use it through `cua.trajectory.journal`, which waits outside the
event loop.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cua.json_text import JsonMapping
from cua.messages import ImagePart, Part, Reply, TextPart, ToolCall
from cua.run.end import RunResult
from cua.run.events import AgentIds
from cua.step import CallOutcome, Step, ToolStep, Turn
from cua.trajectory.events import (
    ActedEvent,
    ActingEvent,
    AskedEvent,
    CalledEvent,
    CallingEvent,
    EndedEvent,
    Event,
    NoteEvent,
    ObservedEvent,
    RecordedOutcome,
    RecordedPart,
    RepliedEvent,
    RunHeader,
    SealedEvent,
)
from cua.trajectory.record_file import RecordFile
from envs import Action, Observation


class TrajectoryWriter:
    """Record of one agent, being written. Made by `create`, `reopen` or `for_agent`; closed by `close` or `with`.

    Methods that write an event have its name: `acting` before actions are executed, `acted` after them.

    Every method that writes raises `TrajectoryError` on failure; the record stays readable up to there, and the action
    that was about to be executed must not be executed.
    """

    def __init__(self, file: RecordFile, ids: AgentIds) -> None:
        """Internal: use `create` or `reopen`."""
        self.file = file
        self.ids = ids
        self._index = 0
        self._observation: Observation | None = None
        self._reply: Reply | None = None
        self._acting: tuple[Turn, tuple[Action, ...]] | None = None

    @classmethod
    def create(
        cls,
        runs_dir: Path | str,
        header: RunHeader,
        redact: Callable[[str], str] = str,
        *,
        is_durable: bool = True,
        run_dir: Path | None = None,
    ) -> Self:
        """Make a new run folder and write its first line.

        Args:
            runs_dir: Folder of all runs.
            header: Configuration of the run.
            redact: Replaces secret values by `{{name}}` in every text, and in the folder's name.
            is_durable: True to wait for the disk where that is promised; False leaves it to the operating
                system (which survives a killed process, but not a power cut).
            run_dir: The folder, if `reserve_run` has made it.

        Raises:
            TrajectoryError: If the folder cannot be made or written.
        """
        file = RecordFile.create(Path(runs_dir), header, redact, is_durable=is_durable, run_dir=run_dir)
        return cls(file, AgentIds(run_id=file.run_dir.name))

    @classmethod
    def reopen(cls, run_dir: Path | str, redact: Callable[[str], str] = str, *, is_durable: bool = True) -> Self:
        """Continue a run: drop a torn last line and write `resumed`.

        Read the record with `load_run` and `resume_steps` *before*; afterwards, the unfinished step is closed as an
        interrupted step.

        Raises:
            TrajectoryError: If another process writes this run, or its record is damaged or was edited.
        """
        file = RecordFile.reopen(Path(run_dir), redact, is_durable=is_durable)
        return cls(file, AgentIds(run_id=file.run_dir.name))

    def for_agent(self, agent_id: str) -> Self:
        """Return a writer of the same record for a child agent."""
        return type(self)(self.file, replace(self.ids, agent_id=agent_id, parent_id=self.ids.agent_id))

    @property
    def run_dir(self) -> Path:
        """Folder of the run."""
        return self.file.run_dir

    def observed(self, index: int, observation: Observation) -> None:
        """Write the next observation for the model. On disk when this returns."""
        image = self.file.put_image(observation.screenshot, is_durable=True)
        event = ObservedEvent(at=time.time(), index=index, observation=observation, image=image)
        self._append(event, is_durable=True)
        self._index, self._observation, self._reply, self._acting = index, observation, None, None

    def replied(self, index: int, reply: Reply) -> None:
        """Write the model's reply, even if it cannot be parsed."""
        self._append(RepliedEvent(at=time.time(), index=index, reply=reply))
        self._reply = reply

    def acting(self, index: int, turn: Turn, actions: Sequence[Action]) -> None:
        """Write the actions to be executed. On disk when this returns: call it before `env.step`."""
        self._append(ActingEvent(at=time.time(), index=index, turn=turn, actions=tuple(actions)), is_durable=True)
        self._acting = turn, tuple(actions)

    def acted(self, step: Step, reward: float = 0.0, info: JsonMapping | None = None) -> None:
        """Write a finished step, with the parts of it that no earlier event contains."""
        if self._index != step.index or self._observation != step.observation:
            self.observed(step.index, step.observation)
        if self._reply != step.reply:
            self.replied(step.index, step.reply)
        is_recorded = self._acting == (step.turn, step.actions)
        self._append(
            ActedEvent(
                at=time.time(),
                index=step.index,
                error=step.error,
                started_at=step.started_at,
                timings=step.timings,
                reward=reward,
                info=info or {},
                turn=None if is_recorded else step.turn,
                actions=None if is_recorded else step.actions,
            )
        )
        self._observation = self._reply = self._acting = None

    def asked(self, question: Sequence[Part], inputs: Sequence[JsonMapping] = ()) -> None:
        """Write a question of a tool-using run; its images must be PNG. On disk when this returns."""
        event = AskedEvent(at=time.time(), parts=self._recorded(question), inputs=tuple(inputs))
        self._append(event, is_durable=True)

    def calling(self, index: int, calls: Sequence[ToolCall]) -> None:
        """Write the calls to be made. On disk when this returns."""
        self._index = index
        self._append(CallingEvent(at=time.time(), index=index, calls=tuple(calls)), is_durable=True)

    def called(self, step: ToolStep) -> None:
        """Write a finished step of a tool-using run."""
        self._index = step.index
        self._append(
            CalledEvent(
                at=time.time(),
                index=step.index,
                outcomes=tuple(self._outcome(outcome) for outcome in step.outcomes),
                remark=step.remark,
                started_at=step.started_at,
                timings=step.timings,
            )
        )

    def note(self, kind: str, text: str, *, is_durable: bool = False, **data: Any) -> None:
        """Write a note: a guard's decision, a loop warning, a pause, a reply that cannot be parsed."""
        self._append(
            NoteEvent(at=time.time(), kind=kind, text=text, index=self._index, data=data), is_durable=is_durable
        )

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Write files that a task left to the folder `task/` of the run."""
        for name, data in files.items():
            self.file.put_file(name, data)

    def ended(self, result: RunResult) -> None:
        """Write the result of the run. On disk when this returns."""
        self._append(EndedEvent(at=time.time(), result=result), is_durable=True)

    def sealed(self, files: Mapping[str, str], *, is_whole: bool) -> None:
        """Write the hashes of the files that the code has written. On disk when this returns."""
        self._append(SealedEvent(at=time.time(), files=files, is_whole=is_whole), is_durable=True)

    def close(self) -> None:
        """Close the files and release the lock; safe to call twice."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, event: Event, *, is_durable: bool = False) -> None:
        whose = replace(event, agent=self.ids.agent_id, parent=self.ids.parent_id)
        self.file.append(whose, is_durable=is_durable)

    def _outcome(self, outcome: CallOutcome) -> RecordedOutcome:
        return RecordedOutcome(
            number=outcome.number,
            call=outcome.call,
            parts=self._recorded(outcome.result.parts),
            is_error=outcome.result.is_error,
            display=outcome.result.display,
            data=outcome.result.data,
            duration_s=outcome.duration_s,
        )

    def _recorded(self, parts: Sequence[Part]) -> tuple[RecordedPart, ...]:
        return tuple(self._part(part) for part in parts)

    def _part(self, part: Part) -> RecordedPart:
        if isinstance(part, ImagePart):
            return RecordedPart(part="image", image=self.file.put_image(part.data, is_durable=False))
        if isinstance(part, TextPart):
            return RecordedPart(part="text", text=part.text)
        raise TypeError(f"a {type(part).__name__} cannot be recorded in a run of a tool-using agent")
