"""Reader of a run's record, also while it is being written and after a crash.

A torn last line is dropped. Any other invalid line is an error with its line number.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cua.errors import TrajectoryError
from cua.messages import ImagePart, Part, Reply, TextPart, ToolResult, Usage
from cua.run.end import RunResult
from cua.step import CallOutcome, Step, ToolStep, ToolTurn
from cua.trajectory.chain import HashChain, check_chain
from cua.trajectory.codec import from_line
from cua.trajectory.disk import translate_os_errors, whole_lines
from cua.trajectory.events import (
    CHAINED_SINCE,
    SCHEMA_VERSION,
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
    ResumedEvent,
    RunEvent,
    RunHeader,
    SealedEvent,
)
from cua.trajectory.images import ImageFolder
from cua.trajectory.run_files import TRAJECTORY
from cua.trajectory.run_record import MAIN, ActionsOutcome, PendingStep, RunRecord, interrupted_step
from envs import Observation


def load_run(run_dir: Path | str, *, images: int | None = 3) -> RunRecord:
    """Load a run.

    Args:
        run_dir: The run's folder.
        images: Number of images to load, latest first; None for all. Other observations have b"" as their screenshot;
            `RunRecord.image` reads any of them. A tool-using run is loaded with all its images, or with none for 0.

    Raises:
        TrajectoryError: If the run does not exist, or its record is damaged (the message names the line).
    """
    folder = Path(run_dir).absolute()
    path = folder / TRAJECTORY
    with translate_os_errors("read", folder):
        lines = whole_lines(path)
    if not lines:
        raise TrajectoryError(f"{path} holds no complete line: the run broke off before it began")
    reader = _RecordReader(folder, with_tool_images=images != 0)
    for number, line in enumerate(lines, start=1):
        try:
            reader.read(from_line(line))
        except ValueError as error:
            raise TrajectoryError(
                f"{path}, line {number}, is damaged: {error}. "
                "Only the last line may be incomplete; restore the file, or cut it before this line"
            ) from error
    record = reader.record()
    chain = check_chain(lines, is_expected=record.header.schema_version >= CHAINED_SINCE)
    return _with_images(replace(record, chain=chain), images)


def load_chain(run_dir: Path) -> HashChain:
    """Return the chain of a record to be continued; its events are parsed only if hashes do not prove them valid."""
    with translate_os_errors("read", run_dir):
        lines = whole_lines(run_dir / TRAJECTORY)
    chain = check_chain(lines, is_expected=True)
    return chain if lines and chain.status == "whole" else load_run(run_dir, images=0).chain


class _RecordReader:
    """Builder of steps from events. A `ValueError` means that an event is out of order."""

    def __init__(self, run_dir: Path, *, with_tool_images: bool, agent: str = MAIN, parent: str = "") -> None:
        self._run_dir = run_dir
        self._agent, self._parent = agent, parent
        self._tool_images = ImageFolder(run_dir) if with_tool_images else None
        self._others: dict[str, _RecordReader] = {}
        self._turns: list[ToolTurn] = []
        self._pending_calls: tuple[int, Reply] | None = None
        self._tool_reply: tuple[int, Reply] | None = None
        self._header: RunHeader | None = None
        self._run_id = ""
        self._steps: list[Step] = []
        self._outcomes: list[ActionsOutcome] = []
        self._pending: PendingStep | None = None
        self._notes: list[NoteEvent] = []
        self._discarded: list[tuple[int, Reply]] = []
        self._result: RunResult | None = None
        self._usage = Usage()
        self._images: dict[int, str] = {}
        self._resumed_at: list[float] = []
        self._sealed: SealedEvent | None = None
        self._last_at = self._process_began_at = self._earlier_s = 0.0

    def read(self, event: Event) -> None:
        """Process the next event of any agent."""
        if event.agent == self._agent:
            self._read(event)
            return
        if self._header is None:
            raise ValueError("a record begins with its one 'run' event")
        other = self._others.get(event.agent)
        if other is None:
            is_known = event.parent in (self._agent, *self._others)
            if not is_known:
                raise ValueError(f"agent {event.agent!r} works for {event.parent!r}, which is unknown")
            other = self._others[event.agent] = _RecordReader(
                self._run_dir,
                with_tool_images=self._tool_images is not None,
                agent=event.agent,
                parent=event.parent,
            )
            other._header, other._run_id = self._header, self._run_id
        other._read(event)
        self._last_at = event.at

    def _read(self, event: Event) -> None:
        if isinstance(event, RunEvent) != (self._header is None):
            raise ValueError("a record begins with its one 'run' event")
        if isinstance(event, ResumedEvent):
            self._earlier_s += max(0.0, self._last_at - self._process_began_at)
        if isinstance(event, ResumedEvent | RunEvent):
            self._process_began_at = event.at
        self._last_at = event.at
        match event:
            case RunEvent():
                if event.header.schema_version > SCHEMA_VERSION:
                    raise ValueError(
                        f"written in format {event.header.schema_version}, this version reads up to {SCHEMA_VERSION}: "
                        "upgrade cua-k25"
                    )
                self._header, self._run_id = event.header, event.run_id
            case ObservedEvent():
                self._observed(event)
            case RepliedEvent() if self._turns:
                self._usage += event.reply.usage
                self._tool_reply = event.index, event.reply
            case RepliedEvent():
                self._replied(event)
            case AskedEvent():
                self._result = None
                self._turns.append(ToolTurn(question=self._parts(event.parts), inputs=event.inputs))
            case CallingEvent():
                reply = self._reply_of(event.index, "calls tools")
                self._pending_calls = event.index, replace(reply, tool_calls=event.calls)
            case CalledEvent():
                self._called(event)
            case ActingEvent():
                self._pending = replace(self._open(event.index), turn=event.turn, actions=event.actions)
            case ActedEvent():
                self._acted(event)
            case NoteEvent():
                self._notes.append(event)
            case ResumedEvent():
                self._resumed(event)
            case EndedEvent():
                self._end(event.result)
            case SealedEvent():
                self._sealed = event

    def record(self) -> RunRecord:
        """Return the record of all processed events."""
        assert self._header is not None
        return RunRecord(
            run_dir=self._run_dir,
            header=self._header,
            run_id=self._run_id or self._run_dir.name,
            steps=tuple(self._steps),
            turns=tuple(self._turns),
            pending_calls=self._pending_calls,
            outcomes=tuple(self._outcomes),
            pending=self._pending,
            notes=tuple(self._notes),
            discarded=tuple(self._discarded),
            result=self._result,
            usage=sum((other._usage for other in self._others.values()), self._usage),
            images=self._images,
            resumed_at=tuple(self._resumed_at),
            last_at=self._last_at,
            active_s=self._earlier_s + max(0.0, self._last_at - self._process_began_at),
            sealed=self._sealed,
            agent=self._agent,
            parent=self._parent,
            agents={name: other.record() for name, other in self._others.items()},
        )

    def _open(self, index: int) -> PendingStep:
        if self._pending is None or self._pending.index != index:
            raise ValueError(f"step {index} was not observed before")
        return self._pending

    def _observed(self, event: ObservedEvent) -> None:
        last = self._steps[-1].index if self._steps else 0
        if event.index <= last:
            raise ValueError(f"step {event.index} is observed after step {last} was finished")
        self._drop_pending(event.at)
        self._images[event.index] = event.image
        self._pending = PendingStep(index=event.index, observation=event.observation, started_at=event.at)

    def _replied(self, event: RepliedEvent) -> None:
        pending = self._open(event.index)
        self._usage += event.reply.usage
        self._discard(pending)
        self._pending = replace(pending, reply=event.reply)

    def _discard(self, pending: PendingStep) -> None:
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
            ActionsOutcome(
                carried_out=event.actions is None, reward=event.reward, info=event.info, finished_at=event.at
            ),
        )

    def _resumed(self, event: ResumedEvent) -> None:
        self._resumed_at.append(event.at)
        self._sealed = None
        for reader in (self, *self._others.values()):
            reader._end(None)
            reader._drop_pending(event.at)

    def _end(self, result: RunResult | None) -> None:
        """Set the result of the run and of its last question; None reopens both."""
        self._result = result
        if self._turns:
            self._turns[-1] = replace(self._turns[-1], result=result)

    def _reply_of(self, index: int, event: str) -> Reply:
        if self._tool_reply is None or self._tool_reply[0] != index:
            raise ValueError(f"step {index} {event}, and the reply that led to it is missing")
        return self._tool_reply[1]

    def _called(self, event: CalledEvent) -> None:
        step = ToolStep(
            index=event.index,
            reply=self._reply_of(event.index, "is finished"),
            outcomes=tuple(self._outcome(outcome) for outcome in event.outcomes),
            remark=event.remark,
            started_at=event.started_at,
            timings=event.timings,
        )
        self._turns[-1] = replace(self._turns[-1], steps=(*self._turns[-1].steps, step))
        self._tool_reply = self._pending_calls = None

    def _outcome(self, recorded: RecordedOutcome) -> CallOutcome:
        result = ToolResult(
            parts=self._parts(recorded.parts),
            is_error=recorded.is_error,
            display=recorded.display,
            data=recorded.data,
        )
        return CallOutcome(number=recorded.number, call=recorded.call, result=result, duration_s=recorded.duration_s)

    def _parts(self, recorded: Sequence[RecordedPart]) -> tuple[Part, ...]:
        images = self._tool_images
        return tuple(
            TextPart(text=part.text)
            if part.part == "text"
            else ImagePart(data=images.get(part.image) if images is not None else b"")
            for part in recorded
        )

    def _drop_pending(self, at: float) -> None:
        """Close the unfinished step: as an interrupted step if it may have acted; otherwise drop it."""
        pending, self._pending = self._pending, None
        step = interrupted_step(pending) if pending else None
        if step:
            self._finish(step, ActionsOutcome(finished_at=at))
        elif pending:
            self._discard(pending)

    def _finish(self, step: Step, outcome: ActionsOutcome) -> None:
        self._steps.append(step)
        self._outcomes.append(outcome)
        self._pending = None


def _with_images(record: RunRecord, images: int | None) -> RunRecord:
    """Return the record with the images of its latest observations loaded."""
    wanted = sorted(record.images)
    wanted = wanted if images is None else wanted[len(wanted) - min(images, len(wanted)) :]
    loaded = {index: record.image(index) for index in wanted}

    def see(observation: Observation, index: int) -> Observation:
        return replace(observation, screenshot=loaded[index]) if index in loaded else observation

    pending = record.pending
    return replace(
        record,
        steps=tuple(replace(step, observation=see(step.observation, step.index)) for step in record.steps),
        pending=pending and replace(pending, observation=see(pending.observation, pending.index)),
    )
