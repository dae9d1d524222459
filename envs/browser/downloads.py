"""Downloads of one episode: saved under safe names, reported, and shown as in a browser with a window.

A headless shell has no PDF viewer: every PDF that a tab or a frame opens becomes a download. Such a PDF is drawn in the
tab or frame that requested it, under its own URL. A browser with a viewer shows it itself and downloads nothing.

Files are shown as HTML pages without script: PDFs and pictures as images, text escaped. The page interprets no content
of a file: HTML is shown as text, SVG as an image. Everything is bounded.
"""

import asyncio
import base64
import contextlib
import importlib.util
import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlsplit

from envs.browser.context import Folders, safe_name
from envs.browser.generations import Generations
from envs.browser.tabs import Tabs
from envs.errors import ActionError

if TYPE_CHECKING:
    from playwright.async_api import Download, Frame, Page, Request, Response, Route

MAX_PDF_PAGES = 30
"""Maximum number of PDF pages in one view."""
_MAX_PDF_BYTES = 64 * 2**20  # with the limits below: bounds memory and time to show a file that a site sent
_MAX_IMAGE_BYTES = 16 * 2**20
_MAX_TEXT_BYTES = 500_000
_MAX_LINE_BYTES = 16 * 2**20
_MAX_PDF_S = 10.0  # the agent waits for the page
_HEAD_BYTES = 4096  # part of a file in which its kind is recognized
_IMAGE_TYPES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
)
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
body { margin: 0; background: #fff; font: 15px sans-serif; color: #202124 }
body.pages { background: #525659; text-align: center }
header { padding: 8px 12px; background: #323639; color: #f1f3f4; text-align: left; overflow-wrap: anywhere }
img { display: block; max-width: 100%; margin: 8px auto; background: #fff }
pre { margin: 8px; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px monospace; text-align: left }
p { margin: 16px; overflow-wrap: anywhere } .pages p { color: #f1f3f4 }
"""
_MATCH_S = 2.0  # a download begins soon after the navigation that caused it
_SOON_S = 0.3
"""Maximum time between the reports of a download and of the end of its navigation, which come in either order."""
_FRAME_S = 2.0  # a frame that does not answer in time is left as it is
_SHOW_TIMEOUT_S = 15.0  # the file is local; only a page that hangs takes as long
_NEW = (0, 0)
"""Document of a tab that is not counted yet."""
_BLANK = ("", "about:blank")
_IS_EMPTY = "() => !document.body || document.body.childNodes.length === 0"
_FRAGMENT_PAGE = re.compile(r"(?:^|&)page=(\d{1,6})(?=&|$)")
_FIRST_PAGE = re.compile(r"\?page=(\d{1,6})$")


async def view_file(path: Path, name: str = "", first_page: int = 1) -> str:
    """Return a page that shows a file, or says why it cannot be shown.

    Args:
        path: The file.
        name: Its name for people; "" takes it from the path, which must then be an address that opens it.
        first_page: First page of a PDF to show, counted from 1.
    """
    address, name = ("", name) if name else (str(path), path.name)
    try:
        size_bytes, head = await asyncio.to_thread(_read, path, _MAX_TEXT_BYTES)
        if b"%PDF-" in head[:1024]:
            return await _view_pdf(path, size_bytes, name, address, first_page)
        kind = _image_type(path, head)
        if kind is not None and size_bytes > _MAX_IMAGE_BYTES:
            return message(name, _too_large(size_bytes, _MAX_IMAGE_BYTES))
        _, data = await asyncio.to_thread(_read, path, _MAX_IMAGE_BYTES)
    except OSError as error:
        return message(name, f"It cannot be read: {error.strerror}.")
    if kind is not None:
        source = base64.b64encode(data).decode()
        return _page(name, f'<img alt="" src="data:image/{kind};base64,{source}">', "pages")
    text = _decode(head)
    if text is None:
        return message(name, f"It is not a PDF, a picture or a text; it has {size_bytes} bytes.")
    more = f"<p>The rest of its {size_bytes} bytes is not shown.</p>" if size_bytes > _MAX_TEXT_BYTES else ""
    return _page(name, f"<pre>{escape(text)}</pre>{more}")


def view_list(title: str, names: Sequence[tuple[str, str]]) -> str:
    """Return a page with links to files, given as (name, address)."""
    rows = "".join(f'<p><a href="{escape(address)}">{escape(name)}</a></p>' for name, address in names)
    return _page(title, rows or "<p>There are none.</p>")


def message(name: str, why: str) -> str:
    """Return a page that says why a file cannot be shown."""
    return _page(name, f"<p><b>{escape(name)}</b> cannot be shown.</p><p>{escape(why)}</p>")


def _read(path: Path, max_bytes: int) -> tuple[int, bytes]:
    """Return the size of a file in bytes, and its beginning."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, file.read(max_bytes)


def _too_large(size_bytes: int, max_bytes: int) -> str:
    return f"It has {size_bytes} bytes; up to {max_bytes} bytes can be shown."


def _page(title: str, body: str, kind: str = "") -> str:
    header = f"<header>{escape(title)}</header>" if kind else ""
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><style>{_STYLE}</style></head>'
        f'<body class="{kind}">{header}{body}</body></html>'
    )


def _image_type(path: Path, data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[4:12] in (b"ftypavif", b"ftypavis"):
        return "avif"
    if path.suffix.lower() == ".svg" and b"<svg" in data[:_HEAD_BYTES].lower():
        return "svg+xml"  # in an <img>, its scripts do not run and nothing is loaded
    return next((kind for magic, kind in _IMAGE_TYPES if data.startswith(magic)), None)


def _decode(data: bytes) -> str | None:
    """Return the text of a file; None for a binary one."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:_HEAD_BYTES]:
        return None
    for cut in range(4 if len(data) == _MAX_TEXT_BYTES else 1):  # the end may split a character
        with contextlib.suppress(UnicodeDecodeError):
            return data[: len(data) - cut].decode("utf-8-sig")
    return data.decode("cp1252", "replace")


async def _view_pdf(path: Path, size_bytes: int, name: str, address: str, first_page: int) -> str:
    if size_bytes > _MAX_PDF_BYTES:
        return message(name, _too_large(size_bytes, _MAX_PDF_BYTES))
    if importlib.util.find_spec("pypdfium2") is None:
        return message(name, "The package pypdfium2 is not installed: pip install 'cua-k25[browser]'")
    lines = await _render_pdf(path, first_page)
    if not lines or lines[0].get("error") == "damaged":
        return message(name, "The PDF is damaged, or too complex to be drawn.")
    if lines[0].get("error") == "password":
        return message(name, "The PDF is protected with a password.")
    num_pages, pages = int(lines[0]["num_pages"]), lines[1:]
    first_page = min(first_page, num_pages)
    last_page = int(pages[-1]["number"]) if pages else first_page - 1
    images = [_pdf_page(int(page["number"]), num_pages, page["jpeg"]) for page in pages]
    title = f"{name} ({num_pages} page{'s' * (num_pages != 1)})"
    if first_page > 1:
        images.insert(0, f"<p>From page {first_page}.</p>")
    if last_page < num_pages:
        next_page_hint = f" To see them, open {address}?page={last_page + 1}" if address else ""
        images.append(f"<p>Pages {last_page + 1} to {num_pages} are not shown.{escape(next_page_hint)}</p>")
    return _page(title, "".join(images), "pages")


def _pdf_page(number: int, num_pages: int, jpeg: str) -> str:
    if not jpeg:
        return f"<p>Page {number} cannot be drawn.</p>"
    label = f"Page {number} of {num_pages}"
    return f'<img id="page={number}" alt="{label}" src="data:image/jpeg;base64,{jpeg}">'


async def _render_pdf(path: Path, first_page: int) -> list[dict[str, str]]:
    """Return the lines of `pdf_pages.py` that arrive within the time limit."""
    program = str(Path(__file__).with_name("pdf_pages.py"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", program, str(path), str(first_page), str(MAX_PDF_PAGES)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_MAX_LINE_BYTES,
    )
    assert process.stdout is not None
    lines: list[dict[str, str]] = []
    try:
        async with asyncio.timeout(_MAX_PDF_S):
            async for line in process.stdout:
                lines.append(json.loads(line))
            await process.wait()
    except (TimeoutError, ValueError):  # the pages received so far are shown
        pass
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return lines


@dataclass(frozen=True, slots=True)
class _Navigation:
    """Navigation that ended without a document, and so may have started a download."""

    request: "Request"
    is_pdf: bool
    at_s: float = field(default_factory=time.monotonic)


class Downloads:
    """Downloads of one episode.

    Args:
        folders: Folders to save them in.
        tabs: Tabs of the episode.
        generations: Generations of the episode: a PDF is not shown in a tab that was navigated while it was prepared.
        report: Called with lines for the agent.
        allows_files: True if pages may load any file, because the start page is a file.
    """

    def __init__(
        self,
        folders: Folders,
        tabs: Tabs,
        generations: Generations,
        report: Callable[[str], None],
        *,
        allows_files: bool,
    ) -> None:
        self._folders = folders
        self._tabs = tabs
        self._generations = generations
        self._report = report
        self._allows_files = allows_files
        self._pdf_requests: deque[Request] = deque(maxlen=50)
        self._ended: deque[_Navigation] = deque(maxlen=50)
        self._saved: dict[Path, None] = {}
        self._showing: set[tuple[Frame | None, str]] = set()
        self._file_pages: set[Page] = set()
        self._num_coming = 0
        self._lock = asyncio.Lock()
        self.under_way: dict[asyncio.Task[None], str] = {}

    def is_coming(self) -> bool:
        """Return True while a recently ended navigation may still become a download, or a PDF is being prepared."""
        return self._num_coming > 0 or any(time.monotonic() - navigation.at_s < _SOON_S for navigation in self._ended)

    def notes(self) -> tuple[str, ...]:
        """Return notes on unfinished downloads."""
        return tuple(f"{name!r} is being downloaded" for name in self.under_way.values())

    def on_response(self, response: "Response") -> None:
        """Record navigations whose response is a PDF."""
        disposition = response.headers.get("content-disposition", "").strip().lower()
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_pdf = media_type in ("application/pdf", "text/pdf") and not disposition.startswith("attachment")
        if is_pdf and response.request.is_navigation_request():
            self._pdf_requests.append(response.request)

    def on_request_failed(self, request: "Request") -> None:
        """Record navigations that end without a document."""
        if request.is_navigation_request() and "ERR_ABORTED" in (request.failure or ""):
            self._ended.append(_Navigation(request, request in self._pdf_requests))

    def on_download(self, download: "Download") -> None:
        """Save or show a new download."""
        task = asyncio.ensure_future(self._take(download))
        self.under_way[task] = download.suggested_filename
        task.add_done_callback(lambda done: self.under_way.pop(done, None))

    async def open_file(self, page: "Page", address: str, timeout_s: float) -> bool:
        """Show a file of this episode's downloads, or their list, in a tab; False if the address is not one of them.

        Args:
            page: The tab.
            address: `file:` address or absolute path; a suffix `?page=N` selects the first page of a PDF to show.
            timeout_s: Timeout of the navigation.

        Raises:
            ActionError: If the navigation fails.
        """
        from playwright.async_api import Error

        path, first_page = self._find(address)
        if path is None:
            return False
        if page not in self._file_pages:  # the route stays: going back must not load the file itself
            self._file_pages.add(page)
            await page.route(re.compile(r"^file:"), self._on_file)
        try:
            await page.goto(_address_of(path, first_page), wait_until="commit", timeout=timeout_s * 1000)
        except Error as error:
            raise ActionError(f"{path.name!r} was not opened: {error.message.splitlines()[0]}") from error
        return True

    @property
    def folder_address(self) -> str:
        """Address of the list of downloads."""
        return self._folders.downloads.resolve().as_uri()

    def forget(self, page: "Page") -> None:
        """Forget a closed tab."""
        self._file_pages.discard(page)

    async def _navigation_of(self, url: str) -> _Navigation | None:
        """Return the navigation that started a download; None if a page requested it without one.

        URLs are compared without the fragment, which only the download has.
        """
        until_s = time.monotonic() + _SOON_S
        while True:
            for navigation in self._ended:
                if (
                    urldefrag(navigation.request.url)[0] == urldefrag(url)[0]
                    and time.monotonic() - navigation.at_s < _MATCH_S
                ):
                    self._ended.remove(navigation)
                    return navigation
            if time.monotonic() > until_s:
                return None
            await asyncio.sleep(0.01)

    async def _take(self, download: "Download") -> None:
        with self._coming():
            navigation = await self._navigation_of(download.url)
            frame = await _frame_of(navigation.request) if navigation is not None else None
            if (frame, download.url) in self._showing:  # a service worker answered in place of the view
                await download.cancel()
                return
            is_embedded = frame is not None and await _is_embedded(frame)
            if frame is not None and (is_embedded or (navigation is not None and navigation.is_pdf)):
                await self._take_shown(download, frame, is_embedded)
                return
            if frame is not None:
                await self._close_blank(frame.page)
        await self._save(download)

    async def _take_shown(self, download: "Download", frame: "Frame", is_embedded: bool) -> None:
        """Save a download and show it in its frame, unless the tab was navigated in the meantime."""
        document = self._generations.document_of(frame.page)
        asked = _FRAGMENT_PAGE.search(urldefrag(download.url)[1])
        number = int(asked[1]) if asked else 0
        first_page = number if number > MAX_PDF_PAGES else 1
        if is_embedded:
            html = await self._view_embedded(download, first_page)
        elif (path := await self._save(download)) is not None:
            html = await view_file(path, first_page=first_page)
        else:
            await self._close_blank(frame.page)
            return
        if document == _NEW or self._generations.document_of(frame.page) == document:
            await self._show(frame, download.url, _with_anchor(html, number, urldefrag(download.url)[1]))

    async def _save(self, download: "Download") -> Path | None:
        path, note = await self._folders.save(download)
        self._report(note)
        if path is not None:
            self._saved[path.resolve()] = None
        return path

    @contextlib.contextmanager
    def _coming(self) -> Iterator[None]:
        self._num_coming += 1
        try:
            yield
        finally:
            self._num_coming -= 1

    async def _view_embedded(self, download: "Download", first_page: int) -> str:
        """Return a view of a PDF in an `<embed>` or `<object>`; it is not saved, as in a browser with a window."""
        from playwright.async_api import Error

        name = safe_name(download.suggested_filename)
        try:
            return await view_file(await download.path(), name, first_page)
        except Error as error:
            return message(name, f"It was not loaded: {error.message.splitlines()[0]}.")

    async def _close_blank(self, page: "Page") -> None:
        """Close an empty tab that another tab opened, as a browser does."""
        from playwright.async_api import Error

        if page.url not in _BLANK or self._tabs.opener_of(page) is None:
            return
        with contextlib.suppress(Error, TimeoutError):
            if await asyncio.wait_for(page.evaluate(_IS_EMPTY), _FRAME_S):
                await page.close()

    async def _show(self, frame: "Frame", url: str, html: str) -> None:
        """Show a page in place of a PDF, under the URL of the PDF."""
        from playwright.async_api import Error

        page, wanted = frame.page, urldefrag(url)[0]

        def is_wanted(asked: str) -> bool:
            return urldefrag(asked)[0] == wanted

        async def answer(route: "Route") -> None:
            await route.fulfill(body=html, content_type="text/html; charset=utf-8")

        async with self._lock:
            self._showing.add((frame, url))
            try:
                if urlsplit(url).scheme not in ("http", "https"):
                    await _set_content(frame, html)
                    return
                await page.route(is_wanted, answer)
                try:
                    if frame == page.main_frame and frame.url == url:  # navigating to the same fragment loads nothing
                        await page.reload(wait_until="commit", timeout=_SHOW_TIMEOUT_S * 1000)
                    else:
                        await frame.goto(url, wait_until="commit", timeout=_SHOW_TIMEOUT_S * 1000)
                except Error:
                    await _set_content(frame, html)
                finally:
                    await page.unroute(is_wanted, answer)
            except Error as error:
                if not page.is_closed():
                    self._report(f"the PDF {url} could not be shown: {error.message.splitlines()[0]}")
            finally:
                self._showing.discard((frame, url))

    def _find(self, address: str) -> tuple[Path | None, int]:
        """Return the download for an address, and the first page to show."""
        text = address.strip()
        if text.lower().startswith("file:"):
            parts = urlsplit(text)
            text = unquote(parts.path) + (f"?{parts.query}" if parts.query else "")
        if not text.startswith("/"):
            return None, 1
        page = _FIRST_PAGE.search(text)
        for name, number in ((text, 1), (text[: page.start()], max(1, int(page[1]))) if page else (text, 1)):
            path = Path(name).resolve()
            if path in self._saved or path == self._folders.downloads.resolve():
                return path, number
        return None, 1

    async def _on_file(self, route: "Route") -> None:
        """Serve a view of a download for a `file:` request; block other files unless `allows_files`."""
        path, first_page = self._find(route.request.url)
        if path is None and self._allows_files:
            await route.fallback()
            return
        if path is None:
            await route.abort("accessdenied")
            return
        if path == self._folders.downloads.resolve():
            html = view_list("Downloads", [(saved.name, saved.as_uri()) for saved in self._saved])
        elif not path.is_file():
            html = message(path.name, "The file is gone.")
        else:
            html = await view_file(path, first_page=first_page)
        await route.fulfill(body=html, content_type="text/html; charset=utf-8")


def _address_of(path: Path, first_page: int) -> str:
    return path.as_uri() + (f"?page={first_page}" if first_page > 1 else "")


def _with_anchor(html: str, number: int, fragment: str) -> str:
    """Set the fragment of the URL as id of one page of a PDF view, so that the browser scrolls there."""
    return html.replace(f'id="page={number}"', f'id="{escape(fragment)}"', 1) if fragment else html


async def _frame_of(request: "Request") -> "Frame | None":
    """Return the frame of a navigation; for a new window it is known shortly after its request."""
    from playwright.async_api import Error

    until_s = time.monotonic() + _FRAME_S
    while True:
        with contextlib.suppress(Error):
            return request.frame
        if time.monotonic() > until_s:
            return None
        await asyncio.sleep(0.01)


async def _is_embedded(frame: "Frame") -> bool:
    """Return True for a frame of an `<embed>` or `<object>`, which `page.js` creates for embedded PDFs."""
    from playwright.async_api import Error

    if frame.parent_frame is None:
        return False
    with contextlib.suppress(Error, TimeoutError):
        async with asyncio.timeout(_FRAME_S):
            element = await frame.frame_element()
            return bool(await element.evaluate("element => ['embed', 'object'].includes(element.localName)"))
    return False


async def _set_content(frame: "Frame", html: str) -> None:
    """Show a page in a frame whose own URL cannot be routed (for example a blob)."""
    await frame.goto("about:blank", timeout=_SHOW_TIMEOUT_S * 1000)
    await frame.set_content(html, wait_until="commit", timeout=_SHOW_TIMEOUT_S * 1000)
