"""Images that break decoders."""

import io
import struct
import zlib
from functools import cache

import numpy as np
from PIL import Image

MEGABYTES_OF_NOTHING = zlib.compress(b"\0" * 80_000_000, 9)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(size_px: tuple[int, int] = (40, 30)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size_px, (250, 0, 0)).save(out, "PNG")
    return out.getvalue()


def with_chunk(new: bytes, *, is_behind: bool) -> bytes:
    """A whole PNG with one more chunk, before or behind its data."""
    whole = png()
    at = whole.index(b"IEND") - 4 if is_behind else whole.index(b"IDAT") - 4
    return whole[:at] + new + whole[at:]


@cache
def harmless_bombs() -> dict[str, bytes]:
    """Whole images with a note that unpacks to 80 MB."""
    text = chunk(b"zTXt", b"Comment\0\0" + MEGABYTES_OF_NOTHING)
    unicode = chunk(b"iTXt", b"Comment\0\1\0\0\0" + MEGABYTES_OF_NOTHING)
    return {
        f"{name} {where}": with_chunk(new, is_behind=where == "behind")
        for name, new in (("zTXt", text), ("iTXt", unicode))
        for where in ("before", "behind")
    }


@cache
def broken() -> dict[str, bytes]:
    """Files that are no image, or too much of one."""
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 1, 0, 0, 0, 0)
    huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", MEGABYTES_OF_NOTHING) + chunk(b"IEND", b"")
    none = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 0, 8, 2, 0, 0, 0)) + chunk(b"IEND", b"")
    noise = np.random.default_rng(1).integers(0, 255, (40, 40, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "PNG")
    return {
        "iCCP": with_chunk(chunk(b"iCCP", b"p\0\0" + MEGABYTES_OF_NOTHING), is_behind=False),
        "huge": huge,
        "no pixels": none,
        "cut": out.getvalue()[:1000],
        "only a start": b"\x89PNG\r\n\x1a\n",
        "tiff": b"II*\0\x08\0\0\0" + b"\xff" * 200,
        "bmp": b"BM" + struct.pack("<IHHI", 100, 0, 0, 54) + b"\xff" * 60,
        "ico": b"\0\0\1\0\1\0" + b"\xff" * 40,
        "gif": b"GIF89a" + b"\xff" * 40,
        "text": b"not an image",
        "nothing": b"",
    }
