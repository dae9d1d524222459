"""Small documents and videos for tests."""

from pathlib import Path

import av
import numpy as np
from PIL import Image


def make_pdf(path: Path, num_pages: int) -> Path:
    """A PDF with numbered grey pages."""
    pages = [Image.new("RGB", (120, 160), (20 * number, 90, 90)) for number in range(num_pages)]
    pages[0].save(path, "PDF", save_all=True, append_images=pages[1:])
    return path


def make_video(path: Path, num_frames: int, fps: int = 24) -> Path:
    """A short MPEG-4 clip that gets brighter."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=fps)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(num_frames):
            level = np.full((48, 64, 3), 255 * number // num_frames, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(level, format="rgb24")))
        container.mux(stream.encode())
    return path
