"""Functions on images and videos, and a sandbox for code that uses them; importing loads no heavy packages.

Every public function is reachable here and loads its module on first use:

    import visual_tools as vt
    path = vt.shortest_path(vt.load_image("maze.png"), start="green", goal="red")
"""

import importlib
from typing import Any

_HOMES = {
    "visual_tools.box": ("Box",),
    "visual_tools.errors": ("VisualError", "ImageError", "VideoError", "SandboxError"),
    "visual_tools.images.files": ("load_image", "save_image"),
    "visual_tools.images.pages": ("load_pages",),
    "visual_tools.images.views": ("crop", "zoom", "rotate"),
    "visual_tools.images.marks": ("overlay_grid", "annotate", "PointMark", "BoxMark", "PathMark", "TextMark"),
    "visual_tools.regions.binary": ("binarize",),
    "visual_tools.regions.components": ("find_components",),
    "visual_tools.regions.counting": ("count_objects",),
    "visual_tools.regions.measuring": ("measure_objects", "find_scale_bar"),
    "visual_tools.regions.outlines": ("detect_edges", "find_contours", "find_polygons"),
    "visual_tools.regions.drawing": ("draw_objects",),
    "visual_tools.paths.shortest": ("shortest_path",),
    "visual_tools.paths.check": ("check_path", "draw_path", "find_narrow_gaps", "has_maze"),
    "visual_tools.colors.measure": ("color_share",),
    "visual_tools.colors.shares": ("draw_share",),
    "visual_tools.colors.palette": ("color_mask",),
    "visual_tools.diff.compare": ("pixel_diff",),
    "visual_tools.diff.halves": ("split_halves",),
    "visual_tools.diff.result": ("draw_diff",),
    "visual_tools.search.templates": ("match_template",),
    "visual_tools.search.codes": ("read_codes",),
    "visual_tools.search.texts": ("find_text",),
    "visual_tools.pages.text_blocks": ("match_blocks", "read_blocks"),
    "visual_tools.pages.similarity": ("visual_similarity",),
    "visual_tools.charts.axes": ("find_axes",),
    "visual_tools.ocr": ("read_text",),
    "visual_tools.video.info": ("probe",),
    "visual_tools.video.sample": ("sample_frames", "iter_frames", "keyframes", "contact_sheet", "frames"),
    "visual_tools.video.cuts": ("scenes",),
    "visual_tools.video.clip": ("cut_clip",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    """Load the module that holds a public name."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'visual_tools' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return __all__
