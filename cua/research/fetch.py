"""Fetcher of pages and files: redirects, robots.txt, limits, a cache for the run, and rate limits for hosts."""

import asyncio
import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

from cua.errors import ConfigError
from cua.research.engines import SearchEngine, make_remote_engine
from cua.research.local import FOLDER_URL, FolderCorpus, LocalIndex, WorldCorpus, find_files, index_path, indexed_world
from cua.research.network import PUBLIC, USER_AGENT, AddressRules, FetchError, Response, request, resolve
from cua.research.pages import WebDocument, charset_of, read_document
from envs.errors import require

MAX_REDIRECTS = 5  # sites use one or two; more are a loop
MAX_ROBOTS_BYTES = 512 * 1024  # parsers must read at least 500 KiB: RFC 9309, section 2.5
MAX_WAIT_S = 10.0
"""Longest accepted wait for a busy server; a longer one is reported as an error."""
_TRIES = 3  # a server that is busy for longer is reported to the agent, which can look elsewhere
_BUSY = (429, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Limits on the web access of one run.

    Attributes:
        page_bytes: Size of one page, decompressed.
        file_bytes: Size of one download, and of one page of a corpus.
        timeout_s: Timeout of one address, including redirects.
        num_pages: Number of fetched addresses; cached ones do not count.
        total_bytes: Size of all pages and files, which are kept in memory.
        per_host: Number of concurrent requests to one host.
        at_once: Number of concurrent requests.
    """

    page_bytes: int = 5 * 2**20
    file_bytes: int = 50 * 2**20
    timeout_s: float = 20.0
    num_pages: int = 5000
    total_bytes: int = 256 * 2**20
    per_host: int = 2
    at_once: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Fetched content.

    Attributes:
        url: Address after redirects.
        media_type: Media type without parameters, in lower case; "" if unknown.
        body: The content.
        charset: Charset of the HTTP header; "" if it names none.
        sha256: SHA-256 of the content.
    """

    url: str
    media_type: str
    body: bytes = field(repr=False)
    charset: str = ""
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", hashlib.sha256(self.body).hexdigest())


class Corpus(Protocol):
    """Source of pages that need no network.

    Attributes:
        base_url: Prefix of their addresses.
    """

    base_url: str

    def read(self, url: str) -> Response | None:
        """Return the content of an address; None if it does not exist."""
        ...


PageKey = tuple[str, int]
"""Address, and limit of its size in bytes."""


class PageCache(Protocol):
    """Cache of pages for the fetchers of several processes; one of them fetches each page."""

    async def claim(self, key: PageKey) -> Fetched | None:
        """Return a page that another process has fetched or is fetching; None if this one has to fetch it.

        A claim ends with `fill` or `release`.

        Raises:
            FetchError: If a limit of the run is reached.
        """
        ...

    async def fill(self, key: PageKey, page: Fetched) -> None:
        """Store a claimed page."""
        ...

    def release(self, key: PageKey) -> None:
        """End a claim without a page; another process may fetch it."""
        ...


def limit_error(num_pages: int, num_bytes: int) -> FetchError:
    """Return the error for a limit of the run."""
    return FetchError(f"the run's limit is reached ({num_pages} pages, {num_bytes} bytes); answer from what there is")


class Fetcher:
    """Fetcher that requests each address once in a run; concurrent requests for it share the result.

    Args:
        rules: Rules for the addresses that may be reached.
        limits: Limits of the run.
        corpora: Sources of pages that need no network.
        is_offline: True to allow only the corpora.
        obeys_robots: True to obey robots.txt.
        look_up: Returns the addresses of a host name, as `cua.research.network.resolve`.
        pages: Cache that is shared with other processes of the run.

    Attributes:
        browser_slot: Semaphore held while a browser is open for a page; one at a time.
        num_fetched: Number of requested addresses.
        num_bytes: Total size of their content.
    """

    def __init__(
        self,
        *,
        rules: AddressRules = PUBLIC,
        limits: FetchLimits = FetchLimits(),
        corpora: tuple[Corpus, ...] = (),
        is_offline: bool = False,
        obeys_robots: bool = True,
        look_up: Any = resolve,
        pages: PageCache | None = None,
    ) -> None:
        self.limits = limits
        self._pages = pages
        self._rules, self._corpora = rules, corpora
        self._is_offline, self._obeys_robots, self._look_up = is_offline, obeys_robots, look_up
        self._fetched: dict[Any, _SharedTask] = {}
        self._documents: dict[Any, _SharedTask] = {}
        self._robots: dict[Any, _SharedTask] = {}
        self._hosts: dict[str, asyncio.Semaphore] = {}
        self._slots = asyncio.Semaphore(limits.at_once)
        self.browser_slot = asyncio.Semaphore(1)
        self.num_fetched = 0
        self.num_bytes = 0

    async def fetch(self, url: str, *, is_file: bool = False) -> Fetched:
        """Return the content of an address, from the cache if possible.

        A file may be larger than a page, and so may be the pages of corpora, which need no network.

        Raises:
            FetchError: If it cannot be fetched; the message gives the model the reason.
        """
        url = url.strip().partition("#")[0]
        is_file |= any(url.startswith(corpus.base_url) for corpus in self._corpora)
        max_bytes = self.limits.file_bytes if is_file else self.limits.page_bytes
        page: Fetched = await _run_once(self._fetched, (url, max_bytes), lambda: self._fetch_or_claim(url, max_bytes))
        return page

    async def read(self, page: Fetched) -> WebDocument:
        """Return fetched content as text; parsed once.

        Raises:
            FetchError: If it is not text.
        """

        async def reading() -> WebDocument:
            try:
                return await asyncio.to_thread(read_document, page.body, page.media_type, page.url, page.charset)
            except ValueError as error:
                raise FetchError(f"{page.url} cannot be shown: {error}") from None

        document: WebDocument = await _run_once(self._documents, f"{page.sha256} {page.url}", reading)
        return document

    async def _fetch_or_claim(self, url: str, max_bytes: int) -> Fetched:
        """Fetch an address unless another process of the run fetches it."""
        if self._pages is None:
            return await self._fetch(url, max_bytes)
        key = url, max_bytes
        page = await self._pages.claim(key)
        if page is None:
            try:
                page = await self._fetch(url, max_bytes)
                await self._pages.fill(key, page)
            except BaseException:
                self._pages.release(key)
                raise
        return page

    async def _fetch(self, url: str, max_bytes: int) -> Fetched:
        if self.num_fetched >= self.limits.num_pages or self.num_bytes >= self.limits.total_bytes:
            raise limit_error(self.num_fetched, self.num_bytes)
        self.num_fetched += 1
        async with self._slots:
            for _ in range(MAX_REDIRECTS + 1):
                response = await self._ask(url, max_bytes)
                if response.status not in (301, 302, 303, 307, 308):
                    return self._checked(url, response)
                url = urljoin(url, response.headers.get("location", ""))
        raise FetchError(f"{url[:200]} leads on more than {MAX_REDIRECTS} times")

    def _checked(self, url: str, response: Response) -> Fetched:
        if response.status != 200:
            wait_s = _retry_after_s(response, 0) if response.status in _BUSY else 0.0
            retry_note = f"; it asks to wait {wait_s:.0f} s" if wait_s > MAX_WAIT_S else ""
            raise FetchError(f"{url} answered {response.status}{retry_note}", status=response.status)
        self.num_bytes += len(response.body)
        content_type = response.headers.get("content-type", "")
        media_type = content_type.partition(";")[0].strip().lower()
        return Fetched(url=url, media_type=media_type, body=response.body, charset=charset_of(content_type))

    async def _ask(self, url: str, max_bytes: int) -> Response:
        for corpus in self._corpora:
            if url.startswith(corpus.base_url):
                response = await asyncio.to_thread(corpus.read, url)
                if response is not None and len(response.body) > max_bytes:
                    raise FetchError(f"{url} has {len(response.body)} bytes, more than the {max_bytes} that are read")
                return response or Response(status=404, headers={}, body=b"")
        host, _ = self._rules.check_url(url)
        if self._is_offline and not self._rules.allow_hosts:
            raise FetchError(f"{url[:200]} is not in the search corpus, and no other pages can be reached")
        if self._obeys_robots and not await self._may_fetch(url):
            raise FetchError(f"robots.txt of {host} does not allow programs to fetch {url[:200]}; find it elsewhere")
        async with self._hosts.setdefault(host, asyncio.Semaphore(self.limits.per_host)):
            return await self._get_with_retries(url, max_bytes)

    async def _get_with_retries(self, url: str, max_bytes: int) -> Response:
        """Return the response; a busy server is asked again after the wait that it requests."""
        for number in range(_TRIES):
            response = await self._get(url, max_bytes)
            wait_s = _retry_after_s(response, number)
            if response.status not in _BUSY or wait_s > MAX_WAIT_S or number == _TRIES - 1:
                break
            await asyncio.sleep(wait_s)
        return response

    async def _get(self, url: str, max_bytes: int) -> Response:
        return await request(
            url, rules=self._rules, max_bytes=max_bytes, timeout_s=self.limits.timeout_s, look_up=self._look_up
        )

    async def _may_fetch(self, url: str) -> bool:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        robots = await _run_once(self._robots, origin, lambda: self._read_robots(origin))
        return bool(robots.can_fetch(url, USER_AGENT))

    async def _read_robots(self, origin: str) -> Any:
        """Return the rules of a site: without a file everything is allowed, after a server error nothing (RFC 9309)."""
        protego = require("protego", "search")
        url = f"{origin}/robots.txt"
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._get(url, MAX_ROBOTS_BYTES)
            if response.status not in (301, 302, 303, 307, 308):
                break
            url = urljoin(url, response.headers.get("location", ""))
        if response.status >= 500:
            return protego.Protego.parse("User-agent: *\nDisallow: /")
        return protego.Protego.parse(response.body.decode("utf-8", "replace") if response.status == 200 else "")


def _retry_after_s(response: Response, number: int) -> float:
    retry_after = response.headers.get("retry-after", "")
    return float(retry_after) if re.fullmatch(r"\d{1,6}", retry_after) else 0.5 * 2**number


@dataclass(slots=True)
class _SharedTask:
    """Task with several waiters."""

    task: asyncio.Task[object]
    num_waiting: int = 0

    @property
    def has_failed(self) -> bool:
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)


async def _run_once(kept: dict[Any, _SharedTask], key: Any, make: Callable[[], Coroutine[object, object, Any]]) -> Any:
    """Return the value of a key: made for the first caller and awaited by the others; failures are retried later.

    It is cancelled when it has no waiters left.
    """
    shared = kept.get(key)
    if shared is None or shared.has_failed:
        shared = kept[key] = _SharedTask(asyncio.ensure_future(make()))
    shared.num_waiting += 1
    try:
        return await asyncio.shield(shared.task)
    finally:
        shared.num_waiting -= 1
        if not shared.num_waiting and not shared.task.done():
            shared.task.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """Search engine and fetcher shared by all agents of a run."""

    engine: SearchEngine
    fetcher: Fetcher


def make_web(
    search: str,
    *,
    allow_hosts: tuple[str, ...] = (),
    obeys_robots: bool = True,
    environ: Mapping[str, str] | None = None,
    pages: PageCache | None = None,
) -> Web:
    """Make search engine and fetcher from a setting; `local` indexes its folder here, which may take a while.

    Args:
        search: `searxng:URL`, `brave`, `tavily`, `local:FOLDER`, or `local:world[:SEED[:SIZE]]` for a corpus of the
            suite `widesearch`.
        allow_hosts: `HOST:PORT` entries that may be fetched although they are private.
        obeys_robots: True to obey robots.txt.
        environ: Environment variables with API keys; default: the variables of this process.
        pages: Cache of web pages that is shared with other processes of the run.

    Raises:
        ConfigError: If the engine is unknown, or its key or address is missing.
        EnvError: If a package is not installed.
    """
    for module in ("trafilatura", "markdownify", "protego"):
        require(module, "search")
    name, _, location = search.partition(":")
    rules = AddressRules.parse(allow_hosts)
    if name == "local" and location:
        return _make_local(location, rules)
    if name not in ("searxng", "brave", "tavily"):
        raise ConfigError(
            f"search is {search!r}; expected searxng:URL, brave, tavily, local:FOLDER, or local:world for a corpus "
            "that is made here"
        )
    engine = make_remote_engine(name, location, os.environ if environ is None else environ)
    return Web(engine=engine, fetcher=Fetcher(rules=rules, obeys_robots=obeys_robots, pages=pages))


def check_search(search: str) -> None:
    """Check a setting for `make_web`; a folder is not indexed.

    Raises:
        ConfigError: If the engine is unknown, its key or address is missing, or there is no such folder.
        EnvError: If a package is not installed.
    """
    name, _, location = search.partition(":")
    if name != "local" or not location:
        make_web(search)
    elif location.partition(":")[0] == "world":
        _parse_world(location)
    elif not Path(location).expanduser().is_dir():
        raise ConfigError(f"search is {search!r}, and there is no such folder; expected local:FOLDER")


def _parse_world(location: str) -> tuple[int, str]:
    """Parse seed and size of a generated corpus."""
    parsed = re.fullmatch(r"world(?::(\d{1,9})(?::(tiny|small|full))?)?", location)
    if parsed is None:
        raise ConfigError(
            f"search is 'local:{location}'; expected local:world, or local:world:SEED, a whole number, or "
            "local:world:SEED:SIZE, tiny, small or full"
        )
    return int(parsed[1] or 0), parsed[2] or "small"


def _make_local(location: str, rules: AddressRules) -> Web:
    if location.partition(":")[0] == "world":
        seed, size = _parse_world(location)
        return make_world_web(seed, size=size)
    root = Path(location).expanduser()
    find_files(root)
    try:
        index = LocalIndex(index_path(root))
        index.update(root, FOLDER_URL)
    except (OSError, sqlite3.Error):  # no writable folder, or a broken index: it is rebuilt in memory for this run
        index = LocalIndex()
        index.update(root, FOLDER_URL)
    return Web(engine=index, fetcher=Fetcher(rules=rules, corpora=(FolderCorpus(root),), is_offline=True))


def make_world_web(seed: int = 0, *, size: str = "small") -> Web:
    """Make the corpus of the suite `widesearch`, searched in memory."""
    world, index = indexed_world(seed, size)
    return Web(engine=index, fetcher=Fetcher(corpora=(WorldCorpus(world),), is_offline=True))
