"""The local index: its time, its ranking over long texts, and its file."""

import asyncio
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cua.research import local
from cua.research.engines import SearchHit
from cua.research.local import FOLDER_URL, MAX_RARE, LocalIndex
from cua.research.network import FetchError

WORDS = [f"w{number}" for number in range(5000)]


def make_text(num_words: int, *, share: float, word: str = "the", seed: int = 1) -> str:
    drawn = random.Random(seed)
    return " ".join(word if drawn.random() < share else drawn.choice(WORDS) for _ in range(num_words))


def make_index(*pages: tuple[str, str]) -> LocalIndex:
    index = LocalIndex()
    index.add((f"http://x.test/{number}", title, text, "") for number, (title, text) in enumerate(pages))
    return index


async def search(index: LocalIndex, query: str, count: int = 5) -> list[str]:
    return [hit.title for hit in await index.search(query, count)]


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        (["giraffe " * 20_000], "giraffe"),
        (["a " * 100_000], "a"),
        ([make_text(60_000, share=0.06, seed=seed) for seed in range(5)], "when was the w17 opened in the w30"),
        (["the of and " * 20_000] * 3, "the of and"),
    ],
)
async def test_the_time_of_a_search_does_not_grow_with_the_matches_of_a_text(texts: list[str], query: str) -> None:
    index = make_index(*((f"Book {number}", text) for number, text in enumerate(texts)))
    began = time.process_time()
    assert len(await index.search(query, 10)) == len(texts)
    assert time.process_time() - began < 0.5
    index.close()


async def test_the_snippet_of_a_long_text_is_from_its_best_passage() -> None:
    around = make_text(20_000, share=0)
    text = f"w1 and then {around} the quokka met w1 at the Velmark viaduct {around}"
    index = make_index(("Long", text), ("Short", "A quokka."))
    hits = await index.search("quokka Velmark viaduct", 5)
    assert [hit.title for hit in hits] == ["Long", "Short"]
    assert "quokka met w1 at the Velmark viaduct" in hits[0].snippet and hits[0].snippet.startswith("... ")
    index.close()


async def test_a_text_with_all_words_comes_before_one_with_some_even_if_they_are_far_apart() -> None:
    far = f"quokka {make_text(20_000, share=0)} viaduct"
    index = make_index(("One word", "quokka quokka"), ("Far apart", far), ("Another", "viaduct"))
    assert (await search(index, "quokka viaduct"))[0] == "Far apart"
    index.close()


async def test_a_word_in_most_of_the_passages_does_not_hide_the_others() -> None:
    pages = [(f"Page {number}", "the bridge") for number in range(MAX_RARE + 500)]
    pages[50] = ("The bridge", "by the river")
    pages[100] = ("Rare", "the quokka by the river")
    pages[MAX_RARE + 400] = ("Both", "the quokka on the bridge")
    index = make_index(*pages)
    assert (await search(index, "the quokka on a bridge"))[:2] == ["Both", "Rare"]
    assert len(await search(index, "the quokka on a bridge")) == 5
    assert (await search(index, "the bridge"))[0] == "The bridge"
    assert len(await search(index, "the")) == 5
    index.close()


async def test_a_cancelled_search_ends() -> None:
    started, ended = threading.Event(), threading.Event()

    class EndlessIndex(LocalIndex):
        def _search(self, query: str, count: int, is_stopped: Callable[[], bool] = lambda: False) -> list[SearchHit]:
            started.set()
            while not is_stopped():
                time.sleep(0.01)
            ended.set()
            return []

    task = asyncio.ensure_future(EndlessIndex().search("word", 5))
    assert await asyncio.to_thread(started.wait, 10)
    task.cancel()
    assert await asyncio.to_thread(ended.wait, 10)


async def test_a_search_is_interrupted_within_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    index = make_index(*((f"Page {number}", "word") for number in range(1000)))
    with pytest.raises(FetchError, match="took longer than"):
        index._search("word", 5, lambda: True)
    monkeypatch.setattr(local, "MAX_SEARCH_S", 0.0)
    with pytest.raises(FetchError, match="took longer than 0 s; use fewer, rarer words"):
        await index.search("word", 5)
    index.close()


async def test_a_search_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    index = LocalIndex(tmp_path / "index.sqlite")
    index.add([("http://x.test/", "A page", "about nothing", "")])
    with index._writing():
        index._insert("http://x.test/2", "Another page", "")
        assert await asyncio.wait_for(search(index, "page"), 10) == ["A page"]
    assert await search(index, "page") == ["Another page", "A page"]
    index.close()


async def test_what_fails_while_it_is_written_leaves_the_index_as_it_was() -> None:
    index = make_index(("A page", ""))
    with pytest.raises(sqlite3.Error):
        index.add([("http://x.test/2", "Another page", "", ""), ("http://x.test/3", object(), "", "")])  # type: ignore[list-item]
    index.add([("http://x.test/4", "Third page", "", "")])
    assert await search(index, "page") == ["A page", "Third page"]
    index.close()


async def test_an_index_of_an_earlier_version_is_rebuilt(tmp_path: Path) -> None:
    docs, path = tmp_path / "docs", tmp_path / "index.sqlite"
    docs.mkdir()
    (docs / "a.md").write_text("# Notes\nquokka")
    with sqlite3.connect(path) as db:  # the tables of version 0.2.0, with the stamp of the file
        db.execute("CREATE TABLE files (url TEXT PRIMARY KEY, stamp TEXT, page INTEGER)")
        db.execute("CREATE VIRTUAL TABLE pages USING fts5(title, body, url UNINDEXED, date UNINDEXED)")
        db.execute("INSERT INTO pages VALUES ('Old', 'numbat', ?, '')", (f"{FOLDER_URL}a.md",))
        stat = (docs / "a.md").stat()
        db.execute("INSERT INTO files VALUES (?, ?, 1)", (f"{FOLDER_URL}a.md", f"{stat.st_mtime_ns}:{stat.st_size}"))
    db.close()
    for _ in range(2):
        index = LocalIndex(path)
        assert index.update(docs, FOLDER_URL) == 1
        assert (await search(index, "quokka"), await search(index, "numbat")) == (["Notes"], [])
        tables = [name for (name,) in index._db.execute("SELECT name FROM sqlite_master")]
        assert "passages" in tables and not {"files", "pages"} & set(tables)
        index.close()
