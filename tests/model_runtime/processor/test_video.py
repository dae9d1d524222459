"""Video files, made here, through the sampling rule."""

import asyncio
import random
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from model_runtime.cancellation import CancelledWork, run_in_thread
from model_runtime.errors import MediaError
from model_runtime.processor.media_rules import MediaLimits, format_timestamp, sample_indices
from model_runtime.processor.processor import Processor, read_index, sample_video
from tests.model_runtime.processor.films import Film, encode_sound, read_number

LIMITS = MediaLimits()
EVEN_100 = (0, 16, 33, 50, 66, 82, 99)  # 100 frames of 30 a second


def sampled(data: bytes | Path, limits: MediaLimits = LIMITS) -> list[tuple[int, int]]:
    """(index asked for, number that the decoded frame carries)."""
    _, frames = sample_video(data, 2.0, limits)
    return [(frame.index, read_number(frame.image)) for frame in frames]


@pytest.mark.parametrize(
    ("num_frames", "fps", "expected"),
    [
        (100, 30, EVEN_100),
        (1, 30, (0,)),
        (7, 30, (0,)),
        (8, 30, (0,)),  # 0.53 of a frame
        (38, 30, (0, 18, 37)),  # 2.53 frames; 18.5 is rounded to the even side
        (5, 2, (0, 1, 2, 3, 4)),
        (5, 0.5, (0, 1, 2, 3, 4)),  # slower than it is sampled: every frame
        (24, 23.976, (0, 23)),
    ],
)
def test_which_frames(num_frames: int, fps: float, expected: tuple[int, ...]) -> None:
    assert sample_indices(num_frames, fps, 2.0) == expected


@pytest.mark.parametrize("seed", range(5))
def test_frames_are_never_taken_twice(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        num_frames, fps = chance.randrange(1, 4000), chance.choice((0.3, 2, 2.01, 23.976, 25, 59.94))
        indices = sample_indices(num_frames, fps, 2.0)
        assert list(indices) == sorted(set(indices))
        assert indices[0] == 0
        assert indices[-1] == (num_frames - 1 if len(indices) > 1 else 0)


@pytest.mark.parametrize(
    ("index", "fps", "expected"),
    [
        (0, 30, "00:00:00.000"),
        (1, 30, "00:00:00.033"),
        (50, 30, "00:00:01.666"),  # cut off, not rounded
        (29, 25, "00:00:01.159"),  # 1.16 as a float, as the peer writes it
        (3600 * 25 + 25, 25, "01:00:01.000"),
        (24 * 3600 * 2, 2, "00:00:00.000"),  # a day later it begins anew
        (24 * 3600 * 2 + 7321 * 2 + 1, 2, "02:02:01.500"),
    ],
)
def test_timestamps(index: int, fps: float, expected: str) -> None:
    assert format_timestamp(index, fps) == expected


FILMS = [
    Film(b_frames=3),
    Film(gop=250),
    Film(gop=1),
    Film(container="matroska", b_frames=2),
    Film(container="webm", codec="libvpx"),
    Film(container="mpegts", b_frames=2, options={"x264-params": "open-gop=1"}),
    Film(container="avi", b_frames=2),
    Film(container="avi", codec="mpeg4"),
]


@pytest.mark.parametrize("film", FILMS, ids=lambda film: f"{film.container}-{film.codec}-{film.gop}-{film.b_frames}")
def test_the_very_frames(film: Film, tmp_path: Path) -> None:
    data = film.encode()
    assert sampled(data) == [(index, index) for index in EVEN_100]
    path = tmp_path / "film"
    path.write_bytes(data)
    assert sampled(path) == sampled(data)


def test_a_gif_is_a_film_too() -> None:
    numbers = sampled(Film(container="gif", codec="gif").encode())
    assert numbers == [
        (index, index) for index in (0, 20, 40, 59, 79, 99)
    ]  # its clock has steps of 10 ms: 33.3 a second


@pytest.mark.parametrize(
    ("num_frames", "chunks"), [(1, [1]), (100, [4, 3]), (120, [4, 4]), (121, [4, 4]), (136, [4, 4, 1])]
)
def test_chunks(num_frames: int, chunks: list[int]) -> None:
    found = Processor().video(Film(num_frames=num_frames, size=(320, 240)).encode())
    assert [item.grid for _, item in found] == [(t, 18, 24) for t in chunks]
    assert {item.num_tokens for _, item in found} == {108}
    taken = sample_indices(num_frames, 30, 2.0)
    assert [time for time, _ in found] == [format_timestamp(index, 30) for index in taken[::4]]
    frames = [frame for _, item in found for frame in item.frames]
    assert [read_number(frame, 320) for frame in frames] == list(taken)
    assert not any(frame[240:].any() or frame[:, 320:].any() for frame in frames)


def test_large_frames_are_made_smaller() -> None:
    [(time, item)] = Processor().video(Film(num_frames=1, size=(1280, 720)).encode())
    assert (time, item.num_tokens, item.grid) == ("00:00:00.000", 1075, (1, 50, 86))


def test_times_that_are_not_even() -> None:
    times = tuple(7 * number**2 for number in range(60))
    film = Film(container="matroska", num_frames=60, times_ms=times)
    assert sampled(film.encode()) == [(index, index) for index in (0, 20, 39, 59)]  # by place, not by time


def test_odd_rates() -> None:
    film = Film(num_frames=48, rate=Fraction(24_000, 1001))
    assert [time for time, _ in Processor().video(film.encode())] == ["00:00:00.000"]
    assert sampled(film.encode()) == [(index, index) for index in (0, 16, 31, 47)]
    slow = Film(num_frames=3, rate=Fraction(1, 2))
    assert [(time, item.grid[0]) for time, item in Processor().video(slow.encode())] == [("00:00:00.000", 3)]


def test_the_header_is_not_asked_how_many_frames_there_are() -> None:
    """A recording that was cut short says nothing, or too much."""
    whole = Film(container="matroska").encode()
    cut = whole[: len(whole) * 2 // 3]
    count = read_index(cut, LIMITS).num_frames
    assert 50 < count < 100
    assert [number for _, number in sampled(cut)] == list(sample_indices(count, 30.0, 2.0))


def test_a_damaged_end_is_left_out() -> None:
    data = bytearray(Film(container="matroska").encode())
    data[len(data) // 2 :] = random.Random(0).randbytes(len(data) - len(data) // 2)
    numbers = sampled(bytes(data))
    assert numbers[0] == (0, 0)
    assert 1 < len(numbers) < len(EVEN_100)


WRONG = {
    "nothing": (b"", "the video is empty: 0 bytes"),
    "text": (b"hello " * 50, "the video cannot be opened"),
    "a playlist": (
        b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n/etc/hostname\n#EXT-X-ENDLIST\n",
        "cannot be opened",
    ),
    "a list of files": (b"ffconcat version 1.0\nfile /etc/hostname\n", "cannot be opened"),
    "a cut MP4": (Film().encode()[:2000], "cannot be opened"),
    "sound": (encode_sound(), "no video stream"),
}


@pytest.mark.parametrize(("data", "text"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(MediaError) as caught:
        Processor().video(data)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (MediaLimits(max_video_bytes=100), "bytes, at most 100 are taken"),
        (MediaLimits(max_pixels=7679), "160 x 48 pixels, at most 7679"),
        (MediaLimits(max_source_frames=99), "more than the 99 frames"),
        (MediaLimits(max_sampled_frames=6), "gives 7 frames at 2 a second, at most 6 are taken"),
        (MediaLimits(max_video_pixels=767_999), "100 frames of 160 x 48 pixels, at most 767999 pixels are decoded"),
    ],
)
def test_limits(limits: MediaLimits, text: str) -> None:
    data = Film().encode()
    with pytest.raises(MediaError) as caught:
        Processor(limits=limits).video(data)
    assert text in str(caught.value)
    just = {"max_video_bytes": len(data), "max_pixels": 7680, "max_source_frames": 100, "max_sampled_frames": 7}
    assert len(sampled(data, MediaLimits(**just, max_video_pixels=768_000))) == 7


async def test_a_video_that_nobody_waits_for_is_not_read_on() -> None:
    frames = await run_in_thread(lambda: sample_video(Film().encode(), 2.0, LIMITS)[1])
    has_begun, goes_on, given_up = threading.Event(), threading.Event(), threading.Event()

    def read_all() -> None:
        next(frames)
        has_begun.set()
        goes_on.wait(20)
        try:
            list(frames)
        except CancelledWork:
            given_up.set()

    task = asyncio.create_task(run_in_thread(read_all))
    assert await asyncio.to_thread(has_begun.wait, 20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    goes_on.set()
    assert await asyncio.to_thread(given_up.wait, 20)


@pytest.mark.parametrize("container", ["mp4", "matroska", "avi"])
def test_damaged_bytes_give_frames_or_a_media_error(container: str) -> None:
    chance = random.Random(container)
    whole = Film(container=container, num_frames=40).encode()
    outcomes = set()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            data[chance.randrange(chance.choice((400, len(data))))] = chance.randrange(256)
        try:
            Processor(limits=MediaLimits(max_pixels=10**6)).video(bytes(data))
            outcomes.add("frames")
        except MediaError:
            outcomes.add("refused")
    assert outcomes == {"frames", "refused"}


def test_reading_is_the_same_each_time() -> None:
    data = Film(b_frames=2).encode()
    first, second = Processor().video(data), Processor().video(data)
    assert [(time, item.content_hash) for time, item in first] == [(time, item.content_hash) for time, item in second]
    assert all(np.array_equal(a.frames, b.frames) for (_, a), (_, b) in zip(first, second, strict=True))
