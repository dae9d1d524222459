"""What a loop works in: whose run it is, its switches, its limits, its record, and the one way in which it ends.

The GUI agent, the agent with tools and whatever comes later differ in their loops and share this. A scope may have
children (`make_child`): they use up their parent's budget, stop with it and write into its journal.
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
from cua.run.events import AgentIds, Event, Listener, Noted, NoteKind, RunEnded, RunStarted
from cua.trajectory.journal import Journal
from cua.trajectory.writer import TrajectoryWriter
from envs import EnvError
from visual_tools.errors import SandboxError


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What an earlier part of a run has used."""

    usage: Usage = field(default_factory=Usage)
    num_steps: int = 0
    num_calls: int = 0
    time_s: float = 0.0


Grant = Callable[[int], Awaitable[int]]


class RunScope:
    """One agent's part of a run. The limits of a scope hold for its parts besides their own.

    `begin_step`, `generate` and `reply_unusable` raise `CapReachedError` where a limit is used up.

    Args:
        caps: Limits of this agent.
        record: Where it is written down; None keeps nothing.
        listener: Told all that happens.
        grant: How many of so many tool calls may be made, where the book is kept elsewhere.

    Attributes:
        ids: Whose run it is.
        caps: Limits of this agent.
        control: Pauses, resumes, stops and redirects it from outside.
        budget: What it has used and may use.
        record: Where it is written down.
        run_dir: Folder of the last run that was made within this one; None before any has a record.
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
        """A scope for an agent that works for this one; `agent_id` is unlike any other in the journal."""
        return self._make_part(caps, self.record.for_agent(agent_id))

    def make_turn(self, caps: Caps) -> "RunScope":
        """A scope for one of several questions to the same agent: the same record, switches of its own."""
        return self._make_part(caps, self.record, is_same_agent=True)

    def make_run(
        self, caps: Caps, record: TrajectoryWriter | None = None, listener: Listener | None = None
    ) -> "RunScope":
        """A scope for a run of its own within this one, with its own record: one episode of a batch."""
        part = self._make_part(caps, Journal(record), listener)
        self.run_dir = part.record.shown_dir
        return part

    def _make_part(
        self, caps: Caps, record: Journal, listener: Listener | None = None, *, is_same_agent: bool = False
    ) -> "RunScope":
        part = RunScope(caps=caps, record=record, listener=listener or self._listener, grant=self._grant)
        part.control = self.control.make_child(max_time_s=caps.max_time_s, is_same_agent=is_same_agent)
        part.budget = self.budget.make_child(caps)
        return part

    @property
    def spent(self) -> Spent:
        """What this part of the run has used."""
        used, time_s = self.budget, self.control.time_s
        return Spent(usage=used.usage, num_steps=used.num_steps, num_calls=used.num_calls, time_s=time_s)

    def begin(self, instruction: str, spent: Spent | None = None) -> None:
        """The run starts: its clock, and word of it to whoever listens."""
        spent = spent or Spent()
        self.control.attach(earlier_s=spent.time_s)
        self.budget.usage += spent.usage
        self.budget.num_steps += spent.num_steps
        self.budget.num_calls += spent.num_calls
        self.emit(RunStarted(instruction=instruction, run_dir=self.record.shown_dir))

    async def to_the_end(self, work: Callable[[], Awaitable[End]]) -> End:
        """Do the work of a run; what breaks it becomes its end."""
        try:
            return await work()
        except CapReachedError as cap:
            return End(status="capped", cap=cap.cap, reason=str(cap))
        except StoppedError as error:
            return End(status="stopped", reason=str(error))
        except ContextOverflowError as error:
            return End(status="failed", reason=f"context overflow: {error}")
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
        except BaseException:  # nobody gets to `finish`
            self.control.clock.end()
            await self.record.close()
            raise

    async def finish(self, end: End, num_steps: int) -> RunResult:
        """The result, on disk; or, when that fails, the result that says so."""
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
        """Count tool calls; how many of them may be made, the first ones."""
        granted = num_calls if self._grant is None else await self._grant(num_calls)
        return self.budget.take_calls(granted)

    async def generate(
        self, model: Model, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """One call of the model within the limits; a stop ends it.

        Raises:
            CapReachedError: A limit is used up.
            StoppedError: A person stopped the run.
            ModelError: As the model raises it; a reply that was cut or cannot be used has its tokens counted.
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

    def reply_unusable(self, why: str) -> None:
        """Count a reply that could not be used, and write down why."""
        self._num_unusable += 1
        self.note("parse_error", why)
        if self._num_unusable >= self.caps.max_parse_errors:
            raise CapReachedError(
                "parse_errors", f"{self._num_unusable} replies in a row could not be used; the last one: {why}"
            )

    def reply_usable(self) -> None:
        """A reply could be used: the next one that cannot is the first in a row."""
        self._num_unusable = 0

    def note(self, kind: NoteKind, text: str, **data: Any) -> None:
        """Write down and tell something that is not a step."""
        self.record.note(kind, text, **data)
        self.emit(Noted(kind=kind, text=text))

    def note_child(self, agent_id: str, text: str) -> None:
        """Tell of a change of an agent that works for this one; its own record has it already."""
        if self._listener is not None:
            ids = replace(self.ids, agent_id=agent_id, parent_id=self.ids.agent_id)
            self._listener(Noted(kind="child", text=text, ids=ids))

    def listen(self, listener: Listener) -> None:
        """Have another one told what happens from now on."""
        self._listener = listener

    def emit(self, event: Event) -> None:
        """Send an event to the listener, with the ids of this agent."""
        if self._listener is not None:
            self._listener(event if self.ids == AgentIds() else replace(event, ids=self.ids))
