"""Whole recordings: the one that the repository ships, bad ones, and new ones from a real browser."""

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from apps.video2web.recording import read_recording, storyboard_image, to_json
from apps.video2web.recording.frames import RecordingError
from apps.video2web.render import Renderer
from benchmarks.web_recordings.filming import encode, load_recording
from benchmarks.web_recordings.scripts import record

DEMO = Path(str(files("apps.video2web").joinpath("data", "demo.webm")))


def write_video(path: Path, images: list[np.ndarray]) -> Path:
    written = []
    for image in images:
        file = path.with_suffix(".jpg")
        Image.fromarray(image).save(file, quality=95)
        written.append(file.read_bytes())
    encode(written, [number / 25 for number in range(len(written))], len(written) / 25, path)
    return path


@pytest.mark.slow
def test_the_demo_has_a_scroll_a_hover_and_a_dialog() -> None:
    seen: list[tuple[int, int]] = []
    board = read_recording(DEMO, on_progress=lambda done, of: seen.append((done, of)))
    told = [(one.kind, one.trigger) for one in board.transitions]
    assert told.count(("scroll", "scroll")) == 2
    assert ("hover", "hover") in told
    assert told.count(("modal", "click")) == 2
    dialog = next(one for one in board.transitions if one.kind == "modal")
    assert dialog.box_px.center == pytest.approx((480, 260), abs=12)
    assert dialog.duration_s == pytest.approx(0.4, abs=0.12)
    assert (dialog.before, dialog.after) == (0, 1)
    assert board.states[0].full_page.shape[0] == pytest.approx(842, abs=4)
    assert set(board.states[0].fixed) == {"top"}
    assert seen[-1][0] == seen[-1][1]
    assert json.loads(json.dumps(to_json(board)))["transitions"][0]["kind"] == "scroll"
    assert storyboard_image(board).ndim == 3


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [("gone.mp4", None, "no such file"), ("empty.mp4", b"", "is empty"), ("text.mp4", b"hello" * 99, "expected")],
)
def test_what_is_no_video_is_refused_with_what_it_is(
    tmp_path: Path, name: str, content: bytes | None, told: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordingError, match=told):
        read_recording(path)


@pytest.mark.long
def test_a_film_is_no_website(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    noise = random.integers(0, 255, (40, 24, 32, 3), np.uint8)
    film = [np.asarray(Image.fromarray(image).resize((320, 240))) for image in noise]
    with pytest.raises(RecordingError, match="not a recording of a website"):
        read_recording(write_video(tmp_path / "film.webm", film))


@pytest.mark.long
def test_a_still_portrait_page_is_one_state(tmp_path: Path) -> None:
    page = np.full((640, 360, 3), 245, np.uint8)
    page[100:140, 40:300] = (30, 60, 120)
    board = read_recording(write_video(tmp_path / "still.webm", [page] * 30))
    assert (len(board.states), board.transitions, board.size_px) == (1, (), (360, 640))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cards", "tabs", "night"])
async def test_what_happens_in_a_new_recording_is_found(name: str, tmp_path: Path) -> None:
    async with Renderer() as renderer:
        recording = await record(renderer, name, tmp_path)
    assert load_recording(recording.path.with_suffix(".json")) == recording
    board = read_recording(recording.path)
    found = [
        any(one.kind == truth.kind and abs(one.start_s - truth.start_s) < 0.5 for one in board.transitions)
        for truth in recording.happenings
    ]
    assert sum(found) >= len(found) - 1, board.transitions
