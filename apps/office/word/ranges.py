"""Text of a paragraph across runs: find it, and split runs so that it has its own runs."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apps.office.libraries import XmlElement
from apps.office.safe_xml import OfficeError
from envs.errors import nearest

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TEXT = {f"{{{W}}}t", f"{{{W}}}delText"}
_BREAKS = {f"{{{W}}}tab": "\t", f"{{{W}}}br": "\n", f"{{{W}}}cr": "\n", f"{{{W}}}noBreakHyphen": "-"}


def w(name: str) -> str:
    """Return a name of WordprocessingML in lxml notation."""
    return f"{{{W}}}{name}"


def make_element(near: XmlElement, tag: str, /, *children: XmlElement, text: str = "", **attributes: str) -> XmlElement:
    """Make an element of WordprocessingML for the document of another element.

    Args:
        near: Element of that document.
        tag: Name without its namespace, as for the attributes.
        children: Child elements.
        text: Text, including spaces at both ends.
        attributes: Attributes by name; empty ones are omitted.
    """
    element = near.makeelement(w(tag), {w(key): value for key, value in attributes.items() if value})
    for child in children:
        element.append(child)
    if text:
        element.text = text
        element.set(SPACE, "preserve")
    return element


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRange:
    """Position of a text.

    Attributes:
        paragraph: The `w:p` element.
        start: First character within the paragraph's text.
        end: Position after the last character.
    """

    paragraph: XmlElement
    start: int
    end: int


def body_paragraphs(document: "DocxDocument") -> Iterator[XmlElement]:
    """Yield all `w:p` elements of the body in order, including those in tables."""
    yield from document.element.body.iter(w("p"))


def live_runs(paragraph: XmlElement, *, with_deleted: bool = False) -> list[XmlElement]:
    """Return the runs of a paragraph in order, including those in links and insertions."""
    runs = []
    for run in paragraph.iter(w("r")):
        above = [ancestor.tag for ancestor in run.iterancestors()]
        if paragraph_of(run) is not paragraph or w("txbxContent") in above[: above.index(paragraph.tag)]:
            continue
        if with_deleted or w("del") not in above:
            runs.append(run)
    return runs


def paragraph_of(element: XmlElement) -> XmlElement:
    """Return the nearest `w:p` ancestor."""
    return next(ancestor for ancestor in element.iterancestors() if ancestor.tag == w("p"))


def run_text(run: XmlElement) -> str:
    """Return the text of a run; tabs and breaks count one character each."""
    pieces = []
    for child in run:
        if child.tag in _TEXT:
            pieces.append(child.text or "")
        else:
            pieces.append(_BREAKS.get(child.tag, ""))
    return "".join(pieces)


def text_of(paragraph: XmlElement, *, with_deleted: bool = False) -> str:
    """Return the current text of a paragraph, without tracked deletions."""
    return "".join(run_text(run) for run in live_runs(paragraph, with_deleted=with_deleted))


def find_text(document: "DocxDocument", text: str, occurrence: int = 1) -> TextRange:
    """Find the n-th occurrence of a text in the body.

    Raises:
        OfficeError: If there is none; the message quotes the nearest paragraph.
    """
    if not text.strip():
        raise OfficeError("the text to look for is empty; expected words of the document")
    seen, texts = 0, []
    for paragraph in body_paragraphs(document):
        whole = text_of(paragraph)
        texts.append(whole)
        start = whole.find(text)
        while start >= 0:
            seen += 1
            if seen == occurrence:
                return TextRange(paragraph=paragraph, start=start, end=start + len(text))
            start = whole.find(text, start + len(text))
    if seen:
        raise OfficeError(f"{text!r} occurs {seen} times in the document; there is no occurrence {occurrence}")
    near = nearest(text, [text[:200] for text in texts if text.strip()])
    hint = f"; the nearest paragraph is {near[0]!r}" if near else ""
    raise OfficeError(f"{text[:80]!r} does not occur within one paragraph of the document{hint}")


def isolate_runs(text_range: TextRange) -> list[XmlElement]:
    """Split runs at both ends of a place and return the runs that hold exactly its text."""
    chosen, at = [], 0
    for run in live_runs(text_range.paragraph):
        length = len(run_text(run))
        start, end = max(text_range.start - at, 0), min(text_range.end - at, length)
        if length and start < end:
            middle = _split_run(run, start)[1] if start else run
            chosen.append(_split_run(middle, end - start)[0] if end < length else middle)
        at += length
    if not chosen:
        raise OfficeError("there is no text in that range")
    return chosen


def _split_run(run: XmlElement, at: int) -> tuple[XmlElement, XmlElement]:
    """Split a run in two with equal properties; the first keeps non-text elements before the cut."""
    second = deepcopy(run)
    run.addnext(second)
    _trim_run(run, 0, at)
    _trim_run(second, at, len(run_text(second)))
    return run, second


def _trim_run(run: XmlElement, start: int, end: int) -> None:
    """Keep only the given characters of a run; its properties are unchanged."""
    at = 0
    for child in list(run):
        if child.tag in _TEXT:
            text = child.text or ""
            child.text = text[max(start - at, 0) : max(end - at, 0)]
            child.set(SPACE, "preserve")
            if not child.text:
                run.remove(child)
            at += len(text)
        elif child.tag in _BREAKS:
            if not start <= at < end:
                run.remove(child)
            at += 1
        elif child.tag != w("rPr") and start > 0 and at < start:
            run.remove(child)  # an image stays in the first half
        elif child.tag != w("rPr") and at >= end and start == 0 and at > 0:
            run.remove(child)
