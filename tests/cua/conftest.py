"""A page server and a browser for the tests of a module."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from envs.browser import BrowserEnv
from tests.envs.browser.pages import PageServer


@pytest.fixture(scope="module")
def pages() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[BrowserEnv]:
    browser = BrowserEnv()
    yield browser
    await browser.close()
