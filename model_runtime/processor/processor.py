"""Bytes of images and videos to items for the vision tower."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from model_runtime.errors import MediaError
from model_runtime.media import MediaItem
from model_runtime.processor.decode import decode_image
from model_runtime.processor.media_rules import (
    CHUNK_FRAMES,
    Fit,
    MediaLimits,
    MediaOptions,
    fit_size,
    format_timestamp,
    load_media_options,
    make_item,
)
from model_runtime.processor.video import SampledFrame, sample_video


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Decodes, resizes and pads. It keeps no state: one serves any number of threads.

    Attributes:
        options: The model's part.
        limits: The operator's part.
    """

    options: MediaOptions = field(default_factory=MediaOptions)
    limits: MediaLimits = field(default_factory=MediaLimits)

    @classmethod
    def load(cls, model_dir: Path, limits: MediaLimits | None = None) -> "Processor":
        """Read `preprocessor_config.json` of a model folder.

        Raises:
            ConfigError: The file is missing, or asks for what this runtime does not do.
        """
        return cls(options=load_media_options(Path(model_dir)), limits=limits or MediaLimits())

    def fit(self, width: int, height: int, *, is_frame: bool = False) -> Fit:
        """Sizes to which an image (or a video frame) of `width` x `height` px is resized and padded."""
        limit = self.options.in_patch_limit_each_frame if is_frame else self.options.in_patch_limit
        return fit_size(width, height, limit, self.options.patch_limit_on_one_side)

    def count_tokens(self, width: int, height: int, *, is_frame: bool = False) -> int:
        """Tokens of an image of `width` x `height` px, or of a chunk of such video frames, however many it has."""
        return self.fit(width, height, is_frame=is_frame).num_tokens

    def image(self, data: bytes) -> MediaItem:
        """An image file (PNG, JPEG, WebP, GIF, BMP) as an item.

        Raises:
            MediaError: It is no image, is broken, or breaks a limit.
        """
        image = decode_image(data, self.limits)
        return make_item([image], self.fit(*image.size))

    def frames(self, frames: Sequence[NDArray[np.uint8]]) -> MediaItem:
        """A chunk of one to four video frames as an item; all are brought to the first one's size.

        Args:
            frames: (height, width, 3) uint8 RGB each.

        Raises:
            MediaError: There are no frames, too many, or they are no RGB images.
        """
        for frame in frames:
            if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
                found = f"{frame.dtype} of shape {frame.shape}"
                raise MediaError(f"a video frame is {found}, expected uint8 of (height, width, 3)")
        return self._chunk([Image.fromarray(frame) for frame in frames])

    def video(self, source: bytes | Path) -> tuple[tuple[str, MediaItem], ...]:
        """A video file as chunks, each with the time of its first frame (HH:MM:SS.mmm).

        Raises:
            MediaError: It is no video, is broken, or breaks a limit.
        """
        fps, frames = sample_video(source, self.options.sample_fps, self.limits)
        chunks: list[tuple[str, MediaItem]] = []
        chunk: list[SampledFrame] = []
        for frame in frames:  # decoded images of one chunk at a time
            chunk.append(frame)
            if len(chunk) == CHUNK_FRAMES:
                chunks.append(self._timed(chunk, fps))
                chunk = []
        return (*chunks, *([self._timed(chunk, fps)] if chunk else []))

    def _timed(self, chunk: list[SampledFrame], fps: float) -> tuple[str, MediaItem]:
        return format_timestamp(chunk[0].index, fps), self._chunk([frame.image for frame in chunk])

    def _chunk(self, images: list[Image.Image]) -> MediaItem:
        if not 1 <= len(images) <= CHUNK_FRAMES:
            raise MediaError(f"a chunk has {len(images)} frames, expected 1 to {CHUNK_FRAMES}")
        return make_item(images, self.fit(*images[0].size, is_frame=True))
