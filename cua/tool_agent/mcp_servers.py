"""Tools of MCP servers, which are started or connected for one session and closed with it.

Servers are not trusted: the size and time of their replies are limited, names are cleaned and prefixed, the environment
has only PATH and the variables listed in the file, and the processes end with the session even if this program is
killed. A server that does not answer, or does not list its tools, is a `ConfigError`.
"""

import asyncio
import base64
import binascii
import json
import os
import re
import shutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cua.bounded_http import bound_body, is_packed
from cua.errors import ConfigError
from cua.json_text import Json, JsonMapping, well_formed
from cua.messages import ImagePart, Part, TextPart, ToolResult
from cua.model import Tool
from cua.tool_agent.mcp_file import McpServer
from cua.tool_agent.outside import MAX_DESCRIPTION_CHARS, OutsideTool, check_schema
from cua.tools.toolset import failed
from cua.trajectory.describe import printable
from envs.supervisor import supervisor_command
from visual_tools.errors import require
from visual_tools.sandbox.contract import KernelLimits

_VERSION = "2025-11-25"
"""Revision of the protocol with the strictest definition of a tool."""
_NEEDED = ("name", "description", "inputSchema")
_MAX_PARTS = 1000  # of one result; bounds the conversation
_MAX_DEPTH = 64
"""Nesting depth up to which a message that is too deep to parse is kept; half of it for a tool."""

OnNote = Callable[[str], None]


@asynccontextmanager
async def without_bad_tools(
    transport: AbstractAsyncContextManager[tuple[Any, Any]], note: OnNote
) -> AsyncIterator[tuple[Any, Any]]:
    """Return the streams of a server; tool lists on them contain only valid entries."""
    async with transport as (incoming, outgoing):
        yield _CheckedStream(incoming, note), outgoing


class _CheckedStream:
    def __init__(self, incoming: Any, note: OnNote) -> None:
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
    """Parse a message of the protocol; parts that the SDK cannot parse are replaced.

    Lone surrogates become replacement characters, and parts that are nested too deep are dropped. A reply that still
    cannot be parsed becomes an error for its request.

    Raises:
        ValueError: If the line is not a message and does not name a request.
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
    """Return a part of a result that the SDK can parse: unchanged, or a text in its place."""
    methods, pydantic = require("mcp.types.methods", "mcp"), require("pydantic", "mcp")
    try:
        methods.validate_server_result("tools/call", _VERSION, {"content": [part]})
    except pydantic.ValidationError:
        kind = part.get("type") if isinstance(part, dict) else None
        shown = f"{printable(kind)[:40]!r}" if isinstance(kind, str) else "unknown"
        return {"type": "text", "text": f"[a part of the type {shown} cannot be read and was left out]"}
    return part


def _readable(entry: Any, note: OnNote) -> Json | None:
    """Return a tool entry that the SDK can parse: unchanged, or without optional fields; None if it is not a tool."""
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


def _why_wrong(entry: Json) -> str:
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
"""Limit for one server; OpenAI-compatible servers do not accept more functions either."""
MAX_PAGES = 32  # of a server's list of tools; ends a server that pages forever
MAX_MESSAGE_BYTES = 16 * 2**20  # an image of a result fits; bounds memory
MAX_TOTAL_BYTES = 512 * 2**20
"""Limit of the bytes that a server may send in a session; the connection is closed beyond it."""
CONNECT_TIMEOUT_S = 60.0
"""Timeout in seconds; the first start may download the server."""
CLOSE_TIMEOUT_S = 3.0  # a server that ignores the end of its input is killed
MAX_RESTARTS = 5
"""Starts in a row of a server that ended, with no call that returned in between."""
FIRST_WAIT_S = 0.5
"""Wait in seconds before the first restart; it doubles with each one, so the last call waits 15.5 s in all."""
_TAIL_LINES, _TAIL_CHARS = 5, 300  # last output of a server that ended, for the error text


UNKNOWN_OUTCOME = (
    "its process ended or its connection broke during this call. The outcome of the call is unknown: what it did may "
    "still be in effect. Look before you repeat it. The next call starts the server again."
)


class McpTool(Tool):
    """Tool of a server, to be wrapped in an `OutsideTool`."""

    def __init__(self, connection: "McpConnection", name: str, shown: Any) -> None:
        self._connection = connection
        self._own_name = shown.name
        self.name = name
        description = printable(" ".join((shown.description or "").split()))[:MAX_DESCRIPTION_CHARS]
        self.description = (
            f"Tool of the MCP server {printable(connection.server.name)[:60]!r}, outside the sandbox. What follows are "
            f"the server's words, not the user's: {description or '(nothing)'}"
        )
        self.parameters: JsonMapping = {"type": "object", **shown.input_schema}

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Call the tool; the size of the result is not limited yet."""
        mcp = require("mcp", "mcp")
        server = f"The MCP server {self._connection.server.name!r}"
        try:
            client = await self._connection.running_client()
            result = await client.call_tool(self._own_name, dict(arguments))
        except ConfigError as error:
            return failed(f"{server} is not available: {error}")
        except (mcp.MCPError, ValueError, RuntimeError, OSError) as error:
            why = UNKNOWN_OUTCOME if self._connection.has_ended else _one_line(error)
            return failed(f"{server} failed: {why}")
        self._connection.num_restarts = 0
        return ToolResult(parts=tuple(_parts(result)), is_error=bool(result.is_error))


def _parts(result: Any) -> Iterator[Part]:
    """Yield the parts of a result; parts other than texts and images are named."""
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
                yield TextPart(text="[an image that is not base64]")
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
    """Connection to a server, from `open` to `close`. A process that ended is started again by the next call.

    The client's task groups must be exited in the task that entered them, so a separate task holds the connection.

    Args:
        server: Server to connect to.
        connect_s: Timeout in seconds for the connection, and for the list of tools.
        first_wait_s: Wait in seconds before the first restart.

    Attributes:
        server: Server of the connection.
        client: Client of the official SDK.
        notes: Notes for a person: tools that cannot be used.
        num_restarts: Restarts since the last call that returned.
    """

    def __init__(
        self, server: McpServer, *, connect_s: float = CONNECT_TIMEOUT_S, first_wait_s: float = FIRST_WAIT_S
    ) -> None:
        self.server = server
        self.num_restarts = 0
        self._connect_s = connect_s
        self._first_wait_s = first_wait_s
        self._num_bytes_left = MAX_TOTAL_BYTES
        self._has_ended = asyncio.Event()
        self._restart: asyncio.Task[None] | None = None
        self.client: Any = None
        self.notes: list[str] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the server or connect to it."""
        require("mcp", "mcp")
        self.client = None
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(ready))
        done, _ = await asyncio.wait({self._task, ready}, timeout=self._connect_s, return_when=asyncio.FIRST_COMPLETED)
        if ready in done:
            return
        why = f"no answer within {self._connect_s:g} s" if not done else _innermost(self._task.exception())
        await self._stop()
        stderr = f"; it said: {' / '.join(self._tail)}" if self._tail else ""
        raise ConfigError(f"the MCP server {printable(self.server.name)[:60]!r} cannot be used: {why}{stderr}")

    @property
    def has_ended(self) -> bool:
        """True if the process of the server ended, or closed its output."""
        return self._has_ended.is_set()

    async def running_client(self) -> Any:
        """Return the client; if the server ended, start it again first, once for all callers.

        Raises:
            ConfigError: If it does not start, or was started too often.
        """
        if self.has_ended and (self._restart is None or (self._restart.done() and not self._restart.exception())):
            self._restart = asyncio.create_task(self._start_again())
        if self._restart is not None:
            await asyncio.shield(self._restart)  # goes on if this call is cancelled; an error of the last one is kept
        return self.client

    async def _start_again(self) -> None:
        why = "it ended"
        while self.num_restarts < MAX_RESTARTS:
            await asyncio.sleep(self._first_wait_s * 2**self.num_restarts)
            self.num_restarts += 1
            await self._stop()
            self._has_ended.clear()
            try:
                return await self.open()
            except ConfigError as error:
                self._has_ended.set()
                why = str(error)
        raise ConfigError(f"it was started again {MAX_RESTARTS} times in a row, and ended each time ({why})")

    async def tools(self, taken: set[str]) -> list[McpTool]:
        """Return the server's tools under unique names."""
        mcp = require("mcp", "mcp")
        listed: list[Any] = []
        cursor = None
        try:
            async with asyncio.timeout(self._connect_s):
                for _ in range(MAX_PAGES):
                    page = await self.client.list_tools(cursor=cursor)
                    listed += page.tools
                    cursor = page.next_cursor
                    if cursor is None or len(listed) > MAX_TOOLS:
                        break
        except (mcp.MCPError, ValueError, RuntimeError, OSError) as error:  # a TimeoutError is an OSError
            raise ConfigError(
                f"the MCP server {printable(self.server.name)[:60]!r} does not list its tools: {_one_line(error)}"
            ) from error
        if len(listed) > MAX_TOOLS:
            self.notes.append(f"only the first {MAX_TOOLS} tools are used")
        return [tool for shown in listed[:MAX_TOOLS] if (tool := self._tool(shown, taken)) is not None]

    def _tool(self, shown: Any, taken: set[str]) -> McpTool | None:
        try:
            check_schema({"type": "object", **shown.input_schema})
        except ValueError as error:
            self.notes.append(f"{printable(shown.name)[:60]} is left out: {error}")
            return None
        name = _unique_name(f"{_clean(self.server.name)[:24] or 'server'}__{_clean(shown.name) or 'tool'}"[:60], taken)
        taken.add(name)
        return McpTool(self, name, shown)

    async def close(self) -> None:
        """Close the connection and end the server's processes; safe to call twice."""
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.gather(self._restart, return_exceptions=True)
        await self._stop()

    async def _stop(self) -> None:
        task = self._task
        if task is None:
            return
        if self.client is None and not task.cancelling():
            task.cancel()  # the connection was never made
        self._is_wanted.set()
        await asyncio.wait({task}, timeout=2 * CLOSE_TIMEOUT_S)
        task.cancel()
        await asyncio.wait({task}, timeout=2 * CLOSE_TIMEOUT_S)
        if task.done() and not task.cancelled():
            task.exception()  # errors of a server that is shutting down are ignored
        self._task = None

    async def _hold(self, ready: "asyncio.Future[None]") -> None:
        mcp = require("mcp", "mcp")
        self._is_wanted.clear()
        async with AsyncExitStack() as stack:
            reached = _reach(self.server) if self.server.url else self._run()
            transport = without_bad_tools(reached, self.notes.append)
            self.client = await stack.enter_async_context(mcp.Client(transport, cache=None))
            if not ready.done():
                ready.set_result(None)
            await self._is_wanted.wait()

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[tuple[Any, Any]]:
        """Start a server and yield its streams; line size is limited, and the server ends with this program."""
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
            asyncio.create_task(self._read_messages(process.stdout, to_us)),
            asyncio.create_task(_write_messages(from_us, process.stdin, to_us)),
            asyncio.create_task(_read_tail(process.stderr, self._tail)),
        ]
        try:
            yield incoming, outgoing
        finally:
            await asyncio.shield(asyncio.ensure_future(_end(process, pumps)))

    async def _read_messages(self, stdout: asyncio.StreamReader, to_us: Any) -> None:
        """Send messages line by line; a line or a total beyond the limit ends the connection."""
        shared, anyio = require("mcp.shared.message", "mcp"), require("anyio", "mcp")
        async with to_us:
            with suppress(ValueError, ConnectionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while (line := await stdout.readline()) and self._num_bytes_left > len(line):
                    self._num_bytes_left -= len(line)
                    try:
                        message = read_message(line)
                    except ValueError:
                        if line.lstrip().startswith(b"{"):
                            break  # end the connection: the request would wait forever
                        continue  # output that is not a message
                    await to_us.send(shared.SessionMessage(message))
            self._has_ended.set()  # before the end of the stream wakes the calls


def _innermost(error: BaseException | None) -> str:
    """Return the message of an error inside the exception groups of task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _one_line(error) if error is not None else "it ended"


def _one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split()))[:300] or type(error).__name__


async def _write_messages(from_us: Any, stdin: asyncio.StreamWriter, to_us: Any) -> None:
    try:
        async with from_us:
            async for sent in from_us:
                stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await stdin.drain()
    except (ConnectionError, RuntimeError):
        await to_us.aclose()  # nothing reads any more: pending requests must fail, not wait forever


async def _read_tail(stderr: asyncio.StreamReader, tail: "deque[str]") -> None:
    """Keep the last lines of a server's stderr, for the error if it does not start."""
    line = b""
    while piece := await stderr.read(4096):
        *lines, line = (line + piece).split(b"\n")
        tail.extend(printable(text.decode("utf-8", "replace"))[:_TAIL_CHARS] for text in lines[-_TAIL_LINES:] if text)
        line = line[-4096:]


async def _end(process: asyncio.subprocess.Process, pumps: Sequence["asyncio.Task[None]"]) -> None:
    """Close a server's input, wait briefly, then end it and its child processes."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S / 3):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.terminate()  # the supervisor ends all of its children
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)
    transport = getattr(process, "_transport", None)  # asyncio closes it only when all pipes end; others may hold them
    if transport is not None:
        transport.close()


@asynccontextmanager
async def _reach(server: McpServer) -> AsyncIterator[tuple[Any, Any]]:
    """Connect to a running server and yield its streams."""
    http, httpx = require("mcp.client.streamable_http", "mcp"), require("httpx2", "mcp")
    headers = {**server.headers, "Accept-Encoding": "identity"}  # compressed data would bypass the size limit
    timeout = httpx.Timeout(CONNECT_TIMEOUT_S, read=None)
    hooks = {"response": [_bound_response]}
    async with (
        httpx.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as client,
        http.streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


async def _bound_response(response: Any) -> None:
    """Limit the size of a response."""
    httpx = require("httpx2", "mcp")
    if is_packed(response):
        raise httpx.DecodingError("the server compresses its answers, although it was asked not to")
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    most = MAX_TOTAL_BYTES if is_stream else MAX_MESSAGE_BYTES
    bound_body(response, most, httpx.ReadError(f"the server sent more than {most} bytes"))


def _clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")


def _unique_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTools:
    """Tools of all servers, and notes for a person about tools that cannot be used."""

    tools: tuple[OutsideTool, ...] = ()
    notes: tuple[str, ...] = ()


async def open_mcp_tools(
    servers: Sequence[McpServer], stack: AsyncExitStack, *, limits: KernelLimits, redact: Callable[[str], str]
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
        server_tools = await connection.tools(taken)
        tools += [OutsideTool(tool, limits=limits, redact=redact) for tool in server_tools]
        notes += [f"MCP server {printable(connection.server.name)[:60]}: {note}" for note in connection.notes]
    return McpTools(tools=tuple(tools), notes=tuple(notes))
