"""The proxy that enforces domain rules, spoken to as a browser does, and as a browser never would."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from envs.browser.filter_proxy import FilterProxy, LookUp, Upstream, read_upstream
from envs.domain_rules import DomainRules
from envs.errors import EnvSetupError
from tests.envs.browser.listener import Listener, listening
from tests.envs.browser.pages import PageServer


@asynccontextmanager
async def proxy_with(
    rules: DomainRules, upstream: Upstream | None = None, look_up: LookUp | None = None
) -> AsyncIterator[FilterProxy]:
    filter_proxy = FilterProxy(rules, upstream, look_up=look_up)
    await filter_proxy.start()
    try:
        yield filter_proxy
    finally:
        await asyncio.to_thread(filter_proxy.close)


async def say(filter_proxy: FilterProxy, data: bytes) -> bytes:
    """What a filter proxy answers to some bytes, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", filter_proxy.port)
    writer.write(data)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def get(url: str) -> bytes:
    return f"GET {url} HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\n\r\n".encode()


DENIED = DomainRules(denied=("evil.localhost",))


async def test_what_is_allowed_is_passed_on_and_ends_with_its_answer(pages: PageServer) -> None:
    url = pages.serve("hello", host="good.localhost")
    async with proxy_with(DENIED) as filter_proxy:
        answer = await say(filter_proxy, get(url))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"hello")
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    "target",
    [
        "http://evil.localhost:{port}/x",
        "http://EVIL.localhost.:{port}/x",
        "http://user@evil.localhost:{port}/x",
        "http://a.b.evil.localhost:{port}/x",
        "http://[::ffff:127.0.0.1]:{port}/x",
        "http://0x7f.1:{port}/x",
        "http://2130706433:{port}/x",
        "http://0:{port}/x",
        "http://0.0.0.0:{port}/x",
        "http://[::]:{port}/x",
        "http://[::ffff:7f00:1]:{port}/x",
        "http://%31%32%37.0.0.1:{port}/x",
        "http://good.invalid?@127.0.0.1:{port}/x",
        "http://good.invalid\\@127.0.0.1:{port}/x",
        "ftp://good.localhost:{port}/x",
        "/x",
        "*",
        "http://good.localhost:99999999/x",
        "http://good.localhost:port/x",
    ],
)
async def test_a_denied_place_is_not_reached_under_any_spelling(target: str) -> None:
    async with listening() as listener:
        rules = DomainRules(denied=("evil.localhost", "127.0.0.1"))
        place = target.format(port=listener.port)
        async with proxy_with(rules) as filter_proxy:
            assert await say(filter_proxy, get(place)) == b""
            tunnel = await say(
                filter_proxy, f"CONNECT {place.partition('//')[2].removesuffix('/x')} HTTP/1.1\r\n\r\n".encode()
            )
            assert b"200" not in tunnel
    assert listener.reached == set()


class Names:
    """A resolver with one answer after the other; counts the questions."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.num_asked = 0

    async def look_up(self, _host: str, _port: int) -> list[str]:
        self.num_asked += 1
        return self.answers.pop(0)


@pytest.mark.parametrize("rule", ["127.0.0.1", "127.0.0.0/8", "localhost", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize("found", [["127.0.0.1"], ["::ffff:127.0.0.1"], ["0.0.0.0"], ["192.0.2.1", "127.0.0.1"]])
async def test_a_denied_address_is_denied_under_every_name(rule: str, found: list[str]) -> None:
    names = Names(found)
    async with listening() as listener, proxy_with(DomainRules(denied=(rule,)), look_up=names.look_up) as filter_proxy:
        assert await say(filter_proxy, get(f"http://inner.example:{listener.port}/x")) == b""
        assert [f"denied by the rule {rule!r}" in stopped.reason for stopped in filter_proxy.take()] == [True]
    assert (listener.reached, names.num_asked) == (set(), 1)


async def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    rules = DomainRules(denied=("10.0.0.0/8",))
    async with listening() as listener, proxy_with(rules, look_up=names.look_up) as filter_proxy:
        assert b"200 OK" in await say(filter_proxy, get(f"http://turning.example:{listener.port}/x"))
        assert names.num_asked == 1
        assert await say(filter_proxy, get(f"http://turning.example:{listener.port}/y")) == b""
    assert listener.reached == {"tcp", "x"}


async def test_a_second_request_does_not_follow_the_first_one_to_its_server() -> None:
    async with (
        listening() as first,
        listening() as second,
        proxy_with(DomainRules(denied=(f"127.0.0.1:{second.port}",))) as filter_proxy,
    ):
        both = get(f"http://127.0.0.1:{first.port}/one") + get(f"http://127.0.0.1:{second.port}/two")
        await say(filter_proxy, both)
    assert first.reached <= {"tcp", "one"} and second.reached == set()


async def test_noise_and_endless_heads_are_cut(pages: PageServer) -> None:
    async with proxy_with(DENIED) as filter_proxy:
        for data in (b"\r\n\r\n", b"x" * 1000 + b"\r\n\r\n", b"GET http://a b c\r\n\r\n", b"\x16\x03\x01\r\n\r\n"):
            assert await say(filter_proxy, data) == b""
        assert await say(filter_proxy, b"GET http://x/ HTTP/1.1\r\nA: " + b"x" * 400_000) == b""
        chunked = f"POST {pages.url('/upload')} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        assert await say(filter_proxy, chunked.encode()) == b""
        assert b"200 OK" in await say(filter_proxy, get(pages.serve("still there")))


async def test_a_body_is_passed_on(pages: PageServer) -> None:
    async with proxy_with(DENIED) as filter_proxy:
        head = f"POST {pages.url('/upload')} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
        assert b"uploaded" in await say(filter_proxy, head.encode() + b"12345")
    assert pages.uploads[-1] == b"12345"


async def test_the_proxy_does_not_lead_to_itself() -> None:
    names = Names(["127.0.0.1"])
    async with proxy_with(DENIED, look_up=names.look_up) as filter_proxy:
        for host in ("127.0.0.1", "0", "[::ffff:127.0.0.1]", "a.localhost", "inner.example"):
            assert await say(filter_proxy, get(f"http://{host}:{filter_proxy.port}/")) == b""
            assert [stopped.reason for stopped in filter_proxy.take()] == ["this is the browser's own proxy"]


async def test_why_a_place_cannot_be_reached_is_known() -> None:
    async with proxy_with(DENIED) as filter_proxy:
        assert await say(filter_proxy, get("http://no-such-host.invalid/")) == b""
        assert filter_proxy.failure_of("no-such-host.invalid", 80) == "there is no such host"
        await say(filter_proxy, get("http://127.0.0.1:9/"))
        assert filter_proxy.failure_of("127.0.0.1", 9) == "nothing answers at that address (connection refused)"


async def socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A SOCKS5 server for one user; it leads everything to the port that was asked for on 127.0.0.1."""
    assert await reader.readexactly(4) == b"\x05\x02\x00\x02"
    writer.write(b"\x05\x02")
    assert await reader.readexactly(11) == b"\x01\x02me\x06secret"
    writer.write(b"\x01\x00")
    assert await reader.readexactly(4) == b"\x05\x01\x00\x03"
    await reader.readexactly((await reader.readexactly(1))[0])
    port = int.from_bytes(await reader.readexactly(2), "big")
    inner_reader, inner = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
    request = await reader.readuntil(b"\r\n\r\n")
    inner.write(request)
    writer.write(await inner_reader.read())
    await writer.drain()
    writer.close()
    inner.close()


async def test_rules_hold_before_a_proxy_of_the_persons_own(pages: PageServer) -> None:
    url = pages.serve("hello", host="good.localhost")
    rules = DomainRules(denied=("evil.localhost",))
    server = await asyncio.start_server(socks, "127.0.0.1", 0)
    async with proxy_with(DomainRules(denied=("nobody.invalid",))) as http, listening() as listener:
        for text in (
            f"http://127.0.0.1:{http.port}",
            f"socks5://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}",
        ):
            async with proxy_with(rules, read_upstream(text)) as filter_proxy:
                assert (await say(filter_proxy, get(url))).endswith(b"hello"), text
                assert await say(filter_proxy, get(f"http://evil.localhost:{listener.port}/")) == b""
        async with proxy_with(rules, read_upstream(f"http://127.0.0.1:{http.port}")) as filter_proxy:
            inside = "GET /empty HTTP/1.1\r\nConnection: close\r\n\r\n"
            tunnel = await say(filter_proxy, f"CONNECT good.localhost:{pages.port} HTTP/1.1\r\n\r\n{inside}".encode())
            assert tunnel.startswith(b"HTTP/1.1 200")
        assert _nothing(listener)
    server.close()


def _nothing(listener: Listener) -> bool:
    return listener.reached == set()


@pytest.mark.parametrize("text", ["", "ftp://x:1", "http://", "http://host:99999", "socks4://x:1", "http://u:pw@:1"])
def test_a_proxy_that_cannot_be_one_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(EnvSetupError, match="is not of the form") as caught:
        read_upstream(text)
    assert "pw" not in str(caught.value)


async def test_routes_lead_to_ports_and_nowhere_else(pages: PageServer) -> None:
    url = pages.serve("hello")
    port, path = int(url.split("/")[2].partition(":")[2]), url.split("/", 3)[3]
    async with proxy_with(DomainRules(allowed=("*.localhost", "127.0.0.1"))) as filter_proxy:
        filter_proxy.route({"wiki.localhost:80": port})
        answer = await say(filter_proxy, get(f"http://wiki.localhost/{path}"))
        elsewhere = [
            f"http://wiki.localhost:{port}/{path}",
            f"http://127.0.0.1:{port}/{path}",
            f"http://x.localhost/{path}",
        ]
        refused = [await say(filter_proxy, get(target)) for target in elsewhere]
        assert filter_proxy.num_open == 0
        stopped = [(one.url, one.reason) for one in filter_proxy.take()]
    assert answer.endswith(b"hello")
    assert refused == [b"", b"", b""]
    assert stopped == [(target, "nothing is there") for target in elsewhere]
