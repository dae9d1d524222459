"""Sizes of images and videos for the model.

A video is sampled evenly at two frames per second, with four frames per chunk; a chunk is named by the time of its
first frame. The time is calculated as in transformers 5.23, since float rounding affects the last digit.

Source: the release's image processor in transformers 5.23 (`kimi_k25/image_processing_kimi_k25.py`,
`kimi_k25/processing_kimi_k25.py`), and `media_proc_cfg.sample_fps`, `timestamp_mode` of the release; Dehghani et al.
2023 (NaViT), arXiv 2307.06304, for keeping the aspect ratio within a budget of patches.

Source: the release's `preprocessor_config.json`, object `media_proc_cfg`; defaults are its values.
"""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from model_runtime.errors import ConfigError
from model_runtime.media import MediaItem

FILE_NAME = "preprocessor_config.json"
PATCH_PX = 14
MERGED_PX = 28
CHUNK_FRAMES = 4
FIXED: Mapping[str, object] = MappingProxyType(
    {
        "patch_size": PATCH_PX,
        "merge_kernel_size": MERGED_PX // PATCH_PX,
        "temporal_merge_kernel_size": CHUNK_FRAMES,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "timestamp_mode": "hh:mm:ss.fff",
        "fixed_output_tokens": None,
        "max_num_frames_each_video": None,
        "in_patch_limit_video": None,
    }
)
"""Values that the vision tower, the media item and the prompt depend on; other values are another model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaOptions:
    """Media options of the model; a change changes the model's input.

    Attributes:
        in_patch_limit: Maximum patches of an image, before padding.
        in_patch_limit_each_frame: Maximum patches of a video frame, before padding.
        patch_limit_on_one_side: Maximum patches along one side.
        sample_fps: Sampled frames per second of a video.
        extra: Other values in the file.
    """

    in_patch_limit: int = 16_384
    in_patch_limit_each_frame: int = 4096
    patch_limit_on_one_side: int = 512
    sample_fps: float = 2.0
    extra: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimits:
    """Media limits of the operator; requests above them are rejected.

    Attributes:
        max_image_bytes: Maximum size of an encoded image.
        max_pixels: Maximum pixels of a decoded image or video frame (64 million take 192 MB).
        max_video_bytes: Maximum size of a video file.
        max_source_frames: Maximum frames in a video file; all up to the last sampled one may have to be decoded.
        max_sampled_frames: Maximum sampled frames of a video; each takes at most 2.4 MB until it is encoded.
        max_video_pixels: Maximum pixels of all frames of a video: eight minutes of 1080p at 60 frames per second.
    """

    max_image_bytes: int = 32 << 20
    max_pixels: int = 64_000_000
    max_video_bytes: int = 512 << 20
    max_source_frames: int = 200_000
    max_sampled_frames: int = 1024
    max_video_pixels: int = 64_000_000_000


def load_media_options(model_dir: Path) -> MediaOptions:
    """Read `preprocessor_config.json` of a model folder.

    Raises:
        ConfigError: If the file is missing or not JSON, or requires something that this runtime does not support.
    """
    path = model_dir / FILE_NAME
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist: images need the release's {FILE_NAME}") from error
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}") from error
    return parse_media_options(content, str(path))


def parse_media_options(content: object, source: str) -> MediaOptions:
    """Parse the object of the file.

    Raises:
        ConfigError: If a value has the wrong type, or requires something that this runtime does not support.
    """
    options = content.get("media_proc_cfg") if isinstance(content, dict) else None
    if not isinstance(options, dict):
        raise ConfigError(f"{source}: there is no object media_proc_cfg; is it the file of a Kimi K2.5 release?")
    for name, expected in FIXED.items():
        if options.get(name, expected) != expected:
            raise ConfigError(
                f"{source}: media_proc_cfg.{name} is {options[name]!r}; this runtime has {expected!r} only"
            )
    own = {
        each.name: options[each.name] for each in fields(MediaOptions) if each.name in options and each.name != "extra"
    }
    for name, value in own.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or value <= 0 or (name != "sample_fps" and value != int(value)):
            raise ConfigError(f"{source}: media_proc_cfg.{name} is {value!r}, expected a number above 0")
    extra = {name: value for name, value in options.items() if name not in own}
    return MediaOptions(**own, extra=MappingProxyType(extra))


def sample_indices(num_frames: int, fps: float, sample_fps: float) -> tuple[int, ...]:
    """Return the indices of the sampled frames, in order; at least one.

    Args:
        num_frames: Frames in the video, at least 1.
        fps: Frame rate of the video.
        sample_fps: Frames per second to sample; all frames of a slower video are used.
    """
    count = max(round(num_frames * min(sample_fps, fps) / fps), 1)
    return tuple(int(index) for index in np.linspace(0, num_frames - 1, count).round())


def format_timestamp(index: int, fps: float) -> str:
    """Format the time of a frame as HH:MM:SS.mmm: milliseconds are truncated, and after a day it restarts from 0."""
    seconds = index / fps
    return time.strftime("%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03}"


HASH_BYTES = 16  # collisions are out of reach, and keys stay short


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizedShape:
    """Sizes in px, (width, height): after resizing, and with the black padding on the right and at the bottom."""

    resized: tuple[int, int]
    padded: tuple[int, int]

    @property
    def num_tokens(self) -> int:
        """Number of tokens of an image, or a chunk of frames, of that size."""
        return (self.padded[0] // MERGED_PX) * (self.padded[1] // MERGED_PX)


def fit_size(width: int, height: int, patch_limit: int, side_limit: int) -> ResizedShape:
    """Return the largest size within the limits that is not above the original.

    The limits apply before padding; padding may exceed `patch_limit`, as in the release.

    Args:
        width: Width in px, at least 1.
        height: Height in px, at least 1.
        patch_limit: Maximum total patches.
        side_limit: Maximum patches along one side.
    """
    side_px = side_limit * PATCH_PX
    patches = max(1, width // PATCH_PX) * max(1, height // PATCH_PX)
    scale = min(1.0, math.sqrt(patch_limit / patches), side_px / width, side_px / height)
    resized = tuple(min(max(1, int(side * scale)), side_px) for side in (width, height))
    padded = tuple(-(-side // MERGED_PX) * MERGED_PX for side in resized)
    return ResizedShape(resized=(resized[0], resized[1]), padded=(padded[0], padded[1]))


def make_item(images: list[Image.Image], fit: ResizedShape) -> MediaItem:
    """Resize (bicubic, antialiased) and pad RGB images, one or the frames of a chunk, into one item of one size."""
    width, height = fit.resized
    frames = np.zeros((len(images), fit.padded[1], fit.padded[0], 3), np.uint8)
    for frame, image in zip(frames, images, strict=True):
        sized = image if image.size == fit.resized else image.resize(fit.resized, Image.Resampling.BICUBIC)
        frame[:height, :width] = np.asarray(sized)
    return MediaItem(frames=frames, content_hash=hash_frames(frames))


def hash_frames(frames: NDArray[np.uint8]) -> bytes:
    """Return the hash of shape and pixels of (t, height, width, 3) uint8, contiguous."""
    digest = blake2b(repr(frames.shape).encode(), digest_size=HASH_BYTES)
    digest.update(frames.data)
    return digest.digest()
