"""Differences between two files of one kind, as lines and as images of the pages side by side."""

import difflib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL.Image import Image

from apps.office.libraries import PptxSlide
from apps.office.libreoffice import find_soffice, render_pdf
from apps.office.package import find_kind, open_package
from apps.office.pages import RenderedPage, read_pages
from apps.office.safe_xml import FilePath, OfficeError, open_with
from apps.office.word.comments import read_comments
from apps.office.word.ranges import text_of, w
from apps.office.word.revisions import read_revisions
from envs.errors import require

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

MAX_LINES = 400  # bounds the text of a comparison
MAX_SHOWN_PAGES = 20  # bounds the time and size of a comparison
_GRAY_STEP = 24  # of 255: larger misses faint changes, smaller reports anti-aliasing
_CELL_PX = 12  # height of a band in which differences are joined, about one line of text
_VALUE_ARROW = " -> "


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """Single difference.

    Attributes:
        kind: `added`, `removed` or `changed`.
        where: Paragraph, cell, slide or page.
        before: Old text; "" if added.
        after: New text; "" if removed.
    """

    kind: str
    where: str
    before: str = ""
    after: str = ""

    def to_text(self) -> str:
        """Return the change as one or two lines."""
        sign = {"added": "+", "removed": "-", "changed": "~"}[self.kind]
        if self.kind == "changed":
            return f"~ {self.where}\n    - {self.before}\n    + {self.after}"
        return f"{sign} {self.where}: {self.after or self.before}"


@dataclass(slots=True, kw_only=True)
class DocumentComparison:
    """Differences between two files.

    Attributes:
        changes: Changes in order.
        images: Names of the images of pages that differ.
        pages: Number of pages of both files, if they were rendered.
        notes: Parts that were not compared.
    """

    changes: list[DocumentChange] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    pages: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Return the comparison as JSON values."""
        changes = [
            {"kind": change.kind, "where": change.where, "before": change.before, "after": change.after}
            for change in self.changes
        ]
        return {"changes": changes, "images": self.images, "pages": list(self.pages), "notes": self.notes}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "DocumentComparison":
        """Restore a comparison from the result of `to_json`."""
        return cls(
            changes=[DocumentChange(**values) for values in value["changes"]],
            images=list(value["images"]),
            pages=(value["pages"][0], value["pages"][1]),
            notes=list(value["notes"]),
        )

    def to_text(self) -> str:
        """Return the comparison as text, one line per change."""
        lines = [change.to_text() for change in self.changes[:MAX_LINES]]
        if len(self.changes) > MAX_LINES:
            lines.append(f"... and {len(self.changes) - MAX_LINES} more")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines or ["no difference in what is written"])


def compare_files(before: FilePath, after: FilePath, images: FilePath | None = None) -> DocumentComparison:
    """Compare two files of a kind. Nothing in them is run, and nothing is fetched for them.

    Args:
        before: Earlier file.
        after: Later file.
        images: Folder for images of the pages that differ; None to compare only the text without rendering.

    Raises:
        OfficeError: If a file cannot be read safely, or the kinds differ.
    """
    images = None if images is None else Path(images)
    after = Path(after)
    before = Path(before)
    kinds = find_kind(before), find_kind(after)
    if kinds[0] != kinds[1]:
        raise OfficeError(
            f"{before.name} is {kinds[0]}, {after.name} is {kinds[1]}; expected two files of the same kind"
        )
    comparison = DocumentComparison()
    if kinds[0] == "xlsx":
        comparison.changes = list(_compare_cells(before, after))
    else:
        texts = [_texts(path, kinds[0]) for path in (before, after)]
        comparison.changes = list(_compare_lines(*texts))
    if images is None:
        return comparison
    with tempfile.TemporaryDirectory(prefix="k25-diff-") as scratch:
        pages = [
            _pages(path, kinds[0], Path(scratch) / f"{n}.pdf", comparison) for n, path in enumerate((before, after))
        ]
        comparison.pages = len(pages[0]), len(pages[1])
        comparison.images = list(_draw(pages[0], pages[1], images))
    return comparison


def _texts(path: Path, kind: str) -> list[tuple[str, str]]:
    """Return the text of a file: a location and a text for each piece."""
    if kind == "docx":
        open_package(path)
        return list(
            _document_texts(open_with("python-docx", path, lambda: require("docx", "office").Document(str(path))))
        )
    if kind == "pptx":
        open_package(path)
        slides = open_with("python-pptx", path, lambda: require("pptx", "office").Presentation(str(path))).slides
        return [pair for number, slide in enumerate(slides, 1) for pair in _slide_texts(slide, number)]
    pages = read_pages(path, dpi=20)
    return [(f"page {page.number}", line.strip()) for page in pages for line in page.text.splitlines() if line.strip()]


def _document_texts(document: "DocxDocument") -> Iterator[tuple[str, str]]:
    number = 0
    for element in document.element.body.iter(w("p")):
        text = text_of(element)
        if text.strip():
            number += 1
            in_table = any(ancestor.tag == w("tbl") for ancestor in element.iterancestors())
            yield f"{'table cell' if in_table else 'paragraph'} {number}", text
    for comment in read_comments(document):
        done = ", resolved" if comment.is_resolved else ""
        yield f"comment by {comment.author}", f"on {comment.anchor!r}: {comment.text}{done}"
    for revision in read_revisions(document):
        yield f"tracked change by {revision.author}", f"{revision.kind} {revision.text!r}"


def _slide_texts(slide: PptxSlide, number: int) -> Iterator[tuple[str, str]]:
    for shape in slide.shapes:
        if shape.has_text_frame and shape.text_frame.text.strip():
            yield f"slide {number}, {shape.name}", shape.text_frame.text
        elif shape.shape_type == 13:
            yield f"slide {number}, {shape.name}", f"image of {shape.image.size[0]}x{shape.image.size[1]} px"
        elif getattr(shape, "has_chart", False):
            values = [list(series.values) for plot in shape.chart.plots for series in plot.series]
            yield f"slide {number}, {shape.name}", f"chart of {values}"
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame.text.strip():
        yield f"slide {number}, notes", slide.notes_slide.notes_text_frame.text


def _compare_lines(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> Iterator[DocumentChange]:
    matcher = difflib.SequenceMatcher(None, [line[1] for line in before], [line[1] for line in after], autojunk=False)
    for tag, low, high, new_low, new_high in matcher.get_opcodes():
        if tag == "equal":
            continue
        old, new = list(before[low:high]), list(after[new_low:new_high])
        while old and new and difflib.SequenceMatcher(None, old[0][1], new[0][1]).ratio() > 0.4:
            first, second = old.pop(0), new.pop(0)
            yield DocumentChange(kind="changed", where=second[0], before=first[1], after=second[1])
        yield from (DocumentChange(kind="removed", where=place, before=text) for place, text in old)
        yield from (DocumentChange(kind="added", where=place, after=text) for place, text in new)


def _compare_cells(before: Path, after: Path) -> Iterator[DocumentChange]:
    """Yield changed cells by location: formulas as written, and values where only these differ."""
    first, second = _cells(before), _cells(after)
    for sheet in dict.fromkeys((*first, *second)):
        if sheet not in second:
            yield DocumentChange(kind="removed", where=f"sheet {sheet}", before=f"{len(first[sheet])} cells")
            continue
        if sheet not in first:
            yield DocumentChange(kind="added", where=f"sheet {sheet}", after=f"{len(second[sheet])} cells")
        old, new = first.get(sheet, {}), second[sheet]
        for place in sorted({*old, *new}):
            text_before, text_after = old.get(place, ""), new.get(place, "")
            if text_before != text_after and not _is_same_formula(text_before, text_after):
                kind = "added" if not text_before else "removed" if not text_after else "changed"
                yield DocumentChange(kind=kind, where=f"{sheet}!{_name(place)}", before=text_before, after=text_after)


def _is_same_formula(formula: str, other: str) -> bool:
    """Return whether two cells have the same formula and one of them has no stored value."""
    texts = [text.rpartition(_VALUE_ARROW) for text in (formula, other)]
    return texts[0][0] == texts[1][0] != "" and "None" in (texts[0][2], texts[1][2])


def _cells(path: Path) -> dict[str, dict[tuple[int, int], str]]:
    openpyxl = require("openpyxl", "office")
    open_package(path)
    written = open_with("openpyxl", path, lambda: openpyxl.load_workbook(path, read_only=True))
    values = open_with("openpyxl", path, lambda: openpyxl.load_workbook(path, read_only=True, data_only=True))
    texts: dict[str, dict[tuple[int, int], str]] = {}
    for sheet in written.worksheets:
        cells = texts.setdefault(sheet.title, {})
        for either in (sheet, values[sheet.title]):
            either.reset_dimensions()  # rows end at their last cell, whatever range the file declares
        for line, shown in zip(sheet.iter_rows(), values[sheet.title].iter_rows(), strict=False):
            for cell, value in zip(line, shown, strict=False):
                if cell.value is not None:
                    is_formula = cell.data_type == "f"
                    cells[cell.row, cell.column] = (
                        f"{cell.value}{_VALUE_ARROW}{value.value}" if is_formula else str(cell.value)
                    )
    written.close()
    values.close()
    return texts


def _name(place: tuple[int, int]) -> str:
    letter = require("openpyxl.utils", "office").get_column_letter(place[1])
    return f"{letter}{place[0]}"


def _pages(path: Path, kind: str, pdf: Path, comparison: DocumentComparison) -> list[RenderedPage]:
    if kind == "pdf":
        return read_pages(path)
    if find_soffice() is None:
        comparison.notes.append("LibreOffice is not installed, so pages were not compared: cua setup office")
        return []
    return read_pages(render_pdf(path, pdf))


def _draw(before: Sequence[RenderedPage], after: Sequence[RenderedPage], folder: Path) -> Iterator[str]:
    """Write an image of each page that differs: before on the left, after on the right, changed regions framed."""
    image = require("PIL.Image", "office")
    for number in range(max(len(before), len(after))):
        pair = [pages[number].image if number < len(pages) else None for pages in (before, after)]
        boxes = _boxes(*pair) if pair[0] is not None and pair[1] is not None else None
        if boxes == []:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        present = [image for image in pair if image is not None]
        width, height = max(image.width for image in present), max(image.height for image in present)
        sheet = image.new("RGB", (2 * width + 12, height), "#808080")
        for at, page in enumerate(pair):
            if page is not None:
                sheet.paste(_framed(page, boxes or []), (at * (width + 12), 0))
        name = f"page-{number + 1:03d}.png"
        sheet.save(folder / name)
        yield name
        if number + 1 >= MAX_SHOWN_PAGES:
            return


def _boxes(image: Any, other: Any) -> list[tuple[int, int, int, int]]:
    """Return the boxes in pixels where two images differ, with adjacent cells of a row merged."""
    chops = require("PIL.ImageChops", "office")
    if image.size != other.size:
        return [(0, 0, max(image.width, other.width) - 1, max(image.height, other.height) - 1)]
    mask = chops.difference(image, other).convert("L").point(lambda value: 255 if value > _GRAY_STEP else 0)
    boxes: list[tuple[int, int, int, int]] = []
    for top in range(0, mask.height, _CELL_PX):
        band = mask.crop((0, top, mask.width, min(top + _CELL_PX, mask.height))).getbbox()
        if band is None:
            continue
        box = (band[0], top + band[1], band[2], top + band[3])
        if boxes and box[1] - boxes[-1][3] < _CELL_PX:
            last = boxes.pop()
            box = (min(last[0], box[0]), last[1], max(last[2], box[2]), box[3])
        boxes.append(box)
    return boxes


def _framed(image: Image, boxes: Sequence[tuple[int, int, int, int]]) -> object:
    draw_module = require("PIL.ImageDraw", "office")
    copy = image.copy()
    draw = draw_module.Draw(copy)
    for left, top, right, bottom in boxes:
        draw.rectangle((left - 3, top - 3, right + 3, bottom + 3), outline="#D00000", width=2)
    return copy
