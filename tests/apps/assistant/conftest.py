"""One assistant for all tests, one browser a module, and a person at the page for each test.

No request may leave the machine: the browser resolves no name, and each address that a page asks for is looked at.
"""

import importlib.util
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from envs.browser import find_browser
from tests.apps.assistant.running import Person, RunningAssistant


@pytest.fixture(scope="session")
def app() -> Any:
    if "CI" not in os.environ:  # which has everything
        if importlib.util.find_spec("gradio") is None:
            pytest.skip("pip install 'cua-k25[assistant]'")
        if find_browser() is None:
            pytest.skip("no Chromium found; get one with `cua setup`")
    with RunningAssistant() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    found = find_browser()
    assert found is not None
    async with async_playwright() as playwright:
        rules = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
        started = await playwright.chromium.launch(executable_path=str(found.path), args=[rules])
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def person(app: RunningAssistant, browser: Any) -> AsyncIterator[Person]:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    page = await context.new_page()
    someone = Person(page, app)
    await page.goto(app.address)
    await someone.fresh()
    yield someone
    for session in await someone.api("GET", "/sessions"):
        await someone.api("DELETE", f"/sessions/{session['id']}")
    for name in ("base_url", "model", "api_key", "screen"):  # a failed test leaves nothing to the next one
        await someone.api("PUT", f"/settings/{name}", json={"value": ""})
    await context.close()
    assert someone.strange == []
