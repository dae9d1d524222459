"""Videos: what a file holds, exact frames, scenes, contact sheets, clips, and frames as the model takes them."""

from visual_tools.video.probe import probe
from visual_tools.video.sample import iter_frames, keyframes, sample_frames
from visual_tools.video.types import Frame, Frames, VideoInfo

__all__ = ["Frame", "Frames", "VideoInfo", "iter_frames", "keyframes", "probe", "sample_frames"]
