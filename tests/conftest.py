"""Settings for all tests, and what many of them share."""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import settings

from envs.browser import BrowserEnv
from visual_tools.sandbox import KernelLimits, KernelMaker, Sandbox

# A shell runs a background job with SIGINT ignored, and children inherit that: Ctrl-C would not reach them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine must not fail a property test; those that bound time measure processor time themselves.
settings.register_profile("default_without_deadline", deadline=None)
settings.load_profile("default_without_deadline")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[KernelMaker]:
    """One real sandbox for all tests of a module: its kernels are cheap, the first start is not."""
    async with await Sandbox.start(limits=KernelLimits(wall_s=20)) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def env() -> AsyncIterator[BrowserEnv]:
    """Browser of all tests of a process, which reset it; they run in the event loop of the session."""
    browser = BrowserEnv()
    yield browser
    await browser.close()


NUM_WHOLE, EVERY = 1, 32
"""CI, which has 35 minutes, runs so many cases of a slow test, and one of so many of the rest."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "CI" not in os.environ or config.getoption("lf", default=False):  # what failed is tried again, whichever it is
        return
    seen: Counter[str] = Counter()
    left_out = []
    for item in items:
        if item.get_closest_marker("slow") is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] >= NUM_WHOLE and seen[name] % EVERY:
                left_out.append(item)
            seen[name] += 1
    if left_out:
        dropped = set(left_out)
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=left_out)
