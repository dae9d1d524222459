"""Cache of fetched pages that the hosts of a cluster share: the parent keeps it, and one host fetches each page."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from cua.research.fetch import Fetched, FetchLimits, PageKey, limit_error
from cua.swarm.files import CHUNK_BYTES

PageHead = tuple[str, str, str, int]
"""Address after redirects, media type, charset and size in bytes of a page."""


class Link(Protocol):
    """Connection of a host to the parent."""

    async def ask(self, verb: str, *values: Any) -> Any:
        """Send a request and wait for the answer."""
        ...

    def tell(self, verb: str, *values: Any) -> None:
        """Send a message without an answer."""
        ...


class SharedPages:
    """Host's side of the cache; implements `cua.research.fetch.PageCache`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def claim(self, key: PageKey) -> Fetched | None:
        """Return a page that another host has fetched, as in `PageCache.claim`."""
        head: PageHead | None = await self._link.ask("claim", key)
        if head is None:
            return None
        url, media_type, charset, num_bytes = head
        body = bytearray()
        while len(body) < num_bytes:
            body += await self._link.ask("read", key, len(body))
        return Fetched(url=url, media_type=media_type, charset=charset, body=bytes(body))

    async def fill(self, key: PageKey, page: Fetched) -> None:
        """Store a page for the other hosts, as in `PageCache.fill`."""
        for start in range(0, len(page.body), CHUNK_BYTES):
            await self._link.ask("add", key, page.body[start : start + CHUNK_BYTES])
        self._link.tell("fill", key, (page.url, page.media_type, page.charset, len(page.body)))

    def release(self, key: PageKey) -> None:
        """Let another host fetch a page, as in `PageCache.release`."""
        self._link.tell("release", key)


@dataclass(slots=True, kw_only=True)
class _Page:
    host: object
    head: asyncio.Future[PageHead | None]
    body: bytearray = field(default_factory=bytearray)


class PageStore:
    """Parent's side of the cache, with the limits of a run for all hosts together.

    Args:
        limits: Limits of the run.
    """

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._pages: dict[PageKey, _Page] = {}
        self._num_fetched = 0

    def verbs(self, host: object) -> dict[str, Callable[..., Any]]:
        """Return the functions for the messages of a host."""

        async def claim(key: PageKey) -> PageHead | None:
            return await self._claim(host, key)

        return {"claim": claim, "read": self._read, "add": self._add, "fill": self._fill, "release": self._release}

    async def _claim(self, host: object, key: PageKey) -> PageHead | None:
        """Return a page that is stored or that another host is fetching; None if this host has to fetch it.

        Raises:
            FetchError: If the limit of the run is reached.
        """
        while (page := self._pages.get(key)) is not None:
            if (head := await asyncio.shield(page.head)) is not None:
                return head
        num_bytes = sum(len(page.body) for page in self._pages.values())
        if self._num_fetched >= self._limits.num_pages or num_bytes >= self._limits.total_bytes:
            raise limit_error(self._num_fetched, num_bytes)
        self._num_fetched += 1
        self._pages[key] = _Page(host=host, head=asyncio.get_running_loop().create_future())
        return None

    async def _read(self, key: PageKey, start: int) -> bytes:
        return bytes(self._pages[key].body[start : start + CHUNK_BYTES])

    async def _add(self, key: PageKey, chunk: bytes) -> None:
        self._pages[key].body += chunk

    async def _fill(self, key: PageKey, head: PageHead) -> None:
        self._pages[key].head.set_result(head)

    async def _release(self, key: PageKey) -> None:
        self._pages.pop(key).head.set_result(None)

    def release_all(self, host: object) -> None:
        """Release the pages that a lost host was fetching."""
        for key in [key for key, page in self._pages.items() if page.host is host and not page.head.done()]:
            self._pages.pop(key).head.set_result(None)
