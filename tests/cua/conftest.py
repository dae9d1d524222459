"""A page server for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.envs.browser.pages import PageServer


@pytest.fixture(scope="module")
def pages() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.close()
