"""Program that renders pages of a PDF file as JPEG images; separate because a hostile file may crash or stall PDFium.

    python pdf_pages.py FILE FIRST_PAGE NUM_PAGES

It writes lines of JSON: `{"num_pages": 12}`, then for each page `{"number": 3, "jpeg": "...base64..."}`; or
`{"error": "password"}`, `{"error": "damaged"}`.
"""

import base64
import io
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_WIDTH_PX = 1000
_MAX_SCALE = 2.0
"""Maximum pixels per point of 1/72 inch: a small ticket is not enlarged to the width of a letter."""
_MAX_PAGE_PX = 8_000_000  # bounds memory, and keeps a huge page readable at the usual width
_MAX_MEMORY_BYTES = 2 * 2**30  # of the process that renders a PDF from a site
_QUALITY = 85  # JPEG: text stays readable at a fraction of PNG's size


def main() -> None:
    """Write the requested pages to standard output."""
    path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _limit_memory()
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
        num_pages = len(document)
    except pypdfium2.PdfiumError as error:
        _write({"error": "password" if "password" in str(error).lower() else "damaged"})
        return
    if num_pages == 0:
        _write({"error": "damaged"})
        return
    document.init_forms()
    _write({"num_pages": num_pages})
    first = min(first, num_pages)
    for number in range(first, min(first + count, num_pages + 1)):
        try:
            _write({"number": number, "jpeg": _render(document[number - 1])})
        except (pypdfium2.PdfiumError, ValueError, MemoryError):
            _write({"number": number, "jpeg": ""})


def _render(page: "PdfPage") -> str:
    width, height = page.get_size()
    scale = min(_WIDTH_PX / width, _MAX_SCALE, (_MAX_PAGE_PX / (width * height)) ** 0.5)
    buffer = io.BytesIO()
    page.render(scale=scale).to_pil().convert("RGB").save(buffer, "JPEG", quality=_QUALITY)
    return base64.b64encode(buffer.getvalue()).decode()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))


def _write(line: Mapping[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
