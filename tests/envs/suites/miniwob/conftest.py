import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from apps.setup.suites import install_miniwob
from envs.browser import find_browser
from envs.suites.miniwob.env import MiniWobEnv, MiniWobOptions
from envs.suites.miniwob.pages import find_pages


@pytest.fixture(scope="session")
def pages() -> None:
    """The pages, got as `cua setup miniwob` gets them."""
    if find_pages() is None:
        row = asyncio.run(install_miniwob(print))
        if row.level != "ok":
            pytest.skip(f"no pages of MiniWoB++: {row.actual}")


@pytest.fixture(autouse=True)
def needs(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("browser"):
        if find_browser() is None:
            pytest.skip("no Chromium found; get one with `cua setup`")
        request.getfixturevalue("pages")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[MiniWobEnv]:
    """One env for the tests of a module, as a worker of an evaluation has it."""
    made = MiniWobEnv(MiniWobOptions(settle=False))
    yield made
    await made.close()
