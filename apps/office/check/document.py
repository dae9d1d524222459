"""Checks of docx files: counts of contents, and faults."""

import re

from apps.office.check.findings import CheckReport, Rendered
from apps.office.libraries import Document, Element
from apps.office.libreoffice import can_draw_equations
from apps.office.safe_xml import OfficeError, open_with
from apps.office.word.comments import read_comments
from apps.office.word.fields import bookmarked_text, contents_paragraphs, headings, sequence_fields
from apps.office.word.ranges import body_paragraphs, live_runs, paragraph_of, text_of, w
from apps.office.word.revisions import read_revisions
from envs.errors import require

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_REFERENCE = re.compile(r"^\s*(REF|PAGEREF|NOTEREF)\s+(\S+)")
_WORD = re.compile(r"\w+(?:['’.-]\w+)*")
_LIST_HEADINGS = ("references", "bibliography", "works cited", "literature")
_MISTAKES = ("Figure ", "Table ", "Equation ")


def check_document(rendered: Rendered, report: CheckReport) -> None:
    """Count the contents of a document and check it for faults."""
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
    where = Sections(document)
    report.sections = where.titles
    if report.facts["equations"] and not can_draw_equations():
        report.add("warning", "equations-not-drawn", "LibreOffice here cannot draw equations: cua setup office")
    _check_headings(document, report, where)
    _check_images(document, report, where)
    _check_captions(document, report)
    _check_references(document, report, where)
    _check_comments(document, report, where)
    _check_contents(document, report)
    _check_tables(document, report, where)
    _check_fonts(document, report, where)


class Sections:
    """Lookup of the first-level heading above an element.

    Args:
        document: Document as returned by `docx.Document`.

    Attributes:
        titles: First-level headings, in order.
    """

    def __init__(self, document: Document) -> None:
        tops = {element: text for level, text, element in headings(document) if level == 1}
        self.titles = list(tops.values())
        self._body, self._numbers, number = document.element.body, {}, 0
        for element in self._body:
            number += element in tops
            self._numbers[element] = number

    def of(self, element: Element) -> int:
        """Return the number of the heading above an element, from 1; 0 before the first one."""
        while element is not None and element.getparent() is not self._body:
            element = element.getparent()
        return self._numbers.get(element, 0)


def count_words(text: str) -> int:
    """Count words: a number and a hyphenated word are one each."""
    return len(_WORD.findall(text))


def _count(document: Document, report: CheckReport) -> None:
    body = document.element.body
    words = sum(count_words(text_of(one)) for one in body_paragraphs(document))
    display = len(list(body.iter(f"{_M}oMath")))
    links = [one for one in body.iter(w("hyperlink")) if one.get(f"{_R}id")]
    revisions = read_revisions(document)
    report.facts |= {
        "words": words,
        "headings": len(headings(document)),
        "tables": len(document.tables),
        "figures": len(list(body.iter(f"{_A}blip"))),
        "captions": sum(len(sequence_fields(body, label)) for label in ("Figure", "Table", "Equation")),
        "equations": display,
        "footnotes": len(list(body.iter(w("footnoteReference")))),
        "comments": len(list(document.comments)),
        "revisions": len(revisions),
        "links": len(links),
        "bibliography": _count_bibliography(document),
    }


def _count_bibliography(document: Document) -> int:
    """Count the paragraphs after the heading of the list of references, up to the next heading."""
    count, is_inside = 0, False
    for paragraph in document.paragraphs:
        style = (paragraph.style.name or "") if paragraph.style is not None else ""
        if style.lower().startswith("heading"):
            is_inside = paragraph.text.strip().lower().lstrip("0123456789. ") in _LIST_HEADINGS
        elif is_inside and paragraph.text.strip():
            count += 1
    return count


def _check_headings(document: Document, report: CheckReport, where: Sections) -> None:
    last = 0
    for level, text, element in headings(document):
        if level > last + 1:
            said = f"{text[:60]!r} is of level {level} below one of level {last}"
            report.add("warning", "heading-jump", said, section=where.of(element))
        last = level


def _check_images(document: Document, report: CheckReport, where: Sections) -> None:
    relations = document.part.rels
    for blip in document.element.body.iter(f"{_A}blip"):
        number, section = blip.get(f"{_R}embed"), where.of(blip)
        if number is None and blip.get(f"{_R}link"):
            said = "an image is linked from elsewhere, so it is not shown here"
            report.add("warning", "linked-image", said, section=section)
        elif number not in relations or relations[number].is_external:
            said = f"an image refers to {number!r}, which is not in the file"
            report.add("error", "missing-image", said, section=section)
    section = document.sections[0]
    width = (section.page_width or 0) - (section.left_margin or 0) - (section.right_margin or 0)
    for extent in document.element.body.iter(f"{_WP}extent"):
        wide = int(extent.get("cx", "0"))
        if width and wide > width * 1.02:
            name = next((one.get("name", "") for one in extent.itersiblings(f"{_WP}docPr")), "")
            report.add(
                "error",
                "image-overflow",
                f"{name or 'an image'} is {wide / 360000:.1f} cm wide, the text {width / 360000:.1f} cm",
                section=where.of(extent),
            )


def _check_captions(document: Document, report: CheckReport) -> None:
    for label in ("Figure", "Table", "Equation"):
        shown = []
        for one in sequence_fields(document.element.body, label):
            match = re.search(rf"{label}\s+(\d+)", text_of(paragraph_of(one)))
            if match:
                shown.append(int(match[1]))
        if shown != list(range(1, len(shown) + 1)):
            report.add("error", "caption-numbers", f"captions of {label.lower()}s are numbered {shown[:20]}")


def _check_references(document: Document, report: CheckReport, where: Sections) -> None:
    body = document.element.body
    names = {one.get(w("name")) for one in body.iter(w("bookmarkStart"))}
    count = 0
    fields = [(one.text or "", one) for one in body.iter(w("instrText"))]
    fields += [(one.get(w("instr"), ""), one) for one in body.iter(w("fldSimple"))]
    for text, element in fields:
        match = _REFERENCE.match(text)
        if match is None:
            continue
        count += match[1] != "PAGEREF"
        if match[2] not in names:
            said = f"a field refers to the bookmark {match[2]!r}, which is not there"
            report.add("error", "broken-reference", said, section=where.of(element))
    for link in body.iter(w("hyperlink")):
        anchor = link.get(w("anchor"))
        if anchor and not link.get(f"{_R}id"):
            count += not anchor.startswith("_Toc")
            if anchor not in names and anchor != "_top":
                said = f"a link refers to the bookmark {anchor!r}, which is not there"
                report.add("error", "broken-reference", said, section=where.of(link))
    report.facts["references"] = count
    _check_stale(document, report, where)


def _check_stale(document: Document, report: CheckReport, where: Sections) -> None:
    """Report references whose text differs from the text of their bookmark."""
    body = document.element.body
    for text in body.iter(w("instrText")):
        match = re.match(r"^\s*REF\s+(\S+)", text.text or "")
        wanted = bookmarked_text(body, match[1]) if match else None
        if wanted:
            whole = text_of(paragraph_of(text))
            if wanted not in whole:
                said = f"a reference to {wanted!r} shows something else: {whole[:80]!r}"
                report.add("error", "stale-reference", said, section=where.of(text))


def _check_comments(document: Document, report: CheckReport, where: Sections) -> None:
    body = document.element.body
    known = {str(one.comment_id) for one in document.comments}
    for name in ("commentRangeStart", "commentRangeEnd", "commentReference"):
        for one in body.iter(w(name)):
            if one.get(w("id")) not in known:
                said = f"the text has a mark of comment {one.get(w('id'))}, which is not there"
                report.add("error", "broken-comment", said, section=where.of(one))
    for comment in read_comments(document):
        if not comment.anchor:
            report.add("error", "unanchored-comment", f"the comment {comment.text[:60]!r} stands on no words")
    notes = {one.get(w("id")): one for one in body.iter(w("footnoteReference"))}
    if notes:
        defined = _footnote_ids(document)
        for number in sorted(notes.keys() - defined, key=str):
            said = f"footnote {number} is referred to and not there"
            report.add("error", "broken-footnote", said, section=where.of(notes[number]))


def _footnote_ids(document: Document) -> set[str]:
    etree = require("lxml.etree", "office")
    for relation in document.part.rels.values():
        if relation.reltype.endswith("/footnotes") and not relation.is_external:
            root = etree.fromstring(relation.target_part.blob)
            return {one.get(w("id")) for one in root.iter(w("footnote"))}
    return set()


def _check_contents(document: Document, report: CheckReport) -> None:
    entries = contents_paragraphs(document)
    listed = [one for one in entries if text_of(one).strip()]
    report.facts["contents"] = len(listed)
    if not entries:
        return
    if not listed:
        report.add("error", "empty-contents", "the table of contents has no entries; fill it by number_contents")
        return
    texts = {re.sub(r"\s+", " ", text).strip() for _, text, _ in headings(document)}
    for one in listed:
        shown = text_of(one)
        title, _, page = shown.rpartition("\t")
        if page.strip() in ("", "0"):
            report.add("error", "contents-pages", f"the entry {shown[:60]!r} of the contents has no page")
        elif title.strip() and not any(title.strip().endswith(text) for text in texts):
            report.add("error", "stale-contents", f"the contents list {title.strip()[:60]!r}, which is no heading")


def _check_tables(document: Document, report: CheckReport, where: Sections) -> None:
    section = document.sections[0]
    width = ((section.page_width or 0) - (section.left_margin or 0) - (section.right_margin or 0)) / 635
    for number, table in enumerate(document.element.body.iter(w("tbl")), 1):
        columns = [int(one.get(w("w"), "0") or 0) for one in table.iter(w("gridCol"))]
        if width and sum(columns) > width * 1.1:
            report.add(
                "error",
                "table-overflow",
                f"table {number} is {sum(columns) / 567:.1f} cm wide, the text {width / 567:.1f} cm",
                section=where.of(table),
            )
        for at, row in enumerate(table.iter(w("tr")), 1):
            if not any(True for _ in row.iter(w("tc"))):
                said = f"row {at} of table {number} has no cells"
                report.add("error", "empty-row", said, section=where.of(table))


def _check_fonts(document: Document, report: CheckReport, where: Sections) -> None:
    """Report fonts used by the document that other machines may not have."""
    named = set()
    for one in document.element.body.iter(w("rFonts")):
        named |= {one.get(w(key)) for key in ("ascii", "hAnsi") if one.get(w(key))}
    report.facts["fonts"] = len(named)
    for run in (run for paragraph in body_paragraphs(document) for run in live_runs(paragraph)):
        size = run.find(f"{w('rPr')}/{w('sz')}")
        half_pt = size.get(w("val"), "") if size is not None else ""
        if half_pt.isdigit() and 0 < int(half_pt) < 12:
            said = f"text of {int(half_pt) / 2:g} pt is hard to read"
            report.add("warning", "tiny-text", said, section=where.of(run))
            break
