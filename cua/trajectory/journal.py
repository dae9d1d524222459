"""Journal that writes a record outside the event loop: one thread for all agents of a run, with group commit.

Lines are written in the order of the calls. `replied`, `called` and `note` return immediately, the others when their
line is written, or on disk where `TrajectoryWriter` promises that. An action waits for its own line, which follows all
earlier lines. Concurrent writes of several agents share one wait for the disk (group commit), which does not block the
event loop.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cua.json_text import JsonMapping
from cua.messages import Part, Reply, ToolCall
from cua.run.end import RunResult
from cua.run.events import AgentIds
from cua.step import Step, ToolStep, Turn
from cua.trajectory.writer import TrajectoryWriter
from envs import Action, Observation


class Journal:
    """Record of one agent, for its loop. Its coroutines raise `TrajectoryError` if the record cannot be written.

    Args:
        writer: Writes the lines; None keeps nothing, for runs without a record.
        committer: Committer of the run's first agent; for `for_agent` only.
    """

    def __init__(self, writer: TrajectoryWriter | None, committer: "Committer | None" = None) -> None:
        self._writer = writer
        self._is_shared = committer is not None
        self._committer = committer or (None if writer is None else Committer(writer.file))

    @property
    def ids(self) -> AgentIds:
        """Ids of the agent."""
        return self._writer.ids if self._writer else AgentIds()

    @property
    def shown_dir(self) -> str | None:
        """Folder of the run as text; None without a record."""
        return str(self._writer.run_dir) if self._writer else None

    def for_agent(self, agent_id: str) -> "Journal":
        """Return a journal of the same record for a child agent."""
        return Journal(self._writer.for_agent(agent_id) if self._writer else None, self._committer)

    async def observed(self, index: int, observation: Observation) -> None:
        """Record the observation that starts step `index`. On disk when this returns."""
        await self._done(lambda writer: writer.observed(index, observation))

    async def replied(self, index: int, reply: Reply) -> None:
        """Record a reply of the model; a step may have several. Queued, and written before the resulting actions."""
        self._in_turn(lambda writer: writer.replied(index, reply))

    async def acting(self, index: int, turn: Turn, actions: Sequence[Action]) -> None:
        """Record the actions to be executed. On disk when this returns."""
        await self._done(lambda writer: writer.acting(index, turn, actions))

    async def acted(self, step: Step, reward: float, info: JsonMapping) -> None:
        """Record a finished step."""
        await self._done(lambda writer: writer.acted(step, reward, info))

    async def asked(self, question: Sequence[Part], inputs: Sequence[JsonMapping] = ()) -> None:
        """Record a question of a tool-using run. On disk when this returns."""
        await self._done(lambda writer: writer.asked(question, inputs))

    async def calling(self, index: int, calls: Sequence[ToolCall]) -> None:
        """Record the calls to be made. On disk when this returns."""
        await self._done(lambda writer: writer.calling(index, calls))

    async def called(self, step: ToolStep) -> None:
        """Record a finished step of a tool-using run. Queued, and written while the model generates the next reply."""
        self._in_turn(lambda writer: writer.called(step))

    async def keep(self, files: Mapping[str, bytes]) -> None:
        """Write files next to the record; do nothing without files."""
        if files:
            await self._done(lambda writer: writer.keep(files))

    async def ended(self, result: RunResult) -> None:
        """Record the result of the run. On disk when this returns; only queued for a child agent."""
        if self._is_shared:
            self._in_turn(lambda writer: writer.ended(result))
        else:
            await self._done(lambda writer: writer.ended(result))

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Record an event that is not a step. Queued; an error is raised by the next call."""
        self._in_turn(lambda writer: writer.note(kind, text, **data))

    async def noted(self, kind: str, text: str, **data: Any) -> None:
        """Record an event that is not a step and that must be durable. On disk when this returns."""
        await self._done(lambda writer: writer.note(kind, text, is_durable=True, **data))

    async def close(self) -> None:
        """Write queued lines and end the thread; the writer stays open. Does nothing for a child agent."""
        if self._committer is not None and not self._is_shared:
            await asyncio.to_thread(self._committer.close)

    def _in_turn(self, write: Callable[[TrajectoryWriter], None]) -> None:
        """Write without waiting; later durable writes include it. An error is raised by the next call that waits."""
        writer = self._writer
        if writer is not None and self._committer is not None:
            self._committer.write_later(lambda: write(writer))

    async def _done(self, write: Callable[[TrajectoryWriter], None]) -> None:
        writer = self._writer
        if writer is not None and self._committer is not None:
            await self._committer.write(lambda: write(writer))


class GroupedFile(Protocol):
    """File whose durable writes wait for `sync` while `is_grouped` is set."""

    is_grouped: bool

    def sync(self) -> None:
        """Wait until all durable writes up to here are on disk."""
        ...


COMMIT_S = 0.005
"""Seconds after the beginning of a commit for several agents until the next one, which is for more lines then."""


class Committer:
    """Single thread that writes a file, in order.

    Writes that are queued while the disk is busy are written together, with one wait for the disk.
    """

    def __init__(self, file: GroupedFile) -> None:
        self._file = file
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        self._lock = threading.Lock()
        self._lost: BaseException | None = None
        self._next_at = 0.0

    async def write(self, work: Callable[[], None]) -> None:
        """Queue a write, and wait until it is done."""
        if self._lost is not None:
            error, self._lost = self._lost, None
            raise error
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._submit(work, done)
        await done  # if this task is cancelled, the line is still written

    def write_later(self, work: Callable[[], None]) -> None:
        """Queue a write without waiting; an error is raised by the next `write`."""
        self._submit(work, None)

    def close(self) -> None:
        """Finish the queue and end the thread; a later write starts another, which waits for this one."""
        with self._lock:
            if self._thread is not None:
                self._jobs.put(None)
                self._ending, self._thread = self._thread, None
            ending = self._ending
        if ending is not None:
            ending.join()
        with self._lock:
            if self._thread is None:
                self._file.is_grouped = False

    def _submit(self, work: Callable[[], None], done: "asyncio.Future[None] | None") -> None:
        with self._lock:
            if self._thread is None:
                self._file.is_grouped = True
                self._jobs = queue.SimpleQueue()
                args = (self._jobs, self._ending)
                self._thread = threading.Thread(target=self._run, args=args, name="k25-journal", daemon=True)
                self._thread.start()
            self._jobs.put(_Job(work, done))

    def _run(self, waiting: "queue.SimpleQueue[_Job | None]", before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        is_over = False
        while not is_over:
            jobs = [waiting.get()]
            time.sleep(max(0.0, self._next_at - time.monotonic()))
            started = time.monotonic()
            with contextlib.suppress(queue.Empty):
                while True:
                    jobs.append(waiting.get_nowait())
            is_over = None in jobs
            self._commit([job for job in jobs if job is not None])
            num_agents = sum(job is not None and job.done is not None for job in jobs)
            self._next_at = started + COMMIT_S if num_agents > 1 else 0.0

    def _commit(self, jobs: Sequence["_Job"]) -> None:
        for job in jobs:
            try:
                job.work()
            except BaseException as error:
                job.set_exception(error)
        try:
            self._file.sync()
        except BaseException as error:
            for job in jobs:
                job.set_exception(error)
        awaited: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in jobs:
            if job.done is None:
                self._lost = job.error or self._lost
            else:
                awaited.setdefault(job.done.get_loop(), []).append(job)
        for loop, finished in awaited.items():
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_finish, finished)


@dataclass(slots=True)
class _Job:
    """Write, and the future of the task that waits for it, if any."""

    work: Callable[[], None]
    done: "asyncio.Future[None] | None"
    error: BaseException | None = None

    def set_exception(self, error: BaseException) -> None:
        """Set the error that the waiting task, or the next one that waits, gets."""
        self.error = self.error or error


def _finish(jobs: Sequence[_Job]) -> None:
    """Wake the waiting tasks, on their event loop."""
    for job in jobs:
        if job.done is None or job.done.done():  # its task was cancelled
            continue
        if job.error is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(job.error)
