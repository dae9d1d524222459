from collections.abc import AsyncIterator

import pytest_asyncio

from envs.suites.apps import AppsEnv
from tests.envs.suites.apps.proving import apps_env


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[AppsEnv]:
    """One browser and its apps for the tests of a module; each test resets it."""
    async with apps_env() as made:
        yield made
