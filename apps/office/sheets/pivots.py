"""Pivot tables of xlsx files from any program: reading, and recomputation for comparison."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from apps.office.libraries import XmlElement
from apps.office.package import OfficePackage
from apps.office.safe_xml import OfficeError
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

Aggregation = Literal["sum", "count", "average", "min", "max"]
FUNCTIONS: Mapping[str, str] = {"sum": "sum", "count": "size", "average": "mean", "min": "min", "max": "max"}
TOTAL = "Total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pivot:
    """Pivot table as defined in a file.

    Attributes:
        name: Name of the table.
        sheet: Sheet that contains it.
        location: Range of its cells, such as `A3:E8`.
        source: Sheet and range of its data, such as `Sales!A1:D100`.
        rows: Names of the row fields.
        columns: Names of the column fields.
        values: Name and aggregation of each value.
        num_records: Number of records in its cache; None without records.
        fields: All fields of its cache, in order.
    """

    name: str
    sheet: str
    location: str
    source: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    num_records: int | None
    fields: tuple[str, ...]


def read_pivots(package: OfficePackage) -> list[Pivot]:
    """Read all pivot tables of a workbook, from any program.

    Raises:
        OfficeError: If a part that a pivot table needs is missing.
    """
    pivots = []
    for sheet_name, part in sheet_parts(package).items():
        for relation in package.relationships(part):
            if relation.kind == "pivotTable":
                pivots.append(_read_pivot(package, relation.target, sheet_name))
    return pivots


def sheet_parts(package: OfficePackage) -> dict[str, str]:
    """Return the part of each sheet by its name, in the workbook's order."""
    workbook = next(relation.target for relation in package.relationships("") if relation.kind == "officeDocument")
    targets = {relation.id: relation.target for relation in package.relationships(workbook)}
    key = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
    return {
        element.get("name", ""): targets.get(element.get(key, ""), "")
        for element in package.xml(workbook).iter("{*}sheet")
    }


def check_pivot(pivot: Pivot, source: Any, shown: object) -> list[str]:
    """Return the errors of a pivot table, found by recomputing it with pandas.

    Args:
        pivot: Pivot table from `read_pivots`.
        source: openpyxl sheet of its data, with values (`data_only=True`).
        shown: openpyxl sheet that contains it, with values.

    Returns:
        One line for each fault; [] if there are none.
    """
    try:
        table = read_source(source, pivot.source.rpartition("!")[2])
    except OfficeError as error:
        return [f"{pivot.name}: {error}"]
    faults = []
    if [name.strip() for name in table.names] != [field.strip() for field in pivot.fields]:
        faults.append(f"{pivot.name}: its cache has the fields {list(pivot.fields)}, its source {list(table.names)}")
    if pivot.num_records is not None and pivot.num_records != len(table.records):
        faults.append(f"{pivot.name}: its cache has {pivot.num_records} records, its source {len(table.records)} rows")
    missing = [field for field in (*pivot.rows, *pivot.columns, *dict(pivot.values)) if field not in table.names]
    if missing:
        return [*faults, f"{pivot.name}: its source {pivot.source} has no field {missing[0]!r}"]
    return faults + list(_compare_cells(pivot, table, shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class PivotSource:
    """Records of a sheet: field names, values, and their range."""

    names: tuple[str, ...]
    records: list[list[object]]
    reference: str

    def column(self, name: str) -> list[Any]:
        """Return the values of a field."""
        at = self.names.index(name)
        return [record[at] for record in self.records]


def read_source(sheet: "Worksheet", cells: str = "") -> PivotSource:
    """Read the records of a sheet, or of a range of its cells.

    Raises:
        OfficeError: If there are none, or field names are missing or repeated.
    """
    cells = cells.replace("$", "") or _named_block(sheet)
    lines = [[cell.value for cell in line] for line in sheet[cells]]
    if len(lines) < 2:
        raise OfficeError(f"{sheet.title}!{cells} has no data; expected names in its first row and records below")
    names = [str(value).strip() if value is not None else "" for value in lines[0]]
    if "" in names or len(set(names)) < len(names):
        raise OfficeError(f"the first row of {sheet.title}!{cells} is {names}; expected a name of its own in each cell")
    records = [line for line in lines[1:] if any(value is not None for value in line)]
    return PivotSource(names=tuple(names), records=records, reference=f"{sheet.title}!{cells}")


def _named_block(sheet: "Worksheet") -> str:
    """Return the range from A1 to the last row, up to the first column without a name in the first row."""
    names = [cell.value for cell in sheet[1]]
    width = next((at for at, name in enumerate(names) if name in (None, "")), len(names))
    letter = require("openpyxl.utils", "office").get_column_letter(max(width, 1))
    return f"A1:{letter}{sheet.max_row}"


def is_number(value: object) -> bool:
    """Return whether a cell value is a number that can be summed."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def label_of(value: object) -> object:
    """Return the label that a pivot table shows for a value of a row or column field."""
    if value is None or value == "":
        return "(blank)"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime | date):
        return value.isoformat()[:10]
    return value


def pivot_frame(
    table: PivotSource, rows: Sequence[str], columns: Sequence[str], values: Mapping[str, str]
) -> dict[tuple[tuple[object, ...], object, str], float]:
    """Return each number by its row (`()` for the total), its column (None for the total) and its value's field."""
    pandas = require("pandas", "office")
    keys = {field: [label_of(value) for value in table.column(field)] for field in {*rows, *columns}}
    numbers = {
        f"value {field}": [value if is_number(value) else math.nan for value in table.column(field)] for field in values
    }
    frame = pandas.DataFrame({**keys, **numbers})
    results: dict[tuple[tuple[Any, ...], Any, str], float] = {}
    for field, aggregation in values.items():
        of = frame[f"value {field}"]
        if aggregation == "count":
            of = pandas.Series([0 if value is None else 1 for value in table.column(field)])
        how = "sum" if aggregation == "count" else FUNCTIONS[aggregation]
        for by in (tuple(rows), ()):
            for across in (tuple(columns), ()):
                grouping = [*by, *across]
                grouped = of.groupby([frame[field] for field in grouping]).agg(how) if grouping else {(): of.agg(how)}
                for key, number in grouped.items():
                    whole = key if isinstance(key, tuple) else (key,)
                    column = whole[len(by)] if across else None
                    results[whole[: len(by)], column, field] = float(number)
    return results


def _read_pivot(package: OfficePackage, part: str, sheet: str) -> Pivot:
    root = package.xml(part)
    cache_part = next(
        (relation.target for relation in package.relationships(part) if relation.kind == "pivotCacheDefinition"), ""
    )
    if cache_part not in package.parts:
        raise OfficeError(f"{package.path.name}: the pivot table {root.get('name')!r} has no cache")
    cache = package.xml(cache_part)
    names = tuple(field.get("name", "") for field in cache.iter("{*}cacheField"))
    records_part = str(PurePosixPath(cache_part))
    records = next(
        (relation.target for relation in package.relationships(records_part) if "Records" in relation.kind), ""
    )
    number = None
    if records in package.parts:
        number = sum(1 for _ in package.xml(records).iter("{*}r"))
    source = next(cache.iter("{*}worksheetSource"), None)
    reference = _source_reference(package, source) if source is not None else ""
    location = next(root.iter("{*}location"), None)
    return Pivot(
        name=root.get("name", ""),
        sheet=sheet,
        location=location.get("ref", "") if location is not None else "",
        source=reference,
        rows=tuple(_field_names(root, "rowFields", names)),
        columns=tuple(_field_names(root, "colFields", names)),
        values=tuple(
            (names[int(field.get("fld", "0"))], field.get("subtotal", "sum")) for field in root.iter("{*}dataField")
        ),
        num_records=number,
        fields=names,
    )


def _field_names(root: XmlElement, group: str, names: Sequence[str]) -> Iterator[str]:
    for holder in root.iter(f"{{*}}{group}"):
        for child in holder:
            number = int(child.get("x", "0"))
            if 0 <= number < len(names):
                yield names[number]


def _source_reference(package: OfficePackage, source: Any) -> str:
    """Return sheet and range of a source given directly, or by the name of a table or range."""
    if source.get("ref"):
        return f"{source.get('sheet', '')}!{source.get('ref')}"
    name = source.get("name", "")
    for sheet, part in sheet_parts(package).items():
        for relation in package.relationships(part):
            if relation.kind == "table" and relation.target in package.parts:
                table = package.xml(relation.target)
                if name in (table.get("name"), table.get("displayName")):
                    return f"{sheet}!{table.get('ref')}"
    workbook = next(relation.target for relation in package.relationships("") if relation.kind == "officeDocument")
    for defined in package.xml(workbook).iter("{*}definedName"):
        if defined.get("name") == name:
            return str(defined.text or "").replace("$", "").replace("'", "")
    return str(name)


def _compare_cells(pivot: Pivot, table: PivotSource, shown: Any) -> Iterator[str]:
    """Yield a line for each displayed number that differs from pandas."""
    known = {field: how if how in FUNCTIONS else "sum" for field, how in pivot.values}
    strange = [how for _, how in pivot.values if how not in FUNCTIONS]
    if strange:
        yield f"{pivot.name}: the aggregation {strange[0]!r} is not calculated here, so nothing is compared"
        return
    frame = pivot_frame(table, pivot.rows, pivot.columns, known)
    lines = [[cell.value for cell in line] for line in shown[pivot.location]]
    if not any(is_number(value) for line in lines for value in line):
        yield f"{pivot.name}: {pivot.sheet}!{pivot.location} shows no numbers; open it in a program that refreshes it"
        return
    labelled = list(_labelled_rows(lines, len(pivot.rows)))
    for (row, column, field), expected in sorted(frame.items(), key=lambda pair: str(pair[0])):
        if math.isnan(expected):
            continue
        numbers = _numbers_at(lines, labelled, tuple(map(str, row)), column)
        if not any(math.isclose(number, expected, rel_tol=1e-6, abs_tol=1e-6) for number in numbers):
            place = " / ".join(str(part) for part in (*row, *([column] if column is not None else []))) or TOTAL
            there = ", ".join(f"{number:,.10g}" for number in numbers[:4]) or "nothing"
            yield (
                f"{pivot.name}: {known[field]} of {field} for {place} is {expected:,.10g}; {pivot.sheet}!"
                f"{pivot.location} shows {there} there"
            )


def _labelled_rows(lines: Sequence[Sequence[object]], width: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the labels of each row, with outer ones carried down; `()` for the total row."""
    carried = [""] * width
    for at, line in enumerate(lines):
        labels = [str(label_of(value)) if value is not None else "" for value in line[:width]]
        inner = next((n for n, label in enumerate(labels) if label), width)
        carried = [*carried[:inner], *labels[inner:]]
        yield tuple(carried), at


def _numbers_at(
    lines: Sequence[Sequence[Any]],
    labelled: Sequence[tuple[tuple[str, ...], int]],
    row: tuple[str, ...],
    column: object,
) -> list[float]:
    """Return the numbers of a row, at a column if it has a heading; for a total those of the last row."""
    matches = [at for labels, at in labelled if row and labels == row]
    at = matches[-1] if matches else len(lines) - 1 if not row else None
    if at is None:
        return []
    width = len(labelled[0][0])
    if column is not None:
        for line in lines[:at]:
            right = next(
                (n for n, value in enumerate(line) if n >= width and str(label_of(value)) == str(column)), None
            )
            if right is not None:
                return [lines[at][right]] if is_number(lines[at][right]) else []
    return [value for value in lines[at][width:] if is_number(value)]
