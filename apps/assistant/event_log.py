"""Events of a session: numbered, limited in number and length, with their images and notification."""

import asyncio
import io
import secrets
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cua.messages import ImagePart
from cua.step import CallOutcome

MAX_EVENTS = 3000  # kept for pages that connect again; bounds memory of a long run
MAX_TEXT_CHARS = 20_000  # of one event; the report has the whole text
MAX_IMAGES_BYTES = 32 * 2**20
"""Limit of the images kept in memory for the page: of tool results, steps and files; the run's folder has all."""
_THUMB_PX = (240, 240)
_MAX_THUMBED_BYTES = 20 * 2**20  # larger files are shown by their names
MAX_EVIDENCE, MAX_EVIDENCE_CHARS = 3000, 4000
"""Limits of the stored results of sub-agents: number, and characters of each."""


class EventLog:
    """Events of one session.

    Attributes:
        events: Oldest first, each with its number `seq`; the beginning is dropped when there are too many.
        images: Images of tool results, steps and files by name, as bytes and media type.
        version: Number that changes with each update.
    """

    def __init__(self) -> None:
        self.events: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)
        self.images: dict[str, tuple[bytes, str]] = {}
        self.evidence: dict[str, dict[str, str]] = {}
        self.version = 0
        self._seq = self._images_bytes = 0
        self._change = asyncio.Event()

    def add(self, event: str, **data: Any) -> None:
        """Add an event."""
        self._seq += 1
        self.events.append({"seq": self._seq, "at": round(time.time(), 3), "event": event, **shortened(data)})
        self.notify()

    def after(self, seq: int) -> list[dict[str, Any]]:
        """Return the events after the given sequence number."""
        return [event for event in self.events if event["seq"] > seq]

    def keep_images(self, outcome: CallOutcome) -> list[str]:
        """Store the images of a tool result; return their names."""
        names = []
        for part in outcome.result.parts:
            if isinstance(part, ImagePart):
                names.append(self._keep_image(part.data, part.media_type))
        return names

    def keep_thumbnail(self, data: bytes) -> str:
        """Store a small version of an image; return its name, or "" if the data are not an image."""
        small = make_thumbnail(data, _THUMB_PX)
        return self._keep_image(small, "image/jpeg") if small else ""

    def keep_file_thumbnail(self, path: Path) -> str:
        """Store a small version of an image file; return its name, or "" if it is not an image, or too large."""
        return self.keep_thumbnail(path.read_bytes()) if path.stat().st_size <= _MAX_THUMBED_BYTES else ""

    def _keep_image(self, data: bytes, media_type: str) -> str:
        name = secrets.token_hex(8)
        self.images[name] = (data, media_type)
        self._images_bytes += len(data)
        while self._images_bytes > MAX_IMAGES_BYTES and len(self.images) > 1:
            self._images_bytes -= len(self.images.pop(next(iter(self.images)))[0])
        return name

    def keep_evidence(self, agent_id: str, outcome: CallOutcome) -> None:
        """Store the result of a sub-agent's call, as target of citations."""
        result, call = outcome.result, outcome.call
        texts = {"tool": call.name, "arguments": call.arguments, "text": result.display or result.text}
        texts_cut = {name: text[:MAX_EVIDENCE_CHARS] for name, text in texts.items()}
        self.evidence[f"{agent_id}.{outcome.number}"] = texts_cut
        while len(self.evidence) > MAX_EVIDENCE:
            self.evidence.pop(next(iter(self.evidence)))

    async def wait_for_change(self, timeout_s: float, version: int | None = None) -> bool:
        """Wait for an update after a version, by default the current one; return False on timeout."""
        if version not in (None, self.version):
            return True
        try:
            await asyncio.wait_for(self._change.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    def notify(self) -> None:
        """Notify all waiters."""
        self.version += 1
        change, self._change = self._change, asyncio.Event()
        change.set()


def make_thumbnail(data: bytes, size_px: tuple[int, int]) -> bytes:
    """Return an image as a JPEG of at most this size; b"" if the data are not an image."""
    from PIL import Image

    buffer = io.BytesIO()
    try:
        image = Image.open(io.BytesIO(data))
        image.thumbnail(size_px)
        image.convert("RGB").save(buffer, "JPEG", quality=75)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow raises for damaged files
        return b""
    return buffer.getvalue()


def shortened(value: Any) -> Any:
    """Shorten long texts in JSON values, to limit the size of a page."""
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
        return f"{value[:MAX_TEXT_CHARS]}… ({len(value)} characters in all; the report has them)"
    if isinstance(value, Mapping):
        return {name: shortened(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(item) for item in value]
    return value
