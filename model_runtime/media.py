"""Images and video chunks as model input."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaItem:
    """One image, or one chunk of up to four video frames: resized and padded, not yet normalized.

    Attributes:
        frames: (t, height, width, 3) uint8 RGB. Height and width are multiples of 28 px; an image has t = 1.
        content_hash: Hash of shape and pixels, used as a cache key: equal hashes mean equal embeddings.
    """

    frames: NDArray[np.uint8] = field(repr=False, compare=False)
    content_hash: bytes

    @property
    def grid(self) -> tuple[int, int, int]:
        """(t, h, w) in patches of 14 x 14 px."""
        t, height, width, _ = self.frames.shape
        return t, height // 14, width // 14

    @property
    def num_patches(self) -> int:
        """Number of rows in the vision tower."""
        t, h, w = self.grid
        return t * h * w

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the prompt: one for each 2 x 2 patches, for any t."""
        _, h, w = self.grid
        return (h // 2) * (w // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaSpan:
    """Position of a media item in a prompt: `item.num_tokens` placeholder tokens from `offset` on."""

    offset: int
    item: MediaItem

    @property
    def end(self) -> int:
        """Index after its last placeholder token."""
        return self.offset + self.item.num_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Token ids with repeated media placeholders, and the media, in order."""

    token_ids: tuple[int, ...] = field(repr=False)
    media: tuple[MediaSpan, ...] = ()
