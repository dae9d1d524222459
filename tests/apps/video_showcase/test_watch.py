"""Detectors on a video whose events are known."""

from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from apps.video_showcase.detectors.jumps import JumpDetector
from apps.video_showcase.events import VideoEvent, event_from_json, text_similarity
from apps.video_showcase.samples import GRID_PX, RATE, Sample
from apps.video_showcase.sources import VideoSource, take_inventory
from apps.video_showcase.spans import VideoSpan
from apps.video_showcase.watch import watch
from benchmarks.made_videos import Recipe, make_icon, make_video
from tests.apps.video_showcase.conftest import whole
from visual_tools.images.files import save_image


def found_in(span: VideoSpan, *detectors: str, template: str = "") -> list[VideoEvent]:
    result = watch(span, detectors, template)
    assert result["problems"] == []
    return [event_from_json(each) for each in result["events"]]


def agree(found: Sequence[VideoEvent], truth: Sequence[VideoEvent], kind: str) -> None:
    """The events of a kind are those that are there, half a second off at most; texts are read right."""
    ours, theirs = ([event for event in events if event.kind == kind] for events in (found, truth))
    assert [round(event.start_s) for event in ours] == pytest.approx([event.start_s for event in theirs], abs=1)
    assert all(abs(one.start_s - other.start_s) <= 0.5 for one, other in zip(ours, theirs, strict=True))
    if kind in ("text", "score"):
        assert all(text_similarity(one.text, other.text) >= 0.85 for one, other in zip(ours, theirs, strict=True))


@pytest.mark.long
def test_what_moves_flashes_and_cuts_is_found(source: VideoSource, match: tuple[Path, list[VideoEvent]]) -> None:
    found = found_in(whole(source), "scene", "motion", "flash")
    for kind in ("scene", "motion", "flash"):
        assert [event for event in match[1] if event.kind == kind]
        agree(found, match[1], kind)


def test_beeps_are_found_and_named(source: VideoSource, match: tuple[Path, list[VideoEvent]]) -> None:
    found = found_in(whole(source), "sound")
    agree(found, match[1], "beep")
    assert [event.text.partition(",")[0] for event in found] == [
        event.text for event in match[1] if event.kind == "beep"
    ]


@pytest.mark.long
def test_text_and_scores_are_read(source: VideoSource, match: tuple[Path, list[VideoEvent]]) -> None:
    found = [event for event in found_in(whole(source), "text") if not event.began_before]
    agree(found, match[1], "text")
    agree(found, match[1], "score")


@pytest.mark.long
def test_distractors_are_no_events(tmp_path: Path) -> None:
    recipe = Recipe(name="calm.mkv", seconds=80, seed=5, has_distractors=True, kinds=("beep",), mean_gap_s=25)
    path, truth = make_video(recipe, tmp_path)
    source = take_inventory([path]).sources[0]
    found = found_in(whole(source), "scene", "motion", "flash", "sound")
    assert {event.kind for event in found} <= {"beep", "sound"}
    agree(found, truth, "beep")


@pytest.mark.long
def test_an_icon_that_is_given_is_found(tmp_path: Path) -> None:
    recipe = Recipe(name="icons.webm", codec="libvpx", sound="", seconds=45, seed=8, kinds=("icon",), mean_gap_s=14)
    path, truth = make_video(recipe, tmp_path)
    icon = save_image(make_icon(), tmp_path / "icon.png")
    source = take_inventory([path]).sources[0]
    found = found_in(whole(source), "template", template=str(icon))
    assert len(found) == len(truth) >= 2
    assert all(abs(one.start_s - other.start_s) <= 1 for one, other in zip(found, truth, strict=True))


def test_a_span_gives_what_begins_in_it(source: VideoSource, match: tuple[Path, list[VideoEvent]]) -> None:
    middle = VideoSpan(number=2, source=source, start_s=30.0, end_s=60.0)
    kinds = ("motion", "flash")
    starts = [event.start_s for event in found_in(middle, *kinds) if not event.began_before]
    expected = [event.start_s for event in match[1] if event.kind in kinds and 30 <= event.start_s < 60]
    assert starts == pytest.approx(expected, abs=0.5)


SLIDES = [(0, "Budget", 3), (12, "Hiring", 2), (19.4, "Offices", 3), (42, "Risks", 4), (45, "Next", 2)]


def draw_slide(time_s: float, *, has_speaker: bool = False, fade_s: float = 0.0) -> NDArray[np.uint8]:
    """A slide of one layout: a bar, a title and some lines; with a picture of the speaker that moves in a corner."""

    def draw(number: int) -> NDArray[np.uint8]:
        _, title, num_lines = SLIDES[number]
        image = np.full((180, 320, 3), (247, 247, 240), np.uint8)
        cv2.rectangle(image, (0, 0), (320, 22), (30, 60, 95), -1)
        cv2.putText(image, title, (14, 46), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (30, 30, 30), 1, cv2.LINE_AA)
        for line in range(num_lines):
            words = f"{title} {number * 7 + line * 3} of the year"
            cv2.putText(image, words, (26, 76 + 24 * line), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (60, 60, 60), 1, cv2.LINE_AA)
        return image

    number = max(at for at, slide in enumerate(SLIDES) if slide[0] <= time_s)
    share = min((time_s - SLIDES[number][0]) / fade_s, 1.0) if fade_s and number else 1.0
    image = cv2.addWeighted(draw(number), share, draw(number - 1), 1 - share, 0) if share < 1 else draw(number)
    if has_speaker:
        cv2.circle(image, (275 + round(20 * np.sin(2 * time_s)), 140), 25, (200, 150, 120), -1)
    return image


def jumps_of(draw: Callable[[float], NDArray[np.uint8]], until_s: float) -> list[VideoEvent]:
    detector = JumpDetector(RATE)
    for number in range(round(until_s * RATE)):
        image = draw(number / RATE)
        small = cv2.resize(image, GRID_PX, interpolation=cv2.INTER_AREA)
        detector.feed(Sample(time_s=number / RATE, image=image, thumbnail=small))
    return detector.finish("a.mp4")


@pytest.mark.parametrize("has_speaker", [False, True])
@pytest.mark.parametrize("fade_s", [0.0, 0.8])
def test_slides_of_one_layout_are_told_apart(has_speaker: bool, fade_s: float) -> None:
    found = jumps_of(lambda time_s: draw_slide(time_s, has_speaker=has_speaker, fade_s=fade_s), 60)
    assert [event.kind for event in found] == ["scene"] * 4
    assert [event.start_s for event in found] == pytest.approx([slide[0] for slide in SLIDES[1:]], abs=0.2 + fade_s)


@pytest.mark.parametrize(("blur_px", "slowness"), [(10, 15), (20, 6), (20, 40)])
def test_a_picture_that_pans_over_a_pattern_has_no_slides(blur_px: int, slowness: float) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (260, 900)).astype(np.float32)
    field = cv2.GaussianBlur(noise, (0, 0), blur_px)
    field = ((field - field.mean()) / field.std() * 24 + 110).clip(0, 255)
    field[:, ::80] = field[:, 1::80] = 240
    field = field.astype(np.uint8)[..., None].repeat(3, axis=2)

    def draw(time_s: float) -> NDArray[np.uint8]:
        x, y = round(290 + 280 * np.sin(time_s / slowness)), round(40 + 38 * np.sin(time_s / 4))
        return np.ascontiguousarray(field[y : y + 180, x : x + 320])

    assert jumps_of(draw, 60) == []


def test_a_banner_over_a_still_picture_is_no_scene() -> None:
    def draw(time_s: float) -> NDArray[np.uint8]:
        image = draw_slide(0)
        if 10 <= time_s < 16:
            cv2.rectangle(image, (30, 130), (290, 160), (70, 16, 24), -1)
            cv2.putText(image, "LEVEL UP 26", (60, 152), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (255, 240, 190), 1)
        return image

    assert jumps_of(draw, 30) == []


@pytest.mark.parametrize("flash_s", [0.6, 1.2, 1.6])
def test_a_flash_over_a_slide_is_no_slide(flash_s: float) -> None:
    red = np.full((180, 320, 3), (220, 30, 30), np.uint8)
    found = jumps_of(lambda time_s: red if 5 <= time_s < 5 + flash_s else draw_slide(0), 11)
    assert [event.kind for event in found] == ["flash"]
