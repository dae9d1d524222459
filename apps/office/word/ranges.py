"""Text of a paragraph that lies across runs: find it, and cut the runs so that it has runs of its own."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

from apps.office.libraries import Document, Element
from apps.office.safe_xml import OfficeError
from envs.errors import nearest

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TEXT = {f"{{{W}}}t", f"{{{W}}}delText"}
_BREAKS = {f"{{{W}}}tab": "\t", f"{{{W}}}br": "\n", f"{{{W}}}cr": "\n", f"{{{W}}}noBreakHyphen": "-"}


def w(name: str) -> str:
    """A name of WordprocessingML as lxml writes it."""
    return f"{{{W}}}{name}"


def make(near: Element, tag: str, /, *children: Element, text: str = "", **attributes: str) -> Element:
    """A new element of WordprocessingML, for the document of another element.

    Args:
        near: An element of that document.
        tag: Name without its namespace; so are the attributes.
        children: What it holds.
        text: What it says; spaces at both ends count.
        attributes: By name; empty ones are left out.
    """
    made = near.makeelement(w(tag), {w(key): value for key, value in attributes.items() if value})
    for child in children:
        made.append(child)
    if text:
        made.text = text
        made.set(SPACE, "preserve")
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a text stands.

    Attributes:
        paragraph: The `w:p` element.
        start: First character within the paragraph's text.
        end: After the last one.
    """

    paragraph: Element
    start: int
    end: int


def body_paragraphs(document: Document) -> Iterator[Element]:
    """All `w:p` elements of the body in order, those in tables too."""
    yield from document.element.body.iter(w("p"))


def live_runs(paragraph: Element, *, with_deleted: bool = False) -> list[Element]:
    """The runs of a paragraph in order, those in links and insertions too."""
    runs = []
    for run in paragraph.iter(w("r")):
        above = [one.tag for one in run.iterancestors()]
        if paragraph_of(run) is not paragraph or w("txbxContent") in above[: above.index(paragraph.tag)]:
            continue
        if with_deleted or w("del") not in above:
            runs.append(run)
    return runs


def paragraph_of(element: Element) -> Element:
    """The nearest `w:p` above."""
    return next(one for one in element.iterancestors() if one.tag == w("p"))


def run_text(run: Element) -> str:
    """The text of a run; tabs and breaks count one character each."""
    pieces = []
    for child in run:
        if child.tag in _TEXT:
            pieces.append(child.text or "")
        else:
            pieces.append(_BREAKS.get(child.tag, ""))
    return "".join(pieces)


def text_of(paragraph: Element, *, with_deleted: bool = False) -> str:
    """The text of a paragraph as it reads now: what is deleted by a tracked change is left out."""
    return "".join(run_text(run) for run in live_runs(paragraph, with_deleted=with_deleted))


def find_text(document: Document, text: str, occurrence: int = 1) -> Place:
    """Where a text stands for the n-th time in the body.

    Raises:
        OfficeError: It does not; the nearest paragraph is named.
    """
    if not text.strip():
        raise OfficeError("the text to look for is empty; expected words that stand in the document")
    seen, texts = 0, []
    for paragraph in body_paragraphs(document):
        whole = text_of(paragraph)
        texts.append(whole)
        start = whole.find(text)
        while start >= 0:
            seen += 1
            if seen == occurrence:
                return Place(paragraph=paragraph, start=start, end=start + len(text))
            start = whole.find(text, start + len(text))
    if seen:
        raise OfficeError(f"{text!r} stands {seen} times in the document, not {occurrence} times")
    near = nearest(text, [one[:200] for one in texts if one.strip()])
    hint = f"; the nearest paragraph is {near[0]!r}" if near else ""
    raise OfficeError(f"{text[:80]!r} does not stand in one paragraph of the document{hint}")


def isolate(place: Place) -> list[Element]:
    """Cut runs at both ends of a place, so that some runs hold its text and nothing else; returns them."""
    chosen, at = [], 0
    for run in live_runs(place.paragraph):
        length = len(run_text(run))
        start, end = max(place.start - at, 0), min(place.end - at, length)
        if length and start < end:
            middle = _cut(run, start)[1] if start else run
            chosen.append(_cut(middle, end - start)[0] if end < length else middle)
        at += length
    if not chosen:
        raise OfficeError("there is no text at that place")
    return chosen


def _cut(run: Element, at: int) -> tuple[Element, Element]:
    """Make two runs of one, alike in all but text; the first keeps what is no text and stands before the cut."""
    second = deepcopy(run)
    run.addnext(second)
    _keep(run, 0, at)
    _keep(second, at, len(run_text(second)))
    return run, second


def _keep(run: Element, start: int, end: int) -> None:
    """Leave only these characters in a run; its properties stay."""
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
