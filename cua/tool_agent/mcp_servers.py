"""Tools of MCP servers: started or reached for one session, ended with it.

A server is a stranger: what it says is bounded in size and time, its names are cleaned and prefixed, it gets no
environment but PATH and what is named, and its processes end with the session whatever becomes of us. One that does
not answer, or does not tell its tools, is a `ConfigError`.
"""

import asyncio
import base64
import binascii
import json
import os
import re
import shutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cua.bounded_http import bound_body, is_packed
from cua.errors import ConfigError
from cua.json_text import well_formed
from cua.messages import ImagePart, Part, TextPart, ToolResult
from cua.tool_agent.mcp_file import McpServer
from cua.tool_agent.outside import MAX_DESCRIPTION_CHARS, OutsideTool, check_schema
from cua.tools.toolset import failed
from cua.trajectory.describe import printable
from envs.supervisor import supervisor_command
from visual_tools.errors import require
from visual_tools.sandbox import Limits

_VERSION = "2025-11-25"
"""The revision of the protocol with the strictest form of a tool."""
_NEEDED = ("name", "description", "inputSchema")
_MAX_PARTS = 1000
_MAX_DEPTH = 64
"""Levels of a message that are kept where it has too many to be read; a tool may have half of that."""

Note = Callable[[str], None]


@asynccontextmanager
async def without_bad_tools(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], note: Note
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server; lists of tools on them hold only entries that can be read."""
    async with transport as (incoming, outgoing):
        yield _CheckedStream(incoming, note), outgoing


class _CheckedStream:
    def __init__(self, incoming: Any, note: Note) -> None:
        self._incoming = incoming
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._incoming, name)

    async def receive(self) -> Any:
        return self._checked(await self._incoming.receive())

    def __aiter__(self) -> "_CheckedStream":
        return self

    async def __anext__(self) -> Any:
        return self._checked(await self._incoming.__anext__())

    async def __aenter__(self) -> "_CheckedStream":
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._incoming.__aexit__(*raised)

    def _checked(self, received: Any) -> Any:
        result = getattr(getattr(received, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = [tool for entry in result["tools"] if (tool := _readable(entry, self._note)) is not None]
        if isinstance(result, dict) and isinstance(result.get("content"), list):
            result["content"] = [_readable_part(part) for part in result["content"][:_MAX_PARTS]]
        return received


def read_message(line: bytes) -> Any:
    """A message of the protocol; one that the SDK cannot read, with what it cannot read replaced.

    Lone surrogates become replacement characters, and what is nested too deep is left out. A reply that is still no
    message becomes an error for the request that it answers.

    Raises:
        ValueError: The line is no message, and does not say what it answers.
    """
    read = require("mcp.types", "mcp").jsonrpc_message_adapter
    try:
        return read.validate_json(line, by_name=False)
    except ValueError:
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("the message is nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("the message is not an object")
    try:
        return read.validate_python(_repaired(value, _MAX_DEPTH), by_name=False)
    except ValueError:
        if type(value.get("id")) is not int or "method" in value:
            raise
    error = {"code": -32700, "message": "its reply is not a message of the protocol"}
    return read.validate_python({"jsonrpc": "2.0", "id": value["id"], "error": error}, by_name=False)


def _repaired(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(key): _repaired(item, depth - 1) for key, item in value.items()} if depth else None
    if isinstance(value, list):
        return [_repaired(item, depth - 1) for item in value] if depth else None
    return value


def _readable_part(part: Any) -> Any:
    """A part of a result that the SDK can read: unchanged, or a text in its place."""
    methods, pydantic = require("mcp.types.methods", "mcp"), require("pydantic", "mcp")
    try:
        methods.validate_server_result("tools/call", _VERSION, {"content": [part]})
    except pydantic.ValidationError:
        kind = part.get("type") if isinstance(part, dict) else None
        shown = f"{printable(kind)[:40]!r}" if isinstance(kind, str) else "unknown"
        return {"type": "text", "text": f"[a part of the type {shown} cannot be read and was left out]"}
    return part


def _readable(entry: Any, note: Note) -> dict[str, Any] | None:
    """An entry that the SDK can read: unchanged, or without its optional fields; None when it is not a tool."""
    if not isinstance(entry, dict):
        note("a tool is left out: its entry is not an object")
        return None
    if isinstance(entry.get("inputSchema"), dict):
        entry = {**entry, "inputSchema": {"type": "object", **entry["inputSchema"]}}
    why = _why_wrong(entry)
    if why:
        entry = {key: entry[key] for key in _NEEDED if isinstance(entry.get(key), str | dict)}
        why = _why_wrong(entry)
    if why:
        note(f"{printable(str(entry.get('name', 'a tool without a name')))[:60]} is left out: {why}")
    return None if why else entry


def _why_wrong(entry: dict[str, Any]) -> str:
    methods, pydantic = require("mcp.types.methods", "mcp"), require("pydantic", "mcp")
    if entry.get("name") == "":
        return "its name is empty"
    try:
        methods.validate_server_result("tools/list", _VERSION, {"tools": [entry]})
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"
    return ""


MAX_TOOLS = 128
"""Of one server; OpenAI-compatible servers take no more functions either."""
MAX_PAGES = 32
MAX_MESSAGE_BYTES = 16 * 2**20
MAX_TOTAL_BYTES = 512 * 2**20
"""What a server may send over a session; it is cut off behind that."""
CONNECT_S = 60.0
"""A first start may download the server."""
END_S = 3.0
_TAIL_LINES, _TAIL_CHARS = 5, 300


class McpTool:
    """One tool of a server; implements `cua.model.Tool`, to be wrapped in an `OutsideTool`."""

    def __init__(self, connection: "McpConnection", name: str, shown: Any) -> None:
        self._connection = connection
        self._own_name = shown.name
        self.name = name
        said = printable(" ".join((shown.description or "").split()))[:MAX_DESCRIPTION_CHARS]
        self.description = (
            f"Tool of the MCP server {printable(connection.server.name)[:60]!r}, outside the sandbox. What follows are "
            f"the server's words, not the user's: {said or '(nothing)'}"
        )
        self.parameters: Mapping[str, Any] = {"type": "object", **shown.input_schema}

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Call it; what the server gives back is not bounded yet."""
        mcp = require("mcp", "mcp")
        try:
            result = await self._connection.client.call_tool(self._own_name, dict(arguments))
        except (mcp.MCPError, ValueError, RuntimeError, OSError) as error:
            return failed(f"The MCP server {self._connection.server.name!r} failed: {_one_line(error)}")
        return ToolResult(parts=tuple(_parts(result)), is_error=bool(result.is_error))


def _parts(result: Any) -> Iterator[Part]:
    """What a result shows; parts that are no text and no image are named."""
    texts = 0
    for block in result.content:
        match block.type:
            case "text":
                texts += 1
                yield TextPart(text=block.text)
            case "image":
                with suppress(binascii.Error, ValueError):
                    yield ImagePart(data=base64.b64decode(block.data, validate=True))
                    continue
                yield TextPart(text="[an image that is no base64]")
            case "resource" if getattr(block.resource, "text", None) is not None:
                texts += 1
                yield TextPart(text=f"[{block.resource.uri}]\n{block.resource.text}")
            case "resource_link":
                yield TextPart(text=f"[link to {block.uri}]")
            case other:
                yield TextPart(text=f"[{other} is not shown]")
    if not texts and result.structured_content is not None:
        yield TextPart(text=json.dumps(result.structured_content, ensure_ascii=False, default=str))


class McpConnection:
    """A server that is connected, from `open` to `close`.

    The client's task groups want to be left in the task that entered them, so one task of its own holds the connection.

    Args:
        server: Which one.
        connect_s: Seconds that it may take to answer, and to tell its tools.

    Attributes:
        server: Which one.
        client: The official client.
        notes: What a person should know: tools that cannot be used.
    """

    def __init__(self, server: McpServer, *, connect_s: float = CONNECT_S) -> None:
        self.server = server
        self._connect_s = connect_s
        self.client: Any = None
        self.notes: list[str] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start or reach the server."""
        require("mcp", "mcp")
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(ready))
        done, _ = await asyncio.wait({self._task, ready}, timeout=self._connect_s, return_when=asyncio.FIRST_COMPLETED)
        if ready in done:
            return
        why = f"no answer within {self._connect_s:g} s" if not done else _innermost(self._task.exception())
        await self.close()
        said = f"; it said: {' / '.join(self._tail)}" if self._tail else ""
        raise ConfigError(f"the MCP server {printable(self.server.name)[:60]!r} cannot be used: {why}{said}")

    async def tools(self, taken: set[str]) -> list[McpTool]:
        """Its tools, with names of their own."""
        mcp = require("mcp", "mcp")
        found: list[Any] = []
        cursor = None
        try:
            async with asyncio.timeout(self._connect_s):
                for _ in range(MAX_PAGES):
                    page = await self.client.list_tools(cursor=cursor)
                    found += page.tools
                    cursor = page.next_cursor
                    if cursor is None or len(found) > MAX_TOOLS:
                        break
        except (mcp.MCPError, ValueError, RuntimeError, OSError) as error:  # a TimeoutError is an OSError
            raise ConfigError(
                f"the MCP server {printable(self.server.name)[:60]!r} does not tell its tools: {_one_line(error)}"
            ) from error
        if len(found) > MAX_TOOLS:
            self.notes.append(f"only the first {MAX_TOOLS} tools are used")
        return [tool for shown in found[:MAX_TOOLS] if (tool := self._tool(shown, taken)) is not None]

    def _tool(self, shown: Any, taken: set[str]) -> McpTool | None:
        try:
            check_schema({"type": "object", **shown.input_schema})
        except ValueError as error:
            self.notes.append(f"{printable(shown.name)[:60]} is left out: {error}")
            return None
        name = _free_name(f"{_clean(self.server.name)[:24] or 'server'}__{_clean(shown.name) or 'tool'}"[:60], taken)
        taken.add(name)
        return McpTool(self, name, shown)

    async def close(self) -> None:
        """Let it go, and end its processes. May be called twice."""
        task, self._task = self._task, None
        if task is None:
            return
        if self.client is None:
            task.cancel()  # it never answered
        self._is_wanted.set()
        await asyncio.wait({task}, timeout=2 * END_S)
        task.cancel()
        await asyncio.wait({task}, timeout=2 * END_S)
        if task.done() and not task.cancelled():
            task.exception()  # a server that breaks while it ends is nobody's business any more

    async def _hold(self, ready: "asyncio.Future[None]") -> None:
        mcp = require("mcp", "mcp")
        async with AsyncExitStack() as stack:
            reached = _reach(self.server) if self.server.url else self._run()
            transport = without_bad_tools(reached, self.notes.append)
            self.client = await stack.enter_async_context(mcp.Client(transport, cache=None))
            if not ready.done():
                ready.set_result(None)
            await self._is_wanted.wait()

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[tuple[Any, Any]]:
        """The streams of a server that we start; its lines are bounded, and it ends with us."""
        anyio = require("anyio", "mcp")
        command, env = self.server.command, {"PATH": os.environ.get("PATH", os.defpath), **self.server.env}
        program = shutil.which(command[0], path=env["PATH"])
        if program is None:
            raise FileNotFoundError(f"there is no program {command[0]!r} on PATH")
        process = await asyncio.create_subprocess_exec(
            *supervisor_command(program, *command[1:]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd=self.server.cwd,
            limit=MAX_MESSAGE_BYTES,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        to_us, incoming = anyio.create_memory_object_stream(0)
        outgoing, from_us = anyio.create_memory_object_stream(0)
        pumps = [
            asyncio.create_task(_read_messages(process.stdout, to_us)),
            asyncio.create_task(_write_messages(from_us, process.stdin, to_us)),
            asyncio.create_task(_read_tail(process.stderr, self._tail)),
        ]
        try:
            yield incoming, outgoing
        finally:
            await asyncio.shield(asyncio.ensure_future(_end(process, pumps)))


def _innermost(error: BaseException | None) -> str:
    """The words of an error, out of the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _one_line(error) if error is not None else "it ended"


def _one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split()))[:300] or type(error).__name__


async def _read_messages(stdout: asyncio.StreamReader, to_us: Any) -> None:
    """Messages line by line; one that is too long, or too much in all, ends the connection."""
    shared, anyio = require("mcp.shared.message", "mcp"), require("anyio", "mcp")
    left = MAX_TOTAL_BYTES
    async with to_us:
        with suppress(ValueError, ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while (line := await stdout.readline()) and (left := left - len(line)) > 0:
                try:
                    message = read_message(line)
                except ValueError:
                    if line.lstrip().startswith(b"{"):
                        return  # whoever waits for this message must not wait in vain
                    continue  # a server that prints something else
                await to_us.send(shared.SessionMessage(message))


async def _write_messages(from_us: Any, stdin: asyncio.StreamWriter, to_us: Any) -> None:
    try:
        async with from_us:
            async for sent in from_us:
                stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
    except (ConnectionError, RuntimeError):
        await to_us.aclose()  # nobody reads any more: what waits for an answer must not wait for ever


async def _read_tail(stderr: asyncio.StreamReader, tail: "deque[str]") -> None:
    """Keep the last lines of what a server says to its operator, for the error when it does not start."""
    line = b""
    while piece := await stderr.read(4096):
        *lines, line = (line + piece).split(b"\n")
        tail.extend(printable(one.decode("utf-8", "replace"))[:_TAIL_CHARS] for one in lines[-_TAIL_LINES:] if one)
        line = line[-4096:]


async def _end(process: asyncio.subprocess.Process, pumps: Sequence["asyncio.Task[None]"]) -> None:
    """Close a server's input, give it a moment, end it and all that it started."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(END_S / 3):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.terminate()  # the supervisor ends all that is below it
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)
    transport = getattr(process, "_transport", None)  # asyncio closes it only when all pipes end, which others may hold
    if transport is not None:
        transport.close()


@asynccontextmanager
async def _reach(server: McpServer) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server that runs already."""
    http, httpx = require("mcp.client.streamable_http", "mcp"), require("httpx2", "mcp")
    headers = {**server.headers, "Accept-Encoding": "identity"}  # what is packed has no bound before it is unpacked
    timeout = httpx.Timeout(CONNECT_S, read=None)
    hooks = {"response": [_bound_response]}
    async with (
        httpx.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as client,
        http.streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


async def _bound_response(response: Any) -> None:
    """Let a response be read up to a size only."""
    httpx = require("httpx2", "mcp")
    if is_packed(response):
        raise httpx.DecodingError("the server packs its answers, although it was asked not to")
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    most = MAX_TOTAL_BYTES if is_stream else MAX_MESSAGE_BYTES
    bound_body(response, most, httpx.ReadError(f"the server sent more than {most} bytes"))


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTools:
    """The tools of all servers, and lines for a person about what cannot be used."""

    tools: tuple[OutsideTool, ...] = ()
    notes: tuple[str, ...] = ()


async def open_mcp_tools(
    servers: Sequence[McpServer], stack: AsyncExitStack, *, limits: Limits, redact: Callable[[str], str]
) -> McpTools:
    """Connect to all servers."""
    connections = [McpConnection(server) for server in servers]
    for connection in connections:
        stack.push_async_callback(connection.close)
    await asyncio.gather(*(connection.open() for connection in connections))
    taken: set[str] = set()
    tools: list[OutsideTool] = []
    notes: list[str] = []
    for connection in connections:
        found = await connection.tools(taken)
        tools += [OutsideTool(tool, limits=limits, redact=redact) for tool in found]
        notes += [f"MCP server {printable(connection.server.name)[:60]}: {note}" for note in connection.notes]
    return McpTools(tools=tuple(tools), notes=tuple(notes))
