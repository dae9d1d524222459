"""Recalculation of formulas by LibreOffice, and storage of their values in the file."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.office.libraries import XmlElement
from apps.office.libreoffice import convert
from apps.office.package import OfficePackage, open_package
from apps.office.safe_xml import FilePath, open_with
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

ERRORS = ("#REF!", "#DIV/0!", "#VALUE!", "#NAME?", "#N/A", "#NUM!", "#NULL!", "#SPILL!", "#CALC!")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalculatedCell:
    """Formula with its calculated value.

    Attributes:
        cell: Cell, such as `Sales!B7`.
        formula: Formula in the file, without the equals sign.
        stored: The value in the file; None if there is none.
        value: Value calculated by LibreOffice.
    """

    cell: str
    formula: str
    stored: Any
    value: Any


def calculate(path: FilePath) -> list[CalculatedCell]:
    """Return all formulas of a workbook with their recalculated values.

    Raises:
        OfficeError: If the file cannot be read, or LibreOffice is missing or fails.
    """
    path = Path(path)
    openpyxl = require("openpyxl", "office")
    with tempfile.TemporaryDirectory(prefix="k25-calculate-") as scratch:
        converted = convert(path, Path(scratch) / "calculated.xlsx")
        fresh, stored = (
            open_with("openpyxl", path, lambda file=file: openpyxl.load_workbook(file, data_only=True))  # type: ignore[misc]
            for file in (converted, path)
        )
        formulas = open_with("openpyxl", path, lambda: openpyxl.load_workbook(path))
        cells = []
        for sheet in formulas.worksheets:
            if sheet.title not in fresh.sheetnames:
                continue
            for cell in stored_cells(sheet):
                if cell.data_type != "f":
                    continue
                formula = getattr(cell.value, "text", cell.value)
                cells.append(
                    CalculatedCell(
                        cell=f"{sheet.title}!{cell.coordinate}",
                        formula=str(formula or "").removeprefix("="),
                        stored=stored[sheet.title][cell.coordinate].value,
                        value=fresh[sheet.title][cell.coordinate].value,
                    )
                )
    return cells


def stored_cells(sheet: "Worksheet") -> "list[Cell]":
    """Return the cells that a sheet stores, by rows; `iter_rows` would make all cells up to the last one."""
    cells: dict[tuple[int, int], Cell] = sheet._cells
    return [cells[place] for place in sorted(cells)]


def fill_values(path: FilePath) -> int:
    """Write only the calculated values of formulas into the file, and return the number of formulas.

    Raises:
        OfficeError: If `calculate` raises it.
    """
    path = Path(path)
    from apps.office.sheets.pivots import sheet_parts

    package = open_package(path)
    values = {cell.cell: cell.value for cell in calculate(path)}
    if not values:
        return 0
    count = 0
    for sheet, part in sheet_parts(package).items():
        if part in package.parts:
            root = package.xml(part)
            count += sum(_fill(cell, values.get(f"{sheet}!{cell.get('r')}")) for cell in root.iter("{*}c"))
            package.set_xml(part, root)
    _drop_chain(package)
    for part, properties in _calculation_properties(package):
        properties.attrib.pop("fullCalcOnLoad", None)
        package.set_xml(part, properties.getparent())
    package.save(path)
    return count


def is_calculated_on_load(package: OfficePackage) -> bool:
    """Return whether programs calculate all formulas when they open the workbook, so that stored values do not count.

    openpyxl and XlsxWriter, which cannot calculate, request it by default; `fill_values` withdraws the request.
    """
    return any(
        properties.get("fullCalcOnLoad", "0") in ("1", "true") for _, properties in _calculation_properties(package)
    )


def _calculation_properties(package: OfficePackage) -> list[tuple[str, XmlElement]]:
    """Return the settings of calculation with the name of the workbook's part."""
    parts = [one.target for one in package.relationships("") if one.kind == "officeDocument"]
    return [
        (part, element) for part in parts if part in package.parts for element in package.xml(part).findall("{*}calcPr")
    ]


def _fill(cell: XmlElement, value: object) -> bool:
    """Store a value next to the formula of a cell, and return whether the cell has a formula."""
    formula = cell.find("{*}f")
    if formula is None:
        return False
    space = cell.tag.rpartition("}")[0] + "}"
    for old in cell.findall(f"{space}v"):
        cell.remove(old)
    cell.attrib.pop("t", None)
    if value is None:
        return True
    text = cell.makeelement(f"{space}v", {})
    if isinstance(value, bool):
        cell.set("t", "b")
        text.text = "1" if value else "0"
    elif isinstance(value, int | float):
        text.text = repr(value)
    elif str(value) in ERRORS:
        cell.set("t", "e")
        text.text = str(value)
    elif hasattr(value, "isoformat"):
        text.text = repr(_serial(value))
    else:
        cell.set("t", "str")
        text.text = str(value)
    formula.addnext(text)
    return True


def _serial(value: object) -> float:
    """Convert a date or time to a spreadsheet serial number."""
    to_excel = require("openpyxl.utils.datetime", "office").to_excel
    return float(to_excel(value))


def _drop_chain(package: OfficePackage) -> None:
    """Remove the calculation order, which programs rebuild: a stale one makes Excel repair the file."""
    name = "xl/calcChain.xml"
    if name not in package.parts:
        return
    del package.parts[name]
    for holder, key in (("[Content_Types].xml", "PartName"), ("xl/_rels/workbook.xml.rels", "Target")):
        root = package.xml(holder)
        for element in list(root):
            if "calcChain" in element.get(key, ""):
                root.remove(element)
        package.set_xml(holder, root)


def check_values(path: FilePath, calculated: list[CalculatedCell] | None = None) -> list[str]:
    """Return the errors of a workbook's formulas: errors, and missing or outdated values."""
    faults = []
    for cell in calculated if calculated is not None else calculate(path):
        if str(cell.value) in ERRORS or str(cell.value).startswith(("Err:", "#")):
            faults.append(f"{cell.cell}: ={cell.formula[:80]} gives {cell.value}")
        elif cell.stored is None and cell.value is not None:
            faults.append(f"{cell.cell}: ={cell.formula[:80]} has no stored value; viewers show it empty")
        elif not _is_same(cell.stored, cell.value):
            faults.append(f"{cell.cell}: ={cell.formula[:80]} is stored as {cell.stored!r}, and gives {cell.value!r}")
    return faults


def _is_same(value: object, other: object) -> bool:
    if isinstance(value, int | float) and isinstance(other, int | float):
        return abs(value - other) <= 1e-6 * max(1.0, abs(value), abs(other))
    return bool(value == other) or (value in (None, "") and other in (None, ""))
