"""Workbooks of openpyxl: opening without silent loss, texts that stay texts, files that match the schema."""

import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from apps.office.corrections import tidy
from apps.office.package import OfficePackage, open_package
from apps.office.safe_xml import FilePath, OfficeError, open_with
from apps.office.sheets.recalculate import fill_values
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.cell import Cell

MAX_SHEET_BYTES = 48 * 2**20
"""Size limit of the XML of all sheets together: openpyxl takes about 50 times as much memory as a sheet has bytes."""

_UNIMPORTANT = re.compile(r"(^|/)(docProps/|_rels/|printerSettings|calcChain|sharedStrings|theme|metadata|styles)")
_DRAWN = ("sp", "cxnSp", "grpSp", "sparkline", "slicer", "timeline", "x14:conditionalFormatting", "contentPart")


def open_workbook(path: FilePath, *, accept_loss: bool = False, values: bool = False) -> "Workbook":
    """Open a workbook with openpyxl after checking it; nothing in it is run or fetched.

    Args:
        path: An xlsx file.
        accept_loss: True to open it even if saving would drop features that openpyxl does not support.
        values: True to read the last calculated values instead of formulas.

    Raises:
        OfficeError: If it cannot be read safely, is too large, or saving it would lose something.
    """
    path = Path(path)
    openpyxl = require("openpyxl", "office")
    package = open_package(path)
    if package.kind != "xlsx":
        raise OfficeError(f"{path.name} is a {package.kind} file; expected xlsx")
    size = sheet_bytes(package)
    if size > MAX_SHEET_BYTES:
        raise OfficeError(
            f"{path.name} has {size / 1e6:.0f} MB of cells, more than the {MAX_SHEET_BYTES / 1e6:.0f} MB that can be "
            "changed; read it with openpyxl.load_workbook(path, read_only=True), or row by row with iterate_rows"
        )
    lost = [] if values or accept_loss else find_losses(package)
    if lost:
        raise OfficeError(
            f"saving {path.name} with openpyxl would drop: {'; '.join(lost)}. Edit the parts with "
            "apps.office.OfficePackage instead, or accept the loss with accept_loss=True and report it"
        )
    return open_with("openpyxl", path, lambda: openpyxl.load_workbook(path, data_only=values))


def iterate_rows(path: FilePath, sheet: str | None = None) -> Iterator[tuple[object, ...]]:
    """Yield the values of a sheet row by row, using little memory for any size.

    Raises:
        OfficeError: If it cannot be read safely, or has no such sheet.
    """
    path = Path(path)
    openpyxl = require("openpyxl", "office")
    open_package(path)
    workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        if sheet is not None and sheet not in workbook.sheetnames:
            raise OfficeError(f"{path.name} has no sheet {sheet!r}; it has: {', '.join(workbook.sheetnames)}")
        yield from (workbook[sheet] if sheet else workbook.worksheets[0]).iter_rows(values_only=True)
    finally:
        workbook.close()


def sheet_bytes(package: OfficePackage) -> int:
    """Return the size in bytes of the XML of all sheets and their shared strings."""
    names = (name for name in package.parts if name.startswith("xl/worksheets/sheet") or "sharedStrings" in name)
    return sum(len(package.parts[name]) for name in names)


def find_losses(package: OfficePackage) -> list[str]:
    """Return the features of a workbook that openpyxl would drop when saving, found by saving it in memory."""
    openpyxl = require("openpyxl", "office")
    before = _inventory(package)
    if package.path.stat().st_size > 20 * 2**20:
        return []
    has_macros = any(notice.code == "macro" for notice in package.notices)
    saved = io.BytesIO()
    try:
        workbook = open_with(
            "openpyxl", package.path, lambda: openpyxl.load_workbook(package.path, keep_vba=has_macros)
        )
        open_with("openpyxl", package.path, lambda: workbook.save(saved))
    except OfficeError as error:
        return [f"all of it: {error}"]
    after = _inventory(_read_again(saved.getvalue(), package.path))
    return [f"{count - after[kind]} {kind}" for kind, count in sorted(before.items()) if after[kind] < count]


def write_text(cell: "Cell", text: str) -> None:
    """Write an untrusted text into a cell so that it stays a text: `=1+1` is displayed, never calculated."""
    cell.value = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text)[:32_767]
    cell.data_type = "s"
    if text[:1] in ("=", "+", "-", "@", "\t", "\r"):
        cell.quotePrefix = True


def csv_safe(value: object) -> str:
    """Return a value for a CSV file that spreadsheet programs treat as text even if it begins like a formula."""
    text = "" if value is None else str(value)
    is_number = re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?%?", text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not is_number else text


def save_workbook(workbook: "Workbook", path: FilePath, *, calculated: bool = True) -> Path:
    """Save a workbook of openpyxl so that it matches the schema and shows values without recalculation.

    Args:
        workbook: Workbook of openpyxl.
        path: Target file.
        calculated: True to calculate the formulas with LibreOffice and store their values in the file.

    Raises:
        OfficeError: If LibreOffice is missing or fails.
    """
    path = Path(path)
    workbook.save(path)
    tidy(path)
    if calculated and any(b"<f>" in data or b"<f " in data for data in open_package(path).parts.values()):
        fill_values(path)
    return path


def _inventory(package: OfficePackage) -> Counter[str]:
    """Count the features that a user would miss: parts by kind, and drawings and formats that openpyxl may drop."""
    counts: Counter[str] = Counter()
    for name, data in package.parts.items():
        if _UNIMPORTANT.search(name) or name.endswith(".rels") or name == "[Content_Types].xml":
            continue
        pieces = name.split("/")
        if name.endswith(".vml") or "threadedComments" in name or "persons" in name:
            continue
        folder = pieces[-2] if len(pieces) > 1 else ""
        counts[f"{folder or 'other'} part(s)"] += 1
        if name.endswith(".xml"):
            for kind in _DRAWN:
                count = len(re.findall(rb"<(?:\w+:)?%b[\s>]" % kind.rpartition(":")[2].encode(), data))
                if count and (kind != "x14:conditionalFormatting" or b"<x14:conditionalFormatting" in data):
                    counts[f"{kind} element(s) in {folder}"] += count
    return counts


def _read_again(data: bytes, path: Path) -> OfficePackage:
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    return OfficePackage(path=path, kind="xlsx", parts=parts)
