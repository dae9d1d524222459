from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from visual_tools.box import Box
from visual_tools.errors import ImageError
from visual_tools.images.views import rotate
from visual_tools.search.codes import read_codes

zxingcpp = pytest.importorskip("zxingcpp")


def draw_code(text: str, kind: str, scale: int = 3, quiet: bool = True) -> NDArray[np.uint8]:
    code = zxingcpp.create_barcode(text, getattr(zxingcpp.BarcodeFormat, kind))
    return np.array(zxingcpp.write_barcode_to_image(code, scale=scale, add_quiet_zones=quiet))


def place(*codes: tuple[int, int, NDArray[np.uint8]], size: tuple[int, int] = (800, 400)) -> NDArray[np.uint8]:
    picture = np.full((size[1], size[0]), 255, np.uint8)
    for left, top, code in codes:
        picture[top : top + code.shape[0], left : left + code.shape[1]] = code
    return picture


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("QRCode", "https://example.org/a?b=1", "QR Code"),
        ("DataMatrix", "Lot 4711", "Data Matrix"),
        ("Aztec", "ticket 12", "Aztec"),
        ("PDF417", "boarding pass", "PDF417"),
        ("EAN13", "4006381333931", "EAN-13"),
        ("Code128", "SSCC-00123", "Code 128"),
        ("Code39", "PART 7", "Code 39"),
    ],
)
def test_kinds(kind: str, text: str, name: str) -> None:
    code = draw_code(text, kind)

    found = read_codes(place((200, 100, code)))

    assert [one.text for one in found] == [text]
    assert name in found[0].format
    assert Box(200, 100, 200 + code.shape[1], 100 + code.shape[0]).contains(found[0].box)
    assert found[0].box.width > 0.6 * code.shape[1]


def test_several_codes_from_top_to_bottom_with_their_places() -> None:
    first, second = draw_code("first", "QRCode", quiet=False), draw_code("second", "QRCode", quiet=False)

    found = read_codes(place((300, 60, first), (40, 200, second)))

    assert [(code.text, code.box) for code in found] == [
        ("first", Box(300, 60, 363, 123)),
        ("second", Box(40, 200, 103, 263)),
    ]
    assert found[0].corners_px == ((300, 60), (363, 60), (363, 123), (300, 123))
    assert found[0].data == b"first"


@pytest.mark.parametrize("degrees", [15, 90, 180, 245])
def test_turned_codes(degrees: float) -> None:
    found = read_codes(rotate(place((150, 100, draw_code("turned", "QRCode", 5))), degrees))

    assert [code.text for code in found] == ["turned"]


@pytest.mark.parametrize("kind", ["QRCode", "DataMatrix"])
@pytest.mark.parametrize("change", ["inverted", "tight", "tiny", "colour", "noisy"])
def test_hard_cases(kind: str, change: str) -> None:
    small = draw_code("hard case", kind, 1 if change == "tiny" else 4, quiet=change != "tight")
    image: NDArray[Any] = small if change == "tight" else place((100, 100, small), size=(400, 400))
    if change == "inverted":
        image = 255 - image
    elif change == "colour":
        image = np.where(image[:, :, None] > 128, (250, 240, 200), (20, 60, 120)).astype(np.uint8)
    elif change == "noisy":
        image = np.clip(image + np.random.default_rng(0).normal(0, 40, image.shape), 0, 255).astype(np.uint8)

    found = read_codes(image)

    assert [code.text for code in found] == ["hard case"]
    if change == "tiny":
        assert Box(98, 98, 130, 130).contains(found[0].box)


def test_bytes_that_are_no_text_are_kept() -> None:
    data = bytes(range(256))
    code = zxingcpp.create_barcode(data, zxingcpp.BarcodeFormat.QRCode)
    image = np.array(zxingcpp.write_barcode_to_image(code, scale=3))

    assert read_codes(image)[0].data == data


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (300, 300)])
def test_no_code_is_an_empty_result(shape: tuple[int, int]) -> None:
    assert len(read_codes(np.full((*shape, 3), 200, np.uint8))) == 0


def test_what_is_no_picture() -> None:
    with pytest.raises(ImageError, match="empty"):
        read_codes(np.zeros((0, 0, 3), np.uint8))


def test_pillow_pictures_are_taken() -> None:
    assert read_codes(Image.fromarray(draw_code("pillow", "QRCode")))[0].text == "pillow"
