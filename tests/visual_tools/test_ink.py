"""Reductions over channels are numpy's own, only quicker."""

import numpy as np
import pytest

from visual_tools.ink import any_channel, largest_channel


@pytest.mark.parametrize("num_channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_they_are_as_numpys(num_channels: int, dtype: type) -> None:
    values = np.random.default_rng(0).integers(-3, 3, (7, 11, num_channels)).astype(dtype)
    np.testing.assert_array_equal(largest_channel(values), values.max(axis=2))
    np.testing.assert_array_equal(any_channel(values > 1), (values > 1).any(axis=2))
    assert largest_channel(values).dtype == dtype
    assert largest_channel(values[:0]).shape == (0, 11)
