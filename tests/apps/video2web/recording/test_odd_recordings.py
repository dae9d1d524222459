"""Recordings as people have them: no video in the file, cut off, with bars, at uneven rates, in other scripts."""

import asyncio
import io
import re
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from apps.video2web import inputs
from apps.video2web.inputs import read_inputs
from apps.video2web.recording import read_recording, tell_facts, to_json
from apps.video2web.recording.frames import RecordingError, plan_frames
from benchmarks.web_recordings.filming import VideoForm, encode
from visual_tools.box import Box

Pixels = NDArray[np.uint8]


def draw(lines: tuple[str, ...] = ("Fern and Company", "All plants"), *, is_open: bool = False) -> Pixels:
    image = Image.new("RGB", (360, 240), (250, 250, 245))
    paint, font = ImageDraw.Draw(image), ImageFont.truetype("DejaVuSans.ttf", 18)
    for number, line in enumerate(lines):
        paint.text((20, 16 + 32 * number), line, (20, 20, 30), font)
    if is_open:
        paint.rectangle((60, 100, 300, 200), (40, 90, 160))
    return np.asarray(image)


def jpeg(image: Pixels) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def write(path: Path, form: VideoForm, lines: tuple[str, ...] = ("Fern and Company", "All plants")) -> Path:
    """Two looks of a page, a second each."""
    encode([jpeg(draw(lines)), jpeg(draw(lines, is_open=True))], [0.0, 1.0], 2.0, path, form)
    return path


@pytest.mark.parametrize(
    "form",
    [VideoForm(), VideoForm(codec="h264", fps=60), VideoForm(codec="h264", fps=None), VideoForm(bars_px=(0, 40))],
    ids=["vp8", "60-fps", "uneven", "letterbox"],
)
@pytest.mark.long
def test_the_same_change_is_found_however_it_is_recorded(tmp_path: Path, form: VideoForm) -> None:
    board = read_recording(write(tmp_path / f"page{form.suffix}", form))
    (one,) = board.transitions
    assert board.size_px == (360, 240)
    assert one.start_s == pytest.approx(1.0, abs=0.06)
    assert one.box_px.intersection(Box(60, 100, 300, 200)) > 0.9 * max(one.box_px.area, 24_000)
    assert len(board.states) == 2


@pytest.mark.long
@pytest.mark.parametrize("lines", [("Каталог растений", "Цены и доставка"), ("مرحبا بالعالم", "كتاب جديد")])
def test_scripts_that_are_not_read_do_no_harm(tmp_path: Path, lines: tuple[str, ...]) -> None:
    given = read_inputs([write(tmp_path / "page.webm", VideoForm(), lines)], None)
    assert len(given.pages) == 1
    assert [one.act.trigger for one in given.interactions] == ["click"]
    assert any("words could not be read (OCR reads Latin and Chinese)" in warning for warning in given.warnings)


@pytest.mark.long
def test_facts_hold_the_texts_with_their_boxes(tmp_path: Path) -> None:
    given = read_inputs([write(tmp_path / "page.webm", VideoForm())], None)
    assert given.recorded is not None
    first = given.recorded.facts["states"][0]["text"][0]
    assert first["text"] == "Fern and Company"
    assert Box(*first["box_px"]).intersection(Box(20, 16, 180, 40)) > 0.6 * Box(*first["box_px"]).area
    told = list(tell_facts(given.recorded.facts))
    assert told[0] == "state 0: 360x240 px"
    assert any('"Fern and Company" at [' in line for line in told)
    assert "text" not in to_json(read_recording(tmp_path / "page.webm"))["states"][0]


def test_a_file_without_video_says_so(tmp_path: Path) -> None:
    path = tmp_path / "voice.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 4410), np.float32), format="fltp", layout="mono")
        frame.rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(RecordingError, match="no video, only audio"):
        read_inputs([path], None)


def test_a_recording_that_was_cut_off(tmp_path: Path) -> None:
    whole = write(tmp_path / "page.webm", VideoForm())
    cut = tmp_path / "cut.webm"
    cut.write_bytes(whole.read_bytes()[: len(whole.read_bytes()) * 2 // 3])
    board = read_recording(cut)
    assert board.states[0].image.shape == (240, 360, 3)
    assert board.duration_s <= 2.04
    without_index = tmp_path / "cut.mp4"
    content = write(tmp_path / "page.mp4", VideoForm(codec="h264", fps=30)).read_bytes()
    without_index.write_bytes(content[: len(content) // 2])
    with pytest.raises(RecordingError, match="cut off before its end"):
        read_inputs([without_index], None)


@pytest.mark.long
def test_damaged_bytes_and_a_short_rest_are_told(tmp_path: Path) -> None:
    looks = [jpeg(draw((f"Line {number}", "All plants"))) for number in range(12)]
    times = [number / 2 for number in range(12)]
    whole = tmp_path / "whole.mp4"
    encode(looks, times, 6.0, whole, VideoForm(codec="h264", fps=30))
    assert not any("damaged" in warning for warning in read_recording(whole).warnings)
    content = bytearray(whole.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = np.random.default_rng(1).integers(0, 256, 2000, np.uint8).tobytes()
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(content)
    (told,) = [warning for warning in read_recording(damaged).warnings if "damaged" in warning]
    assert re.match(r"[1-9]\d* of 180 frames cannot be decoded: the file is damaged", told)
    short = tmp_path / "short.webm"
    encode(looks, times, 6.0, short, VideoForm())
    short.write_bytes(short.read_bytes()[: short.stat().st_size // 6])
    (told,) = [warning for warning in plan_frames(short).warnings if "cut off" in warning]
    (seconds,) = re.findall(r"only its first (\d\.\d) s of 6\.0 s", told)
    assert 0 < float(seconds) < 2


WORDS = ("Fern and Company", "All plants", "Open on Sundays")


@pytest.mark.long
def test_an_empty_window_before_the_page_is_skipped(tmp_path: Path) -> None:
    blank = np.full((240, 360, 3), 255, np.uint8)
    half = draw(WORDS[:1])
    images = [jpeg(image) for image in (blank, half, draw(WORDS), draw(WORDS, is_open=True))]
    path = tmp_path / "loads.webm"
    encode(images, [0.0, 0.6, 0.8, 2.2], 3.4, path, VideoForm())
    given = read_inputs([path], None)
    assert [block.text for block in given.pages[0].blocks] == [line.lower() for line in WORDS]
    assert [(one.act.trigger, one.end_state) for one in given.interactions] == [("click", 1)]


@pytest.mark.parametrize(("width", "height"), [(300, 240), (360, 200), (360, 240)])
def test_a_window_that_is_empty_beside_padding_is_not_the_page(tmp_path: Path, width: int, height: int) -> None:
    padded = np.full((240, 360, 3), 128, np.uint8)  # as Playwright pads a window of another shape
    padded[:height, :width] = 255
    path = tmp_path / "padded.webm"
    images = [padded, np.full((240, 360, 3), 255, np.uint8), draw(WORDS)]
    encode([jpeg(image) for image in images], [0.0, 0.04, 0.12], 1.5, path, VideoForm())
    assert plan_frames(path).start_s == pytest.approx(0.12, abs=0.03)
    draft = draw(()).copy()
    draft[:40] = (30, 60, 120)  # the header of a page is no padding
    encode([jpeg(draft), jpeg(draw(WORDS))], [0.0, 0.8], 1.5, path, VideoForm())
    assert plan_frames(path).start_s == 0


@pytest.mark.long
def test_an_empty_recording_is_refused_and_an_empty_image_warned_about(tmp_path: Path) -> None:
    blank = np.full((240, 360, 3), 255, np.uint8)
    path = tmp_path / "blank.webm"
    encode([jpeg(blank)], [0.0], 1.0, path, VideoForm())
    with pytest.raises(RecordingError, match="empty window from start to end"):
        read_inputs([path], None)
    Image.fromarray(blank).save(tmp_path / "blank.png")
    assert "is nearly empty" in read_inputs([tmp_path / "blank.png"], None).warnings[0]


@pytest.mark.long
@pytest.mark.parametrize("fps", [5, 10, None])
def test_few_frames_show_the_same_states(tmp_path: Path, fps: int | None) -> None:
    """Lines of text come one after the other, seen in no more than two frames each; the last one goes again."""
    looks = [draw(WORDS[:count]) for count in (1, 2, 3, 2)]
    path = tmp_path / "lines.mp4"
    encode([jpeg(look) for look in looks], [0.0, 1.2, 2.4, 3.6], 4.8, path, VideoForm(codec="h264", fps=fps))
    board = read_recording(path)
    assert [(one.before, one.after) for one in board.transitions] == [(0, 1), (1, 2), (2, 1)]
    assert len(board.states) == 3
    for state, look in zip(board.states, looks, strict=False):
        assert np.abs(state.image.astype(int) - look).mean() < 3


@pytest.mark.long
def test_a_state_is_shown_by_its_end(tmp_path: Path) -> None:
    """A recorder sends the last frame of a fading only after a pause."""
    closed, opened = (draw(WORDS, is_open=is_open).astype(float) for is_open in (False, True))
    images = [jpeg((closed + (opened - closed) * part).astype(np.uint8)) for part in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    path = tmp_path / "late.webm"
    encode(images, [0.0, 1.0, 1.08, 1.16, 1.24, 2.4], 4.0, path, VideoForm())
    board = read_recording(path)
    assert (len(board.states), len(board.transitions)) == (2, 1)
    assert np.abs(board.states[1].image.astype(int) - opened).mean() < 3


@pytest.mark.long
def test_reading_stops_at_its_next_check_and_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "_TELL_S", 0.0)  # a line at each check
    images = [jpeg(draw((f"Line {number}", "All plants"))) for number in range(40)]
    path, lines = tmp_path / "long.webm", list[str]()
    encode(images, [number / 2 for number in range(40)], 60.0, path, VideoForm())

    async def stop_in_the_middle() -> int:
        loop, is_read = asyncio.get_running_loop(), asyncio.Event()

        def hear(line: str) -> None:
            lines.append(line)
            if "frame " in line:
                loop.call_soon_threadsafe(is_read.set)

        task = asyncio.create_task(inputs.take_inputs([str(path)], None, say=hear))
        await is_read.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(lines)

    num_lines = asyncio.run(stop_in_the_middle())  # it waits for the thread that reads
    assert len(lines) <= num_lines + 1 and not any("measured" in line for line in lines)


def draw_slides(offset_px: float) -> Pixels:
    slides = [Image.new("RGB", (280, 120), color) for color in ((20, 80, 120), (170, 60, 50), (50, 120, 80))]
    image = Image.fromarray(draw(WORDS[:1]))
    belt = Image.new("RGB", (840, 120))
    for number, (slide, name) in enumerate(zip(slides, ("Bergen", "Cadiz", "Galway"), strict=True)):
        ImageDraw.Draw(slide).text((90, 40), name, (255, 255, 255), ImageFont.truetype("DejaVuSans.ttf", 26))
        belt.paste(slide, (280 * number, 0))
    image.paste(belt.crop((round(offset_px), 0, round(offset_px) + 280, 120)), (40, 80))
    return np.asarray(image)


@pytest.mark.long
def test_a_slide_that_comes_to_rest_only_when_the_next_one_starts(tmp_path: Path) -> None:
    """A recorder sends the last frame of an animation only with the next click, just before the next animation."""
    parts = (0.02, 0.1, 0.25, 0.45, 0.65)
    moves = [(0.0, 0.0), *((1 + 0.04 * n, 280 * part) for n, part in enumerate(parts, 1)), (3.0, 280.0)]
    moves += [(3.08 + 0.04 * n, 280 + 280 * part) for n, part in enumerate((*parts, 0.9, 1.0))]
    path = tmp_path / "slides.webm"
    encode([jpeg(draw_slides(at)) for _, at in moves], [time_s for time_s, _ in moves], 5.0, path, VideoForm())
    board = read_recording(path)
    assert [(one.before, one.after) for one in board.transitions] == [(0, 1), (1, 2)]
    for state, offset_px in zip(board.states, (0, 280, 560), strict=True):
        assert np.abs(state.image.astype(int) - draw_slides(offset_px)).mean() < 4


@pytest.mark.long
def test_a_click_that_no_pointer_shows_is_a_guess(tmp_path: Path) -> None:
    given = read_inputs([write(tmp_path / "page.webm", VideoForm())], None)
    assert [one.is_guess for one in given.interactions] == [True]
    assert any("no pointer is seen" in warning for warning in given.warnings)
