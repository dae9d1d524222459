"""Pictures and videos of a request: loaded side by side, decoded in threads, kept for the next request."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Protocol, TypeVar

from model_runtime.cancellation import run_in_thread
from model_runtime.chat.messages import ImagePart, VideoPart
from model_runtime.errors import MediaError, RequestError
from model_runtime.media import MediaItem
from model_runtime.server.options import MediaAccess
from model_runtime.server.reading.data_url import is_data_url, read_data_url
from model_runtime.server.reading.fetch import fetch
from model_runtime.server.schemas.content import ImageIn, VideoIn

Chunks = tuple[tuple[str, MediaItem], ...]
Loaded = ImagePart | VideoPart
Result = TypeVar("Result")


class MediaProcessor(Protocol):
    """Bytes of a picture or video to what the model takes; may be called from several threads."""

    def image(self, data: bytes) -> MediaItem:
        """A picture."""
        ...

    def video(self, data: bytes) -> Chunks:
        """A video as chunks, each with the time of its first frame."""
        ...


class MediaReader:
    """Reads the media of requests.

    An agent sends its last screenshots with every step; decoded pictures are kept, so that only new ones cost time.

    Args:
        processor: Who decodes.
        access: Limits, and whether URLs may be fetched.
    """

    def __init__(self, processor: MediaProcessor, access: MediaAccess) -> None:
        self._processor = processor
        self._access = access
        self._kept: OrderedDict[bytes, MediaItem] = OrderedDict()
        self._kept_bytes = 0
        self._lock = Lock()

    async def read(self, parts: Sequence[tuple[str, ImageIn | VideoIn]]) -> list[Loaded]:
        """Load parts, in their order.

        Args:
            parts: Each with its path in the request, for messages.

        Raises:
            RequestError: There are too many.
            MediaError: One cannot be loaded; the first one in order is told.
        """
        most = self._access.max_items
        if len(parts) > most:
            text = f"the request has {len(parts)} pictures and videos; at most {most} are taken"
            raise RequestError(text, param="messages", code="too_many_images")
        loaded = await asyncio.gather(*(self._read(path, part) for path, part in parts), return_exceptions=True)
        done: list[Loaded] = []
        for one in loaded:
            if isinstance(one, BaseException):
                raise one
            done.append(one)
        return done

    async def _read(self, path: str, part: ImageIn | VideoIn) -> Loaded:
        try:
            if isinstance(part, ImageIn):
                return ImagePart(await self._load(part.image_url.url.strip(), "image", self._image))
            return VideoPart(await self._load(part.video_url.url.strip(), "video", self._processor.video))
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
        key = hashlib.blake2b(data, digest_size=32).digest()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        item = self._processor.image(data)
        self._keep(key, item)
        return item

    def _keep(self, key: bytes, item: MediaItem) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = item
                self._kept_bytes += item.frames.nbytes
            while self._kept_bytes > self._access.cache_bytes:
                _, oldest = self._kept.popitem(last=False)
                self._kept_bytes -= oldest.frames.nbytes
