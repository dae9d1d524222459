from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.visual_tools.charts.plots import Plot, draw_plot
from tests.visual_tools.drawing import Canvas
from visual_tools.charts.axes import Axes, Axis, find_axes
from visual_tools.errors import ImageError

pytest.importorskip("matplotlib")

TOLERANCE_PX = 1.5
X = np.linspace(0, 10, 200)
"""Matplotlib moves ticks to whole pixels: half a pixel for each of the two ends, and half for what we measure."""


def draw_waves(axes: Any) -> None:
    axes.plot(X, np.sin(X))
    axes.set_title("Waves 2024")
    axes.set_xlabel("time (s)")
    axes.set_ylabel("level 1")


def draw_points(axes: Any) -> None:
    axes.scatter(*np.random.default_rng(0).uniform(-250, 250, (2, 50)))
    axes.grid(True)


def draw_powers(axes: Any) -> None:
    axes.loglog(np.logspace(-2, 4, 50), np.logspace(-3, 6, 50))
    axes.grid(True, which="both")


def draw_growth(axes: Any) -> None:
    axes.semilogy(X * 5, np.exp(X * 1.2))
    axes.set_ylabel("count")


def draw_small(axes: Any) -> None:
    axes.plot([0.001, 0.002, 0.005], [1.25, 1.5, 1.75])


def draw_millions(axes: Any) -> None:
    axes.plot([0, 5e6, 1e7], [0, 3e7, 9e7])


def draw_years(axes: Any) -> None:
    axes.plot([1990, 2000, 2010, 2020], [1200, 5400, 3200, 8100])
    axes.yaxis.set_major_formatter("{x:,.0f}")


def draw_bare(axes: Any) -> None:
    draw_waves(axes)
    axes.spines[["top", "right"]].set_visible(False)


def draw_inward(axes: Any) -> None:
    draw_waves(axes)
    axes.tick_params(direction="in")


def draw_downward(axes: Any) -> None:
    draw_waves(axes)
    axes.invert_yaxis()
    axes.invert_xaxis()


ALL = (draw_waves, draw_points, draw_powers, draw_growth, draw_small, draw_millions, draw_years, draw_bare, draw_inward)


def errors_px(plot: Plot, found: Axes) -> tuple[float, float]:
    """How far the ends of both axes are from where they are, in pixels."""
    (x_low, x_high), (y_low, y_high) = plot.limits
    assert found.x is not None and found.y is not None
    assert (found.x.kind, found.y.kind) == plot.kinds
    left, bottom = plot.to_px(x_low, y_low)
    right, top = plot.to_px(x_high, y_high)
    return (
        max(abs(found.x.to_px(x_low) - left), abs(found.x.to_px(x_high) - right)),
        max(abs(found.y.to_px(y_low) - bottom), abs(found.y.to_px(y_high) - top)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("draw", [*ALL, draw_downward])
def test_kinds_of_axes(draw: Any) -> None:
    plot = draw_plot(draw)

    assert max(errors_px(plot, find_axes(plot.image))) <= TOLERANCE_PX


@pytest.mark.parametrize("style", ["dark_background", "ggplot", "seaborn-v0_8-darkgrid", "bmh", "classic"])
@pytest.mark.parametrize("draw", [draw_waves, draw_growth])
def test_styles(draw: Any, style: str) -> None:
    plot = draw_plot(draw, style=style)

    assert max(errors_px(plot, find_axes(plot.image))) <= TOLERANCE_PX


@pytest.mark.parametrize("dpi", [60, 72, 150, 250])
@pytest.mark.parametrize("draw", [draw_waves, draw_points, draw_years])
def test_resolutions(draw: Any, dpi: int) -> None:
    plot = draw_plot(draw, dpi=dpi)

    assert max(errors_px(plot, find_axes(plot.image))) <= TOLERANCE_PX


def test_a_grid_without_any_line_of_an_axis() -> None:
    plot = draw_plot(draw_points, style="fivethirtyeight", size=(8, 6))

    assert max(errors_px(plot, find_axes(plot.image))) <= TOLERANCE_PX


def test_what_was_read_is_told() -> None:
    plot = draw_plot(draw_waves)
    x = find_axes(plot.image).x

    assert x is not None
    assert [(label.text, label.value) for label in x.labels] == [(str(value), value) for value in range(0, 11, 2)]
    assert (x.kind, x.num_used) == ("linear", 6) and x.residual_px < 0.5
    assert x.to_value(x.to_px(3.25)) == pytest.approx(3.25)
    assert (x.start, x.end) == (pytest.approx(-0.5, abs=0.05), pytest.approx(10.5, abs=0.05))
    assert len(repr(find_axes(plot.image))) < 500


def test_a_misread_label_is_left_out() -> None:
    plot = draw_plot(draw_waves)
    picture = Image.fromarray(plot.image)
    column = plot.to_px(4, 0)[0]
    ImageDraw.Draw(picture).rectangle((column - 9, 433, column + 9, 450), fill="white")
    ImageDraw.Draw(picture).text((column, 440), "9", fill="black", anchor="mm", font_size=14)

    found = find_axes(picture)

    assert found.x is not None
    assert [label.value for label in found.x.labels] == [0, 2, None, 6, 8, 10]
    assert max(errors_px(plot, found)) <= TOLERANCE_PX


def test_names_below_bars_are_no_numbers() -> None:
    found = find_axes(draw_plot(lambda axes: axes.bar(["ape", "bee", "cat"], [3, 7, 5])).image)

    assert found.x is None
    assert found.y is not None and found.y.start == pytest.approx(0, abs=0.02)
    assert found.y.to_value(found.y.to_px(7)) == pytest.approx(7)


def test_an_offset_is_added() -> None:
    plot = draw_plot(lambda axes: axes.plot([100_000.1, 100_000.5], [1, 2]))
    x = find_axes(plot.image).x

    assert x is not None
    assert x.to_value(plot.to_px(100_000.3, 1)[0]) == pytest.approx(100_000.3, abs=0.01)


def test_noise_of_a_jpeg_is_forgiven(tmp_path: Any) -> None:
    plot = draw_plot(draw_waves)
    Image.fromarray(plot.image).save(tmp_path / "chart.jpg", quality=80)

    assert max(errors_px(plot, find_axes(tmp_path / "chart.jpg"))) <= TOLERANCE_PX


@pytest.mark.parametrize(
    "image",
    [
        np.full((300, 400, 3), 255, np.uint8),
        np.zeros((1, 1, 3), np.uint8),
        np.zeros((2, 900, 3), np.uint8),
        np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8),
        Canvas().text(20, 20, "No chart, 12 words").array,
        Canvas().box(50, 20, 350, 150, outline="black").array,
    ],
)
def test_no_chart_is_told(image: Any) -> None:
    with pytest.raises(ImageError, match=r"expected a chart|fewer than two numbers"):
        find_axes(image)


def test_a_logarithm_has_no_place_for_zero() -> None:
    axis = Axis(kind="log", start=1, end=10, residual_px=0, num_used=2, labels=(), slope=0.01, intercept=0)

    assert axis.to_px(100) == pytest.approx(200)
    with pytest.raises(ImageError, match="above 0"):
        axis.to_px(0)
