"""One sandbox for a module's tests, and kernels in it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from visual_tools.sandbox import Kernel, KernelLimits, Sandbox

SMALL = KernelLimits(
    wall_s=30,
    memory_bytes=400 * 2**20,
    num_processes=40,
    file_bytes=4 * 2**20,
    disk_bytes=8 * 2**20,
    num_files=3000,
    output_chars=2000,
    num_images=3,
    image_side_px=300,
    image_bytes=200_000,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with await Sandbox.start("bubblewrap", SMALL) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(sandbox: Sandbox, tmp_path_factory) -> AsyncIterator[Kernel]:  # type: ignore[no-untyped-def]
    """A kernel that no test ends."""
    kernel = await sandbox.make_kernel(tmp_path_factory.mktemp("shared"))
    yield kernel
    await kernel.close()


@pytest_asyncio.fixture(loop_scope="module")
async def kernel(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Kernel]:
    """A kernel of the test's own."""
    made = await sandbox.make_kernel(tmp_path / "run")
    yield made
    await made.close()
