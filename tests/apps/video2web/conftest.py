"""One browser and one sandbox of a test process, in the event loop of the session, for the tests of `cua web`."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from apps.video2web.build import SiteEvaluator
from apps.video2web.render import Renderer
from visual_tools.sandbox import KernelLimits, KernelMaker, Sandbox


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def evaluator() -> AsyncIterator[SiteEvaluator]:
    async with SiteEvaluator() as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandbox() -> AsyncIterator[KernelMaker]:
    async with await Sandbox.start(limits=KernelLimits(wall_s=20)) as made:
        yield made


@pytest.fixture(scope="module")
def renderer(evaluator: SiteEvaluator) -> Renderer:
    """Renderer of the shared evaluator, which replaces it after a page has blocked it."""
    return evaluator.renderer
