"""Writes the record of a run while it happens.

Every event is handed to the operating system before its method returns, so a killed process loses
nothing. Two events also wait for the disk: `observed`, right before the model is asked, and `acting`,
right before something is done that must not be done twice.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cua.errors import TrajectoryError
from cua.messages import Reply
from cua.run.end import RunResult
from cua.step import Step, Turn
from cua.trajectory import images
from cua.trajectory.chain import hash_line, link
from cua.trajectory.codec import to_line
from cua.trajectory.disk_errors import told
from cua.trajectory.events import (
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
from cua.trajectory.folder import TRAJECTORY, make_run_dir
from cua.trajectory.lines import AppendOnlyLines, whole_lines
from cua.trajectory.load import load_run
from cua.trajectory.lock import RunLock
from envs import Action, Observation


class TrajectoryWriter:
    """The record of one run, being written. Made by `create` or `reopen`; ends with `close` or `with`.

    Attributes:
        run_dir: The run's folder.
    """

    def __init__(self, run_dir: Path, lock: RunLock, redact: Callable[[str], str], *, is_durable: bool) -> None:
        """Not for callers: see `create` and `reopen`."""
        self.run_dir = run_dir
        self._lock = lock
        self._redact = redact
        self._is_durable = is_durable
        self._images = images.ImageFolder(run_dir)
        self._lines: AppendOnlyLines | None = None
        self._last_hash: str | None = ""  # None: an earlier version began this record, without a chain
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
    ) -> Self:
        """Make a new run folder and write its first line.

        Args:
            runs_dir: The folder of all runs.
            header: What the run is started with.
            redact: Replaces secret values by `{{name}}`; every text goes through it, the folder's name too.
            is_durable: Wait for the disk at `observed` and `acting`; False leaves that to the operating
                system (which survives a killed process, but not a power cut).

        Raises:
            TrajectoryError: The folder cannot be made or written.
        """
        started_at = header.started_at or time.time()
        with told("write", Path(runs_dir)):
            run_dir = make_run_dir(Path(runs_dir).absolute(), redact(header.instruction), started_at)
            try:
                writer = cls(run_dir, RunLock(run_dir), redact, is_durable=is_durable)
                with _closed_on_error(writer):
                    (run_dir / images.FOLDER).mkdir(mode=0o700)
                    writer._lines = AppendOnlyLines(run_dir / TRAJECTORY)
                    event = RunEvent(at=started_at, header=replace(header, started_at=started_at))
                    writer._append(event, is_durable=True)
                    if is_durable:
                        _sync_folder(run_dir)
            except (OSError, TrajectoryError):
                shutil.rmtree(run_dir, ignore_errors=True)  # a run that never began
                raise
        return writer

    @classmethod
    def reopen(cls, run_dir: Path | str, redact: Callable[[str], str] = str, *, is_durable: bool = True) -> Self:
        """Go on with a run: drop a torn last line and write `resumed`.

        Read the record with `load_run` and `resume_steps` *before*; what was being done when the run
        broke off stands closed as an interrupted step afterwards.

        Raises:
            TrajectoryError: Another process writes this run, or its record is damaged or was edited.
        """
        folder = Path(run_dir).absolute()
        path = folder / TRAJECTORY
        with told("write", folder):
            path.stat()
            writer = cls(folder, RunLock(folder), redact, is_durable=is_durable)
            with _closed_on_error(writer):
                chain = load_run(folder, images=0).chain
                if chain.status == "broken":
                    raise TrajectoryError(f"{path} was {chain.describe()}; a run goes on only from its own record")
                writer._last_hash = chain.fingerprint if chain.status == "whole" else None
                writer._lines = AppendOnlyLines(path, keep_bytes=sum(len(line) + 1 for line in whole_lines(path)))
                writer._append(ResumedEvent(at=time.time()), is_durable=True)
        return writer

    def observed(self, index: int, observation: Observation) -> None:
        """Keep what the model is about to see. On disk when this returns.

        Raises:
            TrajectoryError: It cannot be written; the record stays readable up to here.
        """
        with told("write", self.run_dir):
            image = self._images.put(observation.screenshot, is_durable=self._is_durable)
        event = ObservedEvent(at=time.time(), index=index, observation=observation, image=image)
        self._append(event, is_durable=True)
        self._index, self._observation, self._reply, self._acting = index, observation, None, None

    def replied(self, index: int, reply: Reply) -> None:
        """Keep the model's answer, whether or not it can be read.

        Raises:
            TrajectoryError: It cannot be written.
        """
        self._append(RepliedEvent(at=time.time(), index=index, reply=reply))
        self._reply = reply

    def acting(self, index: int, turn: Turn, actions: Sequence[Action]) -> None:
        """Keep what is about to be done. On disk when this returns: call it before `env.step`.

        Raises:
            TrajectoryError: It cannot be written; do not carry the actions out.
        """
        self._append(ActingEvent(at=time.time(), index=index, turn=turn, actions=tuple(actions)), is_durable=True)
        self._acting = turn, tuple(actions)

    def acted(self, step: Step, reward: float = 0.0, info: Mapping[str, Any] | None = None) -> None:
        """Keep a finished step. Parts of it that no event has told yet are told now.

        Args:
            step: The step; without `acting` before, nothing of it was carried out.
            reward: The env's reward.
            info: The env's `StepResult.info`.

        Raises:
            TrajectoryError: It cannot be written.
        """
        if self._index != step.index or self._observation is not step.observation:
            self.observed(step.index, step.observation)
        if self._reply is not step.reply:
            self.replied(step.index, step.reply)
        is_told = self._acting == (step.turn, step.actions)
        self._append(
            ActedEvent(
                at=time.time(),
                index=step.index,
                error=step.error,
                started_at=step.started_at,
                timings=step.timings,
                reward=reward,
                info=info or {},
                turn=None if is_told else step.turn,
                actions=None if is_told else step.actions,
            )
        )
        self._observation = self._reply = self._acting = None

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Keep something worth knowing: a guard's decision, a nudge, a pause, a reply that could not be read.

        Args:
            kind: One word: `guard`, `loop`, `parse_error`, `pause`, `redirect`, ...
            text: One line for a person.
            data: Details.

        Raises:
            TrajectoryError: It cannot be written.
        """
        self._append(Note(at=time.time(), kind=kind, text=text, index=self._index, data=data))

    def ended(self, result: RunResult) -> None:
        """Keep how the run ended. On disk when this returns.

        Raises:
            TrajectoryError: It cannot be written.
        """
        self._append(EndedEvent(at=time.time(), result=result), is_durable=True)

    def close(self) -> None:
        """Let the files and the lock go. May be called twice."""
        if self._lines is not None:
            self._lines.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, event: Event, *, is_durable: bool = False) -> None:
        if self._lines is None:
            raise TrajectoryError(f"the record in {self.run_dir} is not open")
        with told("write", self.run_dir):
            line = to_line(event, self._redact)
            if self._last_hash is not None:
                line = link(line, self._last_hash)
            self._lines.append(line, is_durable=is_durable and self._is_durable)
        if self._last_hash is not None:
            self._last_hash = hash_line(line)


@contextmanager
def _closed_on_error(writer: TrajectoryWriter) -> Iterator[None]:
    """Close the writer when the block does not get through."""
    with ExitStack() as stack:
        stack.callback(writer.close)
        yield
        stack.pop_all()


def _sync_folder(folder: Path) -> None:
    """Put the names inside a folder on disk (where the system can)."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows does not open folders
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
