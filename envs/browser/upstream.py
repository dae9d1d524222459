"""The proxy that a person asked for, as the gate of a browser uses it."""

import asyncio
import base64
import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from envs.errors import EnvSetupError

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


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
    if not parts.hostname or port == -1 or parts.scheme not in _DEFAULT_PORTS:
        shown = text.rpartition("@")[2]
        raise EnvSetupError(f"the proxy {shown!r} is not of the form http://host:port or socks5://host:port")
    return Upstream(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[parts.scheme],
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )
