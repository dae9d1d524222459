"""Tools in kernels: `ipython`, which keeps its state; `files`, `shell` and `view_image` in a second kernel.

Both kernels share a folder. File access and shell commands run inside the sandbox too, so a link that code has created
in the folder cannot lead out of it; and they neither wait for the model's cells nor change its variables.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal

from pydantic import Field

from cua.json_text import Json, JsonMapping
from cua.messages import ImagePart, Part, TextPart, ToolResult
from cua.model import Tool
from cua.tools.toolset import Arguments, read_arguments, read_description, schema_of
from visual_tools.sandbox.contract import CellResult, Kernel, KernelLimits

NO_OUTPUT = "(no output)"
PNG = "image/png"
_MAX_LISTED = 20  # names of written files in a result; bounds its tokens


def to_tool_result(result: CellResult, *, kind: str, code: str) -> ToolResult:
    """Convert a cell's result to a tool result.

    Args:
        result: Result of the cell.
        kind: Kind of the code: `ipython`, `shell`, or `service` for a call of `SecondKernel`. An export as a notebook
            makes a cell of that kind.
        code: The code that was run.
    """
    images = [ImagePart(data=image.png) for image in result.images]
    parts: tuple[Part, ...] = (TextPart(text=_text(result)), *images)
    numbers = iter(range(len(images)))
    data = {
        "kind": kind,
        "code": code,
        "status": result.status,
        "text": result.text,
        "outputs": [_without_image(output, numbers) for output in result.outputs],
        "execution_count": result.execution_count,
        "files_written": list(result.files_written),
        "is_state_lost": result.is_state_lost,
    }
    return ToolResult(parts=parts, is_error=result.status != "ok", data=data)


def _text(result: CellResult) -> str:
    pieces = [result.text.rstrip("\n")] if result.text.strip() else []
    if result.error is not None:
        pieces.append(result.error.traceback or f"{result.error.name}: {result.error.message}")
    if result.files_written:
        more = len(result.files_written) - _MAX_LISTED
        shown = ", ".join(result.files_written[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
        pieces.append(f"[files written: {shown}]")
    pieces += [f"[{note}]" for note in result.notes]
    return "\n".join(pieces) or NO_OUTPUT


def _without_image(output: JsonMapping, numbers: Iterator[int]) -> Json:
    """Return a notebook output that refers to the result's image by index, so that the image is stored once."""
    if PNG not in output.get("data", {}):
        return dict(output)
    return {**output, "data": {**output["data"], PNG: next(numbers, None)}}


class IPythonArguments(Arguments):
    """Arguments of `ipython`."""

    code: str = Field(description="Python code; IPython syntax is allowed.")


class IPythonTool(Tool):
    """Tool that runs code in a kernel.

    Args:
        kernel: Kernel of the run.
        limits: Limits of the kernel, for the description.
        installed: Names of the installed libraries, for the description.
    """

    name = "ipython"

    def __init__(self, kernel: Kernel, *, limits: KernelLimits, installed: str) -> None:
        self._kernel = kernel
        self.description = read_description(
            "ipython", inside_dir=kernel.inside_dir, wall_s=f"{limits.wall_s:g}", installed=installed
        )
        self.parameters: JsonMapping = schema_of(IPythonArguments)

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Run one cell."""
        parsed = read_arguments(IPythonArguments, arguments)
        return to_tool_result(await self._kernel.run(parsed.code), kind="ipython", code=parsed.code)


SPARE_S = 5.0
"""Extra seconds for the kernel beyond a command's own timeout, so that the command's timeout applies first."""


class SecondKernel:
    """Second kernel of a run, in which `files`, `shell` and `view_image` run; its first call starts it.

    Its tools call functions of `visual_tools.sandbox.inside`. A call raises `SandboxError` if there is no kernel.
    """

    def __init__(self, make_kernel: Callable[[], Awaitable[Kernel]]) -> None:
        self._make_kernel = make_kernel
        self._kernel: Kernel | None = None
        self._lock = asyncio.Lock()

    async def call_inside(self, function: str, *, timeout_s: float | None = None, **arguments: Any) -> CellResult:
        """Call `visual_tools.sandbox.inside.FUNCTION(**arguments)`; arguments are JSON values."""
        text = json.dumps(arguments)
        code = f"import json\nfrom visual_tools.sandbox import inside\ninside.{function}(**json.loads({text!r}))"
        return await self.run(code, timeout_s=timeout_s)

    async def run(self, code: str, *, timeout_s: float | None = None) -> CellResult:
        """Run a cell."""
        async with self._lock:
            if self._kernel is None:
                self._kernel = await self._make_kernel()
        return await self._kernel.run(code, timeout_s=timeout_s, store_history=False)

    async def close(self) -> None:
        """Stop the kernel; safe to call twice."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            await kernel.close()


class FilesArguments(Arguments):
    """Arguments of `files`."""

    action: Literal["list", "read", "write"] = Field(description="What to do.")
    path: str = Field(default=".", description="File or folder, relative to the working folder.")
    content: str = Field(default="", description="What to write.")
    offset: int = Field(default=1, ge=1, description="First line to read, from 1.")
    limit: int = Field(default=500, ge=1, le=5000, description="Lines to read at most.")


class FilesTool(Tool):
    """Tool for files of the working folder."""

    name = "files"

    def __init__(self, second_kernel: SecondKernel) -> None:
        self._second_kernel = second_kernel
        self.description = read_description("files")
        self.parameters: JsonMapping = schema_of(FilesArguments)

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Run the file operation."""
        parsed = read_arguments(FilesArguments, arguments)
        match parsed.action:
            case "list":
                used: Json = {"path": parsed.path}
            case "read":
                used = {"path": parsed.path, "offset": parsed.offset, "limit": parsed.limit}
            case "write":
                used = {"path": parsed.path, "content": parsed.content}
        result = await self._second_kernel.call_inside(
            f"{parsed.action}_file{'s' if parsed.action == 'list' else ''}", **used
        )
        code = ", ".join(f"{name}={value!r}" for name, value in used.items())
        call = f"inside.{parsed.action}_file{'s' if parsed.action == 'list' else ''}({code})"
        return to_tool_result(result, kind="service", code=call)


class ShellArguments(Arguments):
    """Arguments of `shell`."""

    command: str = Field(description="The command line.", min_length=1)


class ShellTool(Tool):
    """Tool that runs commands in the working folder."""

    name = "shell"

    def __init__(self, second_kernel: SecondKernel, *, inside_dir: str, wall_s: float) -> None:
        self._second_kernel = second_kernel
        self._wall_s = wall_s
        self.description = read_description("shell", inside_dir=inside_dir, wall_s=f"{wall_s:g}")
        self.parameters: JsonMapping = schema_of(ShellArguments)

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Run one command."""
        parsed = read_arguments(ShellArguments, arguments)
        result = await self._second_kernel.call_inside(
            "run_command", timeout_s=self._wall_s + SPARE_S, command=parsed.command, limit_s=self._wall_s
        )
        return to_tool_result(result, kind="shell", code=parsed.command)


class ViewImageArguments(Arguments):
    """Arguments of `view_image`."""

    path: str = Field(description="The file, relative to the working folder.")
    box: list[int] = Field(
        default=[], description="[left, top, right, bottom] in pixels; empty for the whole image.", max_length=4
    )


class ViewImageTool(Tool):
    """Tool that shows an image file of the working folder."""

    name = "view_image"

    def __init__(self, second_kernel: SecondKernel) -> None:
        self._second_kernel = second_kernel
        self.description = read_description("view_image")
        self.parameters: JsonMapping = schema_of(ViewImageArguments)

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Show the image."""
        parsed = read_arguments(ViewImageArguments, arguments)
        result = await self._second_kernel.call_inside("view_image", path=parsed.path, box=parsed.box)
        code = f"inside.view_image({parsed.path!r}, {parsed.box!r})"
        return to_tool_result(result, kind="service", code=code)
