"""Comments on words of a docx file: write, reply, resolve, read. python-docx has no replies and no "resolved"."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apps.office.libraries import XmlElement
from apps.office.safe_xml import OfficeError
from apps.office.word.fields import ensure_style
from apps.office.word.ranges import find_text, isolate_runs, make_element, paragraph_of, run_text, text_of, w
from envs.errors import require

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

_W14 = "http://schemas.microsoft.com/office/word/2010/wordml"
_W15 = "http://schemas.microsoft.com/office/word/2012/wordml"
_EXTENDED_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.commentsExtended+xml"
_EXTENDED_RELATION = "http://schemas.microsoft.com/office/2011/relationships/commentsExtended"
_PARA_ID = f"{{{_W14}}}paraId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """Comment of a document.

    Attributes:
        id: Number in the file.
        author: Author of the comment.
        text: Text of the comment.
        anchor: Words that it is anchored to; "" without an anchor.
        parent: Number of the comment that it replies to; None for the first of a thread.
        is_resolved: True if its thread is marked as done.
    """

    id: int
    author: str
    text: str
    anchor: str
    parent: int | None = None
    is_resolved: bool = False


def add_comment(
    document: "DocxDocument", on: str, text: str, *, author: str, initials: str = "", occurrence: int = 1
) -> int:
    """Add a comment to words of the document.

    Args:
        document: Document as returned by `docx.Document`.
        on: Words to comment on, within one paragraph.
        text: Text of the comment.
        author: Author of the comment.
        initials: Initials of the author; derived from the name if omitted.
        occurrence: Number of the occurrence of the words.

    Returns:
        Number of the comment.

    Raises:
        OfficeError: If the words are not found.
    """
    text_module = require("docx.text.run", "office")
    runs = isolate_runs(find_text(document, on, occurrence))
    parent = document.paragraphs[0] if document.paragraphs else document
    wrapped = [text_module.Run(run, parent) for run in (runs[0], runs[-1])]
    initials = initials or "".join(word[0] for word in author.split())[:3].upper()
    _ensure_style(document)
    return int(document.add_comment(wrapped, text=text, author=author, initials=initials).comment_id)


def reply_to(document: "DocxDocument", comment: int, text: str, *, author: str) -> int:
    """Reply to a comment on the same words, and return the reply's number.

    Raises:
        OfficeError: If there is no such comment.
    """
    parent = _find(document, comment)
    first = parent.paragraphs[0]._p
    answer = document.comments.add_comment(text=text, author=author, initials=author[:1].upper())
    for name in ("commentRangeStart", "commentRangeEnd"):
        for mark in document.element.body.iter(w(name)):
            if mark.get(w("id")) == str(comment):
                mark.addnext(make_element(mark, name, id=str(answer.comment_id)))
    for mark in list(document.element.body.iter(w("commentReference"))):
        if mark.get(w("id")) == str(comment):
            run = mark.getparent()
            run.addnext(make_element(run, "r", make_element(run, "commentReference", id=str(answer.comment_id))))
    entry = _entry(document, answer.paragraphs[-1]._p)
    entry.set(f"{{{_W15}}}paraIdParent", _entry(document, first).get(f"{{{_W15}}}paraId", ""))
    _save_extended(document)
    return int(answer.comment_id)


def resolve(document: "DocxDocument", comment: int, *, is_done: bool = True) -> None:
    """Mark a comment's thread as done.

    Raises:
        OfficeError: If there is no such comment.
    """
    _entry(document, _find(document, comment).paragraphs[-1]._p).set(f"{{{_W15}}}done", "1" if is_done else "0")
    _save_extended(document)


def read_comments(document: "DocxDocument") -> list[Comment]:
    """Return all comments in the file's order."""
    anchors, extended = _anchors(document), _read_extended(document)
    by_para = {
        paragraph._p.get(_PARA_ID): comment.comment_id
        for comment in document.comments
        for paragraph in comment.paragraphs
        if paragraph._p.get(_PARA_ID)
    }
    comments = []
    for comment in document.comments:
        marks = [extended.get(paragraph._p.get(_PARA_ID)) for paragraph in comment.paragraphs]
        mark = next((mark for mark in marks if mark is not None), None)
        parent = by_para.get(mark.get(f"{{{_W15}}}paraIdParent")) if mark is not None else None
        is_done = mark is not None and mark.get(f"{{{_W15}}}done") in ("1", "true")
        comments.append(
            Comment(
                id=int(comment.comment_id),
                author=comment.author or "",
                text=comment.text,
                anchor=anchors.get(str(comment.comment_id), ""),
                parent=parent,
                is_resolved=is_done,
            )
        )
    return comments


def _find(document: "DocxDocument", comment: int) -> Any:
    existing = document.comments.get(comment)
    if existing is None:
        raise OfficeError(
            f"there is no comment {comment}; its comments are: {[comment.comment_id for comment in document.comments]}"
        )
    return existing


def _anchors(document: "DocxDocument") -> dict[str, str]:
    """Return the words between the marks of each comment."""
    open_ids: dict[str, list[str]] = {}
    done: dict[str, str] = {}
    last: XmlElement | None = None
    for element in document.element.body.iter(w("commentRangeStart"), w("commentRangeEnd"), w("r")):
        number = element.get(w("id"), "")
        if element.tag == w("commentRangeStart"):
            open_ids[number] = []
        elif element.tag == w("commentRangeEnd"):
            done[number] = "".join(open_ids.pop(number, []))
        elif open_ids and not any(ancestor.tag == w("del") for ancestor in element.iterancestors()):
            paragraph = paragraph_of(element)
            for pieces in open_ids.values():
                if pieces and paragraph is not last:
                    pieces.append("\n")
                pieces.append(run_text(element))
            last = paragraph
    for mark in document.element.body.iter(w("commentReference")):  # a comment on a point belongs to its paragraph
        number = mark.get(w("id"), "")
        if not done.get(number):
            done[number] = text_of(paragraph_of(mark))
    return done


def _ensure_style(document: "DocxDocument") -> None:
    """Add the style of comment marks, which the default template lacks."""
    style = ensure_style(document, "annotation reference", "CommentReference", is_character=True)
    if style is not None:
        style.font.size = require("docx.shared", "office").Pt(8)


def _extended_part(document: "DocxDocument") -> Any:
    for relation in document.part.rels.values():
        if relation.reltype == _EXTENDED_RELATION:
            return relation.target_part
    return None


def _tree(document: "DocxDocument") -> XmlElement:
    """Return the root of the part of replies, which stays on the document until it is saved."""
    etree = require("lxml.etree", "office")
    part = _extended_part(document)
    if part is None:
        package = require("docx.opc.part", "office")
        uri = require("docx.opc.packuri", "office").PackURI("/word/commentsExtended.xml")
        empty = etree.Element(f"{{{_W15}}}commentsEx", nsmap={"w15": _W15})
        part = package.Part(uri, _EXTENDED_TYPE, etree.tostring(empty), document.part.package)
        document.part.relate_to(part, _EXTENDED_RELATION)
    if not hasattr(part, "k25_root"):
        part.k25_root = etree.fromstring(part.blob)
    root: XmlElement = part.k25_root
    return root


def _read_extended(document: "DocxDocument") -> dict[str | None, XmlElement]:
    if _extended_part(document) is None:
        return {}
    return {entry.get(f"{{{_W15}}}paraId"): entry for entry in _tree(document)}


def _entry(document: "DocxDocument", paragraph: XmlElement) -> XmlElement:
    """Return the entry for a comment's last paragraph in the part of replies, created if missing."""
    root = _tree(document)
    number = paragraph.get(_PARA_ID)
    if number is None:
        used_ids = {entry.get(f"{{{_W15}}}paraId") for entry in root}
        used_ids |= {other.get(_PARA_ID) for other in paragraph.getroottree().getroot().iter(w("p"))}
        number = next(text for n in itertools.count(1) if (text := f"{0x0C250000 + n:08X}") not in used_ids)
        paragraph.set(_PARA_ID, number)
    for entry in root:
        if entry.get(f"{{{_W15}}}paraId") == number:
            return entry
    new_entry = root.makeelement(f"{{{_W15}}}commentEx", {f"{{{_W15}}}paraId": number, f"{{{_W15}}}done": "0"})
    root.append(new_entry)
    return new_entry


def _save_extended(document: "DocxDocument") -> None:
    etree = require("lxml.etree", "office")
    part = _extended_part(document)
    part._blob = etree.tostring(part.k25_root, xml_declaration=True, encoding="UTF-8", standalone=True)
