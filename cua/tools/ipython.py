"""`ipython`: code in a kernel that keeps its state."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from cua.messages import ImagePart, Part, TextPart, ToolResult
from cua.tools.toolset import Arguments, read_arguments, read_description, schema_of
from visual_tools.sandbox import CellResult, Kernel, Limits

NO_OUTPUT = "(no output)"
PNG = "image/png"
_MAX_LISTED = 20


def to_tool_result(result: CellResult, *, kind: str, code: str) -> ToolResult:
    """Write a cell's result as a tool result.

    Args:
        result: What became of the cell.
        kind: What the notebook makes of it: `ipython`, `shell` or `service`.
        code: The notebook's cell.
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


def _without_image(output: Mapping[str, Any], numbers: Iterator[int]) -> dict[str, Any]:
    """A notebook output whose image is named by its place among the result's images: it is kept once."""
    if PNG not in output.get("data", {}):
        return dict(output)
    return {**output, "data": {**output["data"], PNG: next(numbers, None)}}


class IPythonArguments(Arguments):
    """Arguments of `ipython`."""

    code: str = Field(description="Python code; IPython syntax is allowed.")


class IPythonTool:
    """Runs code in a kernel; implements `cua.model.Tool`."""

    name = "ipython"

    def __init__(self, kernel: Kernel, *, limits: Limits, inside: str) -> None:
        self._kernel = kernel
        self.description = read_description(
            "ipython", inside_dir=kernel.inside_dir, wall_s=f"{limits.wall_s:g}", inside=inside
        )
        self.parameters: Mapping[str, Any] = schema_of(IPythonArguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one cell."""
        asked = read_arguments(IPythonArguments, arguments)
        return to_tool_result(await self._kernel.run(asked.code), kind="ipython", code=asked.code)
