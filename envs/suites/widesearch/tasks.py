"""Suite `widesearch`: collect a table from a generated corpus on loopback; the score is item-F1."""

import asyncio
import functools
import html
import re
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from envs.env import EnvSpec, QuestionTask, TaskSpec, TaskVerdict
from envs.judge import Judge, find_judge
from envs.suite import FAMILY, Baseline, Suite
from envs.suites.widesearch.corpus import REVISION, SIZES, CorpusPage, GeneratedCorpus, Table, make_corpus, slug
from envs.suites.widesearch.scoring import ScoredColumn, Scores, score_table, score_with_judge

MAX_HITS = 10  # as usual for a page of search results
MAX_QUERY_CHARS = 400
_ROBOTS = "User-agent: *\nDisallow: /private/\n"
PREFIX = "widesearch/"
NO_JUDGE = "no judge is named: {columns} is compared as text, and what is worded differently counts as wrong"
_BASELINES = {
    name: Baseline(score=0.0, num_episodes=18, command=f"cua eval widesearch --baseline {name}")
    for name in ("null", "fail", "random")
}


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


class WideSearchTask(QuestionTask):
    """Task to collect one table.

    In a browser the task starts its own server for the corpus. Agents with search tools need no server: `score`
    evaluates their answer.

    Args:
        table: True rows.
        spec: Id and environment of the task.
        size: Size of the corpus.
        judge: Compares texts whose wording may differ; None compares them as strings.
    """

    def __init__(self, table: Table, spec: TaskSpec, *, size: str, judge: Judge | None = None) -> None:
        self.table = table
        self.spec = spec
        self.columns = columns_of(table)
        self.instruction = self._instruct()
        self.search = f"local:world:{spec.seed or 0}:{size}"
        self._size = size
        self._server: CorpusServer | None = None
        self._judge = judge
        texts = ", ".join(column.name for column in self.columns if column.metric == "judge")
        self.warnings = [NO_JUDGE.format(columns=texts)] if texts and judge is None else []

    def _instruct(self, address_note: str = "") -> str:
        names = " | ".join(column.name for column in self.columns)
        return (
            f"Collect {', '.join(column.name for column in self.columns)} of all {self.table.family.plural} "
            f'in {self.table.country} that are listed on "{self.table.list_title}".{address_note}\n\n'
            "Answer with one table in Markdown, in a fenced block with the tag markdown, one row for each, and exactly "
            f"these columns:\n| {names} |\nDates as YYYY-MM-DD, numbers without unit. The pages of the atlas are "
            "right; mirrors of it may be out of date, and things of the same name exist in other countries."
        )

    def score(self, answer: str | None) -> Scores:
        """Score an answer, comparing texts as strings."""
        return score_table(answer, self.table.rows, self.columns, keys=(self.table.family.key,))

    async def setup(self, env: Any) -> None:
        """Start the server of the corpus and open its start page."""
        self._server = await CorpusServer.start(self.spec.seed or 0, self._size)
        self.instruction = self._instruct(f" The encyclopedia is at {self._server.url}; it has a search field.")
        try:
            await env.goto(self._server.url)
        except BaseException:
            await self.teardown(env)
            raise

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Return item-F1 of the agent's final answer.

        Other scores: row-F1 and, with a judge, item-F1 without it.

        Raises:
            EnvDiedError: If the judge does not answer, or its answer is not a verdict.
        """
        answer = env.terminate.answer if env.terminate is not None else None
        scores = plain = self.score(answer)
        if self._judge is not None:
            keys = (self.table.family.key,)
            scores = await score_with_judge(answer, self.table.rows, self.columns, keys=keys, judge=self._judge)
        others = {"row_f1": scores.row_f1} | ({} if self._judge is None else {"as_text": plain.item_f1})
        other_scores = {name: min(score, 1.0) for name, score in others.items()}
        return TaskVerdict(min(scores.item_f1, 1.0), other_scores=other_scores)

    async def teardown(self, env: Any) -> None:
        """Stop the server."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()


def columns_of(table: Table) -> tuple[ScoredColumn, ...]:
    """Return the comparison rule of each column of a table."""
    family = table.family
    key = ScoredColumn(name=family.key, metric="exact", aliases=("Name",))
    others = [
        ScoredColumn(name=column.name, metric=column.metric, aliases=column.labels[:1]) for column in family.columns
    ]
    return (key, *others)


@functools.lru_cache(maxsize=4)
def _load_corpus(seed: int, size: str) -> GeneratedCorpus:
    return make_corpus(seed, size=size)


def make_suite(size: str = "small", num_seeds: int = 3, judge: str = "", judge_url: str = "") -> Suite:
    """Make tasks to collect all items of a family in a country.

    Args:
        size: `tiny`, `small` or `full`; see `SIZES` in the module `corpus`.
        num_seeds: Number of generated corpora.
        judge: Model that compares free texts; "" compares them as strings.
        judge_url: Endpoint of the judge; "" uses `OPENAI_BASE_URL`.

    Raises:
        ValueError: If a value is invalid.
        EnvSetupError: If only one of `judge` and its endpoint is given.
    """
    if size not in SIZES:
        raise ValueError(f"size is {size!r}, expected one of {', '.join(SIZES)}")
    if not 1 <= int(num_seeds) <= 1000:
        raise ValueError(f"num_seeds is {num_seeds}, expected 1 to 1000")
    asked = find_judge(judge, judge_url)
    ids = tuple(f"{PREFIX}{_id(table)}" for table in _load_corpus(0, size).tables)

    def make_task(task_id: str, seed: int | None) -> WideSearchTask:
        tables = {f"{PREFIX}{_id(table)}": table for table in _load_corpus(seed or 0, size).tables}
        if task_id not in tables:
            raise ValueError(f"the suite widesearch has no task {task_id!r} here; expected one such as {ids[0]!r}")
        table = tables[task_id]
        metadata = {FAMILY: table.family.plural, "rows": len(table.rows), "size": size}
        spec = TaskSpec(id=task_id, seed=seed, env=EnvSpec(name="browser"), metadata=metadata)
        return WideSearchTask(table, spec, size=size, judge=asked)

    return Suite(
        name="widesearch",
        about=f"Wide search on generated corpora: {len(ids)} tables to collect, {size}; score: item-F1",
        task_ids=ids,
        make_task=make_task,
        seeds=tuple(range(int(num_seeds))),
        revision=f"{REVISION}, judged by {judge}" if asked is not None else REVISION,
        max_steps=100,
        max_time_s=1800.0,
        agents=("tools", "swarm", "gui"),
        baselines=_BASELINES,
    )


def _id(table: Table) -> str:
    return f"{table.family.plural}-{slug(table.country)}"
