"""Pages that the hosts of a cluster share: each is fetched by one of them."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cua.research.fetch import Fetcher, FetchLimits
from cua.research.network import AddressRules, FetchError
from cua.swarm import executor as module
from cua.swarm import run_swarm
from cua.swarm.pages import PageStore, SharedPages
from tests.cua.research.site import Answer, Asked, Site, serving
from tests.cua.swarm.test_children import conversations, make_worker
from tests.cua.swarm.test_executor import RAY, hosts  # noqa: F401  # a fixture
from tests.cua.swarm.test_swarm import call, calls

pytest.importorskip("trafilatura")


class Direct:
    """Link of a host to a store in this process."""

    def __init__(self, store: PageStore) -> None:
        self._verbs, self._tasks = store.verbs(self), set[asyncio.Task[Any]]()

    async def ask(self, verb: str, *values: Any) -> Any:
        return await self._verbs[verb](*values)

    def tell(self, verb: str, *values: Any) -> None:
        self._tasks.add(asyncio.ensure_future(self._verbs[verb](*values)))


def fetcher(site: Site, link: Direct) -> Fetcher:
    rules = AddressRules(allow_hosts=frozenset({site.host}))
    return Fetcher(rules=rules, obeys_robots=False, pages=SharedPages(link))


async def test_a_page_in_several_chunks_is_fetched_by_one_host_and_read_by_all() -> None:
    asked = Counter[str]()
    body = bytes(range(256)) * 10_000

    def answer(request: Asked) -> Answer:
        asked[request.path] += 1
        return Answer(body, headers={"Content-Type": "text/plain; charset=utf-8"})

    with serving(answer) as site:
        store = PageStore(FetchLimits())
        fetchers = [fetcher(site, Direct(store)) for _ in range(3)]
        found = await asyncio.gather(*(one.fetch(f"{site.url}/a") for one in fetchers))
    assert asked == {"/a": 1}
    assert {(page.url, page.media_type, page.charset, page.body) for page in found} == {
        (f"{site.url}/a", "text/plain", "utf-8", body)
    }


async def test_a_page_that_its_host_could_not_fetch_is_fetched_by_another() -> None:
    asked = Counter[str]()

    def answer(request: Asked) -> Answer:
        asked[request.path] += 1
        return Answer(b"gone", status=404) if asked[request.path] == 1 else Answer(b"here")

    with serving(answer) as site:
        store = PageStore(FetchLimits())
        found = await asyncio.gather(
            *(fetcher(site, Direct(store)).fetch(f"{site.url}/a") for _ in range(3)), return_exceptions=True
        )
    assert [type(one).__name__ for one in found] == ["FetchError", "Fetched", "Fetched"]
    assert asked == {"/a": 2}


async def test_a_lost_host_keeps_no_page_from_the_others() -> None:
    store = PageStore(FetchLimits())
    lost, other = Direct(store), Direct(store)
    assert await SharedPages(lost).claim(("http://a/", 10)) is None
    waiting = asyncio.create_task(SharedPages(other).claim(("http://a/", 10)))
    await asyncio.sleep(0)
    assert not waiting.done()
    store.release_all(lost)
    assert await asyncio.wait_for(waiting, 5) is None


async def test_the_limits_of_a_run_hold_for_all_hosts_together() -> None:
    store = PageStore(FetchLimits(num_pages=2))
    for number in range(2):
        assert await SharedPages(Direct(store)).claim((f"http://a/{number}", 10)) is None
    with pytest.raises(FetchError, match="limit is reached"):
        await SharedPages(Direct(store)).claim(("http://a/2", 10))


async def test_children_of_several_hosts_browse_a_page_that_is_fetched_once(
    tmp_path: Path,
    hosts: list[float],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "count_free_cpus", lambda: 9)  # a host for each child
    asked = Counter[str]()

    def answer(request: Asked) -> Answer:
        asked[request.path] += 1
        return Answer(b"<title>T</title><p>Words of a page.</p>", headers={"Content-Type": "text/html"})

    with serving(answer) as site:
        browse = calls(call("browse", url=f"{site.url}/a"))
        assigned = [call("assign_task", agent="worker", prompt=name) for name in ("one", "two")]
        model = conversations(
            every=[calls(make_worker()), calls(*assigned), "all done"], one=[browse, "done"], two=[browse, "done"]
        )
        settings: dict[str, Any] = {"search": f"searxng:{site.url}", "search_allow": (site.host,)}
        options = replace(RAY, tools=None)
        done = await run_swarm(
            "every", model=model, options=options, runs_dir=tmp_path, search_robots=False, approve="yolo", **settings
        )
    assert [child.state for child in done.children] == ["finished"] * 2
    assert asked == {"/a": 1}
    pages = list((Path(str(done.run.run_dir)) / "children").glob("*/files/pages/*"))
    assert len({page.name for page in pages}) < len(pages)
