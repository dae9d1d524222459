"""Small videos whose frames carry their number as black and white blocks, so that it can be read back."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
BITS = 8
BLOCK_SHARE = 1 / BITS  # of the width
STRIP_SHARE = 0.25  # of the height


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a video is made."""

    name: str = "video.mp4"
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    options: dict[str, str] = field(default_factory=lambda: {"g": "12", "bf": "3", "preset": "veryfast", "crf": "10"})
    rate: Fraction = Fraction(10)
    size: tuple[int, int] = (128, 96)
    times: Sequence[int] | None = None  # in ticks of `tick`, one for each frame; None for the even rate
    tick: Fraction = Fraction(1, 1000)
    prepare: Callable[[Any], None] | None = None  # of the stream before the first frame
    tags: dict[str, int] = field(default_factory=dict)  # colour tags of each frame
    sound_rate: int = 0
    mux: dict[str, str] = field(default_factory=dict)


def paint_number(number: int, size: tuple[int, int] = (128, 96)) -> Picture:
    """An image with the number in binary along its upper edge over a moving texture."""
    width_px, height_px = size
    y, x = np.mgrid[:height_px, :width_px]
    texture = 96 + 40 * np.sin((x + 3 * number) / 7.0) + 30 * np.cos((y - 2 * number) / 5.0)
    image = np.stack([texture, np.roll(texture, 11, 1), 255 - texture], axis=2).clip(0, 255).astype(np.uint8)
    bits = (number >> np.arange(BITS)) & 1
    columns = np.arange(width_px) * BITS // width_px
    image[: int(height_px * STRIP_SHARE)] = np.where(bits[columns], 255, 0)[None, :, None]
    return image


def read_number(image: Picture) -> int:
    """The number in an image of any size that `paint_number` made."""
    height_px, width_px = image.shape[:2]
    row = image[max(int(height_px * STRIP_SHARE / 2), 0)].mean(axis=1)
    centers = ((np.arange(BITS) + 0.5) * width_px / BITS).astype(int)
    return int(sum(1 << bit for bit in range(BITS) if row[centers[bit]] > 127))


def make_video(folder: Path, pictures: Iterable[Picture] | int, recipe: Recipe | None = None) -> Path:
    """Write a video; with a count, its frames carry the numbers from 0 on."""
    recipe = recipe or Recipe()
    path = folder / recipe.name
    if isinstance(pictures, int):
        pictures = (paint_number(number, recipe.size) for number in range(pictures))
    with av.open(str(path), "w", options=recipe.mux) as out:
        stream = out.add_stream(recipe.codec, rate=recipe.rate, options=recipe.options)
        stream.width, stream.height = recipe.size
        stream.pix_fmt = recipe.pix_fmt
        if recipe.times is not None:
            stream.codec_context.time_base = recipe.tick
        if recipe.prepare is not None:
            recipe.prepare(stream)
        sound = out.add_stream("aac", rate=recipe.sound_rate) if recipe.sound_rate else None
        count = 0
        for number, picture in enumerate(pictures):
            out.mux(stream.encode(_make_frame(picture, number, recipe)))
            count += 1
        out.mux(stream.encode(None))
        if sound is not None:
            _add_sound(out, sound, recipe.sound_rate, count / float(recipe.rate))
    return path


def _make_frame(picture: Picture, number: int, recipe: Recipe) -> Any:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")
    if recipe.pix_fmt != "rgb24":
        frame = frame.reformat(format=recipe.pix_fmt, dst_colorspace=recipe.tags.get("colorspace"))
    for name, value in recipe.tags.items():
        setattr(frame, name, value)
    if recipe.times is None:
        frame.pts, frame.time_base = number, 1 / recipe.rate
    else:
        frame.pts, frame.time_base = recipe.times[number], recipe.tick
    return frame


def _add_sound(out: Any, sound: Any, rate: int, seconds: float) -> None:
    for start in range(0, int(seconds * rate), 1024):
        wave = np.sin((start + np.arange(1024)) * 2 * np.pi * 440 / rate).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(wave[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, start, Fraction(1, rate)
        out.mux(sound.encode(frame))
    out.mux(sound.encode(None))
