"""Detectors on a video whose events are known."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from apps.video_showcase.events import VideoEvent, event_from_json, text_similarity
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
