"""Search engines: SearXNG, Brave and Tavily over HTTP, and a full-text index of our own over a folder or a corpus.

The local index is SQLite's FTS5 and not tantivy: it comes with Python, so that search works on every machine without a
compiled package, its file can be read while it grows, and it ranks by BM25 with a weight for titles. tantivy answers
some hundred times faster (0.06 against 7.7 ms over 5,000 pages), which nobody notices beside a model's reply.
"""

import json
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from cua.errors import ConfigError
from cua.research.network import FetchError
from cua.research.pages import decode, plain_text, read_document

MAX_ANSWER_BYTES = 5 * 2**20
MAX_FILE_BYTES = 20 * 2**20
MAX_FILES = 100_000
TIMEOUT_S = 20.0
SUFFIXES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".pdf": "application/pdf",
}
FOLDER_URL = "http://folder.invalid/"
"""Where the files of a folder are said to lie; a name that nobody can have (RFC 2606)."""
BRAVE_URL = "https://api.search.brave.com"
TAVILY_URL = "https://api.tavily.com"
_MAX_SNIPPET = 300
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result of a search.

    Attributes:
        url: Its address.
        title: Of the page.
        snippet: The words around what was found.
        date: As the engine says it; often "".
    """

    url: str
    title: str
    snippet: str = ""
    date: str = ""

    @property
    def site(self) -> str:
        """The host."""
        return urlsplit(self.url).netloc


class SearchEngine(Protocol):
    """Finds pages.

    Attributes:
        name: What logs call it.
    """

    name: str

    async def search(self, query: str, count: int) -> list[Hit]:
        """The best pages for a query, best first.

        Raises:
            FetchError: The engine gave no answer; the text says what to do.
        """
        ...


async def ask_json(url: str, *, headers: Mapping[str, str], params: Mapping[str, Any] | None, post: Any = None) -> Any:
    """The JSON answer of an engine that a person configured; its address may be private.

    Raises:
        FetchError: No answer, or none that can be read.
    """
    import httpx

    try:
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client,
            client.stream(
                "GET" if post is None else "POST",
                url,
                params=params,
                json=post,
                headers={**headers, "Accept": "application/json"},
            ) as response,
        ):
            body = bytearray()
            async for chunk in response.aiter_bytes(65536):
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise FetchError(f"the search engine's answer is larger than {MAX_ANSWER_BYTES} bytes")
            return _checked(response.status_code, response.headers.get("retry-after"), bytes(body))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchError(
            f"the search engine at {urlsplit(url).netloc} cannot be reached: {type(error).__name__}"
        ) from None


def _checked(status: int, retry_after: str | None, body: bytes) -> Any:
    if status != 200:
        told = decode(body[:300]).strip().splitlines()
        raise FetchError(
            f"the search engine answered {status}{': ' + told[0] if told else ''}",
            status=status,
            retry_after_s=float(retry_after) if retry_after and retry_after.isdigit() else None,
        )
    try:
        return json.loads(body)
    except ValueError:
        raise FetchError("the search engine answered something that is no JSON", status=status) from None


def _hits(entries: object, *, url: str, title: str, snippet: str, date: str, count: int) -> list[Hit]:
    """Hits out of foreign entries; those without an address are left out."""
    found = []
    for entry in entries if isinstance(entries, list) else []:
        if (
            isinstance(entry, dict)
            and isinstance(entry.get(url), str)
            and entry[url].startswith(("http://", "https://"))
        ):
            texts = {
                name: _plain(entry.get(key)) for name, key in (("title", title), ("snippet", snippet), ("date", date))
            }
            found.append(Hit(url=entry[url], **texts))
    return found[:count]


def _plain(value: object) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", value).split())[:_MAX_SNIPPET] if isinstance(value, str) else ""


class SearxngEngine:
    """A SearXNG of one's own; implements `SearchEngine`.

    Source: SearXNG's documentation, "Search API"; JSON is off there by default.
    """

    def __init__(self, url: str) -> None:
        self.name = "searxng"
        self._url = url.rstrip("/")

    async def search(self, query: str, count: int) -> list[Hit]:
        """Ask it."""
        try:
            answer = await ask_json(f"{self._url}/search", headers={}, params={"q": query, "format": "json"})
        except FetchError as error:
            if error.status not in (403, 429):
                raise
            raise FetchError(
                f"{error}. In its settings.yml it needs `search: {{formats: [html, json]}}` and "
                "`server: {limiter: false}`",
                status=error.status,
            ) from None
        return _hits(
            _get(answer, "results"), url="url", title="title", snippet="content", date="publishedDate", count=count
        )


class BraveEngine:
    """Brave's search; implements `SearchEngine`. Source: its API reference, "Web search"."""

    def __init__(self, key: str, url: str = BRAVE_URL) -> None:
        self.name = "brave"
        self._key, self._url = key, url.rstrip("/")

    async def search(self, query: str, count: int) -> list[Hit]:
        """Ask it; it takes 400 characters and gives 20 results."""
        answer = await ask_json(
            f"{self._url}/res/v1/web/search",
            headers={"X-Subscription-Token": self._key},
            params={"q": query[:400], "count": min(count, 20)},
        )
        results = _get(_get(answer, "web"), "results")
        return _hits(results, url="url", title="title", snippet="description", date="age", count=count)


class TavilyEngine:
    """Tavily's search; implements `SearchEngine`. Source: its API reference, "POST /search"."""

    def __init__(self, key: str, url: str = TAVILY_URL) -> None:
        self.name = "tavily"
        self._key, self._url = key, url.rstrip("/")

    async def search(self, query: str, count: int) -> list[Hit]:
        """Ask it; it takes 400 characters and gives 20 results."""
        answer = await ask_json(
            f"{self._url}/search",
            headers={"Authorization": f"Bearer {self._key}"},
            params=None,
            post={"query": query[:400], "max_results": min(count, 20)},
        )
        return _hits(
            _get(answer, "results"), url="url", title="title", snippet="content", date="published_date", count=count
        )


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None


class LocalIndex:
    """A full-text index; implements `SearchEngine`. Its threads take turns.

    Args:
        path: Where it lies; None keeps it in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.name = "local"
        self._lock = threading.Lock()
        self._db = sqlite3.connect(str(path or ":memory:"), check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # it can be made again
        self._db.execute("CREATE TABLE IF NOT EXISTS files (url TEXT PRIMARY KEY, stamp TEXT, page INTEGER)")
        self._db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS pages USING "
            "fts5(title, body, url UNINDEXED, date UNINDEXED, tokenize='porter unicode61 remove_diacritics 2')"
        )

    def add(self, pages: Iterable[tuple[str, str, str, str]]) -> None:
        """Add pages: address, title, words and date of each."""
        with self._lock:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT INTO pages (url, title, body, date) VALUES (?, ?, ?, ?)", pages)
            self._db.execute("COMMIT")

    def update(self, root: Path, base_url: str) -> int:
        """Bring it up to date with a folder: only what has changed is read. How many pages it has then.

        Raises:
            ConfigError: There is no such folder, or it holds too many files.
        """
        files = {base_url + quote(path.relative_to(root).as_posix()): path for path in find_files(root)}
        with self._lock:
            known = {url: (stamp, page) for url, stamp, page in self._db.execute("SELECT url, stamp, page FROM files")}
            self._db.execute("BEGIN")
            for url, path in files.items():
                stat = path.stat()
                stamp = f"{stat.st_mtime_ns}:{stat.st_size}"
                if url in known and known[url][0] == stamp:
                    continue
                self._forget(url, known)
                title, words = _indexed(path, url)
                row = self._db.execute(
                    "INSERT INTO pages (url, title, body, date) VALUES (?, ?, ?, '')", (url, title, words)
                )
                self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (url, stamp, row.lastrowid))
            for url in known.keys() - files.keys():
                self._forget(url, known)
            self._db.execute("COMMIT")
        return len(files)

    def _forget(self, url: str, known: Mapping[str, tuple[str, int]]) -> None:
        if url in known:
            self._db.execute("DELETE FROM pages WHERE rowid = ?", (known[url][1],))
            self._db.execute("DELETE FROM files WHERE url = ?", (url,))

    async def search(self, query: str, count: int) -> list[Hit]:
        """The pages with all words; when they are few, also those with some of them."""
        import asyncio

        return await asyncio.to_thread(self._search, query, count)

    def _search(self, query: str, count: int) -> list[Hit]:
        words = [f'"{word}"' for word in _WORD.findall(query)[:32]]
        if not words:
            return []
        found: dict[str, Hit] = {}
        for joint in (" ", " OR "):
            for hit in self._match(joint.join(words), count):
                found.setdefault(hit.url, hit)
            if len(found) >= count:
                break
        return list(found.values())[:count]

    def _match(self, expression: str, count: int) -> list[Hit]:
        with self._lock:
            rows = self._db.execute(
                "SELECT url, title, snippet(pages, 1, '', '', ' ... ', 24), date FROM pages WHERE pages MATCH ? "
                "ORDER BY bm25(pages, 3.0, 1.0), url LIMIT ?",
                (expression, count),
            ).fetchall()
        return [Hit(url=url, title=title, snippet=_plain(words), date=date) for url, title, words, date in rows]

    def close(self) -> None:
        """Let the file go. May be called twice."""
        with self._lock:
            self._db.close()


def find_files(root: Path) -> Sequence[Path]:
    """The files of a folder that can be read as pages; links and hidden ones are left out.

    Raises:
        ConfigError: There is no such folder, or it holds too many.
    """
    if not root.is_dir():
        raise ConfigError(f"there is no folder {str(root)!r} to search in")
    found = []
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root).parts
        if (
            path.suffix.lower() in SUFFIXES
            and not any(part.startswith(".") for part in inner)
            and _is_own_file(path, root)
        ):
            found.append(path)
        if len(found) > MAX_FILES:
            raise ConfigError(f"{root} holds more than {MAX_FILES} files to search in; name a folder below it")
    return found


def _is_own_file(path: Path, root: Path) -> bool:
    """Whether it is a file within the folder, not reached over a link, and of bounded size."""
    return (
        not path.is_symlink()
        and path.is_file()
        and path.resolve().is_relative_to(root.resolve())
        and (path.stat().st_size <= MAX_FILE_BYTES)
    )


def _indexed(path: Path, url: str) -> tuple[str, str]:
    """Title and words of a file."""
    try:
        if path.suffix.lower() == ".pdf":
            document = read_document(path.read_bytes(), SUFFIXES[".pdf"], url)
            return document.title, document.text
        text = decode(path.read_bytes())
    except (OSError, ValueError):
        return path.name, ""
    if path.suffix.lower() in (".html", ".htm"):
        title, words = plain_text(text)
        return title or path.name, words
    heading = re.search(r"^#\s+(.+)$", text, re.M)
    return heading[1].strip() if heading else path.name, text


def make_remote_engine(name: str, where: str, environ: Mapping[str, str]) -> SearchEngine:
    """An engine of the web by name.

    Args:
        name: `searxng`, `brave` or `tavily`.
        where: Its address; "": the service's own.
        environ: Holds the keys.

    Raises:
        ConfigError: No such engine, no address, or no key.
    """
    if where and urlsplit(where).scheme not in ("http", "https"):
        raise ConfigError(
            f"the address of the search engine is {where!r}; expected one that begins with http:// or https://"
        )
    if name == "searxng":
        if not where:
            raise ConfigError("search is 'searxng'; expected its address too, such as searxng:http://127.0.0.1:8888")
        return SearxngEngine(where)
    variable = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}[name]
    key = environ.get(variable, "")
    if not key:
        raise ConfigError(f"search is {name!r}, which needs a key: put it into the environment variable {variable}")
    return BraveEngine(key, where or BRAVE_URL) if name == "brave" else TavilyEngine(key, where or TAVILY_URL)
