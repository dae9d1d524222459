"""`files`: list, read and write text in the working folder."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from cua.messages import ToolResult
from cua.tools.ipython import to_tool_result
from cua.tools.service import Service
from cua.tools.toolset import Arguments, read_arguments, read_description, schema_of


class FilesArguments(Arguments):
    """Arguments of `files`."""

    action: Literal["list", "read", "write"] = Field(description="What to do.")
    path: str = Field(default=".", description="File or folder, relative to the working folder.")
    content: str = Field(default="", description="What to write.")
    offset: int = Field(default=1, ge=1, description="First line to read, from 1.")
    limit: int = Field(default=500, ge=1, le=5000, description="Lines to read at most.")


class FilesTool:
    """Works with files of the working folder; implements `cua.model.Tool`."""

    name = "files"

    def __init__(self, service: Service) -> None:
        self._service = service
        self.description = read_description("files")
        self.parameters: Mapping[str, Any] = schema_of(FilesArguments)

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Do it."""
        asked = read_arguments(FilesArguments, arguments)
        match asked.action:
            case "list":
                used: dict[str, Any] = {"path": asked.path}
            case "read":
                used = {"path": asked.path, "offset": asked.offset, "limit": asked.limit}
            case "write":
                used = {"path": asked.path, "content": asked.content}
        result = await self._service.call(f"{asked.action}_file{'s' if asked.action == 'list' else ''}", **used)
        code = ", ".join(f"{name}={value!r}" for name, value in used.items())
        call = f"inside.{asked.action}_file{'s' if asked.action == 'list' else ''}({code})"
        return to_tool_result(result, kind="service", code=call)
