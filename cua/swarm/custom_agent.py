"""User-defined agent as a child: an async function of a `ChildTask`, given to the swarm by the name of its kind.

    async def reader(task: ChildTask) -> str:
        reply = await task.ask([Message(role="user", parts=(TextPart(text=task.prompt),))])
        results = await task.call(*reply.tool_calls)
        return results[0].text

    SwarmOptions(agents={"reader": reader})        # create_subagent(name=..., system_prompt=..., kind="reader")

Model calls and tool calls made through the task are limited, counted, guarded and recorded as any child's; other work
of the function is not. Its return value is its message. After a transient `ModelError` or `EnvError` it is restarted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cua.errors import CuaError, describe_defect
from cua.guard import Guard
from cua.messages import Message, Reply, Sampling, TextPart, ToolCall, ToolResult
from cua.model import Model, Tool
from cua.run.budget import CapReachedError
from cua.run.control import StoppedError
from cua.run.end import End, RunResult
from cua.run.events import CallReturned, CallsStarted, ToolStepDone
from cua.run.scope import RunScope
from cua.step import CallOutcome, ToolStep
from cua.tool_agent.calls import CallRunner, with_call_ids
from cua.tool_agent.conversation import REDIRECT
from cua.tools import Toolset
from envs import EnvError
from visual_tools.errors import SandboxError


@dataclass(slots=True, kw_only=True)
class _OpenStep:
    """Reply whose calls may still follow."""

    index: int
    reply: Reply
    started_at: float
    model_s: float = 0.0
    tools_s: float = 0.0
    outcomes: tuple[CallOutcome, ...] = ()


class ChildTask:
    """Assignment of a child, with its model, tools and folder.

    Attributes:
        id: Id such as `t005`.
        prompt: The task.
        system_prompt: Role written by the orchestrator.
        url: Start page, if one was given.
        folder: Working folder of the child, with the files given to it.
        tools: The core tools.
        model: Model for an agent of this project that works within `scope`; other agents use `ask`.
        scope: Limits, controls and record.
    """

    def __init__(
        self,
        *,
        id: str,
        prompt: str,
        system_prompt: str,
        url: str,
        folder: Path,
        toolset: Toolset,
        model: Model,
        guard: Guard,
        is_isolated: bool,
        scope: RunScope,
    ) -> None:
        self.id, self.prompt, self.system_prompt, self.url = id, prompt, system_prompt, url
        self.folder, self.tools, self.model, self.scope = folder, toolset.tools, model, scope
        self._call_runner = CallRunner(
            toolset=toolset,
            guard=guard.for_run(scope.control.await_person),
            scope=scope,
            is_isolated=is_isolated,
            on_outcome=lambda outcome: scope.emit(CallReturned(index=self._num_steps, outcome=outcome)),
        )
        self._lock = asyncio.Lock()
        self._num_steps = self._num_calls = 0
        self._redirects: tuple[str, ...] = ()
        self._step: _OpenStep | None = None

    async def ask(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Return a reply of the child's model, which counts as a step; one at a time.

        New instructions of the user follow the messages, from the first call after them on.

        Raises:
            ModelError: If the model call fails, as in `Model.generate`.
        """
        async with self._lock:
            await self._end_step()
            await self.scope.control.checkpoint()
            self.scope.begin_step()
            self._redirects += self.scope.control.take_redirects()
            orders = (Message(role="user", parts=(TextPart(text=REDIRECT + text),)) for text in self._redirects)
            started_at, started = time.time(), time.monotonic()
            reply = await self.scope.generate(self.model, (*messages, *orders), tools, sampling)
            reply = with_call_ids(reply, self._num_calls)
            await self._begin_step(reply, started_at, time.monotonic() - started)
            return reply

    async def say(self, content: str = "") -> None:
        """Begin a step with a text of the agent's own code, in place of a model reply.

        Raises:
            CapReachedError: If a limit is used up.
        """
        async with self._lock:
            await self._end_step()
            await self.scope.control.checkpoint()
            self.scope.begin_step()
            await self._begin_step(Reply(content=content), time.time(), 0.0)

    async def call(self, *calls: ToolCall) -> tuple[ToolResult, ...]:
        """Call core tools concurrently within the last step, and return the results in the order of the calls.

        Raises:
            SandboxError: If the sandbox has failed.
        """
        if not calls:
            return ()
        async with self._lock:
            if self._step is None:
                await self._begin_step(Reply(content=""), time.time(), 0.0)
            step = self._step
            assert step is not None
            numbered = with_call_ids(Reply(content="", tool_calls=calls), self._num_calls).tool_calls
            await self.scope.record.calling(step.index, (*(outcome.call for outcome in step.outcomes), *numbered))
            self.scope.emit(CallsStarted(index=step.index, reply=replace(step.reply, tool_calls=numbered)))
            started = time.monotonic()
            outcomes = await self._call_runner.run(numbered, self._num_calls)
            step.outcomes, step.tools_s = (*step.outcomes, *outcomes), step.tools_s + time.monotonic() - started
            self._num_calls += len(outcomes)
            return tuple(outcome.result for outcome in outcomes)

    async def _begin_step(self, reply: Reply, started_at: float, model_s: float) -> None:
        if not self._num_steps:
            await self.scope.record.asked([TextPart(text=self.prompt)])
        self._num_steps += 1
        self._step = _OpenStep(index=self._num_steps, reply=reply, started_at=started_at, model_s=model_s)
        await self.scope.record.replied(self._num_steps, reply)

    async def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        done = ToolStep(
            index=step.index,
            reply=step.reply,
            outcomes=step.outcomes,
            started_at=step.started_at,
            timings={"model": step.model_s, "tools": step.tools_s},
        )
        await self.scope.record.called(done)
        self.scope.emit(ToolStepDone(step=done, usage=self.scope.budget.usage))

    async def run(self, agent: "CustomAgent") -> RunResult:
        """Run an agent; an error raised by its code becomes its end."""
        self.scope.begin(self.prompt)
        try:
            end = await self.scope.run_to_end(lambda: self._answer(agent))
        finally:
            self.scope.control.clock.end()
        return await self.scope.finish(end, num_steps=self._num_steps)

    async def _answer(self, agent: "CustomAgent") -> End:
        try:
            text: object = await self.scope.control.unless_stopped(agent(self))
        except (CuaError, EnvError, SandboxError, StoppedError, CapReachedError):
            raise
        except Exception as error:  # third-party code
            return End(status="failed", reason=f"its own code broke: {describe_defect(error)}")
        finally:
            await self._end_step()
        if isinstance(text, str):
            return End(status="unverified", reason="an agent of the user's own answered", answer=text)
        return End(status="failed", reason=f"its own code returned {type(text).__name__}; expected its message, a str")


CustomAgent = Callable[[ChildTask], Awaitable[str]]
