"""Sandboxes of a swarm's agents: opened by the first cell, a limited number at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from cua.config import Settings
from cua.messages import ToolResult
from cua.model import Tool
from cua.models.gate import reported_wait
from cua.tool_agent.assemble import start_sandbox
from cua.tool_agent.profile import ToolContext
from cua.tools.kernel_tools import SecondKernel
from cua.trajectory.run_record import MAIN
from visual_tools.sandbox import CellResult, Kernel, KernelLimits, KernelMaker


class SandboxPool:
    """Lazily opened kernels and sandbox with a limited number of agents."""

    def __init__(self, maker: KernelMaker | None, settings: Settings, num_open: int) -> None:
        self.backend = maker.backend if maker is not None else settings.sandbox
        self._maker, self._settings = maker, settings
        self._is_own = maker is None
        self._slots = asyncio.Semaphore(num_open)
        self._starting: asyncio.Task[KernelMaker] | None = None

    async def open(self, folder: Path) -> Kernel:
        """Return a kernel in a folder; the first one starts the sandbox, which goes on if its agent is stopped."""
        maker = self._maker
        if maker is None:
            if self._starting is None:
                self._starting = asyncio.create_task(start_sandbox(self._settings))
                self._starting.add_done_callback(self._on_started)
            maker = await asyncio.shield(self._starting)
        return await maker.make_kernel(folder)

    def _on_started(self, starting: "asyncio.Task[KernelMaker]") -> None:
        """Keep the sandbox; after an error the next kernel tries again."""
        self._starting = None
        if not starting.cancelled() and starting.exception() is None:
            self._maker = starting.result()

    async def acquire_slot(self) -> None:
        """Wait for a slot for one more agent with kernels."""
        async with reported_wait("a free sandbox") if self._slots.locked() else nullcontext():
            await self._slots.acquire()

    def release_slot(self) -> None:
        """Release an agent's slot."""
        self._slots.release()

    async def close(self) -> None:
        """Stop the sandbox if it was started here, also while it starts."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._is_own and self._maker is not None:
            await self._maker.close()


class LazyKernel:
    """Kernel that is started by its first cell; implements `Kernel`."""

    inside_dir = "the working folder"

    def __init__(self, open_kernel: Callable[[], Awaitable[Kernel]], folder: Path, backend: Any) -> None:
        self.folder, self.backend = folder, backend
        self._open = open_kernel
        self._kernel: Kernel | None = None
        self._lock = asyncio.Lock()

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        """Run a cell; start the kernel if needed."""
        async with self._lock:
            if self._kernel is None:
                self._kernel = await self._open()
            kernel = self._kernel
        return await kernel.run(code, timeout_s=timeout_s, store_history=store_history)

    async def interrupt(self) -> None:
        """Interrupt the running cell."""
        if self._kernel is not None:
            await self._kernel.interrupt()

    async def close(self) -> None:
        """Stop the kernel; the next cell gets a fresh one."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            await kernel.close()


class _SlotKernel:
    """Kernel whose cells run while its agent has a slot; implements `Kernel`."""

    def __init__(self, kernel: Kernel, workspace: "AgentWorkspace") -> None:
        self._kernel, self._workspace = kernel, workspace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    async def run(self, code: str, *, timeout_s: float | None = None, store_history: bool = True) -> CellResult:
        """Run a cell when there is a slot."""
        async with self._workspace.slot():
            return await self._kernel.run(code, timeout_s=timeout_s, store_history=store_history)


class LendingTool(Tool):
    """Tool that waits for an agent's own sub-agents, to which the agent's slot is lent meanwhile."""

    def __init__(self, tool: Tool, workspace: "AgentWorkspace") -> None:
        self._tool, self._workspace = tool, workspace
        self.name, self.description, self.parameters = tool.name, tool.description, tool.parameters
        self.checked_parameters, self.is_repeatable = tool.checked_parameters, tool.is_repeatable

    async def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Call the tool."""
        async with self._workspace.lent():
            return await self._tool.call(arguments)


class AgentWorkspace:
    """Folder and kernels of one agent.

    The agent takes one of the pool's slots with its first cell and keeps it until it is closed; while it waits for its
    own sub-agents, they may use the slot, and its kernels stay open.
    """

    def __init__(self, sandboxes: SandboxPool, folder: Path, cell_s: float, agent_id: str = MAIN) -> None:
        if not folder.is_dir():  # checked first: creating it blocks the event loop ten times as long
            folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._sandboxes = sandboxes
        self._has_slot = False
        self._num_cells = self._num_loans = 0
        self._lock = asyncio.Lock()
        self._kernel = LazyKernel(self._open, folder, sandboxes.backend)
        self._second_kernel = SecondKernel(self._open)
        self.tool_context = ToolContext(
            kernel=self._kernel,
            second_kernel=self._second_kernel,
            limits=KernelLimits(wall_s=cell_s),
            agent_id=agent_id,
        )

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot while a cell runs or a kernel starts."""
        self._num_cells += 1
        try:
            async with self._lock:
                if not self._has_slot:
                    await self._sandboxes.acquire_slot()
                    self._has_slot = True
            yield
        finally:
            self._num_cells -= 1
            self._release_if_lent()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Lend the slot while no cell runs."""
        self._num_loans += 1
        self._release_if_lent()
        try:
            yield
        finally:
            self._num_loans -= 1

    def _release_if_lent(self) -> None:
        if self._num_loans and not self._num_cells and self._has_slot:
            self._has_slot = False
            self._sandboxes.release_slot()

    async def _open(self) -> Kernel:
        async with self.slot():
            return _SlotKernel(await self._sandboxes.open(self.folder), self)

    async def close(self) -> None:
        """Stop the kernels and release the agent's slot."""
        try:
            await self._second_kernel.close()
            await self._kernel.close()
        finally:
            if self._has_slot:
                self._sandboxes.release_slot()
            self._has_slot = False
