import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.special import ellipe

from tests.visual_tools.regions.scenes import make_scene
from visual_tools import ImageError, count_objects, measure_objects


def rectangle(length: float, width: float, angle_deg: float, side: int = 240) -> NDArray[np.bool_]:
    y, x = np.mgrid[:side, :side] - side / 2 + 0.3
    turn = math.radians(-angle_deg)
    along, across = x * math.cos(turn) + y * math.sin(turn), -x * math.sin(turn) + y * math.cos(turn)
    return np.asarray((np.abs(along) <= length / 2) & (np.abs(across) <= width / 2))


@pytest.mark.parametrize("angle_deg", [0, 10, 30, 45, 77, 90, 120, 179])
def test_rectangles_at_every_angle(angle_deg: float) -> None:
    (one,) = measure_objects(rectangle(160, 50, angle_deg))
    assert one.length == pytest.approx(160, abs=1.1)
    assert one.width == pytest.approx(50, abs=1.1)
    assert one.perimeter == pytest.approx(420, rel=0.01)
    assert one.area == pytest.approx(8000, rel=0.02)
    assert abs((one.angle_deg - angle_deg + 90) % 180 - 90) < 0.6
    assert one.circularity == pytest.approx(4 * math.pi * 8000 / 420**2, rel=0.02)


@pytest.mark.parametrize("kind", ["circles", "ellipses"])
def test_round_objects(kind: str) -> None:
    scene = make_scene(kind, 41)
    found = measure_objects(scene.image)
    assert len(found) == len(scene.shapes)
    for shape in scene.shapes:
        one = min(found, key=lambda item: math.dist(item.centroid_px, (shape.x, shape.y)))
        around = 2 * shape.length * float(ellipe(1 - (shape.width / shape.length) ** 2))
        assert one.area == pytest.approx(shape.area, rel=0.04)
        assert one.length == pytest.approx(shape.length, abs=1.2)
        # Of all rectangles around a circle of pixels the smallest is taken, which is a little small.
        assert one.width == pytest.approx(shape.width, abs=1.5)
        assert one.perimeter == pytest.approx(around, rel=0.03)
        if kind == "circles":
            assert one.circularity > 0.95


def test_a_rough_outline_is_longer_than_its_hull() -> None:
    comb = np.zeros((100, 140), dtype=bool)
    comb[20:40, 20:120] = True
    for left in range(20, 120, 20):
        comb[40:80, left : left + 10] = True
    (one,) = measure_objects(comb, split=False)
    assert one.perimeter == pytest.approx(2 * (100 + 60) + 8 * 40, rel=0.1)


@pytest.mark.parametrize(
    ("scale", "unit", "length"),
    [
        ({}, "px", 60.0),
        ({"mm_per_px": 0.25}, "mm", 15.0),
        ({"dpi": 300}, "mm", 5.08),
        ({"scale_bar": (120, 50, "µm")}, "µm", 25.0),
    ],
)
def test_scales(scale: dict[str, Any], unit: str, length: float) -> None:
    mask = np.zeros((50, 90), dtype=bool)
    mask[10:30, 10:70] = True
    found = measure_objects(mask, **scale)
    one = found[0]
    assert (found.unit, one.length, one.width) == (unit, length, pytest.approx(length / 3, rel=1e-4))
    assert one.area == pytest.approx(length**2 / 3, rel=1e-4)
    assert one.perimeter == pytest.approx(length * 8 / 3, rel=0.005)
    assert found.distance((0, 0), (30, 40)) == pytest.approx(50 * length / 60)


def test_a_count_with_options_of_its_own_can_be_measured() -> None:
    image = np.full((60, 100, 3), 255, np.uint8)
    image[10:30, 10:30] = (200, 0, 0)
    image[10:30, 50:80] = (0, 0, 200)
    count = count_objects(image, color=(0, 0, 200))
    found = measure_objects(count, mm_per_px=2)
    assert [(one.number, one.length, one.width) for one in found] == [(1, 60.0, 40.0)]
    assert found.count is count


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        ({"mm_per_px": 1, "dpi": 300}, "one scale only"),
        ({"dpi": -300}, "more than 0"),
        ({"mm_per_px": -1}, "more than 0"),
        ({"scale_bar": (0, 5, "mm")}, "more than 0"),
    ],
)
def test_wrong_scales(scale: dict[str, Any], text: str) -> None:
    with pytest.raises(ImageError, match=text):
        measure_objects(np.ones((5, 5), dtype=bool), **scale)


def test_specks_of_one_pixel_and_nothing() -> None:
    mask = np.zeros((9, 9), dtype=bool)
    assert repr(measure_objects(mask)) == "Measurements(0 objects, in px)"
    mask[4, 4] = True
    (one,) = measure_objects(mask, min_area_px=1)
    assert (one.area, one.length, one.width) == (1.0, pytest.approx(1, abs=0.2), pytest.approx(1, abs=0.2))


def test_the_result_reads_well() -> None:
    picture = Image.new("RGB", (200, 100), "white")
    draw = ImageDraw.Draw(picture)
    for left in (20, 80, 140):
        draw.rectangle((left, 30, left + 39, 49), fill="navy")
    assert repr(measure_objects(np.asarray(picture), mm_per_px=0.5)) == (
        "Measurements(3 objects, in mm at 0.5 per px; medians: length 20, width 10, equivalent_diameter 15.96)"
    )
