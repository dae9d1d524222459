"""Images as they come from outside."""

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from model_runtime.errors import MediaError
from model_runtime.processor.media_rules import MediaLimits
from model_runtime.processor.processor import Processor

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
IMAGE = Image.fromarray(PIXELS)


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def read(data: bytes) -> np.ndarray:
    """The decoded image without its padding, as far as 60 x 40 px."""
    return Processor().image(data).frames[0, :40, :60]


@pytest.mark.parametrize(("kind", "options"), [("PNG", {}), ("WEBP", {"lossless": True}), ("BMP", {})])
def test_lossless_formats(kind: str, options: dict[str, object]) -> None:
    assert np.array_equal(read(encode(IMAGE, kind, **options)), PIXELS)


def test_equal_pixels_are_equal_items() -> None:
    items = [Processor().image(encode(IMAGE, kind)) for kind in ("PNG", "BMP")]
    assert items[0].content_hash == items[1].content_hash
    changed = Processor().image(encode(IMAGE.rotate(180), "PNG"))
    assert changed.content_hash != items[0].content_hash


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF"])
def test_lossy_formats_decode_as_pil_does(kind: str) -> None:
    data = encode(IMAGE, kind)
    assert np.array_equal(read(data), np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_modes_become_rgb_as_in_pil(mode: str) -> None:
    image = IMAGE.convert(mode)
    data = encode(image, "JPEG" if mode == "CMYK" else "PNG")
    assert np.array_equal(read(data), np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


@pytest.mark.filterwarnings("error")
def test_alpha_is_dropped_not_blended() -> None:
    image = IMAGE.convert("RGBA")
    image.putalpha(0)
    assert np.array_equal(read(encode(image, "PNG")), PIXELS)
    palette = IMAGE.quantize(8)
    transparent = encode(palette, "PNG", transparency=bytes([0, 128, 255]))
    assert np.array_equal(read(transparent), np.asarray(palette.convert("RGB")))


def test_16_bit_grey_keeps_its_high_byte() -> None:
    values = np.arange(2400, dtype=np.uint16).reshape(40, 60) * 27
    grey = (values >> 8).astype(np.uint8)
    assert np.array_equal(read(encode(Image.fromarray(values), "PNG")), np.dstack([grey] * 3))


def test_exif_turns_the_picture_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    item = Processor().image(encode(IMAGE, "PNG", exif=exif))
    assert np.array_equal(item.frames[0, :60, :40], np.rot90(PIXELS, -1))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation(kind: str) -> None:
    frames = [Image.new("RGB", (60, 40), color) for color in ("red", "blue")]
    data = encode(
        frames[0], kind, save_all=True, append_images=frames[1:], **{"lossless": True} if kind == "WEBP" else {}
    )
    assert np.array_equal(read(data), np.asarray(frames[0]))


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header says any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


WRONG = {
    "nothing": (b"", "0 bytes"),
    "text": (
        b"hello, this is not an image",
        "is not an image, or only the beginning of one: expected PNG, JPEG, WEBP, GIF, BMP",
    ),
    "a TIFF": (encode(IMAGE, "TIFF"), "is not an image, or only the beginning of one: expected PNG"),
    "an SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not an image"),
    "a cut PNG": (encode(IMAGE, "PNG")[:3000], "cut off or damaged"),
    "a cut JPEG": (encode(IMAGE, "JPEG")[:600], "cut off or damaged"),
    "only a header": (encode(IMAGE, "PNG")[:33], "is not an image, or only the beginning of one"),
    "a bomb": (png_that_claims(9000, 9000), "9000 x 9000 pixels, at most 64000000 are decoded"),
    "a larger bomb": (png_that_claims(2**31 - 1, 2**31 - 1), "at most 64000000 are decoded"),
    "too many bytes": (bytes(1 + (32 << 20)), "33554433 bytes, at most 33554432 are taken"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(("data", "text"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(MediaError) as caught:
        Processor().image(data)
    assert text in str(caught.value)
    assert caught.value.status == 400


def test_limits_are_the_operators() -> None:
    data = encode(IMAGE, "PNG")
    assert Processor(limits=MediaLimits(max_pixels=2400)).image(data).num_tokens == 6
    with pytest.raises(MediaError, match="60 x 40 pixels, at most 2399"):
        Processor(limits=MediaLimits(max_pixels=2399)).image(data)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_damaged_bytes_give_a_picture_or_a_media_error(kind: str) -> None:
    """Nothing else may come out: another exception would read as a fault of the server."""
    chance = random.Random(kind)
    whole = encode(IMAGE, kind)
    refused = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.choice((0, 1, 3))):
            data[chance.randrange(len(data))] = chance.randrange(256)
            data[chance.randrange(chance.choice((60, len(data))))] ^= 1 << chance.randrange(8)
        length = chance.choice((len(data), chance.randrange(len(data))))
        try:
            Processor(limits=MediaLimits(max_pixels=10**6)).image(bytes(data[:length]))
        except MediaError:
            refused += 1
    assert 0 < refused < 150


@pytest.mark.parametrize(
    "frames",
    [[], [PIXELS] * 5, [PIXELS.astype(np.float32)], [PIXELS[..., 0]], [PIXELS[..., :2]], [PIXELS[:0]]],
    ids=["none", "five", "floats", "grey", "two channels", "empty"],
)
def test_frames_that_are_none(frames: list[np.ndarray]) -> None:
    with pytest.raises(MediaError, match="expected"):
        Processor().frames(frames)
