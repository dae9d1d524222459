"""Domain rules applied to the requests of a browser context, and the proxy that a person asks for."""

import asyncio
import base64
import contextlib
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from envs.domain_rules import DomainRules
from envs.errors import EnvSetupError
from envs.hosts import DEFAULT_PORTS, host_and_port

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request, Route, WebSocketRoute

    from envs.browser.gate import Gate


_MAX_KEPT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A request that was not let through."""

    url: str
    reason: str
    is_navigation: bool

    def as_text(self) -> str:
        """What was blocked and why."""
        return f"{self.url} was {'not opened' if self.is_navigation else 'blocked'}: {self.reason}"


class Firewall:
    """Blocks what the rules do not let through, and remembers it until asked.

    Requests are stopped by routing, which knows the page and leaves it as it is. What is not routed (a redirect,
    a shared worker, a prefetch, ...) is stopped by the same rules on its way out of the browser, in the gate.
    """

    def __init__(self, rules: DomainRules, gate: "Gate | None" = None) -> None:
        self._rules = rules
        self._gate = gate
        self._blocked: list[Blocked] = []

    async def install(self, context: "BrowserContext") -> None:
        """Watch over a browser context."""
        if not self._rules:
            return
        await context.route("**/*", self._on_route)
        await context.route_web_socket(lambda url: self._rules.why_blocked(url) is not None, self._on_web_socket)
        context.on("requestfailed", self._on_failed)

    def take(self) -> list[Blocked]:
        """What was blocked since the last time."""
        blocked, self._blocked = self._blocked, []
        if self._gate is not None:
            known = {_origin(found.url) for found in blocked}
            for stopped in self._gate.take():
                if _origin(stopped.url) not in known:
                    blocked.append(Blocked(url=stopped.url, reason=stopped.reason, is_navigation=False))
        return blocked

    def failure_of(self, url: str) -> str | None:
        """Why the place of an address could not be reached, as the gate knows it."""
        with contextlib.suppress(ValueError):
            return self._gate.failure_of(*host_and_port(url)) if self._gate is not None else None
        return None

    async def _on_route(self, route: "Route", request: "Request") -> None:
        reason = self._rules.why_blocked(request.url)
        if reason is None:
            await route.continue_()
            return
        # an aborted navigation leaves the page as it is; a new window has none, it gets an error page
        stays = request.is_navigation_request() and _has_frame(request)
        await route.abort("aborted" if stays else "blockedbyclient")
        self._remember(request, reason)

    async def _on_web_socket(self, socket: "WebSocketRoute") -> None:
        self._keep(Blocked(url=socket.url, reason=self._rules.why_blocked(socket.url) or "", is_navigation=False))
        await socket.close(code=1008, reason="blocked")

    def _on_failed(self, request: "Request") -> None:
        reason = self._rules.why_blocked(request.url)
        if reason is not None and request.redirected_from is not None:
            self._remember(request, reason)

    def _remember(self, request: "Request", reason: str) -> None:
        is_navigation = request.is_navigation_request() and _is_top(request)
        self._keep(Blocked(url=request.url, reason=reason, is_navigation=is_navigation))

    def _keep(self, blocked: Blocked) -> None:
        if len(self._blocked) < _MAX_KEPT:
            self._blocked.append(blocked)


def _origin(url: str) -> tuple[str | None, int | None]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


def _is_top(request: "Request") -> bool:
    """Whether a navigation is one of a tab; a new window has no frame yet."""
    return not _has_frame(request) or request.frame.parent_frame is None


def _has_frame(request: "Request") -> bool:
    from playwright.async_api import Error

    try:
        return request.frame is not None
    except Error:
        return False


_PROXY_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class UpstreamError(Exception):
    """The proxy does not connect; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A proxy: http, https or socks5."""

    scheme: str
    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def is_http(self) -> bool:
        """Whether it takes plain requests for whole addresses."""
        return self.scheme in ("http", "https")

    def headers(self) -> list[bytes]:
        """What a request needs to be taken."""
        if not self.username:
            return []
        token = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return [f"Proxy-Authorization: Basic {token}".encode()]

    async def connect(
        self, host: str, port: int, *, is_plain: bool
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a place; to the proxy itself for plain requests that it takes.

        Raises:
            UpstreamError: The proxy does not answer, or refuses.
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
        """Source: RFC 1928 and RFC 1929."""
        methods = b"\x00\x02" if self.username else b"\x00"
        writer.write(bytes([5, len(methods)]) + methods)
        version, method = await reader.readexactly(2)
        if version != 5 or method not in methods:
            raise UpstreamError("the proxy takes no way to log in that we know")
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
    """The proxy of a setting, `http://user:password@host:port` or `socks5://host:port`.

    Raises:
        EnvSetupError: It is not of that form.
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
