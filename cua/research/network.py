"""HTTP requests with rules for the addresses that may be reached; connects only to an address that was checked.

A host name is resolved once, at the time of the connection; all of its addresses are checked, and the connection goes
to one of them. Because nothing is resolved again, DNS rebinding has no effect.
"""

import asyncio
import ipaddress
import socket
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cua.errors import ConfigError
from envs.hosts import is_globally_reachable

if TYPE_CHECKING:
    import httpcore

USER_AGENT = "cua-k25"
PORTS = {"http": 80, "https": 443}


class FetchError(Exception):
    """Error of a request; the message gives the model the reason.

    Attributes:
        status: HTTP status, if there was a response.
        retry_after_s: Wait that the server requested.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Response of a server, decompressed.

    Attributes:
        status: HTTP status.
        headers: Headers with names in lower case.
        body: Body, within the requested limit.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """Rules for the addresses that may be reached.

    Attributes:
        allow_hosts: `HOST` or `HOST:PORT` entries that a person has allowed although they are private or use another
            port.
    """

    allow_hosts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, hosts: Iterable[str]) -> "AddressRules":
        """Parse rules from a setting.

        Raises:
            ConfigError: If an entry is not a host.
        """
        named = frozenset(host.strip().lower() for host in hosts)
        for host in named:
            if not host or "/" in host or " " in host or "*" in host:
                raise ConfigError(f"search_allow holds {host!r}; expected a host such as 127.0.0.1:8080 or wiki.intern")
        return cls(allow_hosts=named)

    def allows(self, host: str, port: int) -> bool:
        """Return True if a person has allowed this host or port."""
        bare = host.lower().strip("[]").rstrip(".")
        return bare in self.allow_hosts or f"{bare}:{port}" in self.allow_hosts

    def check_url(self, url: str) -> tuple[str, int]:
        """Return host and port of an allowed URL, or raise `FetchError`."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise FetchError(f"{url[:200]!r} is not an address: {error}") from None
        if parts.scheme not in PORTS or not host:
            raise FetchError(
                f"{url[:200]!r} cannot be opened; expected an address that begins with http:// or https://"
            )
        if parts.username is not None or parts.password is not None:
            raise FetchError("an address with a user name in it is not opened; leave the part before @ out")
        if port != PORTS[parts.scheme] and not self.allows(host, port):
            raise FetchError(f"port {port} of {host} is not opened; only the usual ports 80 and 443 are")
        return host, port

    def check_address(self, host: str, address: str, port: int) -> None:
        """Check an address to which a name resolved."""
        if not is_public(address) and not self.allows(host, port):
            raise FetchError(
                f"{host} leads to {address}, which is not a public address; a person can allow it with "
                f"--set search_allow={host}:{port}"
            )


PUBLIC = AddressRules()
"""Rules for the public internet only."""


def is_public(address: str) -> bool:
    """Return True if an IP address is public and does not embed an address that is not."""
    try:
        return is_globally_reachable(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of a host name."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchError(f"there is no host {host!r} ({error})") from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in addresses))


def make_backend(rules: AddressRules, look_up: Any = resolve) -> "httpcore.AsyncNetworkBackend":
    """Make the network backend, which connects only to addresses that the rules allow."""
    import httpcore

    class CheckedBackend(httpcore.AsyncNetworkBackend):
        def __init__(self) -> None:
            self._inner = httpcore.AnyIOBackend()

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Any = None,
        ) -> httpcore.AsyncNetworkStream:
            addresses = await look_up(host, port)
            for address in addresses:
                rules.check_address(host, address, port)
            return await self._connect_first(addresses, port, timeout)

        async def _connect_first(
            self, addresses: Sequence[str], port: int, timeout: float | None
        ) -> httpcore.AsyncNetworkStream:
            for address in addresses[:-1]:
                try:
                    return await self._inner.connect_tcp(address, port, timeout)
                except (httpcore.ConnectError, httpcore.ConnectTimeout):
                    continue
            return await self._inner.connect_tcp(addresses[-1], port, timeout)

        async def connect_unix_socket(self, path: str, timeout: float | None = None, socket_options: Any = None) -> Any:
            raise FetchError("sockets of this machine are not opened")

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    return CheckedBackend()


async def request(
    url: str,
    *,
    rules: AddressRules,
    max_bytes: int,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
    look_up: Any = resolve,
) -> Response:
    """GET one address without following redirects. `max_bytes` limits the decompressed body, `timeout_s` the request.

    Raises:
        FetchError: If the address is not allowed, did not answer, or is too large.
    """
    import httpcore

    rules.check_url(url)
    sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "gzip", "Accept": "*/*", **(headers or {})}
    pool = httpcore.AsyncConnectionPool(network_backend=make_backend(rules, look_up), ssl_context=_ssl_context())
    try:
        async with (
            asyncio.timeout(timeout_s),
            pool,
            pool.stream("GET", ascii_url(url), headers=list(sent.items())) as response,
        ):
            received = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            body = await _read(response, received.get("content-encoding", ""), max_bytes)
            return Response(status=response.status, headers=received, body=body)
    except TimeoutError:
        raise FetchError(f"{url[:200]} did not send its whole answer within {timeout_s:g} s") from None
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
        raise FetchError(f"{url[:200]} cannot be reached: {type(error).__name__} {error}".rstrip()) from None


def ascii_url(url: str) -> str:
    """Return the URL as it is sent: other characters as percent escapes, the host in its ASCII form."""
    import httpx

    try:
        return str(httpx.URL(url))
    except (httpx.InvalidURL, UnicodeError) as error:
        raise FetchError(f"{url[:200]!r} is not an address: {error}") from None


def _ssl_context() -> Any:
    import httpx

    return httpx.create_ssl_context()


async def _read(response: Any, encoding: str, max_bytes: int) -> bytes:
    """Read the body; compressed data counts by its decompressed size."""
    unzip = zlib.decompressobj(wbits=47) if encoding.strip().lower() in ("gzip", "x-gzip", "deflate") else None
    body = bytearray()
    async for chunk in response.aiter_stream():
        room = max_bytes + 1 - len(body)
        try:
            body += unzip.decompress(chunk, room) if unzip else chunk[:room]
        except zlib.error as error:
            raise FetchError(f"the answer is damaged: {error}") from None
        if len(body) > max_bytes:
            raise FetchError(f"it is larger than {max_bytes} bytes, the limit")
    return bytes(body)
