import math

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tests.visual_tools.regions.scenes import KINDS, load_sample, make_scene
from visual_tools import count_objects


def test_the_coins() -> None:
    found = count_objects(load_sample("coins"))
    assert (found.count, found.num_at_border, found.num_split) == (24, 0, 0)
    rows = [round(one.centroid_px[1]) // 70 for one in found.objects]
    assert rows == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 6
    assert min(one.equivalent_diameter_px for one in found.objects) > 36
    assert max(one.equivalent_diameter_px for one in found.objects) < 65


@pytest.mark.slow
def test_the_coins_in_other_forms() -> None:
    coins = load_sample("coins")
    half = np.asarray(Image.fromarray(coins).resize((192, 152)))
    twice = np.asarray(Image.fromarray(coins).resize((768, 606)))
    for image in (np.dstack([coins] * 3), 255 - coins, coins.T, np.rot90(coins, 2), half, twice):
        assert count_objects(image).count == 24


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("light", "noise"), [(0.0, 0.0), (0.6, 8.0)])
def test_objects_apart_are_all_counted(kind: str, light: float, noise: float) -> None:
    for seed in (21, 22):
        scene = make_scene(kind, seed, light=light, noise=noise)
        found = count_objects(scene.image)
        assert found.count == len(scene.shapes)
        for shape in scene.shapes:
            nearest = min(math.dist(one.centroid_px, (shape.x, shape.y)) for one in found.objects)
            assert nearest < 1


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [("circles", 0.03), ("ellipses", 0.04), ("mixed", 0.04), ("rods", 0.1)])
def test_touching_objects_are_cut_apart(kind: str, most: float) -> None:
    wrong = total = split = 0
    for seed in range(30, 35):
        scene = make_scene(kind, seed, overlap=0.1)
        found = count_objects(scene.image)
        wrong += abs(found.count - len(scene.shapes))
        total += len(scene.shapes)
        split += found.num_split
    assert wrong <= most * total
    assert split > 10


def disks(*circles: tuple[int, int, int], side: int = 200) -> NDArray[np.bool_]:
    y, x = np.mgrid[:side, :side]
    return np.asarray(np.any([(x - cx) ** 2 + (y - cy) ** 2 <= r * r for cx, cy, r in circles], axis=0))


def test_a_large_and_a_small_one_that_touch() -> None:
    found = count_objects(disks((80, 100, 50), (140, 100, 14)))
    assert [round(one.equivalent_diameter_px) for one in found.objects] == [100, 27]
    assert [one.was_touching for one in found.objects] == [True, True]


def test_holes_are_filled_and_gaps_are_not() -> None:
    ring = disks((50, 50, 30)) & ~disks((50, 50, 20))
    found = count_objects(ring)
    assert (found.count, found.objects[0].area_px) == (1, int(disks((50, 50, 30)).sum()))
    six = disks(
        *(
            (round(100 + 60 * math.cos(turn)), round(100 + 60 * math.sin(turn)), 31)
            for turn in np.arange(6) * math.pi / 3
        )
    )
    found = count_objects(six)
    assert (found.count, found.num_split) == (6, 6)
    assert not found.mask[100, 100]


def test_one_thing_with_limbs_is_one() -> None:
    assert count_objects(~load_sample("horse")).count == 1
    star = Image.new("1", (200, 200))
    points = [
        (100 + r * math.cos(k * math.pi / 5), 100 + r * math.sin(k * math.pi / 5)) for k, r in enumerate([90, 36] * 5)
    ]
    ImageDraw.Draw(star).polygon(points, fill=1)
    assert count_objects(np.asarray(star)).count == 1


def test_split_can_be_switched_off() -> None:
    two = disks((70, 100, 30), (125, 100, 30))
    assert (count_objects(two).count, count_objects(two, split=False).count) == (2, 1)


def test_specks_are_left_out_and_said() -> None:
    mask = disks((50, 50, 20), (140, 140, 20), (20, 180, 2), (180, 20, 3))
    found = count_objects(mask)
    assert (found.count, found.num_specks) == (2, 2)
    assert count_objects(mask, min_area_px=1).count == 4


def test_objects_at_the_border_are_counted_and_said() -> None:
    found = count_objects(disks((0, 60, 25), (100, 100, 25), (199, 199, 25)))
    assert (found.count, found.num_at_border) == (3, 2)
    assert [one.is_at_border for one in found.objects] == [True, False, True]


def test_a_frame_is_no_object() -> None:
    mask = disks((60, 60, 20), (140, 130, 20))
    mask[[0, 1, -2, -1]] = mask[:, [0, 1, -2, -1]] = True
    assert count_objects(mask).count == 2


def test_one_colour_alone() -> None:
    image = np.full((100, 200, 3), 255, np.uint8)
    for index, color in enumerate([(220, 20, 20), (20, 20, 220), (220, 20, 20), (20, 160, 20)]):
        image[30:60, 10 + 50 * index : 40 + 50 * index] = color
    assert count_objects(image).count == 4
    assert [one.box_px.left for one in count_objects(image, color=(220, 20, 20)).objects] == [10, 110]


def test_labels_mask_and_objects_agree() -> None:
    scene = make_scene("mixed", 31, overlap=0.1)
    found = count_objects(scene.image)
    assert np.array_equal(found.mask, found.labels > 0)
    assert [one.number for one in found.objects] == list(range(1, found.count + 1))
    for one in found.objects:
        region = found.labels == one.number
        y, x = np.nonzero(region)
        assert one.area_px == len(y)
        assert (one.box_px.left, one.box_px.top, one.box_px.right, one.box_px.bottom) == (
            x.min(), y.min(), x.max() + 1, y.max() + 1,
        )  # fmt: skip
        assert one.centroid_px == pytest.approx((x.mean(), y.mean()), abs=0.01)
        assert region[one.outline_px[:, 1], one.outline_px[:, 0]].all()


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 40, 3), (64, 64, 3)])
def test_nothing_to_count(shape: tuple[int, int, int]) -> None:
    found = count_objects(np.full(shape, 128, np.uint8))
    assert (found.count, found.objects, found.num_specks) == (0, (), 0)
    assert repr(found) == "Count(0 objects, 0 at the border, 0 cut from neighbours, 0 specks left out)"


def test_noise_alone_is_hardly_anything() -> None:
    noise = np.random.default_rng(5).normal(128, 12, (300, 300, 3)).clip(0, 255).astype(np.uint8)
    assert count_objects(noise).mask.mean() < 0.002
