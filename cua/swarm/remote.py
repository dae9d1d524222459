"""Child whose agent runs in another process, and its connection to the parent.

The child's side (`ChildHost`) has agents, sandboxes, envs and folders. For each model call, each line of the record,
each grant of tool calls and each question to a person it sends a request to the parent's side
(`cua.swarm.executor.CoordinatorStub`) and waits. So there is one budget, one rate limit for a model and one record, and
a line is on disk before the action that it describes takes effect. Files that a step has changed are sent with the
step. Both sides run this program, so Python objects are sent.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cua.config import Settings
from cua.guard import Guard, GuardVerdict
from cua.messages import Message, Reply, Sampling, ToolResult
from cua.model import Tool
from cua.run.budget import Caps
from cua.run.control import Control
from cua.run.events import AgentIds
from cua.run.scope import RunScope
from cua.step import Turn
from cua.swarm.agents import LocalAgentPool, SharedAgentConfig, WorkItem
from cua.swarm.sandboxes import AgentWorkspace, SandboxPool
from cua.tool_agent.calls import CALL_NUMBER
from cua.tool_agent.outside import find_user_tools, make_user_tools
from cua.tool_agent.profile import ToolMaker, ask_profile
from cua.trajectory.journal import Journal
from envs import Action, registry
from envs.pool import EnvPool

MAX_FOLDER_BYTES = 2**30
"""Limit of the files that a child may return; files beyond it are not sent, and are removed when the child ends."""
FOLDERS = "k25-children-"


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
class ToolSpec:
    """Description of a tool for the model, with the properties that decide about a call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    checked_parameters: Mapping[str, Any]
    is_repeatable: bool = False

    @classmethod
    def of(cls, tool: Tool) -> "ToolSpec":
        """Return the facts of a tool."""
        return cls(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            checked_parameters=getattr(tool, "checked_parameters", tool.parameters),
            is_repeatable=getattr(tool, "is_repeatable", False),
        )

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Not supported: only the side that has the tool calls it."""
        raise NotImplementedError(self.name)


Files = dict[str, bytes | None]
"""File contents by name in a child's folder; None for a removed file."""


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


class ParentLink:
    """Child's side of the connection to its parent: `next` takes requests, `answer` answers them."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)

    async def ask(self, verb: str, *values: Any) -> Any:
        """Send a request and wait for the parent's answer; errors of the parent are raised here."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._requests.put_nowait((number, verb, values))
        try:
            return await answer
        finally:
            del self._answers[number]

    def tell(self, verb: str, *values: Any) -> None:
        """Send a message without an answer; it arrives before later requests."""
        self._requests.put_nowait((0, verb, values))

    async def next(self) -> list[tuple[Any, ...]]:
        """Return the requests and messages since the last call, in order; wait for the first."""
        requests = [await self._requests.get()]
        while not self._requests.empty():
            requests.append(self._requests.get_nowait())
        return requests

    def answer(self, number: int, value: Any, packed: Any) -> None:
        """Set the result or the error of a request."""
        future = self._answers.get(number)
        if future is None or future.done():  # the request was cancelled
            return
        if packed is None:
            future.set_result(value)
        else:
            future.set_exception(unpack_error(packed))


def _sent(name: str) -> Any:
    async def send(self: "RemoteJournal", *values: Any, **named: Any) -> None:
        await self.link.ask("record", name, values, named, self.take_changes() if name in ("called", "acted") else {})

    return send


class RemoteJournal(Journal):
    """Journal that the parent writes; each method returns when the parent guarantees what `Journal` promises.

    Args:
        link: Connection to the parent.
        ids: Ids of the agent whose record it is.
        take_changes: Returns the files that changed since its last call.
    """

    def __init__(self, link: ParentLink, ids: AgentIds, take_changes: Callable[[], Files]) -> None:
        super().__init__(None)
        self.link, self._ids, self.take_changes = link, ids, take_changes

    @property
    def ids(self) -> AgentIds:
        """Ids, as in `Journal.ids`."""
        return self._ids

    observed, replied, acting, acted = _sent("observed"), _sent("replied"), _sent("acting"), _sent("acted")
    asked, calling, called, ended = _sent("asked"), _sent("calling"), _sent("called"), _sent("ended")
    noted = _sent("noted")

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Add a line, as in `Journal.note`."""
        self.link.tell("note", kind, text, data)


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


class ParentTool:
    """Tool that runs in the parent process; implements `Tool`."""

    def __init__(self, spec: ToolSpec, link: ParentLink) -> None:
        self.name, self.description, self.parameters = spec.name, spec.description, spec.parameters
        self.checked_parameters, self.is_repeatable = spec.checked_parameters, spec.is_repeatable
        self._link = link

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Call the tool, as in `Tool.call`."""
        result: ToolResult = await self._link.ask("call", self.name, dict(arguments), CALL_NUMBER.get())
        return result


class ChildHost:
    """Child's side: agents of several children, each with its own link."""

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-"))
        self._sandboxes = SandboxPool(None, options.settings, options.num_kernels)
        self._envs = EnvPool(registry.make_env)
        self._makers = ask_profile(options.settings).tools if options.tools is None else options.tools
        self._user_tools = find_user_tools(options.settings.tools)
        self._links: dict[str, ParentLink] = {}
        self._controls: dict[str, Control] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def call(self, verb: str, *values: Any) -> Any:
        """Run a verb, as in `Channel.call`: `begin`, `next`, `answer`, `redirect`, `end` of one child; `close`."""
        verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            "begin": self._begin,
            "next": self._next,
            "answer": self._answer,
            "redirect": self._redirect,
            "end": self._end,
            "close": self._close,
        }
        return await verbs[verb](*values)

    async def _begin(
        self, item: WorkItem, ids: AgentIds, caps: Caps, model: str, parent_tools: Sequence[ToolSpec], files: Files
    ) -> None:
        link = self._links[item.id] = ParentLink()
        self._controls[item.id] = Control()
        self._tasks[item.id] = asyncio.create_task(self._work(link, item, ids, caps, model, parent_tools, files))

    async def _work(
        self,
        link: ParentLink,
        item: WorkItem,
        ids: AgentIds,
        caps: Caps,
        model: str,
        parent_tools: Sequence[ToolSpec],
        files: Files,
    ) -> None:
        folder = self._folder / item.id
        folder.mkdir(exist_ok=True)
        write_files(folder, files)
        changes = FolderChanges(folder)
        changes.skip()
        scope = RunScope(
            caps=caps,
            record=RemoteJournal(link, ids, changes.take),
            listener=lambda event: link.tell("event", event),
            grant=lambda num_calls: link.ask("take_calls", num_calls),
        )
        scope.control = self._controls[item.id]
        try:
            agents = LocalAgentPool(
                replace(self._options.shared, guard=self._guard(link)),
                sandboxes=self._sandboxes,
                make_tools=self._make_tools,
                envs=self._envs,
            )
            tools = [ParentTool(spec, link) for spec in parent_tools]
            attempt = await agents.work(item, scope, RemoteModel(link, model), folder, tools)
            link.tell("done", replace(attempt, snapshot=None), changes.take(), None)
        except BaseException as error:
            link.tell("done", None, {}, pack_error(error))
            if not isinstance(error, Exception):
                raise
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

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

    async def _next(self, child: str) -> list[tuple[Any, ...]]:
        return await self._links[child].next()

    async def _answer(self, child: str, number: int, value: Any, packed: Any) -> None:
        if child in self._links:
            self._links[child].answer(number, value, packed)

    async def _redirect(self, child: str, instruction: str) -> None:
        self._controls[child].redirect(instruction)

    async def _end(self, child: str) -> None:
        task = self._tasks.pop(child, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=5.0)
        self._links.pop(child, None)
        self._controls.pop(child, None)

    async def _close(self) -> None:
        await asyncio.gather(*(self._end(child) for child in list(self._tasks)))
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


class FolderChanges:
    """FolderChanges in a folder since the last check, by size and time of each file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int]] = {}

    def skip(self) -> None:
        """Treat the current files as known."""
        self._seen = self._look()

    def take(self) -> Files:
        """Return the files that are new, changed or removed."""
        before, self._seen = self._seen, self._look()
        changed = [name for name, stamp in self._seen.items() if before.get(name) != stamp]
        contents: Files = {name: None for name in before if name not in self._seen}
        for name in changed:
            with suppress(OSError):
                contents[name] = (self._folder / name).read_bytes()
        return contents

    def _look(self) -> dict[str, tuple[int, int]]:
        stamps: dict[str, tuple[int, int]] = {}
        room = MAX_FOLDER_BYTES
        for folder, folders, names in os.walk(self._folder):
            folders.sort()
            for path in (Path(folder) / name for name in sorted(names)):
                with suppress(OSError):
                    status = path.lstat()
                    room -= status.st_size
                    if path.is_file() and not path.is_symlink() and room >= 0:
                        stamps[str(path.relative_to(self._folder))] = status.st_size, status.st_mtime_ns
        return stamps


def write_files(folder: Path, files: Files) -> None:
    """Write or remove files in a folder; skip names that lead out of it or through a link."""
    for name, data in files.items():
        path = folder / name
        if not path.parent.resolve().is_relative_to(folder.resolve()) or path.is_symlink():
            continue
        with suppress(OSError):
            if data is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
