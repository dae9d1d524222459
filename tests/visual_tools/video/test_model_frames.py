"""Frames as the model takes them: which, in what groups, with what times, in what size."""

import datetime
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import visual_tools as vt
from tests.visual_tools.video.making import Recipe, make_video, read_number
from visual_tools.errors import VideoError
from visual_tools.video.sample import find_indices, find_size, make_timestamp


def plain_indices(num_frames: int, video_fps: float, fps: float) -> list[int]:
    """The rule in words, one frame at a time: even steps from the first to the last, a half goes to the even number."""
    count = max(round(num_frames * min(fps, video_fps) / video_fps), 1)
    if count == 1:
        return [0]
    step = (num_frames - 1) / (count - 1)
    return [*(round(k * step) for k in range(count - 1)), num_frames - 1]


@given(st.integers(1, 3000), st.sampled_from([1.0, 1.5, 10.0, 24.0, 25.0, 29.97, 30.0, 60.0, 120.0]))
def test_indices_follow_the_rule(num_frames: int, video_fps: float) -> None:
    indices = find_indices(num_frames, video_fps)
    assert indices == plain_indices(num_frames, video_fps, 2.0)
    exact = [Fraction(k * (num_frames - 1), max(len(indices) - 1, 1)) for k in range(len(indices))]
    assert all(abs(index - one) <= Fraction(1, 2) for index, one in zip(indices, exact, strict=True))


def test_indices_of_a_minute() -> None:
    assert find_indices(1800, 30.0)[:5] == [0, 15, 30, 45, 60]
    assert find_indices(1800, 30.0)[-1] == 1799 and len(find_indices(1800, 30.0)) == 120
    assert find_indices(10, 1.0) == list(range(10))  # slower than two a second: every frame
    assert find_indices(3, 30.0) == [0]


@given(st.floats(0, 200_000, allow_nan=False).map(lambda time_s: round(time_s, 4)))
def test_timestamps_are_cut_off_and_wrap_after_a_day(time_s: float) -> None:
    of_the_day = datetime.datetime.fromtimestamp(int(time_s), tz=datetime.UTC).strftime("%H:%M:%S")
    assert make_timestamp(time_s) == f"{of_the_day}.{int((time_s % 1) * 1000):03d}"


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0.0, "00:00:00.000"),
        (0.9999, "00:00:00.999"),
        (59.9996, "00:00:59.999"),
        (3661.5, "01:01:01.500"),
        (86399.25, "23:59:59.250"),
        (86400.0, "00:00:00.000"),
        (90000.125, "01:00:00.125"),
    ],
)
def test_timestamps(time_s: float, text: str) -> None:
    assert make_timestamp(time_s) == text


def test_groups_of_a_video(tmp_path: Path) -> None:
    path = make_video(tmp_path, 100, Recipe(rate=Fraction(20)))
    groups = list(vt.frames(path))
    indices = plain_indices(100, 20.0, 2.0)
    assert [group.indices for group in groups] == [tuple(indices[k : k + 4]) for k in range(0, 10, 4)]
    assert [group.timestamp for group in groups] == ["00:00:00.000", "00:00:02.200", "00:00:04.400"]
    assert [read_number(image) for group in groups for image in group.images] == indices
    assert [len(group.images) for group in groups] == [4, 4, 2]
    assert repr(groups[1]) == "FrameGroup(00:00:02.200: frames [44, 55, 66, 77], 128x96 px)"


@pytest.mark.parametrize(
    ("size", "tokens"),
    [
        *(((1280, 720), 1075), ((1920, 1080), 1032), ((2560, 1440), 1075)),
        *(((3840, 2160), 1032), ((800, 600), 638), ((3000, 3000), 1089)),
    ],
)
def test_sizes_keep_within_4096_patches(size: tuple[int, int], tokens: int) -> None:
    width_px, height_px = size
    scale = min(1, math.sqrt(4096 / ((width_px // 14) * (height_px // 14))))
    assert find_size(*size) == (int(width_px * scale), int(height_px * scale))
    columns, rows = (math.ceil(side / 28) for side in find_size(*size))  # a token is two by two patches
    assert columns * rows == tokens


def test_a_side_stays_within_512_patches() -> None:
    assert find_size(20000, 10) == (7168, 3)
    assert find_size(3, 1) == (3, 1)


def test_pictures_are_made_smaller_as_pillow_does(tmp_path: Path) -> None:
    path = make_video(tmp_path, 8, Recipe(size=(256, 192)))
    whole = vt.sample_frames(path, timestamps_s=[0.0])[0].image
    (group,) = vt.frames(path, max_patches=64, group_size=5)
    size = find_size(256, 192, 64)
    assert group.images[0].shape == (size[1], size[0], 3)
    assert np.array_equal(group.images[0], Image.fromarray(whole).resize(size, Image.Resampling.BICUBIC))


def test_progress_and_wrong_settings(tmp_path: Path) -> None:
    path = make_video(tmp_path, 50)
    seen: list[tuple[int, int]] = []
    assert len(list(vt.frames(path, progress=lambda done, total: seen.append((done, total))))) == 3
    assert seen == [(4, 10), (8, 10), (10, 10)]
    for wrong in ({"fps": 0.0}, {"group_size": 0}, {"max_patches": 0}):
        with pytest.raises(VideoError, match="all must be above 0"):
            vt.frames(path, **wrong)  # type: ignore[arg-type]
