"""Tools at work in a real sandbox."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio

from cua.messages import ToolCall, ToolResult
from cua.tools import Toolset
from cua.tools.kernel_tools import FilesTool, IPythonTool, SecondKernel, ShellTool, ViewImageTool
from visual_tools.sandbox import KernelLimits, KernelMaker


@dataclass
class Bench:
    """Tools at work in one folder."""

    folder: Path
    toolset: Toolset

    async def call(self, name: str, arguments: str) -> ToolResult:
        return await self.toolset.dispatch(ToolCall(id="functions.x:0", name=name, arguments=arguments))


@pytest_asyncio.fixture(loop_scope="module")
async def bench(sandbox: KernelMaker, tmp_path: Path) -> AsyncIterator[Bench]:
    folder = tmp_path / "files"
    kernel = await sandbox.make_kernel(folder)
    second_kernel = SecondKernel(lambda: sandbox.make_kernel(folder))
    tools = [
        IPythonTool(kernel, limits=KernelLimits(), installed="numpy"),
        ViewImageTool(second_kernel),
        FilesTool(second_kernel),
        ShellTool(second_kernel, inside_dir=kernel.inside_dir, wall_s=3),
    ]
    yield Bench(folder, Toolset(tools))
    await second_kernel.close()
    await kernel.close()
