"""The letters for labels."""

from functools import lru_cache
from typing import Any

from PIL import ImageFont

from visual_tools.require import MissingPackageError, find_package_dir


@lru_cache(maxsize=32)
def load_font(size_px: int) -> Any:
    """DejaVu Sans, which knows most alphabets, from matplotlib; without it Pillow's own letters."""
    try:
        path = find_package_dir("matplotlib", "sandbox") / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
        return ImageFont.truetype(str(path), size_px)
    except (MissingPackageError, OSError):
        return ImageFont.load_default(size_px)
