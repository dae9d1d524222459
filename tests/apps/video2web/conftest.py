"""What tests of the loop share."""

from collections.abc import AsyncIterator

import pytest_asyncio

from apps.video2web.build import SiteEvaluator


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def evaluator() -> AsyncIterator[SiteEvaluator]:
    async with SiteEvaluator() as made:
        yield made
