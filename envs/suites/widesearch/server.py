"""HTTP server on loopback for a generated corpus: its pages with their faults, robots.txt, and a search page."""

import asyncio
import html
import re
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from envs.suites.widesearch.corpus import CorpusPage, GeneratedCorpus, make_corpus

MAX_HITS = 10  # as usual for a page of search results
MAX_QUERY_CHARS = 400
_ROBOTS = "User-agent: *\nDisallow: /private/\n"


class CorpusServer:
    """HTTP server of a generated corpus; `start` creates one, `close` stops it.

    Attributes:
        corpus: Served corpus; its addresses point to this server.
        url: Address of the start page.
    """

    def __init__(self, seed: int, size: str) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler, bind_and_activate=True)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/"
        self.corpus: GeneratedCorpus = make_corpus(seed, size=size, base_url=self.url)
        _Handler.serve(self._http, self.corpus)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @classmethod
    async def start(cls, seed: int, size: str) -> "CorpusServer":
        """Start a server."""
        return await asyncio.to_thread(cls, seed, size)

    async def close(self) -> None:
        """Stop the server. May be called twice."""
        await asyncio.to_thread(self.stop)

    def stop(self) -> None:
        """Stop the server without an event loop."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()


class _Served:
    """Corpus and the request counts of its busy pages."""

    def __init__(self, corpus: GeneratedCorpus) -> None:
        self.corpus = corpus
        self._asked: dict[str, int] = {}
        self._lock = threading.Lock()

    def is_busy(self, page: CorpusPage) -> bool:
        with self._lock:
            self._asked[page.path] = self._asked.get(page.path, 0) + 1
            return self._asked[page.path] <= page.num_busy


class _Handler(BaseHTTPRequestHandler):
    """Request handler of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    @staticmethod
    def serve(server: ThreadingHTTPServer, corpus: GeneratedCorpus) -> None:
        server.served = _Served(corpus)  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        served: _Served = self.server.served  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        path = parts.path.lstrip("/")
        page = served.corpus.pages.get(path)
        if path in ("", "search"):
            query = parse_qs(parts.query).get("q", [""])[0][:MAX_QUERY_CHARS]
            self._send(200, _search_page(served.corpus, query).encode(), "text/html; charset=utf-8")
        elif path == "robots.txt":
            self._send(200, _ROBOTS.encode(), "text/plain")
        elif page is None or page.status != 200:
            self._send(404, b"<h1>Not found</h1>", "text/html")
        elif served.is_busy(page):
            self._send(429, b"busy", "text/plain", {"Retry-After": "0"})
        else:
            time.sleep(page.delay_s)
            self._send(200, page.body, page.media_type)

    def _send(self, status: int, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": media_type, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _search_page(corpus: GeneratedCorpus, query: str) -> str:
    hits = find_pages(corpus, query) if query.strip() else []
    items = "".join(
        f'<li><a href="/{html.escape(page.path)}">{html.escape(page.title)}</a> {html.escape(page.words[:160])}</li>'
        for page in hits
    )
    form = (
        f'<form action="/search"><input name="q" size="60" value="{html.escape(query)}"> <button>Search</button></form>'
    )
    return f"<!doctype html><title>Atlas</title><h1>Atlas</h1>{form}<ol>{items}</ol>"


def find_pages(corpus: GeneratedCorpus, query: str, count: int = MAX_HITS) -> list[CorpusPage]:
    """Return the pages that contain the most words of a query; title matches come first."""
    wanted = set(re.findall(r"\w+", query.lower()))

    def rank(page: CorpusPage) -> tuple[int, int]:
        title = set(re.findall(r"\w+", page.title.lower()))
        return len(wanted & title), len(wanted & set(re.findall(r"\w+", page.words.lower())))

    ranked = sorted(
        ((rank(page), page) for page in corpus.pages.values() if page.words), key=lambda pair: pair[0], reverse=True
    )
    return [page for ranks, page in ranked[:count] if any(ranks)]
