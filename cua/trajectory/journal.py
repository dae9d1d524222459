"""A record written off the event loop: one thread for all agents of a run, and one wait for the disk for many writes.

Each method returns when its event is with the operating system, or on disk where `TrajectoryWriter` promises that. What
many agents write at the same time waits for the disk together (group commit), and the event loop goes on meanwhile.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cua.errors import TrajectoryError
from cua.messages import Part, Reply, ToolCall
from cua.run.end import RunResult
from cua.run.events import AgentIds
from cua.step import Step, Turn
from cua.tool_step import ToolStep
from cua.trajectory.record_file import RecordFile
from cua.trajectory.writer import TrajectoryWriter
from envs import Action, Observation


class Journal:
    """The record of one agent, for its loop.

    Args:
        writer: Writes the lines; None keeps nothing, for throw-away runs.
        thread: Of the run's first agent; for `for_agent` only.
    """

    def __init__(self, writer: TrajectoryWriter | None, thread: "_CommitThread | None" = None) -> None:
        self._writer = writer
        self._is_shared = thread is not None
        self._thread = thread or (None if writer is None else _CommitThread(writer.file))

    @property
    def ids(self) -> AgentIds:
        """Whose record it is."""
        return self._writer.ids if self._writer else AgentIds()

    @property
    def shown_dir(self) -> str | None:
        """The run's folder as text; None when nothing is kept."""
        return str(self._writer.run_dir) if self._writer else None

    def for_agent(self, agent_id: str) -> "Journal":
        """The same record, for an agent that works for this one."""
        return Journal(self._writer.for_agent(agent_id) if self._writer else None, self._thread)

    async def observed(self, index: int, observation: Observation) -> None:
        """Step `index` begins with this observation. On disk when this returns.

        Raises:
            TrajectoryError: It cannot be written; so for all methods.
        """
        await self._done(lambda writer: writer.observed(index, observation))

    async def replied(self, index: int, reply: Reply) -> None:
        """The model answered; there may be several answers to a step."""
        await self._done(lambda writer: writer.replied(index, reply))

    async def acting(self, index: int, turn: Turn, actions: Sequence[Action]) -> None:
        """These actions are about to be carried out. On disk when this returns."""
        await self._done(lambda writer: writer.acting(index, turn, actions))

    async def acted(self, step: Step, reward: float, info: Mapping[str, Any]) -> None:
        """A step is finished."""
        await self._done(lambda writer: writer.acted(step, reward, info))

    async def asked(self, question: Sequence[Part]) -> None:
        """A tool-using run begins with this question. On disk when this returns."""
        await self._done(lambda writer: writer.asked(question))

    async def calling(self, index: int, calls: Sequence[ToolCall]) -> None:
        """These calls are about to be carried out. On disk when this returns."""
        await self._done(lambda writer: writer.calling(index, calls))

    async def called(self, step: ToolStep) -> None:
        """A step of a tool-using run is finished."""
        await self._done(lambda writer: writer.called(step))

    async def ended(self, result: RunResult) -> None:
        """The run is over. On disk when this returns."""
        await self._done(lambda writer: writer.ended(result))

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Something that is not a step; written in its turn. A failure is raised by the next call."""
        writer = self._writer
        if writer is not None and self._thread is not None:
            self._thread.submit(lambda: writer.note(kind, text, **data), None)

    async def close(self) -> None:
        """Write what is under way and end the thread; the writer stays open. For an agent's child this does nothing."""
        if self._thread is not None and not self._is_shared:
            await asyncio.to_thread(self._thread.stop)

    async def _done(self, write: Callable[[TrajectoryWriter], None]) -> None:
        writer = self._writer
        if writer is None or self._thread is None:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._thread.submit(lambda: write(writer), future)
        await future


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], None]
    future: "asyncio.Future[None] | None"


class _CommitThread:
    """Takes jobs in order; those that have gathered while the disk was busy share the next wait for it."""

    def __init__(self, file: RecordFile) -> None:
        self._file = file
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: TrajectoryError | None = None

    def submit(self, work: Callable[[], None], future: "asyncio.Future[None] | None") -> None:
        """Have a job done. Called on the event loop."""
        if self._thread is None:
            self._file.is_grouped = True
            self._thread = threading.Thread(target=self._run, name="k25-journal", daemon=True)
            self._thread.start()
        self._jobs.put(_Job(work, future))

    def stop(self) -> None:
        """Do what is left and end the thread; a later job starts it again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()
            self._file.is_grouped, self._failure = False, None

    def _run(self) -> None:
        is_over = False
        while not is_over:
            jobs = [self._jobs.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    jobs.append(self._jobs.get_nowait())
            is_over = None in jobs
            self._commit([job for job in jobs if job is not None])

    def _commit(self, jobs: Sequence[_Job]) -> None:
        results = [(job, self._attempt(job.work)) for job in jobs]
        failed = self._attempt(self._file.sync)
        _resolve([(job.future, error or failed) for job, error in results if job.future is not None])

    def _attempt(self, work: Callable[[], None]) -> Exception | None:
        """Do it; what went wrong. Once a line is lost nothing more is written: the record ends there."""
        if self._failure is not None:
            return self._failure
        try:
            work()
        except TrajectoryError as error:
            self._failure = error
            return error
        except Exception as error:  # a defect, raised where the event came from
            return error
        return None


def _resolve(done: Sequence[tuple["asyncio.Future[None]", Exception | None]]) -> None:
    """Wake those who wait, each on its own event loop."""
    loops = {future.get_loop() for future, _ in done}
    for loop in loops:
        mine = [(future, error) for future, error in done if future.get_loop() is loop]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_wake, mine)


def _wake(done: Sequence[tuple["asyncio.Future[None]", Exception | None]]) -> None:
    for future, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
