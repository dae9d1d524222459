"""Differences between two files of one kind, as lines and as images of the pages side by side."""

import difflib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL.Image import Image

from apps.office.libraries import Document, Slide
from apps.office.libreoffice import find_soffice, render_pdf
from apps.office.package import find_kind, open_package
from apps.office.pages import Page, read_pages
from apps.office.safe_xml import OfficeError, open_with
from apps.office.word.comments import read_comments
from apps.office.word.ranges import text_of, w
from apps.office.word.revisions import read_revisions
from envs.errors import require

MAX_LINES = 400
MAX_SHOWN_PAGES = 20
_GRAY_STEP = 24
_CELL_PX = 12
_GIVES = " -> "


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
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
class Comparison:
    """Differences between two files.

    Attributes:
        changes: Changes in order.
        images: Names of the images of pages that differ.
        pages: Number of pages of both files, if they were rendered.
        notes: Parts that were not compared.
    """

    changes: list[Change] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    pages: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        changes = [
            {"kind": one.kind, "where": one.where, "before": one.before, "after": one.after} for one in self.changes
        ]
        return {"changes": changes, "images": self.images, "pages": list(self.pages), "notes": self.notes}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Comparison":
        """Restore a comparison from the result of `to_json`."""
        return cls(
            changes=[Change(**one) for one in value["changes"]],
            images=list(value["images"]),
            pages=(value["pages"][0], value["pages"][1]),
            notes=list(value["notes"]),
        )

    def to_text(self) -> str:
        """Return the comparison as text, one line per change."""
        lines = [one.to_text() for one in self.changes[:MAX_LINES]]
        if len(self.changes) > MAX_LINES:
            lines.append(f"... and {len(self.changes) - MAX_LINES} more")
        lines += [f"note: {one}" for one in self.notes]
        return "\n".join(lines or ["no difference in what is written"])


def compare_files(before: Path, after: Path, images: Path | None = None) -> Comparison:
    """Compare two files of a kind. Nothing in them is run, and nothing is fetched for them.

    Args:
        before: Earlier file.
        after: Later file.
        images: Folder for images of the pages that differ; None to compare only the text without rendering.

    Raises:
        OfficeError: If a file cannot be read safely, or the kinds differ.
    """
    kinds = find_kind(before), find_kind(after)
    if kinds[0] != kinds[1]:
        raise OfficeError(f"{before.name} is {kinds[0]}, {after.name} is {kinds[1]}; only files of a kind are compared")
    found = Comparison()
    if kinds[0] == "xlsx":
        found.changes = list(_compare_cells(before, after))
    else:
        texts = [_texts(path, kinds[0]) for path in (before, after)]
        found.changes = list(_compare_lines(*texts))
    if images is None:
        return found
    with tempfile.TemporaryDirectory(prefix="k25-diff-") as scratch:
        pages = [_pages(path, kinds[0], Path(scratch) / f"{n}.pdf", found) for n, path in enumerate((before, after))]
        found.pages = len(pages[0]), len(pages[1])
        found.images = list(_draw(pages[0], pages[1], images))
    return found


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
        return [one for number, slide in enumerate(slides, 1) for one in _slide_texts(slide, number)]
    pages = read_pages(path, dpi=20)
    return [(f"page {page.number}", line.strip()) for page in pages for line in page.text.splitlines() if line.strip()]


def _document_texts(document: Document) -> Iterator[tuple[str, str]]:
    number = 0
    for element in document.element.body.iter(w("p")):
        text = text_of(element)
        if text.strip():
            number += 1
            in_table = any(one.tag == w("tbl") for one in element.iterancestors())
            yield f"{'table cell' if in_table else 'paragraph'} {number}", text
    for comment in read_comments(document):
        done = ", resolved" if comment.is_resolved else ""
        yield f"comment by {comment.author}", f"on {comment.anchor!r}: {comment.text}{done}"
    for one in read_revisions(document):
        yield f"tracked change by {one.author}", f"{one.kind} {one.text!r}"


def _slide_texts(slide: Slide, number: int) -> Iterator[tuple[str, str]]:
    for shape in slide.shapes:
        if shape.has_text_frame and shape.text_frame.text.strip():
            yield f"slide {number}, {shape.name}", shape.text_frame.text
        elif shape.shape_type == 13:
            yield f"slide {number}, {shape.name}", f"image of {shape.image.size[0]}x{shape.image.size[1]} px"
        elif getattr(shape, "has_chart", False):
            values = [list(one.values) for plot in shape.chart.plots for one in plot.series]
            yield f"slide {number}, {shape.name}", f"chart of {values}"
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame.text.strip():
        yield f"slide {number}, notes", slide.notes_slide.notes_text_frame.text


def _compare_lines(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> Iterator[Change]:
    matcher = difflib.SequenceMatcher(None, [one[1] for one in before], [one[1] for one in after], autojunk=False)
    for tag, low, high, new_low, new_high in matcher.get_opcodes():
        if tag == "equal":
            continue
        old, new = list(before[low:high]), list(after[new_low:new_high])
        while old and new and difflib.SequenceMatcher(None, old[0][1], new[0][1]).ratio() > 0.4:
            first, second = old.pop(0), new.pop(0)
            yield Change(kind="changed", where=second[0], before=first[1], after=second[1])
        yield from (Change(kind="removed", where=where, before=text) for where, text in old)
        yield from (Change(kind="added", where=where, after=text) for where, text in new)


def _compare_cells(before: Path, after: Path) -> Iterator[Change]:
    """Yield changed cells by location: formulas as written, and values where only these differ."""
    first, second = _cells(before), _cells(after)
    for sheet in dict.fromkeys((*first, *second)):
        if sheet not in second:
            yield Change(kind="removed", where=f"sheet {sheet}", before=f"{len(first[sheet])} cells")
            continue
        if sheet not in first:
            yield Change(kind="added", where=f"sheet {sheet}", after=f"{len(second[sheet])} cells")
        old, new = first.get(sheet, {}), second[sheet]
        for place in sorted({*old, *new}):
            one, other = old.get(place, ""), new.get(place, "")
            if one != other and not _is_same_formula(one, other):
                kind = "added" if not one else "removed" if not other else "changed"
                yield Change(kind=kind, where=f"{sheet}!{_name(place)}", before=one, after=other)


def _is_same_formula(one: str, other: str) -> bool:
    """Return whether two cells have the same formula and one of them has no stored value."""
    texts = [text.rpartition(_GIVES) for text in (one, other)]
    return texts[0][0] == texts[1][0] != "" and "None" in (texts[0][2], texts[1][2])


def _cells(path: Path) -> dict[str, dict[tuple[int, int], str]]:
    openpyxl = require("openpyxl", "office")
    open_package(path)
    written = open_with("openpyxl", path, lambda: openpyxl.load_workbook(path, read_only=True))
    values = open_with("openpyxl", path, lambda: openpyxl.load_workbook(path, read_only=True, data_only=True))
    found: dict[str, dict[tuple[int, int], str]] = {}
    for sheet in written.worksheets:
        cells = found.setdefault(sheet.title, {})
        for line, shown in zip(sheet.iter_rows(), values[sheet.title].iter_rows(), strict=False):
            for cell, value in zip(line, shown, strict=False):
                if cell.value is not None:
                    is_formula = cell.data_type == "f"
                    cells[cell.row, cell.column] = (
                        f"{cell.value}{_GIVES}{value.value}" if is_formula else str(cell.value)
                    )
    written.close()
    values.close()
    return found


def _name(place: tuple[int, int]) -> str:
    letter = require("openpyxl.utils", "office").get_column_letter(place[1])
    return f"{letter}{place[0]}"


def _pages(path: Path, kind: str, pdf: Path, found: Comparison) -> list[Page]:
    if kind == "pdf":
        return read_pages(path)
    if find_soffice() is None:
        found.notes.append("LibreOffice is not installed, so pages were not compared: cua setup office")
        return []
    return read_pages(render_pdf(path, pdf))


def _draw(before: Sequence[Page], after: Sequence[Page], folder: Path) -> Iterator[str]:
    """Write an image of each page that differs: before on the left, after on the right, changed regions framed."""
    image = require("PIL.Image", "office")
    for number in range(max(len(before), len(after))):
        pair = [pages[number].image if number < len(pages) else None for pages in (before, after)]
        boxes = _boxes(*pair) if pair[0] is not None and pair[1] is not None else None
        if boxes == []:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        present = [one for one in pair if one is not None]
        width, height = max(one.width for one in present), max(one.height for one in present)
        sheet = image.new("RGB", (2 * width + 12, height), "#808080")
        for at, one in enumerate(pair):
            if one is not None:
                sheet.paste(_framed(one, boxes or []), (at * (width + 12), 0))
        name = f"page-{number + 1:03d}.png"
        sheet.save(folder / name)
        yield name
        if number + 1 >= MAX_SHOWN_PAGES:
            return


def _boxes(one: Any, other: Any) -> list[tuple[int, int, int, int]]:
    """Return the boxes in pixels where two images differ, with adjacent cells of a row merged."""
    chops = require("PIL.ImageChops", "office")
    if one.size != other.size:
        return [(0, 0, max(one.width, other.width) - 1, max(one.height, other.height) - 1)]
    mask = chops.difference(one, other).convert("L").point(lambda value: 255 if value > _GRAY_STEP else 0)
    found: list[tuple[int, int, int, int]] = []
    for top in range(0, mask.height, _CELL_PX):
        band = mask.crop((0, top, mask.width, min(top + _CELL_PX, mask.height))).getbbox()
        if band is None:
            continue
        box = (band[0], top + band[1], band[2], top + band[3])
        if found and box[1] - found[-1][3] < _CELL_PX:
            last = found.pop()
            box = (min(last[0], box[0]), last[1], max(last[2], box[2]), box[3])
        found.append(box)
    return found


def _framed(image: Image, boxes: Sequence[tuple[int, int, int, int]]) -> Any:
    draw_module = require("PIL.ImageDraw", "office")
    copy = image.copy()
    draw = draw_module.Draw(copy)
    for left, top, right, bottom in boxes:
        draw.rectangle((left - 3, top - 3, right + 3, bottom + 3), outline="#D00000", width=2)
    return copy
