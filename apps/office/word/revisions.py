"""Tracked changes of a docx file: write them, read them, accept or reject them. python-docx knows none of this."""

import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from apps.office.libraries import Document, Element
from apps.office.safe_xml import OfficeError
from apps.office.word.ranges import find_text, isolate, live_runs, make, paragraph_of, run_text, w

ChangeKind = Literal["inserted", "deleted", "moved", "formatted"]
_KINDS: dict[str, ChangeKind] = {
    w("ins"): "inserted",
    w("del"): "deleted",
    w("moveTo"): "inserted",
    w("moveFrom"): "deleted",
    **{
        w(name): "formatted"
        for name in ("rPrChange", "pPrChange", "tblPrChange", "trPrChange", "tcPrChange", "sectPrChange")
    },
}
_MOVE_MARKS = tuple(
    w(name) for name in ("moveFromRangeStart", "moveFromRangeEnd", "moveToRangeStart", "moveToRangeEnd")
)
_NEW, _OLD = {w("ins"), w("moveTo")}, {w("del"), w("moveFrom")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A tracked change.

    Attributes:
        id: Its number in the file.
        kind: What was done.
        text: What was inserted or deleted; of a format, the text that has it.
        author: Who did it.
        date: When, as the file says it.
        paragraph: Text of the paragraph as it reads with all changes accepted.
    """

    id: str
    kind: ChangeKind
    text: str
    author: str
    date: str
    paragraph: str


def replace_tracked(document: Document, old: str, new: str, *, author: str, occurrence: int = 1) -> None:
    """Replace words by a tracked deletion and insertion; the new words look as the old ones.

    Raises:
        OfficeError: The old words do not stand there.
    """
    runs = isolate(find_text(document, old, occurrence))
    deleted = _mark_deleted(document, runs, author)
    if new:
        deleted.addnext(_inserted(document, new, runs[0], author))


def delete_tracked(document: Document, text: str, *, author: str, occurrence: int = 1) -> None:
    """Delete words by a tracked change; raises as `replace_tracked`."""
    _mark_deleted(document, isolate(find_text(document, text, occurrence)), author)


def insert_tracked(document: Document, text: str, *, after: str, author: str, occurrence: int = 1) -> None:
    """Insert words after others by a tracked change; raises as `replace_tracked`."""
    place = find_text(document, after, occurrence)
    runs = isolate(place)
    inside = runs[-1].getparent()
    anchor = inside if inside.tag in _NEW else runs[-1]
    anchor.addnext(_inserted(document, text, runs[-1], author))


def read_revisions(document: Document) -> list[Revision]:
    """All tracked changes of the body in order."""
    found = []
    for element in document.element.body.iter(*_KINDS):
        above = next((one for one in element.iterancestors() if one.tag == w("p")), None)
        if above is None:
            continue
        kind = _KINDS[element.tag]
        runs = list(element.iter(w("r")))
        if kind == "formatted":
            holder = element.getparent().getparent()
            runs = [holder] if holder.tag == w("r") else list(live_runs(above))
        text = "".join(run_text(run) for run in runs)
        if not text and element.getparent().tag == w("rPr"):
            text = "¶"
        found.append(
            Revision(
                id=element.get(w("id"), ""),
                kind=kind,
                text=text,
                author=element.get(w("author"), ""),
                date=element.get(w("date"), ""),
                paragraph="".join(run_text(run) for run in live_runs(above)),
            )
        )
    return found


def accept_revisions(document: Document, *, author: str | None = None) -> int:
    """Make tracked changes final; returns how many. Of one author only, when named."""
    return _settle(document, author, keep=_NEW, drop=_OLD, settle_format=_drop)


def reject_revisions(document: Document, *, author: str | None = None) -> int:
    """Take tracked changes back; returns how many. Of one author only, when named."""
    return _settle(document, author, keep=_OLD, drop=_NEW, settle_format=_restore)


def _settle(
    document: Document, author: str | None, *, keep: set[str], drop: set[str], settle_format: Callable[[Element], None]
) -> int:
    count = 0
    for element in list(document.element.body.iter(*_KINDS)):
        if element.getparent() is None or (author is not None and element.get(w("author")) != author):
            continue
        count += 1
        if element.tag not in keep | drop:
            settle_format(element)
        elif element.getparent().tag in (w("rPr"), w("trPr")):
            _settle_mark(element, is_dropped=element.tag in drop)
        elif element.tag in drop:
            element.getparent().remove(element)
        else:
            _unwrap(element)
    for element in list(document.element.body.iter(*_MOVE_MARKS)):
        element.getparent().remove(element)
    return count


def _settle_mark(element: Element, *, is_dropped: bool) -> None:
    """The end of a paragraph, or a row of a table, that was inserted or deleted."""
    holder = element.getparent()
    holder.remove(element)
    if not is_dropped:
        return
    if holder.tag == w("trPr"):
        row = holder.getparent()
        row.getparent().remove(row)
        return
    paragraph = paragraph_of(holder)
    following = paragraph.getnext()
    if following is not None and following.tag == w("p"):
        for child in [one for one in following if one.tag != w("pPr")]:
            paragraph.append(child)
        following.getparent().remove(following)
    elif not any(run_text(run) for run in live_runs(paragraph)):
        paragraph.getparent().remove(paragraph)


def _unwrap(element: Element) -> None:
    parent, at = element.getparent(), element.getparent().index(element)
    for child in reversed(list(element)):
        for text in child.iter(w("delText")):
            text.tag = w("t")
        parent.insert(at, child)
    parent.remove(element)


def _drop(element: Element) -> None:
    element.getparent().remove(element)


def _restore(element: Element) -> None:
    """Put the earlier format in the place of the present one."""
    holder = element.getparent()
    earlier = element[0] if len(element) else None
    if earlier is None:
        holder.remove(element)
        return
    holder.getparent().replace(holder, deepcopy(earlier))


def _mark_deleted(document: Document, runs: list[Element], author: str) -> Element:
    """Wrap each run in a deletion; returns the last one. An insertion of the same author just goes."""
    last = runs[-1]
    for run in runs:
        inserted = run.getparent() if run.getparent().tag in _NEW else None
        if inserted is not None and len(inserted) > 1:
            _split_before_and_after(inserted, run)
            inserted = run.getparent()
        wrapped = _change(document, "del", author, run)
        run.addprevious(wrapped)
        wrapped.append(run)
        for text in run.iter(w("t")):
            text.tag = w("delText")
        last = wrapped if inserted is None else inserted
    return last


def _split_before_and_after(inserted: Element, run: Element) -> None:
    """Give one run of an insertion an insertion of its own."""
    own = inserted.makeelement(inserted.tag, dict(inserted.attrib))
    rest = inserted.makeelement(inserted.tag, dict(inserted.attrib))
    for later in list(run.itersiblings()):
        rest.append(later)
    own.append(run)
    inserted.addnext(own)
    if len(rest):
        own.addnext(rest)
    if not len(inserted):
        inserted.getparent().remove(inserted)


def _inserted(document: Document, text: str, like: Element, author: str) -> Element:
    """An insertion whose run looks as another run."""
    wrapped = _change(document, "ins", author, like)
    run = make(like, "r")
    properties = like.find(w("rPr"))
    if properties is not None:
        run.append(deepcopy(properties))
    for number, line in enumerate(text.split("\n")):
        if number:
            run.append(make(run, "br"))
        run.append(make(run, "t", text=line))
    wrapped.append(run)
    return wrapped


def _change(document: Document, name: str, author: str, near: Element) -> Element:
    if not author.strip():
        raise OfficeError("a tracked change needs an author; expected a name")
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    number = str(next(_free_ids(document)))
    return make(near, name, id=number, author=author, date=stamp)


def _free_ids(document: Document) -> Iterator[int]:
    """Numbers that no change and no bookmark has."""
    taken = {
        int(value)
        for element in document.element.body.iter(*_KINDS, w("bookmarkStart"))
        if (value := element.get(w("id"), "")).lstrip("-").isdigit()
    }
    return itertools.count(max(taken, default=900) + 1)
