"""Store of frames for agents and the page: decoded once, kept as small files, shared by all readers."""

import asyncio
import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from apps.video_showcase.sources import VideoSource
from cua.trajectory.images import write_atomically
from visual_tools.errors import VideoError
from visual_tools.video import Frame, iter_frames

SIDE_PX = 448
MAX_BYTES = 1 << 30
_QUALITY = 80
_SPACING_S = 0.1
"""Minimum distance of frames; closer times share a frame."""


class FrameStore:
    """Frames on disk, by file and time.

    Args:
        folder: Folder of the frames.
        max_bytes: Size limit; once it is reached, further frames are decoded on each request.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._num_bytes: int | None = None
        self.num_decoded = 0

    def open(self, folder: Path) -> None:
        """Use this folder from now on."""
        self._folder, self._num_bytes = folder, None

    async def get(self, source: VideoSource, times_s: Sequence[float], *, side_px: int = SIDE_PX) -> list[Frame]:
        """Return the frames shown at the given times, in that order; frames that cannot be decoded are omitted.

        Raises:
            VideoError: If none of the frames can be decoded.
            VideoInputError: If the file is missing or was changed.
        """
        wanted = [round(min(max(time_s, 0.0), source.duration_s) / _SPACING_S) for time_s in times_s]
        async with self._locks[source.path]:
            return await asyncio.to_thread(self._get, source, wanted, side_px)

    def _get(self, source: VideoSource, wanted: list[int], side_px: int) -> list[Frame]:
        held: dict[int, Frame] = {}
        missing = []
        for tick in dict.fromkeys(wanted):
            path = self._path(source, tick, side_px)
            if path.is_file():
                held[tick] = Frame(index=-1, timestamp_s=tick * _SPACING_S, image=_load(path))
            else:
                missing.append(tick)
        if missing:
            source.check_unchanged()
            held |= self._decode(source, sorted(missing), side_px)
        if not held:
            raise VideoError(f"no frame of {source.name} can be decoded in this span")
        return [held[tick] for tick in wanted if tick in held]

    def _decode(self, source: VideoSource, ticks: list[int], side_px: int) -> dict[int, Frame]:
        last_s = source.duration_s
        asked = {tick: min(tick * _SPACING_S, last_s) for tick in ticks}
        decoded = list(iter_frames(source.path, timestamps_s=list(asked.values()), max_side_px=side_px, threads=1))
        self.num_decoded += len(decoded)
        shown_s = np.array([frame.timestamp_s for frame in decoded])
        frames = {}
        for tick, time_s in asked.items():
            if not decoded:
                break
            frame = decoded[max(int(np.searchsorted(shown_s, time_s + 6e-4, side="right")) - 1, 0)]
            frames[tick] = frame
            self._keep(self._path(source, tick, side_px), frame.image)
        return frames

    def _keep(self, path: Path, image: NDArray[np.uint8]) -> None:
        if self._num_bytes is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._num_bytes = sum(each.stat().st_size for each in self._folder.glob("*.webp"))
        data = encode_webp(image, _QUALITY)
        if self._num_bytes + len(data) <= self._max_bytes:
            write_atomically(path, data, is_durable=False)
            self._num_bytes += len(data)

    def _path(self, source: VideoSource, tick: int, side_px: int) -> Path:
        return self._folder / f"{source.digest[:16]}-{tick:07}-{side_px}.webp"


def encode_webp(image: NDArray[np.uint8], quality: int) -> bytes:
    """Encode an image as WebP."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "WEBP", quality=quality, method=2)
    return buffer.getvalue()


def _load(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))
