"""Fetching: where it may go, how much, how often, against a real server on loopback."""

import asyncio
import gzip
from pathlib import Path

import pytest

from cua.errors import ConfigError
from cua.research.fetch import Fetcher, FetchLimits, make_web
from cua.research.local import FolderCorpus
from cua.research.network import AddressRules, FetchError, is_public
from tests.cua.research.site import Answer, Site, pages, serving
from tests.tables import table

pytest.importorskip("trafilatura")

HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGE = Answer(b"<title>T</title><p>Words of a page.</p>", headers=HTML)


def fetcher(site: Site, **options: object) -> Fetcher:
    return Fetcher(rules=AddressRules(allow_hosts=frozenset({site.host})), **options)  # type: ignore[arg-type]


@table(
    "address",
    "127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 255.255.255.255 "
    "192.0.2.1 240.0.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fec0::1 ff02::1 ::ffff:127.0.0.1 ::127.0.0.1 "
    "64:ff9b::7f00:1 2002:7f00:1:: 2001:0:1::1 2001:db8::1 nonsense".split(),
)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", "1.1.1.1 8.8.8.8 2606:4700:4700::1111 ::ffff:8.8.8.8".split())
def test_what_is_public_is_not(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "begins with http"),
        ("gopher://x/", "begins with http"),
        ("http:///nowhere", "begins with http"),
        ("http://user:pw@example.com/", "user name"),
        ("http://example.com:22/", "port 22"),
        ("http://[bad/", "not an address"),
        ("http://example.com:99999/", "not an address"),
        ("http://127.0.0.1/", "not a public address"),
        ("http://2130706433/", "not a public address|no host"),
        ("http://0x7f.1/", "not a public address|no host"),
        ("http://localhost/", "not a public address"),
    ],
)
async def test_addresses_that_are_never_opened(url: str, why: str) -> None:
    with pytest.raises(FetchError, match=why):
        await Fetcher(obeys_robots=False).fetch(url)


async def test_loopback_is_reached_only_when_a_person_allows_it() -> None:
    with serving(pages({"/a": PAGE})) as site:
        with pytest.raises(FetchError, match=f"port {site.port}"):
            await Fetcher().fetch(f"{site.url}/a")
        assert site.asked == []
        got = await fetcher(site).fetch(f"{site.url}/a#part")
        assert (got.url, got.media_type, got.body) == (f"{site.url}/a", "text/html", PAGE.body)
        assert [asked.path for asked in site.asked] == ["/robots.txt", "/a"]
        assert site.asked[1].headers["user-agent"] == "cua-k25" and site.asked[1].headers["host"] == site.host


async def test_a_name_is_looked_up_once_and_that_address_is_used() -> None:
    """DNS rebinding: the second answer would be another one."""
    answers = iter([("127.0.0.1",), ("10.0.0.1",)])
    asked: list[str] = []

    async def look_up(host: str, port: int) -> tuple[str, ...]:
        asked.append(host)
        return next(answers)

    with serving(pages({"/": PAGE})) as site:
        rules = AddressRules(allow_hosts=frozenset({f"name.test:{site.port}"}))
        got = await Fetcher(rules=rules, obeys_robots=False, look_up=look_up).fetch(f"http://name.test:{site.port}/")
        assert (got.body, asked) == (PAGE.body, ["name.test"])
        assert site.asked[0].headers["host"] == f"name.test:{site.port}"


async def test_one_private_address_among_several_is_enough_to_refuse() -> None:
    async def look_up(host: str, port: int) -> tuple[str, ...]:
        return ("8.8.8.8", "127.0.0.1")

    with pytest.raises(FetchError, match=r"127\.0\.0\.1, which is not a public address"):
        await Fetcher(obeys_robots=False, look_up=look_up).fetch("http://name.test/")


async def test_a_redirect_is_judged_like_an_address() -> None:
    to = {
        "/inside": "http://169.254.169.254/latest/",
        "/file": "file:///etc/passwd",
        "/ok": "/end",
        "/round": "/round",
    }
    table = {path: Answer(status=302, headers={"Location": target}) for path, target in to.items()}
    with serving(pages({**table, "/end": PAGE})) as site:
        web = fetcher(site, obeys_robots=False)
        assert (await web.fetch(f"{site.url}/ok")).url == f"{site.url}/end"
        for path, why in (
            ("/inside", "not a public address"),
            ("/file", "begins with http"),
            ("/round", "more than 5"),
        ):
            with pytest.raises(FetchError, match=why):
                await web.fetch(site.url + path)


async def test_sizes_are_bounded_also_of_what_is_compressed() -> None:
    bomb = Answer(gzip.compress(b"0" * 50_000_000), headers={**HTML, "Content-Encoding": "gzip"})
    small = Answer(gzip.compress(PAGE.body), headers={**HTML, "Content-Encoding": "gzip"})
    table = {"/bomb": bomb, "/long": Answer(b"x" * 200_000, headers=HTML), "/small": small}
    with serving(pages(table)) as site:
        web = fetcher(site, obeys_robots=False, limits=FetchLimits(page_bytes=100_000))
        for path in ("/bomb", "/long"):
            with pytest.raises(FetchError, match="larger than 100000 bytes"):
                await web.fetch(site.url + path)
        assert (await web.fetch(f"{site.url}/small")).body == PAGE.body
        assert len((await web.fetch(f"{site.url}/long", is_file=True)).body) == 200_000


async def test_the_number_of_pages_is_bounded() -> None:
    with serving(pages({f"/{n}": PAGE for n in range(3)})) as site:
        web = fetcher(site, obeys_robots=False, limits=FetchLimits(num_pages=2))
        for path in ("/0", "/1", "/0"):
            await web.fetch(site.url + path)
        with pytest.raises(FetchError, match="limit is reached"):
            await web.fetch(f"{site.url}/2")


async def test_who_asks_for_the_same_address_shares_one_request() -> None:
    with serving(pages({"/a": PAGE})) as site:
        web = fetcher(site, obeys_robots=False)
        got = await asyncio.gather(*(web.fetch(f"{site.url}/a") for _ in range(50)))
        assert len(site.asked) == 1 and len({id(one) for one in got}) == 1


async def test_one_who_gives_up_does_not_spoil_it_for_the_others() -> None:
    with serving(pages({"/a": PAGE})) as site:
        web = fetcher(site, obeys_robots=False)
        first = asyncio.ensure_future(web.fetch(f"{site.url}/a"))
        second = asyncio.ensure_future(web.fetch(f"{site.url}/a"))
        while not web.num_fetched:
            await asyncio.sleep(0)
        first.cancel()
        assert (await second).body == PAGE.body
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_what_failed_is_tried_again_by_the_next() -> None:
    answers = iter([Answer(status=500), PAGE])
    with serving(lambda asked: next(answers)) as site:
        web = fetcher(site, obeys_robots=False)
        with pytest.raises(FetchError, match="answered 500"):
            await web.fetch(f"{site.url}/a")
        assert (await web.fetch(f"{site.url}/a")).body == PAGE.body


async def test_a_busy_server_is_asked_again_when_it_says() -> None:
    answers = iter([Answer(status=429, headers={"Retry-After": "0"}), PAGE])
    with serving(lambda asked: next(answers)) as site:
        assert (await fetcher(site, obeys_robots=False).fetch(f"{site.url}/a")).body == PAGE.body
    with serving(lambda asked: Answer(status=429, headers={"Retry-After": "9999"})) as site:
        with pytest.raises(FetchError, match="answered 429; it asks to wait 9999 s"):
            await fetcher(site, obeys_robots=False).fetch(f"{site.url}/a")
        assert len(site.asked) == 1


async def test_robots_txt_is_obeyed() -> None:
    rules = Answer(b"User-agent: *\nDisallow: /private/\n")
    with serving(pages({"/robots.txt": rules, "/private/a": PAGE, "/open": PAGE})) as site:
        web = fetcher(site)
        with pytest.raises(FetchError, match=r"robots\.txt"):
            await web.fetch(f"{site.url}/private/a")
        await web.fetch(f"{site.url}/open")
        assert [asked.path for asked in site.asked] == ["/robots.txt", "/open"]  # the rules are asked for once
        await fetcher(site, obeys_robots=False).fetch(f"{site.url}/private/a")


async def test_a_site_whose_rules_cannot_be_had_is_left_alone() -> None:
    with serving(lambda asked: Answer(status=503 if asked.path == "/robots.txt" else 200)) as site:
        with pytest.raises(FetchError, match=r"robots\.txt"):
            await fetcher(site).fetch(f"{site.url}/a")
        assert [asked.path for asked in site.asked] == ["/robots.txt"]


def test_a_folder_gives_nothing_outside_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    root = tmp_path / "docs"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "a.html").write_text("hidden")
    (root / "a.html").write_text("open")
    (root / "key.pem").write_text("key")
    (root / "link.html").symlink_to(tmp_path / "secret.html")
    corpus = FolderCorpus(root)
    given = corpus.read("http://folder.invalid/a.html")
    assert given is not None and given.body == b"open"
    for path in (
        "../secret.html",
        "%2e%2e/secret.html",
        ".git/a.html",
        "link.html",
        "key.pem",
        "no.html",
        "a.html%00",
        "//etc/passwd",
    ):
        assert corpus.read(f"http://folder.invalid/{path}") is None, path


async def test_a_file_of_a_folder_may_be_as_large_as_a_download(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 300)
    (tmp_path / "b.txt").write_bytes(b"x" * 301)
    limits = FetchLimits(page_bytes=100, file_bytes=300)
    web = Fetcher(corpora=(FolderCorpus(tmp_path),), limits=limits, is_offline=True)
    assert len((await web.fetch("http://folder.invalid/a.txt")).body) == 300
    with pytest.raises(FetchError, match="has 301 bytes, more than the 300 that are read"):
        await web.fetch("http://folder.invalid/b.txt")


@pytest.mark.parametrize(
    ("search", "why"),
    [
        ("google", "expected searxng:URL, brave, tavily, local:FOLDER"),
        ("", "expected searxng:URL"),
        ("searxng", "expected its address too"),
        ("searxng:ftp://x", "begins with http"),
        ("brave", "BRAVE_API_KEY"),
        ("tavily", "TAVILY_API_KEY"),
        ("local:/no/such/folder", "there is no folder"),
        ("local:world:x", "a whole number"),
    ],
)
def test_settings_that_name_no_engine(search: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make_web(search, environ={})


@pytest.mark.parametrize("host", ["", "http://a/", "*", "a b"])
def test_settings_that_allow_no_host(host: str) -> None:
    with pytest.raises(ConfigError, match="search_allow"):
        AddressRules.parse([host])


async def test_the_generated_world_is_searched_without_any_network() -> None:
    web = make_web("local:world:1")
    hits = await web.engine.search("List of bridges in Ostland", 4)
    [hit] = [hit for hit in hits if hit.title == "List of bridges in Ostland"]
    document = await web.fetcher.read(await web.fetcher.fetch(hit.url))
    assert len(document.links) >= 20 and "names all 30 bridges" in document.text
    for url in ("http://example.com/", "http://127.0.0.1/"):
        with pytest.raises(FetchError, match="no other pages can be reached"):
            await web.fetcher.fetch(url)
