"""`shell`: a command line in the same isolated place."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cua.messages import ToolResult
from cua.tools.ipython import to_tool_result
from cua.tools.service import SPARE_S, Service
from cua.tools.toolset import Arguments, read_arguments, read_description, schema_of


class ShellArguments(Arguments):
    """Arguments of `shell`."""

    command: str = Field(description="The command line.", min_length=1)


class ShellTool:
    """Runs commands in the working folder; implements `cua.model.Tool`.

    Args:
        service: Where they run.
        inside_dir: The working folder as commands see it.
        wall_s: Seconds that a command may take.
    """

    name = "shell"

    def __init__(self, service: Service, *, inside_dir: str, wall_s: float) -> None:
        self._service = service
        self._wall_s = wall_s
        self.description = read_description("shell", inside_dir=inside_dir, wall_s=f"{wall_s:g}")
        self.parameters: Mapping[str, Any] = schema_of(ShellArguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one command."""
        asked = read_arguments(ShellArguments, arguments)
        result = await self._service.call(
            "run_command", timeout_s=self._wall_s + SPARE_S, command=asked.command, limit_s=self._wall_s
        )
        return to_tool_result(result, kind="shell", code=asked.command)
