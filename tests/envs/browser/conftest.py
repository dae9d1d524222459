from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from envs.browser import BrowserEnv, BrowserOptions, find_browser
from tests.envs.browser.pages import PageServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_browser() is not None:
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="no Chromium found; get one with `cua setup`"))


@pytest.fixture(scope="session")
def pages() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[BrowserEnv]:
    """One browser for the tests of a module; each test resets it."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "uploads").mkdir()
    options = BrowserOptions(downloads_dir=folder / "downloads", uploads_dir=folder / "uploads")
    browser = BrowserEnv(options)
    yield browser
    await browser.close()
