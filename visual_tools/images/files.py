"""Read an image from a file, bytes, Pillow or an array, and write one to a file."""

import io
import os
import struct
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps

from visual_tools.errors import ImageError
from visual_tools.images.arrays import array_from_image, check_num_pixels, image_from_array

EncodedImage = str | os.PathLike[str] | bytes | bytearray | memoryview
ImageSource = EncodedImage | Image.Image | NDArray[np.generic]
"""Types that every function accepts as an image."""

MAX_PIXELS = 200_000_000
"""Default limit to bound memory: 600 MB as RGB, and larger than the images of scanners and cameras."""

BROKEN_FILE = (
    *(OSError, SyntaxError, ValueError, EOFError, TypeError, LookupError, OverflowError, MemoryError),
    *(RuntimeError, AssertionError, struct.error, zlib.error, Image.DecompressionBombError),
)
"""Exceptions that Pillow raises for files that are truncated, damaged or not images."""

_VIDEO_SUFFIXES = {
    ".mp4",
    ".m4v",
    ".mov",
    ".mkv",
    ".webm",
    ".avi",
    ".mpg",
    ".mpeg",
    ".wmv",
    ".flv",
    ".ts",
    ".ogv",
    ".3gp",
}
_IMAGE_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"mif1", b"hevc")
_PNG_START, _PNG_TEXTS, _MAX_PNG_CHUNKS = b"\x89PNG\r\n\x1a\n", (b"tEXt", b"zTXt", b"iTXt"), 100_000
_ORIENTATION_TAG = 0x0112  # Source: Exif 2.3, Orientation
_pillow_limit = threading.RLock()
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
_OPTIONS: dict[str, dict[str, int]] = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "WEBP": {"lossless": True},
    "PNG": {"compress_level": 3},
}


def load_image(source: ImageSource, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """Load an image as an array, regardless of its storage format.

    Files: PNG, JPEG, WEBP, GIF, BMP, TIFF and the others that Pillow reads. The EXIF orientation is applied, colours of
    an embedded profile are converted to sRGB, transparent parts are shown on white, and of several frames or pages the
    first is used (`load_pages` reads all). 16-bit grey values are scaled to 8 bits (0 to 65535 becomes 0 to 255).
    Floating-point and 32-bit files contain 0 to 1 and 0 to 65535; others are stretched from lowest to highest.

    Arrays: (H, W), (H, W, 1), (H, W, 3) RGB or (H, W, 4) RGBA of uint8, uint16 (0 to 65535), bool, float (0 to 1), or
    other integers from 0 to 255. An (H, W, 3) uint8 array is returned unchanged, not copied.

    Args:
        source: Path, bytes of a file, Pillow image or array.
        max_pixels: Maximum number of pixels; larger images are refused before they are decoded.

    Returns:
        (H, W, 3) uint8 RGB.

    Raises:
        ImageError: If the file is missing, damaged, not an image or too large; or the array is not an image.

    Example:
        >>> load_image(np.array([[0.0, 1.0]])).tolist()
        [[[0, 0, 0], [255, 255, 255]]]
    """
    if isinstance(source, np.ndarray):
        return image_from_array(source, max_pixels)
    if isinstance(source, Image.Image):
        check_has_pixels(source, "this Pillow image")
        check_num_pixels(source.width, source.height, max_pixels)
        return _decode(source, "this Pillow image")
    with open_image(source) as image:
        check_num_pixels(image.width, image.height, max_pixels)
        return _decode(image, name_of(source))


def load_alpha(source: ImageSource, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8] | None:
    """Return the opacity of each pixel, (H, W) uint8, 255 is opaque; None for an image without transparency.

    Raises:
        ImageError: If the image cannot be loaded, see `load_image`.
    """
    if isinstance(source, np.ndarray):
        is_rgba = source.ndim == 3 and source.shape[2] == 4
        return image_from_array(source[:, :, 3], max_pixels)[:, :, 0] if is_rgba else None
    if isinstance(source, Image.Image):
        return _alpha_of(source)
    with open_image(source) as image:
        check_num_pixels(image.width, image.height, max_pixels)
        return _alpha_of(image)


def _alpha_of(image: Image.Image) -> NDArray[np.uint8] | None:
    if not image.has_transparency_data:
        return None
    try:
        return np.array(_upright(image).convert("RGBA").getchannel("A"))
    except BROKEN_FILE as error:
        raise ImageError(f"the image is damaged ({error}), expected a whole one. Get the file again.") from error


@contextmanager
def open_image(source: EncodedImage) -> Iterator[Image.Image]:
    """Open an image file and read its header; Pillow's own size limit is disabled until the image is closed.

    Raises:
        ImageError: If it is not an image.
    """
    data, name = _without_texts(read_bytes(source)), name_of(source)
    with _without_pillow_limit():
        try:
            image = Image.open(io.BytesIO(data))
        except BROKEN_FILE as error:
            raise ImageError(_explain(data, name)) from error
        with image:
            check_has_pixels(image, name)
            if isinstance(image, ImageFile.ImageFile):  # Pillow reads in blocks, which is slow if many make up one row
                image.decodermaxblock = max(image.decodermaxblock, 4 * image.width)
            yield image


def _without_texts(data: bytes) -> bytes:
    """Return a PNG without its text chunks, which are not part of the image and may decompress to any size."""
    if not data.startswith(_PNG_START):
        return data
    kept, start, has_texts = [data[: len(_PNG_START)]], len(_PNG_START), False
    for _ in range(_MAX_PNG_CHUNKS):
        if start + 8 > len(data):
            break
        size_bytes = int.from_bytes(data[start : start + 4], "big") + 12
        if data[start + 4 : start + 8] in _PNG_TEXTS:
            has_texts = True
        else:
            kept.append(data[start : start + size_bytes])
        start += size_bytes
    return b"".join([*kept, data[start:]]) if has_texts else data


def check_has_pixels(image: Image.Image, name: str) -> None:
    """Check that an image has pixels.

    Raises:
        ImageError: If it has none.
    """
    if 0 in image.size:
        raise ImageError(f"{name} has {image.width}x{image.height} pixels, expected at least 1x1")


def read_bytes(source: object) -> bytes:
    """Return the bytes of a file, given as bytes or by path.

    Raises:
        ImageError: If the file is missing or empty.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
    elif isinstance(source, str | os.PathLike):
        data = _read_file(Path(source).expanduser())
    else:
        raise ImageError(f"found {type(source).__name__}, expected a path, bytes of a file, a Pillow image or an array")
    if not data:
        raise ImageError(f"{name_of(source)} is empty, expected an image file")
    return data


def name_of(source: EncodedImage) -> str:
    """Return the name of a source for error messages."""
    return f"{Path(source)}" if isinstance(source, str | os.PathLike) else f"the file of {len(source)} bytes"


def _read_file(path: Path) -> bytes:
    if path.suffix.lower() in _VIDEO_SUFFIXES:
        raise ImageError(f"{path} is a video, expected an image. Use visual_tools.video, sample_frames for example.")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ImageError(f"there is no file {path}{_hint_of_neighbours(path)}") from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{path} cannot be read: {error}. Give the path of an image file.") from error


def _hint_of_neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist either. Check the path."
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f". Files in that folder: {listed}." if names else "; that folder has no files. Check the path."


def _decode(image: Image.Image, name: str) -> NDArray[np.uint8]:
    try:
        image.load()
        return array_from_image(_upright(image))
    except BROKEN_FILE as error:
        reason = f"{image.format} cannot be decoded: {error or type(error).__name__}"
        raise ImageError(f"{name} is damaged ({reason}), expected a whole image. Get the file again.") from error


def _upright(image: Image.Image) -> Image.Image:
    """Rotate an image according to its EXIF orientation; an unreadable one is ignored."""
    try:
        is_upright = image.getexif().get(_ORIENTATION_TAG, 1) == 1
        return image if is_upright else ImageOps.exif_transpose(image)
    except BROKEN_FILE:
        return image


def _explain(data: bytes, name: str) -> str:
    """Explain why a file is not an image, and which function reads it."""
    start = data[:1024].lstrip()
    if start.startswith(b"%PDF"):
        return f"{name} is a PDF, expected an image. Make images of its pages first, by visual_tools.load_pages."
    is_video = (data[4:8] == b"ftyp" and data[8:12] not in _IMAGE_BRANDS) or data[:4] == b"\x1aE\xdf\xa3"
    if is_video or (data[:4] == b"RIFF" and data[8:12] == b"AVI "):
        return f"{name} is a video, expected an image. Use visual_tools.video, sample_frames for example."
    expected = "expected an image (PNG, JPEG, WEBP, GIF, BMP, TIFF)"
    if b"<svg" in start.lower():
        return f"{name} is an SVG drawing, {expected}. Render it first, in a browser for example."
    return (
        f"{name} is not an image that can be read (it begins with {data[:12]!r}), {expected}. "
        "Check or convert the file."
    )


@contextmanager
def _without_pillow_limit() -> Iterator[None]:
    """Disable Pillow's size limit, which is global for the process, lower than ours, and causes warnings.

    `check_num_pixels` applies our limit instead.
    """
    with _pillow_limit:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def save_image(image: ImageSource, path: str | os.PathLike[str]) -> Path:
    """Write an image; the suffix of the path selects the format. PNG, WEBP, BMP and TIFF are lossless.

    The file is written atomically and replaces an existing one. Missing folders are created.

    Args:
        image: Anything `load_image` takes.
        path: Output path.

    Returns:
        The path.

    Raises:
        ImageError: If the suffix is unknown, the format cannot store the image, or writing fails.
    """
    path = Path(path).expanduser()
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        suffix = f"the suffix {path.suffix!r}" if path.suffix else "no suffix"
        raise ImageError(f"found {suffix} in {path}, expected one of {', '.join(_FORMATS)}")
    pillow = Image.fromarray(load_image(image))
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem[:40]}-", suffix=path.suffix)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            pillow.save(file, kind, **_OPTIONS.get(kind, {}))
        temporary.chmod(0o644)
        temporary.replace(path)
    except (OSError, ValueError) as error:
        raise ImageError(
            f"{path} ({pillow.width}x{pillow.height} pixels, {kind}) cannot be written: {error}. "
            f"Choose another folder or another format: {', '.join(_FORMATS)}."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
    return path
