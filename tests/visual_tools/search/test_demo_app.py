"""Text found on a screenshot against the page's own boxes."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from apps.demo import DemoApp
from envs import InstructionTask
from envs.browser import BrowserEnv, BrowserOptions, find_browser
from tests.visual_tools.search.dom import read_page_texts
from visual_tools.images.files import load_image
from visual_tools.search.texts import find_text

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium found; get one with `cua setup`"),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def env() -> AsyncIterator[BrowserEnv]:
    with DemoApp() as app:
        browser = BrowserEnv(BrowserOptions(start_url=app.url))
        await browser.reset(InstructionTask(instruction=""))
        yield browser
        await browser.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/summary", "/expenses/1/edit"])
async def test_every_visible_text_is_found_where_the_page_has_it(env: BrowserEnv, path: str) -> None:
    root = env.page.url.split("/", 3)
    await env.goto(f"{root[0]}//{root[2]}{path}")
    screenshot = load_image((await env.step([])).observation.screenshot)
    texts = await read_page_texts(env.page)

    missed = [
        one for one in texts if not any(match.box.has_point(*one.center) for match in find_text(screenshot, one.text))
    ]

    assert len(texts) > 9
    assert missed == []


@pytest.mark.long
async def test_a_click_on_the_best_match_meets_the_button(env: BrowserEnv) -> None:
    root = env.page.url.split("/", 3)
    await env.goto(f"{root[0]}//{root[2]}/summary")
    screenshot = load_image((await env.step([])).observation.screenshot)

    for label in ("Save settings", "Expenses"):
        x_px, y_px = find_text(screenshot, label)[0].box.center
        met = await env.page.evaluate(f"document.elementFromPoint({x_px}, {y_px}).textContent.trim()")
        assert met == label
