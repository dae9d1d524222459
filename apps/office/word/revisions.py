"""Tracked changes of a docx file, which python-docx does not support: write, read, accept or reject them."""

import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from apps.office.libraries import XmlElement
from apps.office.safe_xml import OfficeError
from apps.office.word.ranges import find_text, isolate_runs, live_runs, make_element, paragraph_of, run_text, w

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

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
    """Tracked change.

    Attributes:
        id: Number in the file.
        kind: Kind of change.
        text: Inserted or deleted text; for a format change, the formatted text.
        author: Author of the change.
        date: Date as written in the file.
        paragraph: Text of the paragraph with all changes accepted.
    """

    id: str
    kind: ChangeKind
    text: str
    author: str
    date: str
    paragraph: str


def replace_tracked(document: "DocxDocument", old: str, new: str, *, author: str, occurrence: int = 1) -> None:
    """Replace words by a tracked deletion and insertion; the new words have the format of the old ones.

    Raises:
        OfficeError: If the old words are not found.
    """
    runs = isolate_runs(find_text(document, old, occurrence))
    deleted = _mark_deleted(document, runs, author)
    if new:
        deleted.addnext(_inserted(document, new, runs[0], author))


def delete_tracked(document: "DocxDocument", text: str, *, author: str, occurrence: int = 1) -> None:
    """Delete words by a tracked change; raises like `replace_tracked`."""
    _mark_deleted(document, isolate_runs(find_text(document, text, occurrence)), author)


def insert_tracked(document: "DocxDocument", text: str, *, after: str, author: str, occurrence: int = 1) -> None:
    """Insert words after others by a tracked change; raises like `replace_tracked`."""
    text_range = find_text(document, after, occurrence)
    runs = isolate_runs(text_range)
    inside = runs[-1].getparent()
    anchor = inside if inside.tag in _NEW else runs[-1]
    anchor.addnext(_inserted(document, text, runs[-1], author))


def read_revisions(document: "DocxDocument") -> list[Revision]:
    """Return all tracked changes of the body in order."""
    revisions = []
    for element in document.element.body.iter(*_KINDS):
        above = next((ancestor for ancestor in element.iterancestors() if ancestor.tag == w("p")), None)
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
        revisions.append(
            Revision(
                id=element.get(w("id"), ""),
                kind=kind,
                text=text,
                author=element.get(w("author"), ""),
                date=element.get(w("date"), ""),
                paragraph="".join(run_text(run) for run in live_runs(above)),
            )
        )
    return revisions


def accept_revisions(document: "DocxDocument", *, author: str | None = None) -> int:
    """Accept tracked changes, of one author only if given, and return their number."""
    return _settle(document, author, keep=_NEW, drop=_OLD, settle_format=_drop)


def reject_revisions(document: "DocxDocument", *, author: str | None = None) -> int:
    """Reject tracked changes, of one author only if given, and return their number."""
    return _settle(document, author, keep=_OLD, drop=_NEW, settle_format=_restore)


def _settle(
    document: "DocxDocument",
    author: str | None,
    *,
    keep: set[str],
    drop: set[str],
    settle_format: Callable[[XmlElement], None],
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


def _settle_mark(element: XmlElement, *, is_dropped: bool) -> None:
    """Accept or reject the insertion or deletion of a paragraph end or a table row."""
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
        for child in [element for element in following if element.tag != w("pPr")]:
            paragraph.append(child)
        following.getparent().remove(following)
    elif not any(run_text(run) for run in live_runs(paragraph)):
        paragraph.getparent().remove(paragraph)


def _unwrap(element: XmlElement) -> None:
    parent, at = element.getparent(), element.getparent().index(element)
    for child in reversed(list(element)):
        for text in child.iter(w("delText")):
            text.tag = w("t")
        parent.insert(at, child)
    parent.remove(element)


def _drop(element: XmlElement) -> None:
    element.getparent().remove(element)


def _restore(element: XmlElement) -> None:
    """Restore the earlier format."""
    holder = element.getparent()
    earlier = element[0] if len(element) else None
    if earlier is None:
        holder.remove(element)
        return
    holder.getparent().replace(holder, deepcopy(earlier))


def _mark_deleted(document: "DocxDocument", runs: list[XmlElement], author: str) -> XmlElement:
    """Wrap each run in a tracked deletion, and return the last wrapper."""
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


def _split_before_and_after(inserted: XmlElement, run: XmlElement) -> None:
    """Move one run of an insertion into its own insertion."""
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


def _inserted(document: "DocxDocument", text: str, like: XmlElement, author: str) -> XmlElement:
    """Return an insertion whose run has the format of another run."""
    wrapped = _change(document, "ins", author, like)
    run = make_element(like, "r")
    properties = like.find(w("rPr"))
    if properties is not None:
        run.append(deepcopy(properties))
    for number, line in enumerate(text.split("\n")):
        if number:
            run.append(make_element(run, "br"))
        run.append(make_element(run, "t", text=line))
    wrapped.append(run)
    return wrapped


def _change(document: "DocxDocument", name: str, author: str, near: XmlElement) -> XmlElement:
    if not author.strip():
        raise OfficeError("a tracked change needs an author; expected a name")
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    number = str(next(_free_ids(document)))
    return make_element(near, name, id=number, author=author, date=stamp)


def _free_ids(document: "DocxDocument") -> Iterator[int]:
    """Yield ids that no change and no bookmark uses."""
    used_ids = {
        int(value)
        for element in document.element.body.iter(*_KINDS, w("bookmarkStart"))
        if (value := element.get(w("id"), "")).lstrip("-").isdigit()
    }
    return itertools.count(max(used_ids, default=900) + 1)
