"""One real sandbox for all tests of a module: its kernels are cheap, the first start is not."""

from collections.abc import AsyncIterator

import pytest_asyncio

from visual_tools.sandbox import KernelMaker, Limits, Sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[KernelMaker]:
    async with await Sandbox.start(limits=Limits(wall_s=20)) as made:
        yield made
