"""Read multi-page documents: PDF, TIFF, animated images."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from visual_tools.errors import ImageError, require
from visual_tools.images.arrays import array_from_image, check_num_pixels
from visual_tools.images.files import BROKEN_FILE, MAX_PIXELS, EncodedImage, name_of, open_image, read_bytes
from visual_tools.results import ResultSequence

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_POINTS_AN_INCH = 72.0  # Source: ISO 32000, default user space
_NUM_CHARS_SHOWN = 40  # of a foreign text in an error text


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Page of a document, or frame of an animated image.

    Attributes:
        number: Number from 1.
        image: (H, W, 3) uint8 RGB.
        text: Text as stored in a PDF; "" for a scanned page and for images (`read_text` reads those).
    """

    number: int
    image: NDArray[np.uint8] = field(repr=False)
    text: str = field(repr=False, default="")

    def __repr__(self) -> str:
        height, width = self.image.shape[:2]
        start = " ".join(self.text.split())
        start = start[:_NUM_CHARS_SHOWN] + ("..." if len(start) > _NUM_CHARS_SHOWN else "")
        return f"Page(number={self.number}, size={width}x{height}, text={start!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages(ResultSequence[Page]):
    """Pages of a document; may be indexed and iterated.

    Attributes:
        pages: Pages that were read, in the requested order.
        num_pages: Number of pages of the document.
    """

    _items = "pages"
    pages: tuple[Page, ...]
    num_pages: int


def load_pages(
    path: str | os.PathLike[str] | bytes,
    *,
    dpi: float = 150,
    pages: int | Iterable[int] | None = None,
    max_pages: int = 50,
) -> Pages:
    """Load the pages of a PDF or TIFF, or the frames of an animated image, as images; a still image has one page.

    Args:
        path: Path or bytes of the file.
        dpi: Pixels per inch for rendering the pages of a PDF; other files have their own pixels.
        pages: Number or numbers of the requested pages, from 1; None is the first `max_pages`.
        max_pages: Maximum number of pages to read at once.

    Raises:
        ImageError: If the file is missing, damaged, encrypted or not a document; a page does not exist; too many pages
            or too many pixels are requested.

    Example:
        >>> document = load_pages("report.pdf", pages=[1, 2])  # doctest: +SKIP
        >>> document[0].text, document[0].image.shape          # doctest: +SKIP
    """
    data = read_bytes(path)
    wanted = [pages] if isinstance(pages, int) else None if pages is None else list(pages)
    if wanted is not None and len(wanted) > max_pages:
        raise ImageError(f"found {len(wanted)} pages asked for, expected at most max_pages={max_pages}")
    is_pdf = b"%PDF" in data[:1024]
    return _read_pdf(data, name_of(path), dpi, wanted, max_pages) if is_pdf else _read_frames(path, wanted, max_pages)


def _choose(wanted: list[int] | None, num_pages: int, max_pages: int, name: str) -> list[int]:
    if wanted is None:
        return list(range(1, min(num_pages, max_pages) + 1))
    wrong = [number for number in wanted if not 1 <= number <= num_pages]
    if wrong:
        raise ImageError(f"{name} has no page {wrong[0]}, expected 1 to {num_pages}")
    return wanted


def _read_pdf(data: bytes, name: str, dpi: float, wanted: list[int] | None, max_pages: int) -> Pages:
    pdfium = require("pypdfium2", "visual")
    if not 1 <= dpi <= 2400:
        raise ImageError(f"found dpi={dpi}, expected 1 to 2400; 72 is small, 150 is readable, 300 is fine print")
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise ImageError(f"{name} is encrypted and needs a password; save it without one and try again") from error
        raise ImageError(f"{name} is a damaged PDF ({error}), expected a whole one. Get the file again.") from error
    try:
        num_pages = len(document)
        numbers = _choose(wanted, num_pages, max_pages, name)
        try:
            return Pages(pages=tuple(_draw_page(document, n, dpi, name) for n in numbers), num_pages=num_pages)
        except pdfium.PdfiumError as error:
            raise ImageError(f"{name} has a damaged page ({error}). Ask for other pages.") from error
    finally:
        document.close()


def _draw_page(document: "PdfDocument", number: int, dpi: float, name: str) -> Page:
    page = document[number - 1]
    try:
        scale = dpi / _POINTS_AN_INCH
        width, height = (max(1, round(side * scale)) for side in page.get_size())
        if width * height > MAX_PIXELS:
            raise ImageError(
                f"page {number} of {name} has {width}x{height} pixels at dpi={dpi:g}, expected at most "
                f"{MAX_PIXELS // 10**6} megapixels. Take a lower dpi."
            )
        image = np.array(page.render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3])
        words = page.get_textpage()
        text = words.get_text_bounded().replace("\r\n", "\n")
        words.close()
        return Page(number=number, image=image, text=text)
    finally:
        page.close()


def _read_frames(source: EncodedImage, wanted: list[int] | None, max_pages: int) -> Pages:
    with open_image(source) as image:
        name = name_of(source)
        check_num_pixels(image.width, image.height, MAX_PIXELS)
        try:
            num_frames = int(getattr(image, "n_frames", 1))
            numbers = _choose(wanted, num_frames, max_pages, name)
            return Pages(pages=tuple(_read_frame(image, n) for n in numbers), num_pages=num_frames)
        except BROKEN_FILE as error:
            raise ImageError(f"{name} is damaged ({image.format}: {error}). Get the file again.") from error


def _read_frame(pillow: Image.Image, number: int) -> Page:
    if number > 1 or pillow.tell():
        pillow.seek(number - 1)
    pillow.load()
    return Page(number=number, image=array_from_image(pillow))
