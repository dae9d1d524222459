"""Search without a network: the files of a folder, or a generated corpus, and a full-text index over them.

The index is SQLite's FTS5 and not tantivy: it is part of Python, so that search works on every machine without a
compiled package, its file can be read while it grows, and it ranks by BM25 with a weight for titles. tantivy is about
a hundred times faster (0.06 against 7.7 ms over 5,000 pages), which is negligible compared with a model's reply.
"""

import asyncio
import functools
import hashlib
import importlib.metadata
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from cua.errors import ConfigError
from cua.research.engines import SearchHit, plain_line
from cua.research.network import Response
from cua.research.pages import decode, plain_text, read_document

CORPORA_GROUP = "k25.corpora"
"""Entry points of generated corpora: functions of a seed and a keyword `size`."""
MAX_FILE_BYTES = 20 * 2**20
MAX_FILES = 100_000
SUFFIXES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".pdf": "application/pdf",
}
FOLDER_URL = "http://folder.invalid/"
"""Base URL of the files of a folder; a name that cannot be registered (RFC 2606)."""
_WORD = re.compile(r"\w+")


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
    index.add(
        (world.base_url + page.path, page.title, page.words, page.date) for page in world.pages.values() if page.words
    )
    return world, index


class LocalIndex:
    """Full-text index; implements `SearchEngine`. Thread-safe by a lock.

    Args:
        path: Path of the file; None for an index in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.name = "local"
        self._lock = threading.Lock()
        self._db = sqlite3.connect(str(path or ":memory:"), check_same_thread=False, isolation_level=None, timeout=60)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # it can be rebuilt
        self._db.execute("CREATE TABLE IF NOT EXISTS files (url TEXT PRIMARY KEY, stamp TEXT, page INTEGER)")
        self._db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS pages USING "
            "fts5(title, body, url UNINDEXED, date UNINDEXED, tokenize='porter unicode61 remove_diacritics 2')"
        )

    def add(self, pages: Iterable[tuple[str, str, str, str]]) -> None:
        """Add pages: address, title, text and date of each."""
        with self._lock:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT INTO pages (url, title, body, date) VALUES (?, ?, ?, ?)", pages)
            self._db.execute("COMMIT")

    def update(self, root: Path, base_url: str) -> int:
        """Update it from a folder; only changed files are read. Return the number of pages.

        Raises:
            ConfigError: If the folder does not exist, or contains too many files.
        """
        files = {base_url + quote(os.fsencode(path.relative_to(root).as_posix())): path for path in find_files(root)}
        with self._lock:
            known = {url: (stamp, page) for url, stamp, page in self._db.execute("SELECT url, stamp, page FROM files")}
            self._db.execute("BEGIN")
            for url, path in files.items():
                stamp = _stamp(path)
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

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """Return the pages with all words; if they are few, also pages with some of them."""
        return await asyncio.to_thread(self._search, query, count)

    def _search(self, query: str, count: int) -> list[SearchHit]:
        words = [f'"{word}"' for word in _WORD.findall(query)[:32]]
        if not words:
            return []
        hits: dict[str, SearchHit] = {}
        for joint in (" ", " OR "):
            for hit in self._match(joint.join(words), count):
                hits.setdefault(hit.url, hit)
            if len(hits) >= count:
                break
        return list(hits.values())[:count]

    def _match(self, expression: str, count: int) -> list[SearchHit]:
        with self._lock:
            rows = self._db.execute(
                "SELECT url, title, snippet(pages, 1, '', '', ' ... ', 24), date FROM pages WHERE pages MATCH ? "
                "ORDER BY bm25(pages, 3.0, 1.0), url LIMIT ?",
                (expression, count),
            ).fetchall()
        return [
            SearchHit(url=url, title=title, snippet=plain_line(words), date=date) for url, title, words, date in rows
        ]

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._lock:
            self._db.close()


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
        text = decode(path.read_bytes())
    except (OSError, ValueError):
        return name, ""
    if path.suffix.lower() in (".html", ".htm"):
        title, words = plain_text(text)
        return title or name, words
    heading = re.search(r"^#\s+(.+)$", text, re.M)
    return heading[1].strip() if heading else name, text
