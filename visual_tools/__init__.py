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
    "visual_tools.images": (
        *("load_image", "save_image", "load_pages", "crop", "zoom", "rotate"),
        *("overlay_grid", "annotate", "PointMark", "BoxMark", "PathMark", "TextMark"),
    ),
    "visual_tools.regions": (
        *("binarize", "find_components", "count_objects", "measure_objects", "find_scale_bar"),
        *("detect_edges", "find_contours", "find_polygons", "draw_objects"),
    ),
    "visual_tools.paths": ("shortest_path", "check_path", "draw_path"),
    "visual_tools.colors": ("color_share", "draw_share", "color_mask"),
    "visual_tools.diff": ("pixel_diff", "split_halves", "draw_diff"),
    "visual_tools.search": ("match_template", "read_codes", "find_text"),
    "visual_tools.pages": ("match_blocks", "read_blocks", "visual_similarity"),
    "visual_tools.charts": ("find_axes",),
    "visual_tools.ocr": ("read_text",),
    "visual_tools.video": (
        *("probe", "sample_frames", "iter_frames", "keyframes", "scenes"),
        *("contact_sheet", "cut_clip", "frames"),
    ),
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
