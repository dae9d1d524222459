"""Rendering of sites in Chromium without network, and the page data that the scores need.

A site is a folder of files. It is served to the browser from memory under a host name that does not exist; every other
request fails, and the browser has no profile and no network access.
"""

import asyncio
import contextlib
import json
import mimetypes
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np

from apps.video2web.ink_attribution import SHIFT, blocks_of_ink, find_text_ink
from apps.video2web.losses import PageWord
from apps.video2web.pixels import RgbImage
from cua.errors import CuaError
from envs.browser.launch import LaunchedBrowser, launch
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules
from visual_tools.images.files import load_image
from visual_tools.pages.text_blocks import TextBlock

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Route

ORIGIN = "http://site.test"
MAX_PAGE_PX = 12_000
"""Maximum height of a page; taller pages are cropped."""

MAX_SITE_BYTES = 200 * 2**20
_RENDER_TIMEOUT_S = 30.0
_SETTLE_S = 0.05
_MAX_PROBLEMS = 50
_STILL_CSS = (
    "*,*::before,*::after{animation:none!important;transition:none!important;caret-color:transparent!important}"
)
_BARE_CSS = (
    "*,*::before,*::after,*::placeholder,*::marker{-webkit-text-fill-color:transparent!important;"
    "-webkit-text-stroke-color:transparent!important;text-shadow:none!important;"
    "text-decoration-color:transparent!important}"
)
_ADD_SHEET_JS = """(css) => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]; }"""
"""Adopted style sheet, which no selector of the page can detect and no policy of the page blocks."""
_DROP_SHEET_JS = "() => { document.adoptedStyleSheets = document.adoptedStyleSheets.slice(0, -1); }"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBox:
    """Visible element with a box.

    Attributes:
        kind: `box` (background, or a border all around), `rule` (a line), `image` or `field`.
        left: Left edge, in CSS pixels of the page, as all lengths here.
        top: Upper edge.
        width: Width.
        height: Height.
        look: Style of a box or a rule: background, then the four borders, separated by `|`; "" for elements that
            have no single style.
        text: Displayed text of a field: its value or its placeholder.
    """

    kind: str
    left: float
    top: float
    width: float
    height: float
    look: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Page as rendered by a browser.

    Attributes:
        image: (H, W, 3) uint8 RGB, the whole page.
        blocks: Text blocks, one per element, as in Design2Code, but only their visible words: text
            without which the page looks the same (transparent, covered, in the colour of its background) is left out.
        words: The visible words of the blocks.
        bare: The page without its text; None when blocks were not asked for.
        boxes: Visible elements other than text.
        problems: Console errors and failed requests.
        overflow_px: Pixels by which the page is wider than its viewport.
        num_elements: Number of elements of the document.
    """

    image: RgbImage
    blocks: tuple[TextBlock, ...] = ()
    words: tuple[PageWord, ...] = ()
    bare: RgbImage
    boxes: tuple[PageBox, ...] = ()
    problems: tuple[str, ...] = ()
    overflow_px: int = 0
    num_elements: int = 0


@dataclass(slots=True)
class OpenPage:
    """Page of a site opened in the browser.

    Attributes:
        page: Playwright page.
        session: CDP session of the page.
        problems: Problems so far.
    """

    page: "Page"
    session: "CDPSession"
    problems: list[str] = field(default_factory=list)
    _world: int = 0

    async def look(self, script: str, *arguments: Any) -> Any:
        """Evaluate a JavaScript function in a world isolated from the page's own scripts.

        The page cannot override the built-ins that it uses, and it works after the page's scripts were stopped.

        Args:
            script: Source of the function.
            arguments: Arguments of the function, JSON values.

        Raises:
            CuaError: If the function fails.
        """
        if not self._world:
            tree = await self.session.send("Page.getFrameTree")
            frame = {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "look"}
            self._world = (await self.session.send("Page.createIsolatedWorld", frame))["executionContextId"]
        call = f"({script.rstrip().removesuffix(';')}\n)({','.join(map(json.dumps, arguments))})"
        asked = {"expression": call, "contextId": self._world, "returnByValue": True, "awaitPromise": True}
        answer = await self.session.send("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            message = answer["exceptionDetails"].get("exception", {}).get("description", "it fails")
            raise CuaError(f"the page cannot be looked at: {message.splitlines()[0]}")
        return answer["result"].get("value")

    async def photograph(self) -> RgbImage:
        """Take a screenshot of the page, (H, W, 3) uint8 RGB, as wide as its viewport, at most `MAX_PAGE_PX` high."""
        size = (await self.session.send("Page.getLayoutMetrics"))["cssContentSize"]
        window = self.page.viewport_size or {"width": 1280, "height": 720}
        height = min(max(int(size["height"]), window["height"]), MAX_PAGE_PX)
        clip: Any = {"x": 0, "y": 0, "width": window["width"], "height": height}
        return load_image(await self.page.screenshot(full_page=True, clip=clip))

    async def stop_scripts(self) -> None:
        """Stop all scripts of the page, so that it cannot detect that it is measured."""
        await self.session.send("Emulation.setScriptExecutionDisabled", {"value": True})

    def note(self, problem: str) -> None:
        """Record a problem; only the first ones are kept."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem[:500])


class SiteFiles:
    """Files of a site, read on request; files outside its folder are never read."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, path: str) -> tuple[bytes, str] | None:
        """Return a file and its media type by its URL path; None if there is no such file."""
        relative = PurePosixPath(unquote(path).lstrip("/") or "index.html")
        file = (self._root / relative).resolve()
        if file.is_dir():
            file = file / "index.html"
        if not file.is_relative_to(self._root) or not file.is_file() or file.stat().st_size > MAX_SITE_BYTES:
            return None
        return file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream"


class SitePages:
    """Pages of a site held in memory, by path."""

    def __init__(self, pages: Mapping[str, str | bytes]) -> None:
        self._pages = {
            name.lstrip("/"): text.encode() if isinstance(text, str) else text for name, text in pages.items()
        }

    def read(self, path: str) -> tuple[bytes, str] | None:
        """Return a file and its media type by its URL path; None if there is no such file."""
        name = unquote(path).lstrip("/") or "index.html"
        content = self._pages.get(name)
        return None if content is None else (content, mimetypes.guess_type(name)[0] or "application/octet-stream")


Site = SiteFiles | SitePages


class Renderer:
    """Browser for sites; use it with `async with`.

    Raises:
        EnvSetupError: If there is no browser, or it does not start.
    """

    def __init__(self) -> None:
        self._launched: LaunchedBrowser | None = None

    async def __aenter__(self) -> "Renderer":
        self._launched = await launch(BrowserOptions(), DomainRules(), is_shared=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._launched is not None:
            await self._launched.close()

    @contextlib.asynccontextmanager
    async def context(self, site: Site, viewport_px: tuple[int, int], **more: Any) -> "AsyncIterator[BrowserContext]":
        """Open a fresh context that serves a site under `ORIGIN` and blocks everything else.

        Args:
            site: Files of the site.
            viewport_px: Width and height, CSS pixels.
            more: Further settings of Playwright's `new_context`.
        """
        if self._launched is None:
            raise RuntimeError("use a Renderer with `async with`")
        width, height = viewport_px
        context = await self._launched.browser.new_context(
            viewport={"width": width, "height": height}, service_workers="block", accept_downloads=False, **more
        )
        try:
            await context.route("**/*", lambda route: _serve(site, route))
            await context.route_web_socket("**/*", lambda socket: socket.close())
            yield context
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(context.close(), 5)

    async def render(self, site: Site, viewport_px: tuple[int, int] = (1280, 720), *, path: str = "/") -> Rendering:
        """Render a full page of a site, at rest.

        Args:
            site: Files of the site.
            viewport_px: Width and height of the viewport, CSS pixels.
            path: Path of the page.

        Raises:
            CuaError: If the page does not come to rest within 30 s.
        """
        try:
            async with (
                asyncio.timeout(_RENDER_TIMEOUT_S),
                self.context(site, viewport_px, reduced_motion="reduce") as context,
            ):
                opened = await open_page(context, path)
                await opened.look(_ADD_SHEET_JS, _STILL_CSS)
                await asyncio.sleep(_SETTLE_S)
                await opened.photograph()  # elements that appear when scrolled into view appear now
                await opened.stop_scripts()
                image = await opened.photograph()
                seen = await opened.look(_script("inspect.js"))
                bare = await _photograph_bare(opened, image)
                blocks, words = await _find_blocks(opened, image, bare)
        except TimeoutError as error:
            raise CuaError(f"the page {path} does not come to rest within {_RENDER_TIMEOUT_S:g} s") from error
        return Rendering(
            image=image,
            blocks=blocks,
            words=words,
            bare=bare,
            boxes=tuple(_read_box(box) for box in seen["boxes"]),
            problems=tuple(opened.problems),
            overflow_px=int(seen["overflow_px"]),
            num_elements=int(seen["num_elements"]),
        )


def _read_box(box: list[Any]) -> PageBox:
    kind, left, top, width, height, look, text = box
    return PageBox(kind=kind, left=left, top=top, width=width, height=height, look=look, text=text)


async def open_page(context: "BrowserContext", path: str = "/") -> OpenPage:
    """Open a page of the site of a context and wait until it is loaded.

    Raises:
        CuaError: If the page cannot be loaded.
    """
    from playwright.async_api import Error

    page = await context.new_page()
    opened = OpenPage(page, await context.new_cdp_session(page))
    await opened.session.send("Emulation.setScrollbarsHidden", {"hidden": True})
    page.on("pageerror", lambda error: opened.note(f"script error: {error}"))
    page.on("console", lambda message: opened.note(f"console: {message.text}") if message.type == "error" else None)
    page.on("requestfailed", lambda request: opened.note(f"not loaded: {request.url}"))
    page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.dismiss()))
    try:
        await page.goto(f"{ORIGIN}/{path.lstrip('/')}", wait_until="load", timeout=_RENDER_TIMEOUT_S * 1000)
        await page.evaluate("document.fonts.ready.then(() => true)")
    except Error as error:
        raise CuaError(f"the page {path} cannot be loaded: {error.message.splitlines()[0]}") from error
    return opened


async def _serve(site: Site, route: "Route") -> None:
    address = urlsplit(route.request.url)
    content = None
    if f"{address.scheme}://{address.netloc}" == ORIGIN:
        content = await asyncio.to_thread(site.read, address.path)
    if content is None:
        await route.abort("addressunreachable")
    else:
        await route.fulfill(status=200, body=content[0], content_type=content[1])


async def _photograph_bare(opened: OpenPage, image: RgbImage) -> RgbImage:
    """Take a screenshot of the page without its text, in the size of its image."""
    await opened.look(_ADD_SHEET_JS, _BARE_CSS)
    bare = await opened.photograph()
    await opened.look(_DROP_SHEET_JS)
    if bare.shape == image.shape:
        return bare
    height = min(len(bare), len(image))
    return np.concatenate([bare[:height], image[height:]])


async def _find_blocks(
    opened: OpenPage, image: RgbImage, bare: RgbImage
) -> tuple[tuple[TextBlock, ...], tuple[PageWord, ...]]:
    """Find text blocks and words as in Design2Code: the ink of each element, by two paintings in unique colours."""
    script = _script("blocks.js")
    texts = await opened.look(script, 0)
    first = await opened.photograph()
    letters = find_text_ink(first, await _photograph_bare(opened, first), min_levels=2)
    await opened.look(script, SHIFT)
    second = await opened.photograph()
    height = min(len(first), len(second), len(image))
    is_seen = find_text_ink(image, bare)[:height]
    return blocks_of_ink(texts, first[:height], second[:height], image[:height], len(image), is_seen, letters[:height])


def _script(name: str) -> str:
    return files("apps.video2web").joinpath(name).read_text("utf-8")
