"""Settings for all tests, and what many of them share."""

import signal
from collections.abc import AsyncIterator

import pytest_asyncio
from hypothesis import settings

from visual_tools.sandbox import KernelMaker, Limits, Sandbox

# A shell runs a background job with SIGINT ignored, and children inherit that: Ctrl-C would not reach them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine must not fail a property test; those that bound time measure processor time themselves.
settings.register_profile("default_without_deadline", deadline=None)
settings.load_profile("default_without_deadline")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[KernelMaker]:
    """One real sandbox for all tests of a module: its kernels are cheap, the first start is not."""
    async with await Sandbox.start(limits=Limits(wall_s=20)) as made:
        yield made
