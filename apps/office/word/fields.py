"""Fields of a docx file that python-docx does not write: contents, numbered captions, references to them, footnotes."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from apps.office.libraries import XmlElement
from apps.office.pages import read_bookmarks
from apps.office.safe_xml import FilePath, OfficeError
from apps.office.word.ranges import find_text, isolate_runs, make_element, run_text, text_of, w
from envs.errors import require

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument
    from docx.text.paragraph import Paragraph

_FOOTNOTES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
_FOOTNOTES_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
_HEADING = re.compile(r"^heading (\d)$", re.IGNORECASE)
_DECIMAL = re.compile(r"^%1(?:\.%\d)*\.?$")


def headings(document: "DocxDocument") -> list[tuple[int, str, XmlElement]]:
    """Return level, text and `w:p` of each heading in order."""
    found_headings: list[tuple[int, str, XmlElement]] = []
    for paragraph in document.paragraphs:
        match = _HEADING.match(paragraph.style.name or "") if paragraph.style is not None else None
        if match and text_of(paragraph._p).strip():
            found_headings.append((int(match[1]), text_of(paragraph._p).strip(), paragraph._p))
    return found_headings


def heading_numbers(document: "DocxDocument") -> dict[XmlElement, str]:
    """Return the decimal numbers that programs draw before headings, such as "1.2", by `w:p` element."""
    formats = _decimal_lists(document)
    counts = [0] * 9
    numbers: dict[XmlElement, str] = {}
    for level, _, paragraph in headings(document):
        if _list_of(document, paragraph) not in formats:
            continue
        counts[level - 1] += 1
        counts[level:] = [0] * (9 - level)
        numbers[paragraph] = ".".join(map(str, counts[:level]))
    return numbers


def _decimal_lists(document: "DocxDocument") -> set[str]:
    """Return the numbers of the lists with levels such as 1.2."""
    if not any(relation.reltype.endswith("/numbering") for relation in document.part.rels.values()):
        return set()
    root = document.part.numbering_part.element
    decimal = set()
    for abstract in root.findall(w("abstractNum")):
        formats = [level.get(w("val"), "") for level in abstract.iter(w("numFmt"))]
        texts = [level.get(w("val"), "") for level in abstract.iter(w("lvlText"))]
        if set(formats[:2]) == {"decimal"} and all(_DECIMAL.match(text) for text in texts[:2]):
            decimal.add(abstract.get(w("abstractNumId")))
    references = ((one.get(w("numId"), ""), one.find(w("abstractNumId"))) for one in root.findall(w("num")))
    return {number for number, abstract in references if abstract is not None and abstract.get(w("val")) in decimal}


def _list_of(document: "DocxDocument", paragraph: XmlElement) -> str:
    """Return the number of the list of a heading: its own, or its style's; "" without a list."""
    own = paragraph.find(f"{w('pPr')}/{w('numPr')}/{w('numId')}")
    if own is not None:
        return own.get(w("val"), "")
    name = paragraph.find(f"{w('pPr')}/{w('pStyle')}")
    styles: Mapping[str, XmlElement] = {style.style_id: style.element for style in document.styles}
    style = styles.get(name.get(w("val"), "")) if name is not None else None
    inherited = style.find(f"{w('pPr')}/{w('numPr')}/{w('numId')}") if style is not None else None
    return inherited.get(w("val"), "") if inherited is not None else ""


def add_contents(
    document: "DocxDocument", *, levels: int = 3, before: "Paragraph | None" = None, title: str = "Contents"
) -> None:
    """Add a table of contents before a paragraph (the first heading by default).

    Its entries are the current headings with "0" for each page; `fill_contents` sets the pages.

    Args:
        document: Document as returned by `docx.Document`.
        levels: Number of heading levels to list.
        before: Paragraph of the document.
        title: Title above it; "" for none.
    """
    listed = [heading for heading in headings(document) if heading[0] <= levels]
    anchor = before._p if before is not None else listed[0][2] if listed else None
    if anchor is None:
        raise OfficeError("the document has no headings, so there is nothing to list")
    _ensure_contents_styles(document, levels)
    if title:
        anchor.addprevious(make_element(anchor, "p", _with_style(anchor, "TOCHeading"), _text_run(anchor, title)))
    for paragraph in _contents(document, listed, levels, {}):
        anchor.addprevious(paragraph)


def fill_contents(document: "DocxDocument", pages: Sequence[int]) -> int:
    """Rewrite the table of contents with page numbers.

    Args:
        document: Document with a table of contents.
        pages: Page of each heading of the document, in order, from 1.

    Returns:
        Number of entries.

    Raises:
        OfficeError: If there is no table of contents, or the number of headings differs.
    """
    all_headings = headings(document)
    if len(all_headings) != len(pages):
        raise OfficeError(f"the document has {len(all_headings)} headings, {len(pages)} pages were given")
    old = contents_paragraphs(document)
    if not old:
        raise OfficeError("the document has no table of contents; create one with add_contents")
    instruction = "".join(instruction.text or "" for instruction in old[0].iter(w("instrText")))
    match = re.search(r'\\o\s+"1-(\d)"', instruction)
    levels = int(match[1]) if match else 3
    page_of = {id(heading[2]): page for heading, page in zip(all_headings, pages, strict=True)}
    _ensure_contents_styles(document, levels)
    listed = [heading for heading in all_headings if heading[0] <= levels]
    for paragraph in _contents(document, listed, levels, page_of):
        old[0].addprevious(paragraph)
    for paragraph in old:
        paragraph.getparent().remove(paragraph)
    return len(listed)


def contents_paragraphs(document: "DocxDocument") -> list[XmlElement]:
    """Return the `w:p` elements of the first table of contents; [] if there is none."""
    inside: list[XmlElement] = []
    depth = 0
    for paragraph in document.element.body.iter(w("p")):
        if not depth and not any(
            (instruction.text or "").strip().startswith("TOC ") for instruction in paragraph.iter(w("instrText"))
        ):
            continue
        inside.append(paragraph)
        for mark in paragraph.iter(w("fldChar")):
            depth += {"begin": 1, "end": -1}.get(mark.get(w("fldCharType"), ""), 0)
        if depth <= 0:
            break
    return inside


def add_caption(
    paragraph: "Paragraph", label: Literal["Figure", "Table", "Equation"], text: str, *, bookmark: str = ""
) -> None:
    """Convert a paragraph to a numbered caption; the number is a field that programs update.

    Args:
        paragraph: Paragraph of python-docx, whose contents are replaced.
        label: Label of the sequence, such as Figure.
        text: Text after the number.
        bookmark: Bookmark name for `add_reference`.
    """
    root = paragraph._p.getroottree().getroot()
    number = 1 + sum(1 for _ in sequence_fields(root, label))
    for child in [child for child in paragraph._p if child.tag != w("pPr")]:
        paragraph._p.remove(child)
    start = make_element(paragraph._p, "bookmarkStart", id=_free_bookmark(root), name=bookmark) if bookmark else None
    if start is not None:
        paragraph._p.append(start)
    paragraph._p.append(_text_run(paragraph._p, f"{label} "))
    append_field(paragraph._p, f"SEQ {label} \\* ARABIC", str(number))
    if start is not None:
        paragraph._p.append(make_element(paragraph._p, "bookmarkEnd", id=start.get(w("id"), "")))
    paragraph._p.append(_text_run(paragraph._p, f": {text}" if text else ""))


def add_reference(paragraph: "Paragraph", bookmark: str) -> None:
    """Append a reference to a caption that has a bookmark, such as "Figure 3".

    Raises:
        OfficeError: If there is no such bookmark.
    """
    root = paragraph._p.getroottree().getroot()
    shown = bookmarked_text(root, bookmark)
    if shown is None:
        raise OfficeError(f"the document has no bookmark {bookmark!r}; give one to add_caption")
    append_field(paragraph._p, f"REF {bookmark} \\h", shown)


def bookmarked_text(root: XmlElement, name: str) -> str | None:
    """Return the text within a bookmark; None if there is no such bookmark."""
    start = next((start for start in root.iter(w("bookmarkStart")) if start.get(w("name")) == name), None)
    if start is None:
        return None
    pieces = []
    for following in start.itersiblings():
        if following.tag == w("bookmarkEnd") and following.get(w("id")) == start.get(w("id")):
            break
        pieces += [run_text(run) for run in following.iter(w("r"))]
    return "".join(pieces)


def sequence_fields(root: XmlElement, label: str) -> list[XmlElement]:
    """Return the fields that number captions of a label, in order."""
    pattern = re.compile(rf"^\s*SEQ\s+{re.escape(label)}\b")
    complex_ones = [instruction for instruction in root.iter(w("instrText")) if pattern.match(instruction.text or "")]
    return complex_ones + [field for field in root.iter(w("fldSimple")) if pattern.match(field.get(w("instr"), ""))]


def add_footnote(document: "DocxDocument", after: str, text: str, *, occurrence: int = 1) -> int:
    """Add a footnote after words of the document, and return its number.

    Raises:
        OfficeError: If the words are not found.
    """
    etree = require("lxml.etree", "office")
    text_range = find_text(document, after, occurrence)
    part, root = _footnotes(document)
    used_ids = {int(note.get(w("id"), "0")) for note in root}
    number = next(n for n in itertools.count(1) if n not in used_ids)
    _ensure_note_styles(document)
    run = isolate_runs(text_range)[-1]
    mark = make_element(run, "r", _reference_style(run), make_element(run, "footnoteReference", id=str(number)))
    (run.getparent() if run.getparent().tag == w("ins") else run).addnext(mark)
    first = make_element(root, "r", _reference_style(root), make_element(root, "footnoteRef"))
    paragraph = make_element(root, "p", _with_style(root, "FootnoteText"), first, _text_run(root, f" {text}"))
    root.append(make_element(root, "footnote", paragraph, id=str(number)))
    part._blob = etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True)
    return number


def _contents(
    document: "DocxDocument", all_headings: Sequence[tuple[int, str, XmlElement]], levels: int, pages: Mapping[int, int]
) -> list[XmlElement]:
    """Build the paragraphs of a table of contents; the first and the last one hold the ends of its field."""
    root, numbers = document.element.body, heading_numbers(document)
    paragraphs: list[XmlElement] = []
    for level, text, heading in all_headings:
        text = f"{numbers[heading]} {text}" if heading in numbers else text
        name = _bookmark_of(heading)
        paragraph = make_element(root, "p", _with_style(root, f"TOC{level}"))
        if not paragraphs:
            _open_field(paragraph, f'TOC \\o "1-{levels}" \\h \\z \\u')
        tab = make_element(root, "r", make_element(root, "tab"))
        link = make_element(root, "hyperlink", _text_run(root, text), tab, anchor=name, history="1")
        append_field(link, f"PAGEREF {name} \\h", str(pages.get(id(heading), 0)))
        paragraph.append(link)
        paragraphs.append(paragraph)
    _append_mark(paragraphs[-1], "end")
    return paragraphs


def _bookmark_of(heading: XmlElement) -> str:
    for bookmark in heading.iter(w("bookmarkStart")):
        if bookmark.get(w("name"), "").startswith("_Toc"):
            return str(bookmark.get(w("name")))
    number = _free_bookmark(heading.getroottree().getroot())
    name = f"_Toc{100000 + int(number)}"
    start, end = (
        make_element(heading, "bookmarkStart", id=number, name=name),
        make_element(heading, "bookmarkEnd", id=number),
    )
    heading.insert(1 if heading.find(w("pPr")) is not None else 0, start)
    heading.append(end)
    return name


def _free_bookmark(root: XmlElement) -> str:
    used_ids = [
        int(start.get(w("id"), "0")) for start in root.iter(w("bookmarkStart")) if start.get(w("id"), "").isdigit()
    ]
    return str(max(used_ids, default=0) + 1)


def _with_style(near: XmlElement, style: str) -> XmlElement:
    return make_element(near, "pPr", make_element(near, "pStyle", val=style))


def _reference_style(near: XmlElement) -> XmlElement:
    return make_element(near, "rPr", make_element(near, "rStyle", val="FootnoteReference"))


def _text_run(near: XmlElement, text: str) -> XmlElement:
    return make_element(near, "r", make_element(near, "t", text=text))


def _append_mark(paragraph: XmlElement, kind: str) -> None:
    paragraph.append(make_element(paragraph, "r", make_element(paragraph, "fldChar", fldCharType=kind)))


def _open_field(paragraph: XmlElement, instruction: str) -> None:
    _append_mark(paragraph, "begin")
    paragraph.append(make_element(paragraph, "r", make_element(paragraph, "instrText", text=f" {instruction} ")))
    _append_mark(paragraph, "separate")


def append_field(paragraph: XmlElement, instruction: str, shown: str) -> None:
    """Append a field to a `w:p` or `w:hyperlink` element, with the text shown until it is updated."""
    _open_field(paragraph, instruction)
    paragraph.append(_text_run(paragraph, shown))
    _append_mark(paragraph, "end")


def _footnotes(document: "DocxDocument") -> tuple[Any, XmlElement]:
    """Return the footnotes part and its root; a missing part is created with the two required separators."""
    etree = require("lxml.etree", "office")
    for relation in document.part.rels.values():
        if relation.reltype == _FOOTNOTES:
            return relation.target_part, etree.fromstring(relation.target_part.blob)
    root = etree.Element(w("footnotes"), nsmap={"w": w("")[1:-1]})
    for number, kind in (("-1", "separator"), ("0", "continuationSeparator")):
        note = etree.SubElement(root, w("footnote"), {w("type"): kind, w("id"): number})
        run = etree.SubElement(etree.SubElement(note, w("p")), w("r"))
        etree.SubElement(run, w(kind))
    opc, uri = require("docx.opc.part", "office"), require("docx.opc.packuri", "office")
    name = uri.PackURI("/word/footnotes.xml")
    part = opc.Part(name, _FOOTNOTES_TYPE, etree.tostring(root), document.part.package)
    document.part.relate_to(part, _FOOTNOTES)
    return part, root


def ensure_style(document: "DocxDocument", name: str, style_id: str, *, is_character: bool = False) -> Any | None:
    """Add a style and return it for formatting; None if the document already has it."""
    if any(style.style_id == style_id or style.name == name for style in document.styles):
        return None
    kinds = require("docx.enum.style", "office").WD_STYLE_TYPE
    style = document.styles.add_style(name, kinds.CHARACTER if is_character else kinds.PARAGRAPH)
    if not is_character:
        style.base_style = document.styles["Normal"]
    style.element.set(w("styleId"), style_id)
    return style


def _ensure_contents_styles(document: "DocxDocument", levels: int) -> None:
    shared, text = require("docx.shared", "office"), require("docx.enum.text", "office")
    section = document.sections[0]
    margins = (section.left_margin or shared.Cm(2.5)) + (section.right_margin or shared.Cm(2.5))
    width = (section.page_width or shared.Cm(21)) - margins
    for level in range(1, levels + 1):
        style = ensure_style(document, f"toc {level}", f"TOC{level}")
        if style is not None:
            style.paragraph_format.left_indent = shared.Pt(12 * (level - 1))
            style.paragraph_format.space_after = shared.Pt(3)
            style.paragraph_format.tab_stops.add_tab_stop(width, text.WD_TAB_ALIGNMENT.RIGHT, text.WD_TAB_LEADER.DOTS)
    style = ensure_style(document, "TOC Heading", "TOCHeading")
    if style is not None:
        style.font.size, style.font.bold = shared.Pt(16), True


def _ensure_note_styles(document: "DocxDocument") -> None:
    shared = require("docx.shared", "office")
    style = ensure_style(document, "footnote text", "FootnoteText")
    if style is not None:
        style.font.size = shared.Pt(9)
    style = ensure_style(document, "footnote reference", "FootnoteReference", is_character=True)
    if style is not None:
        style.font.superscript = True


def number_contents(path: FilePath, render: FilePath) -> int:
    """Write the rendering's page numbers into the contents of a docx file, and return the number of entries.

    Args:
        path: Path of the file, which is saved in place.
        render: PDF rendering made after `add_contents`, so that the contents have their final length.
    """
    document = require("docx", "office").Document(str(path))
    all_headings = headings(document)
    count = fill_contents(document, find_pages(render, [text for _, text, _ in all_headings]))
    document.save(str(path))
    return count


def find_pages(pdf: FilePath, texts: Sequence[str]) -> list[int]:
    """Return the page of each heading of a sequence, by the bookmarks that LibreOffice writes for headings.

    Raises:
        OfficeError: If the headings of the rendering differ.
    """
    bookmarks = [(_without_spaces(title), page) for _, title, page in read_bookmarks(pdf)]
    pages, at = [], 0
    for text in texts:
        wanted = _without_spaces(text)
        at = next((n for n in range(at, len(bookmarks)) if bookmarks[n][0].endswith(wanted)), -1)
        if at < 0:
            raise OfficeError(f"the rendering has no bookmark for the heading {text!r}; is it of this document?")
        pages.append(bookmarks[at][1])
        at += 1
    return pages


def _without_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)
