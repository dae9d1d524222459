"""Files that are odd, damaged, no videos, or the same."""

import shutil
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from apps.video_showcase.detectors.sound import find_sounds, read_loudness
from apps.video_showcase.events import VideoEvent
from apps.video_showcase.frame_store import FrameStore
from apps.video_showcase.samples import RATE, iter_samples
from apps.video_showcase.sources import VideoInputError, source_from_json, take_inventory
from apps.video_showcase.watch import watch
from tests.apps.video_showcase.conftest import whole
from tests.visual_tools.video.making import Recipe, make_video, read_number


def make_tone(path: Path, tone_s: tuple[float, float], seconds: float = 12.0) -> Path:
    """Sound alone, with a tone in it."""
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as out:
        stream = out.add_stream("aac", rate=16_000, layout="mono")
        for start in range(0, int(16_000 * seconds), 1024):
            at_s = (start + np.arange(1024)) / 16_000
            is_on = (at_s >= tone_s[0]) & (at_s < tone_s[1])
            wave = rng.normal(0, 0.004, 1024) + 0.3 * is_on * np.sin(2 * np.pi * 880 * at_s)
            frame = av.AudioFrame.from_ndarray(wave.astype(np.float32)[None], format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = 16_000, start, Fraction(1, 16_000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


@pytest.mark.long
def test_the_rest_is_watched_when_some_cannot_be(tmp_path: Path, match: tuple[Path, list[VideoEvent]]) -> None:
    (tmp_path / "notes.mp4").write_text("no video")
    (tmp_path / "empty.mp4").touch()
    whole_file = match[0].read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole_file[: len(whole_file) // 2])
    twin = shutil.copy(match[0], tmp_path / "twin.mp4")
    names = ["notes.mp4", "empty.mp4", "cut.mp4", "none.mp4", "."]
    found = take_inventory([match[0], match[0], Path(twin), *(tmp_path / name for name in names)])
    assert [source.name for source in found.sources] == ["match.mp4"]
    assert [line.rpartition(" is the same file as ")[0] for line in found.repeated] == [str(match[0]), str(twin)]
    told = ["cannot be read as a video", "is empty", "index is missing", "no such file", "is a folder"]
    assert len(found.left_out) == len(told)
    assert all(words in line for words, line in zip(told, found.left_out, strict=True))


def test_a_cut_recording_is_watched_as_far_as_it_goes(tmp_path: Path) -> None:
    path = make_video(tmp_path, 80, Recipe(name="whole.mkv"))
    data = path.read_bytes()
    (tmp_path / "cut.mkv").write_bytes(data[: len(data) // 2])
    source = take_inventory([tmp_path / "cut.mkv"]).sources[0]
    assert 1 < source.duration_s < 7
    assert watch(whole(source), ("scene", "motion", "flash"))["problems"] == []


def test_odd_names_and_equal_names_stay_apart(tmp_path: Path) -> None:
    odd = "a\n<img src=x> \udcff@00:01.mp4"
    (tmp_path / "other").mkdir()
    paths = [
        make_video(tmp_path, 5, Recipe(name="a.mp4")),
        make_video(tmp_path / "other", 6, Recipe(name="a.mp4")),
        make_video(tmp_path, 7).rename(tmp_path / odd),
    ]
    sources = take_inventory(paths).sources
    assert [source.name for source in sources] == ["a.mp4", "a-2.mp4", "a\ufffd<img src=x> \ufffd@00:01.mp4"]
    assert [source_from_json(source.to_json()) for source in sources] == list(sources)


def test_sound_alone_is_listened_to_when_asked_for(tmp_path: Path) -> None:
    path = make_tone(tmp_path / "sound.m4a", (5.0, 6.0))
    with pytest.raises(VideoInputError, match="holds no video, only audio"):
        take_inventory([path])
    source = take_inventory([path], with_sound=True).sources[0]
    assert not source.has_video
    found = watch(whole(source), ("sound", "flash"))
    assert [(event["kind"], round(event["start_s"])) for event in found["events"]] == [("beep", 5)]


def test_times_of_sound_are_those_of_the_file_in_any_span(tmp_path: Path) -> None:
    from dataclasses import replace

    source = take_inventory([make_tone(tmp_path / "sound.m4a", (25.0, 26.0), 40.0)], with_sound=True).sources[0]
    span = replace(whole(source), start_s=20.0, end_s=30.0)
    (event,) = find_sounds(read_loudness(span), source.name)
    assert (event.start_s, event.end_s) == pytest.approx((25.0, 26.0), abs=0.12)


async def test_frames_are_those_of_their_times_and_kept(tmp_path: Path) -> None:
    path = make_video(tmp_path, 60, Recipe(rate=Fraction(10)))
    source = take_inventory([path]).sources[0]
    store = FrameStore(tmp_path / "frames")
    frames = await store.get(source, [0.0, 3.1, 1.0, 3.1])
    assert [read_number(frame.image) for frame in frames] == [0, 31, 10, 31]
    again = FrameStore(tmp_path / "frames")
    assert [read_number(frame.image) for frame in await again.get(source, [3.1, 1.0])] == [31, 10]
    assert (store.num_decoded, again.num_decoded) == (3, 0)
    path.unlink()
    with pytest.raises(VideoInputError, match="no longer exists"):
        await again.get(source, [5.0])


async def test_the_store_of_frames_has_a_limit(tmp_path: Path) -> None:
    source = take_inventory([make_video(tmp_path, 60, Recipe())]).sources[0]
    store = FrameStore(tmp_path / "frames", max_bytes=5_000)
    assert len(await store.get(source, [0, 1, 2, 3, 4, 5])) == 6
    assert sum(each.stat().st_size for each in (tmp_path / "frames").iterdir()) <= 5_000


def test_a_video_of_one_frame_and_one_of_uneven_rate_are_watched(tmp_path: Path) -> None:
    one = make_video(tmp_path, 1, Recipe(name="one.mp4"))
    times = sorted({int(time) for time in np.cumsum(np.random.default_rng(0).integers(20, 900, 60))})
    uneven = make_video(tmp_path, 60, Recipe(name="uneven.mkv", times=times))
    for source in take_inventory([one, uneven]).sources:
        assert watch(whole(source), ("scene", "text", "motion", "flash", "sound"))["problems"] == []


def test_frames_that_remain_are_sampled_at_the_rate_of_the_detectors(tmp_path: Path) -> None:
    """A screen recorder writes a frame only when something has changed."""
    path = make_video(tmp_path, 4, Recipe(name="still.mkv", times=[0, 90, 2310, 9000]))
    source = take_inventory([path]).sources[0]
    samples = list(iter_samples(whole(source)))
    gaps_s = np.diff([sample.time_s for sample in samples])
    assert gaps_s.max() <= 1.5 / RATE
    first = {read_number(sample.image): sample.time_s for sample in reversed(samples)}
    assert first == {
        number: pytest.approx(time_s, abs=0.01) for number, time_s in {0: 0, 1: 0.09, 2: 2.31, 3: 9.0}.items()
    }
