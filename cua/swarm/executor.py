"""Execution of children in actors of a Ray cluster; budget and record stay in this process."""

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from cua.cluster import connect_ray, count_free_cpus, open_actor
from cua.config import Settings
from cua.errors import ConfigError, ModelError
from cua.guard import Approver, GuardVerdict
from cua.messages import Message, Reply, Sampling, ToolCall, ToolResult, Usage
from cua.model import Model, Tool
from cua.models.gate import MAX_OPEN, ON_WAIT, AgentWait, reported_wait
from cua.models.make import endpoint_options
from cua.research.fetch import FetchLimits
from cua.run.events import Event
from cua.run.scope import RunScope
from cua.step import Turn
from cua.swarm.agents import SharedAgentConfig, WorkItem
from cua.swarm.budget import ChildModel
from cua.swarm.child import AttemptResult
from cua.swarm.files import Chunks, FolderChanges, FolderReceiver
from cua.swarm.pages import PageStore
from cua.swarm.remote import HostOptions, ToolSpec, network_id, open_host, pack_error, unpack_error
from cua.tool_agent.calls import CALL_NUMBER
from cua.tool_agent.conversation import Compaction, Conversation, RunSnapshot
from cua.tool_agent.profile import ToolMaker
from envs import Action, EnvDiedError, EnvError, EnvSetupError
from envs.errors import require
from envs.remote import Channel

ExecutorKind = Literal["local", "ray"]
PER_CPU = 2
"""SandboxPool, and envs, that an actor may have open at the same time, per CPU."""
LEASED_CALLS = 16
"""Largest number of model calls that a child may make before it asks again."""
EXCHANGE_S = 0.05
"""Seconds for which messages to a host are collected: an exchange with an actor of Ray takes 1 ms of processor time."""
FULL_S = 1.0
"""Seconds for which a cluster without a further free CPU counts as full, until it knows of the actors just started."""
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

    def num_started(self, index: int) -> int:
        """Return the number of calls of a step that are recorded as started."""
        step = self.conversation.interrupted_step
        return len(step.reply.tool_calls) if step is not None and step.index == index else 0

    def snapshot(self, scope: RunScope) -> RunSnapshot | None:
        """Return the state from which another try continues; None before the first question."""
        return RunSnapshot(conversation=self.conversation, spent=scope.spent) if self.conversation.questions else None

    @property
    def last_text(self) -> str:
        """Last text of the model."""
        replies = (step.reply.content.strip() for step in reversed(self.conversation.steps))
        return next(filter(None, replies), "")


class MessageReceiver:
    """Receiver of the messages of a child, or of a host itself.

    Args:
        host: The host.
        name: Name of the child; "" for the host itself.
        verbs: Functions by the name of the message.
    """

    def __init__(self, host: "HostConnection", name: str, verbs: Mapping[str, Callable[..., Awaitable[Any]]]) -> None:
        self._host, self._name, self._verbs = host, name, verbs
        self._context = contextvars.copy_context()
        self._answers: set[asyncio.Task[None]] = set()

    async def receive(self, number: int, verb: str, values: Sequence[Any]) -> None:
        """Process a message in order; a request (`number` > 0) is answered in a task of its own."""
        if number:
            context = self._context.copy()
            answer = asyncio.create_task(self._answer(number, verb, values), context=context)
            self._answers.add(answer)
            answer.add_done_callback(self._answers.discard)
        else:
            await self._verbs[verb](*values)

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        raise NotImplementedError

    def end(self) -> None:
        """Stop answering."""
        for answer in self._answers:
            answer.cancel()

    async def _answer(self, number: int, verb: str, values: Sequence[Any]) -> None:
        result: Any = (await asyncio.gather(self._verbs[verb](*values), return_exceptions=True))[0]
        packed = pack_error(result) if isinstance(result, BaseException) else None
        self._host.tell(self._name, "answer", number, None if packed else result, packed)


class PageReceiver(MessageReceiver):
    """Receiver of a host's messages about the cache of pages."""

    def __init__(self, host: "HostConnection", pages: PageStore) -> None:
        super().__init__(host, "", pages.verbs(host))
        self._pages = pages

    def fail(self, error: BaseException) -> None:
        """Release what a lost host was fetching."""
        self.end()
        self._pages.release_all(self._host)


class CoordinatorStub(MessageReceiver):
    """Parent's side of one try of a child: processes its messages within the child's limits.

    Args:
        host: Host of the child.
        item: The try to run.
        scope: Limits and record of the child.
        model: Model that the child uses.
        folder: Folder of the child's files.
        tools: Tools that run in this process: those for children of its own.
        approver: Asks a person.
    """

    def __init__(
        self,
        host: "HostConnection",
        item: WorkItem,
        *,
        scope: RunScope,
        model: Model,
        folder: Path,
        tools: Sequence[Tool],
        approver: Approver | None,
    ) -> None:
        self._item, self._scope, self._model = item, scope, model
        self._folder, self._tools, self._approver = folder, {tool.name: tool for tool in tools}, approver
        self._progress = _Progress(item.start)
        self._receiver = FolderReceiver(folder)
        self._num_leased = 0
        self._attempt: asyncio.Future[AttemptResult] = asyncio.get_running_loop().create_future()
        verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            "generate": self._generate,
            "lease": self._lease,
            "used": self._used,
            "give_back": self._give_back,
            "suspend": self._suspend,
            "wait": self._wait,
            "record": self._record,
            "calling": self._calling,
            "note": self._note,
            "event": self._event,
            "files": self._receive,
            "approve": self._approve,
            "call": self._call,
            "done": self._done,
        }
        super().__init__(host, item.id, verbs)

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
        number = await self._host.open_model(self._model)
        changes = FolderChanges(self._folder).take()
        while chunks := await asyncio.to_thread(next, changes, None):
            await self._host.call("files", item.id, chunks)
        self._host.add(item.id, self)
        self._scope.control.on_pause = self._recall
        self._scope.budget.recalls.add(self._recall)
        model = self._model.name if number is None else number
        self._host.tell(item.id, "begin", item, self._scope.ids, caps, model, specs)
        self._scope.control.on_redirect = self._forward_redirects
        self._forward_redirects()
        try:
            return await self._attempt
        finally:
            self._scope.control.on_redirect = lambda: None
            self._scope.budget.recalls.discard(self._recall)
            self.end()
            if self._host.stubs.get(item.id) is self:
                del self._host.stubs[item.id]
            if not self._attempt.done() or self._attempt.cancelled():
                self._host.tell(item.id, "end")
            self._end_lease()

    def _forward_redirects(self) -> None:
        for instruction in self._scope.control.take_redirects():
            self._host.tell(self._item.id, "redirect", instruction)

    async def receive(self, number: int, verb: str, values: Sequence[Any]) -> None:
        """Process a message, as in `MessageReceiver.receive`; an error ends the try."""
        try:
            await super().receive(number, verb, values)
        except Exception as error:
            if not self._attempt.done():
                self._attempt.set_exception(error)

    def fail(self, error: BaseException) -> None:
        """End the try with an error."""
        if not self._attempt.done():
            self._attempt.set_exception(error)

    async def _done(self, attempt: AttemptResult | None, chunks: Chunks, packed: Any) -> None:
        await self._commit(chunks)
        if attempt is None:
            self.fail(unpack_error(packed))
        elif not self._attempt.done():
            self._attempt.set_result(attempt)

    async def _generate(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling | None
    ) -> Reply:
        await self._scope.control.checkpoint()
        self._scope.begin_step()
        return await self._scope.generate(self._model, messages, tools, sampling)

    async def _lease(self) -> int:
        num_calls = await self._scope.lease(LEASED_CALLS)
        self._num_leased += num_calls
        return num_calls

    async def _used(self, usage: Usage) -> None:
        self._num_leased -= 1
        self._scope.budget.settle(usage)

    async def _give_back(self, num_calls: int) -> None:
        self._num_leased -= num_calls
        self._scope.budget.give_back(num_calls)

    def _recall(self) -> None:
        if self._num_leased:
            self._host.tell(self._item.id, "recall")

    def _end_lease(self) -> None:
        """Return what is left; of a child that did not report its end, one call may have been made."""
        if self._num_leased and (not self._attempt.done() or self._attempt.cancelled() or self._attempt.exception()):
            self._num_leased -= 1
            self._scope.budget.settle(Usage())
        self._scope.budget.give_back(self._num_leased)
        self._num_leased = 0

    async def _suspend(self, packed: Any) -> None:
        error = unpack_error(packed)
        if isinstance(self._model, ChildModel) and isinstance(error, ModelError):
            self._model.suspend(error)

    async def _wait(self, wait: AgentWait | None) -> None:
        on_wait = ON_WAIT.get()
        if on_wait is not None:
            await on_wait(wait)

    async def _event(self, event: Event) -> None:
        self._scope.emit(event)

    async def _note(self, kind: str, text: str, data: Mapping[str, Any]) -> None:
        if kind == "context":
            self._progress.on_compaction(data)
        self._scope.record.note(kind, text, **data)

    async def _record(self, name: str, values: Sequence[Any], named: Mapping[str, Any], chunks: Chunks) -> None:
        await self._commit(chunks)
        self._progress.on_record_line(name, values)
        await getattr(self._scope.record, name)(*values, **named)

    async def _calling(self, index: int, calls: Sequence[ToolCall]) -> int:
        """Record calls, and count those that the step did not have before; return how many are allowed."""
        num_new = len(calls) - self._progress.num_started(index)
        await self._record("calling", (index, calls), {}, ())
        return await self._scope.take_calls(num_new)

    async def _receive(self, chunks: Chunks) -> None:
        await asyncio.to_thread(self._receiver.add, chunks)

    async def _commit(self, chunks: Chunks) -> None:
        if chunks:
            await self._receive(chunks)
            await asyncio.to_thread(self._receiver.commit)

    async def _approve(self, verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
        assert self._approver is not None
        return await self._scope.control.await_person(self._approver(verdict, turn, actions))

    async def _call(self, name: str, arguments: Mapping[str, Any], number: int) -> ToolResult:
        CALL_NUMBER.set(number)
        return await self._tools[name].call(arguments)


class HostConnection:
    """Connection to the `ChildHost` in an actor, with one exchange of messages at a time for all of its children.

    Args:
        channel: Connection to the host.
        on_loss: Called when the host is lost.
        pages: Cache of pages that all hosts share.
        relays_model: True if no model is opened on the host.

    Attributes:
        stubs: Receivers for the children of the host at work, by id; "" for the host itself.
        num_children: Number of children that the host was given.
        is_lost: True if the host is gone.
    """

    def __init__(self, channel: Channel, on_loss: Callable[[], None], pages: PageStore, *, relays_model: bool) -> None:
        self._channel, self._on_loss, self._relays_model = channel, on_loss, relays_model
        self.stubs: dict[str, MessageReceiver] = {"": PageReceiver(self, pages)}
        self.num_children = 0
        self.is_lost = False
        self._messages: list[tuple[Any, ...]] = []
        self._is_exchanging = False
        self._opened: dict[int, asyncio.Task[bool]] = {}
        self._models: list[Model] = []
        self._sending: asyncio.Task[None] | None = None
        self._exchange = asyncio.create_task(self._exchange_messages())
        self._exchange.add_done_callback(self._exchange_ended)

    async def call(self, verb: str, *values: Any) -> Any:
        """Call a verb, as in `Channel.call`."""
        try:
            return await self._channel.call(verb, *values)
        except EnvDiedError as error:
            self._lose(error)
            raise

    def add(self, child: str, stub: CoordinatorStub) -> None:
        """Add a child whose messages are to be processed.

        Raises:
            EnvDiedError: If the host is lost.
        """
        if self.is_lost:
            raise EnvDiedError("its host on the Ray cluster is gone")
        self.stubs[child] = stub

    def tell(self, child: str, verb: str, *values: Any) -> None:
        """Send a message to a child with the next exchange, or on its own if the host is silent."""
        self._messages.append((child, verb, values))
        if self._is_exchanging and self._sending is None:
            self._sending = asyncio.create_task(self._send())

    async def open_model(self, model: Model) -> int | None:
        """Open a model on the host, once; return its number, or None if this process has to call it."""
        model = model.model if isinstance(model, ChildModel) else model
        options = () if self._relays_model else endpoint_options(model)
        if not options:
            return None
        if model not in self._models:
            self._models.append(model)
        number = self._models.index(model)
        if number not in self._opened:
            opening = self.call("open_model", number, options, network_id())
            self._opened[number] = asyncio.create_task(opening)
        return number if await asyncio.shield(self._opened[number]) else None

    async def _exchange_messages(self) -> None:
        while not self.is_lost:
            self._is_exchanging = True
            messages, self._messages = self._messages, []
            received = await self.call("exchange", messages)
            self._is_exchanging = False
            for child, *message in received:
                if child in self.stubs:
                    await self.stubs[child].receive(*message)
            await asyncio.sleep(EXCHANGE_S)

    def _exchange_ended(self, exchange: "asyncio.Task[None]") -> None:
        """End the children of a host whose messages cannot be exchanged any more; a defect unless it is lost."""
        if not exchange.cancelled() and (error := exchange.exception()) is not None:
            self._lose(error)

    def _lose(self, error: BaseException) -> None:
        """End the tries of all children of a host that is lost."""
        if not self.is_lost:
            self.is_lost = True
            for stub in list(self.stubs.values()):
                stub.fail(error)
            self._on_loss()

    async def _send(self) -> None:
        """Send messages while the host has none."""
        await asyncio.sleep(EXCHANGE_S)
        self._sending = None
        if self._messages and self._is_exchanging:
            messages, self._messages = self._messages, []
            with suppress(EnvDiedError):
                await self.call("take", messages)

    async def close(self) -> None:
        """Close the host, as in `Channel.close`."""
        self._exchange.cancel()
        await self._channel.close()


class RayAgentPool:
    """Children in actors of a Ray cluster: an actor for each free CPU, children spread evenly; implements `AgentPool`.

    A child takes little but memory while its model generates, so an actor runs several children if there are more
    children than CPUs.

    Args:
        options: Options of the actors.
        approver: Asks a person.
        address: As for `connect_ray`.
        relays_model: True to call models from this process only.

    Raises:
        EnvSetupError: If the cluster cannot be reached.
        MissingDependencyError: If Ray is not installed.
    """

    def __init__(
        self,
        options: HostOptions,
        *,
        approver: Approver | None,
        address: str | None = None,
        relays_model: bool = False,
    ) -> None:
        connect_ray(address)
        self._options, self._approver, self._relays_model = options, approver, relays_model
        self._hosts: list[HostConnection] = []
        self._num_free, self._full_until = 0, 0.0
        self._opening: asyncio.Task[HostConnection] | None = None
        self._failed: tuple[float, EnvSetupError | EnvDiedError] | None = None
        self._pages = PageStore(FetchLimits())
        self._lock = asyncio.Lock()

    async def work(
        self, item: WorkItem, scope: RunScope, model: Model, folder: Path, more_tools: Sequence[Tool] = ()
    ) -> AttemptResult:
        """Run one try, as in `AgentPool.work`; an `EnvError` means that no actor could be started."""
        wait = reported_wait("an actor on the Ray cluster", is_outage=bool(self._hosts))  # an outage if all are lost
        async with nullcontext() if self._alive else wait:
            host = await scope.control.unless_stopped(self._take_host())
        try:
            coordinator = CoordinatorStub(
                host, item, scope=scope, model=model, folder=folder, tools=more_tools, approver=self._approver
            )
            return replace(await coordinator.play(), is_lost=host.is_lost)
        finally:
            host.num_children -= 1

    async def _take_host(self) -> HostConnection:
        """Return the host with the fewest children, or a new one; an actor goes on starting if its child is stopped."""
        asked_at = time.monotonic()
        async with self._lock:
            least = min(self._alive, key=lambda host: host.num_children, default=None)
            if least is None and self._failed is not None and self._failed[0] > asked_at:
                raise self._failed[1]  # this one waited for a free CPU as long as the one that was first
            if (least is None or least.num_children) and (await self._may_open_host() or least is None):
                if self._opening is None or self._opening.done():
                    self._opening = asyncio.create_task(self._open_host(least))
                least = await asyncio.shield(self._opening)
            least.num_children += 1
            return least

    async def _may_open_host(self) -> bool:
        """Return True if a CPU is free, by one request for all hosts that fit; the next one follows after `FULL_S`."""
        if not self._num_free and time.monotonic() >= self._full_until:
            self._num_free = await asyncio.to_thread(count_free_cpus)
            self._full_until = time.monotonic() + FULL_S
        return self._num_free > 0

    @property
    def _alive(self) -> list[HostConnection]:
        return [host for host in self._hosts if not host.is_lost]

    async def _open_host(self, other: HostConnection | None) -> HostConnection:
        self._num_free, self._full_until = max(0, self._num_free - 1), time.monotonic() + FULL_S
        for number in range(OPEN_TRIES):
            try:
                channel = await open_actor(open_host, self._options)
            except (EnvSetupError, EnvDiedError) as error:
                if other is not None:
                    self._num_free = 0
                    return other  # another task was faster, or the CPU belonged to a node that is being lost
                if isinstance(error, EnvSetupError) or number == OPEN_TRIES - 1:
                    self._failed = time.monotonic(), error
                    raise
                await asyncio.sleep(1.0)  # until the cluster knows which nodes are left
            else:
                host = HostConnection(channel, self._share_gate, self._pages, relays_model=self._relays_model)
                self._hosts.append(host)
                self._share_gate()
                return host
        raise AssertionError("the last round returns or raises")

    def _share_gate(self) -> None:
        """Divide the concurrent calls to an endpoint evenly between the hosts."""
        for host in self._alive:
            host.tell("", "share", max(1, MAX_OPEN // len(self._alive)))

    async def close(self) -> None:
        """End the actors, also one that is starting."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
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
    settings: Settings,
    shared: SharedAgentConfig,
    tools: tuple[ToolMaker, ...] | None,
    address: str | None,
    relays_model: bool,
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
        return RayAgentPool(options, approver=approver, address=address, relays_model=relays_model)
    except EnvError as error:
        raise ConfigError(str(error)) from error
