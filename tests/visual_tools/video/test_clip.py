"""Pieces of videos: what they hold, where they begin, what came along."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import visual_tools as vt
from tests.visual_tools.video.making import Recipe, make_video, read_number
from visual_tools.errors import VideoError

GROUPS = {"g": "10", "keyint_min": "10", "sc_threshold": "0", "bf": "2", "crf": "10"}


def read_numbers(path: Path) -> list[int]:
    return [read_number(frame.image) for frame in vt.sample_frames(path, n=1000)]


def find_sound_s(path: Path) -> float:
    with av.open(str(path)) as container:
        return sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_a_copy_begins_at_the_keyframe_before_and_says_so(tmp_path: Path, name: str) -> None:
    path = make_video(tmp_path, 60, Recipe(name=name, options=GROUPS, sound_rate=48000))
    clip = vt.cut_clip(path, 2.5, 4.0, tmp_path / f"clip{path.suffix}")
    numbers = read_numbers(clip.path)
    assert numbers == list(range(20, 20 + len(numbers)))
    assert 40 <= numbers[-1] + 1 <= 43  # frames that the last one is built on may come along
    assert (clip.start_s, clip.num_frames) == (pytest.approx(2.0, abs=0.001), len(numbers))
    assert clip.end_s == pytest.approx(clip.start_s + len(numbers) / 10, abs=0.002)
    assert not clip.is_exact and clip.has_audio
    assert clip.warnings == ("it begins at 2.000 s, the keyframe before 2.5 s: exact=True begins there",)
    assert find_sound_s(clip.path) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_an_exact_piece(tmp_path: Path, name: str) -> None:
    path = make_video(tmp_path, 60, Recipe(name=name, options=GROUPS, sound_rate=48000))
    clip = vt.cut_clip(path, 2.5, 4.0, tmp_path / f"clip{path.suffix}", exact=True)
    assert read_numbers(clip.path) == list(range(25, 40))
    assert (clip.start_s, clip.end_s) == (pytest.approx(2.5, abs=0.001), pytest.approx(4.0, abs=0.001))
    assert (clip.num_frames, clip.is_exact, clip.has_audio, clip.warnings) == (15, True, True, ())
    assert find_sound_s(clip.path) == pytest.approx(1.5, abs=0.1)


def test_a_copy_loses_nothing(tmp_path: Path) -> None:
    path = make_video(tmp_path, 60, Recipe(options=GROUPS))
    clip = vt.cut_clip(path, 2, 3, tmp_path / "clip.mp4")
    assert clip.warnings == ()
    pairs = zip(
        vt.sample_frames(path, timestamps_s=[2.0, 2.5]), vt.sample_frames(clip.path, timestamps_s=[0, 0.5]), strict=True
    )
    assert all(np.array_equal(one.image, other.image) for one, other in pairs)


@pytest.mark.parametrize("exact", [False, True])
def test_it_is_shown_the_same_way(tmp_path: Path, exact: bool) -> None:
    def turn(stream: av.VideoStream) -> None:
        stream.set_display_rotation(90)
        stream.codec_context.sample_aspect_ratio = Fraction(3, 2)
        stream.codec_context.colorspace = 1

    path = make_video(tmp_path, 30, Recipe(options=GROUPS, prepare=turn))
    clip = vt.cut_clip(path, 1.0, 2.0, tmp_path / "clip.mp4", exact=exact)
    before, after = vt.probe(path), vt.probe(clip.path)
    assert (before.width_px, before.height_px, before.rotation_deg) == (96, 192, 270)
    assert (after.width_px, after.height_px, after.rotation_deg) == (96, 192, 270)
    one, other = (
        vt.sample_frames(path, timestamps_s=[1.2])[0].image,
        vt.sample_frames(clip.path, timestamps_s=[0.2])[0].image,
    )
    assert np.abs(one.astype(int) - other).mean() < 2


def test_uneven_times_stay(tmp_path: Path) -> None:
    times = [0, 40, 80, 1000, 1033, 2000, 2500, 3000]
    path = make_video(tmp_path, 8, Recipe(name="a.mkv", times=times))
    clip = vt.cut_clip(path, 1.0, 2.6, tmp_path / "clip.mkv", exact=True)
    assert vt.sample_frames(clip.path).timestamps_s == pytest.approx([0, 0.033, 1.0, 1.5], abs=0.002)


@pytest.mark.parametrize("codec", [("gif", "rgb8", "a.gif"), ("ffv1", "yuv420p10le", "a.mkv")])
def test_exact_pieces_of_other_codecs(tmp_path: Path, codec: tuple[str, str, str]) -> None:
    recipe = Recipe(name=codec[2], codec=codec[0], pix_fmt=codec[1], options={}, size=(131, 97))
    clip = vt.cut_clip(make_video(tmp_path, 30, recipe), 1.0, 2.0, tmp_path / "clip.mp4", exact=True)
    assert read_numbers(clip.path) == list(range(10, 20))


def test_to_the_end_and_beyond(tmp_path: Path) -> None:
    path = make_video(tmp_path, 30, Recipe(options=GROUPS))
    clip = vt.cut_clip(path, 1.95, 99, tmp_path / "clip.mp4", exact=True)
    assert read_numbers(clip.path) == list(range(19, 30))
    assert clip.warnings == ("it ends with the video, at 3.000 s",)


def test_wrong_requests(tmp_path: Path) -> None:
    path = make_video(tmp_path, 30, Recipe(options=GROUPS, sound_rate=48000))
    for start_s, end_s in ((3.0, 4.0), (-1.0, 1.0), (2.0, 2.0), (2.0, 1.0)):
        with pytest.raises(VideoError, match=r"is not a part of video\.mp4: it runs from 0 to 3\.000 s"):
            vt.cut_clip(path, start_s, end_s, tmp_path / "clip.mp4")
    with pytest.raises(VideoError, match="the source itself"):
        vt.cut_clip(path, 1, 2, path)
    with pytest.raises(VideoError, match="there is no folder"):
        vt.cut_clip(path, 1, 2, tmp_path / "none" / "clip.mp4")
    for name in ("clip.webm", "clip.xyz", "clip"):
        with pytest.raises(VideoError, match=r"cannot be written to clip.*: take the ending of the source, \.mp4"):
            vt.cut_clip(path, 1, 2, tmp_path / name)
        assert not (tmp_path / name).exists()
    with pytest.raises(VideoError, match="does not say when its frames are shown"):
        vt.cut_clip(make_video(tmp_path, 10, Recipe(name="a.h264")), 0, 0.2, tmp_path / "clip.mp4")
