"""Web search engines: SearXNG, Brave and Tavily over HTTP. For a folder, use `cua.research.local`."""

import asyncio
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from cua.errors import ConfigError
from cua.json_text import JsonMapping
from cua.research.network import FetchError
from cua.research.pages import charset_of, decode

MAX_ANSWER_BYTES = 5 * 2**20  # bounds memory
TIMEOUT_S = 20.0  # metasearch waits for slow engines; the agent waits for the answer
TRIES, MAX_WAIT_S, BUSY = 3, 10.0, (429, 502, 503, 504)
"""Attempts for a busy engine, the longest wait between two, and the statuses that count as busy."""
BRAVE_URL = "https://api.search.brave.com"
TAVILY_URL = "https://api.tavily.com"
KEYS = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
"""Environment variables of the API keys, by engine."""
MAX_QUERY_CHARS, MAX_QUERY_WORDS = 400, 50
"""Limits of a query. Source: Brave's API reference, `q`; Tavily refuses more than 400 characters."""
_MAX_SNIPPET = 300  # of a result's text; the agent opens the page for more


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """Search result.

    Attributes:
        url: Address of the page.
        title: Title of the page.
        snippet: Text around the match.
        date: Date as the engine gives it; often "".
    """

    url: str
    title: str
    snippet: str = ""
    date: str = ""

    @property
    def site(self) -> str:
        """Host of the page."""
        return urlsplit(self.url).netloc


class SearchEngine(Protocol):
    """Interface of search engines."""

    name: str

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """Return the best pages for a query, best first.

        Raises:
            FetchError: If the engine gave no answer; the message says what to do.
        """
        ...


async def ask_json(
    url: str, *, headers: Mapping[str, str], params: JsonMapping | None, post: Any = None, tries: int = TRIES
) -> Any:
    """Return the JSON answer of an engine that a person configured; its address may be private.

    A busy engine is asked again after the wait that it requests, or with a short backoff, unless that is too long.

    Raises:
        FetchError: If the engine does not answer, or the answer cannot be parsed.
    """
    import httpx

    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
        for number in range(1, tries + 1):
            wait_s = 0.5 * 2**number * random.uniform(0.5, 1.0)
            try:
                status, response_headers, body = await _answer(client, url, headers, params, post)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                host = urlsplit(url).netloc
                raise FetchError(f"the search engine at {host} cannot be reached: {type(error).__name__}") from None
            wait_s = _wait_s(response_headers, wait_s)
            if status not in BUSY or number == tries or wait_s > MAX_WAIT_S:
                return _checked(status, wait_s, body, charset_of(response_headers.get("content-type", "")))
            await asyncio.sleep(wait_s)
    raise AssertionError("unreachable")


async def _ask_with_key(name: str, url: str, **asked: Any) -> Any:
    """Return the answer as `ask_json`; for a refused key (422 at Brave, not 401) the error names its variable."""
    try:
        return await ask_json(url, **asked)
    except FetchError as error:
        if error.status in (401, 403) or (error.status == 422 and "token" in str(error)):
            raise FetchError(
                f"{str(error).rstrip('.')}; look at the key in {KEYS[name]}", status=error.status
            ) from None
        raise


def _short(query: str) -> str:
    """Cut a query to the limits of the services."""
    return " ".join(query.split()[:MAX_QUERY_WORDS])[:MAX_QUERY_CHARS]


async def _answer(
    client: Any, url: str, headers: Mapping[str, str], params: JsonMapping | None, post: Any
) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and body, which is limited in size."""
    method, wanted = "GET" if post is None else "POST", {**headers, "Accept": "application/json"}
    async with client.stream(method, url, params=params, json=post, headers=wanted) as response:
        body = bytearray()
        async for chunk in response.aiter_bytes(65536):
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise FetchError(f"the search engine's answer is larger than {MAX_ANSWER_BYTES} bytes")
        return response.status_code, response.headers, bytes(body)


def _wait_s(headers: Mapping[str, str], otherwise_s: float) -> float:
    """Return the wait that a busy engine requests. Brave sends one for each of its limits, per second and per month."""
    retry_after = headers.get("retry-after", "")
    if re.fullmatch(r"\d{1,7}", retry_after):
        return float(retry_after)
    resets, left = (re.findall(r"\d+", headers.get(f"x-ratelimit-{name}", "")) for name in ("reset", "remaining"))
    waits = [float(reset) for reset, rest in zip(resets, left, strict=False) if rest == "0"]
    return max(waits, default=otherwise_s)


def _checked(status: int, wait_s: float, body: bytes, charset: str) -> Any:
    if status != 200:
        reason = _reason(body, charset)
        raise FetchError(
            f"the search engine answered {status}{': ' + reason if reason else ''}"
            + (f"; it asks to wait {wait_s:.0f} s" if status in BUSY and wait_s > MAX_WAIT_S else ""),
            status=status,
            retry_after_s=wait_s if status in BUSY else None,
        )
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        content = "a page of HTML" if body[:200].lstrip()[:1] == b"<" else "something"
        raise FetchError(f"the search engine answered {content} that is not JSON", status=status) from None


def _reason(body: bytes, charset: str) -> str:
    """Return the engine's error message as one line: Brave's `error.detail`, Tavily's `detail.error`, or its text.

    Brave's reference shows a list, `errors`, but the service sends one `error`; both are parsed.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return plain_line(decode(body[:4000], charset).strip().partition("\n")[0])
    for _ in range(4):
        if isinstance(value, list):
            value = next(iter(value), "")
        elif isinstance(value, dict):
            value = next((value[key] for key in ("detail", "error", "errors", "message", "msg") if value.get(key)), "")
    return plain_line(value)


def _hits(entries: object, *, url: str, title: str, snippet: str, date: str, count: int) -> list[SearchHit]:
    """Parse untrusted entries as hits; entries without an address are dropped."""
    hits = []
    for entry in entries if isinstance(entries, list) else []:
        if (
            isinstance(entry, dict)
            and isinstance(entry.get(url), str)
            and entry[url].startswith(("http://", "https://"))
        ):
            texts = {
                name: plain_line(entry.get(key))
                for name, key in (("title", title), ("snippet", snippet), ("date", date))
            }
            hits.append(SearchHit(url=entry[url], **texts))
    return hits[:count]


def plain_line(value: object) -> str:
    """Return an untrusted value as one short line without tags; "" if it is not text."""
    return " ".join(re.sub(r"<[^<>]*>", "", value).split())[:_MAX_SNIPPET] if isinstance(value, str) else ""


class SearxngEngine:
    """Self-hosted SearXNG; implements `SearchEngine`.

    Source: SearXNG's documentation, "Search API"; JSON is disabled there by default.
    """

    def __init__(self, url: str) -> None:
        self.name = "searxng"
        self._url = url.rstrip("/")

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """Search, as in `SearchEngine.search`."""
        asked = {"q": query, "format": "json"}
        try:
            answer = await ask_json(f"{self._url}/search", headers={}, params=asked, tries=1)
        except FetchError as error:
            if error.status not in (403, 429):
                raise
            raise FetchError(
                f"{error}. In its settings.yml it needs `search: {{formats: [html, json]}}` and "
                "`server: {limiter: false}`",
                status=error.status,
            ) from None
        results, silent = _get(answer, "results"), _get(answer, "unresponsive_engines")
        if not results and isinstance(silent, list) and silent:
            names = "; ".join(": ".join(map(str, name)) if isinstance(name, list) else str(name) for name in silent[:5])
            raise FetchError(f"SearXNG found nothing, and engines that it asked did not answer ({plain_line(names)})")
        return _hits(results, url="url", title="title", snippet="content", date="publishedDate", count=count)


class BraveEngine:
    """Brave search; implements `SearchEngine`. Source: its API reference, "Web search"."""

    def __init__(self, key: str, url: str = BRAVE_URL) -> None:
        self.name = "brave"
        self._key, self._url = key, url.rstrip("/")

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """Search, as in `SearchEngine.search`; at most 20 results."""
        answer = await _ask_with_key(
            self.name,
            f"{self._url}/res/v1/web/search",
            headers={"X-Subscription-Token": self._key},
            params={"q": _short(query), "count": min(count, 20)},
        )
        results = _get(_get(answer, "web"), "results")
        return _hits(results, url="url", title="title", snippet="description", date="age", count=count)


class TavilyEngine:
    """Tavily search; implements `SearchEngine`. Source: its API reference, "POST /search"."""

    def __init__(self, key: str, url: str = TAVILY_URL) -> None:
        self.name = "tavily"
        self._key, self._url = key, url.rstrip("/")

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """Search, as in `SearchEngine.search`; at most 20 results."""
        answer = await _ask_with_key(
            self.name,
            f"{self._url}/search",
            headers={"Authorization": f"Bearer {self._key}"},
            params=None,
            post={"query": _short(query), "max_results": min(count, 20)},
        )
        return _hits(
            _get(answer, "results"), url="url", title="title", snippet="content", date="published_date", count=count
        )


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


def make_remote_engine(name: str, location: str, environ: Mapping[str, str]) -> SearchEngine:
    """Make a web search engine by name.

    Raises:
        ConfigError: If the engine is unknown, or its address or key is missing.
    """
    if location and urlsplit(location).scheme not in ("http", "https"):
        raise ConfigError(
            f"the address of the search engine is {location!r}; expected one that begins with http:// or https://"
        )
    if name == "searxng":
        if not location:
            raise ConfigError("search is 'searxng'; expected its address too, such as searxng:http://127.0.0.1:8888")
        return SearxngEngine(location)
    key = environ.get(KEYS[name], "").strip()
    if not key:
        raise ConfigError(f"search is {name!r}, which needs a key: put it into the environment variable {KEYS[name]}")
    return BraveEngine(key, location or BRAVE_URL) if name == "brave" else TavilyEngine(key, location or TAVILY_URL)
