"""Check of one file, with the same steps for all kinds."""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from apps.office.check.document import check_document
from apps.office.check.findings import CheckReport, Expectation, RenderedFile
from apps.office.check.glyphs import check_package_glyphs
from apps.office.check.pdf import check_pdf
from apps.office.check.slides import check_slides
from apps.office.check.workbook import check_workbook, find_far_cell
from apps.office.corrections import FONT_ORDER
from apps.office.libreoffice import find_soffice, render_pdf
from apps.office.package import OfficePackage, find_kind, open_package
from apps.office.pages import RenderedPage, contact_sheet, read_bookmarks, read_pages
from apps.office.safe_xml import FilePath, OfficeError
from apps.office.sheets.workbook import MAX_SHEET_BYTES, sheet_bytes
from apps.office.word.ranges import w
from envs.errors import require

MAX_IMAGES = 12  # bounds the image tokens of one check
_SUFFIXES = {
    "docx": (".doc", ".dot"),
    "xlsx": (".xls", ".xlt", ".xla"),
    "pptx": (".ppt", ".pps", ".pot"),
    "pdf": (".pdf",),
}
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_SCHEMA_ERRORS = 200  # bounds the time for a broken file
_MAX_SCHEMA_BYTES = 24 * 2**20  # of all XML parts; bounds the time of validation
_BROKEN_TEXTS = (
    "Error! Reference source not found",
    "Error! Bookmark not defined",
    "Error: Reference source not found",
    "Error! No text of specified style",
    "[[missing",
    "???",
)
_ACCEPTED = (
    r"(?:axId|crossAx)\[\d+\]: .* less than minimum 0",  # PowerPoint for Mac and python-pptx
    r"/dateAx\[\d+\]: Unexpected element 'noMultiLvlLbl'",  # LibreOffice
    r"/scatterChart\[\d+\]: Required element 'scatterStyle' is missing",  # openpyxl
)
"""Violations of the schemas that programs write by default, and open.

In addition, programs accept any order of the properties of a font of a workbook and of `w:rPr`, which are a choice in
ECMA-376 (18.8.22, 17.3.2.28) and a sequence only in the schemas of the Open XML SDK, and of the other properties of
text documents.
"""
_LEFTOVERS = ("lorem ipsum", "TODO:", "TBD:", "[insert ", "Click to add", "xxxx")


Checker = Callable[[RenderedFile, CheckReport], None]
_CHECKERS: Mapping[str, Checker] = {
    "docx": check_document,
    "xlsx": check_workbook,
    "pptx": check_slides,
    "pdf": check_pdf,
}


def check_file(path: FilePath, images: FilePath | None = None, expect: Sequence[str] = ()) -> CheckReport:
    """Check a file of any of the four kinds. Nothing in it is run, and nothing is fetched for it.

    Args:
        path: The file.
        images: Folder for images of its pages, created if missing; None for no images.
        expect: Requested counts, such as `words>=10000`.

    Raises:
        OfficeError: If the file cannot be read safely; the message says why.
    """
    images = None if images is None else Path(images)
    path = Path(path)
    expectations = [Expectation.parse(text) for text in expect]
    kind = find_kind(path)
    report = CheckReport(file=path.name, kind=kind)
    package = None if kind == "pdf" else open_package(path)
    if not path.suffix.lower().startswith(_SUFFIXES[kind]):
        report.add("error", "wrong-suffix", f"it is a {kind} file; programs refuse it under the ending {path.suffix!r}")
    with tempfile.TemporaryDirectory(prefix="k25-check-") as scratch:
        if package is not None:
            path, package = _make_readable(path, package, Path(scratch))
        is_drawn = package is None or kind != "xlsx" or sheet_bytes(package) <= MAX_SHEET_BYTES
        far = find_far_cell(package) if package is not None and kind == "xlsx" and is_drawn else None
        if far:
            is_drawn = False
            report.add("warning", "too-large", f"cells reach to {far}, so it was not rendered; clear stray cells", far)
        pdf = path if kind == "pdf" else _render(path, Path(scratch), report) if is_drawn else None
        pages = read_pages(pdf) if pdf is not None else []
        report.facts["pages"] = len(pages)
        if package is not None:
            _check_package(package, report)
            check_package_glyphs(package, report)
        _CHECKERS[kind](RenderedFile(path=path, package=package, pdf=pdf, pages=pages), report)
        _check_pages(pages, report, kind)
        if pdf is not None and kind in ("docx", "pdf"):
            _place_in_sections(pdf, report)
        if images is not None and pages:
            report.images = write_images(pages, images)
    report.expect(expectations)
    return report


def _make_readable(path: Path, package: OfficePackage, scratch: Path) -> tuple[Path, OfficePackage]:
    """Return a file for the libraries, which need the usual ending and read only the transitional form of OOXML."""
    is_strict = any(_STRICT.search(data) for name, data in package.parts.items() if name.endswith(".rels"))
    if not is_strict and path.suffix.lower().startswith(_SUFFIXES[package.kind]):
        return path, package
    if is_strict:
        for name, data in package.parts.items():
            if name.endswith((".xml", ".rels")):
                package.parts[name] = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
    copy = package.save(scratch / f"readable.{package.kind}")
    return copy, replace(package, path=copy)


def _place_in_sections(pdf: Path, report: CheckReport) -> None:
    """Assign findings on pages to first-level headings, by the bookmarks of the rendering."""
    begins = [(page, title) for level, title, page in read_bookmarks(pdf) if level == 0]
    report.sections = report.sections or [title for _, title in begins]
    if len(begins) != len(report.sections):
        return  # a heading has no bookmark, so the numbers would differ
    for at, finding in enumerate(report.findings):
        page = re.fullmatch(r"page (\d+)", finding.place)
        if page and not finding.section:
            section = sum(first <= int(page[1]) for first, _ in begins)
            report.findings[at] = replace(finding, section=section)


def write_images(pages: Sequence[RenderedPage], folder: Path) -> list[str]:
    """Write images of the first pages, plus one image of all pages if there are several, and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for page in pages[:MAX_IMAGES]:
        names.append(f"page-{page.number:03d}.png")
        page.image.save(folder / names[-1])
    if len(pages) > 1:
        contact_sheet([page.image for page in pages]).save(folder / "all-pages.png")
        names.insert(0, "all-pages.png")
    return names


def _render(path: Path, folder: Path, report: CheckReport) -> Path | None:
    if find_soffice() is None:
        report.add("warning", "not-rendered", "LibreOffice is not installed, so it was not rendered: cua setup office")
        return None
    try:
        pdf = render_pdf(path, folder / "rendered.pdf")
    except OfficeError as error:
        report.add("error", "not-rendered", str(error))
        return None
    report.opened_by.append("LibreOffice")
    return pdf


def _check_package(package: OfficePackage, report: CheckReport) -> None:
    for notice in package.notices:
        report.add("warning", notice.code, notice.text)
    for name in package.parts:
        for relation in package.relationships(name):
            if (
                not relation.is_external
                and relation.target
                and relation.target not in package.parts
                and "#" not in relation.target
            ):
                report.add(
                    "error", "broken-relationship", f"{name} refers to {relation.target!r}, which does not exist"
                )
    if sum(len(data) for name, data in package.parts.items() if name.endswith(".xml")) <= _MAX_SCHEMA_BYTES:
        _check_schema(package, report)
    else:
        report.add(
            "note", "schema-unchecked", f"more than {_MAX_SCHEMA_BYTES / 1e6:.0f} MB: not compared with the schemas"
        )


def _check_schema(package: OfficePackage, report: CheckReport) -> None:
    """Validate against the schemas of ECMA-376 and the Open XML SDK, which the package openxml-audit contains."""
    audit = require("openxml_audit", "office")
    result = audit.OpenXmlValidator(max_errors=_SCHEMA_ERRORS).validate(package.path)
    report.opened_by.append("openxml-audit")
    for error in result.errors:
        kind, severity = str(error.error_type).lower(), str(error.severity).lower()
        place = f"{error.part_uri} {error.path}".strip()
        if "schema" in kind and "error" in severity:
            is_accepted = _is_accepted(error.part_uri or "", error.path or "", error.description)
            code = "schema-deviation" if is_accepted else "schema"
            report.add("note" if is_accepted else "error", code, error.description, place)
        elif "package" in kind and "error" in severity:
            report.add("error", "package", error.description, error.part_uri or "")


def _is_accepted(part: str, path: str, description: str) -> bool:
    """Return whether the programs open a file with this violation of the SDK's schemas without repairing it."""
    holder, text = path.rpartition("/")[2].partition("[")[0], f"{path}: {description}"
    moved = re.match(r"Unexpected element '(\w+)'|Element '(?:\w+:)?(\w+)' exceeds", description)
    if moved and part.startswith("/word/") and holder.endswith("Pr"):
        return (moved[1] or moved[2]) in _names_of_properties(holder)
    if moved and holder == "font" and part.startswith("/xl/"):
        return (moved[1] or moved[2]) in FONT_ORDER
    return any(re.search(pattern, text) for pattern in _ACCEPTED)


def _names_of_properties(holder: str) -> set[str]:
    """Return the names that the schema allows below a property element of a text document, in any place."""
    constraint = require("openxml_audit.schema.validator", "office").get_constraint_for_tag(w(holder))
    names: set[str] = set()
    particles = [constraint.content_model] if constraint is not None else []
    while particles:
        particle = particles.pop()
        names.add(getattr(particle, "local_name", None) or "")
        particles += getattr(particle, "children", ())
    return names


def _check_pages(pages: Sequence[RenderedPage], report: CheckReport, kind: str) -> None:
    for page in pages:
        if kind in ("docx", "pdf") and page.is_empty:  # slides are checked by their numbers, which hidden ones shift
            report.add("error", "empty-page", f"page {page.number} is empty", f"page {page.number}")
        for text in _BROKEN_TEXTS:
            if text in page.text:
                report.add("error", "broken-reference", f"page {page.number} says {text!r}", f"page {page.number}")
        lower = page.text.lower()
        for text in _LEFTOVERS:
            if text.lower() in lower:
                report.add("warning", "left-over", f"page {page.number} says {text!r}", f"page {page.number}")
    if kind != "xlsx" and not pages and report.opened_by:
        report.add("error", "no-pages", "it has no pages")
