"""Checks of pptx files: contents within slide and frame, images undistorted, placeholders filled."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from apps.office.check.document import count_words
from apps.office.check.findings import CheckReport, RenderedFile
from apps.office.check.references import find_dangling
from apps.office.libraries import PptxShape, PptxSlide, Presentation
from apps.office.safe_xml import OfficeError, open_with
from envs.errors import require

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_EMU_PER_PT = 12_700
_TOLERANCE_PT = 4.0  # smaller reports differences of renderers, larger misses small overflows
_MAX_STRETCH = 0.03  # smaller reports rounded sizes, larger misses visible distortion
_MIN_PT = 9.0  # smaller text is reported as unreadable


def check_slides(rendered: RenderedFile, report: CheckReport) -> None:
    """Count the contents of a presentation and check it for errors."""
    pptx = require("pptx", "office")
    try:
        presentation = open_with("python-pptx", rendered.path, lambda: pptx.Presentation(str(rendered.path)))
    except OfficeError as error:
        report.add("error", "unreadable", str(error))
        return
    report.opened_by.append("python-pptx")
    slides = list(presentation.slides)
    shapes = [list(_all_shapes(slide.shapes)) for slide in slides]
    report.facts |= {
        "slides": len(slides),
        "words": sum(count_words(shape.text_frame.text) for group in shapes for shape in group if shape.has_text_frame),
        "figures": sum(_is_image(shape) for group in shapes for shape in group),
        "charts": sum(bool(getattr(shape, "has_chart", False)) for group in shapes for shape in group),
        "tables": sum(bool(getattr(shape, "has_table", False)) for group in shapes for shape in group),
        "notes": sum(
            bool(slide.has_notes_slide and slide.notes_slide.notes_text_frame.text.strip()) for slide in slides
        ),
        "links": sum(1 for group in shapes for shape in group for _ in _links(shape)),
    }
    shown = [number for number, slide in enumerate(slides, 1) if slide._element.get("show") != "0"]
    empty = {number for number, group in enumerate(shapes, 1) if not group}
    if not slides:
        report.add("error", "no-pages", "it has no slides; add one")
    elif rendered.pages and len(rendered.pages) != len(shown):
        report.add("error", "slide-count", f"{len(slides)} slides are rendered as {len(rendered.pages)} pages")
    else:
        empty |= {number for number, page in zip(shown, rendered.pages, strict=False) if page.is_empty}
    for number, (slide, group) in enumerate(zip(slides, shapes, strict=True), 1):
        if number in empty:
            report.add("error", "empty-page", f"slide {number} is empty", f"slide {number}")
        _check_slide(presentation, slide, group, number, report)
    texts = ["\n".join(_texts(group)) for group in shapes]
    for reference in find_dangling(texts, [line for page in rendered.pages for line in page.text.splitlines()]):
        place = f"slide {reference.at + 1}"
        report.add("error", "missing-target", reference.describe(), place)
    if rendered.pdf is not None and len(rendered.pages) == len(slides):
        _check_text(rendered, shapes, report)


def _texts(shapes: list[PptxShape]) -> Iterator[str]:
    return (shape.text_frame.text.replace("\v", "\n") for shape in shapes if shape.has_text_frame)


def _all_shapes(shapes: Any) -> Iterator[PptxShape]:
    """Yield the shapes of a slide; only texts of grouped shapes count, since groups have their own coordinates."""
    for shape in shapes:
        if shape.shape_type == 6:
            yield from _all_shapes(shape.shapes)
        else:
            yield shape


def _is_image(shape: PptxShape) -> bool:
    return shape.shape_type == 13 or (hasattr(shape, "image") and shape.is_placeholder)


def _links(shape: PptxShape) -> Iterator[str]:
    if not shape.has_text_frame:
        return
    for paragraph in shape.text_frame.paragraphs:
        for run in paragraph.runs:
            if run.hyperlink.address:
                yield run.hyperlink.address


def _check_slide(
    presentation: Presentation, slide: PptxSlide, shapes: list[PptxShape], number: int, report: CheckReport
) -> None:
    place = f"slide {number}"
    width, height = presentation.slide_width, presentation.slide_height
    for shape in slide.shapes:
        if shape.left is None or shape.width is None:
            continue
        right, bottom = shape.left + shape.width, shape.top + shape.height
        slack = _TOLERANCE_PT * _EMU_PER_PT
        if shape.left < -slack or shape.top < -slack or right > width + slack or bottom > height + slack:
            report.add("error", "shape-overflow", f"{shape.name!r} on {place} reaches beyond the slide", place)
    for shape in shapes:
        is_empty = shape.is_placeholder and shape.has_text_frame and not shape.text_frame.text.strip()
        if is_empty and shape.placeholder_format.type not in (13, 15, 16):  # number, footer, date
            report.add("warning", "empty-placeholder", f"{shape.name!r} on {place} is empty", place)
        if shape.shape_type == 13:
            _check_image(shape, place, report)
        _check_sizes(shape, place, report)
    _check_overlaps(slide, place, report)
    if slide.shapes.title is None or not slide.shapes.title.text_frame.text.strip():
        report.add("warning", "no-title", f"{place} has no title", place)


def _check_image(shape: PptxShape, place: str, report: CheckReport) -> None:
    try:
        width_px, height_px = shape.image.size
    except (ValueError, KeyError, AttributeError) as error:
        report.add("error", "missing-image", f"the image {shape.name!r} on {place} cannot be read: {error}", place)
        return
    shown_px = width_px * (1 - shape.crop_left - shape.crop_right), height_px * (1 - shape.crop_top - shape.crop_bottom)
    if not all((*shown_px, shape.width, shape.height)):
        return
    stretch = (shape.width / shape.height) / (shown_px[0] / shown_px[1])
    if abs(stretch - 1) > _MAX_STRETCH:
        report.add(
            "error", "stretched-image", f"{shape.name!r} on {place} is stretched to {stretch:.0%} of its width", place
        )


def _check_sizes(shape: PptxShape, place: str, report: CheckReport) -> None:
    if not shape.has_text_frame:
        return
    sizes = [
        run.font.size.pt
        for paragraph in shape.text_frame.paragraphs
        for run in paragraph.runs
        if run.font.size is not None
    ]
    if sizes and min(sizes) < _MIN_PT:
        report.add("warning", "tiny-text", f"text of {min(sizes):g} pt in {shape.name!r} on {place}", place)


def _check_overlaps(slide: PptxSlide, place: str, report: CheckReport) -> None:
    """Report images, charts and tables that overlap texts or each other."""
    boxes = []
    for shape in slide.shapes:
        is_solid = shape.shape_type in (13, 3, 19)
        has_text = shape.has_text_frame and shape.text_frame.text.strip()
        if (is_solid or has_text) and shape.width and shape.left is not None:
            box = (shape.left, shape.top, shape.left + shape.width, shape.top + shape.height)
            boxes.append((shape.name, is_solid, box))
    for at, (name, is_solid, frame) in enumerate(boxes):
        for other_name, other_solid, other in boxes[at + 1 :]:
            wide = min(frame[2], other[2]) - max(frame[0], other[0])
            high = min(frame[3], other[3]) - max(frame[1], other[1])
            small = min((box[2] - box[0]) * (box[3] - box[1]) for box in (frame, other))
            if (is_solid or other_solid) and wide > 0 and high > 0 and wide * high > 0.1 * small:
                report.add("error", "overlap", f"{name!r} and {other_name!r} overlap on {place}", place)


def _check_text(rendered: RenderedFile, shapes: list[list[PptxShape]], report: CheckReport) -> None:
    """Compare the rendered end of each text with the frame that contains it."""
    pdfium = require("pypdfium2", "office")
    document = pdfium.PdfDocument(str(rendered.pdf))
    try:
        for number, group in enumerate(shapes, 1):
            page = document[number - 1]
            text_page, height = page.get_textpage(), page.get_height()
            for shape in group:
                low = _lowest_pt(text_page, height, shape)
                if low is None or shape.top is None:
                    continue
                bottom = (shape.top + shape.height) / _EMU_PER_PT
                limit = height if _grows(shape) else min(bottom, height)
                if low > limit + _TOLERANCE_PT:
                    place = f"slide {number}"
                    report.add(
                        "error",
                        "text-overflow",
                        f"the text of {shape.name!r} on {place} ends {low - limit:.0f} pt below its frame",
                        place,
                    )
            text_page.close()
            page.close()
    finally:
        document.close()


def _grows(shape: PptxShape) -> bool:
    """Return whether the frame resizes to fit its text, so that only the slide's edge is checked."""
    return bool(shape.text_frame.auto_size == 1)


def _lowest_pt(text_page: "PdfTextPage", height: float, shape: PptxShape) -> float | None:
    """Return the lower edge of a shape's last words in points from the top; None if they are not found on the page."""
    if not shape.has_text_frame:
        return None
    lines = [paragraph.text.strip() for paragraph in shape.text_frame.paragraphs if paragraph.text.strip()]
    if not lines:
        return None
    last = lines[-1].split()
    for count in (4, 2, 1):
        words = " ".join(last[-count:])
        searcher = text_page.search(words, match_case=True)
        places = []
        while (match := searcher.get_next()) is not None:
            places.append(match)
        searcher.close()
        if places:
            index, length = places[-1]
            boxes = [text_page.get_charbox(index + at) for at in range(length)]
            return float(height - min(box[1] for box in boxes))
    return None
