from typing import Any

import numpy as np
import pytest

import visual_tools as vt
from tests.visual_tools.regions.scenes import load_sample


@pytest.mark.parametrize(
    "name", ["count_objects", "measure_objects", "find_components", "find_contours", "find_polygons"]
)
def test_outlines_lie_on_the_edges(name: str) -> None:
    image = np.full((120, 160, 3), 255, np.uint8)
    image[30:90, 40:110] = 60
    before = image.copy()
    result: Any = getattr(vt, name)(image)
    drawn = vt.draw_objects(image, result, show_numbers=False)
    changed = (drawn != image).any(axis=2)
    y, x = np.nonzero(changed)
    assert (x.min(), y.min(), x.max(), y.max()) == pytest.approx((40, 30, 109, 89), abs=1)
    assert not changed[34:86, 44:106].any()
    assert np.array_equal(image, before)


def test_each_object_gets_its_number() -> None:
    coins = load_sample("coins")
    found = vt.count_objects(coins)
    plain, numbered = (vt.draw_objects(coins, found, show_numbers=shown) for shown in (False, True))
    assert plain.shape == numbered.shape == (*coins.shape, 3)
    changed = (plain != numbered).any(axis=2)
    for one in found.objects:
        box = one.box_px
        assert changed[box.top : box.bottom, box.left : box.right].any()


def test_a_result_without_objects_changes_nothing() -> None:
    image = np.full((20, 20, 3), 128, np.uint8)
    assert np.array_equal(vt.draw_objects(image, vt.count_objects(image)), image)
