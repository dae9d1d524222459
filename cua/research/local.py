"""Search without a network: the files of a folder, or a generated corpus, and a full-text index over them.

The index is SQLite's FTS5 and not tantivy: it is part of Python, so that search works on every machine without a
compiled package, its file can be read while it grows, and it ranks by BM25 with a weight for titles. tantivy is about
a hundred times faster (0.06 against 7.7 ms over 5,000 pages), which is negligible compared with a model's reply.
"""

import asyncio
import contextlib
import functools
import hashlib
import importlib.metadata
import os
import re
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from cua.errors import ConfigError
from cua.research.engines import SearchHit, plain_line
from cua.research.network import FetchError, Response
from cua.research.pages import decode, is_text, plain_text, read_document

CORPORA_GROUP = "k25.corpora"
"""Entry points of generated corpora: functions of a seed and a keyword `size`."""
MAX_FILE_BYTES = 20 * 2**20  # larger files are data, not text to read, and would dominate the index
MAX_FILES = 100_000  # bounds the time to build the index: a wrong folder is noticed at once
SUFFIXES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".pdf": "application/pdf",
}
FOLDER_URL = "http://folder.invalid/"
"""Base URL of the files of a folder; a name that cannot be registered (RFC 2606)."""
MAX_SEARCH_S = 5.0
"""Time limit of a search; over 100 MB of text, one takes at most 0.2 s of a processor."""
MAX_RARE, MAX_SCORED = 4000, 12_000
"""Limits of the passages that one word selects, and of those that are scored in one query."""
_NUM_COMMON, _NUM_LEADING = 3, 8
"""Number of common words that are searched for, and of the first passages of each text in which they are."""
_SNIPPET_WORDS = 24  # two lines of context around a match
_MARK = "\ue000"
_WORD = re.compile(r"\w+")
_PASSAGE = re.compile(r".{2000,4000}(?=\s|\Z)|.{1,4000}", re.S)
_PASSAGE_BITS = 20
"""Row ids of passages are the document's id, shifted by these bits, plus the number of the passage."""
_SCORED = "rowid, bm25(passages, 3.0, 1.0)"
_IN_MEMORY = "vfs=memdb" if sqlite3.sqlite_version_info >= (3, 36) else "mode=memory&cache=shared"
"""Parameters of a database in memory for several connections; with the latter they wait for each other."""
_SCHEMA_VERSION = 2  # raised when the tables change; an index of another version is rebuilt
_SCHEMA = (
    *(f"DROP TABLE IF EXISTS {name}" for name in ("files", "pages", "documents", "passages")),
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, url TEXT, title TEXT, date TEXT, stamp TEXT)",
    "CREATE VIRTUAL TABLE passages USING fts5(title, body, tokenize='porter unicode61 remove_diacritics 2')",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)
"""Statements that make the tables in place of those of another version."""


class FolderCorpus:
    """Files of a folder; implements `Corpus`."""

    def __init__(self, root: Path) -> None:
        self.base_url = FOLDER_URL
        self._root = root.resolve()

    def read(self, url: str) -> Response | None:
        """Return a file; files outside the folder and hidden files do not exist."""
        inner = unquote(urlsplit(url).path, errors="surrogateescape").lstrip("/")
        path = self._root / inner
        if (
            "\0" in inner
            or any(part.startswith(".") for part in Path(inner).parts)
            or path.suffix.lower() not in SUFFIXES
        ):
            return None
        try:
            if not path.resolve().is_relative_to(self._root) or path.is_symlink() or not path.is_file():
                return None
            body = path.read_bytes()
        except OSError:
            return None
        return Response(status=200, headers={"content-type": SUFFIXES[path.suffix.lower()]}, body=body)


class WorldCorpus:
    """Generated corpus; implements `Corpus`."""

    def __init__(self, world: Any) -> None:
        self.base_url: str = world.base_url
        self._world = world

    def read(self, url: str) -> Response | None:
        """Return a page of the corpus."""
        page = self._world.pages.get(url.removeprefix(self.base_url))
        if page is None or page.status == 404:
            return None
        return Response(status=200, headers={"content-type": page.media_type}, body=page.body)


def index_path(root: Path) -> Path:
    """Return the path where the index of a folder is kept between runs."""
    import platformdirs

    folder = Path(platformdirs.user_cache_dir("k25")) / "search"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]}.sqlite"


@functools.lru_cache(maxsize=2)
def indexed_world(seed: int, size: str) -> tuple[Any, "LocalIndex"]:
    """Return a corpus and its index, which are read-only and shared by the runs of an evaluation."""
    entries = list(importlib.metadata.entry_points(group=CORPORA_GROUP, name="world"))
    if not entries:
        raise ConfigError(f"no installed package has an entry point `world` in the group {CORPORA_GROUP!r}")
    world = entries[0].load()(seed, size=size)
    index = LocalIndex()
    pages = sorted((page for page in world.pages.values() if page.words), key=lambda page: page.path)
    index.add((world.base_url + page.path, page.title, page.words, page.date) for page in pages)
    return world, index


class LocalIndex:
    """Full-text index; implements `SearchEngine`. Thread-safe: each search has its own connection.

    A document is indexed as passages of bounded size, each with the title; its rank is that of its best passage. Words
    in more than `MAX_RARE` passages ("the", in a large corpus) do not select passages as long as there are others, so
    that the time of a search does not grow with the corpus.

    Args:
        path: Path of the file; None for an index in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.name = "local"
        self._uri = path.absolute().as_uri() if path else f"file:/k25-{uuid.uuid4().hex}?{_IN_MEMORY}"
        self._lock = threading.Lock()
        self._db = self._connect()
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # it can be rebuilt
        with self._writing():
            if self._db.execute("PRAGMA user_version").fetchone() != (_SCHEMA_VERSION,):
                for statement in _SCHEMA:
                    self._db.execute(statement)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._uri, uri=True, check_same_thread=False, isolation_level=None, timeout=60)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock of writers and a transaction, which is rolled back after an error."""
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield

    def add(self, pages: Iterable[tuple[str, str, str, str]]) -> None:
        """Add pages: address, title, text and date of each."""
        with self._writing():
            for url, title, text, date in pages:
                self._insert(url, title, text, date=date)

    def update(self, root: Path, base_url: str) -> int:
        """Update it from a folder; only changed files are read. Return the number of pages.

        Raises:
            ConfigError: If the folder does not exist, or contains too many files.
        """
        files = {base_url + quote(os.fsencode(path.relative_to(root).as_posix())): path for path in find_files(root)}
        with self._writing():
            known = {
                url: (stamp, page) for url, stamp, page in self._db.execute("SELECT url, stamp, id FROM documents")
            }
            for url, path in files.items():
                stamp = _stamp(path)
                if url in known and known[url][0] == stamp:
                    continue
                self._forget(url, known)
                self._insert(url, *_indexed(path, url), stamp=stamp)
            for url in known.keys() - files.keys():
                self._forget(url, known)
        return len(files)

    def _insert(self, url: str, title: str, text: str, *, date: str = "", stamp: str = "") -> None:
        row = self._db.execute(
            "INSERT INTO documents (url, title, date, stamp) VALUES (?, ?, ?, ?)", (url, title, date, stamp)
        )
        first = (row.lastrowid or 0) << _PASSAGE_BITS
        parts = ((first + n, title, part) for n, part in enumerate(_PASSAGE.findall(text) or [""]))
        self._db.executemany("INSERT INTO passages (rowid, title, body) VALUES (?, ?, ?)", parts)

    def _forget(self, url: str, known: Mapping[str, tuple[str, int]]) -> None:
        if url in known:
            page = known[url][1]
            last = (page + 1 << _PASSAGE_BITS) - 1
            self._db.execute("DELETE FROM passages WHERE rowid BETWEEN ? AND ?", (page << _PASSAGE_BITS, last))
            self._db.execute("DELETE FROM documents WHERE id = ?", (page,))

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """Return the pages with all words; if they are few, also pages with some of them.

        Raises:
            FetchError: If it takes longer than `MAX_SEARCH_S`.
        """
        stop = threading.Event()
        try:
            return await asyncio.to_thread(self._search, query, count, stop.is_set)
        finally:
            stop.set()  # for a thread that is still searching, after a cancellation

    def _search(self, query: str, count: int, is_stopped: Callable[[], bool] = lambda: False) -> list[SearchHit]:
        words = [f'"{word}"' for word in _WORD.findall(query)[:32] if word.strip("_")]
        deadline = time.monotonic() + MAX_SEARCH_S
        with contextlib.closing(self._connect()) as db:
            db.set_progress_handler(lambda: is_stopped() or time.monotonic() > deadline, 1000)
            try:
                db.execute("BEGIN")  # the same state for all queries
                return [_hit(db, words, row) for row in _rank(db, words, count)]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                raise FetchError(f"the search took longer than {MAX_SEARCH_S:g} s; use fewer, rarer words") from None

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._db.close()


def _rank(db: sqlite3.Connection, words: Sequence[str], count: int) -> list[int]:
    """Return the best passage of each of the best documents, as row ids."""
    rows = {word: {row for (row,) in _rows(db, "rowid", word, MAX_RARE + 1)} for word in words}
    rare = sorted((word for word in words if len(rows[word]) <= MAX_RARE), key=lambda word: len(rows[word]))
    common = sorted(rows.keys() - set(rare), key=lambda word: (-len(word), word))[:_NUM_COMMON]
    num_words = Counter(page for word in rare for page in {row >> _PASSAGE_BITS for row in rows[word]})
    totals = accumulate(len(rows[word]) for word in rare)
    selecting = " OR ".join(word for word, total in zip(rare, totals, strict=True) if total <= MAX_SCORED)
    stages = [[selecting, *([f"({selecting}) AND ({' OR '.join(common)})"] if common else [])]] if rare else []
    if common:  # first titles; at last only the longest word, because stop words are short
        stages += [[f"title : ({' AND '.join(common)})"], [" AND ".join(common)], [common[0]]]
    hits: dict[int, int] = {}
    for number, stage in enumerate(stages):
        max_number = 1 << _PASSAGE_BITS if rare and not number else _NUM_LEADING
        best: dict[int, tuple[float, int]] = {}
        for row, score in (scored for words in stage for scored in _rows(db, _SCORED, words, MAX_SCORED, max_number)):
            best[row >> _PASSAGE_BITS] = min(best.get(row >> _PASSAGE_BITS, (score, row)), (score, row))
        for page in sorted(best, key=lambda page: (num_words[page] < len(rare), best[page])):
            hits.setdefault(page, best[page][1])
        if len(hits) >= count:
            break
    return list(hits.values())[:count]


def _rows(
    db: sqlite3.Connection, columns: str, expression: str, limit: int, max_number: int = 1 << _PASSAGE_BITS
) -> list[Any]:
    """Return columns of up to `limit` matching passages, of those with a number below `max_number` in their text."""
    query = f"SELECT {columns} FROM passages WHERE passages MATCH ? AND rowid & ? < ? LIMIT ?"
    return db.execute(query, (expression, (1 << _PASSAGE_BITS) - 1, max_number, limit)).fetchall()


def _hit(db: sqlite3.Connection, words: Sequence[str], row: int) -> SearchHit:
    """Return a passage as a hit. Not by `snippet()`, whose time is quadratic in the number of matches."""
    url, title, date, marked = db.execute(
        "SELECT url, documents.title, date, highlight(passages, 1, ?, '') FROM passages, documents "
        "WHERE passages MATCH ? AND passages.rowid = ? AND id = ?",
        (_MARK, " OR ".join(words), row, row >> _PASSAGE_BITS),
    ).fetchone()
    return SearchHit(url=url, title=title, snippet=plain_line(_snippet(marked.split())), date=date)


def _snippet(words: Sequence[str]) -> str:
    """Return the part of a text with the most of its marked words, different ones first."""
    marked = Counter[str]()
    best, start = (0, 0), 0
    for end, word in enumerate(words):
        if _MARK in word:
            marked[word] += 1
        if end >= _SNIPPET_WORDS and _MARK in (gone := words[end - _SNIPPET_WORDS]):
            marked[gone] -= 1
        value = (len(+marked), marked.total())
        if value > best:
            best, start = value, max(0, end - _SNIPPET_WORDS + 1)
    shown = " ".join(words[start : start + _SNIPPET_WORDS]).replace(_MARK, "")
    return f"{'... ' if start else ''}{shown}{' ...' if start + _SNIPPET_WORDS < len(words) else ''}"


def find_files(root: Path) -> Sequence[Path]:
    """Return the files of a folder that can be read as pages, without links and hidden files."""
    if not root.is_dir():
        raise ConfigError(f"there is no folder {str(root)!r} to search in")
    files = []
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root).parts
        if (
            path.suffix.lower() in SUFFIXES
            and not any(part.startswith(".") for part in inner)
            and _is_own_file(path, root)
        ):
            files.append(path)
        if len(files) > MAX_FILES:
            raise ConfigError(f"{root} holds more than {MAX_FILES} files to search in; name a folder below it")
    return files


def _is_own_file(path: Path, root: Path) -> bool:
    """Return True if it is a file within the folder, not reached through a link, and of limited size."""
    return (
        not path.is_symlink()
        and path.is_file()
        and path.resolve().is_relative_to(root.resolve())
        and (path.stat().st_size <= MAX_FILE_BYTES)
    )


def _stamp(path: Path) -> str:
    """Return a stamp that changes with the file; "" for a file that no longer exists."""
    try:
        stat = path.stat()
    except OSError:
        return ""
    return f"{stat.st_mtime_ns}:{stat.st_size}"


def _indexed(path: Path, url: str) -> tuple[str, str]:
    """Return title and text of a file."""
    name = os.fsencode(path.name).decode("utf-8", "replace")
    try:
        if path.suffix.lower() == ".pdf":
            document = read_document(path.read_bytes(), SUFFIXES[".pdf"], url)
            return document.title, document.text
        body = path.read_bytes()
        text = decode(body) if is_text(body) else ""
    except (OSError, ValueError):
        return name, ""
    if path.suffix.lower() in (".html", ".htm"):
        title, words = plain_text(text)
        return title or name, words
    heading = re.search(r"^#\s+(.+)$", text, re.M)
    return heading[1].strip() if heading else name, text
