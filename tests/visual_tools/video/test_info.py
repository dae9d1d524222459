"""What a file holds, and what is said of files that are broken or no videos at all."""

import re
import shutil
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

import visual_tools as vt
from tests.visual_tools.video.making import Recipe, make_video, read_number
from visual_tools.errors import VideoError
from visual_tools.video.types import VideoInfo

STEADY = {"g": "8", "keyint_min": "8", "sc_threshold": "0", "bf": "2", "crf": "10"}
FASTSTART = {"movflags": "faststart"}


def test_everything_about_a_file(tmp_path: Path) -> None:
    path = make_video(tmp_path, 30, Recipe(options=STEADY, sound_rate=48000))
    assert vt.probe(path) == VideoInfo(
        path=path,
        container="mov,mp4,m4a,3gp,3g2,mj2",
        codec="h264",
        width_px=128,
        height_px=96,
        native_width_px=128,
        native_height_px=96,
        rotation_deg=0,
        fps=10.0,
        is_variable_rate=False,
        duration_s=3.0,
        num_frames=30,
        is_num_frames_exact=True,
        num_keyframes=4,
        keyframe_gap_s=0.8,
        max_keyframe_gap_s=0.8,
        has_audio=True,
        is_truncated=False,
        warnings=(),
    )
    assert repr(vt.probe(path)) == (
        "VideoInfo(video.mp4: h264, 128x96 px, 10 fps, 3.000 s, 30 frames, with sound, "
        "4 keyframes, 0.8 s apart, at most 0.8 s)"
    )


def test_a_file_without_times_is_counted(tmp_path: Path) -> None:
    info = vt.probe(make_video(tmp_path, 30, Recipe(name="bare.h264")))
    assert (info.num_frames, info.is_num_frames_exact) == (30, False)
    assert "does not say when frames are shown" in info.warnings[0]
    assert "about 30 frames" in repr(info)


def test_a_single_frame(tmp_path: Path) -> None:
    path = make_video(tmp_path, 1)
    info = vt.probe(path)
    assert (info.num_frames, info.num_keyframes, info.duration_s, info.keyframe_gap_s) == (1, 1, 0.1, 0.1)
    assert [frame.index for frame in vt.sample_frames(path, n=5)] == [0]
    assert [group.indices for group in vt.frames(path)] == [(0,)]
    assert len(vt.scenes(path)) == 1


def test_two_videos_in_one_file_and_a_cover(tmp_path: Path) -> None:
    path = tmp_path / "two.mkv"
    with av.open(str(path), "w") as out:
        streams = [out.add_stream("libx264", rate=10) for _ in range(2)]
        for stream, side in zip(streams, (32, 64), strict=True):
            stream.width, stream.height, stream.pix_fmt = side, side, "yuv420p"
        for stream in streams:
            for _ in range(3):
                out.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), "rgb24")))
            out.mux(stream.encode(None))
    info = vt.probe(path)
    assert (info.width_px, info.warnings) == (64, ("2 video streams: the largest is read",))


def test_cut_off_with_the_index_at_the_end(tmp_path: Path) -> None:
    path = make_video(tmp_path, 30, Recipe(options=STEADY))
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VideoError, match="index is missing or broken: the recording was cut off"):
        vt.probe(cut)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.avi", "sound.mkv"])
def test_cut_off_files_give_the_frames_that_are_there(tmp_path: Path, name: str) -> None:
    count = 60
    codec = {"codec": "mpeg4", "options": {"g": "8", "qscale": "2"}} if name == "a.avi" else {"options": STEADY}
    more = {"mux": FASTSTART if name == "a.mp4" else {}, "sound_rate": 16_000 if name == "sound.mkv" else 0}
    recipe = Recipe(name=name, **more, **codec)  # type: ignore[arg-type]
    path = make_video(tmp_path, count, recipe)
    assert not vt.probe(path).is_truncated
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * 0.6)])
    info = vt.probe(path)
    assert 10 < info.num_frames < 50
    if name != "a.ts":  # nothing in a transport stream says how long it should be
        assert info.is_truncated and re.search(
            r"the file is cut off: only its first [1-4]\.\d s( of \d\.\d s)? can be read", info.warnings[0]
        )
    numbers = [read_number(frame.image) for frame in vt.sample_frames(path, n=20)]
    assert len(numbers) >= 19 and numbers == sorted(numbers) and numbers[0] == 0
    assert numbers[-2] == vt.sample_frames(path, n=20)[-2].index
    assert sum(len(group.images) for group in vt.frames(path)) > 0


def test_damage_in_the_middle_is_told(tmp_path: Path) -> None:
    path = make_video(tmp_path, 40, Recipe(name="a.avi", codec="mjpeg", pix_fmt="yuvj420p", options={"qscale": "3"}))
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    position, size = packets[20]
    data[position : position + size] = b"\x00" * size
    path.write_bytes(data)
    frames = vt.sample_frames(path, timestamps_s=[1.9, 2.0, 2.1])
    assert [read_number(frame.image) for frame in frames] == [19, 19, 21]
    assert frames.warnings == ("1 of 3 frames cannot be decoded: an earlier frame is used instead",)


def make_sound(tmp_path: Path) -> Path:
    path = make_video(tmp_path, 10, Recipe(sound_rate=48000))
    with av.open(str(path)) as source, av.open(str(tmp_path / "sound.mp4"), "w") as out:
        copy = out.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.size:
                packet.stream = copy
                out.mux(packet)
    return tmp_path / "sound.mp4"


def make_picture(tmp_path: Path, name: str) -> Path:
    Image.new("RGB", (20, 20), "red").save(tmp_path / name)
    return tmp_path / name


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


WRONG = {
    "sound alone": (make_sound, "holds no video, only audio"),
    "png": (lambda folder: make_picture(folder, "a.png"), "is an image, not a video: load it with load_image"),
    "jpeg": (lambda folder: make_picture(folder, "a.jpg"), "is an image, not a video"),
    "png that says mp4": (lambda folder: shutil.copy(make_picture(folder, "a.png"), folder / "a.mp4"), "is an image"),
    "text": (lambda folder: write(folder / "a.txt", b"hello\n" * 99), "holds text or data, not a video"),
    "noise": (
        lambda folder: write(folder / "a.mp4", np.random.default_rng(1).bytes(9999)),
        "cannot be read as a video",
    ),
    "empty": (lambda folder: write(folder / "a.mp4", b""), r"is empty \(0 bytes\)"),
    "head alone": (lambda folder: write(folder / "a.mp4", b"\0\0\0\x20ftypisom" + b"\0" * 20), "index is missing"),
    "missing": (lambda folder: folder / "none.mp4", "no such file: .*none.mp4"),
    "missing folder": (lambda folder: folder / "none" / "a.mp4", "there is no folder"),
    "folder": (lambda folder: folder, "is a folder, and a video file was expected"),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("function", ["probe", "sample_frames", "keyframes", "scenes", "contact_sheet", "frames"])
def test_what_is_no_video_is_told(tmp_path: Path, kind: str, function: str) -> None:
    make, told = WRONG[kind]
    with pytest.raises(VideoError, match=told):
        getattr(vt, function)(make(tmp_path))  # type: ignore[operator]


def test_a_missing_file_comes_with_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "talk.mp4", b"x")
    with pytest.raises(VideoError, match=r"in .* there are: talk.mp4$"):
        vt.probe(tmp_path / "tlak.mp4")


def test_names_with_colons_and_spaces(tmp_path: Path) -> None:
    path = make_video(tmp_path, 3)
    odd = path.rename(tmp_path / "http: a%20 b#?.mp4")
    assert vt.probe(str(odd)).num_frames == 3


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = make_video(tmp_path, 3)
    assert vt.probe(path).num_frames == 3
    make_video(tmp_path, 7)
    assert vt.probe(path).num_frames == 7


def test_high_dynamic_range_is_told(tmp_path: Path) -> None:
    def describe(stream: av.VideoStream) -> None:
        stream.codec_context.color_trc = 16

    info = vt.probe(make_video(tmp_path, 2, Recipe(prepare=describe)))
    assert info.warnings == ("high dynamic range (PQ): images look pale, tones are not mapped",)


def test_glued_files_are_counted(tmp_path: Path) -> None:
    parts = [make_video(tmp_path, 20, Recipe(name=f"{k}.ts", rate=Fraction(25), options=STEADY)) for k in range(2)]
    path = write(tmp_path / "glued.ts", parts[0].read_bytes() + parts[1].read_bytes())
    info = vt.probe(path)
    assert (info.num_frames, info.is_num_frames_exact) == (40, False)
    frames = vt.sample_frames(path, n=40)
    assert [read_number(frame.image) for frame in frames] == [*range(20), *range(20)]


def test_a_timeline_that_was_kept_stands_for_reading_the_file(tmp_path: Path) -> None:
    from visual_tools.video.sample import sample_frames
    from visual_tools.video.timeline import read_timeline, remember_timeline, save_timeline

    path = make_video(tmp_path, 40, Recipe(name="film.mkv"))
    found = read_timeline(path)
    save_timeline(path, tmp_path / "film.npz")
    remember_timeline(path, tmp_path / "film.npz")
    kept = read_timeline(path)
    assert kept is not found
    assert kept.pts.tolist() == found.pts.tolist()
    assert kept.key_pts.tolist() == found.key_pts.tolist()
    assert (kept.end_pts, kept.time_base, kept.fps, kept.warnings) == (
        found.end_pts,
        found.time_base,
        found.fps,
        found.warnings,
    )
    assert [read_number(frame.image) for frame in sample_frames(path, timestamps_s=[0.5, 3.1])] == [5, 31]
    make_video(tmp_path, 20, Recipe(name="film.mkv"))  # another file: what was kept is no more than history
    assert len(read_timeline(path).pts) == 20
