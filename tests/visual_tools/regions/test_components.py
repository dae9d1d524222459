import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy import ndimage

from visual_tools import Box, ImageError, find_components
from visual_tools.regions.components import Component

MASKS = hnp.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12)))


def by_scipy(mask: NDArray[np.bool_], connectivity: int) -> set[tuple[int, Box, tuple[float, float]]]:
    labels, num = ndimage.label(mask, np.ones((3, 3)) if connectivity == 8 else None)
    found = set()
    for index, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
        y, x = np.nonzero(labels == index)
        box = Box(columns.start, rows.start, columns.stop, rows.stop)
        found.add((len(y), box, (round(float(x.mean()), 9), round(float(y.mean()), 9))))
    assert num == len(found)
    return found


@given(mask=MASKS, connectivity=st.sampled_from([4, 8]))
@settings(max_examples=100, deadline=None)
def test_as_scipy_finds_them(mask: NDArray[np.bool_], connectivity: int) -> None:
    found = find_components(mask, connectivity=connectivity)
    ours = {(one.area_px, one.box_px, (round(one.centroid_px[0], 9), round(one.centroid_px[1], 9))) for one in found}
    assert ours == by_scipy(mask, connectivity)
    for one in found:
        assert np.count_nonzero(found.mask(one.label)) == one.area_px
    assert np.array_equal(found.labels > 0, mask)


def test_small_and_large_ones_are_left_out_and_numbers_stay_dense() -> None:
    mask = np.zeros((10, 40), dtype=bool)
    mask[1:3, 1:3] = mask[1:6, 10:15] = mask[0:9, 20:36] = True
    found = find_components(mask, min_area_px=5, max_area_px=100)
    assert found.components == (Component(label=1, area_px=25, box_px=Box(10, 1, 15, 6), centroid_px=(12.0, 3.0)),)
    assert np.array_equal(np.unique(found.labels), [0, 1])
    assert find_components(mask, min_area_px=25, max_area_px=25).components == found.components
    assert find_components(mask).largest == find_components(mask)[-1]


def test_nothing_is_a_result_too() -> None:
    found = find_components(np.zeros((3, 3), dtype=bool))
    assert (len(found), found.components, found.largest, repr(found)) == (0, (), None, "Components(0)")


def test_a_picture_is_binarized_first() -> None:
    image = np.full((30, 30, 3), 240, np.uint8)
    image[5:10, 5:10] = image[20:25, 20:25] = 10
    assert find_components(image).areas_px.tolist() == [25, 25]


def test_slices_of_larger_arrays_are_taken() -> None:
    mask = np.zeros((20, 20), dtype=bool)
    mask[4:8, 4:8] = True
    assert find_components(mask[::2, ::2]).areas_px.tolist() == [4]
    assert find_components(mask.T[::-1]).areas_px.tolist() == [16]


@pytest.mark.long
def test_many_thousands() -> None:
    mask = np.zeros((1000, 1000), dtype=bool)
    mask[::4, ::4] = True
    found = find_components(mask)
    assert len(found) == len(found.components) == 62_500
    assert repr(found) == "Components(62500, area_px from 1 over 1 (median) to 1)"


def test_wrong_connectivity() -> None:
    with pytest.raises(ImageError, match="expected 4 or 8"):
        find_components(np.zeros((3, 3), dtype=bool), connectivity=6)
