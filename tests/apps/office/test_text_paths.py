"""Paths as texts: every public function takes them, with the result that a `Path` has."""

from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from PIL import Image

import apps.office as office
from apps.office.agent import OfficeRequest
from tests.apps.office.test_documents import make_form


def test_files_of_all_kinds_by_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (30, 20), "red").save("a.png")
    manuscript = office.Manuscript(text="# One\n\n![A](a.png){#fig:a}\n\nSee @fig:a.", folder=str(tmp_path))  # type: ignore[arg-type]
    assert office.write_pdf(manuscript, "a.pdf") == Path("a.pdf")
    assert office.write_docx(manuscript, "a.docx", contents=False) == Path("a.docx")
    assert office.find_kind("a.docx") == "docx"
    assert office.open_package("a.docx").save("b.docx") == Path("b.docx")
    assert len(office.read_pages("a.pdf")) == 1
    assert office.merge_documents(["a.docx", Path("b.docx")], "c.docx") == Path("c.docx")
    assert office.merge_pdfs(["a.pdf", "a.pdf"], "c.pdf") == Path("c.pdf")
    assert office.compare_files("a.docx", "b.docx").changes == []
    make_form(tmp_path / "form.pdf")
    assert office.fill_form("form.pdf", {"name": "Ada"}, "filled.pdf") == Path("filled.pdf")
    assert office.read_form("filled.pdf")[0].value == "Ada"
    workbook = openpyxl.Workbook()
    workbook.active["A1"] = 1
    assert office.save_workbook(workbook, "a.xlsx") == Path("a.xlsx")
    assert office.open_workbook("a.xlsx").active["A1"].value == 1
    assert list(office.iterate_rows("a.xlsx")) == [(1,)]
    presentation = pptx.Presentation()
    office.place_image(office.new_slide(presentation, "Title Only", "One"), "a.png")
    assert office.save_presentation(presentation, "a.pptx") == office.tidy("a.pptx") == Path("a.pptx")
    with pytest.raises(office.OfficeError, match=r"no.docx cannot be read"):
        office.open_package("no.docx")
    request = OfficeRequest(instruction="x", output="out", files=("a.docx",))  # type: ignore[arg-type]
    assert (request.output, request.files) == (Path("out"), (Path("a.docx"),))


@pytest.mark.slow
def test_rendering_by_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, libreoffice: Path) -> None:
    monkeypatch.chdir(tmp_path)
    document = docx.Document()
    document.add_heading("One", 1)
    office.add_contents(document)
    document.save("a.docx")
    assert office.render_pdf("a.docx", "a.pdf") == Path("a.pdf")
    assert office.number_contents("a.docx", "a.pdf") == 1
    assert office.convert("a.docx", "a.odt") == Path("a.odt")
    workbook = openpyxl.Workbook()
    workbook.active["A1"] = "=1+1"
    workbook.save("a.xlsx")
    assert [cell.value for cell in office.calculate("a.xlsx")] == [2]
    assert office.fill_values("a.xlsx") == 1
    report = office.check_file("a.xlsx", "pages", ["formulas=1"])
    assert report.is_clean and Path("pages/page-001.png").is_file()
