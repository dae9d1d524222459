"""Small real video files whose frames carry their number in black and white stripes."""

import io
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from PIL import Image

BITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """What to encode. `times_ms` gives each frame a time of its own."""

    container: str = "mp4"
    codec: str = "libx264"
    num_frames: int = 100
    rate: int | Fraction = 30
    size: tuple[int, int] = (160, 48)
    gop: int = 12
    b_frames: int = 0
    times_ms: tuple[int, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The file."""
        import av

        buffer = io.BytesIO()
        with av.open(buffer, "w", format=self.container) as container:
            options = {"g": str(self.gop), **self.options}
            stream: Any = container.add_stream(self.codec, rate=self.rate, options=options)
            stream.width, stream.height = self.size
            stream.pix_fmt = "rgb8" if self.codec == "gif" else "yuv420p"
            stream.codec_context.max_b_frames = self.b_frames
            for number in range(self.num_frames):
                frame = av.VideoFrame.from_ndarray(draw(number, self.size), format="rgb24")
                if self.times_ms:
                    frame.pts, frame.time_base = self.times_ms[number], Fraction(1, 1000)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return buffer.getvalue()


def draw(number: int, size: tuple[int, int]) -> np.ndarray:
    """A frame of stripes."""
    width, height = size
    frame = np.zeros((height, width, 3), np.uint8)
    stripe = width // BITS
    for bit in range(BITS):
        frame[:, bit * stripe : (bit + 1) * stripe] = 255 * (number >> bit & 1)
    return frame


def read_number(picture: Image.Image | np.ndarray, width: int = 160) -> int:
    """The number of a frame."""
    row = np.asarray(picture)[8, :, 1]
    stripe = width // BITS
    return sum(int(row[bit * stripe + stripe // 2] > 128) << bit for bit in range(BITS))


def encode_sound() -> bytes:
    """A file without images."""
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream: Any = container.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 16_000, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()
