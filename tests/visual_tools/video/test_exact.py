"""The frame that comes back is the frame that was asked for, in every kind of file."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import visual_tools as vt
from tests.visual_tools.video.making import Recipe, make_video, read_number
from visual_tools.errors import VideoError
from visual_tools.video.frames import Painter, find_shape, fit_side

COUNT = 40
SHORT = {"g": "8", "bf": "3", "preset": "veryfast", "crf": "10"}
X265 = {"preset": "ultrafast", "x265-params": "keyint=8:bframes=4:open-gop=1:scenecut=0:log-level=none"}
KINDS = [
    Recipe(name="short.mp4", options=SHORT),
    Recipe(name="long.mp4", options=SHORT | {"g": "250"}),
    Recipe(name="open.mp4", options={"g": "8", "bf": "3", "crf": "10", "x264-params": "open-gop=1:scenecut=0"}),
    Recipe(name="refresh.ts", options={"g": "16", "bf": "0", "crf": "10", "x264-params": "intra-refresh=1"}),
    Recipe(name="matroska.mkv", options=SHORT),
    Recipe(name="stream.ts", options=SHORT),
    Recipe(name="fragments.mp4", options=SHORT, mux={"movflags": "frag_keyframe+empty_moov"}),
    Recipe(name="h264.avi", options=SHORT),
    Recipe(name="bare.h264", options=SHORT, rate=Fraction(25)),
    Recipe(name="mpeg4.avi", codec="mpeg4", options={"g": "8", "bf": "2", "b": "2000000"}),
    Recipe(name="mpeg2.mpg", codec="mpeg2video", options={"g": "8", "bf": "2", "b": "4000000"}, rate=Fraction(25)),
    Recipe(name="motion.avi", codec="mjpeg", pix_fmt="yuvj420p", options={}),
    Recipe(name="h265.mp4", codec="libx265", options=X265),
    Recipe(name="vp8.webm", codec="libvpx", options={"g": "8", "auto-alt-ref": "1", "lag-in-frames": "9", "b": "2M"}),
    Recipe(name="ten_bits.mov", codec="prores_ks", pix_fmt="yuv422p10le", options={}),
    Recipe(name="pictures.gif", codec="gif", pix_fmt="rgb8", options={}),
]


@pytest.mark.parametrize("recipe", KINDS, ids=lambda recipe: recipe.name)
def test_every_frame_of_every_kind_of_file(tmp_path: Path, recipe: Recipe) -> None:
    path = make_video(tmp_path, COUNT, recipe)
    every = vt.sample_frames(path, n=COUNT)
    assert [frame.index for frame in every] == [read_number(frame.image) for frame in every] == list(range(COUNT))
    assert every.timestamps_s == pytest.approx([k / float(recipe.rate) for k in range(COUNT)], abs=0.0006)
    for number in (39, 0, 17, 16, 7, 8, 30, 31):
        alone = vt.sample_frames(path, timestamps_s=[every[number].timestamp_s])
        assert [(frame.index, read_number(frame.image)) for frame in alone] == [(number, number)]


@pytest.mark.parametrize("recipe", [KINDS[0], KINDS[1], KINDS[9], KINDS[12]], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("step", [1, 3, 7])
def test_passing_over_frames_changes_no_pixel(tmp_path: Path, recipe: Recipe, step: int) -> None:
    path = make_video(tmp_path, COUNT, recipe)
    painter = Painter()
    with av.open(str(path)) as container:
        plain = [painter.paint(frame, find_shape(frame, None), fit_side(None)) for frame in container.decode(video=0)]
    wanted = list(range(1, COUNT, step))
    found = vt.sample_frames(path, timestamps_s=[number / float(recipe.rate) for number in wanted])
    assert [frame.index for frame in found] == wanted
    assert all(np.array_equal(frame.image, plain[frame.index]) for frame in found)


def test_n_is_even_and_includes_both_ends(tmp_path: Path) -> None:
    path = make_video(tmp_path, COUNT, KINDS[0])
    assert [frame.index for frame in vt.sample_frames(path, n=4)] == [0, 13, 26, 39]
    assert [frame.index for frame in vt.sample_frames(path, n=1)] == [0]
    assert [frame.index for frame in vt.sample_frames(path, n=3, start_s=1.0, end_s=2.0)] == [10, 15, 20]
    assert len(vt.sample_frames(path)) == 16


def test_more_frames_than_there_are(tmp_path: Path) -> None:
    frames = vt.sample_frames(make_video(tmp_path, 5), n=50)
    assert [read_number(frame.image) for frame in frames] == [0, 1, 2, 3, 4]
    assert frames.warnings == ("there are only 5 frames, 50 were asked for",)


def test_fps(tmp_path: Path) -> None:
    path = make_video(tmp_path, COUNT, KINDS[0])
    assert [frame.index for frame in vt.sample_frames(path, fps=2.5)] == [0, 4, 8, 12, 16, 20, 24, 28, 32, 36]
    assert [frame.index for frame in vt.sample_frames(path, fps=1, start_s=0.5, end_s=2.6)] == [5, 15, 25]
    assert len(vt.sample_frames(path, fps=1000)) == COUNT


def test_times_in_any_order_and_twice(tmp_path: Path) -> None:
    path = make_video(tmp_path, COUNT, KINDS[0])
    frames = vt.sample_frames(path, timestamps_s=[3.05, 0.19, 3.05, 0.0, 3.99])
    assert [read_number(frame.image) for frame in frames] == [30, 1, 30, 0, 39]
    assert frames[0].timestamp_s == pytest.approx(3.0)


def test_a_printed_time_finds_its_frame(tmp_path: Path) -> None:
    path = make_video(tmp_path, COUNT, Recipe(rate=Fraction(30000, 1001)))
    printed = [round(frame.timestamp_s, 3) for frame in vt.iter_frames(path, n=COUNT)]
    assert [frame.index for frame in vt.sample_frames(path, timestamps_s=printed)] == list(range(COUNT))


def test_uneven_times(tmp_path: Path) -> None:
    times = [0, 40, 80, 1000, 1033, 4000, 4001, 9000]
    path = make_video(tmp_path, 8, Recipe(name="uneven.mkv", times=times))
    info = vt.probe(path)
    assert (info.num_frames, info.is_variable_rate) == (8, True)
    frames = vt.sample_frames(path, timestamps_s=[0.5, 0.999, 1.0, 3.9, 4.0009, 8.0])
    assert [read_number(frame.image) for frame in frames] == [2, 2, 3, 4, 6, 6]
    assert [read_number(frame.image) for frame in vt.sample_frames(path, n=10)] == [0, 3, 4, 5, 6, 7]
    assert vt.sample_frames(path, n=8, end_s=9).timestamps_s[-1] == 9.0


def test_time_starts_at_the_first_frame(tmp_path: Path) -> None:
    late = make_video(tmp_path, 20, Recipe(name="late.mkv", times=[5000 + 100 * k for k in range(20)]))
    assert vt.sample_frames(late, timestamps_s=[0.0, 1.0]).timestamps_s == [0.0, 1.0]
    frames = vt.sample_frames(late, timestamps_s=[0.0, 1.0])
    assert [read_number(frame.image) for frame in frames] == [0, 10]
    assert vt.probe(late).duration_s == pytest.approx(2.0, abs=0.05)


def test_frames_before_the_edit_list_begins_are_not_shown(tmp_path: Path) -> None:
    early = make_video(tmp_path, 20, Recipe(name="early.mp4", times=[100 * k - 500 for k in range(20)]))
    frames = vt.sample_frames(early, n=100)
    assert frames.timestamps_s[0] == 0.0
    assert [read_number(frame.image) for frame in frames] == list(range(20 - len(frames), 20))
    assert [frame.index for frame in frames] == list(range(len(frames)))


def test_one_by_one_is_the_same(tmp_path: Path) -> None:
    path = make_video(tmp_path, COUNT, KINDS[0])
    seen: list[tuple[int, int]] = []
    frames = vt.iter_frames(path, n=7, max_side_px=64, progress=lambda done, total: seen.append((done, total)))
    first = next(frames)
    assert (first.index, first.image.shape, seen) == (0, (48, 64, 3), [])
    assert [frame.index for frame in frames] == [frame.index for frame in vt.sample_frames(path, n=7)][1:]
    assert seen == [(done, 7) for done in range(1, 8)]


def test_a_reader_that_is_left_early_lets_go(tmp_path: Path) -> None:
    path = make_video(tmp_path, COUNT, KINDS[0])
    frames = vt.iter_frames(path, n=COUNT)
    next(frames)
    frames.close()  # type: ignore[attr-defined]
    path.unlink()


def test_nearest_keyframes_only_when_asked(tmp_path: Path) -> None:
    path = make_video(tmp_path, COUNT, Recipe(options=SHORT | {"sc_threshold": "0", "keyint_min": "8"}))
    frames = vt.sample_frames(path, timestamps_s=[0.3, 0.5, 3.9, 1.6], exact=False)
    assert [read_number(frame.image) for frame in frames] == [0, 8, 32, 16]
    assert [frame.index for frame in vt.keyframes(path)] == [0, 8, 16, 24, 32]
    assert [read_number(frame.image) for frame in vt.keyframes(path, max_frames=3)] == [0, 16, 32]
    assert vt.keyframes(path, max_frames=3).warnings == ("3 of 5 keyframes, spread evenly",)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"n": 0}, "n is 0"),
        ({"n": 10**12}, "1 to 10000000 frames were expected"),
        ({"fps": 1e12}, "10000000 frames in all at most"),
        ({"n": 3, "fps": 1.0}, "exclude each other"),
        ({"fps": 0.0}, "fps is 0"),
        ({"timestamps_s": []}, "empty"),
        ({"timestamps_s": [1.0, 99.0]}, "99 s lies outside of the video, which runs from 0 to 4.000 s"),
        ({"timestamps_s": [float("nan")]}, "nan s lies outside"),
        ({"timestamps_s": [-1.0]}, "-1 s lies outside"),
        ({"n": 3, "start_s": 4.5}, "start_s is 4.5"),
        ({"n": 3, "start_s": 2.0, "end_s": 1.0}, "end_s is 1"),
        ({"n": 3, "max_side_px": 0}, "max_side_px is 0"),
        ({"n": 3, "max_side": 4}, "no such option: max_side; there are: max_side_px, exact, progress"),
    ],
)
def test_wrong_requests(tmp_path: Path, wrong: dict[str, float], told: str) -> None:
    path = make_video(tmp_path, COUNT, KINDS[0])
    with pytest.raises(VideoError, match=told.replace(".", r"\.")):
        vt.sample_frames(path, **wrong)  # type: ignore[arg-type]


def test_more_than_memory_holds_is_refused_before_decoding(tmp_path: Path) -> None:
    recipe = Recipe(name="one.avi", codec="mjpeg", pix_fmt="yuvj420p", options={}, size=(3840, 2160))
    path = make_video(tmp_path, [np.full((2160, 3840, 3), 90, np.uint8)], recipe)
    large = tmp_path / "large.avi"
    with av.open(str(path)) as source, av.open(str(large), "w") as out:
        packet = next(source.demux(video=0))
        copies = out.add_stream_from_template(packet.stream)
        for number in range(180):
            copy = av.Packet(bytes(packet))
            copy.stream, copy.pts, copy.dts, copy.time_base, copy.is_keyframe = (
                copies,
                number,
                number,
                1 / Fraction(10),
                True,
            )
            out.mux(copy)
    with pytest.raises(VideoError, match=r"180 images need 4\.5 GB of memory"):
        vt.sample_frames(large, n=180)
    assert len(vt.sample_frames(large, n=2, max_side_px=128)) == 2
