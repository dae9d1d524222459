"""Charts drawn by matplotlib, and where their ticks are."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A chart: its image, its scales, and where a value is."""

    image: NDArray[np.uint8] = field(repr=False)
    kinds: tuple[str, str]
    limits: tuple[tuple[float, float], tuple[float, float]]
    axes: Any = field(repr=False)

    def to_px(self, x: float, y: float) -> tuple[float, float]:
        """Column and row. Matplotlib moves ticks to whole pixels, so what is drawn may be up to a pixel away."""
        column, row = self.axes.transData.transform((x, y))
        return float(column), float(self.image.shape[0] - row)


def draw_plot(
    draw: Callable[[Any], object], *, style: str = "default", dpi: int = 100, size: tuple[float, float] = (6.4, 4.8)
) -> Plot:
    """Let `draw` fill one pair of axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.style.context(style):
        figure, axes = pyplot.subplots(figsize=size, dpi=dpi)
        draw(axes)
        figure.canvas.draw()
        image = np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy()  # type: ignore[attr-defined]
        plot = Plot(
            image=image,
            kinds=(axes.get_xscale(), axes.get_yscale()),
            limits=(axes.get_xlim(), axes.get_ylim()),
            axes=axes,
        )
        pyplot.close(figure)
    return plot
