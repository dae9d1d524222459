"""Generated worlds: the same for the same seed, whole, and what lies around the truth."""

import asyncio
import urllib.error
import urllib.request

import pytest

from envs.registry import load_suite
from envs.suites.widesearch.corpus import make_corpus
from envs.suites.widesearch.scoring import score_table
from envs.suites.widesearch.tasks import CorpusServer, WideSearchTask


def answer_of(task: WideSearchTask, rows: int | None = None) -> str:
    names = [column.name for column in task.columns]
    lines = [" | ".join(row[name] for name in names) for row in task.table.rows[:rows]]
    return "```markdown\n| " + " | ".join(names) + " |\n" + "".join(f"| {line} |\n" for line in lines) + "```"


def test_the_same_seed_makes_the_same_world() -> None:
    assert make_corpus(3, size="tiny") == make_corpus(3, size="tiny")
    assert make_corpus(3, size="tiny") != make_corpus(4, size="tiny")


def test_every_thing_has_its_page_and_stands_on_a_list() -> None:
    corpus = make_corpus(1, size="small")
    for table in corpus.tables:
        listed = "".join(
            page.body.decode()
            for page in corpus.pages.values()
            if page.path.startswith("lists/") and table.list_title in page.title
        )
        for row in table.rows:
            assert row[table.family.key] in listed
    persons = [row[table.family.columns[1].name] for table in corpus.tables for row in table.rows]
    assert len(set(persons)) == len(persons)  # one stands for each, so that what is on its page is the truth


def test_the_full_world_is_large_noisy_and_contradictory() -> None:
    corpus = make_corpus(0, size="full")
    paths = list(corpus.pages)
    assert len(paths) > 5000 and sum(len(table.rows) for table in corpus.tables) == 1440
    for folder in ("mirror/", "elsewhere/", "news/", "forum/", "busy/", "slow/", "gone/"):
        assert any(path.startswith(folder) for path in paths), folder
    assert sum(path.endswith(".pdf") for path in paths) > 30


def test_a_world_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of tiny, small, full"):
        make_corpus(0, size="huge")


def test_tasks_of_the_suite() -> None:
    suite = load_suite("widesearch", size="tiny", num_seeds=2)
    assert suite.task_ids == ("widesearch/bridges-ostland", "widesearch/bridges-velmark")
    task = suite.make_task(suite.task_ids[0], 1)
    assert isinstance(task, WideSearchTask)
    spec = task.spec
    assert (spec.id, spec.seed, spec.metadata["rows"]) == (suite.task_ids[0], 1, 6)
    assert 'listed on "List of bridges in Ostland"' in task.instruction
    assert task.score(answer_of(task)).success == 1.0
    assert task.score(answer_of(task, 3)).item_f1 == pytest.approx(2 / 3)
    assert task.score(None).item_f1 == 0.0


def test_a_mirror_alone_is_not_the_truth() -> None:
    corpus = make_corpus(0, size="small")
    mirrors = [page for page in corpus.pages.values() if page.path.startswith("mirror/")]
    assert mirrors and all("out of date" in page.words for page in mirrors)
    table = corpus.tables[0]
    assert score_table(mirrors[0].words, table.rows, (), keys=()).item_f1 == 0.0


async def test_the_server_has_the_pages_and_their_troubles() -> None:
    server = await CorpusServer.start(0, "tiny")
    try:

        def get(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(server.url + path, timeout=10) as answer:
                    return answer.status, answer.read().decode("utf-8", "replace")
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, ""

        status, page = await asyncio.to_thread(get, "lists/bridges-ostland-1.html")
        assert status == 200 and server.url + "atlas/bridges/" in page
        assert (await asyncio.to_thread(get, "gone/0.html"))[0] == 404
        assert [(await asyncio.to_thread(get, "busy/0.html"))[0] for _ in range(2)] == [429, 200]
        _, found = await asyncio.to_thread(get, "search?q=List+of+bridges+in+Velmark")
        assert found.index("List of bridges in Velmark") < found.index("<ol>") + 400
    finally:
        await server.close()
        await server.close()
