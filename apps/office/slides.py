"""Slides of python-pptx: layouts by name, undistorted images within their frame, texts that fit."""

from pathlib import Path
from typing import Any

from apps.office.corrections import tidy
from apps.office.libraries import PptxShape, PptxSlide, Presentation
from apps.office.safe_xml import FilePath, OfficeError
from cua.errors import name_choices
from envs.errors import require

_MIN_PT = 12  # smallest size that text is shrunk to
_LINE = 1.25  # line height as a share of the font size; too small lets text overflow
_WIDTH_OF_LETTER = 0.52
"""Average width of a letter as a share of the font size, measured on Liberation Sans with English prose."""


def new_slide(presentation: Presentation, layout: str, title: str, notes: str = "") -> Any:
    """Add a slide with a layout of the master, by the layout's name, with title and notes.

    Raises:
        OfficeError: If there is no such layout.
    """
    layouts = {candidate.name: candidate for candidate in presentation.slide_layouts}
    if layout not in layouts:
        raise OfficeError(f"the presentation has no layout {layout!r}.{name_choices(layout, layouts)}")
    slide = presentation.slides.add_slide(layouts[layout])
    if slide.shapes.title is not None:
        slide.shapes.title.text_frame.text = title
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
    return slide


def place_image(slide: PptxSlide, image: FilePath, frame: object = None, *, description: str = "") -> Any:
    """Place an image in a frame, centred and as large as fits without distortion.

    Args:
        slide: Slide of python-pptx.
        image: Image file.
        frame: Placeholder, which is removed, or a box (left, top, width, height) in EMU; None: below the title.
        description: Alternative text.
    """
    left, top, width, height = _box(slide, frame)
    placed = slide.shapes.add_picture(str(image), left, top)
    scale = min(width / placed.width, height / placed.height)
    placed.width, placed.height = int(placed.width * scale), int(placed.height * scale)
    placed.left, placed.top = left + (width - placed.width) // 2, top + (height - placed.height) // 2
    if description:
        placed._element.nvPicPr.cNvPr.set("descr", description)
    return placed


def fit_text(shape: PptxShape, *, max_pt: int = 28) -> int:
    """Set the largest font size at which the text of a frame fits, and return it in points.

    Raises:
        OfficeError: If the text is too long at any readable size.
    """
    pt = require("pptx.util", "office").Pt
    width = (shape.width - pt(15)) / pt(1)
    height = (shape.height - pt(8)) / pt(1)
    texts = [paragraph.text for paragraph in shape.text_frame.paragraphs]
    for size in range(max_pt, _MIN_PT - 1, -1):
        per_line = max(1, int(width / (size * _WIDTH_OF_LETTER)))
        lines = sum(max(1, -(-len(text) // per_line)) for text in texts)
        if lines * size * _LINE + len(texts) * size * 0.25 <= height:
            for paragraph in shape.text_frame.paragraphs:
                for run in paragraph.runs:
                    run.font.size = pt(size)
            return size
    raise OfficeError(
        f"the text of {shape.name!r} has {sum(map(len, texts))} characters and does not fit even at {_MIN_PT} pt; "
        "shorten it or make two slides"
    )


def fill_body(slide: PptxSlide, lines: list[str], *, max_pt: int = 28) -> Any:
    """Write lines into the largest empty text placeholder at a size that fits, and return the placeholder.

    Raises:
        OfficeError: If the slide has none, or the text is too long.
    """
    empty = [
        placeholder
        for placeholder in slide.placeholders
        if placeholder.has_text_frame and placeholder != slide.shapes.title and not placeholder.text_frame.text.strip()
    ]
    if not empty:
        raise OfficeError("the slide has no empty text placeholder; choose another layout")
    body = max(empty, key=lambda placeholder: placeholder.width * placeholder.height)
    body.text_frame.text = lines[0] if lines else ""
    for line in lines[1:]:
        body.text_frame.add_paragraph().text = line
    fit_text(body, max_pt=max_pt)
    return body


def save_presentation(presentation: Presentation, path: FilePath) -> Path:
    """Save a presentation of python-pptx so that it matches the schema."""
    presentation.save(str(path))
    return tidy(path)


def _box(slide: PptxSlide, frame: Any) -> tuple[int, int, int, int]:
    if isinstance(frame, tuple):
        left, top, width, height = frame
        return left, top, width, height
    if frame is not None:
        box = frame.left, frame.top, frame.width, frame.height
        frame._element.getparent().remove(frame._element)
        return box
    presentation = slide.part.package.presentation_part.presentation
    title = slide.shapes.title
    top = title.top + title.height if title is not None else presentation.slide_height // 12
    margin = presentation.slide_width // 16
    return (
        margin,
        top + margin // 4,
        presentation.slide_width - 2 * margin,
        presentation.slide_height - top - margin,
    )
