"""Pages of PDF files: rendering, contact sheets, texts and bookmarks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL.Image import Image

from apps.office.safe_xml import FilePath, OfficeError
from envs.errors import require

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

DPI = 70  # more is easier to read and costs image tokens
MAX_PAGES = 400  # bounds time and disk of one rendering
_EMPTY_INK = 0.0004  # share of dark pixels; higher also calls pages with faint drawings empty
_WHITE = 250  # of 255: lighter pixels count as paper, so compression noise is not ink


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """Page of a rendering.

    Attributes:
        number: Number from 1.
        text: Text of the page.
        ink: Share of its pixels that are not white.
        image: A `PIL.Image`.
    """

    number: int
    text: str
    ink: float
    image: Image

    @property
    def is_empty(self) -> bool:
        """True if it has neither text nor visible ink."""
        return self.ink < _EMPTY_INK and not self.text.strip()


def read_pages(pdf: FilePath, *, dpi: int = DPI, max_pages: int = MAX_PAGES) -> list[RenderedPage]:
    """Render the pages of a PDF file.

    Args:
        pdf: Path of the file.
        dpi: Pixels per inch.
        max_pages: Maximum number of pages.

    Raises:
        OfficeError: If it is encrypted or damaged.
    """
    document = open_pdf(pdf)
    try:
        return [_read_page(document, number, dpi) for number in range(min(len(document), max_pages))]
    finally:
        document.close()


def read_bookmarks(pdf: FilePath) -> list[tuple[int, str, int]]:
    """Return level (0 for the outermost), title and page (from 1) of each bookmark of a PDF file that leads to a page.

    Raises:
        OfficeError: If it is encrypted or damaged.
    """
    document, bookmarks = open_pdf(pdf), []
    try:
        for mark in document.get_toc():
            target = mark.get_dest()
            index = target.get_index() if target is not None else None
            if index is not None:
                bookmarks.append((int(mark.level), str(mark.get_title()), index + 1))
    finally:
        document.close()
    return bookmarks


def open_pdf(pdf: FilePath) -> "PdfDocument":
    """Open a PDF file with pypdfium2.

    Raises:
        OfficeError: If it is encrypted or damaged.
    """
    pdf = Path(pdf)
    pdfium = require("pypdfium2", "office")
    try:
        return pdfium.PdfDocument(str(pdf))
    except pdfium.PdfiumError as error:
        reason = "is encrypted with a password; save it without" if "assword" in str(error) else f"is damaged: {error}"
        raise OfficeError(f"{pdf.name} {reason}") from error


def contact_sheet(images: Sequence[Image], *, columns: int = 4, width_px: int = 320, max_images: int = 40) -> Image:
    """Arrange many pages on one image, in reading order, with their numbers."""
    pil, draw_module = require("PIL.Image", "office"), require("PIL.ImageDraw", "office")
    shown = list(images[:max_images])
    columns = min(columns, max(1, len(shown)))
    small = [image.resize((width_px, max(1, round(image.height * width_px / image.width)))) for image in shown]
    height = max((thumbnail.height for thumbnail in small), default=1) + 22
    rows = -(-len(small) // columns) or 1
    sheet: Image = pil.new("RGB", (columns * (width_px + 8) + 8, rows * height + 8), "#808080")
    draw = draw_module.Draw(sheet)
    for at, thumbnail in enumerate(small):
        x, y = 8 + at % columns * (width_px + 8), 8 + at // columns * height
        sheet.paste(thumbnail, (x, y))
        draw.text((x + 2, y + thumbnail.height + 3), f"{at + 1}", fill="white")
    return sheet


def ink_of(image: Image) -> float:
    """Return the share of an image's pixels that are not white."""
    histogram = image.convert("L").histogram()
    return float(1 - sum(histogram[_WHITE:]) / max(1, sum(histogram)))


def _read_page(document: "PdfDocument", number: int, dpi: int) -> RenderedPage:
    page = document[number]
    try:
        text_page = page.get_textpage()
        text = text_page.get_text_bounded()
        text_page.close()
        image = page.render(scale=dpi / 72).to_pil().convert("RGB")
    finally:
        page.close()
    return RenderedPage(number=number + 1, text=text, ink=ink_of(image), image=image)
