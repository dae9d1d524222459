"""Files as other programs write them by default are clean; what these programs would repair or refuse is an error."""

import datetime
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from openpyxl.chart import BarChart, LineChart, Reference, ScatterChart, Series
from openpyxl.comments import Comment
from openpyxl.formatting.rule import CellIsRule, DataBarRule
from openpyxl.styles import Font, PatternFill
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from apps.office.check.check import check_file
from apps.office.libreoffice import convert
from tests.apps.office.test_check import codes, rewrite


def write_openpyxl(path: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row in (["Day", "Cups"], [datetime.datetime(2026, 1, 2), 1], [datetime.datetime(2026, 1, 3), 2]):
        sheet.append(row)
    sheet["D1"] = "=SUM(B2:B3)"
    sheet["A1"].font = Font(bold=True, italic=True, color="FF0000", size=14, underline="single", strike=True)
    sheet["B2"].comment = Comment("Which?", "Ann")
    for chart in (BarChart(), LineChart()):
        chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
        sheet.add_chart(chart, "F2")
    scatter = ScatterChart()
    cups = Reference(sheet, min_col=2, min_row=2, max_row=3)
    scatter.append(Series(cups, cups))
    sheet.add_chart(scatter, "F20")
    sheet.conditional_formatting.add("B2:B3", DataBarRule("min", None, "max", None, "FF638EC6"))
    low = CellIsRule(operator="lessThan", formula=["2"], font=Font(bold=True, color="FF0000"), fill=PatternFill())
    sheet.conditional_formatting.add("B2:B3", low)
    workbook.create_sheet("Empty")
    workbook.save(path)


def write_xlsxwriter(path: Path) -> None:
    import xlsxwriter

    workbook = xlsxwriter.Workbook(str(path))
    sheet = workbook.add_worksheet()
    sheet.write_column(0, 0, [1, 2, 3], workbook.add_format({"bold": True, "font_color": "red", "underline": 1}))
    sheet.write_formula("B1", "=SUM(A1:A3)")
    sheet.write_dynamic_array_formula("C1", "=SORT(A1:A3)")
    sheet.conditional_format("A1:A3", {"type": "data_bar"})
    chart = workbook.add_chart({"type": "stock"})
    for _ in range(3):
        chart.add_series({"values": "=Sheet1!$A$1:$A$3"})
    sheet.insert_chart("E2", chart)
    workbook.close()


def write_docx(path: Path) -> None:
    document = docx.Document()
    document.add_heading("Title", 0)
    run = document.add_paragraph("Some ").add_run("bold words")
    run.bold = True
    document.add_comment(run, text="Which?", author="Ann", initials="A")
    Image.new("RGB", (60, 40), "navy").save(path.with_suffix(".png"))
    document.add_picture(str(path.with_suffix(".png")))
    document.add_table(2, 2, style="Light Grid Accent 1").cell(0, 0).text = "cell"
    document.add_section()
    document.sections[0].header.paragraphs[0].text = "Head"
    document.add_paragraph("The end")
    document.save(str(path))


def write_pptx(path: Path) -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Cups"
    data = CategoryChartData()
    data.categories = ["a", "b"]
    data.add_series("s", (1, 2))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(2), Inches(5), Inches(4), data)
    presentation.save(str(path))


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "openpyxl": ("a.xlsx", write_openpyxl),
    "XlsxWriter": ("a.xlsx", write_xlsxwriter),
    "python-docx": ("a.docx", write_docx),
    "python-pptx": ("a.pptx", write_pptx),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_exported", [False, True], ids=["as written", "exported by LibreOffice"])
@pytest.mark.parametrize("writer", WRITERS)
def test_default_files_are_clean(writer: str, is_exported: bool, tmp_path: Path, libreoffice: Path) -> None:
    name, write = WRITERS[writer]
    path = tmp_path / name
    write(path)
    if is_exported:
        path = convert(path, tmp_path / f"exported-{name}")
    report = check_file(path)
    assert [one.to_text() for one in report.findings if one.level == "error"] == []
    assert len(report.opened_by) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writer", "part", "old", "new", "code"),
    [
        ("openpyxl", "xl/styles.xml", "<font><name", "<font><nonsense/><name", "schema"),
        ("openpyxl", "xl/worksheets/sheet1.xml", "<sheetData>", "<mergeCells/><sheetData>", "schema"),
        ("python-docx", "word/document.xml", "<w:rPr>", "<w:rPr><w:nonsense/>", "schema"),
        ("python-pptx", "ppt/slides/slide1.xml", "<p:cSld>", "<p:timing/><p:cSld>", "schema"),
    ],
)
def test_what_programs_repair_is_an_error(
    writer: str, part: str, old: str, new: str, code: str, tmp_path: Path, libreoffice: Path
) -> None:
    name, write = WRITERS[writer]
    write(tmp_path / name)
    damaged = rewrite(tmp_path / name, tmp_path / f"damaged-{name}", part, lambda text: text.replace(old, new, 1))
    assert code in codes(check_file(damaged))


@pytest.mark.slow
def test_values_count_if_programs_do_not_calculate_on_opening(tmp_path: Path, libreoffice: Path) -> None:
    write_openpyxl(tmp_path / "a.xlsx")
    path = rewrite(
        tmp_path / "a.xlsx", tmp_path / "b.xlsx", "xl/workbook.xml", lambda t: t.replace(' fullCalcOnLoad="1"', "")
    )
    assert codes(check_file(path)) == {"not-calculated"}


def rename_all(path: Path, target: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> Path:
    with zipfile.ZipFile(path) as file, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in file.namelist():
            copy.writestr(*change(name, file.read(name)))
    return target


def make_strict(name: str, data: bytes) -> tuple[str, bytes]:
    return name, re.sub(
        rb"http://schemas.openxmlformats.org/(\w+)/2006/(?!ext)", rb"http://purl.oclc.org/ooxml/\1/", data
    )


def rename_workbook(name: str, data: bytes) -> tuple[str, bytes]:
    is_root = name in ("_rels/.rels", "[Content_Types].xml")
    return name.replace("workbook.xml", "book2.xml"), data.replace(b"workbook.xml", b"book2.xml") if is_root else data


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fact"), [("a.docx", "words"), ("a.xlsx", "formulas"), ("a.pptx", "charts")])
def test_strict_files_are_read(name: str, fact: str, tmp_path: Path, libreoffice: Path) -> None:
    write = next(write for own, write in WRITERS.values() if own == name)
    write(tmp_path / name)
    report = check_file(rename_all(tmp_path / name, tmp_path / f"strict-{name}", make_strict))
    assert report.facts[fact] > 0 and "unreadable" not in codes(report)


@pytest.mark.slow
def test_wrong_endings_and_other_names_of_parts(tmp_path: Path, libreoffice: Path) -> None:
    write_openpyxl(tmp_path / "a.xlsx")
    report = check_file((tmp_path / "a.xlsx").rename(tmp_path / "a.docx"))
    assert codes(report) == {"wrong-suffix"} and report.facts["sheets"] == 2
    renamed = rename_all(tmp_path / "a.docx", tmp_path / "b.xlsx", rename_workbook)
    assert codes(check_file(renamed)) == set()


@pytest.mark.slow
def test_nested_tables_are_not_added_to_the_width(tmp_path: Path, libreoffice: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Outer")
    document.add_table(2, 2).cell(1, 1).add_table(1, 2).cell(0, 0).text = "inner"
    document.save(str(tmp_path / "a.docx"))
    assert codes(check_file(tmp_path / "a.docx")) == set()
