"""Write a picture to a file."""

import os
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from visual_tools.errors import ImageError
from visual_tools.images.load import ImageSource, load_image

_FORMATS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".webp": "WEBP",
    ".bmp": "BMP",
    ".gif": "GIF",
    ".tif": "TIFF",
    ".tiff": "TIFF",
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "WEBP": {"lossless": True},
    "PNG": {"compress_level": 3},
}


def save_image(image: ImageSource, path: str | os.PathLike[str]) -> Path:
    """Write a picture; the suffix of the path chooses the format. PNG, WEBP, BMP and TIFF keep every pixel as it is.

    The file appears whole or not at all; one that is there already is replaced. Missing folders are made.

    Args:
        image: Anything `load_image` takes.
        path: Where to.

    Returns:
        The path.

    Raises:
        ImageError: The suffix is none of a known format, the format cannot hold the picture, or the disk refuses.
    """
    path = Path(path).expanduser()
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        found = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise ImageError(f"found {found} in {path}, expected one of {', '.join(_FORMATS)}")
    picture = Image.fromarray(load_image(image))
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:40]}-", suffix=path.suffix)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            picture.save(file, kind, **_OPTIONS.get(kind, {}))
        temporary.chmod(0o644)
        temporary.replace(path)
    except (OSError, ValueError) as error:
        raise ImageError(
            f"{path} ({picture.width}x{picture.height} pixels, {kind}) cannot be written: {error}. "
            f"Choose another folder or another format: {', '.join(_FORMATS)}."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return path
