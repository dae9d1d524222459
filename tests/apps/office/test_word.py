"""Comments, tracked changes, contents, captions, footnotes: written, read back by python-docx and by LibreOffice."""

import zipfile
from pathlib import Path

import docx
import pytest
from docx.document import Document

from apps.office.libreoffice import convert, render_pdf
from apps.office.safe_xml import OfficeError
from apps.office.word.comments import add_comment, read_comments, reply_to, resolve
from apps.office.word.fields import (
    add_caption,
    add_contents,
    add_footnote,
    add_reference,
    contents_paragraphs,
    number_contents,
)
from apps.office.word.ranges import text_of
from apps.office.word.revisions import (
    accept_revisions,
    delete_tracked,
    insert_tracked,
    read_revisions,
    reject_revisions,
    replace_tracked,
)


@pytest.fixture
def document() -> Document:
    made = docx.Document()
    made.add_heading("Report", 1)
    paragraph = made.add_paragraph("The total is ")
    paragraph.add_run("100").bold = True
    paragraph.add_run(" euros, paid in May.")
    return made


def again(document: Document, path: Path) -> Document:
    document.save(str(path))
    return docx.Document(str(path))


def body_text(document: Document) -> str:
    return "\n".join(text_of(one._p) for one in document.paragraphs)


def test_comment_stands_on_its_words(document: Document, tmp_path: Path) -> None:
    number = add_comment(document, "is 100 euros", "Check this.", author="Ann Lee")
    read = again(document, tmp_path / "a.docx")
    (comment,) = read_comments(read)
    assert (comment.id, comment.anchor, comment.author, comment.text) == (
        number,
        "is 100 euros",
        "Ann Lee",
        "Check this.",
    )
    assert read.paragraphs[1].text == "The total is 100 euros, paid in May."
    assert [run.text for run in read.paragraphs[1].runs if run.bold] == ["100"]


def test_thread(document: Document, tmp_path: Path) -> None:
    first = add_comment(document, "May", "Which year?", author="Ann")
    answer = reply_to(document, first, "2026.", author="Bo")
    other = add_comment(document, "100", "Net?", author="Ann")
    resolve(document, first)
    found = {one.id: one for one in read_comments(again(document, tmp_path / "a.docx"))}
    assert (found[answer].parent, found[answer].anchor, found[first].parent) == (first, "May", None)
    assert (found[first].is_resolved, found[other].is_resolved) == (True, False)


def test_missing_words_are_named(document: Document) -> None:
    with pytest.raises(OfficeError, match=r"nearest paragraph is 'The total is 100 euros"):
        add_comment(document, "The total was 100 euros, paid in May", "?", author="Ann")
    with pytest.raises(OfficeError, match="1 times"):
        add_comment(document, "May", "?", author="Ann", occurrence=2)


def test_tracked_changes_accepted_and_rejected(document: Document, tmp_path: Path) -> None:
    before = body_text(document)
    replace_tracked(document, "is 100", "was 120", author="Ann")
    insert_tracked(document, " and June", after="May", author="Bo")
    delete_tracked(document, "euros, ", author="Ann")
    changed = again(document, tmp_path / "a.docx")
    assert body_text(changed) == "Report\nThe total was 120 paid in May and June."
    assert [(one.kind, one.text) for one in read_revisions(changed)] == [
        ("deleted", "is "),
        ("deleted", "100"),
        ("inserted", "was 120"),
        ("deleted", "euros, "),
        ("inserted", " and June"),
    ]
    accept_revisions(changed)
    assert body_text(changed) == "Report\nThe total was 120 paid in May and June."
    assert read_revisions(changed) == []
    rejected = docx.Document(str(tmp_path / "a.docx"))
    reject_revisions(rejected)
    assert body_text(rejected) == before
    assert read_revisions(rejected) == []


def test_one_author_only(document: Document) -> None:
    replace_tracked(document, "100", "120", author="Ann")
    replace_tracked(document, "May", "June", author="Bo")
    assert accept_revisions(document, author="Bo") == 2
    reject_revisions(document)
    assert body_text(document) == "Report\nThe total is 100 euros, paid in June."


def test_own_insertion_deleted_again(document: Document) -> None:
    insert_tracked(document, " soon or later", after="paid", author="Ann")
    delete_tracked(document, "or later", author="Bo")
    assert body_text(document) == "Report\nThe total is 100 euros, paid soon  in May."
    reject_revisions(document)
    assert body_text(document) == "Report\nThe total is 100 euros, paid in May."


def test_footnote_caption_reference(document: Document, tmp_path: Path) -> None:
    assert add_footnote(document, "100", "Without tax.") == 1
    assert add_footnote(document, "May", "Of 2026.") == 2
    add_caption(document.add_paragraph(style="Caption"), "Figure", "Sales", bookmark="fig_sales")
    add_caption(document.add_paragraph(style="Caption"), "Figure", "Costs")
    paragraph = document.add_paragraph("See ")
    add_reference(paragraph, "fig_sales")
    read = again(document, tmp_path / "a.docx")
    assert [one.text for one in read.paragraphs[-3:]] == ["Figure 1: Sales", "Figure 2: Costs", "See Figure 1"]
    with zipfile.ZipFile(tmp_path / "a.docx") as file:
        notes = file.read("word/footnotes.xml").decode()
    assert "Without tax." in notes and "Of 2026." in notes
    with pytest.raises(OfficeError, match="no bookmark 'fig_other'"):
        add_reference(paragraph, "fig_other")


@pytest.mark.long
def test_contents_get_their_pages(document: Document, tmp_path: Path, libreoffice: Path) -> None:
    for number in range(1, 4):
        document.add_page_break()
        document.add_heading(f"Part {number}", 1)
        document.add_heading(f"Detail {number}", 2)
    add_contents(document)
    path = tmp_path / "a.docx"
    document.save(str(path))
    assert number_contents(path, render_pdf(path, tmp_path / "a.pdf")) == 7
    entries = [text_of(one) for one in contents_paragraphs(docx.Document(str(path)))]
    assert entries == [
        "Report\t1",
        *(f"{name} {number}\t{number + 1}" for number in range(1, 4) for name in ("Part", "Detail")),
    ]


@pytest.mark.long
def test_libreoffice_sees_comments_and_changes(document: Document, tmp_path: Path, libreoffice: Path) -> None:
    add_comment(document, "is 100 euros", "Check this.", author="Ann Lee")
    replace_tracked(document, "May", "June", author="Bo")
    document.save(str(tmp_path / "a.docx"))
    with zipfile.ZipFile(convert(tmp_path / "a.docx", tmp_path / "a.odt")) as file:
        content = file.read("content.xml").decode()
    assert "Check this." in content and content.count("<office:annotation ") == 1
    assert content.count("<text:insertion>") == content.count("<text:deletion>") == 1
