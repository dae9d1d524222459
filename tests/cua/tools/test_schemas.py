"""What a model is shown of each tool: a change here changes what models do, so it has to be seen."""

from pathlib import Path
from typing import Any

import pytest

from cua.model import Tool
from cua.tools.kernel_tools import FilesTool, IPythonTool, SecondKernel, ShellTool, ViewImageTool
from visual_tools.sandbox import Backend, CellResult, KernelLimits


class NoKernel:
    """A place that nothing runs in; implements `visual_tools.sandbox.Kernel`."""

    folder = Path("/nowhere")
    inside_dir = "/work"
    backend: Backend = "bubblewrap"

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        raise AssertionError("nothing is run here")

    async def interrupt(self) -> None:
        """Nothing runs."""

    async def close(self) -> None:
        """Nothing to end."""


async def no_kernel() -> NoKernel:
    return NoKernel()


def tools() -> dict[str, Tool]:
    second_kernel = SecondKernel(no_kernel)
    made: list[Tool] = [
        IPythonTool(NoKernel(), limits=KernelLimits(), installed="numpy 2"),
        ViewImageTool(second_kernel),
        FilesTool(second_kernel),
        ShellTool(second_kernel, inside_dir="/work", wall_s=60),
    ]
    return {tool.name: tool for tool in made}


SCHEMAS: dict[str, dict[str, Any]] = {
    "ipython": {
        "additionalProperties": False,
        "properties": {"code": {"description": "Python code; IPython syntax is allowed.", "type": "string"}},
        "required": ["code"],
        "type": "object",
    },
    "view_image": {
        "additionalProperties": False,
        "properties": {
            "path": {"description": "The file, relative to the working folder.", "type": "string"},
            "box": {
                "default": [],
                "description": "[left, top, right, bottom] in pixels; empty for the whole image.",
                "items": {"type": "integer"},
                "maxItems": 4,
                "type": "array",
            },
        },
        "required": ["path"],
        "type": "object",
    },
    "files": {
        "additionalProperties": False,
        "properties": {
            "action": {"description": "What to do.", "enum": ["list", "read", "write"], "type": "string"},
            "path": {
                "default": ".",
                "description": "File or folder, relative to the working folder.",
                "type": "string",
            },
            "content": {"default": "", "description": "What to write.", "type": "string"},
            "offset": {"default": 1, "description": "First line to read, from 1.", "minimum": 1, "type": "integer"},
            "limit": {
                "default": 500,
                "description": "Lines to read at most.",
                "maximum": 5000,
                "minimum": 1,
                "type": "integer",
            },
        },
        "required": ["action"],
        "type": "object",
    },
    "shell": {
        "additionalProperties": False,
        "properties": {"command": {"description": "The command line.", "minLength": 1, "type": "string"}},
        "required": ["command"],
        "type": "object",
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_as_models_know_it(name: str) -> None:
    assert dict(tools()[name].parameters) == SCHEMAS[name]


def test_every_tool_is_listed_here() -> None:
    assert set(tools()) == set(SCHEMAS)


def test_descriptions_are_filled_in() -> None:
    for tool in tools().values():
        assert "{" not in tool.description.replace("{inside", "{")
        assert len(tool.description) > 60
    assert "numpy 2" in tools()["ipython"].description
    assert "/work" in tools()["ipython"].description


def test_every_function_that_the_description_names_exists() -> None:
    import re

    import visual_tools as vt

    named = set(re.findall(r"vt\.([a-zA-Z_]+)", tools()["ipython"].description))
    assert len(named) > 20
    assert named <= set(vt.__all__)
