"""Read charts: axes and the values of their pixels."""

from visual_tools.charts.axes import Axes, Axis, TickLabel, find_axes

__all__ = ["Axes", "Axis", "TickLabel", "find_axes"]
