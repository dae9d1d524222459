"""Decoding of untrusted images: files are reduced to the drawn data, then decoded within limits.

Colours follow PIL's plain `convert("RGB")`, as in the release's processor: an alpha channel is dropped, not blended.
There are two intended differences: images are rotated upright by their EXIF or XMP tag (as transformers loads them),
and of 16-bit grey the high byte is used (PIL would clip everything above 255 to white).

In addition to its pixels, a file may have texts, profiles, tags and further images, which decoders unpack although they
are not drawn: half a million comments take seconds, a table of tags can name the same megabyte sixty thousand times.
Here a file is scanned once, in linear time and a bounded number of pieces, and only data that affects pixels is passed
on, byte for byte. The orientation is read in the same pass.

Sources: PNG: W3C REC png-3; JPEG: ITU-T T.81, annex B; GIF: GIF89a specification; WebP: RFC 9649; EXIF: CIPA DC-008.
"""

import re
import struct
import zlib
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from model_runtime.errors import MediaError
from model_runtime.processor.media_rules import MediaLimits

MAX_PIECES = 20_000
"""Maximum number of chunks, segments or blocks of a file; an encoder writes a 32 MiB image in some thousands."""
MAX_SCANS = 100
"""Maximum number of scans of a JPEG; encoders write up to about twenty."""
MAX_SCANNED_PIXELS = 800_000_000
"""Maximum number of pixels times scans, the cost of decoding a progressive JPEG."""
MAX_RLE_BYTES = 2 * 2**20
"""Maximum size of a run-length coded BMP, which Pillow decodes in Python."""
MAX_TAGS = 4096  # bounds the time for a directory of tags whose count is forged

_PNG_DRAWN = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_JPEG_DROPPED = frozenset({*range(0xE1, 0xEE), 0xEF, 0xFE})
"""Dropped JPEG segments: application data and comments, except JFIF's and Adobe's, which define the colour encoding."""
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff]")
_JPEG_SCAN_END = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_GIF_BLOCK = re.compile(rb"[!,;]")
_XMP = re.compile(rb'tiff:Orientation(?:="|>)([1-8])')
_XMP_HEAD = b"http://ns.adobe.com/xap/1.0/\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageData:
    """The drawn part of a file: `data` of the same format with the same pixels.

    `size` (width, height) in px is known if the header was found; `orientation` is 1 to 8, by EXIF or XMP.
    """

    data: bytes
    size: tuple[int, int] | None = None
    orientation: int = 1
    num_scans: int = 1


def cut_down(data: bytes) -> ImageData:
    """Return the drawn part of an image file; other files are returned unchanged.

    Raises:
        MediaError: If it has too many pieces.
    """
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _cut_png(data)
        if data.startswith(b"\xff\xd8"):
            return _cut_jpeg(data)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _cut_gif(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _read_webp(data)
        return _read_bmp(data) if data.startswith(b"BM") else ImageData(data=data)
    except struct.error:  # it ends in the middle of a header; the decoder reports this
        return ImageData(data=data[:64])


def _cut_png(data: bytes) -> ImageData:
    kept, orientation, size, pos = [data[:8]], 1, None, 8
    for _ in _pieces("PNG", "chunks"):
        if pos + 8 > len(data):
            break
        length, kind = struct.unpack_from(">I4s", data, pos)
        end = pos + 12 + length
        if kind == b"IHDR" and size is None:
            size = struct.unpack_from(">II", data, pos + 8)
        if kind in _PNG_DRAWN:
            kept.append(data[pos:end])
        elif kind == b"eXIf":
            orientation = _exif_orientation(data[pos + 8 : end - 4])
        elif kind == b"iTXt" and data.startswith(b"XML:com.adobe.xmp\0\0", pos + 8):
            orientation = _xmp_orientation(data, pos, end)
        if kind == b"IEND":
            break
        pos = end
    return ImageData(data=b"".join(kept), size=size, orientation=orientation)


def _cut_jpeg(data: bytes) -> ImageData:
    kept, orientation, size, scans, pos = [data[:2]], 1, None, 0, 2
    for _ in _pieces("JPEG", "segments"):
        match = _JPEG_MARKER.search(data, pos)
        if match is None:
            break
        pos, marker = match.start(), data[match.start() + 1]
        if marker in _JPEG_BARE:
            kept.append(data[pos : pos + 2])
            pos += 2
            continue
        if marker == 0xD9 or pos + 4 > len(data):
            kept.append(data[pos : pos + 2])
            break
        end = pos + 2 + struct.unpack_from(">H", data, pos + 2)[0]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, pos + 5)
            size = max(size or (0, 0), (width, height), key=lambda each: each[0] * each[1])
        elif marker == 0xE1 and data.startswith(b"Exif\0\0", pos + 4) and orientation == 1:
            orientation = _exif_orientation(data[pos + 4 : end])
        elif marker == 0xE1 and data.startswith(_XMP_HEAD, pos + 4) and orientation == 1:
            orientation = _xmp_orientation(data, pos, end)
        elif marker == 0xDA:
            scans += 1
            following = _JPEG_SCAN_END.search(data, end)
            end = following.start() if following else len(data)
        if marker not in _JPEG_DROPPED:
            kept.append(data[pos:end])
        pos = end
    return ImageData(data=b"".join(kept), size=size, orientation=orientation, num_scans=max(1, scans))


def _cut_gif(data: bytes) -> ImageData:
    """Drop everything before the first image except its control block; decoders do not read the data after the
    image.
    """
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    pos = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    head, control = data[:pos], b""
    blocks = _pieces("GIF", "blocks before its first image")
    for _ in blocks:
        match = _GIF_BLOCK.search(data, pos)
        pos = match.start() if match else len(data)
        if data[pos : pos + 1] != b"!":
            break
        start, label = pos, data[pos + 1 : pos + 2]
        pos += 2
        while pos < len(data) and data[pos]:
            next(blocks)
            pos += 1 + data[pos]
        pos += 1
        if label == b"\xf9":
            control = data[start:pos]
    return ImageData(data=head + control + data[pos:], size=(width, height))


def _read_webp(data: bytes) -> ImageData:
    """Read size and orientation. Nothing is dropped, as the library decodes only the image."""
    size, orientation, pos = None, 1, 12
    for _ in _pieces("WebP", "chunks"):
        if pos + 8 > len(data):
            break
        kind, length = struct.unpack_from("<4sI", data, pos)
        body = pos + 8
        if size is None:
            size = _webp_size(kind, data[body : body + 10])
        if kind == b"EXIF":
            orientation = _exif_orientation(data[body : body + length])
        elif kind == b"XMP " and orientation == 1:
            orientation = _xmp_orientation(data, body, body + length)
        pos = body + length + length % 2
    return ImageData(data=data, size=size, orientation=orientation)


def _webp_size(kind: bytes, head: bytes) -> tuple[int, int] | None:
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 6)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _read_bmp(data: bytes) -> ImageData:
    (header,) = struct.unpack_from("<I", data, 14)
    if header < 40:
        return ImageData(data=data, size=struct.unpack_from("<HH", data, 18))
    width, height, _, _, compression = struct.unpack_from("<iiHHI", data, 18)
    if compression in (1, 2) and len(data) > MAX_RLE_BYTES:
        text = f"the BMP is run-length coded and has {len(data)} bytes, at most {MAX_RLE_BYTES} are decoded"
        raise MediaError(f"{text}: send a PNG", code="media_too_large")
    return ImageData(data=data, size=(abs(width), abs(height)))


def _pieces(kind: str, noun: str) -> "_Counted":
    return _Counted(f"the {kind} has more than {MAX_PIECES} {noun}: save it again with another program")


class _Counted:
    """Iterator that raises after `MAX_PIECES` steps."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = MAX_PIECES

    def __iter__(self) -> "_Counted":
        return self

    def __next__(self) -> None:
        if not self._left:
            raise MediaError(self._text, code="media_too_large")
        self._left -= 1


def _exif_orientation(data: bytes) -> int:
    """Return the orientation in the first directory; 1 if it is missing or damaged."""
    tiff = data.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, start)
        for place in range(min(count, MAX_TAGS)):
            tag, kind, _, short = struct.unpack_from(order + "HHIH", tiff, start + 2 + 12 * place)
            if tag == 0x0112:
                value = short if kind == 3 else struct.unpack_from(order + "I", tiff, start + 10 + 12 * place)[0]
                return value if 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1


def _xmp_orientation(data: bytes, start: int, end: int) -> int:
    match = _XMP.search(data, start, end)
    return int(match[1]) if match else 1


FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
UNREADABLE = (
    OSError,  # PIL's own errors, including "image file is truncated"
    ValueError,
    SyntaxError,  # a broken PNG
    EOFError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transposition of an image with that orientation. Source: EXIF, tag 0x0112, as Pillow's `ImageOps.exif_transpose`."""


def decode_image(data: bytes, limits: MediaLimits) -> Image.Image:
    """Decode an image; of an animated one, its first frame.

    Raises:
        MediaError: If it is not an image of a known format, is broken, or exceeds a limit.
    """
    check_bytes(len(data), limits.max_image_bytes, "image")
    drawn = cut_down(data)
    _check_drawn(drawn, limits)
    try:
        with Image.open(BytesIO(drawn.data), formats=FORMATS) as image:
            check_pixels(image.width, image.height, limits)
            image.load()
            turn = _UPRIGHT.get(drawn.orientation)
            return to_rgb(image if turn is None else image.transpose(turn))
    except UnidentifiedImageError as error:
        text = f"{_describe(data)} is not an image, or only the beginning of one: expected {', '.join(FORMATS)}"
        raise MediaError(text, code="invalid_media") from error
    except UNREADABLE as error:
        text = f"the image cannot be decoded, it may be cut off or damaged: {error}"
        raise MediaError(text, code="invalid_media") from error


def _check_drawn(drawn: ImageData, limits: MediaLimits) -> None:
    """Check by the header alone that an image does not take long to open or decode.

    Raises:
        MediaError: If it exceeds a limit.
    """
    width, height = drawn.size or (1, 1)
    if width * height > limits.max_pixels:
        check_pixels(width, height, limits)
    if drawn.num_scans > MAX_SCANS or drawn.num_scans * width * height > max(MAX_SCANNED_PIXELS, limits.max_pixels):
        text = f"the JPEG draws its {width} x {height} pixels in {drawn.num_scans} scans, which takes too long"
        raise MediaError(f"{text}: save it again with another program", code="media_too_large")


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image of any mode to 8-bit RGB."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):
        grey = np.asarray(image).astype(np.uint16) >> 8
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")  # the same colours, without PIL's warning
    return image.convert("RGB")


def check_bytes(size_bytes: int, limit_bytes: int, noun: str) -> None:
    """Check that data is not empty and not too large.

    Raises:
        MediaError: If it is.
    """
    if not size_bytes:
        raise MediaError(f"the {noun} is empty: 0 bytes", code="invalid_media")
    if size_bytes > limit_bytes:
        text = f"the {noun} has {size_bytes} bytes, at most {limit_bytes} are taken: send a smaller one"
        raise MediaError(text, code="media_too_large")


def check_pixels(width: int, height: int, limits: MediaLimits) -> None:
    """Check that an image does not take too much memory when decoded.

    Raises:
        MediaError: If there are too many pixels, or none.
    """
    if width < 1 or height < 1:
        raise MediaError(f"the image has the size {width} x {height}", code="invalid_media")
    if width * height > limits.max_pixels:
        text = f"the image has {width} x {height} pixels, at most {limits.max_pixels} are decoded: send a smaller one"
        raise MediaError(text, code="media_too_large")


def _describe(data: bytes) -> str:
    """Describe the first bytes, for the error text about an unknown format."""
    return f"what begins with {data[:8]!r} ({len(data)} bytes)"
