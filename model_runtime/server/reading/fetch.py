"""Pictures and videos from the web, for servers that allow it.

Names are resolved here, every address is looked at, and the connection goes to the very address that was looked at:
a name that answers differently a second time gains nothing. Each redirect starts over. No proxies, no credentials.
"""

import asyncio
import ipaddress
import socket
from typing import Any
from urllib.parse import urljoin, urlsplit

from model_runtime.errors import MediaError
from model_runtime.require import require
from model_runtime.server.options import MediaAccess
from model_runtime.server.reading.data_url import too_large

MAX_REDIRECTS = 3

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


async def fetch(url: str, kind: str, access: MediaAccess) -> bytes:
    """The bytes behind a URL.

    Args:
        url: Of scheme http or https.
        kind: `image` or `video`, for messages.
        access: Limits of time and size, and hosts that may be private.

    Raises:
        MediaError: The URL is refused or malformed, cannot be fetched in time, or has too much behind it.
    """
    httpx = require("httpx")
    try:
        async with (
            asyncio.timeout(access.fetch_timeout_s),
            httpx.AsyncClient(trust_env=False, timeout=access.fetch_timeout_s) as client,
        ):
            for _ in range(1 + MAX_REDIRECTS):
                found = await _get(client, url, kind, access)
                if isinstance(found, bytes):
                    return found
                url = urljoin(url, found)
    except TimeoutError:
        raise _failed(kind, f"it did not come within {access.fetch_timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        raise _failed(kind, type(error).__name__) from None
    raise _failed(kind, f"more than {MAX_REDIRECTS} redirects")


async def _get(client: Any, url: str, kind: str, access: MediaAccess) -> bytes | str:
    """The bytes, or where they are said to be."""
    host, port, is_tls = _check_url(url, kind)
    address = await _find_address(host, port, access)
    request_url = client.build_request("GET", url).url.copy_with(host=str(address))
    headers = {
        "host": host if port in (80, 443) else f"{host}:{port}",
        "accept": f"{kind}/*",
        "accept-encoding": "identity",
    }
    extensions = {"sni_hostname": host} if is_tls else {}
    async with client.stream("GET", request_url, headers=headers, extensions=extensions) as response:
        if response.is_redirect and "location" in response.headers:
            return str(response.headers["location"])
        if response.status_code != 200:
            raise _failed(kind, f"its server answered {response.status_code}")
        data = bytearray()
        async for piece in response.aiter_raw():
            data += piece
            if len(data) > access.max_item_bytes:
                raise too_large(kind, access.max_item_bytes)
        return bytes(data)


def _check_url(url: str, kind: str) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise _failed(kind, "its URL is malformed") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _failed(kind, "a redirect or URL is neither http nor https")
    if parts.username is not None or parts.password is not None:
        raise _failed(kind, "its URL holds a user name or password")
    return parts.hostname, port, parts.scheme == "https"


async def _find_address(host: str, port: int, access: MediaAccess) -> Address:
    """The first address of a name, all of them allowed."""
    rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
    if host not in access.private_hosts and not all(map(is_public, addresses)):
        text = f"the host {host[:80]!r} has an address that is not public; this server fetches from public ones only"
        raise MediaError(text, code="forbidden_url")
    return addresses[0]


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet, also where IPv6 wraps another one."""
    if isinstance(address, ipaddress.IPv6Address):
        is_nat64 = int(address) >> 32 == 0x64FF9B << 64  # RFC 6052
        spoken_to = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_nat64 else address.ipv4_mapped
        if spoken_to is not None:
            return is_public(spoken_to)
        tunnelled = (address.sixtofour, *(address.teredo or ()))
        if any(one is not None and not is_public(one) for one in tunnelled):
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _failed(kind: str, why: str) -> MediaError:
    return MediaError(f"the {kind} cannot be fetched: {why}", code="media_fetch_failed")
