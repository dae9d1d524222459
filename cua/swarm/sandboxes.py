"""Sandboxes of a swarm's agents: opened by the first cell, a limited number at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cua.config import Settings
from cua.models.gate import reported_wait
from cua.tool_agent.assemble import start_sandbox
from cua.tool_agent.profile import ToolContext
from cua.tools.service import Service
from cua.trajectory.run_record import MAIN
from visual_tools.sandbox import CellResult, Kernel, KernelMaker, Limits


class SandboxPool:
    """Lazily opened kernels and sandbox with a limited number of agents."""

    def __init__(self, maker: KernelMaker | None, settings: Settings, num_open: int) -> None:
        self.backend = maker.backend if maker is not None else settings.sandbox
        self._maker, self._settings = maker, settings
        self._is_own = maker is None
        self._slots = asyncio.Semaphore(num_open)
        self._lock = asyncio.Lock()

    async def open(self, folder: Path) -> Kernel:
        """Return a kernel in a folder; the first one starts the sandbox."""
        async with self._lock:
            if self._maker is None:
                self._maker = await start_sandbox(self._settings)
        return await self._maker.make_kernel(folder)

    async def acquire_slot(self) -> None:
        """Wait for a slot for one more agent with kernels."""
        async with reported_wait() if self._slots.locked() else nullcontext():
            await self._slots.acquire()

    def release_slot(self) -> None:
        """Release an agent's slot."""
        self._slots.release()

    async def close(self) -> None:
        """Stop the sandbox if it was started here."""
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


class AgentWorkspace:
    """Folder and kernels of one agent."""

    def __init__(self, sandboxes: SandboxPool, folder: Path, cell_s: float, agent_id: str = MAIN) -> None:
        if not folder.is_dir():  # checked first: creating it blocks the event loop ten times as long
            folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._sandboxes = sandboxes
        self._has_slot = False
        self._lock = asyncio.Lock()
        self._kernel = LazyKernel(self._open, folder, sandboxes.backend)
        self._service = Service(self._open)
        self.tool_context = ToolContext(
            kernel=self._kernel, service=self._service, limits=Limits(wall_s=cell_s), agent_id=agent_id
        )

    async def _open(self) -> Kernel:
        async with self._lock:
            if not self._has_slot:
                await self._sandboxes.acquire_slot()
                self._has_slot = True
        return await self._sandboxes.open(self.folder)

    async def close(self) -> None:
        """Stop the kernels and release the agent's slot."""
        try:
            await self._service.close()
            await self._kernel.close()
        finally:
            if self._has_slot:
                self._sandboxes.release_slot()
            self._has_slot = False
