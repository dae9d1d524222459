"""Tools `search`, `browse` and `download`, for the web or a local folder. Their results are untrusted.

All agents of a run share the fetcher; each agent's tools keep copies of fetched content in its own folder, and the
result of a call has their hashes, so that a citation `[^index^]` identifies the exact bytes.

A page that is empty without its scripts is rendered by a browser without network access: its proxy is a port without
a server, and each request of the page is answered by the fetcher, with the same rules, limits and cache.
"""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pydantic import Field

from cua.json_text import Json, JsonMapping
from cua.messages import TextPart, ToolResult
from cua.model import Tool
from cua.research.engines import SearchHit
from cua.research.fetch import Fetched, Fetcher, Web
from cua.research.network import FetchError
from cua.research.pages import WebDocument, decode, is_text
from cua.tools.toolset import Arguments, failed, read_arguments, read_description, schema_of
from cua.trajectory.describe import printable
from envs.errors import EnvError, require

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

LOAD_S = 8.0  # scripts of most pages are done by then; the agent waits
MAX_REQUESTS = 100  # of a page's scripts; bounds what one page can fetch
MAX_HTML_CHARS = 5 * 2**20  # bounds the time to convert a page
_WANTED = ("document", "script", "xhr", "fetch", "stylesheet")


async def render(page: Fetched, fetcher: Fetcher) -> Fetched | None:
    """Return the page after its scripts have run; None without a browser, or if the page does not load."""
    from envs.browser.launch import launch
    from envs.browser.options import BrowserOptions
    from envs.domain_rules import DomainRules

    async with fetcher.browser_slot:
        try:
            browser = await launch(BrowserOptions(), DomainRules(), is_shared=True)
        except EnvError:
            return None
        try:
            return await _rendered(browser, page, fetcher)
        finally:
            await browser.close()


async def _rendered(running: Any, fetched: Fetched, fetcher: Fetcher) -> Fetched | None:
    api = require("playwright.async_api", "browser")
    requests = _Requests(fetched, fetcher)
    context = await running.browser.new_context(service_workers="block", accept_downloads=False)
    try:
        await context.route("**/*", requests.answer)
        await context.route_web_socket("**/*", lambda socket: socket.close())
        page: Page = await context.new_page()
        await page.goto(fetched.url, timeout=LOAD_S * 1000, wait_until="load")
        try:
            await page.wait_for_load_state("networkidle", timeout=LOAD_S * 1000)
        except api.TimeoutError:
            pass
        content = await page.content()
    except api.Error:
        return None
    finally:
        await context.close()
    body = content[:MAX_HTML_CHARS].encode("utf-8", "replace")
    return replace(fetched, media_type="text/html", charset="utf-8", body=body)


class _Requests:
    """Request filter of one page: answers GET requests that a text needs, and nothing else."""

    def __init__(self, page: Fetched, fetcher: Fetcher) -> None:
        self._page, self._fetcher = page, fetcher
        self._num = 0

    async def answer(self, route: "Route") -> None:
        request = route.request
        self._num += 1
        if request.method != "GET" or request.resource_type not in _WANTED or self._num > MAX_REQUESTS:
            await route.abort()
            return
        try:
            is_page = request.url.partition("#")[0] == self._page.url
            page = self._page if is_page else await self._fetcher.fetch(request.url)
        except (FetchError, asyncio.CancelledError):
            await route.abort()
            return
        charset = f"; charset={page.charset}" if page.charset else ""
        content_type = (page.media_type or "text/plain") + charset
        await route.fulfill(status=200, body=page.body, content_type=content_type)


KIND = "web"
"""`kind` in the data of a result: it is not a cell, and the web may change; the stored copies are evidence."""
SHOWN_CHARS = 12_000  # some 3,000 tokens of a page at a time; `scroll` shows more
MAX_QUERIES = 8  # in one call; they run at once
MAX_URLS = 20  # in one call; bounds its duration
MAX_FOUND = 12  # occurrences of a text that one call shows
PAGES, DOWNLOADS = "pages", "downloads"
_AROUND, _MAX_PLACE = 240, 1000
"""Characters around a match, and of a place that joins matches near to each other."""
_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
}
_TYPES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "pdf"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"PK\x03\x04", "zip"),
    (b"\x1f\x8b", "gz"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)
_CONTAINERS = {"zip": {"zip", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "jar"}, "jpeg": {"jpeg", "jpg"}}
_TEXTS = {"txt", "csv", "tsv", "json", "jsonl", "xml", "md", "text", "yaml", "svg"}


class SearchArguments(Arguments):
    """Arguments of `search`."""

    queries: list[str] = Field(
        description="What to search for; each is a search of its own.", min_length=1, max_length=MAX_QUERIES
    )
    count: int = Field(default=10, ge=1, le=20, description="Results for each query.")


class BrowseArguments(Arguments):
    """Arguments of `browse`."""

    url: str = Field(description="Address of the page or PDF.", min_length=1, max_length=4000)
    click: int = Field(default=0, ge=0, description="Number of a link on that page, to open it instead; 0 for none.")
    find: str = Field(default="", max_length=200, description="Text to find on the page.")
    scroll: int = Field(default=0, ge=0, description="Character to begin at.")
    page: int = Field(default=0, ge=0, description="Page of a PDF, from 1; 0 for all.")


class DownloadArguments(Arguments):
    """Arguments of `download`."""

    urls: list[str] = Field(description="Addresses of the files.", min_length=1, max_length=MAX_URLS)
    expect: str = Field(default="", max_length=10, description='Type that they must have, such as "pdf".')


class SearchTool(Tool):
    """Search tool."""

    name = "search"

    def __init__(self, web: Web) -> None:
        self._engine = web.engine
        scope = "the pages that are kept here" if web.engine.name == "local" else "the web"
        self.description = read_description("search", where=scope)
        self.parameters: JsonMapping = schema_of(SearchArguments)

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Run all queries concurrently."""
        asked = read_arguments(SearchArguments, arguments)
        answers = await asyncio.gather(*(self._search(query, asked.count) for query in asked.queries))
        text = "\n\n".join(text for text, _ in answers)
        urls = list(dict.fromkeys(hit.url for _, hits in answers for hit in hits or ()))
        is_error = all(hits is None for _, hits in answers)
        return ToolResult(parts=(TextPart(text=text),), is_error=is_error, data={"kind": KIND, "urls": urls})

    async def _search(self, query: str, count: int) -> tuple[str, Sequence[SearchHit] | None]:
        """Return the text for the model and the hits of a query; None for the hits if it failed."""
        if not query.strip():
            return "Query: (empty)\nError: a query is a few words.", None
        try:
            hits = await self._engine.search(query, count)
        except FetchError as error:
            return f"Query: {query}\nError: {error}", None
        lines = [_hit_lines(number, hit) for number, hit in enumerate(hits, 1)]
        return "\n".join([f"Query: {query}", *lines] if lines else [f"Query: {query}", "Nothing was found."]), hits


def _hit_lines(number: int, hit: SearchHit) -> str:
    about = " | ".join(_line(text) for text in (hit.site, hit.date, hit.snippet) if text)
    return f"{number}. {_line(hit.title) or '(no title)'}\n   {_line(hit.url)}\n   {about}"


def _line(text: str) -> str:
    return printable(" ".join(text.split()))


class BrowseTool(Tool):
    """Tool that reads pages."""

    name = "browse"

    def __init__(self, web: Web, folder: Path | None) -> None:
        self._fetcher = web.fetcher
        self._folder = folder
        self.description = read_description("browse", chars=f"{SHOWN_CHARS:,}")
        self.parameters: JsonMapping = schema_of(BrowseArguments)

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Read one page."""
        asked = read_arguments(BrowseArguments, arguments)
        try:
            page, document = await self._open(asked.url)
            if asked.click:
                page, document = await self._open(_link(document, asked.click, page.url))
            shown = await asyncio.to_thread(_shown, document, asked)
        except FetchError as error:
            return failed(str(error))
        stored = await asyncio.to_thread(_store, self._folder, page) if self._folder else ""
        text = _fenced(page, document, shown, stored)
        data = {"kind": KIND, "url": page.url, "sha256": page.sha256, "stored": stored, "links": list(document.links)}
        return ToolResult(parts=(TextPart(text=text),), data=data)

    async def _open(self, url: str) -> tuple[Fetched, WebDocument]:
        """Return a page as text, rendered by a browser if its scripts must run and a browser is available."""
        page = await self._fetcher.fetch(url)
        document = await self._fetcher.read(page)
        if not document.needs_browser:
            return page, document
        rendered = await render(page, self._fetcher)
        if rendered is None:
            return page, document
        return rendered, await self._fetcher.read(rendered)


def _link(document: WebDocument, number: int, url: str) -> str:
    if number > len(document.links):
        raise FetchError(f"{url} has {len(document.links)} links; there is no number {number}")
    return document.links[number - 1]


def _shown(document: WebDocument, asked: BrowseArguments) -> str:
    """Return the requested part of the text."""
    text = document.text
    if asked.page:
        if not document.pages:
            raise FetchError("`page` is for PDFs, and this is not one. Use `scroll`")
        if asked.page > len(document.pages):
            raise FetchError(f"the PDF has {len(document.pages)} pages; there is no page {asked.page}")
        text = document.pages[asked.page - 1]
    if asked.find:
        return _find_text(text, asked.find)
    if asked.scroll and asked.scroll >= len(text):
        raise FetchError(f"the text has {len(text)} characters; there is no text at {asked.scroll}")
    part, end = text[asked.scroll : asked.scroll + SHOWN_CHARS], asked.scroll + SHOWN_CHARS
    more = f"\n[{len(text) - end} more characters; scroll={end} goes on]" if end < len(text) else ""
    return (part if part.strip() else "(no text)") + more


def _find_text(text: str, wanted: str) -> str:
    """Return the matches in a text, each with its context; differences in whitespace are ignored."""
    pattern = re.compile(r"\s+".join(map(re.escape, wanted.split())) or re.escape(wanted), re.I)
    places: list[tuple[int, int]] = []
    count = 0
    for match in pattern.finditer(text):
        count += 1
        start, end = max(0, match.start() - _AROUND), min(len(text), match.end() + _AROUND)
        if places and start <= places[-1][1] and end - places[-1][0] <= _MAX_PLACE:
            places[-1] = places[-1][0], end
        elif len(places) < MAX_FOUND:
            places.append((start, end))
    if not places:
        return f"{wanted!r} does not occur on this page ({len(text)} characters)."
    shown = [f"... at {start}:\n{text[start:end]}" for start, end in places]
    return f"{count} places with {wanted!r}:\n" + "\n".join(shown)


def _fenced(page: Fetched, document: WebDocument, shown: str, stored: str) -> str:
    """Wrap the text in marks that it cannot forge: they contain its own hash."""
    mark = page.sha256[:8]
    clean = "\n".join(printable(line) for line in shown.split("\n"))
    pages = f", {len(document.pages)} pages" if document.pages else ""
    kept = f"\nKept as: {stored}" if stored else ""
    length = f"Length: {len(document.text)} characters{pages}{kept}"
    head = f"Title: {_line(document.title)}\nAddress: {_line(page.url)}\n{length}"
    return f"{head}\n<<page {mark}\n{clean}\npage {mark}>>"


def _store(folder: Path, page: Fetched) -> str:
    """Store a copy, named by its hash; return its name relative to the folder."""
    name = f"{PAGES}/{page.sha256[:16]}{_SUFFIXES.get(page.media_type, '.bin')}"
    _write(folder, name, page.body)
    return name


def _write(folder: Path, name: str, body: bytes) -> None:
    """Write a new file without following links, which the model's code could create in the same folder."""
    inner = folder / Path(name).parent
    if inner.is_symlink():
        raise FetchError(f"{Path(name).parent} is a link; it is not overwritten")
    inner.mkdir(parents=True, exist_ok=True)
    path = folder / name
    try:
        with path.open("xb") as file:
            file.write(body)
    except FileExistsError:
        if path.is_symlink() or path.read_bytes() != body:
            raise FetchError(f"{name} already exists with other content") from None


class DownloadTool(Tool):
    """Tool that downloads files."""

    name = "download"

    def __init__(self, web: Web, folder: Path) -> None:
        self._fetcher = web.fetcher
        self._folder = folder
        self.description = read_description("download")
        self.parameters: JsonMapping = schema_of(DownloadArguments)

    async def call(self, arguments: JsonMapping) -> ToolResult:
        """Download all files concurrently."""
        asked = read_arguments(DownloadArguments, arguments)
        wanted = asked.expect.lower().lstrip(".")
        done = await asyncio.gather(*(self._download(url, wanted) for url in asked.urls))
        files = [entry for _, entry in done if entry]
        text = "\n".join(line for line, _ in done)
        return ToolResult(parts=(TextPart(text=text),), is_error=not files, data={"kind": KIND, "files": files})

    async def _download(self, url: str, wanted: str) -> tuple[str, Json | None]:
        try:
            file = await self._fetcher.fetch(url, is_file=True)
            media = type_of(file.body, file.charset)
            check_type(file, media, wanted)
            name = await asyncio.to_thread(self._keep, file)
        except FetchError as error:
            return f"{_line(url)}: Error: {error}", None
        entry = {"url": file.url, "file": name, "size_bytes": len(file.body), "sha256": file.sha256, "type": media}
        return f"{_line(url)}: {name}, {len(file.body)} bytes, {media}, sha256 {file.sha256}", entry

    def _keep(self, file: Fetched) -> str:
        """Write the file under its own name, or with its hash in the name if that is taken."""
        last = unquote(urlsplit(file.url).path).rstrip("/").rpartition("/")[2]
        safe = re.sub(r"[^\w.-]+", "_", last).strip("._")[-100:] or "file"
        try:
            _write(self._folder, f"{DOWNLOADS}/{safe}", file.body)
        except FetchError:
            safe = f"{hashlib.sha256(file.body).hexdigest()[:8]}-{safe}"
            _write(self._folder, f"{DOWNLOADS}/{safe}", file.body)
        return f"{DOWNLOADS}/{safe}"


def type_of(body: bytes, charset: str = "") -> str:
    """Return the type of a file by its content: `pdf`, `png`, `zip`, ..., `html`, `text` or `binary`."""
    for magic, name in _TYPES:
        if body.startswith(magic):
            return name
    if not is_text(body, charset):
        return "binary"
    begin = decode(body[:1024], charset).lstrip().lower()
    return "html" if begin.startswith("<!doctype html") or "<html" in begin else "text"


def check_type(file: Fetched, actual: str, wanted: str) -> None:
    """Check that a file has the wanted type, or the type of its name.

    Raises:
        FetchError: If it has another type, such as the error page of a server.
    """
    suffix = Path(urlsplit(file.url).path).suffix.lower().lstrip(".")
    expected = wanted or (
        suffix if suffix in {"pdf", "png", "jpg", "jpeg", "gif", "zip", "docx", "xlsx", "pptx"} else ""
    )
    if not expected:
        return
    is_same = expected == actual or expected in _CONTAINERS.get(actual, ()) or (actual == "text" and expected in _TEXTS)
    is_page = actual == "html" and expected in ("html", "htm", "xhtml")
    if not file.body:
        raise FetchError("the file is empty")
    if not is_same and not is_page:
        description = "a page of HTML (perhaps an error page)" if actual == "html" else actual
        raise FetchError(f"it is {description} and not {expected}, as was expected; nothing was kept")


def make_research_tools(web: Web, folder: Path | None) -> tuple[Tool, ...]:
    """Make the tools of one agent; without a `folder` for copies, `download` is left out."""
    tools: list[Tool] = [SearchTool(web), BrowseTool(web, folder)]
    return (*tools, DownloadTool(web, folder)) if folder is not None else tuple(tools)
