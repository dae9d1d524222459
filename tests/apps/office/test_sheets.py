"""Pivot tables, formulas, texts: written, calculated by LibreOffice, compared."""

import random
from pathlib import Path

import openpyxl
import pytest
from openpyxl.styles import Alignment, Font

from apps.office.check.findings import CheckReport
from apps.office.check.workbook import _check_cells as check_cells
from apps.office.check.workbook import find_far_cell
from apps.office.corrections import tidy
from apps.office.diff import _compare_cells as compare_cells
from apps.office.libreoffice import convert
from apps.office.package import open_package
from apps.office.safe_xml import OfficeError
from apps.office.sheets.pivot_writer import add_pivot
from apps.office.sheets.pivots import check_pivot, read_pivots
from apps.office.sheets.recalculate import calculate, check_values, stored_cells
from apps.office.sheets.workbook import (
    csv_safe,
    find_losses,
    iterate_rows,
    open_workbook,
    save_workbook,
    write_text,
)


def make_sales(count: int = 60) -> openpyxl.Workbook:
    draw = random.Random(3)
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Sales"
    sheet.append(["Region", "Quarter", "Product", "Amount", "Units"])
    for _ in range(count):
        row = [draw.choice(["North", "South", "East"]), draw.choice(["Q1", "Q2"]), draw.choice(["Pen", "Ink"])]
        sheet.append([*row, draw.randint(1, 900) / 4, draw.randint(1, 9)])
    return workbook


def faults_of(path: Path) -> list[str]:
    values = openpyxl.load_workbook(path, data_only=True)
    found = []
    for pivot in read_pivots(open_package(path)):
        found += check_pivot(pivot, values[pivot.source.partition("!")[0]], values[pivot.sheet])
    return found


LAYOUTS = {
    "crossed": {"rows": ["Region"], "columns": ["Quarter"], "values": {"Amount": "sum"}},
    "nested": {"rows": ["Region", "Product"], "columns": ["Quarter"], "values": {"Amount": "average"}},
    "many values": {"rows": ["Product"], "values": {"Amount": "sum", "Units": "max"}},
    "counted": {"rows": ["Quarter"], "values": {"Region": "count"}},
}


@pytest.mark.parametrize(
    "layout", [pytest.param(name, marks=() if name == "crossed" else pytest.mark.slow) for name in LAYOUTS]
)
def test_pivot_shows_its_numbers_before_and_after_a_refresh(layout: str, tmp_path: Path, libreoffice: Path) -> None:
    workbook = make_sales()
    add_pivot(workbook.create_sheet("Summary"), workbook["Sales"], **LAYOUTS[layout])  # type: ignore[arg-type]
    path = tmp_path / "a.xlsx"
    workbook.save(path)
    assert faults_of(path) == []
    refreshed = convert(path, tmp_path / "b.xlsx")
    assert len(read_pivots(open_package(refreshed))) == 1
    assert faults_of(refreshed) == []


def test_pivot_is_read_as_written(tmp_path: Path) -> None:
    workbook = make_sales()
    written = add_pivot(
        workbook.create_sheet("Summary"),
        workbook["Sales"],
        rows=["Region"],
        columns=["Quarter"],
        values={"Amount": "sum"},
    )
    workbook.save(tmp_path / "a.xlsx")
    assert read_pivots(open_package(tmp_path / "a.xlsx")) == [written]


@pytest.mark.parametrize(
    ("cell", "value", "said"),
    [("B5", 1.0, "East / Q1"), ("D8", 0.5, "for Total"), ("C6", 7.0, "North / Q2")],
)
def test_wrong_number_in_a_pivot_is_found(tmp_path: Path, cell: str, value: float, said: str) -> None:
    workbook = make_sales()
    sheet = workbook.create_sheet("Summary")
    add_pivot(sheet, workbook["Sales"], rows=["Region"], columns=["Quarter"], values={"Amount": "sum"})
    sheet[cell] = value
    workbook.save(tmp_path / "a.xlsx")
    (fault,) = faults_of(tmp_path / "a.xlsx")
    assert said in fault


def test_changed_source_is_found(tmp_path: Path) -> None:
    workbook = make_sales()
    add_pivot(workbook.create_sheet("Summary"), workbook["Sales"], rows=["Region"], values={"Amount": "sum"})
    workbook["Sales"].delete_rows(61)
    workbook["Sales"]["A1"] = "Area"
    workbook.save(tmp_path / "a.xlsx")
    assert any("has no field 'Region'" in one for one in faults_of(tmp_path / "a.xlsx"))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"rows": ["Regoin"], "values": {"Amount": "sum"}}, "Did you mean 'Region'"),
        ({"rows": ["Region"], "values": {"Product": "sum"}}, "sum needs numbers"),
        ({"rows": ["Region"], "values": {"Amount": "median"}}, "not an aggregation"),
        ({"rows": [], "values": {"Amount": "sum"}}, "at least one field of rows"),
        ({"rows": ["Region"], "columns": ["Region"], "values": {"Amount": "sum"}}, "more than once"),
    ],
)
def test_impossible_pivots_are_refused(request_: dict[str, object], said: str) -> None:
    workbook = make_sales(5)
    with pytest.raises(OfficeError, match=said):
        add_pivot(workbook.create_sheet("S"), workbook["Sales"], **request_)  # type: ignore[arg-type]


@pytest.mark.slow
def test_values_are_calculated_and_stored(tmp_path: Path, libreoffice: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row, value in enumerate([10, 20, 12.5], 1):
        sheet.cell(row, 1, value)
    sheet["B1"], sheet["B2"], sheet["B3"] = "=SUM(A1:A3)", '=IF(B1>40,"much","little")', "=A1/0"
    sheet["A1"].font = Font(bold=True, color="FF0000")
    path = tmp_path / "a.xlsx"
    workbook.save(path)
    assert len(check_values(path)) == 3
    save_workbook(workbook, path)
    values = openpyxl.load_workbook(path, data_only=True).active
    assert [values[cell].value for cell in ("B1", "B2", "B3")] == [42.5, "much", "#DIV/0!"]
    assert openpyxl.load_workbook(path).active["B1"].value == "=SUM(A1:A3)"
    assert check_values(path) == ["Sheet!B3: =A1/0 gives #DIV/0!"]
    assert len(calculate(path)) == 3


def test_texts_stay_texts(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    write_text(workbook.active["A1"], "=cmd|'/c calc'!A0")
    write_text(workbook.active["A2"], "plain\x00 text")
    workbook.save(tmp_path / "a.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").active
    assert [(sheet[cell].data_type, sheet[cell].value) for cell in ("A1", "A2")] == [
        ("s", "=cmd|'/c calc'!A0"),
        ("s", "plain text"),
    ]
    assert open_package(tmp_path / "a.xlsx").notices == []
    assert [csv_safe(one) for one in ("=1+1", "-5", "-5%", "@x", "+SUM(1)", None, "a")] == [
        "'=1+1",
        "-5",
        "-5%",
        "'@x",
        "'+SUM(1)",
        "",
        "a",
    ]


def test_foreign_workbook_that_would_lose_something(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    make_sales(5).save(path)
    assert find_losses(open_package(path)) == []
    package = open_package(path)
    sheet = package.parts["xl/worksheets/sheet1.xml"].replace(
        b"</worksheet>",
        b'<extLst><ext uri="x"><x14:sparkline xmlns:x14="http://y"/></ext></extLst></worksheet>',
    )
    package.parts["xl/worksheets/sheet1.xml"] = sheet
    package.save(path)
    with pytest.raises(OfficeError, match="would drop: 1 sparkline"):
        open_workbook(path)
    assert open_workbook(path, accept_loss=True)["Sales"]["A1"].value == "Region"


def test_rows_are_read_one_by_one(tmp_path: Path) -> None:
    make_sales(5).save(tmp_path / "a.xlsx")
    assert len(list(iterate_rows(tmp_path / "a.xlsx", "Sales"))) == 6
    with pytest.raises(OfficeError, match="has no sheet 'Costs'"):
        list(iterate_rows(tmp_path / "a.xlsx", "Costs"))


@pytest.mark.long
def test_tidied_workbook_fits_the_schema(tmp_path: Path) -> None:
    import openxml_audit

    workbook = make_sales(5)
    workbook["Sales"]["A1"].font = Font(bold=True, color="FF0000", size=14)
    add_pivot(workbook.create_sheet("S"), workbook["Sales"], rows=["Region"], values={"Amount": "sum"})
    path = tmp_path / "a.xlsx"
    workbook.save(path)

    def errors() -> list[str]:
        found = openxml_audit.OpenXmlValidator().validate(path).errors
        return [one.description for one in found if "schema" in str(one.error_type).lower()]

    assert errors() != []
    tidy(path)
    assert [one for one in errors() if "inline" not in one] == []


@pytest.mark.long
def test_far_cells_cost_nothing(tmp_path: Path) -> None:
    """One cell in the last row and column: not 17 billion empty ones."""
    workbook = openpyxl.Workbook()
    workbook.active["A1"], workbook.active["XFD1048576"] = 1, "end"
    workbook.save(tmp_path / "a.xlsx")
    workbook.active["XFD1048576"] = "END"
    workbook.save(tmp_path / "b.xlsx")
    assert [cell.coordinate for cell in stored_cells(workbook.active)] == ["A1", "XFD1048576"]
    changes = compare_cells(tmp_path / "a.xlsx", tmp_path / "b.xlsx")
    assert [(one.where, one.before, one.after) for one in changes] == [("Sheet!XFD1048576", "end", "END")]


def test_texts_that_their_column_cuts_are_named(tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet["A1"], sheet["B1"] = "missing at the bank", "Amount"
    sheet["A2"], sheet["B2"] = "different amounts in May", 3
    sheet["A3"] = "a long text beside an empty cell"
    sheet["C1"], sheet["D1"] = "a text that is wrapped to fit", 1
    sheet["C1"].alignment = Alignment(wrap_text=True)
    sheet["E1"], sheet["F1"] = "a wide column shows all of this", 1
    sheet.column_dimensions["E"].width = 40
    workbook.save(tmp_path / "a.xlsx")
    report = CheckReport(file="a.xlsx", kind="xlsx")
    check_cells(openpyxl.load_workbook(tmp_path / "a.xlsx"), report)
    assert [(one.code, one.level, one.place) for one in report.findings] == [
        ("column-too-narrow", "warning", "Sheet!A1")
    ]
    assert "column A cuts off 2 texts" in report.findings[0].text


@pytest.mark.parametrize(("place", "is_far"), [("XFD1048576", True), ("H60000", False)])
def test_cells_far_from_the_others(place: str, is_far: bool, tmp_path: Path) -> None:
    workbook = openpyxl.Workbook()
    workbook.active["A1"], workbook.active[place] = 1, "far"
    workbook.active["XFD1000000"].font = Font(bold=True)
    workbook.save(tmp_path / "a.xlsx")
    package = open_package(tmp_path / "a.xlsx")
    assert find_far_cell(package) == (f"Sheet!{place}" if is_far else None)
