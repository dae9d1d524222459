"""Video functions: file information, exact frames, scenes, contact sheets, clips, frames prepared for the model."""

from visual_tools.video.clip import Clip, cut_clip
from visual_tools.video.cuts import Scene, Scenes, scenes
from visual_tools.video.info import probe
from visual_tools.video.sample import (
    ContactSheet,
    FrameGroup,
    contact_sheet,
    frames,
    iter_frames,
    keyframes,
    sample_frames,
)
from visual_tools.video.types import Frame, Frames, VideoInfo

__all__ = [
    "Clip",
    "ContactSheet",
    "Frame",
    "FrameGroup",
    "Frames",
    "Scene",
    "Scenes",
    "VideoInfo",
    "contact_sheet",
    "cut_clip",
    "frames",
    "iter_frames",
    "keyframes",
    "probe",
    "sample_frames",
    "scenes",
]
