"""Child whose agent runs in another process, and its connection to the parent.

The child's side (`ChildHost`) has agents, models, sandboxes, envs and folders. For each line of the record that must be
on disk before an action, and each question to a person, it sends a request to the parent's side
(`cua.swarm.executor.CoordinatorStub`) and waits; other lines travel with the next request of any child. So there is
one budget and one record, and a line is on disk before the action that it describes takes effect.

A model at an HTTP endpoint is called from here, as often as the parent has leased (`LeasedModel`); any other model is
called by the parent (`RemoteModel`). Files that a step has changed are sent with the step, in chunks. Both sides run
this program, so Python objects are sent.
"""

import asyncio
import itertools
import os
import platform
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cua.config import Settings
from cua.errors import TruncatedReplyError, UnusableReplyError
from cua.guard import Guard, GuardVerdict
from cua.messages import Message, Reply, Sampling, ToolCall, ToolResult, Usage
from cua.model import Model, Tool
from cua.models.endpoint import find_endpoint
from cua.models.gate import MAX_OPEN, ON_WAIT, EndpointGate
from cua.models.make import FallbackModel
from cua.models.openai_compat import OpenAICompatModel, OpenAICompatOptions
from cua.run.budget import Caps
from cua.run.control import Control
from cua.run.events import AgentIds
from cua.run.scope import RunScope
from cua.step import Turn
from cua.swarm.agents import LocalAgentPool, SharedAgentConfig, WorkItem
from cua.swarm.budget import ChildModel
from cua.swarm.files import Chunks, FolderChanges, FolderReceiver
from cua.swarm.pages import SharedPages
from cua.swarm.sandboxes import AgentWorkspace, SandboxPool
from cua.tool_agent.calls import CALL_NUMBER
from cua.tool_agent.outside import find_user_tools, make_user_tools
from cua.tool_agent.profile import ToolMaker, ask_profile
from cua.trajectory.journal import Journal
from envs import Action, registry
from envs.pool import EnvPool

FOLDERS = "k25-children-"
MAX_DELAY_S = 0.1
"""Longest time in seconds that a message without an answer waits for others: such as the line of a finished step, which
travels with the request for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """Options of a `ChildHost`.

    Attributes:
        settings: Settings of the run, without its API key.
        shared: Options shared by its children, without an approver.
        tools: Factories of the core tools; None to use the settings.
        num_kernels: Sandboxes that may be open at the same time.
        has_approver: True if a person can be asked.
    """

    settings: Settings
    shared: SharedAgentConfig
    tools: tuple[ToolMaker, ...] | None
    num_kernels: int
    has_approver: bool


@dataclass(slots=True, kw_only=True)
class ToolSpec(Tool):
    """Description of a tool for the model, with the properties that decide about a call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    checked_parameters: Mapping[str, Any] | None = None
    is_repeatable: bool = False

    @classmethod
    def of(cls, tool: Tool) -> "ToolSpec":
        """Return the facts of a tool."""
        return cls(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            checked_parameters=tool.checked_parameters,
            is_repeatable=tool.is_repeatable,
        )

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Not supported: only the side that has the tool calls it."""
        raise NotImplementedError(self.name)


def pack_error(error: BaseException) -> tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]:
    """Return an error in a form that can be pickled, whatever arguments its class takes."""
    return type(error), error.args, vars(error).copy()


def unpack_error(packed: tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]) -> BaseException:
    """Restore a packed error."""
    kind, args, attributes = packed
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class Outbox:
    """Messages of all children of a host to the parent, in order."""

    def __init__(self) -> None:
        self._messages: list[tuple[Any, ...]] = []
        self._has_any, self._is_awaited = asyncio.Event(), asyncio.Event()

    def put(self, *message: Any, is_awaited: bool) -> None:
        """Add a message; the parent gets it at once, with those before it, if it `is_awaited`, else soon."""
        self._messages.append(message)
        self._has_any.set()
        if is_awaited:
            self._is_awaited.set()

    async def take(self) -> list[tuple[Any, ...]]:
        """Return the messages since the last call; wait for the first."""
        await self._has_any.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_awaited.wait(), MAX_DELAY_S)
        messages, self._messages = self._messages, []
        self._has_any.clear()
        self._is_awaited.clear()
        return messages


class ParentLink:
    """Connection of a child to its parent."""

    def __init__(self, child: str, outbox: Outbox) -> None:
        self._child, self._outbox = child, outbox
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)

    async def ask(self, verb: str, *values: Any) -> Any:
        """Send a request and wait for the parent's answer; errors of the parent are raised here."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._outbox.put(self._child, number, verb, values, is_awaited=True)
        try:
            return await answer
        finally:
            del self._answers[number]

    def tell(self, verb: str, *values: Any, is_awaited: bool = False) -> None:
        """Send a message without an answer; it arrives before later requests."""
        self._outbox.put(self._child, 0, verb, values, is_awaited=is_awaited)

    def answer(self, number: int, value: Any, packed: Any) -> None:
        """Set the result or the error of a request."""
        future = self._answers.get(number)
        if future is None or future.done():  # the request was cancelled
            return
        if packed is None:
            future.set_result(value)
        else:
            future.set_exception(unpack_error(packed))


def _told(name: str) -> Any:
    async def send(self: "RemoteJournal", *values: Any) -> None:
        self.link.tell("record", name, values, {}, await self.send_files() if name == "called" else ())

    return send


def _asked(name: str) -> Any:
    async def send(self: "RemoteJournal", *values: Any, **named: Any) -> None:
        await self.link.ask("record", name, values, named, await self.send_files() if name == "acted" else ())

    return send


class RemoteJournal(Journal):
    """Journal that the parent writes.

    What `Journal` only queues travels with the next request, after `MAX_DELAY_S` at the latest; the other methods
    return when the parent has done what `Journal` promises.

    Args:
        link: Connection to the parent.
        ids: Ids of the agent whose record it is.
        changes: Changes in the agent's folder.
    """

    def __init__(self, link: ParentLink, ids: AgentIds, changes: FolderChanges) -> None:
        super().__init__(None)
        self.link, self._ids, self._changes = link, ids, changes
        self._num_granted = 0

    @property
    def ids(self) -> AgentIds:
        """Ids, as in `Journal.ids`."""
        return self._ids

    observed, acting, acted = _asked("observed"), _asked("acting"), _asked("acted")
    asked, noted = _asked("asked"), _asked("noted")
    replied, called, ended = _told("replied"), _told("called"), _told("ended")

    async def calling(self, index: int, calls: Sequence[ToolCall]) -> None:
        """Record the calls to be made, as in `Journal.calling`; the parent counts them with it."""
        self._num_granted = await self.link.ask("calling", index, calls)

    async def grant(self, num_calls: int) -> int:
        """Return how many of the calls that were just recorded are allowed."""
        return min(num_calls, self._num_granted)

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Add a line, as in `Journal.note`."""
        self.link.tell("note", kind, text, data)

    async def send_files(self) -> Chunks:
        """Send what has changed in the folder; return the last chunks, which travel with the line of the step."""
        last: Chunks = ()
        for chunks in self._changes.take():
            if last:
                await self.link.ask("files", last)
            last = chunks
        return last


class RemoteModel:
    """Model that is called by the parent; implements `Model`."""

    def __init__(self, link: ParentLink, name: str) -> None:
        self.name = name
        self._link = link

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Generate a reply, as in `Model.generate`; raises the errors of the run's limits too."""
        specs = tuple(map(ToolSpec.of, tools))
        reply: Reply = await self._link.ask("generate", tuple(messages), specs, sampling)
        return reply

    async def close(self) -> None:
        """Do nothing: the parent closes the model."""


class LeasedModel:
    """Model that this process calls, as often as the parent has leased; implements `Model`."""

    def __init__(self, link: ParentLink, model: Model) -> None:
        self.name = model.name
        self._link, self._model = link, ChildModel(model, lambda error: link.tell("suspend", pack_error(error)))
        self._num_left = 0

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), sampling: Sampling | None = None
    ) -> Reply:
        """Generate a reply, as in `Model.generate`; raises the errors of the run's limits too."""
        while not self._num_left:
            self._num_left += await self._link.ask("lease")
        self._num_left -= 1
        usage = Usage()
        try:
            reply = await self._model.generate(messages, tools, sampling)
            usage = reply.usage
        except (TruncatedReplyError, UnusableReplyError) as error:
            usage = error.reply.usage if error.reply is not None else usage
            raise
        finally:
            self._link.tell("used", usage)
        return reply

    def recall(self) -> None:
        """Return the calls that are left."""
        num_left, self._num_left = self._num_left, 0
        self._link.tell("give_back", num_left, is_awaited=True)

    async def close(self) -> None:
        """Do nothing: the host closes the model."""


class ParentTool(Tool):
    """Tool that runs in the parent process."""

    def __init__(self, spec: ToolSpec, link: ParentLink) -> None:
        self.name, self.description, self.parameters = spec.name, spec.description, spec.parameters
        self.checked_parameters, self.is_repeatable = spec.checked_parameters, spec.is_repeatable
        self._link = link

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Call the tool, as in `Tool.call`."""
        result: ToolResult = await self._link.ask("call", self.name, dict(arguments), CALL_NUMBER.get())
        return result


class ChildHost:
    """Child's side: agents of several children.

    The verbs of `call` are those of `Channel`: `exchange` takes messages of the parent and returns those to it, `take`
    only takes them; `files` takes chunks of files for a child; `open_model` opens a model; `close` ends everything.
    A message of the parent is the name of a child, a verb (`begin`, `answer`, `recall`, `redirect`, `end`; `share` for
    the host itself) and its values.
    """

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-"))
        self._sandboxes = SandboxPool(None, options.settings, options.num_kernels)
        self._envs = EnvPool(registry.make_env)
        self._user_tools = find_user_tools(options.settings.tools)
        self._controls: dict[str, Control] = {}
        self._outbox = Outbox()
        own_link = ParentLink("", self._outbox)
        self._links: dict[str, ParentLink] = {"": own_link}
        pages = SharedPages(own_link)
        self._makers = ask_profile(options.settings, pages).tools if options.tools is None else options.tools
        self._leased: dict[str, LeasedModel] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._receivers: dict[str, FolderReceiver] = {}
        self._models: dict[int, Model] = {}
        self._gates: dict[str, EndpointGate] = {}
        self._max_open = MAX_OPEN

    async def call(self, verb: str, *values: Any) -> Any:
        """Run a verb, as in `Channel.call`."""
        verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            "exchange": self._exchange,
            "take": self._take,
            "files": self._receive_files,
            "open_model": self._open_model,
            "close": self._close,
        }
        return await verbs[verb](*values)

    async def _exchange(self, messages: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        await self._take(messages)
        return await self._outbox.take()

    async def _take(self, messages: Sequence[tuple[Any, ...]]) -> None:
        verbs: dict[str, Callable[..., None]] = {
            "begin": self._begin,
            "answer": self._answer,
            "recall": self._recall,
            "redirect": self._redirect,
            "end": self._end,
            "share": self._share,
        }
        for child, verb, values in messages:
            verbs[verb](child, *values)

    async def _open_model(self, number: int, options: Sequence[OpenAICompatOptions], network: str) -> bool:
        """Open a model; return False if it is at a loopback address of another machine."""
        models = []
        for option in options:
            endpoint = find_endpoint(option.base_url, option.api_key)
            if endpoint.is_loopback and network != network_id():
                return False
            gate = self._gates.setdefault(endpoint.base_url, EndpointGate(self._max_open))
            models.append(OpenAICompatModel(option, gate=gate))
        self._models[number] = models[0] if len(models) == 1 else FallbackModel(*models)
        return True

    def _share(self, child: str, max_open: int) -> None:
        self._max_open = max_open
        for gate in self._gates.values():
            gate.resize(max_open)

    async def _receive_files(self, child: str, chunks: Chunks) -> None:
        receiver = self._receivers.setdefault(child, FolderReceiver(self._folder / child))
        await asyncio.to_thread(receiver.add, chunks)

    def _begin(self, child: str, *values: Any) -> None:
        link = self._links[child] = ParentLink(child, self._outbox)
        self._controls[child] = Control()
        self._tasks[child] = asyncio.create_task(self._work(self._tasks.get(child), link, *values))

    async def _work(
        self,
        before: "asyncio.Task[None] | None",
        link: ParentLink,
        item: WorkItem,
        ids: AgentIds,
        caps: Caps,
        model: int | str,
        parent_tools: Sequence[ToolSpec],
    ) -> None:
        """Run a try of a child, after the end of the one `before` it."""
        if before is not None:
            await asyncio.wait({before})
        folder = self._folder / item.id
        folder.mkdir(exist_ok=True)
        if item.id in self._receivers:
            self._receivers.pop(item.id).commit()
        changes = FolderChanges(folder)
        changes.skip()
        journal = RemoteJournal(link, ids, changes)
        scope = RunScope(
            caps=caps, record=journal, listener=lambda event: link.tell("event", event), grant=journal.grant
        )
        scope.control = self._controls[item.id]
        ON_WAIT.set(partial(link.ask, "wait"))
        try:
            agents = LocalAgentPool(
                replace(self._options.shared, guard=self._guard(link)),
                sandboxes=self._sandboxes,
                make_tools=self._make_tools,
                envs=self._envs,
            )
            tools = [ParentTool(spec, link) for spec in parent_tools]
            attempt = await agents.work(item, scope, self._model_of(link, item.id, model), folder, tools)
            last = await journal.send_files()
            link.tell("done", replace(attempt, snapshot=None), last, None, is_awaited=True)
        except BaseException as error:
            link.tell("done", None, (), pack_error(error), is_awaited=True)
            if not isinstance(error, Exception):
                raise
        finally:
            self._leased.pop(item.id, None)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _model_of(self, link: ParentLink, child: str, model: int | str) -> Model:
        """Return the model with this number, opened here, or the one with this name, which the parent calls."""
        if isinstance(model, str):
            return RemoteModel(link, model)
        leased = self._leased[child] = LeasedModel(link, self._models[model])
        return leased

    def _guard(self, link: ParentLink) -> Guard:
        guard = self._options.shared.guard
        if not self._options.has_approver:
            return guard

        async def ask(verdict: GuardVerdict, turn: Turn, actions: Sequence[Action]) -> bool:
            return bool(await link.ask("approve", verdict, turn, tuple(actions)))

        return replace(guard, approver=ask)

    def _make_tools(self, workspace: AgentWorkspace) -> tuple[Sequence[Tool], Sequence[Tool]]:
        tools = [make(workspace.tool_context) for make in self._makers]
        return tools, make_user_tools(self._user_tools, workspace.tool_context, self._options.shared.secrets.redact)

    def _answer(self, child: str, number: int, value: Any, packed: Any) -> None:
        if child in self._links:
            self._links[child].answer(number, value, packed)

    def _recall(self, child: str) -> None:
        if child in self._leased:
            self._leased[child].recall()

    def _redirect(self, child: str, instruction: str) -> None:
        self._controls[child].redirect(instruction)

    def _end(self, child: str) -> None:
        self._tasks[child].cancel()

    async def _close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=5.0)
        for model in self._models.values():
            await model.close()
        await self._envs.close()
        await self._sandboxes.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def open_host(options: HostOptions) -> tuple[ChildHost, tuple[Any, ...]]:
    """Open a host, as `cua.cluster.OpenServer` requires."""
    remove_left_folders()
    return ChildHost(options), ("ok", None)


def remove_left_folders() -> None:
    """Remove the folders of hosts that were killed on this machine."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*"):
        pid = folder.name.removeprefix(FOLDERS).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def network_id() -> str:
    """Return an id of the network of this process: processes with the same id share its loopback addresses."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot_id} {Path('/proc/self/ns/net').readlink()}"
    except OSError:
        return platform.node()
