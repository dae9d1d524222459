"""What tests of the loop share."""

from collections.abc import AsyncIterator

import pytest_asyncio

from apps.video2web.build import Judge


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge() -> AsyncIterator[Judge]:
    async with Judge() as made:
        yield made
