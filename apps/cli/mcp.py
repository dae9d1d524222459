"""MCP server of `cua mcp`: tasks, questions and image operations as tools for other agents, over stdin and stdout.

Approval is not possible over MCP: actions that need it are refused, and the answer says so.
"""

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envs.supervisor import supervisor_command
from visual_tools.errors import require

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult

    from cua import RunResult, Watch
    from cua.run.control import Control
    from cua.run.events import Event

MAX_RUNS = 4
"""Largest number of concurrent calls; further calls wait."""
STOP_TIMEOUT_S = 30.0  # time for runs to end and write their records when the client leaves
SEE_TIMEOUT_S = 300.0  # a long video takes minutes
# Clients put results into a model's context: bounds the tokens
MAX_IMAGES, MAX_IMAGE_BYTES, MAX_TEXT_CHARS = 4, 8 * 2**20, 100_000
REFUSED = (
    "Refused, because MCP cannot ask for approval: {actions}. To allow it, start `cua mcp` with a rule in --policy "
    "FILE or with --approve yolo."
)
_TEXT = {"type": "string"}
_FILES = {"type": "array", "items": _TEXT, "maxItems": 100, "description": "Paths inside the folder of the server."}
_STEPS = {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Stop after so many steps."}
TOOLS: Mapping[str, tuple[str, dict[str, object]]] = {
    "task": (
        "Carry out an instruction in a real browser with a fresh profile, and report the result. With the embedded "
        'literal model, write plain steps: Type "Ada" into Name. Click Send. Tell me the Order number.',
        {"instruction": _TEXT, "url": {**_TEXT, "description": "Page to start at."}, "max_steps": _STEPS},
    ),
    "ask": (
        "Answer a question about images, documents or videos, by code in a sandbox; the answer cites its results.",
        {"question": _TEXT, "files": _FILES, "max_steps": _STEPS},
    ),
    "swarm": (
        "Have an orchestrator and many sub-agents work on a question at the same time: for answers that are collected "
        "from many places, or work on many files. Progress tells of each sub-agent.",
        {
            "question": _TEXT,
            "files": _FILES,
            "max_children": {"type": "integer", "minimum": 1, "maximum": 100, "description": "At most so many."},
            "max_calls": {"type": "integer", "minimum": 1, "maximum": 1500, "description": "Tool calls of all agents."},
        },
    ),
    "see": (
        "Look at images and videos without any model. Operations: maze, share, axes, diff, template, count, measure, "
        "polygons, edges, ocr, codes, crop, zoom, rotate, grid, probe, sheet, frames, scenes, clip. Options are those "
        "of `cua see OPERATION`.",
        {
            "operation": _TEXT,
            "files": {**_FILES, "minItems": 1},
            "options": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
        },
    ),
}
REQUIRED = {"task": ["instruction"], "ask": ["question"], "swarm": ["question"], "see": ["operation", "files"]}


@dataclass(slots=True, kw_only=True)
class _RunLog:
    """Messages of a run for the client.

    Attributes:
        lines: Progress notifications.
        refused: Actions that the guard refused.
        controls: Controls of the run, once it has started.
    """

    lines: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(1000))
    refused: list[str] = field(default_factory=list)
    controls: "list[Control]" = field(default_factory=list)

    def listen(self, event: "Event") -> None:
        """Handle an event."""
        from cua.run.events import CallReturned, CallsStarted, Decided, Noted

        match event:
            case Decided(turn=turn):
                self._tell(turn.action_text)
            case CallsStarted(reply=reply) if event.ids.agent_id == "main":  # children are reported by their states
                self._tell(", ".join(call.name for call in reply.tool_calls))
            case CallReturned(outcome=outcome) if outcome.result.text.startswith("This call was refused: "):
                self.refused.append(outcome.result.text.removeprefix("This call was refused: "))
            case Noted(kind="child", text=text):
                self._tell(text)
            case Noted(kind="refused", text=text):
                self.refused.append(text)
            case _:
                pass

    def _tell(self, text: str) -> None:
        with suppress(asyncio.QueueFull):
            self.lines.put_nowait(text[:300])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServer:
    """MCP server.

    Attributes:
        settings: Settings of every run.
        folder: Only folder whose files may be named.
    """

    settings: Mapping[str, Any]
    folder: Path
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_RUNS))

    async def run(self) -> None:
        """Serve until the client disconnects."""
        from importlib.metadata import version

        stdio, lowlevel = require("mcp.server.stdio", "mcp"), require("mcp.server.lowlevel", "mcp")
        server = lowlevel.Server("cua", version=version("cua-k25"), on_list_tools=self._list, on_call_tool=self._call)
        async with stdio.stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    async def _list(self, context: "ServerRequestContext", params: object) -> "ListToolsResult":
        types = require("mcp.types", "mcp")
        tools = [
            types.Tool(name=name, description=description, input_schema=_schema(name, properties))
            for name, (description, properties) in TOOLS.items()
        ]
        listed: ListToolsResult = types.ListToolsResult(tools=tools)
        return listed

    async def _call(self, context: "ServerRequestContext", params: "CallToolRequestParams") -> "CallToolResult":
        """Execute one call; errors that the client can fix are returned as results."""
        from apps.cli.running import exit_code_of
        from cua.errors import ConfigError
        from cua.tools.toolset import describe_schema_error

        arguments = dict(params.arguments or {})
        try:
            if params.name not in TOOLS:
                raise ConfigError(f"unknown tool {params.name!r}; expected one of {', '.join(TOOLS)}")
            wrong = describe_schema_error(arguments, _schema(params.name, TOOLS[params.name][1]))
            if wrong:
                raise ConfigError(f"the arguments of {params.name} are invalid: {wrong}")
            async with self.slots:
                if params.name == "see":
                    return await self._see(**arguments)
                return await self._follow(context, lambda watch: self._start(params.name, arguments, watch))
        except Exception as error:
            if exit_code_of(error) is None:
                raise
            return _result([str(error)], is_error=True)

    async def _start(self, name: str, arguments: Mapping[str, Any], watch: "Watch") -> "RunResult":
        from cua import ConfigError, ask, run_task

        limits = [int(given["max_steps"]) for given in (arguments, self.settings) if "max_steps" in given]
        settings = {**self.settings, "max_steps": min(limits)} if limits else self.settings
        if name == "task":
            url = arguments.get("url")
            if url is not None and urlsplit(url).scheme not in ("http", "https", "data"):
                raise ConfigError(f"{url!a:.100} is not an http, https or data address; MCP opens no others")
            return await run_task(arguments["instruction"], url=url, watch=watch, **settings)
        files = [self._inside(file) for file in arguments.get("files", ())]
        if name == "swarm":
            return await self._swarm(arguments, files, watch)
        return await ask(arguments["question"], files, watch=watch, **settings)

    async def _swarm(self, arguments: Mapping[str, Any], files: Sequence[Path], watch: "Watch") -> "RunResult":
        from cua.swarm import SwarmOptions, run_swarm
        from cua.swarm.budget import SwarmLimits
        from cua.swarm.protocol import MAX_CALLS

        calls = [given["max_calls"] for given in (arguments, self.settings) if given.get("max_calls")]
        settings = {**self.settings, "max_calls": min(map(int, calls), default=MAX_CALLS)}
        limits = SwarmLimits(max_children=arguments.get("max_children", SwarmLimits().max_children))
        options = SwarmOptions(limits=limits)
        done = await run_swarm(arguments["question"], files, options=options, watch=watch, **settings)
        return done.run

    async def _follow(
        self, context: "ServerRequestContext", start: "Callable[[Watch], Coroutine[object, object, RunResult]]"
    ) -> "CallToolResult":
        """Execute a run and report its progress; if the call is cancelled, stop the run and wait for its end."""
        from apps.cli.progress import result_object
        from cua import Watch

        anyio = require("anyio", "mcp")
        run_log = _RunLog()
        work = asyncio.create_task(start(Watch(listener=run_log.listen, on_control=run_log.controls.append)))
        progress = asyncio.create_task(_report(context, run_log.lines))
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                for control in run_log.controls:
                    control.stop("cancelled by the MCP client")
                if not run_log.controls:
                    work.cancel()
                await asyncio.wait({work}, timeout=STOP_TIMEOUT_S)
                work.cancel()
            raise
        finally:
            progress.cancel()
        lines = [result.end.answer] if result.end.answer is not None else [f"{result.end.status}: {result.end.reason}"]
        lines += [REFUSED.format(actions="; ".join(dict.fromkeys(run_log.refused)))] if run_log.refused else []
        is_error = result.end.status not in ("succeeded", "unverified")
        return _result(lines, is_error=is_error, structured=result_object(result))

    async def _see(
        self, operation: str, files: Sequence[str], options: Mapping[str, object] | None = None
    ) -> "CallToolResult":
        """Run `cua see` in a separate process, as its output is not part of the protocol."""
        from apps.cli.see import OPERATIONS
        from cua.errors import ConfigError, name_choices

        if operation not in OPERATIONS:
            raise ConfigError(f"unknown operation {operation!r}.{name_choices(operation, OPERATIONS)}")
        flags = [self._option(name, value) for name, value in (options or {}).items()]
        inputs = [str(self._inside(file)) for file in files]
        with tempfile.TemporaryDirectory(prefix="k25-see-") as out:
            process = await asyncio.create_subprocess_exec(
                *supervisor_command(
                    sys.executable, "-m", "apps.cli.main", "see", operation, "--json", *flags, "--", *inputs
                ),
                cwd=out,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(SEE_TIMEOUT_S):
                    stdout, stderr = await process.communicate()
            except TimeoutError:
                raise ConfigError(f"{operation} took longer than {SEE_TIMEOUT_S:g} s") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    with require("anyio", "mcp").CancelScope(shield=True):
                        await process.wait()
            images = await asyncio.to_thread(_read_images, Path(out))
        output = (stdout if process.returncode in (0, 1) and stdout else stderr).decode("utf-8", "replace")
        return _result([output[:MAX_TEXT_CHARS].strip()], is_error=process.returncode != 0, images=images)

    def _inside(self, name: str) -> Path:
        """Return the path of a file in the folder.

        Raises:
            ConfigError: If the file is outside the folder.
        """
        from cua.errors import ConfigError

        path = (self.folder / name).resolve() if "\0" not in name else self.folder.parent
        if not path.is_relative_to(self.folder):
            raise ConfigError(f"{name!a} is not inside {self.folder}, the only folder whose files may be named")
        return path

    def _option(self, name: str, value: object) -> str:
        from cua.errors import ConfigError

        plain = name.replace("_", "-").removeprefix("--")
        if not plain.replace("-", "").isalpha() or plain in ("output", "force", "json", "help"):
            raise ConfigError(f"{name!a} is not an option of this tool")
        text = str(value)
        if "/" in text or (self.folder / text).exists():
            text = str(self._inside(text))
        return f"--{plain}={text}"


def _read_images(folder: Path) -> list[bytes]:
    paths = [path for path in sorted(folder.glob("*.png")) if path.stat().st_size <= MAX_IMAGE_BYTES]
    return [path.read_bytes() for path in paths[:MAX_IMAGES]]


def _schema(name: str, properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": REQUIRED[name],
        "additionalProperties": False,
    }


async def _report(context: "ServerRequestContext", lines: "asyncio.Queue[str]") -> None:
    """Send progress notifications in order until cancelled."""
    for number in range(1, sys.maxsize):
        await context.session.report_progress(number, message=await lines.get())


def _result(
    lines: Sequence[str],
    *,
    is_error: bool,
    structured: Mapping[str, object] | None = None,
    images: Sequence[bytes] = (),
) -> "CallToolResult":
    types = require("mcp.types", "mcp")
    blocks = [
        types.ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type="image/png") for data in images
    ]
    plain = json.loads(json.dumps(structured, default=str)) if structured is not None else None
    content = [types.TextContent(type="text", text="\n".join(lines)), *blocks]
    result: CallToolResult = types.CallToolResult(content=content, is_error=is_error, structured_content=plain)
    return result
