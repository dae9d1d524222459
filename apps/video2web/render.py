"""Sites rendered in Chromium without network, and what the scores need to know of them.

A site is a folder of files. It is served to the browser from memory under a name that exists nowhere; every other
request ends with an error, and the browser has no profile and no way out.
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
from numpy.typing import NDArray

from apps.video2web.paintings import SHIFT, blocks_of_paintings, changed_by_text
from cua.errors import CuaError
from envs.browser.launch import LaunchedBrowser, launch
from envs.browser.options import BrowserOptions
from envs.domain_rules import DomainRules
from visual_tools.images import load_image
from visual_tools.pages import TextBlock

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Route

ORIGIN = "http://site.test"
MAX_PAGE_PX = 12_000
"""Pages are cut at this height."""

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
"""What is added so can be seen by no selector of the page and is stopped by no policy of it."""
_DROP_SHEET_JS = "() => { document.adoptedStyleSheets = document.adoptedStyleSheets.slice(0, -1); }"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBox:
    """An element that can be seen as a box.

    Attributes:
        kind: `box` (background, or a border all around), `rule` (a line), `image` or `field`.
        left: CSS pixels of the page; so are the others.
        top: Upper edge.
        width: Width.
        height: Height.
        look: How a box or a rule is painted: background, then the four borders, with `|` between them; "" for what
            has no one look.
        text: What a field shows: its value, or its placeholder.
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
    """A page as a browser shows it.

    Attributes:
        image: (H, W, 3) uint8 RGB, the whole page.
        blocks: Its text, one block an element, as Design2Code finds them, but only what can be seen: text without
            which the page looks the same (transparent, covered, in the colour of what it lies on) is left out.
        bare: The page without its text; None when blocks were not asked for.
        boxes: What can be seen beside text.
        problems: Errors on the console, and requests that led nowhere.
        overflow_px: By how much the page is wider than its viewport.
        num_elements: Size of the document.
        images_without_alt: Images that a screen reader cannot name.
    """

    image: NDArray[np.uint8]
    blocks: tuple[TextBlock, ...] = ()
    bare: NDArray[np.uint8] | None = None
    boxes: tuple[PageBox, ...] = ()
    problems: tuple[str, ...] = ()
    overflow_px: int = 0
    num_elements: int = 0
    images_without_alt: int = 0


@dataclass(slots=True)
class OpenPage:
    """A page of a site in the browser.

    Attributes:
        page: Playwright's page.
        session: The browser's own protocol, for this page.
        problems: What went wrong so far.
    """

    page: "Page"
    session: "CDPSession"
    problems: list[str] = field(default_factory=list)
    _world: int = 0

    async def look(self, script: str, *arguments: Any) -> Any:
        """What a function of JavaScript says of the page; it runs apart from the page's own scripts.

        Those cannot change what its words mean, and it works when they were stopped.

        Args:
            script: The function.
            arguments: Its arguments, JSON values.

        Raises:
            CuaError: It fails.
        """
        if not self._world:
            tree = await self.session.send("Page.getFrameTree")
            frame = {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "look"}
            self._world = (await self.session.send("Page.createIsolatedWorld", frame))["executionContextId"]
        call = f"({script.rstrip().removesuffix(';')}\n)({','.join(map(json.dumps, arguments))})"
        asked = {"expression": call, "contextId": self._world, "returnByValue": True, "awaitPromise": True}
        answer = await self.session.send("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            said = answer["exceptionDetails"].get("exception", {}).get("description", "it fails")
            raise CuaError(f"the page cannot be looked at: {said.splitlines()[0]}")
        return answer["result"].get("value")

    async def photograph(self) -> NDArray[np.uint8]:
        """The whole page, (H, W, 3) uint8 RGB, as wide as its window and no higher than `MAX_PAGE_PX`."""
        size = (await self.session.send("Page.getLayoutMetrics"))["cssContentSize"]
        window = self.page.viewport_size or {"width": 1280, "height": 720}
        height = min(max(int(size["height"]), window["height"]), MAX_PAGE_PX)
        clip: Any = {"x": 0, "y": 0, "width": window["width"], "height": height}
        return load_image(await self.page.screenshot(full_page=True, clip=clip))

    async def stop_scripts(self) -> None:
        """Let no script of the page run any more, so that it cannot tell being looked at from being measured."""
        await self.session.send("Emulation.setScriptExecutionDisabled", {"value": True})

    def note(self, problem: str) -> None:
        """Keep a problem, the first ones only."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem[:500])


class SiteFiles:
    """The files of a site, read when they are asked for; nothing outside of its folder is ever read."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, path: str) -> tuple[bytes, str] | None:
        """A file and its type by its path in an address; None where there is none."""
        relative = PurePosixPath(unquote(path).lstrip("/") or "index.html")
        found = (self._root / relative).resolve()
        if found.is_dir():
            found = found / "index.html"
        if not found.is_relative_to(self._root) or not found.is_file() or found.stat().st_size > MAX_SITE_BYTES:
            return None
        return found.read_bytes(), mimetypes.guess_type(found.name)[0] or "application/octet-stream"


class SitePages:
    """The pages of a site that is held in memory, by path."""

    def __init__(self, pages: Mapping[str, str | bytes]) -> None:
        self._pages = {
            name.lstrip("/"): text.encode() if isinstance(text, str) else text for name, text in pages.items()
        }

    def read(self, path: str) -> tuple[bytes, str] | None:
        """A file and its type by its path in an address; None where there is none."""
        name = unquote(path).lstrip("/") or "index.html"
        found = self._pages.get(name)
        return None if found is None else (found, mimetypes.guess_type(name)[0] or "application/octet-stream")


Site = SiteFiles | SitePages


class Renderer:
    """A browser for sites; use it with `async with`.

    Raises:
        EnvSetupError: There is no browser, or it does not start.
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
        """A fresh context in which a site can be opened under `ORIGIN`, and nothing else.

        Args:
            site: Its files.
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

    async def render(
        self, site: Site, viewport_px: tuple[int, int] = (1280, 720), *, path: str = "/", with_blocks: bool = True
    ) -> Rendering:
        """Render a page of a site whole, at rest.

        Args:
            site: Its files.
            viewport_px: Width and height of the window, CSS pixels.
            path: Which page.
            with_blocks: Find its text blocks too (two more screenshots).

        Raises:
            CuaError: It does not come to rest in 30 s.
        """
        try:
            async with (
                asyncio.timeout(_RENDER_TIMEOUT_S),
                self.context(site, viewport_px, reduced_motion="reduce") as context,
            ):
                opened = await open_page(context, path)
                await opened.look(_ADD_SHEET_JS, _STILL_CSS)
                await asyncio.sleep(_SETTLE_S)
                await opened.photograph()  # what appears when it is scrolled into view does so now
                await opened.stop_scripts()
                image = await opened.photograph()
                seen = await opened.look(_script("inspect.js"))
                bare = await _photograph_bare(opened, image) if with_blocks else None
                blocks = await _find_blocks(opened, image, bare) if bare is not None else ()
        except TimeoutError as error:
            raise CuaError(f"the page {path} does not come to rest within {_RENDER_TIMEOUT_S:g} s") from error
        return Rendering(
            image=image,
            blocks=blocks,
            bare=bare,
            boxes=tuple(_read_box(box) for box in seen["boxes"]),
            problems=tuple(opened.problems),
            overflow_px=int(seen["overflow_px"]),
            num_elements=int(seen["num_elements"]),
            images_without_alt=int(seen["images_without_alt"]),
        )


def _read_box(box: list[Any]) -> PageBox:
    kind, left, top, width, height, look, text = box
    return PageBox(kind=kind, left=left, top=top, width=width, height=height, look=look, text=text)


async def open_page(context: "BrowserContext", path: str = "/") -> OpenPage:
    """Open a page of the site of a context and wait until it is loaded.

    Raises:
        CuaError: It cannot be loaded.
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
    found = None
    if f"{address.scheme}://{address.netloc}" == ORIGIN:
        found = await asyncio.to_thread(site.read, address.path)
    if found is None:
        await route.abort("addressunreachable")
    else:
        await route.fulfill(status=200, body=found[0], content_type=found[1])


async def _photograph_bare(opened: OpenPage, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The page without its text, of the size of its image."""
    await opened.look(_ADD_SHEET_JS, _BARE_CSS)
    bare = await opened.photograph()
    await opened.look(_DROP_SHEET_JS)
    if bare.shape == image.shape:
        return bare
    height = min(len(bare), len(image))
    return np.concatenate([bare[:height], image[height:]])


async def _find_blocks(opened: OpenPage, image: NDArray[np.uint8], bare: NDArray[np.uint8]) -> tuple[TextBlock, ...]:
    """Text blocks as Design2Code finds them: the ink of each element, by two paintings in colours of its own."""
    script = _script("blocks.js")
    texts = await opened.look(script, 0)
    first = await opened.photograph()
    letters = changed_by_text(first, await _photograph_bare(opened, first), min_levels=2)
    await opened.look(script, SHIFT)
    second = await opened.photograph()
    height = min(len(first), len(second), len(image))
    is_seen = changed_by_text(image, bare)[:height]
    return blocks_of_paintings(
        texts, first[:height], second[:height], image[:height], len(image), is_seen, letters[:height]
    )


def _script(name: str) -> str:
    return files("apps.video2web").joinpath(name).read_text("utf-8")
