"""Images and videos of a request: data URLs or http(s) URLs, decoded in threads, cached for the next request.

Data URLs are `data:image/png;base64,iVBORw0...` (RFC 2397). Whitespace is ignored everywhere in the data: the model
card's own example has a space after the comma.

A server may allow http(s) URLs. Names are resolved here, every address is checked, and the connection uses exactly the
checked address, so that a name that resolves differently the second time has no effect. Each redirect is checked in the
same way. No proxies, no credentials.
"""

import asyncio
import base64
import binascii
import hashlib
import ipaddress
import re
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

from model_runtime.cancellation import run_in_thread
from model_runtime.chat.messages import ImagePart, VideoPart
from model_runtime.errors import InvalidRequestError, MediaError, require
from model_runtime.media import MediaItem
from model_runtime.server.options import MediaAccess
from model_runtime.server.schemas import ImageIn, MediaHashIn, VideoIn

if TYPE_CHECKING:
    from httpx import AsyncClient

_HEAD = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*(?P<base64>;base64)?$", re.IGNORECASE)
_BLANKS = re.compile(r"\s+")
_ANY_TYPE = "application/octet-stream"
_MAX_HEAD_CHARS = 200  # part of a data URL before its comma


def is_data_url(url: str) -> bool:
    """Return True if the URL is a data URL."""
    return url[:5].lower() == "data:"


def read_data_url(url: str, kind: str, *, max_bytes: int) -> bytes:
    """Return the bytes of a data URL of an `image` or `video`; more than `max_bytes` are rejected before decoding.

    Raises:
        MediaError: If it is malformed, of another kind, or too large.
    """
    comma = url.find(",", 0, _MAX_HEAD_CHARS)
    head = _HEAD.match(url[:comma].strip()) if comma >= 0 else None
    if head is None or not head["base64"]:
        shown = url[:40].split(",")[0]
        raise MediaError(f"found {shown!r}; expected data:{kind}/...;base64,...", code="invalid_data_url")
    media_type = (head["type"] or _ANY_TYPE).lower()
    if media_type != _ANY_TYPE and not media_type.startswith(f"{kind}/"):
        raise MediaError(f"the data URL is of type {media_type}; expected {kind}/...", code="invalid_media_type")
    if (len(url) - comma) * 3 // 4 > max_bytes + _MAX_HEAD_CHARS + len(url) // 50:  # allowance for line ends
        raise too_large(kind, max_bytes)
    data = _decode(url[comma + 1 :], kind)
    if len(data) > max_bytes:
        raise too_large(kind, max_bytes)
    return data


def too_large(kind: str, max_bytes: int) -> MediaError:
    """Return the error for an item with more bytes than allowed."""
    return MediaError(f"the {kind} is larger than {max_bytes} bytes; send a smaller one", code="media_too_large")


def _decode(text: str, kind: str) -> bytes:
    if _BLANKS.search(text):
        text = _BLANKS.sub("", text)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MediaError(f"the {kind} is not valid base64: {error}", code="invalid_base64") from None
    if not data:
        raise MediaError(f"the {kind} is empty", code="invalid_media")
    return data


MAX_REDIRECTS = 3  # sites use one or two; more are a loop

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


async def fetch(url: str, kind: str, access: MediaAccess) -> bytes:
    """Fetch the bytes of an `image` or `video` from an http or https URL.

    Raises:
        MediaError: If the URL is rejected or malformed, cannot be fetched in time, or its content is too large.
    """
    httpx = require("httpx")
    try:
        async with (
            asyncio.timeout(access.fetch_timeout_s),
            httpx.AsyncClient(trust_env=False, timeout=access.fetch_timeout_s) as client,
        ):
            for _ in range(1 + MAX_REDIRECTS):
                response = await _get(client, url, kind, access)
                if isinstance(response, bytes):
                    return response
                url = urljoin(url, response)
    except TimeoutError:
        raise _failed(kind, f"it did not come within {access.fetch_timeout_s:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        raise _failed(kind, type(error).__name__) from None
    raise _failed(kind, f"more than {MAX_REDIRECTS} redirects")


async def _get(client: "AsyncClient", url: str, kind: str, access: MediaAccess) -> bytes | str:
    """Return the bytes, or the location of a redirect."""
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
    """Return the first address of a name, after checking that all of them are allowed."""
    rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
    if host not in access.private_hosts and not all(map(is_public, addresses)):
        text = f"the host {host[:80]!r} has an address that is not public; this server fetches from public ones only"
        raise MediaError(text, code="forbidden_url")
    return addresses[0]


_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_REFUSED = tuple(
    map(
        ipaddress.ip_network,
        "192.0.0.0/24 192.88.99.0/24 168.63.129.16/32 2001::/23 2001:db8::/32 2002::/16 3fff::/20".split(),
    )
)
"""Networks that are not public, although `is_global` of some versions of Python is True for a part of them.

Source: IANA's special-purpose address registries of 2025-10-09; 168.63.129.16 is Azure's platform.
"""


def is_public(address: Address) -> bool:
    """Return True if an address is on the public internet; also checks addresses embedded in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        is_nat64 = int(address) >> 32 == 0x64FF9B << 64  # RFC 6052
        is_isatap = int(address) >> 32 & 0xFDFFFFFF == 0x5EFE  # RFC 5214
        last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        spoken_to = last if is_nat64 else address.ipv4_mapped
        if spoken_to is not None:
            return is_public(spoken_to)
        if address not in _GLOBAL_UNICAST or (is_isatap and not is_public(last)):
            return False
    is_refused = address.is_multicast or address.is_reserved or any(address in network for network in _REFUSED)
    return address.is_global and not is_refused


def _failed(kind: str, why: str) -> MediaError:
    return MediaError(f"the {kind} cannot be fetched: {why}", code="media_fetch_failed")


Chunks = tuple[tuple[str, MediaItem], ...]
Loaded = ImagePart | VideoPart
Result = TypeVar("Result")


class MediaProcessor(Protocol):
    """Interface for converting bytes to model input; may be called from several threads."""

    @property
    def processor_id(self) -> str:
        """Name of the conversion: equal ids convert equal files to equal pixels."""
        ...

    def image(self, data: bytes) -> MediaItem:
        """Convert an image."""
        ...

    def video(self, data: bytes) -> Chunks:
        """Convert a video to chunks, each with the time of its first frame."""
        ...


class MediaReader:
    """Reader of the media of requests.

    An agent sends its last screenshots with every step; decoded media are cached, so that only new images are decoded,
    and later requests can name media by their content hashes.
    """

    def __init__(self, processor: MediaProcessor, access: MediaAccess) -> None:
        self._processor = processor
        self._access = access
        self._kept: OrderedDict[bytes, tuple[MediaItem, bytes]] = OrderedDict()  # with the digest of its file
        self._hash_of: dict[bytes, bytes] = {}  # content hash of a file by its digest
        self._kept_bytes = 0
        self._lock = Lock()

    @property
    def processor_id(self) -> str:
        """Name of the conversion from files to pixels."""
        return self._processor.processor_id

    async def read(self, parts: Sequence[tuple[str, ImageIn | VideoIn | MediaHashIn]]) -> list[Loaded]:
        """Load parts, each with its path in the request, in their order.

        Raises:
            InvalidRequestError: If there are too many.
            MediaError: If one cannot be loaded; the first one in order is reported.
        """
        most = self._access.max_items
        if len(parts) > most:
            text = f"the request has {len(parts)} images and videos; at most {most} are taken"
            raise InvalidRequestError(text, param="messages", code="too_many_images")
        loaded = await asyncio.gather(*(self._read(path, part) for path, part in parts), return_exceptions=True)
        done: list[Loaded] = []
        for item in loaded:
            if isinstance(item, BaseException):
                raise item
            done.append(item)
        return done

    async def _read(self, path: str, part: ImageIn | VideoIn | MediaHashIn) -> Loaded:
        try:
            match part:
                case ImageIn():
                    return ImagePart(await self._load(part.image_url.url.strip(), "image", self._image))
                case VideoIn():
                    return VideoPart(await self._load(part.video_url.url.strip(), "video", self._video))
            return ImagePart(self._find(part.media_hash))
        except MediaError as error:
            error.param = error.param or path
            raise

    async def _load(self, url: str, kind: str, decode: Callable[[bytes], Result]) -> Result:
        if is_data_url(url):
            most = self._access.max_item_bytes
            return await run_in_thread(lambda: decode(read_data_url(url, kind, max_bytes=most)))
        scheme = url.partition(":")[0].lower()
        if scheme not in ("http", "https"):
            raise MediaError(f"found {url[:40]!r}; expected a data URL: data:{kind}/...;base64,...", code="invalid_url")
        if not self._access.allow_http:
            text = f"this server fetches nothing from the web; send the {kind} as data:{kind}/...;base64,..."
            raise MediaError(text, code="forbidden_url")
        data = await fetch(url, kind, self._access)
        return await run_in_thread(decode, data)

    def _image(self, data: bytes) -> MediaItem:
        if not self._access.cache_bytes:
            return self._processor.image(data)
        digest = hashlib.blake2b(data, digest_size=32).digest()
        item = self._get(self._hash_of.get(digest, b""))
        if item is None:
            item = self._processor.image(data)
            self._keep(item, digest)
        return item

    def _video(self, data: bytes) -> Chunks:
        chunks = self._processor.video(data)
        for _, item in chunks:
            self._keep(item, b"")
        return chunks

    def _find(self, media_hash: str) -> MediaItem:
        item = self._get(bytes.fromhex(media_hash))
        if item is None:
            text = (
                f"the media {media_hash} is not, or no longer, in this server's cache; send the image or video itself"
            )
            raise MediaError(text, code="unknown_media")
        return item

    def _get(self, content_hash: bytes) -> MediaItem | None:
        with self._lock:
            if content_hash not in self._kept:
                return None
            self._kept.move_to_end(content_hash)
            return self._kept[content_hash][0]

    def _keep(self, item: MediaItem, digest: bytes) -> None:
        """Cache an item, and remember that the file with this digest contains it."""
        with self._lock:
            self._drop(item.content_hash)
            self._kept[item.content_hash] = item, digest
            self._kept_bytes += item.frames.nbytes
            if digest:
                self._hash_of[digest] = item.content_hash
            while self._kept_bytes > self._access.cache_bytes:
                self._drop(next(iter(self._kept)))

    def _drop(self, content_hash: bytes) -> None:
        if content_hash in self._kept:
            item, digest = self._kept.pop(content_hash)
            self._kept_bytes -= item.frames.nbytes
            self._hash_of.pop(digest, None)
