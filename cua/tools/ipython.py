"""`ipython`: code in a kernel that keeps its state."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cua.messages import ToolResult
from cua.tools.arguments import Arguments, read_arguments, read_description, schema_of
from cua.tools.cells import to_tool_result
from visual_tools.sandbox import Kernel, Limits


class IPythonArguments(Arguments):
    """Arguments of `ipython`."""

    code: str = Field(description="Python code; IPython syntax is allowed.")


class IPythonTool:
    """Runs code in a kernel; implements `cua.model.Tool`.

    Args:
        kernel: Where the code runs.
        limits: What the kernel may use, for the description.
        inside: What is installed there, in one line.
    """

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
