"""Markdown to docx and pdf, chapters merged, whole files merged, forms filled, files compared."""

from pathlib import Path

import docx
import openpyxl
import pypdf
import pytest
from PIL import Image

from apps.office.check.check import check_file
from apps.office.diff import compare_files
from apps.office.libreoffice import render_pdf
from apps.office.markdown import Manuscript, cited_keys, merge_bibliographies, merge_manuscripts, write_docx, write_pdf
from apps.office.merge import fill_form, merge_documents, merge_pdfs, read_form
from apps.office.pages import read_bookmarks, read_pages
from apps.office.safe_xml import OfficeError


def chapter(name: str, folder: Path, key: str) -> Manuscript:
    Image.new("RGB", (30, 20), "red").save(folder / f"{name}.png")
    return Manuscript(
        text=f"# {name}\n\nSee @fig:f and [@{key}].[^1]\n\n[^1]: Note of {name}.\n\n![Image]({name}.png){{#fig:f}}\n",
        bibliography=f"@book{{{key}, author={{{key.title()}, A.}}, title={{On {{Things}}}}, year=2001, publisher={{P}}}}",  # noqa: E501
        folder=folder,
    )


def test_chapters_merge(tmp_path: Path) -> None:
    whole = merge_manuscripts([chapter("One", tmp_path, "ann"), chapter("Two", tmp_path, "bo")], "Both")
    write_docx(whole, tmp_path / "a.docx", contents=False)
    texts = [one.text for one in docx.Document(str(tmp_path / "a.docx")).paragraphs if one.text]
    assert [one for one in texts if one.startswith("See")] == [
        "See Figure 1 and (Ann 2001).",
        "See Figure 2 and (Bo 2001).",
    ]
    assert [one for one in texts if one.startswith("Figure")] == ["Figure 1: Image", "Figure 2: Image"]
    assert texts[-2:] == ["Ann, A. 2001. On Things. P.", "Bo, A. 2001. On Things. P."]
    assert cited_keys(whole.text) == {"ann", "bo"}


def test_one_key_for_two_works(tmp_path: Path) -> None:
    assert merge_bibliographies(["@book{a, title={X}}", "@book{a,  title = {X}}"]).count("@book") == 1
    with pytest.raises(OfficeError, match="'a' is used for two different works"):
        merge_bibliographies(["@book{a, title={X}}", "@book{a, title={Y}}"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("![x](no.png)", "image 'no.png' is not in"),
        ("![x](http://example.com/x.png)", "images are not downloaded"),
        ("See @fig:gone", "refers to the label 'fig:gone', which does not exist"),
        ("Cited [@nobody]", "pandoc warns: .*nobody"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(OfficeError, match=said):
        write_docx(Manuscript(text=text, bibliography="@book{a, title={X}}", folder=tmp_path), tmp_path / "a.docx")


def test_pdf_is_the_same_text(tmp_path: Path) -> None:
    write_pdf(chapter("One", tmp_path, "ann"), tmp_path / "a.pdf")
    text = pypdf.PdfReader(tmp_path / "a.pdf").pages[0].extract_text()
    assert "See Figure 1" in text and "Note of One." in text and "Ann, A. 2001." in text


def test_whole_files_merge(tmp_path: Path) -> None:
    for name in ("a", "b"):
        document = docx.Document()
        document.add_heading(f"Part {name}", 1)
        document.add_paragraph("An item", style="List Number")
        document.save(str(tmp_path / f"{name}.docx"))
        write_pdf(Manuscript(text=f"# Part {name}"), tmp_path / f"{name}.pdf")
    merge_documents([tmp_path / "a.docx", tmp_path / "b.docx"], tmp_path / "c.docx")
    assert [one.text for one in docx.Document(str(tmp_path / "c.docx")).paragraphs if one.text] == [
        "Part a",
        "An item",
        "Part b",
        "An item",
    ]
    merge_pdfs([tmp_path / "a.pdf", tmp_path / "b.pdf"], tmp_path / "c.pdf")
    reader = pypdf.PdfReader(tmp_path / "c.pdf")
    assert len(reader.pages) == 2
    assert [one["/Title"] for one in reader.outline if not isinstance(one, list)] == ["a", "b"]
    with pytest.raises(OfficeError, match="no documents"):
        merge_documents([], tmp_path / "d.docx")


def make_form(path: Path) -> Path:
    from pypdf.generic import ArrayObject, DictionaryObject, FloatObject, NameObject, TextStringObject

    writer = pypdf.PdfWriter()
    page = writer.add_blank_page(300, 200)
    field = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Annot"),
            NameObject("/Subtype"): NameObject("/Widget"),
            NameObject("/FT"): NameObject("/Tx"),
            NameObject("/T"): TextStringObject("name"),
            NameObject("/DA"): TextStringObject("/Helv 12 Tf 0 g"),
            NameObject("/Rect"): ArrayObject([FloatObject(one) for one in (20, 100, 200, 130)]),
        }
    )
    reference = writer._add_object(field)
    page[NameObject("/Annots")] = ArrayObject([reference])
    form = DictionaryObject({NameObject("/Fields"): ArrayObject([reference])})
    writer._root_object[NameObject("/AcroForm")] = writer._add_object(form)
    writer.write(path)
    return path


def test_form(tmp_path: Path) -> None:
    form = make_form(tmp_path / "a.pdf")
    assert [(one.name, one.kind, one.value) for one in read_form(form)] == [("name", "text", "")]
    fill_form(form, {"name": "Ada"}, tmp_path / "b.pdf")
    assert read_form(tmp_path / "b.pdf")[0].value == "Ada"
    with pytest.raises(OfficeError, match=r"no field 'nam'.*'name'"):
        fill_form(form, {"nam": "Ada"}, tmp_path / "c.pdf")


def test_documents_compared(tmp_path: Path) -> None:
    for name, text in (("a", "The total is 100 euros."), ("b", "The total is 120 euros.")):
        document = docx.Document()
        document.add_paragraph("Same")
        document.add_paragraph(text)
        if name == "b":
            document.add_paragraph("New at the end")
        document.save(str(tmp_path / f"{name}.docx"))
    found = compare_files(tmp_path / "a.docx", tmp_path / "b.docx")
    assert [(one.kind, one.before, one.after) for one in found.changes] == [
        ("changed", "The total is 100 euros.", "The total is 120 euros."),
        ("added", "", "New at the end"),
    ]
    assert compare_files(tmp_path / "a.docx", tmp_path / "a.docx").changes == []


def test_workbooks_compared(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    workbook.active["A1"], workbook.active["A2"] = 1, "=A1*2"
    workbook.save(tmp_path / "a.xlsx")
    workbook.active["A2"], workbook.active["B1"] = "=A1*3", "x"
    workbook.create_sheet("New")
    workbook.save(tmp_path / "b.xlsx")
    found = compare_files(tmp_path / "a.xlsx", tmp_path / "b.xlsx")
    assert [(one.kind, one.where) for one in found.changes] == [
        ("changed", "Sheet!A2"),
        ("added", "Sheet!B1"),
        ("added", "sheet New"),
    ] or [(one.kind, one.where) for one in found.changes] == [
        ("added", "Sheet!B1"),
        ("changed", "Sheet!A2"),
        ("added", "sheet New"),
    ]
    with pytest.raises(OfficeError, match="expected two files of the same kind"):
        compare_files(tmp_path / "a.xlsx", write_pdf(Manuscript(text="x"), tmp_path / "c.pdf"))


NUMBERED = """# Intro {#sec:intro}

$$E = mc^2$$ {#eq:energy}

## Cups

![No label](a.png)

![A cup](a.png){#fig:cup}

|a|
|-|
|1|

|b|
|-|
|2|

: Prices {#tbl:prices}

Before $$z = 1$$ after.

## Aside {-}

# Method {#sec:method}

### Deep {#sec:deep}

See @fig:cup, @tbl:prices, @eq:energy, @sec:method and [@sec:deep], and [@doe].
"""


@pytest.mark.slow
def test_docx_and_pdf_have_the_same_numbers(tmp_path: Path, libreoffice: Path) -> None:
    Image.new("RGB", (30, 20), "red").save(tmp_path / "a.png")
    works = "@book{doe, author={Doe, Jo}, title={A Book}, publisher={P}, year={2001}}"
    manuscript = Manuscript(text=NUMBERED, folder=tmp_path, bibliography=works)
    write_pdf(manuscript, tmp_path / "a.pdf")
    drawn = render_pdf(write_docx(manuscript, tmp_path / "a.docx"), tmp_path / "drawn.pdf")
    for path in (tmp_path / "a.pdf", drawn):
        text = " ".join(" ".join(page.text for page in read_pages(path)).replace("\u00a0", " ").split())
        titles = [title for _, title, _ in read_bookmarks(path)]
        assert [title.split()[-1] for title in titles] == ["Intro", "Cups", "Aside", "Method", "Deep", "References"]
        for piece in ("1 Intro", "1.1 Cups", "2 Method", "2.0.1 Deep", "Figure 2: A cup", "Table 1: Prices", "(1)"):
            assert piece in text, (path, piece)
        assert "See Figure 2, Table 1, Equation 1, Section 2 and Section 2.0.1" in text
        assert "(2)" in text and "(3)" not in text and "1.2 Aside" not in text
        assert "and (Doe 2001). References Doe, Jo." in text
    assert "1 Contents" not in text
    report = check_file(tmp_path / "a.docx")
    assert [one.to_text() for one in report.findings if one.level == "error"] == []
    assert (report.facts["captions"], report.facts["equations"]) == (3, 2)
