from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.visual_tools.images.files import COLOURS, encode, four_colours, make_pdf
from visual_tools.errors import ImageError
from visual_tools.images.pages import load_pages


def test_pages_of_a_pdf_have_number_picture_and_text(tmp_path: Path) -> None:
    path = tmp_path / "two.pdf"
    path.write_bytes(make_pdf("Hello", "World 2"))

    document = load_pages(path, dpi=72)

    assert [(page.number, page.text.strip(), page.image.shape) for page in document] == [
        (1, "Hello", (100, 200, 3)),
        (2, "World 2", (100, 200, 3)),
    ]
    assert document.num_pages == len(document) == 2
    dark = document[0].image.min(axis=2) < 100
    columns, rows = np.flatnonzero(dark.any(axis=0)), np.flatnonzero(dark.any(axis=1))
    assert 18 <= columns[0] <= 26 and 35 <= rows[0] < rows[-1] <= 62
    assert repr(document[1]) == "Page(number=2, size=200x100, text='World 2')"
    assert len(repr(document)) < 200


def test_dpi_and_choice_of_pages() -> None:
    document = load_pages(make_pdf("a", "b", "c"), dpi=144, pages=[3, 1])

    assert [(page.number, page.image.shape) for page in document] == [(3, (200, 400, 3)), (1, (200, 400, 3))]
    assert load_pages(make_pdf("a", "b"), pages=2)[0].text.strip() == "b"
    assert [page.number for page in load_pages(make_pdf("a", "b", "c"), max_pages=2)] == [1, 2]


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_frames_of_a_picture_are_pages(kind: str) -> None:
    frames = [Image.new("RGB", (5, 4), colour) for colour in COLOURS[:3]]
    more = {"lossless": True} if kind == "WEBP" else {}
    data = encode(frames[0], kind, save_all=True, append_images=frames[1:], **more)

    document = load_pages(data)

    assert [(page.number, tuple(page.image[2, 2].tolist())) for page in document] == list(
        zip((1, 2, 3), COLOURS, strict=False)
    )
    assert [tuple(page.image[0, 0].tolist()) for page in load_pages(data, pages=[3, 1])] == [COLOURS[2], COLOURS[0]]
    assert load_pages(data, max_pages=2).num_pages == 3


def test_a_still_picture_has_one_page() -> None:
    document = load_pages(encode(four_colours(), "JPEG"))

    assert (document.num_pages, document[0].image.shape, document[0].text) == (1, (6, 8, 3), "")


ENCRYPTED = "/Encrypt << /Filter /Standard /V 1 /R 2 /O <{0}> /U <{0}> /P -4 >> /ID [<00><00>]".format("41" * 32)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"%PDF-1.4\nnothing more", "damaged PDF"),
        (make_pdf("a", extra=ENCRYPTED), "password"),
        (make_pdf("a")[:300], "damaged"),
        (b"", "empty"),
        (b"words", "not an image"),
        (make_pdf("a", size_points=(14_000, 14_000)), "lower dpi"),
    ],
)
def test_documents_that_cannot_be_read(data: bytes, told: str) -> None:
    with pytest.raises(ImageError, match=told):
        load_pages(data, dpi=150)


def test_pages_that_are_not_there() -> None:
    with pytest.raises(ImageError, match="no page 3, expected 1 to 2"):
        load_pages(make_pdf("a", "b"), pages=[1, 3])
    with pytest.raises(ImageError, match="no page 0"):
        load_pages(encode(four_colours(), "PNG"), pages=0)
    with pytest.raises(ImageError, match="max_pages=2"):
        load_pages(make_pdf("a"), pages=[1, 1, 1], max_pages=2)
    with pytest.raises(ImageError, match="dpi=0"):
        load_pages(make_pdf("a"), dpi=0)
    with pytest.raises(ImageError, match="there is no file"):
        load_pages("/no/such.pdf")
