import io

import pytest
from PIL import Image

from cua.errors import ConfigError, ModelError
from cua.messages import ImagePart
from cua.models.wire import ImageEncoder, ImageFormat, encode_image
from tests.cua.models.clients import png


@pytest.mark.parametrize(
    ("text", "parsed", "shown"),
    [
        ("png", ImageFormat(kind="png"), "png"),
        (" WebP ", ImageFormat(kind="webp", quality=75), "webp:75"),
        ("webp:1", ImageFormat(kind="webp", quality=1), "webp:1"),
        ("jpg:100", ImageFormat(kind="jpeg", quality=100), "jpeg:100"),
    ],
)
def test_parse(text: str, parsed: ImageFormat, shown: str) -> None:
    assert ImageFormat.parse(text) == parsed
    assert str(parsed) == shown


@pytest.mark.parametrize("text", ["webp:0", "webp:101", "webp:x", "webp:-5", "webp:7.5", "png:50", "webp:٣"])
def test_bad_quality(text: str) -> None:
    with pytest.raises(ConfigError, match="expected png, or webp/jpeg with a quality from 1 to 100"):
        ImageFormat.parse(text)


def test_unknown_format_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        ImageFormat.parse("wepb")
    assert str(caught.value) == (
        "unknown image format 'wepb'. Did you mean 'webp'? Known: jpeg, jpg, png, webp. Example: webp:75"
    )


def test_png_and_the_same_encoding_pass_untouched() -> None:
    part = ImagePart(data=b"not even an image", media_type="image/png")
    assert encode_image(part, ImageFormat(kind="png")) is part
    webp = ImagePart(data=b"x", media_type="image/webp")
    assert encode_image(webp, ImageFormat.parse("webp:10")) is webp
    assert encode_image(webp, ImageFormat(kind="png")) is webp


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "LA", "1"])
@pytest.mark.parametrize("kind", ["webp:90", "jpeg:90"])
def test_every_mode_of_png_can_be_encoded(mode: str, kind: str) -> None:
    out = io.BytesIO()
    Image.new("RGBA", (33, 17), (0, 0, 0, 255)).convert(mode).save(out, format="png")
    encoded = encode_image(ImagePart(data=out.getvalue()), ImageFormat.parse(kind))
    with Image.open(io.BytesIO(encoded.data)) as image:
        assert (image.size, image.mode) == ((33, 17), "RGB")
        pixel = image.getpixel((16, 8))
    assert isinstance(pixel, tuple)
    assert max(pixel) < 12


def test_transparency_becomes_white() -> None:
    out = io.BytesIO()
    Image.new("RGBA", (16, 16), (0, 0, 0, 0)).save(out, format="png")
    encoded = encode_image(ImagePart(data=out.getvalue()), ImageFormat.parse("jpeg:95"))
    with Image.open(io.BytesIO(encoded.data)) as image:
        assert image.getpixel((8, 8)) == (255, 255, 255)


def test_picture_too_wide_for_webp() -> None:
    with pytest.raises(ModelError, match="cannot be sent as webp:75"):
        encode_image(ImagePart(data=png((16400, 4))), ImageFormat.parse("webp"))


async def test_each_picture_is_encoded_once() -> None:
    encoder = ImageEncoder(ImageFormat.parse("webp"), max_remembered=2)
    first, same, second, third = (ImagePart(data=png(colour=colour)) for colour in ("red", "red", "green", "blue"))
    url = await encoder.data_url(first)
    assert await encoder.data_url(same) is url
    await encoder.data_url(second)
    assert await encoder.data_url(first) is url, "use keeps it"
    await encoder.data_url(third)
    assert await encoder.data_url(first) is url
    assert url.startswith("data:image/webp;base64,")
