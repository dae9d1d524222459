"""A page as a real browser makes it, for pages that are empty until their scripts have run.

The browser itself reaches nothing: its proxy is a port at which nobody answers, and each request of the page is
answered by the run's fetcher, so that the same rules, limits and cache hold for scripts as for everything else.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cua.research.fetch import Fetched, Fetcher
from cua.research.network import FetchError
from envs.errors import EnvError, require

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

LOAD_S = 8.0
MAX_REQUESTS = 100
MAX_HTML_CHARS = 5 * 2**20
_WANTED = ("document", "script", "xhr", "fetch", "stylesheet")


async def render(got: Fetched, fetcher: Fetcher) -> Fetched | None:
    """What a page holds once its scripts have run; None where there is no browser, or the page does not load.

    Args:
        got: The page as it was fetched.
        fetcher: Answers the requests of the page.
    """
    from envs.browser.launch import launch
    from envs.browser.options import BrowserOptions
    from envs.domain_rules import DomainRules

    async with fetcher.browser_slot:
        try:
            browser = await launch(BrowserOptions(), DomainRules(), is_shared=True)
        except EnvError:
            return None
        try:
            return await _rendered(browser, got, fetcher)
        finally:
            await browser.close()


async def _rendered(running: Any, got: Fetched, fetcher: Fetcher) -> Fetched | None:
    api: Any = require("playwright.async_api", "browser")
    requests = _Requests(got, fetcher)
    context = await running.browser.new_context(service_workers="block", accept_downloads=False)
    try:
        await context.route("**/*", requests.answer)
        await context.route_web_socket("**/*", lambda socket: socket.close())
        page: Page = await context.new_page()
        await page.goto(got.url, timeout=LOAD_S * 1000, wait_until="load")
        try:
            await page.wait_for_load_state("networkidle", timeout=LOAD_S * 1000)
        except api.TimeoutError:
            pass
        content = await page.content()
    except api.Error:
        return None
    finally:
        await context.close()
    return replace(got, media_type="text/html", body=content[:MAX_HTML_CHARS].encode("utf-8", "replace"))


class _Requests:
    """Answers the requests of one page: GET of what a text needs, and nothing else."""

    def __init__(self, got: Fetched, fetcher: Fetcher) -> None:
        self._got, self._fetcher = got, fetcher
        self._num = 0

    async def answer(self, route: "Route") -> None:
        request = route.request
        self._num += 1
        if request.method != "GET" or request.resource_type not in _WANTED or self._num > MAX_REQUESTS:
            await route.abort()
            return
        try:
            is_page = request.url.partition("#")[0] == self._got.url
            found = self._got if is_page else await self._fetcher.fetch(request.url)
        except (FetchError, asyncio.CancelledError):
            await route.abort()
            return
        await route.fulfill(status=200, body=found.body, content_type=found.media_type or "text/plain")
