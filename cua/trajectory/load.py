"""Reads the record of a run back, also while it is being written and after a crash.

A last line that was torn is left out. Anything else that does not fit is damage, and refused by line number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cua.end import End, RunResult
from cua.errors import TrajectoryError
from cua.messages import Reply, Usage
from cua.step import Step, Turn
from cua.trajectory.codec import from_line
from cua.trajectory.disk_errors import told
from cua.trajectory.events import (
    SCHEMA_VERSION,
    ActedEvent,
    ActingEvent,
    EndedEvent,
    Event,
    Note,
    ObservedEvent,
    RepliedEvent,
    ResumedEvent,
    RunEvent,
    RunHeader,
)
from cua.trajectory.folder import TRAJECTORY
from cua.trajectory.images import ImageFolder
from cua.trajectory.lines import whole_lines
from envs import Action, Observation

INTERRUPTED = (
    "The run was interrupted while this action was being carried out, so its outcome is unknown. "
    "Look at the screen to see what happened before you repeat anything."
)
"""`Step.error` of a step that began and never finished, as the model is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A step that began and was not finished.

    Attributes:
        index: Its number.
        observation: What the model saw.
        reply: What it answered, if it did.
        turn: The answer as it was read; set once actions may have been carried out.
        actions: What was about to be done.
        started_at: Unix time in seconds.
    """

    index: int
    observation: Observation
    reply: Reply | None = None
    turn: Turn | None = None
    actions: tuple[Action, ...] = ()
    started_at: float = 0.0

    @property
    def may_have_acted(self) -> bool:
        """Whether actions were possibly carried out; they must not be repeated then."""
        return self.turn is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a step's actions, for the operator.

    Attributes:
        carried_out: Whether they were handed to the env; False when they were refused whole.
        reward: The env's reward.
        info: The env's `StepResult.info`.
        finished_at: Unix time in seconds.
    """

    carried_out: bool = True
    reward: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """All that is known of a run.

    Attributes:
        run_dir: The run's folder.
        header: What it was started with.
        steps: Finished steps in order; most of them without their picture, see `load_run`.
        outcomes: What became of each, same order.
        pending: The step that was going on when the record ends; after an end, the last screen.
        notes: Everything else worth knowing, in order of time.
        discarded: Replies that led to nothing (unreadable, or given up at a restart), with their step.
        result: How the run ended, with its totals; None while it runs or when it broke off.
        usage: Sum over all replies, those included that could not be read.
        images: SHA-256 of the picture by step index ("" for none), the pending step's included.
        resumed_at: When the run was taken up again, Unix time in seconds.
        last_at: When the last event was written, Unix time in seconds.
    """

    run_dir: Path
    header: RunHeader
    steps: tuple[Step, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    pending: Pending | None = None
    notes: tuple[Note, ...] = ()
    discarded: tuple[tuple[int, Reply], ...] = ()
    result: RunResult | None = None
    usage: Usage = field(default_factory=Usage)
    images: Mapping[int, str] = field(default_factory=dict)
    resumed_at: tuple[float, ...] = ()
    last_at: float = 0.0

    @property
    def end(self) -> End | None:
        """How the run ended; None while it runs or when it broke off."""
        return self.result.end if self.result else None

    @property
    def instruction(self) -> str:
        """What the agent was told last: a person may have redirected it since the start."""
        redirects = [note.text for note in self.notes if note.kind == "redirect"]
        return redirects[-1] if redirects else self.header.instruction

    def picture(self, index: int) -> bytes:
        """The PNG that the model saw at a step, read from disk; b"" when there was none.

        Raises:
            TrajectoryError: The picture is gone or damaged.
        """
        return ImageFolder(self.run_dir).get(self.images.get(index, ""))


def load_run(run_dir: Path | str, *, images: int | None = 3) -> RunRecord:
    """Read a run.

    Args:
        run_dir: The run's folder.
        images: How many pictures to load, the latest ones; None for all. Earlier observations carry
            b"" as their screenshot; `RunRecord.picture` reads any of them.

    Raises:
        TrajectoryError: There is no run, or its record is damaged (the text names the line).
    """
    folder = Path(run_dir).absolute()
    path = folder / TRAJECTORY
    with told("read", folder):
        lines = whole_lines(path)
    if not lines:
        raise TrajectoryError(f"{path} holds no complete line: the run broke off before it began")
    reader = _Reader(folder)
    for number, line in enumerate(lines, start=1):
        try:
            reader.read(from_line(line))
        except ValueError as error:
            raise TrajectoryError(
                f"{path}, line {number}, is damaged: {error}. "
                "Only the last line may be incomplete; restore the file, or cut it before this line"
            ) from error
    return _with_pictures(reader.record(), images)


class _Reader:
    """Puts events together to steps. A `ValueError` means that an event cannot stand where it stands."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._header: RunHeader | None = None
        self._steps: list[Step] = []
        self._outcomes: list[Outcome] = []
        self._pending: Pending | None = None
        self._notes: list[Note] = []
        self._discarded: list[tuple[int, Reply]] = []
        self._result: RunResult | None = None
        self._usage = Usage()
        self._images: dict[int, str] = {}
        self._resumed_at: list[float] = []
        self._last_at = 0.0

    def read(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, RunEvent) != (self._header is None):
            raise ValueError("a record begins with its one 'run' event")
        self._last_at = event.at
        match event:
            case RunEvent():
                if event.header.schema_version > SCHEMA_VERSION:
                    raise ValueError(
                        f"written in format {event.header.schema_version}, this version reads up to {SCHEMA_VERSION}: "
                        "upgrade cua-k25"
                    )
                self._header = event.header
            case ObservedEvent():
                self._observed(event)
            case RepliedEvent():
                self._replied(event)
            case ActingEvent():
                self._pending = replace(self._open(event.index), turn=event.turn, actions=event.actions)
            case ActedEvent():
                self._acted(event)
            case Note():
                self._notes.append(event)
            case ResumedEvent():
                self._resumed(event)
            case EndedEvent():
                self._result = event.result

    def record(self) -> RunRecord:
        """All that was read."""
        assert self._header is not None
        return RunRecord(
            run_dir=self._run_dir,
            header=self._header,
            steps=tuple(self._steps),
            outcomes=tuple(self._outcomes),
            pending=self._pending,
            notes=tuple(self._notes),
            discarded=tuple(self._discarded),
            result=self._result,
            usage=self._usage,
            images=self._images,
            resumed_at=tuple(self._resumed_at),
            last_at=self._last_at,
        )

    def _open(self, index: int) -> Pending:
        if self._pending is None or self._pending.index != index:
            raise ValueError(f"step {index} was not observed before")
        return self._pending

    def _observed(self, event: ObservedEvent) -> None:
        last = self._steps[-1].index if self._steps else 0
        if event.index <= last:
            raise ValueError(f"step {event.index} is observed after step {last} was finished")
        self._drop_pending(event.at)
        self._images[event.index] = event.image
        self._pending = Pending(index=event.index, observation=event.observation, started_at=event.at)

    def _replied(self, event: RepliedEvent) -> None:
        pending = self._open(event.index)
        self._usage += event.reply.usage
        self._discard(pending)
        self._pending = replace(pending, reply=event.reply)

    def _discard(self, pending: Pending) -> None:
        if pending.reply:
            self._discarded.append((pending.index, pending.reply))

    def _acted(self, event: ActedEvent) -> None:
        pending = self._open(event.index)
        turn = event.turn or pending.turn
        actions = pending.actions if event.actions is None else event.actions
        if pending.reply is None or turn is None:
            raise ValueError(f"step {event.index} is finished, and the reply that led to it is missing")
        self._finish(
            Step(
                index=event.index,
                observation=pending.observation,
                reply=pending.reply,
                turn=turn,
                actions=actions,
                error=event.error,
                started_at=event.started_at,
                timings=event.timings,
            ),
            Outcome(carried_out=event.actions is None, reward=event.reward, info=event.info, finished_at=event.at),
        )

    def _resumed(self, event: ResumedEvent) -> None:
        self._resumed_at.append(event.at)
        self._result = None
        self._drop_pending(event.at)

    def _drop_pending(self, at: float) -> None:
        """Close what was going on: as an interrupted step when it may have acted, else as nothing."""
        pending, self._pending = self._pending, None
        step = interrupted_step(pending) if pending else None
        if step:
            self._finish(step, Outcome(finished_at=at))
        elif pending:
            self._discard(pending)

    def _finish(self, step: Step, outcome: Outcome) -> None:
        self._steps.append(step)
        self._outcomes.append(outcome)
        self._pending = None


def interrupted_step(pending: Pending) -> Step | None:
    """The step that stands for actions which may have been carried out; None when surely none was."""
    if pending.turn is None:
        return None
    return Step(
        index=pending.index,
        observation=pending.observation,
        reply=pending.reply or Reply(content=""),
        turn=pending.turn,
        actions=pending.actions,
        error=INTERRUPTED,
        started_at=pending.started_at,
    )


def _with_pictures(record: RunRecord, images: int | None) -> RunRecord:
    """The record with the pictures of its latest observations loaded."""
    wanted = sorted(record.images)
    wanted = wanted if images is None else wanted[len(wanted) - min(images, len(wanted)) :]
    pictures = {index: record.picture(index) for index in wanted}

    def see(observation: Observation, index: int) -> Observation:
        return replace(observation, screenshot=pictures[index]) if index in pictures else observation

    pending = record.pending
    return replace(
        record,
        steps=tuple(replace(step, observation=see(step.observation, step.index)) for step in record.steps),
        pending=pending and replace(pending, observation=see(pending.observation, pending.index)),
    )
