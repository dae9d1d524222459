"""`view_image`: look at an image file."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from cua.messages import ToolResult
from cua.tools.ipython import to_tool_result
from cua.tools.service import Service
from cua.tools.toolset import Arguments, read_arguments, read_description, schema_of


class ViewImageArguments(Arguments):
    """Arguments of `view_image`."""

    path: str = Field(description="The file, relative to the working folder.")
    box: list[int] = Field(
        default=[], description="[left, top, right, bottom] in pixels; empty for the whole image.", max_length=4
    )


class ViewImageTool:
    """Shows a file of the working folder; implements `cua.model.Tool`."""

    name = "view_image"

    def __init__(self, service: Service) -> None:
        self._service = service
        self.description = read_description("view_image")
        self.parameters: Mapping[str, Any] = schema_of(ViewImageArguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Show it."""
        asked = read_arguments(ViewImageArguments, arguments)
        result = await self._service.call("view_image", path=asked.path, box=asked.box)
        code = f"inside.view_image({asked.path!r}, {asked.box!r})"
        return to_tool_result(result, kind="service", code=code)
