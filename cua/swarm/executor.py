"""Execution of children in actors of a Ray cluster; budget and record stay in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cua.cluster import connect_ray, open_actor
from cua.config import Settings
from cua.errors import ConfigError
from cua.guard import Approver, GuardVerdict
from cua.messages import Message, Reply, Sampling, ToolResult
from cua.model import Model, Tool
from cua.run.events import AgentIds
from cua.run.scope import RunScope
from cua.step import Turn
from cua.swarm.agents import SharedAgentConfig, WorkItem
from cua.swarm.child import AttemptResult
from cua.swarm.remote import (
    Files,
    FolderChanges,
    HostOptions,
    ToolSpec,
    open_host,
    pack_error,
    unpack_error,
    write_files,
)
from cua.tool_agent.calls import CALL_NUMBER
from cua.tool_agent.conversation import Compaction, Conversation, RunSnapshot
from cua.tool_agent.profile import ToolMaker
from envs import Action, EnvDiedError, EnvError, EnvSetupError
from envs.errors import require
from envs.remote import Channel

ExecutorKind = Literal["local", "ray"]
PER_CPU = 2
"""SandboxPool, and envs, that an actor may have open at the same time, per CPU."""
OPEN_TRIES = 3
"""Attempts to start an actor if its node is lost meanwhile; no try of a child is used up."""


class _Progress:
    """Progress of a child, from its record lines: the state from which another try continues."""

    def __init__(self, start: RunSnapshot | None) -> None:
        self.conversation = start.conversation if start else Conversation()
        self._reply: Reply | None = None
        self.num_gui_steps = 0

    def on_record_line(self, name: str, values: Sequence[Any]) -> None:
        """Process a line of the record."""
        match name, values:
            case "asked", (parts, *_):
                self.conversation = self.conversation.with_question(parts)
            case "replied", (_, reply):
                self._reply = reply
            case "calling", (index, calls) if self._reply is not None:
                reply = replace(self._reply, tool_calls=tuple(calls))
                self.conversation = self.conversation.with_calls(index, reply)
            case "called", (step,):
                self.conversation = self.conversation.with_step(step)
            case "acted", _:
                self.num_gui_steps += 1

    def on_compaction(self, data: Mapping[str, Any]) -> None:
        """Process a compaction: a part of the conversation is not shown any more."""
        self.conversation = replace(self.conversation, compaction=Compaction(**data))

    def snapshot(self, scope: RunScope) -> RunSnapshot | None:
        """Return the state from which another try continues; None before the first question."""
        return RunSnapshot(conversation=self.conversation, spent=scope.spent) if self.conversation.questions else None

    @property
    def last_text(self) -> str:
        """Last text of the model."""
        replies = (step.reply.content.strip() for step in reversed(self.conversation.steps))
        return next(filter(None, replies), "")


class CoordinatorStub:
    """Parent's side of one try of a child: answers its requests within the child's limits.

    Args:
        channel: Connection to the `ChildHost`.
        item: The try to run.
        scope: Limits and record of the child.
        model: Model that the child uses.
        folder: Folder of the child's files.
        tools: Tools that run in this process: those for children of its own.
        approver: Asks a person.
    """

    def __init__(
        self,
        channel: Channel,
        item: WorkItem,
        *,
        scope: RunScope,
        model: Model,
        folder: Path,
        tools: Sequence[Tool],
        approver: Approver | None,
    ) -> None:
        self._channel, self._item, self._scope, self._model = channel, item, scope, model
        self._folder, self._tools, self._approver = folder, {tool.name: tool for tool in tools}, approver
        self._progress = _Progress(item.start)
        self._tasks: set[asyncio.Task[None]] = set()
        self._verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            "generate": self._generate,
            "take_calls": scope.take_calls,
            "record": self._record,
            "approve": self._approve,
            "call": self._call,
        }

    async def play(self) -> AttemptResult:
        """Run the child to its end; the loss of its host is a transient error."""
        scope, start = self._scope, self._item.start
        scope.control.attach(earlier_s=start.spent.time_s if start else 0.0)
        if start is not None:
            scope.budget.usage += start.spent.usage
            scope.budget.num_calls += start.spent.num_calls
        attempt: AttemptResult | None = None

        async def work() -> Any:
            nonlocal attempt
            attempt = await scope.control.unless_stopped(self._serve())
            return attempt.result.end

        end = await scope.run_to_end(work)
        scope.control.clock.end()
        if attempt is None:
            num_steps = len(self._progress.conversation.steps) + self._progress.num_gui_steps
            result = await scope.finish(end, num_steps=num_steps)
            attempt = AttemptResult(result=result, last_text=self._progress.last_text)
        return replace(attempt, snapshot=self._progress.snapshot(scope))

    async def _serve(self) -> AttemptResult:
        item, caps = self._item, replace(self._scope.caps, max_calls=None, max_time_s=None)
        specs = [ToolSpec.of(tool) for tool in self._tools.values()]
        files = await asyncio.to_thread(FolderChanges(self._folder).take)
        try:
            await self._channel.call("begin", item, self._scope.ids, caps, self._model.name, specs, files)
            self._scope.control.on_redirect = lambda: self._start(self._forward_redirects())
            await self._forward_redirects()
            while True:
                for number, verb, values in await self._channel.call("next", item.id):
                    if verb == "done":
                        return await self._done(*values)
                    if number:
                        self._start(self._answer(number, verb, values))
                    else:
                        self._on_message(verb, *values)
        finally:
            self._scope.control.on_redirect = lambda: None
            for task in self._tasks:
                task.cancel()
            with suppress(EnvDiedError):
                await self._channel.call("end", item.id)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward_redirects(self) -> None:
        for instruction in self._scope.control.take_redirects():
            with suppress(EnvDiedError):  # the next try gets it
                await self._channel.call("redirect", self._item.id, instruction)

    async def _done(self, attempt: AttemptResult | None, files: Files, packed: Any) -> AttemptResult:
        await asyncio.to_thread(write_files, self._folder, files)
        if attempt is None:
            raise unpack_error(packed)
        return attempt

    async def _answer(self, number: int, verb: str, values: Sequence[Any]) -> None:
        result: Any = (await asyncio.gather(self._verbs[verb](*values), return_exceptions=True))[0]
        packed = pack_error(result) if isinstance(result, BaseException) else None
        with suppress(EnvDiedError):  # requests that still wait get the error
            await self._channel.call("answer", self._item.id, number, None if packed else result, packed)

    def _on_message(self, verb: str, *values: Any) -> None:
        if verb == "event":
            self._scope.emit(replace(values[0], ids=AgentIds()))
            return
        kind, text, data = values
        if kind == "context":
            self._progress.on_compaction(data)
        self._scope.record.note(kind, text, **data)

    async def _generate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling | None
    ) -> Reply:
        await self._scope.control.checkpoint()
        self._scope.begin_step()
        return await self._scope.generate(self._model, messages, tools, sampling)

    async def _record(self, name: str, values: Sequence[Any], named: Mapping[str, Any], files: Files) -> None:
        if files:
            await asyncio.to_thread(write_files, self._folder, files)
        self._progress.on_record_line(name, values)
        await getattr(self._scope.record, name)(*values, **named)

    async def _approve(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        assert self._approver is not None
        return await self._scope.control.await_person(self._approver(verdict, turn, actions))

    async def _call(self, name: str, arguments: Mapping[str, Any], number: int) -> ToolResult:
        CALL_NUMBER.set(number)
        return await self._tools[name].call(arguments)


@dataclass(slots=True)
class _Host:
    """`ChildHost` in an actor; implements `Channel`."""

    channel: Channel
    num_children: int = 0
    is_lost: bool = False

    async def call(self, verb: str, *values: Any) -> Any:
        """Call a verb, as in `Channel.call`."""
        try:
            return await self.channel.call(verb, *values)
        except EnvDiedError:
            self.is_lost = True
            raise

    async def close(self) -> None:
        """Close the host, as in `Channel.close`."""
        await self.channel.close()


class RayAgentPool:
    """Children in actors of a Ray cluster: an actor for each free CPU, children spread evenly; implements `AgentPool`.

    A child takes little but memory while its model generates, so an actor runs several children if there are more
    children than CPUs.

    Args:
        options: Options of the actors.
        approver: Asks a person.
        address: As for `connect_ray`.

    Raises:
        EnvSetupError: If the cluster cannot be reached.
        MissingDependencyError: If Ray is not installed.
    """

    def __init__(self, options: HostOptions, *, approver: Approver | None, address: str | None = None) -> None:
        connect_ray(address)
        self._options, self._approver = options, approver
        self._hosts: list[_Host] = []
        self._lock = asyncio.Lock()

    async def work(
        self, item: WorkItem, scope: RunScope, model: Model, folder: Path, more_tools: Sequence[Tool] = ()
    ) -> AttemptResult:
        """Run one try, as in `AgentPool.work`.

        Raises:
            EnvError: If no actor could be started.
        """
        host = await self._take_host()
        try:
            coordinator = CoordinatorStub(
                host, item, scope=scope, model=model, folder=folder, tools=more_tools, approver=self._approver
            )
            return replace(await coordinator.play(), is_lost=host.is_lost)
        finally:
            host.num_children -= 1

    async def _take_host(self) -> _Host:
        async with self._lock:
            alive = [host for host in self._hosts if not host.is_lost]
            least = min(alive, key=lambda host: host.num_children, default=None)
            if least is None or (least.num_children and await asyncio.to_thread(_has_free_cpu)):
                least = await self._open_host(least)
            least.num_children += 1
            return least

    async def _open_host(self, other: _Host | None) -> _Host:
        for number in range(OPEN_TRIES):
            try:
                host = _Host(await open_actor(open_host, self._options))
            except (EnvSetupError, EnvDiedError) as error:
                if other is not None:
                    return other  # another task was faster, or the CPU belonged to a node that is being lost
                if isinstance(error, EnvSetupError) or number == OPEN_TRIES - 1:
                    raise
                await asyncio.sleep(1.0)  # until the cluster knows which nodes are left
            else:
                self._hosts.append(host)
                return host
        raise AssertionError("the last round returns or raises")

    async def close(self) -> None:
        """End the actors."""
        await asyncio.gather(*(host.close() for host in self._hosts))


def check_ray(*, has_objects: bool) -> None:
    """Check the options before anything is started.

    Args:
        has_objects: True if a sandbox or envs were passed as objects.

    Raises:
        ConfigError: If objects cannot be sent to actors, or Ray is not installed.
    """
    if has_objects:
        raise ConfigError(
            "sandboxes and envs of a cluster are made on its nodes: name the sandbox by its setting and leave make_env "
            "out, or use executor='local'"
        )
    try:
        require("ray", "ray")
    except EnvError as error:
        raise ConfigError(str(error)) from error


def make_ray_pool(
    settings: Settings, shared: SharedAgentConfig, tools: tuple[ToolMaker, ...] | None, address: str | None
) -> RayAgentPool:
    """Make the workers of a cluster; each actor has one CPU and a matching number of sandboxes and envs.

    Raises:
        ConfigError: If the cluster cannot be reached.
    """
    approver = shared.guard.approver
    options = HostOptions(
        settings=replace(settings, api_key=None),
        shared=replace(shared, guard=replace(shared.guard, approver=None), num_envs=PER_CPU),
        tools=tools,
        num_kernels=PER_CPU,
        has_approver=approver is not None,
    )
    try:
        return RayAgentPool(options, approver=approver, address=address)
    except EnvError as error:
        raise ConfigError(str(error)) from error


def _has_free_cpu() -> bool:
    return float(require("ray", "ray").available_resources().get("CPU", 0.0)) >= 1.0
