"""K2.5's rules of media: the size of a picture, which frames of a video are taken, and how their time is written.

Two frames a second are taken, evenly over the whole video, four to a chunk; a chunk is named by the time of its first
frame. The arithmetic of the time is that of transformers 5.23, whose floats show in the last digit.

Source: the release's image processor as transformers 5.23 has it (`kimi_k25/image_processing_kimi_k25.py`,
`kimi_k25/processing_kimi_k25.py`), and `media_proc_cfg.sample_fps`, `timestamp_mode` of the release; Dehghani et al.
2023 (NaViT), arXiv 2307.06304, for keeping the aspect ratio within a budget of patches.
"""

import math
import time
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from model_runtime.media import MediaItem
from model_runtime.processor.options import MERGED_PX, PATCH_PX


def sample_indices(num_frames: int, fps: float, sample_fps: float) -> tuple[int, ...]:
    """Indices of the frames that are taken, in order; at least one.

    Args:
        num_frames: In the video, at least 1.
        fps: Of the video.
        sample_fps: Frames a second to take; a slower video keeps all of its frames.
    """
    count = max(round(num_frames * min(sample_fps, fps) / fps), 1)
    return tuple(int(index) for index in np.linspace(0, num_frames - 1, count).round())


def format_timestamp(index: int, fps: float) -> str:
    """Time of a frame as HH:MM:SS.mmm: milliseconds are cut off, not rounded, and after a day it begins anew."""
    seconds = index / fps
    return time.strftime("%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03}"


HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Sizes in px, (width, height): after resizing, and with the black strips at the right and the bottom."""

    resized: tuple[int, int]
    padded: tuple[int, int]

    @property
    def num_tokens(self) -> int:
        """Tokens that an image, or a chunk of frames, of that size takes."""
        return (self.padded[0] // MERGED_PX) * (self.padded[1] // MERGED_PX)


def fit_size(width: int, height: int, patch_limit: int, side_limit: int) -> Fit:
    """The largest size within the limits that is not above the original.

    The limits hold before padding; padding may exceed `patch_limit`, as in the release.

    Args:
        width: In px, at least 1.
        height: In px, at least 1.
        patch_limit: Patches in all.
        side_limit: Patches along one side.
    """
    side_px = side_limit * PATCH_PX
    patches = max(1, width // PATCH_PX) * max(1, height // PATCH_PX)
    scale = min(1.0, math.sqrt(patch_limit / patches), side_px / width, side_px / height)
    resized = tuple(min(max(1, int(side * scale)), side_px) for side in (width, height))
    padded = tuple(-(-side // MERGED_PX) * MERGED_PX for side in resized)
    return Fit(resized=(resized[0], resized[1]), padded=(padded[0], padded[1]))


def make_item(images: list[Image.Image], fit: Fit) -> MediaItem:
    """Resize (bicubic, antialiased) and pad RGB pictures into one item.

    Args:
        images: One picture, or the frames of a chunk; all are brought to the same size.
        fit: The size.
    """
    width, height = fit.resized
    frames = np.zeros((len(images), fit.padded[1], fit.padded[0], 3), np.uint8)
    for frame, image in zip(frames, images, strict=True):
        sized = image if image.size == fit.resized else image.resize(fit.resized, Image.Resampling.BICUBIC)
        frame[:height, :width] = np.asarray(sized)
    return MediaItem(frames=frames, content_hash=hash_frames(frames))


def hash_frames(frames: NDArray[np.uint8]) -> bytes:
    """Of shape and pixels.

    Args:
        frames: (t, height, width, 3) uint8, contiguous.
    """
    digest = blake2b(repr(frames.shape).encode(), digest_size=HASH_BYTES)
    digest.update(frames.data)
    return digest.digest()
