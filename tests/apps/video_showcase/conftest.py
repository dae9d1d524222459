"""Short videos with known events, made once."""

from pathlib import Path

import pytest

from apps.video_showcase.events import Event
from apps.video_showcase.sources import Source, take_inventory
from apps.video_showcase.spans import Span
from benchmarks.made_videos import Recipe, make_video


@pytest.fixture(scope="session")
def match(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """Ninety seconds with each kind of event."""
    recipe = Recipe(name="match.mp4", seconds=90, seed=3, mean_gap_s=9)
    return make_video(recipe, tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def source(match: tuple[Path, list[Event]]) -> Source:
    return take_inventory([match[0]]).sources[0]


def whole(source: Source) -> Span:
    return Span(number=1, source=source, start_s=0.0, end_s=source.duration_s)
