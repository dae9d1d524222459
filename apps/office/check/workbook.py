"""Checks of xlsx files: recalculated formulas, recomputed pivot tables, valid references."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from apps.office.check.document import count_words
from apps.office.check.findings import CheckReport, Level, RenderedFile
from apps.office.libreoffice import convert, find_soffice
from apps.office.package import OfficePackage, open_package
from apps.office.safe_xml import OfficeError, open_with
from apps.office.sheets.pivots import check_pivot, read_pivots, sheet_parts
from apps.office.sheets.recalculate import ERRORS, calculate, check_values, is_calculated_on_load, stored_cells
from apps.office.sheets.workbook import MAX_SHEET_BYTES, sheet_bytes
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

_NUMBER = re.compile(r"^[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?%?$")
_REFERENCE = re.compile(r"^'?((?:[^'!]|'')+)'?!\$?[A-Z]{1,3}\$?\d+(?::\$?[A-Z]{1,3}\$?\d+)?$")
_CELL = re.compile(rb'<(?:\w+:)?c\s[^>]*?\br="([A-Z]{1,3})(\d{1,7})"[^>]*(?<!/)>(?!</)')
_MAX_DRAWN_PAGES = 15_000  # pages of 50 rows and 8 columns up to the last cell; LibreOffice takes minutes for more
_HASHES = re.compile(r"(?<!\S)#{3,}(?!\S)")


def check_workbook(rendered: RenderedFile, report: CheckReport) -> None:
    """Count the contents of a workbook and check it for errors."""
    package = rendered.package
    assert package is not None
    size = sheet_bytes(package)
    if size > MAX_SHEET_BYTES:
        report.add(
            "warning",
            "too-large",
            f"{size / 1e6:.0f} MB of cells: checked for errors stored in cells; no formula was recalculated",
        )
        report.opened_by.append("lxml, row by row")
        _check_stream(package, report)
        return
    openpyxl = require("openpyxl", "office")
    try:
        workbook = open_with("openpyxl", rendered.path, lambda: openpyxl.load_workbook(rendered.path))
    except OfficeError as error:
        report.add("error", "unreadable", str(error))
        return
    report.opened_by.append("openpyxl")
    _count(workbook, package, report)
    _check_cells(workbook, report)
    _check_charts(workbook, package, report)
    _check_names(workbook, report)
    if find_soffice() is None:
        report.add("warning", "not-calculated", "LibreOffice is not installed: formulas were not recalculated")
        return
    _check_formulas(rendered.path, package, report)
    _check_pivots(rendered.path, package, report)
    for page in rendered.pages:
        if _HASHES.search(page.text):
            place = f"page {page.number}"
            text = f"a number is shown as ###: a column is too narrow ({place})"
            report.add("warning", "column-too-narrow", text, place)


def _count(workbook: "Workbook", package: OfficePackage, report: CheckReport) -> None:
    sheets = workbook.worksheets
    cells = [cell for sheet in sheets for cell in stored_cells(sheet)]
    texts = (cell.value for cell in cells)
    report.facts |= {
        "sheets": len(workbook.sheetnames),
        "words": sum(count_words(text) for text in texts if isinstance(text, str) and not text.startswith("=")),
        "formulas": sum(cell.data_type == "f" for cell in cells),
        "charts": sum("/charts/chart" in name and name.endswith(".xml") for name in package.parts),
        "figures": sum("/media/" in name for name in package.parts),
        "tables": sum(len(sheet.tables) for sheet in sheets),
        "validations": sum(len(sheet.data_validations.dataValidation) for sheet in sheets),
        "formats": sum(len(formatting.rules) for sheet in sheets for formatting in sheet.conditional_formatting),
        "comments": sum(cell.comment is not None for cell in cells),
        "links": sum(cell.hyperlink is not None for cell in cells),
    }


def _check_cells(workbook: "Workbook", report: CheckReport) -> None:
    for sheet in workbook.worksheets:
        alike = 0
        for cell in stored_cells(sheet):
            value, place = cell.value, f"{sheet.title}!{cell.coordinate}"
            if isinstance(value, str) and value.strip() in ERRORS and cell.data_type != "f":
                report.add("error", "formula-error", f"{place} holds {value.strip()}", place)
            elif isinstance(value, str) and _NUMBER.match(value.strip()) and not _is_code(value.strip()):
                alike += 1
                if alike <= 5:
                    report.add("warning", "number-as-text", f"{place} holds the number {value!r} as text", place)
        if sheet.max_row == 1 and sheet.max_column == 1 and sheet["A1"].value is None and not _has_drawings(sheet):
            report.add("warning", "empty-sheet", f"the sheet {sheet.title!r} is empty", sheet.title)
        if sheet.sheet_state == "visible":
            _check_widths(sheet, report)


def _check_widths(sheet: "Worksheet", report: CheckReport) -> None:
    """Report the columns whose texts are cut off at a filled cell to their right."""
    spans = [
        (one.min, one.max, 0.0 if one.hidden else one.width) for one in sheet.column_dimensions.values() if one.min
    ]
    default = sheet.sheet_format.defaultColWidth or 8.43
    cut: dict[int, list[Cell]] = {}
    for cell in stored_cells(sheet):
        beside = sheet._cells.get((cell.row, cell.column + 1))
        if cell.data_type != "s" or beside is None or beside.value is None:
            continue
        width = next((width for first, last, width in spans if first <= cell.column <= last), default)
        longest = max(map(len, str(cell.value).splitlines()), default=0)
        alignment = cell.alignment
        if width and longest > 1.25 * width + 2 and not alignment.wrap_text and not alignment.shrink_to_fit:
            cut.setdefault(cell.column, []).append(cell)
    for cells in list(cut.values())[:5]:
        place, shown = f"{sheet.title}!{cells[0].coordinate}", str(cells[0].value)[:40]
        number = f"{len(cells)} texts" if len(cells) > 1 else "1 text"
        text = f"column {cells[0].column_letter} cuts off {number}, such as {shown!r}: widen it or wrap the text"
        report.add("warning", "column-too-narrow", text, place)


def find_far_cell(package: OfficePackage) -> str | None:
    """Return the corner of the filled cells, such as `Sheet1!XFD1048576`, of a sheet that takes minutes to render."""
    for sheet, part in sheet_parts(package).items():
        places = _CELL.findall(package.parts.get(part, b""))
        letters = max((letters for letters, _ in places), key=lambda text: (len(text), text), default=b"A")
        row = max((int(row) for _, row in places), default=1)
        column = 0
        for letter in letters:
            column = 26 * column + letter - 64
        if -(-row // 50) * -(-column // 8) > _MAX_DRAWN_PAGES:
            return f"{sheet}!{letters.decode()}{row}"
    return None


def _is_code(text: str) -> bool:
    """Return whether a text is a numeric code: with leading zeros, or long."""
    digits = text.lstrip("+-")
    return (digits.startswith("0") and len(digits) > 1 and "." not in digits[:2]) or len(digits) > 11


def _has_drawings(sheet: "Worksheet") -> bool:
    return bool(sheet._charts or sheet._images or sheet._pivots)


def _check_charts(workbook: "Workbook", package: OfficePackage, report: CheckReport) -> None:
    """Check that a chart's series refer to existing sheets."""
    names = set(workbook.sheetnames)
    for part in package.parts:
        if "/charts/chart" not in part or not part.endswith(".xml"):
            continue
        references = [formula.text or "" for formula in package.xml(part).iter("{*}f")]
        if not references:
            report.add("error", "empty-chart", f"{part} has no data")
        for reference in references:
            match = _REFERENCE.match(reference)
            if "#REF!" in reference or (match and match[1].replace("''", "'") not in names):
                report.add("error", "broken-reference", f"{part} takes data from {reference}, which does not exist")


def _check_names(workbook: "Workbook", report: CheckReport) -> None:
    for name, defined in workbook.defined_names.items():
        if "#REF!" in (defined.attr_text or ""):
            report.add("error", "broken-reference", f"the name {name!r} refers to {defined.attr_text}")


def _check_formulas(path: Path, package: OfficePackage, report: CheckReport) -> None:
    try:
        cells = calculate(path)
    except OfficeError as error:
        report.add("error", "not-calculated", str(error))
        return
    unknown = [cell for cell in cells if cell.value == "#NAME?" and "_xlfn" in cell.formula]
    for cell in unknown:
        text = f"{cell.cell}: ={cell.formula[:80]} has a function that LibreOffice here does not know; not calculated"
        report.add("warning", "unknown-function", text, cell.cell)
    value_level: Level = "warning" if is_calculated_on_load(package) else "error"
    for fault in check_values(path, [cell for cell in cells if cell not in unknown]):
        place = fault.partition(": ")[0]
        if "no stored value" in fault:
            report.add(value_level, "not-calculated", fault, place)
        elif "stored as" in fault:
            report.add(value_level, "stale-value", fault, place)
        else:
            report.add("error", "formula-error", fault, place)


def _check_pivots(path: Path, package: OfficePackage, report: CheckReport) -> None:
    """Compare each pivot table, in the file and after a refresh by LibreOffice, with pandas."""
    try:
        pivots = read_pivots(package)
    except OfficeError as error:
        report.add("error", "broken-pivot", str(error))
        return
    report.facts["pivots"] = len(pivots)
    if not pivots:
        return
    openpyxl = require("openpyxl", "office")
    with tempfile.TemporaryDirectory(prefix="k25-pivots-") as scratch:
        try:
            refreshed = convert(path, Path(scratch) / "refreshed.xlsx")
        except OfficeError as error:
            report.add("error", "not-calculated", str(error))
            return
        for how, file in (("as stored", path), ("after a refresh", refreshed)):
            values = openpyxl.load_workbook(file, data_only=True)
            for pivot in pivots if file is path else read_pivots(open_package(file)):
                sheet = pivot.source.rpartition("!")[0]
                if sheet not in values.sheetnames or pivot.sheet not in values.sheetnames:
                    report.add(
                        "error",
                        "broken-pivot",
                        f"{pivot.name} takes its data from {pivot.source!r}, which does not exist",
                    )
                    continue
                for fault in check_pivot(pivot, values[sheet], values[pivot.sheet]):
                    report.add("error", "pivot-total", f"{fault} ({how})", pivot.sheet)


def _check_stream(package: OfficePackage, report: CheckReport) -> None:
    """Find errors stored in cells, using little memory."""
    import io

    etree = require("lxml.etree", "office")
    parts = sheet_parts(package)
    report.facts["sheets"] = len(parts)
    for sheet, part in parts.items():
        for place, value in _error_cells(etree, io.BytesIO(package.parts.get(part, b"<x/>"))):
            report.add("error", "formula-error", f"{sheet}!{place} holds {value}", f"{sheet}!{place}")
            if len(report.findings) > 100:
                return


def _error_cells(etree: ModuleType, data: object) -> Iterator[tuple[str, str]]:
    events = etree.iterparse(
        data, events=("end",), tag="{*}row", resolve_entities=False, no_network=True, huge_tree=True
    )
    for _, row in events:
        for cell in row:
            if cell.get("t") == "e":
                yield cell.get("r", ""), next((child.text or "" for child in cell if child.tag.endswith("}v")), "")
        row.clear()
        while row.getprevious() is not None:
            del row.getparent()[0]
