"""Search engines, against servers that speak their wire formats, and the index over a folder."""

import asyncio
import os
from pathlib import Path

import pytest

from cua.research.engines import BraveEngine, SearchHit, SearxngEngine, TavilyEngine
from cua.research.fetch import make_web
from cua.research.local import FOLDER_URL, LocalIndex
from cua.research.network import FetchError
from envs.suites.widesearch.corpus import make_pdf
from tests.cua.research.site import Answer, serving

pytest.importorskip("trafilatura")

SEARXNG = b"""{"query": "q", "number_of_results": 0, "results": [
 {"url": "https://a.example/1", "title": "One", "content": "First <b>words</b>", "publishedDate": "2024-01-02T00:00:00",
  "engine": "x", "score": 1.0},
 {"url": "javascript:alert(1)", "title": "bad"}, {"title": "not an address"}, 7]}"""
BRAVE = b"""{"type": "search", "web": {"type": "search", "results": [
 {"title": "One", "url": "https://a.example/1", "description": "First <strong>words</strong>",
  "age": "2 January 2024"}]}}"""
TAVILY = b"""{"query": "q", "answer": null, "images": [], "response_time": 0.5, "results": [
 {"title": "One", "url": "https://a.example/1", "content": "First words", "score": 0.9, "raw_content": null}]}"""


def one(date: str = "") -> list[SearchHit]:
    return [SearchHit(url="https://a.example/1", title="One", snippet="First words", date=date)]


async def test_searxng() -> None:
    with serving(lambda asked: Answer(SEARXNG)) as site:
        assert await SearxngEngine(site.url + "/").search("two words & more", 5) == one("2024-01-02T00:00:00")
        assert site.asked[0].path == "/search?q=two+words+%26+more&format=json"


async def test_a_searxng_that_gives_no_json_says_what_to_set() -> None:
    with serving(lambda asked: Answer(status=403)) as site, pytest.raises(FetchError, match=r"formats: \[html, json\]"):
        await SearxngEngine(site.url).search("q", 5)


async def test_brave() -> None:
    with serving(lambda asked: Answer(BRAVE)) as site:
        assert await BraveEngine("k3y", site.url).search("q", 50) == one("2 January 2024")
        assert site.asked[0].path == "/res/v1/web/search?q=q&count=20"
        assert site.asked[0].headers["x-subscription-token"] == "k3y"


async def test_tavily() -> None:
    with serving(lambda asked: Answer(TAVILY)) as site:
        assert await TavilyEngine("k3y", site.url).search("q", 3) == one()
        assert (site.asked[0].path, site.asked[0].body) == ("/search", {"query": "q", "max_results": 3})
        assert site.asked[0].headers["authorization"] == "Bearer k3y"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(b"Invalid token", status=401), "answered 401: Invalid token"),
        (Answer(b"<html>", status=200), "not JSON"),
        (Answer(b"x" * 6_000_000), "larger than"),
    ],
)
async def test_an_engine_that_fails_says_how(answer: Answer, why: str) -> None:
    with serving(lambda asked: answer) as site, pytest.raises(FetchError, match=why):
        await BraveEngine("k", site.url).search("q", 5)


LIMITED = b"""{"type": "ErrorResponse", "time": 1700000000, "error": {"id": "1", "status": 429, "code": "RATE_LIMITED",
 "detail": "Request rate limit exceeded for plan.", "meta": {"plan": "Free", "rate_limit": 1, "rate_current": 1}}}"""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            Answer(b'{"detail": {"error": "Unauthorized: missing or invalid API key."}}', status=401),
            "401: Unauthorized",
        ),
        (Answer(b'{"detail": {"error": "This request exceeds your plan."}}', status=432), "432: This request exceeds"),
        (Answer(b'{"detail": "Not found"}', status=404), "answered 404: Not found$"),
        (Answer(b'{"error": {"message": "boom"}}', status=400), "answered 400: boom$"),
        (Answer(b"<!doctype html><title>Sign in</title>"), "a page of HTML that is not JSON"),
        (Answer(b"<html><h1>Bad gateway</h1>", status=418), "answered 418: Bad gateway$"),
        (Answer(b"[" * 200_000), "not JSON"),
        (Answer(LIMITED, 429, {"X-RateLimit-Remaining": "1, 0", "X-RateLimit-Reset": "1, 1419704"}), "wait 1419704 s"),
        (Answer(b"", 503, {"Retry-After": "120"}), "answered 503; it asks to wait 120 s"),
    ],
)
async def test_what_an_engine_says_of_an_error_is_told_on_one_line(answer: Answer, why: str) -> None:
    with serving(lambda asked: answer) as site:
        with pytest.raises(FetchError, match=why) as error:
            await TavilyEngine("k3y", site.url).search("q", 5)
        assert "\n" not in str(error.value) and "k3y" not in str(error.value) and len(site.asked) == 1


BAD_TOKEN = b"""{"id": "1", "code": "SUBSCRIPTION_TOKEN_INVALID", "status": 422,
 "detail": "The provided subscription token is invalid.", "meta": {"component": "authentication"}}"""
BAD_QUERY = b"""{"type": "ErrorResponse", "error": {"id": "1", "code": "VALIDATION", "status": 422,
 "detail": "Unable to validate request parameter(s)", "meta": {"errors": [{"type": "too_long", "loc": ["q"]}]}}}"""


@pytest.mark.parametrize(
    ("engine", "answer", "told"),
    [
        (
            BraveEngine,
            Answer(b'{"type": "ErrorResponse", "error": %b}' % BAD_TOKEN, 422),
            "422: The provided subscription token is invalid; look at the key in BRAVE_API_KEY",
        ),
        (
            BraveEngine,
            Answer(b'{"type": "ErrorResponse", "errors": [%b]}' % BAD_TOKEN, 422),
            "422: The provided subscription token is invalid; look at the key in BRAVE_API_KEY",
        ),
        (BraveEngine, Answer(BAD_QUERY, 422), "422: Unable to validate request parameter(s)"),
        (
            TavilyEngine,
            Answer(b'{"detail": {"error": "Unauthorized: missing or invalid API key."}}', 401),
            "401: Unauthorized: missing or invalid API key; look at the key in TAVILY_API_KEY",
        ),
        (
            TavilyEngine,
            Answer(b'{"detail": [{"type": "missing", "loc": ["body", "query"], "msg": "Field required"}]}', 422),
            "422: Field required",
        ),
    ],
)
async def test_a_key_that_is_refused_is_told_with_where_it_stands(
    engine: type[BraveEngine] | type[TavilyEngine], answer: Answer, told: str
) -> None:
    with serving(lambda asked: answer) as site:
        with pytest.raises(FetchError) as error:
            await engine("k3y", site.url).search("q", 5)
        assert str(error.value) == f"the search engine answered {told}"
        assert len(site.asked) == 1


async def test_a_long_query_is_cut_to_what_the_services_take() -> None:
    with serving(lambda asked: Answer(TAVILY)) as site:
        await TavilyEngine("k3y", site.url).search("two  words " * 100, 5)
        await TavilyEngine("k3y", site.url).search("x" * 1000, 5)
    assert [len(asked.body["query"].split()) for asked in site.asked] == [50, 1]
    assert [len(asked.body["query"]) for asked in site.asked] == [249, 400]


async def test_a_busy_engine_is_asked_again_as_it_says() -> None:
    """As Brave's plans with one request a second answer several queries at a time."""
    headers = {"X-RateLimit-Remaining": "0, 1000", "X-RateLimit-Reset": "0, 1419704"}
    answers = iter([Answer(LIMITED, 429, headers), Answer(b"", 502, {"Retry-After": "0"}), Answer(BRAVE)])
    with serving(lambda asked: next(answers)) as site:
        assert await BraveEngine("k3y", site.url).search("q", 5) == one("2 January 2024")
        assert len(site.asked) == 3


async def test_one_that_stays_busy_is_asked_three_times() -> None:
    with serving(lambda asked: Answer(LIMITED, 429, {"Retry-After": "0"})) as site:
        with pytest.raises(FetchError, match=r"429: Request rate limit exceeded for plan\.$"):
            await BraveEngine("k3y", site.url).search("q", 5)
        assert len(site.asked) == 3


async def test_an_engine_that_is_not_there_or_hangs_up_is_told() -> None:
    with serving(lambda asked: Answer(b"{", headers={"Content-Length": "100"})) as site:
        with pytest.raises(FetchError, match="cannot be reached: RemoteProtocolError"):
            await BraveEngine("k", site.url).search("q", 5)
        gone = site.url
    with pytest.raises(FetchError, match="cannot be reached: ConnectError"):
        await BraveEngine("k", gone).search("q", 5)


async def test_a_searxng_whose_engines_are_silent_does_not_find_nothing() -> None:
    body = b'{"query": "q", "results": [], "unresponsive_engines": [["google", "timeout"], ["bing", "CAPTCHA"]]}'
    with serving(lambda asked: Answer(body)) as site, pytest.raises(FetchError, match="google: timeout; bing: CAPTCHA"):
        await SearxngEngine(site.url).search("q", 5)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"web": 7}', b'{"web": {"results": [null, {"url": 7}]}}', b"null"])
async def test_an_answer_without_results_gives_none(body: bytes) -> None:
    with serving(lambda asked: Answer(body)) as site:
        assert await BraveEngine("k", site.url).search("q", 5) == []


async def test_an_index_over_a_folder_follows_its_files(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "iron.html").write_text("<title>Iron bridge</title><p>Opened in 1931.<script>var hidden</script>")
    (docs / "notes.md").write_text("# Notes\nBridges need paint.")
    (docs / "sheet.pdf").write_bytes(make_pdf(["The viaduct of Velmark"]))
    (docs / "broken.pdf").write_bytes(b"%PDF-nothing")
    index = LocalIndex(tmp_path / "index.sqlite")
    base = "http://folder.invalid/"
    assert index.update(docs, base) == 4
    assert [hit.url for hit in await index.search("iron bridge", 5)] == [f"{base}iron.html", f"{base}notes.md"]
    assert (await index.search("viaducts", 5))[0].url == f"{base}sheet.pdf"  # word stems are the same
    assert await index.search("hidden", 5) == []
    (docs / "iron.html").write_text("<title>Iron tower</title>")
    (docs / "notes.md").unlink()
    index.update(docs, base)
    assert [hit.title for hit in await index.search("bridge tower", 5)] == ["Iron tower"]
    index.close()
    again = LocalIndex(tmp_path / "index.sqlite")
    assert again.update(docs, base) == 3
    assert [hit.title for hit in await again.search("tower", 5)] == ["Iron tower"]
    again.close()


async def test_a_folder_with_anything_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    (docs / "sub dir").mkdir(parents=True)
    (docs / "sub dir" / "b#c?.md").write_text("# Notes on Firth\nzebra")
    (docs / "grüße.txt").write_bytes("Grüße vom quokka".encode("latin-1"))
    (docs / os.fsdecode(b"\xff.txt")).write_text("numbat")
    (docs / "fake.pdf").write_text("<html>pangolin</html>")
    (docs / "empty.pdf").write_bytes(b"")
    (docs / "torn.pdf").write_bytes(make_pdf(["aardvark"])[:200])
    (docs / "binary.txt").write_bytes(bytes(range(256)) * 20)
    (docs / "large.txt").write_bytes(b"lemur " * 1_000_000)
    (docs / "loop.txt").symlink_to("loop.txt")
    (docs / "out.txt").symlink_to("/etc/hostname")
    for broken in (False, True):
        if broken:  # the index that is kept
            next((tmp_path / "cache").rglob("*.sqlite")).write_bytes(b"no database" * 1000)
        web = make_web(f"local:{docs}")
        expected = {"zebra": "Notes on Firth", "quokka": "grüße.txt", "numbat": "�.txt", "lemur": "large.txt"}
        for word, title in expected.items():
            (hit,) = await web.engine.search(word, 5)
            assert hit.title == title
            assert word in (await web.fetcher.read(await web.fetcher.fetch(hit.url))).text
    for name, why in (
        ("torn.pdf", "the PDF cannot be read"),
        ("binary.txt", "not text but binary data; get it with `download`"),
        ("out.txt", "answered 404"),
        ("..%2Fsecret.txt", "answered 404"),
    ):
        with pytest.raises(FetchError, match=why):
            await web.fetcher.read(await web.fetcher.fetch(f"{FOLDER_URL}{name}"))


@pytest.mark.parametrize(
    "query", ["", "   ", '"', "a AND OR NOT (", "x*", 'title:"', "'; DROP TABLE pages; --", "é" * 5000, "\x00"]
)
async def test_a_query_is_words_and_no_syntax(query: str) -> None:
    index = LocalIndex()
    index.add([("http://x.test/", "A page", "about nothing", "")])
    assert isinstance(await index.search(query, 3), list)
    assert len(await index.search("page", 3)) == 1
    index.close()


async def test_many_search_at_the_same_time() -> None:
    index = LocalIndex()
    index.add((f"http://x.test/{n}", f"Page {n}", f"number{n}", "") for n in range(500))
    found = await asyncio.gather(*(index.search(f"number{n}", 1) for n in range(100)))
    assert [hits[0].title for hits in found] == [f"Page {n}" for n in range(100)]
    index.close()
