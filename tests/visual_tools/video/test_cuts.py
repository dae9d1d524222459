"""Scenes: cuts, dissolves and fades are found; flashes, motion and noise are not taken for them."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import visual_tools as vt
from tests.visual_tools.video.making import Picture, Recipe, make_video
from visual_tools.errors import VideoError
from visual_tools.video.cuts import Scene, Scenes, _Changes, _find_cuts, _is_empty

SIZE = (192, 108)
RECIPE = Recipe(size=SIZE, rate=Fraction(25), options={"preset": "ultrafast", "crf": "23", "g": "50"})


def make_world(seed: int) -> Picture:
    """A large image of soft shapes in colours of its own, to pan over."""
    rng = np.random.default_rng(seed)
    height_px, width_px = 180, 700
    y, x = np.mgrid[:height_px, :width_px]
    image = np.empty((height_px, width_px, 3))
    image[:] = rng.integers(30, 226, 3)
    for _ in range(40):
        center_x, center_y, radius = rng.integers(0, width_px), rng.integers(0, height_px), rng.integers(8, 50)
        image[(x - center_x) ** 2 + (y - center_y) ** 2 < radius**2] = rng.integers(0, 256, 3)
    return image.astype(np.uint8)


def show(seed: int, count: int, pan_px: int = 0, noise: float = 2.0) -> list[Picture]:
    """Frames of one scene: a window that moves by `pan_px` a frame, with noise."""
    world = make_world(seed)
    grain = np.random.default_rng(seed).normal(0, noise, (5, SIZE[1], SIZE[0], 3))
    room_px = world.shape[1] - SIZE[0]
    frames = []
    for number in range(count):
        left = room_px - abs(number * pan_px % (2 * room_px) - room_px)  # there and back
        window = world[40 : 40 + SIZE[1], left : left + SIZE[0]]
        frames.append((window + grain[number % 5]).clip(0, 255).astype(np.uint8))
    return frames


def mix(one: list[Picture], other: list[Picture]) -> Iterator[Picture]:
    """A dissolve from one to the other over their whole length."""
    for share, first, second in zip(np.linspace(0, 1, len(one)), one, other, strict=True):
        yield ((1 - share) * first + share * second).astype(np.uint8)


def find(tmp_path: Path, frames: list[Picture], **settings: float) -> list[tuple[int, str]]:
    path = make_video(tmp_path, frames, RECIPE)
    scenes = vt.scenes(path, **settings)  # type: ignore[arg-type]
    assert scenes[0].start_frame == 0 and scenes[-1].end_frame == len(frames)
    assert [scene.end_frame for scene in scenes][:-1] == [scene.start_frame for scene in scenes][1:]
    assert scenes[-1].end_s == pytest.approx(len(frames) / 25)
    return [(scene.start_frame, scene.transition) for scene in scenes][1:]


def test_hard_cuts(tmp_path: Path) -> None:
    frames = [*show(1, 30), *show(2, 20, pan_px=2), *show(3, 45), *show(4, 25, pan_px=4)]
    assert find(tmp_path, frames) == [(30, "cut"), (50, "cut"), (95, "cut")]


@pytest.mark.slow
def test_many_cuts(tmp_path: Path) -> None:
    frames = [frame for seed in range(30) for frame in show(seed, 20, pan_px=seed % 5)]
    found = find(tmp_path, frames)
    assert found == [(20 * k, "cut") for k in range(1, 30)]


@pytest.mark.parametrize("pan_px", [0, 3, 8, 16])
def test_motion_is_no_cut(tmp_path: Path, pan_px: int) -> None:
    assert find(tmp_path, show(5, 100, pan_px=pan_px, noise=6)) == []


@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("level", [255, 0])
def test_a_flash_is_no_cut(tmp_path: Path, length: int, level: int) -> None:
    frames = show(6, 80, pan_px=1)
    frames[40 : 40 + length] = [np.full_like(frames[0], level)] * length
    assert find(tmp_path, frames) == []


def test_a_cut_during_motion(tmp_path: Path) -> None:
    assert find(tmp_path, [*show(7, 50, pan_px=5), *show(8, 50, pan_px=5)]) == [(50, "cut")]


def test_a_dissolve(tmp_path: Path) -> None:
    first, second = show(9, 60), show(10, 60)
    frames = [*first[:50], *mix(first[:16], second[:16]), *second[:50]]
    ((frame, kind),) = find(tmp_path, frames)
    assert kind == "dissolve" and abs(frame - 58) <= 4


def test_a_fade_through_black(tmp_path: Path) -> None:
    first, second = show(11, 60), show(12, 60)
    black = [np.zeros_like(first[0])] * 12
    frames = [*first[:40], *mix(first[:12], black), *black, *mix(black, second[:12]), *second[:40]]
    ((frame, kind),) = find(tmp_path, frames)
    assert kind == "fade" and 52 <= frame <= 64


def test_black_at_the_beginning_and_at_the_end_is_no_cut(tmp_path: Path) -> None:
    scene = show(13, 50)
    black = [np.zeros_like(scene[0])] * 12
    assert find(tmp_path, [*black, *mix(black, scene[:12]), *scene, *mix(scene[:12], black), *black]) == []


def test_still_pictures_and_slides(tmp_path: Path) -> None:
    slides = [np.full((SIZE[1], SIZE[0], 3), 245, np.uint8) for _ in range(3)]
    for number, slide in enumerate(slides):
        for line in range(6):
            slide[12 + 14 * line : 18 + 14 * line, 10 : 60 + (37 * line + 61 * number) % 120] = 30
    frames = [slide for slide in slides for _ in range(40)]
    assert find(tmp_path, frames, sensitivity=3) == [(40, "cut"), (80, "cut")]


def test_cards_of_one_color(tmp_path: Path) -> None:
    colors = [(200, 30, 30), (0, 0, 0), (30, 30, 200), (255, 255, 255), (90, 90, 90), (0, 0, 0)]
    cards = [np.full((SIZE[1], SIZE[0], 3), color, np.uint8) for color in colors for _ in range(25)]
    assert find(tmp_path, cards) == [(25 * k, "cut") for k in range(1, 6)]


def tinted(seed: int, count: int, share: float) -> list[Picture]:
    """Frames of a scene with some of another one laid over it: a fainter cut than to that other one."""
    return [
        ((1 - share) * one + share * other).astype(np.uint8)
        for one, other in zip(show(seed, count), show(2, count), strict=True)
    ]


@pytest.mark.parametrize(
    ("frames", "all_cuts", "kept"),
    [
        ([*show(1, 30), *tinted(1, 8, 0.4), *show(3, 30)], [30, 38], [38]),
        ([*show(1, 30), *tinted(3, 8, 0.4), *show(3, 30)], [30, 38], [30]),
        ([*show(1, 30), *tinted(1, 8, 0.3), *tinted(3, 8, 0.3), *show(3, 30)], [30, 38, 46], [38]),
        ([*show(1, 30), *show(2, 13), *show(3, 30)], [30, 43], [30, 43]),
    ],
    ids=["second", "first", "middle", "far enough"],
)
def test_of_two_near_cuts_the_stronger_one_counts(
    tmp_path: Path, frames: list[Picture], all_cuts: list[int], kept: list[int]
) -> None:
    assert [frame for frame, _ in find(tmp_path, frames, min_length_s=0.1)] == all_cuts
    assert [frame for frame, _ in find(tmp_path, frames, min_length_s=0.5)] == kept


def changes_of(
    count: int,
    *,
    step: dict[int, float] | None = None,
    moment: dict[int, float] | None = None,
    second: dict[int, float] | None = None,
    empty: range = range(0),
) -> _Changes:
    """Distances that are 0 but where it is said; a flash lasts 5 frames, half a dissolve 10."""
    series = np.zeros((3, count))
    for values, one in zip((step, moment, second), series, strict=True):
        for frame, value in (values or {}).items():
            one[frame] = value
    is_empty = np.isin(np.arange(count), list(empty))
    return _Changes(step=series[0], moment=series[1], second=series[2], is_empty=is_empty, flash=5, rest=10)


def cuts_of(changes: _Changes) -> list[tuple[int, str]]:
    return [(cut.frame, cut.transition) for cut in _find_cuts(changes, 0.16)]


@pytest.mark.parametrize(
    ("step", "moment", "is_cut"),
    [
        ({50: 0.16}, {54: 0.1, 50: 0.1}, True),
        ({50: 0.15}, {54: 0.1, 50: 0.1}, False),  # too little at once
        ({50: 0.3}, {54: 0.6 * 0.16, 50: 0.6 * 0.16}, True),  # as much as must stay
        ({50: 0.3}, {54: 0.09, 50: 0.1}, False),  # it does not stay: a flash begins
        ({50: 0.3}, {54: 0.1, 50: 0.09}, False),  # it was there a moment before: a flash ends
        ({4: 0.3}, {8: 0.1}, True),  # too early to tell
        ({5: 0.3}, {9: 0.1}, False),
        ({98: 0.3}, {99: 0.1, 98: 0.1}, True),  # the last moment that there is
        ({50: 0.3} | dict.fromkeys((41, 43, 45, 47, 53, 55), 0.13), {54: 0.1, 50: 0.1}, False),  # much changes anyhow
        ({50: 0.3} | dict.fromkeys((41, 43, 45, 47, 53, 55), 0.3 / 2.5), {54: 0.1, 50: 0.1}, True),
        ({50: 0.3} | dict.fromkeys((41, 43, 45, 47), 0.13), {54: 0.1, 50: 0.1}, True),  # a few outliers
        ({50: 0.3} | dict.fromkeys(range(30, 39), 0.13), {54: 0.1, 50: 0.1}, True),  # long before
        ({3: 0.3} | dict.fromkeys((1, 2, 4, 5), 0.13), {7: 0.1}, False),
    ],
)
def test_a_step_that_stays_and_stands_out_is_a_cut(
    step: dict[int, float], moment: dict[int, float], is_cut: bool
) -> None:
    found = [frame for frame, _ in cuts_of(changes_of(100, step=step, moment=moment))]
    assert found == [max(step, key=lambda frame: step[frame])] * is_cut


@pytest.mark.parametrize(
    ("empty", "step", "found"),
    [
        (range(40, 46), {}, [(43, "fade")]),
        (range(40, 45), {}, []),  # as long as a flash
        (range(6), {}, []),  # the video begins so
        (range(1, 7), {}, [(4, "fade")]),
        (range(94, 100), {}, []),  # it ends so
        (range(93, 99), {}, [(96, "fade")]),
        (range(40, 60), {40: 0.3, 60: 0.3}, [(40, "cut"), (60, "cut")]),  # a black card between two scenes
        (range(40, 60), {40: 0.3}, [(50, "fade")]),
        (range(40, 60), {60: 0.3}, [(50, "fade")]),
        (range(40, 60), {39: 0.3}, [(39, "cut"), (50, "fade")]),
        (range(40, 60), {61: 0.3, 20: 0.3}, [(20, "cut"), (50, "fade"), (61, "cut")]),
    ],
)
def test_an_empty_stretch_inside_is_a_fade_unless_it_is_cut_to_and_from(
    empty: range, step: dict[int, float], found: list[tuple[int, str]]
) -> None:
    moment = {frame + lag: 0.2 for frame in step for lag in (0, 4)}
    assert cuts_of(changes_of(100, step=step, moment=moment, empty=empty)) == found


@pytest.mark.parametrize(
    ("second", "cuts", "found"),
    [
        ({60: 0.2}, (), [50]),
        ({60: 0.19}, (), []),
        ({60: 0.2, 40: 0.07}, (), [50]),
        ({60: 0.2, 40: 0.2 / 2.5}, (), [50]),
        ({60: 0.2, 40: 0.09}, (), []),  # much changes before it
        ({60: 0.2, 80: 0.09}, (), []),  # and after it
        ({60: 0.2, 62: 0.21}, (), [52]),
        ({60: 0.2, 58: 0.21}, (), [48]),
        ({39: 0.2}, (), []),  # too near to the beginning
        ({40: 0.2}, (), [30]),
        ({79: 0.2}, (), [69]),
        ({80: 0.2}, (), []),  # too near to the end
        ({60: 0.2}, (30,), [30]),  # a cut explains it
        ({60: 0.2}, (29,), [29, 50]),
        ({60: 0.2}, (70,), [70]),
        ({60: 0.2}, (71,), [50, 71]),
    ],
)
def test_what_changes_over_a_second_and_not_before_or_after_is_a_dissolve(
    second: dict[int, float], cuts: tuple[int, ...], found: list[int]
) -> None:
    moment = {frame + lag: 0.2 for frame in cuts for lag in (0, 4)}
    changes = changes_of(100, step=dict.fromkeys(cuts, 0.3), moment=moment, second=second)
    assert [frame for frame, _ in cuts_of(changes)] == found


@pytest.mark.parametrize(
    ("upper", "lower", "is_empty"),
    [
        (0, 0, True),
        (32, 32, True),
        (33, 33, False),  # dark, yet no black
        (128, 128, False),
        (234, 234, False),
        (235, 235, True),
        (10, 20, True),
        (10, 22, False),  # a scene at night: 6 levels of deviation
        (255, 235, False),
    ],
)
def test_an_empty_frame_is_all_black_or_all_white(upper: int, lower: int, is_empty: bool) -> None:
    frame = np.full((28, 48, 3), upper, np.float32)
    frame[14:] = lower
    assert _is_empty(frame) is is_empty


@pytest.mark.parametrize(("count", "end"), [(1, "start 1.00)"), (12, "start 1.00)"), (13, "start 1.00; ...)")])
def test_many_scenes_are_shown_in_part(count: int, end: str) -> None:
    scene = Scene(start_s=0.0, end_s=1.0, start_frame=0, end_frame=25, transition="start", score=1.0)
    told = repr(Scenes(path=Path("a/video.mp4"), scenes=(scene,) * count))
    assert told.startswith(f"Scenes(video.mp4: {count}; 00:00:00.000 start 1.00") and told.endswith(end)
    assert told.count("start 1.00") == min(count, 12)


def test_settings_repr_and_progress(tmp_path: Path) -> None:
    path = make_video(tmp_path, [*show(1, 30), *show(2, 8), *show(3, 30)], RECIPE)
    both = vt.scenes(path, min_length_s=0.1)
    stronger = max((both[1], both[2]), key=lambda scene: scene.score)
    assert [scene.start_frame for scene in vt.scenes(path)] == [0, stronger.start_frame]
    assert [scene.start_frame for scene in vt.scenes(path, min_length_s=0)] == [0, 30, 38]
    assert [scene.start_frame for scene in vt.scenes(path, min_length_s=0.32)] == [0, 30, 38]  # as far as they are
    seen: list[tuple[int, int]] = []
    scenes = vt.scenes(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (68, 68)
    assert repr(scenes).startswith("Scenes(video.mp4: 2; 00:00:00.000 start 1.00; 00:00:01.")
    assert scenes[0].middle_s == pytest.approx((scenes[0].start_s + scenes[0].end_s) / 2)
    for wrong in ({"sensitivity": 0.0}, {"min_length_s": -1.0}):
        with pytest.raises(VideoError, match="must be above 0"):
            vt.scenes(path, **wrong)  # type: ignore[arg-type]
