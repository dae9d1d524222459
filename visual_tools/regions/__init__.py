"""Regions of an image: foreground, connected parts, counted and measured objects, edges, outlines, drawn shapes."""

from visual_tools.regions.binary import Binary, binarize
from visual_tools.regions.components import Component, Components, find_components
from visual_tools.regions.counting import Count, CountedObject, count_objects
from visual_tools.regions.drawing import draw_objects
from visual_tools.regions.edges import Contour, Contours, Edges, detect_edges, find_contours
from visual_tools.regions.measuring import Measurement, Measurements, ScaleBar, find_scale_bar, measure_objects
from visual_tools.regions.polygons import Polygon, Polygons, find_polygons

__all__ = [
    "Binary",
    "Component",
    "Components",
    "Contour",
    "Contours",
    "Count",
    "CountedObject",
    "Edges",
    "Measurement",
    "Measurements",
    "Polygon",
    "Polygons",
    "ScaleBar",
    "binarize",
    "count_objects",
    "detect_edges",
    "draw_objects",
    "find_components",
    "find_contours",
    "find_polygons",
    "find_scale_bar",
    "measure_objects",
]
