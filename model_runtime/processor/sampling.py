"""Which frames of a video the model sees, and how their time is written.

Source: the release's video rule (`media_proc_cfg.sample_fps`, `timestamp_mode`): two frames a second, evenly over the
whole video, four to a chunk; a chunk is named by the time of its first frame. The arithmetic of the time is that of
transformers 5.23 (`kimi_k25/processing_kimi_k25.py`), whose floats show in the last digit.
"""

import time

import numpy as np


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
