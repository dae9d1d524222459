"""Outgoing proxy of a browser on loopback that applies the domain rules.

All traffic of a browser passes through it: pages, redirects, workers, prefetches, sockets. The rules are applied here,
where host and port are known, and denied rules take precedence. Names are resolved here too, so that a denied address
is denied under every name. `envs.browser.launch` disables what Chromium would send past a proxy.
"""

import asyncio
import base64
import contextlib
import ssl
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from envs.domain_rules import DomainRules
from envs.errors import EnvSetupError
from envs.hosts import Address, is_this_machine, known_addresses, parse_host

if TYPE_CHECKING:
    from playwright.async_api import ProxySettings

_MAX_HEAD_BYTES = 256_000  # of a request's head, which cookies make long; bounds memory
_CHUNK_BYTES = 65_536  # of data that is passed on; bounds memory per connection
_HEAD_TIMEOUT_S = 60.0  # browsers open connections in advance and send later
_CONNECT_TIMEOUT_S = 30.0  # ends before the browser's own timeout, so that the reason is known
_START_TIMEOUT_S = 10.0  # listening on loopback takes milliseconds; a busy machine needs longer
_MAX_KEPT = 100  # remembered failures; bounds memory
_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_HOP_HEADERS = frozenset({b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"upgrade"})

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LookUp = Callable[[str, int], Awaitable[Sequence[str]]]


class UpstreamError(Exception):
    """Failure to connect through the upstream proxy; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Upstream proxy: http, https or socks5."""

    scheme: str
    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def is_http(self) -> bool:
        """True if the proxy accepts plain requests with absolute URLs."""
        return self.scheme in ("http", "https")

    def headers(self) -> list[bytes]:
        """Return the authentication headers of a request."""
        if not self.username:
            return []
        token = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return [f"Proxy-Authorization: Basic {token}".encode()]

    async def connect(
        self, host: str, port: int, *, is_plain: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to a host and port; for plain requests through an HTTP proxy, to the proxy itself.

        Raises:
            UpstreamError: If the proxy does not answer, or refuses.
        """
        try:
            context = ssl.create_default_context() if self.scheme == "https" else None
            pair = await asyncio.open_connection(self.host, self.port, ssl=context)
        except OSError as error:
            raise UpstreamError("the proxy does not answer") from error
        try:
            if not self.is_http:
                await self._by_socks(*pair, host, port)
            elif not is_plain:
                await self._by_connect(*pair, host, port)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, UpstreamError) as error:
            pair[1].close()
            raise UpstreamError(str(error) or "the proxy refused to connect") from error
        return pair

    async def _by_connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        lines = [f"CONNECT {host}:{port} HTTP/1.1".encode(), f"Host: {host}:{port}".encode(), *self.headers(), b"", b""]
        writer.write(b"\r\n".join(lines))
        head = await reader.readuntil(b"\r\n\r\n")
        if head.split(b" ")[1:2] != [b"200"]:
            raise UpstreamError(f"the proxy refused to connect ({head.split(chr(13).encode())[0].decode('latin-1')})")

    async def _by_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        """Connect through a SOCKS5 proxy. Source: RFC 1928 and RFC 1929."""
        methods = b"\x00\x02" if self.username else b"\x00"
        writer.write(bytes([5, len(methods)]) + methods)
        version, method = await reader.readexactly(2)
        if version != 5 or method not in methods:
            raise UpstreamError("the proxy offers no supported authentication method")
        if method == 2:
            name, word = self.username.encode(), self.password.encode()
            writer.write(bytes([1, len(name)]) + name + bytes([len(word)]) + word)
            if (await reader.readexactly(2))[1] != 0:
                raise UpstreamError("the proxy does not take this user and password")
        name = host.strip("[]").encode("idna" if not host.startswith("[") else "ascii")
        writer.write(bytes([5, 1, 0, 3, len(name)]) + name + port.to_bytes(2, "big"))
        _, status, _, kind = await reader.readexactly(4)
        if status != 0:
            raise UpstreamError(f"the proxy refused to connect (code {status})")
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        await reader.readexactly(size + 2)


def read_upstream(text: str) -> Upstream:
    """Parse the proxy of a setting, `http://user:password@host:port` or `socks5://host:port`.

    Raises:
        EnvSetupError: If it does not have that form.
    """
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if not parts.hostname or port == -1 or parts.scheme not in _PROXY_PORTS:
        shown = text.rpartition("@")[2]
        raise EnvSetupError(f"the proxy {shown!r} is not of the form http://host:port or socks5://host:port")
    return Upstream(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _PROXY_PORTS[parts.scheme],
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


class _Refused(Exception):
    """Request that is blocked or cannot be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedRequest:
    """Request that the filter proxy blocked."""

    url: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """Request line and headers of a request."""

    method: bytes
    target: str
    lines: tuple[bytes, ...]

    def header(self, name: bytes) -> bytes:
        values = [line.partition(b":")[2].strip() for line in self.lines if line.partition(b":")[0].lower() == name]
        return values[-1] if values else b""


class FilterProxy:
    """Proxy with its own thread, so that pages load while the agent is busy.

    Args:
        rules: Domain rules.
        upstream: Proxy configured by the user, which then resolves the names; None connects directly.
        look_up: Returns the addresses of a name for a port.
    """

    def __init__(self, rules: DomainRules, upstream: Upstream | None, *, look_up: LookUp | None = None) -> None:
        self._rules = rules
        self._look_up = look_up or _look_up
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="browser-filter-proxy", daemon=True)
        self._lock = threading.Lock()
        self._stopped: list[StoppedRequest] = []
        self._failures: OrderedDict[str, str] = OrderedDict()
        self._server: asyncio.Server | None = None
        self._routes: Mapping[str, int] | None = None
        self._num_open = 0
        self.port = 0

    async def start(self) -> None:
        """Start listening on a free port of loopback.

        Raises:
            EnvSetupError: If no port is available.
        """
        self._thread.start()
        try:
            work = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._listen(), self._loop))
            await asyncio.wait_for(work, _START_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            self.close()
            raise EnvSetupError(
                f"the proxy that enforces the domain rules cannot listen on 127.0.0.1: {error}"
            ) from error

    def close(self) -> None:
        """Close every connection and end the thread; may be called twice."""
        if self._loop.is_running():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)
            self._thread.join(_START_TIMEOUT_S)
        if not self._loop.is_running() and not self._loop.is_closed():
            self._loop.close()

    @property
    def proxy(self) -> "ProxySettings":
        """Proxy settings that send all traffic of a browser or a context through this proxy, loopback included."""
        return {"server": f"http://127.0.0.1:{self.port}", "bypass": "<-loopback>"}

    @property
    def num_open(self) -> int:
        """Number of plain http requests in progress."""
        return self._num_open

    def route(self, ports: Mapping[str, int]) -> None:
        """Redirect the given hosts to ports of loopback, and block all others, from now on.

        Args:
            ports: Loopback ports by host and port, `{"wiki.localhost:80": 40123}`.
        """
        self._routes = dict(ports)

    def take(self) -> list[StoppedRequest]:
        """Return the requests blocked since the last call."""
        with self._lock:
            stopped, self._stopped = self._stopped, []
        return stopped

    def failure_of(self, host: str, port: int | None) -> str | None:
        """Return why the last connection to a host failed; None if it succeeded."""
        with self._lock:
            return self._failures.get(f"{host}:{port}")

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_TIMEOUT_S):
                head = _parse_head(await reader.readuntil(b"\r\n\r\n"))
            if head.method == b"CONNECT":
                await self._tunnel(head, (reader, writer))
            else:
                await self._forward(head, (reader, writer))
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError, _Refused):
            pass  # closed without an answer: the browser reports a failed request
        finally:
            await _close(writer)

    async def _tunnel(self, head: _Head, client: Pair) -> None:
        host, port = _authority(head.target)
        try:
            server = await self._open(f"https://{head.target}/", host, port)
        except _Refused:
            client[1].write(b"HTTP/1.1 502 Blocked\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await client[1].drain()
            return
        client[1].write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await client[1].drain()
        try:
            await _both(_pump(client[0], server[1]), _pump(server[0], client[1]))
        finally:
            await _close(server[1])

    async def _forward(self, head: _Head, client: Pair) -> None:
        """Forward one plain http request and close the connection, so that each request is checked."""
        scheme, _, rest = head.target.partition("://")
        authority = rest.partition("/")[0]
        if scheme.lower() != "http" or head.header(b"transfer-encoding"):
            raise _Refused("not a request for a proxy")
        host, port = _authority(authority, default_port=80)
        self._num_open += 1
        try:
            await self._relay(head, client, await self._open(head.target, host, port, is_plain=True))
        finally:
            self._num_open -= 1

    async def _relay(self, head: _Head, client: Pair, server: Pair) -> None:
        """Forward one request and its response."""
        slash, path = head.target.partition("://")[2].partition("/")[1:]
        through_http = self._upstream is not None and self._upstream.is_http
        try:
            target = head.target if through_http else f"{slash}{path}" or "/"
            kept = [line for line in head.lines if line.partition(b":")[0].lower() not in _HOP_HEADERS]
            if through_http and self._upstream is not None:
                kept += self._upstream.headers()
            first = head.method + b" " + target.encode("latin-1") + b" HTTP/1.1"
            server[1].write(b"\r\n".join([first, *kept, b"Connection: close", b"", b""]))
            length = int(head.header(b"content-length") or 0)
            await _both(_send_body(client[0], server[1], length), _answer(server[0], client[1]))
        finally:
            await _close(server[1])

    async def _open(self, url: str, host: str, port: int, *, is_plain: bool = False) -> Pair:
        """Open a connection to a host that the rules allow.

        Raises:
            _Refused: If it is blocked or does not answer.
        """
        reason = self._rules.why_blocked_place(host, port) or self._why_own(known_addresses(host), port)
        if reason is None and self._routes is not None and f"{host}:{port}" not in self._routes:
            reason = "nothing is there"
        if reason is not None:
            self._note_stopped(url, reason)
            raise _Refused(reason)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                pair = await self._connect(url, host, port, is_plain)
        except UpstreamError as error:
            raise self._failed(host, port, str(error)) from error
        except TimeoutError as error:
            raise self._failed(host, port, "the host did not answer in time") from error
        except ConnectionRefusedError as error:
            raise self._failed(host, port, "nothing answers at that address (connection refused)") from error
        except (OSError, ssl.SSLError, UnicodeError) as error:
            raise self._failed(host, port, f"the host cannot be reached ({error})") from error
        with self._lock:
            self._failures.pop(f"{host}:{port}", None)
        return pair

    async def _connect(self, url: str, host: str, port: int, is_plain: bool) -> Pair:
        if self._routes is not None:
            return await asyncio.open_connection("127.0.0.1", self._routes[f"{host}:{port}"])
        if self._upstream is not None:
            return await self._upstream.connect(host, port, is_plain=is_plain)
        addresses = await self._resolve(host, port)
        for address in addresses:
            reason = self._rules.why_blocked_address(address, port) or self._why_own([ip_address(address)], port)
            if reason is not None:
                self._note_stopped(url, reason)
                raise _Refused(reason)
        last: OSError = ConnectionRefusedError()
        for address in addresses:  # the checked addresses, so that a second lookup cannot return others
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                last = error
        raise last

    def _why_own(self, addresses: Iterable[Address], port: int) -> str | None:
        is_own = port == self.port and any(map(is_this_machine, addresses))
        return "this is the browser's own proxy" if is_own else None

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        if known := known_addresses(host):
            return [str(address) for address in known]
        try:
            return await self._look_up(host, port)
        except OSError as error:
            raise self._failed(host, port, "there is no such host") from error

    def _note_stopped(self, url: str, reason: str) -> None:
        with self._lock:
            if len(self._stopped) < _MAX_KEPT:
                self._stopped.append(StoppedRequest(url=url, reason=reason))

    def _failed(self, host: str, port: int, reason: str) -> _Refused:
        with self._lock:
            self._failures[f"{host}:{port}"] = reason
            while len(self._failures) > _MAX_KEPT:
                self._failures.popitem(last=False)
        return _Refused(reason)


async def _look_up(host: str, port: int) -> Sequence[str]:
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def _parse_head(data: bytes) -> _Head:
    first, *lines = data[:-4].split(b"\r\n")
    method, target, _ = first.split(b" ", 2)
    if any(b":" not in line or line[:1] in b" \t" for line in lines):
        raise ValueError("a header is malformed")
    return _Head(method=method, target=target.decode("ascii"), lines=tuple(lines))


def _authority(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Return canonical host and port of the authority of a URL, the part between `//` and the path.

    Raises:
        ValueError: If it is invalid.
    """
    if any(char in text for char in "?#\\"):  # other parsers may find a different host in it
        raise ValueError("the path does not begin with a slash")
    host, colon, port = text.rpartition("@")[2].rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text.rpartition("@")[2], str(default_port or "")
    return parse_host(host), int(port)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


async def _send_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    """Forward the body of one request; return when the client disconnects or sends more."""
    while length:
        data = await reader.read(min(length, _CHUNK_BYTES))
        if not data:
            return
        length -= len(data)
        writer.write(data)
        await writer.drain()
    await reader.read(1)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward the response of a server, with a header that closes the connection after it."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        is_interim = first.split(b" ")[1:2][0].startswith(b"1")
        kept = [line for line in lines if line.partition(b":")[0].lower() not in _HOP_HEADERS]
        writer.write(b"\r\n".join([first, *kept, *([] if is_interim else [b"Connection: close"]), b"", b""]))
        await writer.drain()
        if not is_interim:
            await _pump(reader, writer)
            return


async def _both(*work: Coroutine[object, object, None]) -> None:
    """Run coroutines until the first one ends, then cancel the others."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()
