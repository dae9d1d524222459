"""Checks of PDF files: embedded fonts, link targets, forms, and equations by the file's own tags."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from apps.office.check.document import count_words
from apps.office.check.findings import CheckReport, RenderedFile
from apps.office.check.glyphs import check_pdf_glyphs
from apps.office.check.references import find_dangling
from apps.office.pages import read_bookmarks
from apps.office.safe_xml import OfficeError, open_with
from envs.errors import require

if TYPE_CHECKING:
    from pypdf import PdfReader

_FONT_FILES = ("/FontFile", "/FontFile2", "/FontFile3")
_STANDARD_FONTS = ("Helvetica", "Times-", "Courier", "Symbol", "ZapfDingbats")
"""Fonts that viewers supply. Source: PDF 32000-1, 9.6.2.2; producers such as ReportLab use them by default."""
_ACTIVE = ("/JavaScript", "/Launch", "/SubmitForm", "/ImportData")
_MAX_TAGS = 500_000  # bounds the walk through a tag tree, which may contain cycles


def check_pdf(rendered: RenderedFile, report: CheckReport) -> None:
    """Count the contents of a PDF file and check it for errors.

    Raises:
        OfficeError: If the file is encrypted.
    """
    pypdf = require("pypdf", "office")
    report.opened_by.append("pypdfium2")
    try:
        reader = open_with("pypdf", rendered.path, lambda: pypdf.PdfReader(str(rendered.path)))
    except OfficeError as error:
        report.add("error", "unreadable", str(error))
        return
    if reader.is_encrypted and not reader.decrypt(""):
        raise OfficeError(f"{rendered.path.name} is encrypted with a password; save it without")
    report.opened_by.append("pypdf")
    tags = count_tags(reader)
    fonts = dict(_fonts(reader))
    report.facts |= {
        "words": sum(count_words(page.text) for page in rendered.pages),
        "equations": tags["/Formula"],
        "tables": tags["/Table"],
        "headings": sum(count for tag, count in tags.items() if tag[:2] == "/H" and tag[2:].isdigit()),
        "figures": max(tags["/Figure"], _count_images(reader)),
        "captions": tags["/Caption"],
        "footnotes": tags["/Note"],
        "bookmarks": _count_outline(reader.outline),
        "fields": len(reader.get_fields() or {}),
        "fonts": len(fonts),
    }
    for name, is_embedded in fonts.items():
        if not is_embedded and name.lstrip("/").startswith(_STANDARD_FONTS):
            report.add("note", "standard-font", f"the font {name} is not in the file; every viewer has one like it")
        elif not is_embedded:
            report.add(
                "error", "font-not-embedded", f"the font {name} is not in the file; other machines show another one"
            )
    check_pdf_glyphs(reader, report)
    for reference in find_dangling(
        [page.text for page in rendered.pages], headings=[title for _, title, _ in read_bookmarks(rendered.path)]
    ):
        report.add("error", "missing-target", reference.describe(), f"page {reference.at + 1}")
    _check_links(reader, report)
    for action in _find_actions(reader):
        report.add("warning", "script", f"it holds {action}, which is not run here")


def count_tags(reader: "PdfReader") -> Counter[str]:
    """Count each kind of element in the file's structure tree; empty for a file without tags."""
    counts: Counter[str] = Counter()
    open_nodes = [reader.root_object.get("/StructTreeRoot")]
    seen: set[int] = set()
    while open_nodes and len(seen) < _MAX_TAGS:
        node = open_nodes.pop()
        node = node.get_object() if node is not None and hasattr(node, "get_object") else node
        if isinstance(node, list):
            open_nodes += node
        elif isinstance(node, dict) and id(node) not in seen:
            seen.add(id(node))
            if "/S" in node:
                counts[str(node["/S"])] += 1
            if "/K" in node:
                open_nodes.append(node["/K"])
    return counts


def _fonts(reader: "PdfReader") -> Iterator[tuple[str, bool]]:
    """Yield the name of each font and whether it is embedded."""
    for page in reader.pages:
        resources = page.get("/Resources")
        fonts = resources.get_object().get("/Font") if resources is not None else None
        for reference in fonts.get_object().values() if fonts is not None else ():
            font = reference.get_object()
            below = font.get("/DescendantFonts")
            real = below.get_object()[0].get_object() if below is not None else font
            descriptor = real.get("/FontDescriptor")
            is_embedded = font.get("/Subtype") == "/Type3" or (
                descriptor is not None and any(name in descriptor.get_object() for name in _FONT_FILES)
            )
            yield str(font.get("/BaseFont", "a font without name")), is_embedded


def _count_images(reader: "PdfReader") -> int:
    """Count the distinct images that pages draw."""
    seen = set()
    for page in reader.pages:
        resources = page.get("/Resources")
        drawn = resources.get_object().get("/XObject") if resources is not None else None
        for image in drawn.get_object().values() if drawn is not None else ():
            if image.get_object().get("/Subtype") == "/Image":
                seen.add(getattr(image, "idnum", id(image)))
    return len(seen)


def _count_outline(outline: Any) -> int:
    return sum(_count_outline(entry) if isinstance(entry, list) else 1 for entry in outline)


def _check_links(reader: "PdfReader", report: CheckReport) -> None:
    names = set(reader.named_destinations)
    pages = {page.indirect_reference.idnum for page in reader.pages if page.indirect_reference is not None}
    count = inside = 0
    for number, page in enumerate(reader.pages, 1):
        for annotation in page.get("/Annots") or ():
            note = annotation.get_object()
            if note.get("/Subtype") != "/Link":
                continue
            action = note.get("/A")
            action = action.get_object() if action is not None else {}
            if "/URI" in action:
                count += 1
                continue
            inside += 1
            target = note.get("/Dest", action.get("/D"))
            target = target.get_object() if hasattr(target, "get_object") else target
            is_there = target is None or (
                str(target) in names if not isinstance(target, list) else _leads(target, pages)
            )
            if not is_there:
                report.add(
                    "error",
                    "broken-reference",
                    f"a link on page {number} leads to {str(target)[:60]!r}, which does not exist",
                    f"page {number}",
                )
    report.facts["links"], report.facts["references"] = count, inside


def _leads(target: Sequence[object], pages: set[int]) -> bool:
    return not target or not hasattr(target[0], "idnum") or target[0].idnum in pages


def _find_actions(reader: "PdfReader") -> Iterator[str]:
    root = reader.root_object
    names = root.get("/Names")
    if names is not None and "/JavaScript" in names.get_object():
        yield "JavaScript"
    if names is not None and "/EmbeddedFiles" in names.get_object():
        yield "embedded files"
    action = root.get("/OpenAction")
    action = action.get_object() if action is not None else None
    if isinstance(action, dict) and action.get("/S") in _ACTIVE:
        yield f"an action on opening ({action['/S'][1:]})"
