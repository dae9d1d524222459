"""Pictures and a video, made here byte by byte, so that probes need no package and no file.

Source: PNG (RFC 2083), AVI (Microsoft RIFF, uncompressed DIB frames).
"""

import base64
import struct
import zlib
from collections.abc import Iterable

Colour = tuple[int, int, int]
COLOURS: dict[str, Colour] = {
    "red": (230, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 60, 230),
    "yellow": (250, 220, 20),
}
TINY_PX = 56


def make_png(width_px: int, height_px: int, colour: Colour) -> bytes:
    """A PNG of one colour."""
    row = b"\0" + bytes(colour) * width_px
    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row * height_px)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in chunks)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def make_avi(colours: Iterable[Colour], *, side_px: int = TINY_PX, fps: int = 2) -> bytes:
    """An uncompressed AVI, one frame for each colour; `side_px` is a multiple of 4."""
    frames = [bytes(reversed(colour)) * (side_px * side_px) for colour in colours]  # BGR, rows need no padding
    size = side_px * side_px * 3
    main = struct.pack(
        "<14I", 1_000_000 // fps, size * fps, 0, 0x10, len(frames), 0, 1, size, side_px, side_px, *[0] * 4
    )
    stream = struct.pack("<4s4sIHHIIIIIIII4H", b"vids", b"DIB ", 0, 0, 0, 0, 1, fps, 0, len(frames), size, 0, 0, 0, 0,
                         side_px, side_px)  # fmt: skip
    picture = struct.pack("<IiiHHIIiiII", 40, side_px, side_px, 1, 24, 0, size, 0, 0, 0, 0)
    described = _list(b"strl", _riff_chunk(b"strh", stream) + _riff_chunk(b"strf", picture))
    header = _list(b"hdrl", _riff_chunk(b"avih", main) + described)
    movie = _list(b"movi", b"".join(_riff_chunk(b"00db", frame) for frame in frames))
    index = b"".join(
        struct.pack("<4sIII", b"00db", 0x10, 4 + number * (size + 8), size) for number in range(len(frames))
    )
    body = b"AVI " + header + movie + _riff_chunk(b"idx1", index)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _riff_chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _list(kind: bytes, data: bytes) -> bytes:
    return _riff_chunk(b"LIST", kind + data)


def data_url(data: bytes, media_type: str) -> str:
    """Bytes as a `data:` address."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def image_part(colour: str, width_px: int = TINY_PX, height_px: int = TINY_PX) -> dict[str, object]:
    """A part of a message that shows a picture of one colour, by its name."""
    url = data_url(make_png(width_px, height_px, COLOURS[colour]), "image/png")
    return {"type": "image_url", "image_url": {"url": url}}


def video_part(colours: Iterable[str]) -> dict[str, object]:
    """A part of a message that shows a video of two frames a second, one for each colour."""
    video = make_avi(COLOURS[name] for name in colours)
    return {"type": "video_url", "video_url": {"url": data_url(video, "video/x-msvideo")}}
