"""Short videos with known events, made once."""

from pathlib import Path

import pytest

from apps.video_showcase.events import VideoEvent
from apps.video_showcase.sources import VideoSource, take_inventory
from apps.video_showcase.spans import VideoSpan
from benchmarks.made_videos import Recipe, make_video


@pytest.fixture(scope="session")
def match(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[VideoEvent]]:
    """Ninety seconds with each kind of event."""
    recipe = Recipe(name="match.mp4", seconds=90, seed=3, mean_gap_s=9)
    return make_video(recipe, tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def source(match: tuple[Path, list[VideoEvent]]) -> VideoSource:
    return take_inventory([match[0]]).sources[0]


def whole(source: VideoSource) -> VideoSpan:
    return VideoSpan(number=1, source=source, start_s=0.0, end_s=source.duration_s)
