"""What of an image's file is drawn: the same pixels, and nothing that takes long to unpack."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin

from model_runtime.errors import MediaError
from model_runtime.processor.decode import MAX_PIECES, MAX_RLE_BYTES, MAX_SCANS, cut_down
from model_runtime.processor.media_rules import MediaLimits
from model_runtime.processor.processor import Processor
from tests.tables import table

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
IMAGE = Image.fromarray(PIXELS)
SECRET = b"nothing is drawn with this"


def encode(kind: str, image: Image.Image = IMAGE, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_chunks(*chunks: bytes, behind: bool = False) -> bytes:
    """The image as PNG with chunks before or behind its data."""
    data = encode("PNG")
    place = len(data) - 12 if behind else 33
    return data[:place] + b"".join(chunks) + data[place:]


def with_segments(*segments: bytes) -> bytes:
    data = encode("JPEG")
    return data[:2] + b"".join(segments) + data[2:]


def segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    tags[0x010E] = SECRET.decode()
    return tags


@table("kind", ["PNG", "JPEG", "WEBP"])
@table("orientation", range(9))
def test_pixels_and_orientation_are_those_of_pillow(kind: str, orientation: int) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encode(kind, exif=exif(orientation), **options)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    height, width, _ = expected.shape
    assert np.array_equal(Processor().image(data).frames[0, :height, :width], expected)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "PNG"])
@pytest.mark.parametrize("form", ['tiff:Orientation="6"', "<tiff:Orientation>6</tiff:Orientation>"])
def test_orientation_by_xmp(kind: str, form: str) -> None:
    options: dict[str, object] = {"xmp": form.encode()}
    if kind == "PNG":
        options = {"pnginfo": PngImagePlugin.PngInfo()}
        options["pnginfo"].add_itxt("XML:com.adobe.xmp", form)  # type: ignore[attr-defined]
    assert cut_down(encode(kind, **options)).orientation == 6


def test_texts_profiles_and_tags_of_a_png_are_dropped() -> None:
    bomb = b"a\0\0" + zlib.compress(bytes(2_000_000))
    kinds = [(b"tEXt", b"a\0" + SECRET), (b"zTXt", bomb), (b"iTXt", b"a\0\0\0\0\0" + SECRET), (b"iCCP", bomb)]
    for behind in (False, True):
        data = with_chunks(*(chunk(*each) for each in kinds), chunk(b"acTL", bytes(8)), behind=behind)
        drawn = cut_down(data)
        assert drawn.data == encode("PNG")
        assert np.array_equal(Processor().image(data).frames[0, :40, :60], PIXELS)


def test_comments_and_application_data_of_a_jpeg_are_dropped() -> None:
    extra = [segment(marker, SECRET) for marker in (*range(0xE1, 0xEE), 0xEF, 0xFE)]
    assert cut_down(with_segments(*extra)).data == encode("JPEG")
    cmyk = encode("JPEG", IMAGE.convert("CMYK"))  # whose colours Adobe's segment turns round
    assert np.array_equal(
        Processor().image(cmyk).frames[0, :40, :60], np.asarray(Image.open(io.BytesIO(cmyk)).convert("RGB"))
    )


def test_comments_of_a_gif_are_dropped_and_its_transparency_stays() -> None:
    data = encode("GIF", IMAGE.quantize(8), transparency=3, comment=SECRET * 9)
    drawn = cut_down(data).data
    assert SECRET not in drawn
    assert Image.open(io.BytesIO(drawn)).info["transparency"] == 3
    plain = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA").convert("RGB"))
    assert np.array_equal(Processor().image(data).frames[0, :40, :60], plain)


def test_a_table_of_tags_that_names_one_place_many_times_is_not_unpacked() -> None:
    """60,000 tags of a megabyte each would take 60 GB."""
    tags = b"".join(struct.pack("<HHII", 0x0200 + i, 1, 1_000_000, 8) for i in range(60_000))
    table = b"II*\0\x08\0\0\0" + struct.pack("<H", 60_000) + tags + bytes(300_000)
    data = with_chunks(chunk(b"eXIf", table))
    assert cut_down(data).orientation == 1
    assert np.array_equal(Processor().image(data).frames[0, :40, :60], PIXELS)


def progressive(scans: int) -> bytes:
    """A JPEG that draws its last scan over and over."""
    data = encode("JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * scans + data[-2:]


TOO_MANY = {
    "chunks": with_chunks(*[chunk(b"tEXt", b"a\0b")] * MAX_PIECES),
    "data in chunks": encode("PNG")[:33] + chunk(b"IDAT", b"") * MAX_PIECES,
    "segments": with_segments(*[segment(0xFE, b"")] * MAX_PIECES),
    "blocks": encode("GIF")[:10] + b"\0\0\0" + b"\x21\xfe" + b"\x01a" * MAX_PIECES,
    "extensions": encode("GIF")[:10] + b"\0\0\0" + b"\x21\xfe\0" * MAX_PIECES,
    "WebP chunks": b"RIFF\xff\xff\xff\0WEBP" + b"junk\0\0\0\0" * MAX_PIECES,
    "scans": progressive(MAX_SCANS + 1),
    "runs": encode("BMP")[:30] + b"\x01\0\0\0" + bytes(MAX_RLE_BYTES),
}


@pytest.mark.parametrize("data", TOO_MANY.values(), ids=TOO_MANY.keys())
def test_too_many_pieces_are_refused(data: bytes) -> None:
    with pytest.raises(MediaError) as caught:
        Processor().image(data)
    assert caught.value.code == "media_too_large"


def test_scans_times_pixels_have_a_limit() -> None:
    data = bytearray(progressive(30))
    place = data.index(b"\xff\xc2")
    data[place + 5 : place + 9] = struct.pack(">HH", 8000, 8000)
    with pytest.raises(MediaError, match="8000 x 8000 pixels in 39 scans"):
        Processor().image(bytes(data))


def webp_of(kind: bytes, head: bytes) -> bytes:
    body = b"WEBP" + kind + struct.pack("<I", len(head)) + head
    return b"RIFF" + struct.pack("<I", len(body)) + body


LARGE = {
    "PNG": encode("PNG")[:16] + struct.pack(">II", 9000, 9000) + encode("PNG")[24:],
    "GIF": encode("GIF")[:6] + struct.pack("<HH", 9000, 9000) + encode("GIF")[10:],
    "BMP": encode("BMP")[:18] + struct.pack("<ii", 9000, -9000) + encode("BMP")[26:],
    "WebP, extended": webp_of(b"VP8X", bytes(4) + (8999).to_bytes(3, "little") * 2),
    "WebP, lossless": webp_of(b"VP8L", b"\x2f" + (8999 | 8999 << 14).to_bytes(4, "little") + bytes(5)),
    "WebP, lossy": webp_of(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", 9000, 9000)),
}


@pytest.mark.parametrize("data", LARGE.values(), ids=LARGE.keys())
def test_a_size_is_refused_by_the_header_alone(data: bytes) -> None:
    assert cut_down(data).size == (9000, 9000)
    with pytest.raises(MediaError, match="9000 x 9000 pixels, at most 64000000 are decoded"):
        Processor(limits=MediaLimits()).image(data)
