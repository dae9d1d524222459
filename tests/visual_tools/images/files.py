"""Image files of many kinds, made in memory."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

COLOURS = ((255, 0, 0), (0, 200, 0), (0, 0, 250), (90, 90, 90))


def four_colours(width: int = 8, height: int = 6) -> Image.Image:
    """Quarters of `COLOURS`: left top, right top, left bottom, right bottom."""
    picture = Image.new("RGB", (width, height))
    for index, colour in enumerate(COLOURS):
        left, top = index % 2 * width // 2, index // 2 * height // 2
        picture.paste(colour, (left, top, left + width // 2, top + height // 2))
    return picture


def encode(picture: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def corners(image: NDArray[np.uint8]) -> list[tuple[int, ...]]:
    """Colours of the corner pixels, in the order of `COLOURS`."""
    return [tuple(map(int, image[y, x])) for y in (0, -1) for x in (0, -1)]


def make_pdf(*texts: str, size_points: tuple[int, int] = (200, 100), extra: str = "") -> bytes:
    """A PDF of one page for each text, written at the left, in the middle."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(len(texts)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for index, text in enumerate(texts):
        stream = f"BT /F1 24 Tf 20 40 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size_points[0]} {size_points[1]}] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * index} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    body, places = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    return (
        f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R {extra} >>\nstartxref\n{len(body)}\n%%EOF\n"
    ).encode("latin-1")
