"""Model, sent and screen frames: there and back for every pixel, clamped at the edges, offsets right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import ScreenGeometry

_SIZE = st.tuples(st.integers(1, 10_000), st.integers(1, 10_000))
_OFFSET = st.tuples(st.integers(-10_000, 10_000), st.integers(-10_000, 10_000))
GEOMETRIES = st.builds(ScreenGeometry, native_px=_SIZE, sent_px=_SIZE, offset_px=_OFFSET)


@st.composite
def pixels(draw):
    """A geometry and a pixel of its region."""
    geometry = draw(GEOMETRIES)
    (width, height), (left, top) = geometry.native_px, geometry.offset_px
    return geometry, (left + draw(st.integers(0, width - 1)), top + draw(st.integers(0, height - 1)))


@given(pixels())
def test_every_pixel_survives_the_model_frame(case):
    geometry, pixel = case
    assert geometry.from_model(*geometry.to_model(*pixel)) == pixel


@given(pixels())
def test_every_pixel_survives_the_sent_frame(case):
    geometry, pixel = case
    assert geometry.from_sent(*geometry.to_sent(*pixel)) == pixel


@given(GEOMETRIES, st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_no_point_leaves_the_region(geometry, x, y):
    (width, height), (left, top) = geometry.native_px, geometry.offset_px
    for x_px, y_px in (geometry.from_model(x, y), geometry.from_sent(x, y)):
        assert left <= x_px < left + width
        assert top <= y_px < top + height


@given(GEOMETRIES)
def test_corners(geometry):
    (width, height), (left, top) = geometry.native_px, geometry.offset_px
    assert geometry.from_model(0, 0) == geometry.from_sent(0, 0) == (left, top)
    last = (left + width - 1, top + height - 1)
    assert geometry.from_model(1, 1) == geometry.from_sent(*geometry.sent_px) == last


@given(GEOMETRIES, st.floats(0, 1), st.floats(0, 1))
def test_both_frames_agree(geometry, x, y):
    from_model = geometry.from_model(x, y)
    from_sent = geometry.from_sent(x * geometry.sent_px[0], y * geometry.sent_px[1])
    assert max(abs(a - b) for a, b in zip(from_model, from_sent, strict=True)) <= 1  # rounding at .5 px


@pytest.mark.parametrize(
    ("fractions", "pixel"),
    [
        ((0.5, 0.5), (960, 540)),
        ((1.0, 1.0), (1919, 1079)),
        ((-0.1, 2.0), (0, 1079)),
        ((0.25, 0.3), (480, 324)),
    ],
)
def test_full_hd(fractions, pixel):
    assert ScreenGeometry(native_px=(1920, 1080), sent_px=(1920, 1080)).from_model(*fractions) == pixel


def test_second_monitor_left_of_the_first_sent_at_half_size():
    geometry = ScreenGeometry(native_px=(2560, 1440), sent_px=(1280, 720), offset_px=(-2560, 100))
    assert geometry.from_model(0.5, 0.5) == (-1280, 820)
    assert geometry.from_sent(640, 360) == (-1280, 820)
    assert geometry.to_sent(-1280, 820) == (640, 360)
    assert geometry.to_model(-1280, 820) == (0.5, 0.5)


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (-1, 1)])
def test_an_empty_screen_is_refused(size):
    with pytest.raises(ValueError, match="at least 1x1 px"):
        ScreenGeometry(native_px=size, sent_px=(10, 10))
    with pytest.raises(ValueError, match="at least 1x1 px"):
        ScreenGeometry(native_px=(10, 10), sent_px=size)
