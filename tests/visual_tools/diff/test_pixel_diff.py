import numpy as np
import pytest
import skimage.data
from PIL import Image
from skimage.metrics import structural_similarity

from examples.scenes import make_pair
from tests.visual_tools.diff.pairs import Spoil, any_spoil, judge, make_photo_pair, make_screen_pair, spoil
from visual_tools.box import Box
from visual_tools.diff.compare import pixel_diff
from visual_tools.diff.result import Transform, draw_diff
from visual_tools.errors import ImageError

SMALL = {"width": 640, "height": 480, "things": 18}


def flat(width: int, height: int, colour: int = 200) -> np.ndarray:
    return np.full((height, width, 3), colour, np.uint8)


@pytest.mark.long
def test_planted_changes_are_found_and_nothing_else() -> None:
    pair = make_pair(8, **SMALL, changes=9)
    result = pixel_diff(pair.first, pair.second)
    score = judge(result, pair.changes)
    assert (score.planted, score.found, score.false) == (9, 9, 0)
    assert result.transform == Transform()
    assert [one.number for one in result.differences] == list(range(1, 10))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5, 7])
def test_a_drawn_scene_turned_scaled_and_compressed(seed: int) -> None:
    pair = spoil(make_pair(seed, **SMALL, changes=8), any_spoil(seed))
    score = judge(pixel_diff(pair.first, pair.second), pair.changes)
    assert score.found >= score.planted - 1
    assert score.false <= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_a_screen_turned_scaled_and_compressed(seed: int) -> None:
    pair = spoil(make_screen_pair(seed, changes=7), any_spoil(seed))
    score = judge(pixel_diff(pair.first, pair.second), pair.changes)
    assert score.found >= score.planted - 1
    assert score.false <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea"])
def test_a_photograph_turned_scaled_and_compressed(name: str) -> None:
    pair = spoil(make_photo_pair(4, name, changes=5), any_spoil(4))
    score = judge(pixel_diff(pair.first, pair.second), pair.changes)
    assert score.found >= score.planted - 1
    assert score.false <= 1


@pytest.mark.long
def test_one_box_over_everything_finds_at_most_one() -> None:
    pair = make_pair(8, **SMALL, changes=9)
    one = pixel_diff(pair.first, pair.second, merge_px=400)
    assert judge(one, pair.changes).found <= 1


def test_how_the_second_picture_lies_is_measured() -> None:
    pair = make_pair(4, **SMALL, changes=3)
    how = Spoil(scale=0.9, rotation_deg=1.5, shift_px=(12, -7), quality=85)
    spoiled = spoil(pair, how)
    found = pixel_diff(spoiled.first, spoiled.second).transform
    assert found.scale == pytest.approx(0.9, abs=0.001)
    assert found.rotation_deg == pytest.approx(1.5, abs=0.05)
    corner = Box(300, 200, 340, 250)
    there = found.map_box(corner)
    assert abs(there.center[0] - (0.9 * (corner.center[0] - 320) + 288 + 12)) < 8


def test_kinds_are_told_apart() -> None:
    first, second = flat(400, 300), flat(400, 300)
    first[40:70, 40:70] = (200, 30, 30)  # removed
    second[40:80, 200:240] = (30, 30, 200)  # added
    first[200:230, 60:90] = (20, 120, 40)
    second[200:230, 110:140] = (20, 120, 40)  # moved
    for picture, colour in ((first, (180, 0, 180)), (second, (0, 160, 180))):
        picture[200:240, 280:330] = colour  # recoloured
        picture[210:230, 290:300] = 255
    result = pixel_diff(first, second)
    assert [(one.kind, one.first_box, one.second_box) for one in result.differences] == [
        ("removed", Box(40, 40, 70, 70).padded(1), Box(40, 40, 70, 70).padded(1)),
        ("added", Box(200, 40, 240, 80).padded(1), Box(200, 40, 240, 80).padded(1)),
        ("moved", Box(60, 200, 90, 230).padded(1), Box(110, 200, 140, 230).padded(1)),
        ("recoloured", Box(280, 200, 330, 240).padded(1), Box(280, 200, 330, 240).padded(1)),
    ]


def test_a_small_move_whose_places_overlap_is_one_difference() -> None:
    first, second = flat(300, 200), flat(300, 200)
    first[60:120, 60:120] = (180, 40, 40)
    second[60:120, 80:140] = (180, 40, 40)
    (one,) = pixel_diff(first, second, register=False).differences
    assert one.kind == "moved"
    assert one.first_box.padded(2).contains(Box(60, 60, 120, 120))
    assert one.second_box.padded(2).contains(Box(80, 60, 140, 120))


def test_a_change_of_hue_alone_counts() -> None:
    first, second = flat(200, 200), flat(200, 200)
    first[:], second[:] = (200, 100, 100), (200, 100, 100)
    second[80:120, 80:120] = (93, 135, 93)  # the same lightness
    assert pixel_diff(first, second).count == 1


def test_brightness_and_noise_all_over_do_not_count() -> None:
    photo = skimage.data.coffee()
    noise = np.random.default_rng(0).normal(0, 4, photo.shape)
    second = np.clip(photo * 0.85 + 12 + noise, 0, 255).astype(np.uint8)
    result = pixel_diff(photo, second)
    assert (result.comparable, result.count) == (True, 0)


def test_equal_pictures_do_not_differ() -> None:
    photo = skimage.data.chelsea()
    result = pixel_diff(photo, photo.copy())
    assert (result.comparable, result.count, result.similarity) == (True, 0, pytest.approx(1.0))
    assert not result.mask.any()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (skimage.data.astronaut(), skimage.data.coffee()),
        (skimage.data.coffee(), 255 - skimage.data.coffee()),
        (flat(100, 100, 255), flat(100, 100, 0)),
    ],
)
def test_different_pictures_are_called_so(first: np.ndarray, second: np.ndarray) -> None:
    result = pixel_diff(first, second)
    assert (result.comparable, result.count) == (False, 0)
    assert "differ" in result.reason


def test_a_crop_is_compared_where_both_show_something() -> None:
    pair = make_pair(1, **SMALL, changes=6)
    result = pixel_diff(pair.first, pair.second[30:450, 40:600])
    assert result.transform.shift_px == (-40.0, -30.0)
    overlap = result.overlap_box
    assert Box(40, 30, 600, 450).contains(overlap)
    assert overlap.area > 0.95 * 560 * 420
    assert result.aligned.shape == pair.first.shape


def test_similarity_is_the_one_of_scikit_image() -> None:
    grey = np.ascontiguousarray(skimage.data.coffee()[:, :, 1])
    other = np.clip(grey + np.random.default_rng(1).normal(0, 9, grey.shape), 0, 255).astype(np.uint8)
    result = pixel_diff(grey, other, register=False)
    assert result.similarity == pytest.approx(structural_similarity(grey, other), abs=1e-4)


def test_layouts_of_pixels() -> None:
    first, second = flat(120, 90), flat(120, 90)
    second[30:60, 40:80] = 20
    grey = [picture[:, :, 0] for picture in (first, second)]
    see_through = np.dstack([second, np.full((90, 120), 255, np.uint8)])
    see_through[30:60, 40:80, 3] = 0  # white shows through
    pictures = [Image.fromarray(picture) for picture in (first, second)]
    boxes = [
        pixel_diff(*pair).differences[0].first_box for pair in ((first, second), grey, pictures, (first, see_through))
    ]
    assert boxes == [Box(39, 29, 81, 61)] * 4
    assert pixel_diff(grey[0], first).count == 0


@pytest.mark.parametrize("size", [(1, 1), (2, 5), (3, 3), (9, 9), (15, 40), (17, 17)])
def test_tiny_pictures(size: tuple[int, int]) -> None:
    first, second = flat(*size), flat(*size)
    assert pixel_diff(first, second).count == 0
    second[size[1] // 2 :, size[0] // 2 :] = 10
    result = pixel_diff(first, second)
    assert result.count == 1 or "differ" in result.reason


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((flat(4, 4).astype(float), flat(4, 4)), {}, "first holds float64, not uint8"),
        ((flat(4, 4), np.zeros((0, 4, 3), np.uint8)), {}, "second is empty"),
        ((flat(4, 4), np.zeros(4, np.uint8)), {}, "second has shape (4,)"),
        (("a.png", flat(4, 4)), {}, "load_image"),
        ((flat(4, 4), flat(5, 4)), {}, "too small to be laid on each other"),
        ((flat(40, 40), flat(50, 40)), {"register": False}, "40x40 and 50x40 pixels"),
        ((flat(4, 4), flat(4, 4)), {"sensitivity": 0}, "sensitivity is 0"),
        ((flat(4, 4), flat(4, 4)), {"merge_px": -1}, "merge_px is -1"),
        ((flat(8, 8),), {}, "too small to hold two"),
        ((skimage.data.coffee(),), {}, "no two halves"),
    ],
)
def test_what_cannot_be_compared(arguments: tuple, options: dict, says: str) -> None:
    with pytest.raises(ImageError) as caught:
        pixel_diff(*arguments, **options)
    assert says in str(caught.value)


def test_the_result_reads_as_a_list() -> None:
    first, second = flat(120, 90), flat(120, 90)
    second[30:60, 40:80] = 20
    assert repr(pixel_diff(first, second)).splitlines()[1:] == ["  1. added: x 39..81 y 29..61 -> x 39..81 y 29..61"]


def test_the_drawing_frames_both_pictures() -> None:
    first, second = flat(120, 90), flat(120, 90)
    second[30:60, 40:80] = 20
    kept = first.copy()
    result = pixel_diff(first, second)
    drawn = draw_diff(first, second, result)
    assert drawn.shape[1] == 2 * 120 + 16
    green = (np.abs(drawn.astype(int) - (27, 138, 58)).max(axis=2) < 8)[:90]
    assert green[:, :120].sum() > 200
    assert green[:, 136:].sum() > 200
    assert np.array_equal(first, kept)
    with pytest.raises(ImageError, match="second image is missing"):
        draw_diff(first, None, result)
