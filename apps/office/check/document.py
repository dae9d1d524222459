"""Checks of docx files: counts and findings."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from apps.office.check.findings import CheckReport, RenderedFile
from apps.office.check.references import find_dangling
from apps.office.libraries import XmlElement
from apps.office.libreoffice import can_draw_equations
from apps.office.pages import read_bookmarks
from apps.office.safe_xml import OfficeError, open_with
from apps.office.word.comments import read_comments
from apps.office.word.fields import bookmarked_text, contents_paragraphs, headings, sequence_fields
from apps.office.word.ranges import body_paragraphs, live_runs, paragraph_of, text_of, w
from apps.office.word.revisions import read_revisions
from envs.errors import require

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_REFERENCE = re.compile(r"^\s*(REF|PAGEREF|NOTEREF)\s+(\S+)")
_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_LIST_HEADINGS = ("references", "bibliography", "works cited", "literature")
_MISTAKES = ("Figure ", "Table ", "Equation ")


def check_document(rendered: RenderedFile, report: CheckReport) -> None:
    """Count the contents of a document and check it for errors."""
    docx = require("docx", "office")
    package = rendered.package
    assert package is not None
    try:
        document = open_with("python-docx", rendered.path, lambda: docx.Document(str(rendered.path)))
    except OfficeError as error:
        report.add("error", "unreadable", str(error))
        return
    report.opened_by.append("python-docx")
    _count(document, report)
    sections = Sections(document)
    report.sections = sections.titles
    if report.facts["equations"] and not can_draw_equations():
        report.add("warning", "equations-not-drawn", "LibreOffice here cannot draw equations: cua setup office")
    _check_headings(document, report, sections)
    _check_images(document, report, sections)
    _check_captions(document, report)
    _check_references(document, report, sections)
    _check_typed_references(document, rendered, report, sections)
    _check_comments(document, report, sections)
    _check_contents(document, report)
    _check_tables(document, report, sections)
    _check_fonts(document, report, sections)


class Sections:
    """Lookup of the first-level heading above an element.

    Args:
        document: Document as returned by `docx.Document`.

    Attributes:
        titles: First-level headings, in order.
    """

    def __init__(self, document: "DocxDocument") -> None:
        tops = {element: text for level, text, element in headings(document) if level == 1}
        self.titles = list(tops.values())
        self._body, self._numbers, number = document.element.body, {}, 0
        for element in self._body:
            number += element in tops
            self._numbers[element] = number

    def of(self, element: XmlElement) -> int:
        """Return the number of the heading above an element, from 1; 0 before the first one."""
        while element is not None and element.getparent() is not self._body:
            element = element.getparent()
        return self._numbers.get(element, 0)


def count_words(text: str) -> int:
    """Count words: a number and a hyphenated word are one each."""
    return len(_WORD.findall(text))


def _count(document: "DocxDocument", report: CheckReport) -> None:
    body = document.element.body
    words = sum(count_words(text_of(paragraph)) for paragraph in body_paragraphs(document))
    display = len(list(body.iter(f"{_M}oMath")))
    links = [link for link in body.iter(w("hyperlink")) if link.get(f"{_R}id")]
    revisions = read_revisions(document)
    report.facts |= {
        "words": words,
        "headings": len(headings(document)),
        "tables": len(document.tables),
        "figures": len(list(body.iter(f"{_A}blip"))),
        "captions": sum(
            f"{label} " in text_of(paragraph_of(field))
            for label in ("Figure", "Table", "Equation")
            for field in sequence_fields(body, label)
        ),
        "equations": display,
        "footnotes": len(list(body.iter(w("footnoteReference")))),
        "comments": len(list(document.comments)),
        "revisions": len(revisions),
        "links": len(links),
        "bibliography": _count_bibliography(document),
    }


def _count_bibliography(document: "DocxDocument") -> int:
    """Count the paragraphs after the heading of the list of references, up to the next heading."""
    count, is_inside = 0, False
    for paragraph in document.paragraphs:
        style = (paragraph.style.name or "") if paragraph.style is not None else ""
        if style.lower().startswith("heading"):
            is_inside = paragraph.text.strip().lower().lstrip("0123456789. ") in _LIST_HEADINGS
        elif is_inside and paragraph.text.strip():
            count += 1
    return count


def _check_headings(document: "DocxDocument", report: CheckReport, sections: Sections) -> None:
    last = 0
    for level, text, element in headings(document):
        if level > last + 1:
            message = f"{text[:60]!r} is of level {level} below one of level {last}"
            report.add("warning", "heading-jump", message, section=sections.of(element))
        last = level


def _check_images(document: "DocxDocument", report: CheckReport, sections: Sections) -> None:
    relations = document.part.rels
    for blip in document.element.body.iter(f"{_A}blip"):
        number, section = blip.get(f"{_R}embed"), sections.of(blip)
        if number is None and blip.get(f"{_R}link"):
            message = "an image is linked from elsewhere, so it is not shown here"
            report.add("warning", "linked-image", message, section=section)
        elif number not in relations or relations[number].is_external:
            message = f"an image refers to {number!r}, which is not in the file"
            report.add("error", "missing-image", message, section=section)
    layout = document.sections[0]
    width = (layout.page_width or 0) - (layout.left_margin or 0) - (layout.right_margin or 0)
    for extent in document.element.body.iter(f"{_WP}extent"):
        wide = int(extent.get("cx", "0"))
        if width and wide > width * 1.02:
            name = next((sibling.get("name", "") for sibling in extent.itersiblings(f"{_WP}docPr")), "")
            report.add(
                "error",
                "image-overflow",
                f"{name or 'an image'} is {wide / 360000:.1f} cm wide, the text {width / 360000:.1f} cm",
                section=sections.of(extent),
            )


def _check_captions(document: "DocxDocument", report: CheckReport) -> None:
    for label in ("Figure", "Table", "Equation"):
        shown = []
        for field in sequence_fields(document.element.body, label):
            match = re.search(rf"{label}\s+(\d+)", text_of(paragraph_of(field)))
            if match:
                shown.append(int(match[1]))
        if shown != list(range(1, len(shown) + 1)):
            report.add("error", "caption-numbers", f"captions of {label.lower()}s are numbered {shown[:20]}")


def _check_references(document: "DocxDocument", report: CheckReport, sections: Sections) -> None:
    body = document.element.body
    names = {bookmark.get(w("name")) for bookmark in body.iter(w("bookmarkStart"))}
    count = 0
    fields = [(field.text or "", field) for field in body.iter(w("instrText"))]
    fields += [(field.get(w("instr"), ""), field) for field in body.iter(w("fldSimple"))]
    for text, element in fields:
        match = _REFERENCE.match(text)
        if match is None:
            continue
        count += match[1] != "PAGEREF"
        if match[2] not in names:
            message = f"a field refers to the bookmark {match[2]!r}, which does not exist"
            report.add("error", "broken-reference", message, section=sections.of(element))
    for link in body.iter(w("hyperlink")):
        anchor = link.get(w("anchor"))
        if anchor and not link.get(f"{_R}id"):
            count += not anchor.startswith("_Toc")
            if anchor not in names and anchor != "_top":
                message = f"a link refers to the bookmark {anchor!r}, which does not exist"
                report.add("error", "broken-reference", message, section=sections.of(link))
    report.facts["references"] = count
    _check_stale(document, report, sections)


def _check_stale(document: "DocxDocument", report: CheckReport, sections: Sections) -> None:
    """Report references whose text differs from the text of their bookmark."""
    body = document.element.body
    for text in body.iter(w("instrText")):
        match = re.match(r"^\s*REF\s+(\S+)", text.text or "")
        wanted = bookmarked_text(body, match[1]) if match else None
        if wanted:
            whole = text_of(paragraph_of(text))
            if wanted not in whole:
                message = f"a reference to {wanted!r} shows something else: {whole[:80]!r}"
                report.add("error", "stale-reference", message, section=sections.of(text))


def _check_typed_references(
    document: "DocxDocument", rendered: RenderedFile, report: CheckReport, sections: Sections
) -> None:
    """Report references as text without a target; numbers that programs add are known from the rendering only.

    Those in comments are warnings: a comment may ask for the figure that is missing.
    """
    paragraphs = list(_shown_paragraphs(document, rendered))
    texts, comments = [text_of(paragraph) for paragraph in paragraphs], read_comments(document)
    lines = [line for page in rendered.pages for line in page.text.splitlines()]
    titles = [title for _, title, _ in read_bookmarks(rendered.pdf)] if rendered.pdf is not None else []
    for reference in find_dangling(texts, lines, titles):
        if rendered.pages or reference.kind not in ("section", "equation"):
            section = sections.of(paragraphs[reference.at])
            report.add("error", "missing-target", reference.describe(), section=section)
    own_lines = [line for text in texts for line in text.splitlines()]
    for reference in find_dangling([comment.text for comment in comments], [*own_lines, "", *lines], titles):
        if rendered.pages or reference.kind not in ("section", "equation"):
            place = f"comment by {comments[reference.at].author}"
            report.add("warning", "missing-target", reference.describe(), place)


def _shown_paragraphs(document: "DocxDocument", rendered: RenderedFile) -> Iterator[XmlElement]:
    """Yield the paragraphs of body, headers, footers and notes; of a text box with two stored forms, the first."""
    assert rendered.package is not None
    relations = rendered.package.relationships(document.part.partname.lstrip("/"))
    parts = [one.target for one in relations if one.kind in ("header", "footer", "footnotes", "endnotes")]
    for root in (
        document.element.body,
        *(rendered.package.xml(part) for part in parts if part in rendered.package.parts),
    ):
        yield from (one for one in root.iter(w("p")) if next(one.iterancestors(f"{_MC}Fallback"), None) is None)


def _check_comments(document: "DocxDocument", report: CheckReport, sections: Sections) -> None:
    body = document.element.body
    known = {str(comment.comment_id) for comment in document.comments}
    for name in ("commentRangeStart", "commentRangeEnd", "commentReference"):
        for mark in body.iter(w(name)):
            if mark.get(w("id")) not in known:
                message = f"the text has a mark of comment {mark.get(w('id'))}, which does not exist"
                report.add("error", "broken-comment", message, section=sections.of(mark))
    shown = {mark.get(w("id")) for mark in body.iter(w("commentReference"))}
    for comment in read_comments(document):
        if not comment.anchor and str(comment.id) not in shown:
            report.add("error", "unanchored-comment", f"the comment {comment.text[:60]!r} is not attached to any text")
    notes = {reference.get(w("id")): reference for reference in body.iter(w("footnoteReference"))}
    if notes:
        defined = _footnote_ids(document)
        for number in sorted(notes.keys() - defined, key=str):
            message = f"footnote {number} is referred to, but does not exist"
            report.add("error", "broken-footnote", message, section=sections.of(notes[number]))


def _footnote_ids(document: "DocxDocument") -> set[str]:
    etree = require("lxml.etree", "office")
    for relation in document.part.rels.values():
        if relation.reltype.endswith("/footnotes") and not relation.is_external:
            root = etree.fromstring(relation.target_part.blob)
            return {note.get(w("id")) for note in root.iter(w("footnote"))}
    return set()


def _check_contents(document: "DocxDocument", report: CheckReport) -> None:
    entries = contents_paragraphs(document)
    listed = [entry for entry in entries if text_of(entry).strip()]
    report.facts["contents"] = len(listed)
    if not entries:
        return
    if not listed:
        report.add("error", "empty-contents", "the table of contents has no entries; fill it with number_contents")
        return
    texts = {re.sub(r"\s+", " ", text).strip() for _, text, _ in headings(document)}
    for entry in listed:
        shown = text_of(entry)
        title, _, page = shown.rpartition("\t")
        if page.strip() in ("", "0"):
            report.add("error", "contents-pages", f"the entry {shown[:60]!r} of the contents has no page")
        elif title.strip() and not any(title.strip().endswith(text) for text in texts):
            report.add("error", "stale-contents", f"the contents list {title.strip()[:60]!r}, which is not a heading")


def _check_tables(document: "DocxDocument", report: CheckReport, sections: Sections) -> None:
    section = document.sections[0]
    width = ((section.page_width or 0) - (section.left_margin or 0) - (section.right_margin or 0)) / 635
    for number, table in enumerate(document.element.body.iter(w("tbl")), 1):
        columns = [int(column.get(w("w"), "0") or 0) for column in table.findall(f"{w('tblGrid')}/{w('gridCol')}")]
        if width and sum(columns) > width * 1.1:
            report.add(
                "error",
                "table-overflow",
                f"table {number} is {sum(columns) / 567:.1f} cm wide, the text {width / 567:.1f} cm",
                section=sections.of(table),
            )
        for at, row in enumerate(table.iter(w("tr")), 1):
            if not any(True for _ in row.iter(w("tc"))):
                message = f"row {at} of table {number} has no cells"
                report.add("error", "empty-row", message, section=sections.of(table))


def _check_fonts(document: "DocxDocument", report: CheckReport, sections: Sections) -> None:
    """Report fonts used by the document that other machines may not have."""
    named = set()
    for fonts in document.element.body.iter(w("rFonts")):
        named |= {fonts.get(w(key)) for key in ("ascii", "hAnsi") if fonts.get(w(key))}
    report.facts["fonts"] = len(named)
    for run in (run for paragraph in body_paragraphs(document) for run in live_runs(paragraph)):
        size = run.find(f"{w('rPr')}/{w('sz')}")
        half_pt = size.get(w("val"), "") if size is not None else ""
        if half_pt.isdigit() and 0 < int(half_pt) < 12:
            message = f"text of {int(half_pt) / 2:g} pt is hard to read"
            report.add("warning", "tiny-text", message, section=sections.of(run))
            break
