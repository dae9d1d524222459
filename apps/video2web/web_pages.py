"""Pages of the web as images, to copy the look of: opened in a fresh browser, within the rules on domains."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from apps.video2web.render import MAX_PAGE_PX, OpenPage
from cua.errors import ConfigError, CuaError
from envs.browser.launch import launch
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules
from envs.errors import AddressError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Response

_PAGE_S, _LOAD_S, _QUIET_S = 60.0, 20.0, 1.5
_MAX_LOOKS = 40
_LOOK_S = 0.08
_SHOWN_TYPES = ("text/html", "application/xhtml+xml", "image/svg+xml", "text/plain")
_WAYS = {"ERR_NAME_NOT_RESOLVED": "its name is not known", "ERR_CONNECTION_REFUSED": "nobody answers there",
         "ERR_INTERNET_DISCONNECTED": "there is no network", "ERR_CERT": "its certificate is not valid",
         "ERR_BLOCKED_BY_CLIENT": "the rules on domains forbid it", "Download is starting": "it is a download",
         "ERR_ABORTED": "it is no page, but a download or a file"}  # fmt: skip


def is_url(text: str) -> bool:
    """Whether an input is an address and no file."""
    return "://" in text or text.lower().startswith(("about:", "data:", "javascript:", "file:", "mailto:"))


def check_url(text: str) -> str:
    """An address of a page of the web.

    Raises:
        ConfigError: It is none: of another scheme than http and https, or without a host.
    """
    from envs.browser.navigation import to_url

    try:
        address = to_url(text)
        parts = urlsplit(address)
        port = parts.port
    except (AddressError, ValueError) as error:
        raise ConfigError(f"{text!r} cannot be opened: {error}") from error
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"{text!r} is no page of the web; expected http:// or https://, or an image file")
    return address


async def photograph_pages(
    urls: Sequence[str], viewport_px: tuple[int, int], rules: DomainRules
) -> dict[str, NDArray[np.uint8]]:
    """Whole pages of the web, (H, W, 3) uint8 RGB, by address; no higher than pages are compared.

    Args:
        urls: Of http or https.
        viewport_px: Width and height of the window.
        rules: What the browser may reach.

    Raises:
        ConfigError: An address is none of the web.
        CuaError: A page cannot be opened; the text says why.
        EnvSetupError: There is no browser.
    """
    addresses = {url: check_url(url) for url in dict.fromkeys(urls)}
    options = BrowserOptions(viewport_px=viewport_px, navigation_timeout_s=_LOAD_S)
    launched = await launch(options, rules)
    try:
        context = await launched.browser.new_context(
            viewport={"width": viewport_px[0], "height": viewport_px[1]},
            accept_downloads=False,
            service_workers="block",
            permissions=[],
        )
        return {url: await _photograph_page(context, address, rules) for url, address in addresses.items()}
    finally:
        await launched.close()


async def _photograph_page(context: "BrowserContext", address: str, rules: DomainRules) -> NDArray[np.uint8]:
    why = rules.why_blocked(address)
    if why is not None:
        raise ConfigError(f"{address} is not opened: {why}")
    page = await context.new_page()
    page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.dismiss()))
    try:
        async with asyncio.timeout(_PAGE_S):
            opened = OpenPage(page, await context.new_cdp_session(page))
            _check_answer(address, await _open(opened, address))
            await _look_through(opened)
            return await opened.photograph()
    except TimeoutError as error:
        raise CuaError(f"{address} does not come to rest within {_PAGE_S:g} s") from error
    finally:
        with contextlib.suppress(Exception):
            await asyncio.wait_for(page.close(), 5)


async def _open(opened: OpenPage, address: str) -> "Response | None":
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as Late

    await opened.session.send("Emulation.setScrollbarsHidden", {"hidden": True})
    try:
        answer = await opened.page.goto(address, wait_until="domcontentloaded", timeout=_LOAD_S * 1000)
    except Late as error:
        raise CuaError(f"{address} does not answer within {_LOAD_S:g} s") from error
    except Error as error:
        line = error.message.splitlines()[0]
        why = next((said for sign, said in _WAYS.items() if sign in line), line)
        raise CuaError(f"{address} cannot be opened: {why}") from error
    for state, seconds in (("load", _LOAD_S), ("networkidle", _QUIET_S)):
        with contextlib.suppress(Late):  # what never ends to load is looked at as it is
            await opened.page.wait_for_load_state(state, timeout=seconds * 1000)  # type: ignore[arg-type]  # one of Playwright's
    return answer


def _check_answer(address: str, answer: "Response | None") -> None:
    if answer is None:
        return
    if answer.status >= 400:
        raise CuaError(f"{address} answers {answer.status} {answer.status_text}".rstrip() + "; expected a page")
    kind = answer.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
    if kind not in _SHOWN_TYPES:
        raise CuaError(f"{address} is of the type {kind}; expected a page of HTML (images are given as files)")


async def _look_through(opened: OpenPage) -> None:
    """Scroll to the end and back, so that what is loaded or appears on the way is there."""
    from playwright.async_api import TimeoutError as Late

    page = opened.page
    step = page.viewport_size["height"] if page.viewport_size else 720
    for _ in range(min(_MAX_LOOKS, MAX_PAGE_PX // step + 1)):
        at_end = await opened.look(
            "(dy) => { scrollBy({top: dy, behavior: 'instant'});"
            " return scrollY + innerHeight >= document.documentElement.scrollHeight - 1; }",
            step,
        )
        await asyncio.sleep(_LOOK_S)
        if at_end:
            break
    with contextlib.suppress(Late):
        await page.wait_for_load_state("networkidle", timeout=_QUIET_S * 1000)
    await opened.look("() => scrollTo({top: 0, behavior: 'instant'})")
    await asyncio.sleep(2 * _LOOK_S)
