import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms

from tests.tables import table
from tests.visual_tools.images.files import COLOURS, corners, encode, four_colours
from visual_tools.errors import ImageError
from visual_tools.images.files import load_image

GREY = (np.arange(12, dtype=np.uint8) * 20).reshape(3, 4)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("PPM", {}),
    ],
)
def test_formats_without_loss_give_the_very_pixels(kind: str, options: dict[str, Any]) -> None:
    picture = four_colours()

    image = load_image(encode(picture, kind, **options))

    assert image.dtype == np.uint8 and image.flags.writeable
    assert np.array_equal(image, np.asarray(picture))


def test_jpeg_is_near() -> None:
    image = load_image(encode(four_colours(32, 32), "JPEG", quality=95))

    assert np.abs(np.array(corners(image)) - np.array(COLOURS)).max() <= 6


@pytest.mark.long
def test_sources_of_every_kind_mean_the_same(tmp_path: Path) -> None:
    picture = four_colours()
    data = encode(picture, "PNG")
    path = tmp_path / "with space ä.png"
    path.write_bytes(data)

    for source in (path, str(path), data, bytearray(data), memoryview(data), picture, np.asarray(picture)):
        assert np.array_equal(load_image(source), np.asarray(picture))


@table("orientation", range(1, 9))
@table("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_a_camera_turned_round_is_turned_back(kind: str, orientation: int) -> None:
    turned = four_colours(64, 32)
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    if orientation in undo:
        turned = turned.transpose(undo[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    more: dict[str, Any] = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95}}.get(kind, {})

    image = load_image(encode(turned, kind, exif=exif, **more))

    assert image.shape == (32, 64, 3)
    assert np.abs(np.array(corners(image)) - np.array(COLOURS)).max() <= 6


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk(kind: str) -> None:
    picture = Image.new("CMYK", (16, 16), (0, 255, 255, 0))

    assert np.abs(load_image(encode(picture, kind))[8, 8].astype(int) - (255, 0, 0)).max() <= 6


def test_palette_grey_and_one_bit() -> None:
    picture = four_colours()

    assert np.array_equal(load_image(picture.quantize(8)), np.asarray(picture))
    assert np.array_equal(load_image(encode(Image.fromarray(GREY), "PNG")), np.dstack([GREY] * 3))
    assert load_image(encode(Image.fromarray(GREY > 100), "PNG"))[:, :, 1].tolist() == ((GREY > 100) * 255).tolist()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_is_scaled_not_cut(kind: str) -> None:
    values = np.array([[0, 257, 32896], [40000, 65278, 65535]], np.uint16)

    image = load_image(encode(Image.fromarray(values), kind))

    assert image[:, :, 0].tolist() == [[0, 1, 128], [156, 254, 255]]
    assert np.array_equal(load_image(values), image)


def test_16_bit_grey_tiff_of_either_byte_order_and_white_as_zero() -> None:
    values = np.array([[0, 65535, 32768]], np.uint16)

    for order, code, photometric, expected in [
        ("<", b"II*\0", 1, [0, 255, 128]),
        (">", b"MM\0*", 1, [0, 255, 128]),
        ("<", b"II*\0", 0, [255, 0, 127]),
    ]:
        data = values.astype(f"{order}u2").tobytes()
        tags = [(256, 4, 3), (257, 4, 1), (258, 3, 16), (259, 3, 1), (262, 3, photometric), (273, 4, 8)]
        tags += [(277, 3, 1), (278, 4, 1), (279, 4, len(data))]
        table = struct.pack(f"{order}H", len(tags))
        for tag, kind, value in tags:
            packed = struct.pack(f"{order}HH", value, 0) if kind == 3 else struct.pack(f"{order}I", value)
            table += struct.pack(f"{order}HHI", tag, kind, 1) + packed
        file = code + struct.pack(f"{order}I", 8 + len(data)) + data + table + bytes(4)

        assert load_image(file)[0, :, 0].tolist() == expected


def test_16_bit_colours() -> None:
    values = np.array([[[0, 32896, 65535]]], ">u2")
    rows = b"\0" + values.tobytes()

    image = load_image(make_png(width=1, height=1, depth=16, kind=2, rows=rows))

    assert image.tolist() == [[[0, 128, 255]]]
    assert load_image(values.astype(np.uint16)).tolist() == [[[0, 128, 255]]]


def make_png(width: int, height: int, depth: int, kind: int, rows: bytes) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[0.0, 0.5, 1.0]], [0, 128, 255]),
        ([[-10.0, 0.0, 30.0]], [0, 64, 255]),
        ([[np.nan, 0.5, np.inf]], [0, 128, 255]),
    ],
)
def test_float_tiff(values: list[list[float]], expected: list[int]) -> None:
    file = encode(Image.fromarray(np.array(values, np.float32)), "TIFF")

    assert load_image(file)[0, :, 0].tolist() == expected


def test_32_bit_tiff() -> None:
    small, wide = np.array([[0, 32896, 65535]], np.int32), np.array([[-1000, 0, 1000]], np.int32)

    assert load_image(encode(Image.fromarray(small), "TIFF"))[0, :, 0].tolist() == [0, 128, 255]
    assert load_image(encode(Image.fromarray(wide), "TIFF"))[0, :, 0].tolist() == [0, 128, 255]


def test_alpha_is_shown_on_white() -> None:
    picture = Image.new("RGBA", (3, 1))
    picture.putdata([(200, 0, 0, 255), (200, 0, 0, 0), (0, 0, 0, 128)])
    expected = [[200, 0, 0], [255, 255, 255], [127, 127, 127]]

    assert load_image(encode(picture, "PNG"))[0].tolist() == expected
    assert load_image(encode(picture, "WEBP", lossless=True, exact=True))[0].tolist() == expected
    assert load_image(np.asarray(picture))[0].tolist() == expected
    assert load_image(Image.new("LA", (1, 1), (0, 128)))[0].tolist() == [[127, 127, 127]]
    premultiplied = Image.new("RGBA", (1, 1), (255, 0, 0, 128)).convert("RGBa")
    assert load_image(premultiplied)[0].tolist() == [[255, 127, 127]]


def test_transparent_palette_and_colour_keys_are_white() -> None:
    palette = four_colours().quantize(8)
    key = palette.getpixel((0, 0))

    assert corners(load_image(encode(palette, "PNG", transparency=key))) == [(255, 255, 255), *COLOURS[1:]]
    assert corners(load_image(encode(palette, "GIF", transparency=key))) == [(255, 255, 255), *COLOURS[1:]]
    assert corners(load_image(encode(four_colours(), "PNG", transparency=COLOURS[2])))[2] == (255, 255, 255)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_animated_pictures_the_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in COLOURS[:3]]
    more = {"lossless": True} if kind == "WEBP" else {}

    assert (
        corners(load_image(encode(frames[0], kind, save_all=True, append_images=frames[1:], **more)))
        == [COLOURS[0]] * 4
    )


def test_one_pixel() -> None:
    assert load_image(encode(Image.new("RGB", (1, 1), (1, 2, 3)), "PNG")).tolist() == [[[1, 2, 3]]]
    assert load_image(np.zeros((1, 1), bool)).tolist() == [[[0, 0, 0]]]


def test_an_embedded_profile_becomes_srgb() -> None:
    lab = ImageCms.createProfile("LAB")
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = Image.new("LAB", (4, 4), (136, 208, 195))  # about (255, 0, 0)
    expected = ImageCms.profileToProfile(picture, lab, ImageCms.createProfile("sRGB"), outputMode="RGB")

    assert corners(load_image(picture))[0] == expected.getpixel((0, 0))
    assert corners(load_image(encode(four_colours(), "PNG", icc_profile=srgb))) == list(COLOURS)
    assert corners(load_image(encode(four_colours(), "PNG", icc_profile=b"nonsense"))) == list(COLOURS)


def make_profile(gamma: float) -> bytes:
    """The smallest display profile: the primaries of sRGB (for a D50 white), a plain power for a curve."""

    def s15(*values: float) -> bytes:
        return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(value * 65536)) for value in values)

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
    name = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"test\0" + bytes(78) + b"\0"
    tags = [(b"desc", name), (b"wtpt", s15(0.9642, 1.0, 0.8249))]
    tags += [(b"rXYZ", s15(0.43607, 0.22249, 0.01392)), (b"gXYZ", s15(0.38515, 0.71687, 0.09708))]
    tags += [(b"bXYZ", s15(0.14307, 0.06061, 0.7141)), (b"rTRC", curve), (b"gTRC", curve), (b"bTRC", curve)]
    place, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for tag, data in tags:
        padded = data + bytes(-len(data) % 4)
        table += tag + struct.pack(">II", place + len(body), len(data))
        body += padded
    head = struct.pack(">I4sI4s4s4s12x4s", place + len(body), b"lcms", 0x02100000, b"mntr", b"RGB ", b"XYZ ", b"acsp")
    head = head + bytes(68 - len(head)) + s15(0.9642, 1.0, 0.8249)[8:] + bytes(48)
    return head + struct.pack(">I", len(tags)) + table + body


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_another_gamma_is_seen_as_such(mode: str) -> None:
    """A level of 128 under gamma 1.0 is half the light, which sRGB writes as 188."""
    picture = Image.new("RGB", (4, 4), (128, 128, 128)).convert(mode)

    image = load_image(encode(picture, "PNG", icc_profile=make_profile(1.0)))

    assert abs(int(image[0, 0, 1]) - 188) <= 1


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[True, False]]), [[[255] * 3, [0] * 3]]),
        (np.array([[[7], [9]]], np.uint8), [[[7] * 3, [9] * 3]]),
        (np.array([[[0.0, 0.5, 1.0]]]), [[[0, 128, 255]]]),
        (np.array([[[0.0, 0.5, 1.0]]], np.float16), [[[0, 128, 255]]]),
        (np.array([[0, 255]], np.int64), [[[0] * 3, [255] * 3]]),
    ],
)
def test_arrays(array: Any, expected: list[list[list[int]]]) -> None:
    assert load_image(array).tolist() == expected


def test_a_picture_already_is_handed_back_as_it_is() -> None:
    array = np.zeros((2, 3, 3), np.uint8)

    assert load_image(array) is array


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros((0, 4, 3), np.uint8), r"empty array of shape \(0, 4, 3\)"),
        (np.zeros((3, 40, 50), np.uint8), r"transpose\(1, 2, 0\)"),
        (np.zeros((4, 4, 2), np.uint8), r"shape \(4, 4, 2\)"),
        (np.zeros(9, np.uint8), r"shape \(9,\)"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"shape \(2, 4, 4, 3\)"),
        (np.full((2, 2), 200.0), "divide by 255"),
        (np.full((2, 2), -1), "from -1 to -1"),
        (np.full((2, 2), 1j), "complex128"),
        (np.array([["a"]]), "expected uint8"),
        (np.array([[None]]), "object"),
    ],
)
def test_arrays_that_are_no_pictures(array: Any, told: str) -> None:
    with pytest.raises(ImageError, match=told):
        load_image(array)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "empty"),
        (b"hello, this is text", "not an image"),
        (b"%PDF-1.4 ...", "load_pages"),
        (b"\0\0\0\x18ftypisom" + bytes(40), "visual_tools.video"),
        (b"\x1aE\xdf\xa3" + bytes(40), "visual_tools.video"),
        (b"<?xml version='1.0'?><svg></svg>", "SVG"),
        (b"\x89PNG\r\n\x1a\n", "not an image that can be read"),
        (make_png(0, 5, 8, 2, b""), "expected"),
        (b"DDS " + struct.pack("<I", 124) + bytes(120), "not an image that can be read"),
        (encode(four_colours(64, 64), "PNG")[:-60], "damaged"),
        (encode(four_colours(200, 200), "JPEG")[:700], "damaged"),
    ],
)
def test_bytes_that_are_no_pictures(data: bytes, told: str) -> None:
    with pytest.raises(ImageError, match=told):
        load_image(data)


def test_paths_that_are_no_pictures(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"x")
    (tmp_path / "empty.png").touch()
    for path, told in [
        (tmp_path / "dog.png", "cat.png"),
        (tmp_path / "nowhere" / "dog.png", "does not exist"),
        (tmp_path, "cannot be read"),
        (tmp_path / "clip.mp4", "visual_tools.video"),
        (tmp_path / "empty.png", "empty"),
        (tmp_path / "nul\0.png", "cannot be read"),
    ]:
        with pytest.raises(ImageError, match=told):
            load_image(path)
    wrong: Any = 3
    with pytest.raises(ImageError, match="found int"):
        load_image(wrong)
    with pytest.raises(ImageError, match="0x3"):
        load_image(Image.new("RGB", (0, 3)))


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    bomb = make_png(60_000, 60_000, 1, 0, b"")

    with pytest.raises(ImageError, match=r"60000x60000 = 3600 megapixels.*max_pixels=3600000000"):
        load_image(bomb)
    assert Image.MAX_IMAGE_PIXELS is not None
    with pytest.raises(ImageError, match=r"at most 0\.0001"):
        load_image(np.zeros((20, 20, 3), np.uint8), max_pixels=100)


@pytest.mark.slow
def test_100_megapixels() -> None:
    picture = Image.new("L", (10_000, 10_000), 255)
    picture.putpixel((9_999, 9_999), 7)
    data = encode(picture, "PNG", compress_level=1)
    del picture

    image = load_image(data)

    assert image.shape == (10_000, 10_000, 3)
    assert image[-1, -1].tolist() == [7, 7, 7] and int(image[::100, ::100].min()) == 255


KINDS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
FILES = {kind: encode(four_colours(24, 20), kind) for kind in KINDS}


@settings(max_examples=300)
@given(
    kind=st.sampled_from(KINDS),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6),
    kept=st.floats(0, 1),
)
def test_damage_gives_a_picture_or_a_clear_error(kind: str, changes: list[tuple[float, int]], kept: float) -> None:
    data = bytearray(FILES[kind])
    for place, value in changes:
        data[int(place * (len(data) - 1))] = value
    if kept < 0.5:
        data = data[: int(len(data) * 2 * kept)]
    try:
        image = load_image(bytes(data), max_pixels=1_000_000)
    except ImageError as error:
        assert "expected" in str(error)
        return
    assert image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8


def test_pillow_pictures_that_were_read_are_left_open() -> None:
    picture = Image.open(io.BytesIO(encode(four_colours(), "PNG")))

    assert np.array_equal(load_image(picture), load_image(picture))
