"""Load, save, crop, rotate and annotate images."""

from visual_tools.images.files import ImageSource, load_image, save_image
from visual_tools.images.marks import BoxMark, Color, Mark, PathMark, PointMark, TextMark, annotate, overlay_grid
from visual_tools.images.pages import Page, Pages, load_pages
from visual_tools.images.views import BoxLike, Zoom, crop, rotate, zoom

__all__ = [
    "BoxLike",
    "BoxMark",
    "Color",
    "ImageSource",
    "Mark",
    "Page",
    "Pages",
    "PathMark",
    "PointMark",
    "TextMark",
    "Zoom",
    "annotate",
    "crop",
    "load_image",
    "load_pages",
    "overlay_grid",
    "rotate",
    "save_image",
    "zoom",
]
