"""Read charts: axes and what their pixels mean."""

from visual_tools.charts.axes import Axes, Axis, TickLabel, find_axes

__all__ = ["Axes", "Axis", "TickLabel", "find_axes"]
