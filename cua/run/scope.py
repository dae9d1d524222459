"""Environment of an agent's loop: ids, control, limits, record, and the conversion of errors to a result.

Each kind of agent has a loop of its own, and all use this. A scope may have children
(`make_child`): they use their parent's budget, stop with it and write to its journal.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cua.errors import (
    ContextOverflowError,
    ModelError,
    TaskError,
    TrajectoryError,
    TruncatedReplyError,
    UnusableReplyError,
)
from cua.messages import Message, Reply, Sampling, Usage
from cua.model import Model, Tool
from cua.run.budget import Budget, CapReachedError, Caps
from cua.run.control import Control, StoppedError
from cua.run.end import End, RunResult
from cua.run.events import Event, Listener, Noted, NoteKind, RunEnded, RunStarted
from cua.trajectory.journal import Journal
from cua.trajectory.writer import TrajectoryWriter
from envs import EnvError
from visual_tools.errors import SandboxError


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Usage of an earlier part of a run."""

    usage: Usage = field(default_factory=Usage)
    num_steps: int = 0
    num_calls: int = 0
    time_s: float = 0.0


Grant = Callable[[int], Awaitable[int]]


class RunScope:
    """One agent's part of a run. The limits of a scope apply to its children in addition to their own.

    `begin_step`, `generate` and `reply_unusable` raise `CapReachedError` if a limit is reached.

    Args:
        caps: Limits of this agent.
        record: Writer or journal of the run; None records nothing.
        listener: Called with every event.
        grant: Returns how many of a number of tool calls are allowed, if they are counted elsewhere.

    Attributes:
        ids: Ids of the run and the agent.
        caps: Limits of this agent.
        control: Pauses, resumes, stops and redirects the agent from outside.
        budget: Usage and limits.
        record: Journal of the run.
        run_dir: Folder of the last run that was created within this one; None if none is recorded.
    """

    def __init__(
        self,
        *,
        caps: Caps,
        record: TrajectoryWriter | Journal | None = None,
        listener: Listener | None = None,
        grant: Grant | None = None,
    ) -> None:
        self.record = record if isinstance(record, Journal) else Journal(record)
        self.ids = self.record.ids
        self.caps = caps
        self.control = Control(max_time_s=caps.max_time_s)
        self.budget = Budget(caps)
        self._listener = listener
        self._grant = grant
        self._num_unusable = 0
        self.run_dir: str | None = None

    def make_child(self, agent_id: str, caps: Caps) -> "RunScope":
        """Return a scope for a sub-agent; `agent_id` must be unique in the journal."""
        return self._derive(caps, self.record.for_agent(agent_id))

    def make_part(self, caps: Caps) -> "RunScope":
        """Return a scope for a part of the same agent's work, such as one question: same record, separate control."""
        return self._derive(caps, self.record, is_same_agent=True)

    def make_run(
        self, caps: Caps, record: TrajectoryWriter | None = None, listener: Listener | None = None
    ) -> "RunScope":
        """Return a scope for a separate run within this one, with its own record, such as one episode of a batch."""
        part = self._derive(caps, Journal(record), listener)
        self.run_dir = part.record.shown_dir
        return part

    def _derive(
        self, caps: Caps, record: Journal, listener: Listener | None = None, *, is_same_agent: bool = False
    ) -> "RunScope":
        part = RunScope(caps=caps, record=record, listener=listener or self._listener, grant=self._grant)
        part.control = self.control.make_child(max_time_s=caps.max_time_s, is_same_agent=is_same_agent)
        part.budget = self.budget.make_child(caps)
        return part

    @property
    def spent(self) -> Spent:
        """Usage of this part of the run."""
        used, time_s = self.budget, self.control.time_s
        return Spent(usage=used.usage, num_steps=used.num_steps, num_calls=used.num_calls, time_s=time_s)

    def begin(self, instruction: str, spent: Spent | None = None) -> None:
        """Start the run: start its clock, add the usage of earlier parts, and emit `RunStarted`."""
        spent = spent or Spent()
        self.control.attach(earlier_s=spent.time_s)
        self.budget.usage += spent.usage
        self.budget.num_steps += spent.num_steps
        self.budget.num_calls += spent.num_calls
        self.emit(RunStarted(instruction=instruction, run_dir=self.record.shown_dir))

    async def run_to_end(self, work: Callable[[], Awaitable[End]]) -> End:
        """Await the work of a run, and convert errors to a result."""
        try:
            return await work()
        except CapReachedError as cap:
            return End(status="capped", cap=cap.cap, reason=str(cap))
        except StoppedError as error:
            return End(status="stopped", reason=str(error))
        except ContextOverflowError as error:
            return End(status="failed", cap="context", reason=f"context overflow: {error}")
        except ModelError as error:
            return End(status="error", source="model", reason=str(error), retryable=error.retryable)
        except EnvError as error:
            return End(status="error", source="env", reason=str(error), retryable=error.retryable)
        except TaskError as error:
            return End(status="error", source="task", reason=str(error))
        except SandboxError as error:
            return End(status="error", source="sandbox", reason=str(error), retryable=True)
        except TrajectoryError as error:
            return End(status="error", source="record", reason=str(error), retryable=True)
        except BaseException:  # `finish` will not be called
            self.control.clock.end()
            await self.record.close()
            raise

    async def finish(self, end: End, num_steps: int) -> RunResult:
        """Record the result and return it; if recording fails, return a result with that error."""
        result = RunResult(
            end=end,
            num_steps=num_steps,
            usage=self.budget.usage,
            duration_s=self.control.time_s,
            run_dir=self.record.shown_dir,
        )
        try:
            if end.source != "record":
                await self.record.ended(result)
        except TrajectoryError as error:
            result = replace(
                result, end=replace(end, status="error", source="record", reason=str(error), retryable=True)
            )
        finally:
            self.control.clock.end()
            await self.record.close()
        self.emit(RunEnded(result=result))
        return result

    def begin_step(self) -> None:
        """Count a step."""
        self.control.check_time()
        self.budget.begin_step()

    async def take_calls(self, num_calls: int) -> int:
        """Count tool calls and return how many of them, from the first, are allowed."""
        granted = num_calls if self._grant is None else await self._grant(num_calls)
        return self.budget.take_calls(granted)

    async def generate(
        self, model: Model, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Call the model once within the limits; a stop cancels the call.

        Raises:
            CapReachedError: If a limit is reached.
            StoppedError: If a person stopped the run.
            ModelError: If the model raises it; tokens of truncated and unusable replies are counted.
        """
        return await self.control.unless_stopped(self._generate(model, messages, tools, sampling))

    async def _generate(
        self, model: Model, messages: Sequence[Message], tools: Sequence[Tool], sampling: Sampling | None
    ) -> Reply:
        self.control.check_time()
        async with self.budget.model_call() as reservation:
            try:
                reply = await model.generate(messages, tools, sampling)
            except (TruncatedReplyError, UnusableReplyError) as error:
                if error.reply is not None:
                    reservation.usage = error.reply.usage
                raise
            reservation.usage = reply.usage
            return reply

    async def lease(self, most: int) -> int:
        """Reserve model calls for an agent in another process, see `Budget.lease`; waits while the run is paused.

        Raises:
            CapReachedError: If a limit is reached.
            StoppedError: If a person stopped the run.
        """
        await self.control.checkpoint()
        self.control.check_time()
        return await self.budget.lease(most)

    def reply_unusable(self, why: str) -> None:
        """Count an unusable reply, and note the reason."""
        self._num_unusable += 1
        self.note("parse_error", why)
        if self._num_unusable >= self.caps.max_parse_errors:
            raise CapReachedError(
                "parse_errors", f"{self._num_unusable} replies in a row could not be used; the last one: {why}"
            )

    def reply_usable(self) -> None:
        """Reset the count of consecutive unusable replies."""
        self._num_unusable = 0

    def note(self, kind: NoteKind, text: str, **data: Any) -> None:
        """Record and emit a note, an event that is not a step."""
        self.record.note(kind, text, **data)
        self.emit(Noted(kind=kind, text=text))

    def note_child(self, agent_id: str, text: str) -> None:
        """Emit a note about a sub-agent; its own record already has it."""
        if self._listener is not None:
            ids = replace(self.ids, agent_id=agent_id, parent_id=self.ids.agent_id)
            self._listener(Noted(kind="child", text=text, ids=ids))

    def listen(self, listener: Listener) -> None:
        """Replace the listener."""
        self._listener = listener

    def emit(self, event: Event) -> None:
        """Send an event to the listener, with the ids of this agent."""
        if self._listener is not None:
            self._listener(event if event.ids == self.ids else replace(event, ids=self.ids))
