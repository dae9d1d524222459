"""A second kernel in the same folder, for the tools that are not the model's own Python.

File access and shell commands run inside the isolation too, so a link that code has planted in the folder
leads nowhere; and they neither wait for the model's cells nor disturb its variables.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from visual_tools.sandbox import CellResult, Kernel

SPARE_S = 5.0
"""Room that the kernel gets beyond a command's own time limit, so that the command's limit strikes first."""


class Service:
    """Calls functions of `visual_tools.sandbox.inside`; the kernel is made at the first call.

    Args:
        make_kernel: Makes the kernel.
    """

    def __init__(self, make_kernel: Callable[[], Awaitable[Kernel]]) -> None:
        self._make_kernel = make_kernel
        self._kernel: Kernel | None = None
        self._lock = asyncio.Lock()

    async def call(self, function: str, *, timeout_s: float | None = None, **arguments: Any) -> CellResult:
        """Call `visual_tools.sandbox.inside.FUNCTION(**arguments)`; arguments are JSON values.

        Raises:
            SandboxError: No kernel can be had.
        """
        text = json.dumps(arguments)
        code = f"import json\nfrom visual_tools.sandbox import inside\ninside.{function}(**json.loads({text!r}))"
        return await self.run(code, timeout_s=timeout_s)

    async def run(self, code: str, *, timeout_s: float | None = None) -> CellResult:
        """Run a cell.

        Raises:
            SandboxError: No kernel can be had.
        """
        async with self._lock:
            if self._kernel is None:
                self._kernel = await self._make_kernel()
        return await self._kernel.run(code, timeout_s=timeout_s, store_history=False)

    async def close(self) -> None:
        """End the kernel. May be called twice."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            await kernel.close()
