"""Pivot tables of xlsx files from any program: reading, and recomputation for comparison."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import Any, Literal

from apps.office.libraries import Element, Sheet
from apps.office.package import Package
from apps.office.safe_xml import OfficeError
from envs.errors import require

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


def read_pivots(package: Package) -> list[Pivot]:
    """Read all pivot tables of a workbook, from any program.

    Raises:
        OfficeError: If a part that a pivot table needs is missing.
    """
    found = []
    for sheet_name, part in sheet_parts(package).items():
        for relation in package.relationships(part):
            if relation.kind == "pivotTable":
                found.append(_read_pivot(package, relation.target, sheet_name))
    return found


def sheet_parts(package: Package) -> dict[str, str]:
    """Return the part of each sheet by its name, in the workbook's order."""
    workbook = next(one.target for one in package.relationships("") if one.kind == "officeDocument")
    targets = {one.id: one.target for one in package.relationships(workbook)}
    key = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
    return {one.get("name", ""): targets.get(one.get(key, ""), "") for one in package.xml(workbook).iter("{*}sheet")}


def check_pivot(pivot: Pivot, source: Any, shown: Any) -> list[str]:
    """Return the faults of a pivot table, found by recomputing it with pandas.

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
    if [one.strip() for one in table.names] != [one.strip() for one in pivot.fields]:
        faults.append(f"{pivot.name}: its cache has the fields {list(pivot.fields)}, its source {list(table.names)}")
    if pivot.num_records is not None and pivot.num_records != len(table.records):
        faults.append(f"{pivot.name}: its cache has {pivot.num_records} records, its source {len(table.records)} rows")
    missing = [one for one in (*pivot.rows, *pivot.columns, *dict(pivot.values)) if one not in table.names]
    if missing:
        return [*faults, f"{pivot.name}: its source {pivot.source} has no field {missing[0]!r}"]
    return faults + list(_compare_cells(pivot, table, shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Records of a sheet: field names, values, and their range."""

    names: tuple[str, ...]
    records: list[list[Any]]
    reference: str

    def column(self, name: str) -> list[Any]:
        """Return the values of a field."""
        at = self.names.index(name)
        return [record[at] for record in self.records]


def read_source(sheet: Sheet, cells: str = "") -> Source:
    """Read the records of a sheet, or of a range of its cells.

    Raises:
        OfficeError: If there are none, or field names are missing or repeated.
    """
    cells = cells.replace("$", "") or _named_block(sheet)
    lines = [[cell.value for cell in line] for line in sheet[cells]]
    if len(lines) < 2:
        raise OfficeError(f"{sheet.title}!{cells} has no data; expected names in its first row and records below")
    names = [str(one).strip() if one is not None else "" for one in lines[0]]
    if "" in names or len(set(names)) < len(names):
        raise OfficeError(f"the first row of {sheet.title}!{cells} is {names}; expected a name of its own in each cell")
    records = [line for line in lines[1:] if any(value is not None for value in line)]
    return Source(names=tuple(names), records=records, reference=f"{sheet.title}!{cells}")


def _named_block(sheet: Sheet) -> str:
    """Return the range from A1 to the last row, up to the first column without a name in the first row."""
    names = [cell.value for cell in sheet[1]]
    width = next((at for at, name in enumerate(names) if name in (None, "")), len(names))
    letter = require("openpyxl.utils", "office").get_column_letter(max(width, 1))
    return f"A1:{letter}{sheet.max_row}"


def is_number(value: Any) -> bool:
    """Return whether a cell value is a number that can be summed."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def label_of(value: Any) -> Any:
    """Return the label that a pivot table shows for a value of a row or column field."""
    if value is None or value == "":
        return "(blank)"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime | date):
        return value.isoformat()[:10]
    return value


def pivot_frame(
    table: Source, rows: Sequence[str], columns: Sequence[str], values: Mapping[str, str]
) -> dict[tuple[tuple[Any, ...], Any, str], float]:
    """Return each number by its row (`()` for the total), its column (None for the total) and its value's field."""
    pandas = require("pandas", "office")
    keys = {one: [label_of(value) for value in table.column(one)] for one in {*rows, *columns}}
    numbers = {
        f"value {one}": [value if is_number(value) else math.nan for value in table.column(one)] for one in values
    }
    frame = pandas.DataFrame({**keys, **numbers})
    found: dict[tuple[tuple[Any, ...], Any, str], float] = {}
    for field, aggregation in values.items():
        of = frame[f"value {field}"]
        if aggregation == "count":
            of = pandas.Series([0 if one is None else 1 for one in table.column(field)])
        how = "sum" if aggregation == "count" else FUNCTIONS[aggregation]
        for by in (tuple(rows), ()):
            for across in (tuple(columns), ()):
                grouping = [*by, *across]
                grouped = of.groupby([frame[one] for one in grouping]).agg(how) if grouping else {(): of.agg(how)}
                for key, number in grouped.items():
                    whole = key if isinstance(key, tuple) else (key,)
                    column = whole[len(by)] if across else None
                    found[whole[: len(by)], column, field] = float(number)
    return found


def _read_pivot(package: Package, part: str, sheet: str) -> Pivot:
    root = package.xml(part)
    cache_part = next((one.target for one in package.relationships(part) if one.kind == "pivotCacheDefinition"), "")
    if cache_part not in package.parts:
        raise OfficeError(f"{package.path.name}: the pivot table {root.get('name')!r} has no cache")
    cache = package.xml(cache_part)
    names = tuple(one.get("name", "") for one in cache.iter("{*}cacheField"))
    records_part = str(PurePosixPath(cache_part))
    records = next((one.target for one in package.relationships(records_part) if "Records" in one.kind), "")
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
            (names[int(one.get("fld", "0"))], one.get("subtotal", "sum")) for one in root.iter("{*}dataField")
        ),
        num_records=number,
        fields=names,
    )


def _field_names(root: Element, group: str, names: Sequence[str]) -> Iterator[str]:
    for holder in root.iter(f"{{*}}{group}"):
        for one in holder:
            number = int(one.get("x", "0"))
            if 0 <= number < len(names):
                yield names[number]


def _source_reference(package: Package, source: Any) -> str:
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
    workbook = next(one.target for one in package.relationships("") if one.kind == "officeDocument")
    for one in package.xml(workbook).iter("{*}definedName"):
        if one.get("name") == name:
            return str(one.text or "").replace("$", "").replace("'", "")
    return str(name)


def _compare_cells(pivot: Pivot, table: Source, shown: Any) -> Iterator[str]:
    """Yield a line for each displayed number that differs from pandas."""
    known = {one: how if how in FUNCTIONS else "sum" for one, how in pivot.values}
    strange = [how for _, how in pivot.values if how not in FUNCTIONS]
    if strange:
        yield f"{pivot.name}: the aggregation {strange[0]!r} is not calculated here, so nothing is compared"
        return
    frame = pivot_frame(table, pivot.rows, pivot.columns, known)
    lines = [[cell.value for cell in line] for line in shown[pivot.location]]
    if not any(is_number(one) for line in lines for one in line):
        yield f"{pivot.name}: {pivot.sheet}!{pivot.location} shows no numbers; open it in a program that refreshes it"
        return
    labelled = list(_labelled_rows(lines, len(pivot.rows)))
    for (row, column, field), expected in sorted(frame.items(), key=lambda one: str(one[0])):
        if math.isnan(expected):
            continue
        numbers = _numbers_at(lines, labelled, tuple(map(str, row)), column)
        if not any(math.isclose(one, expected, rel_tol=1e-6, abs_tol=1e-6) for one in numbers):
            place = " / ".join(str(one) for one in (*row, *([column] if column is not None else []))) or TOTAL
            there = ", ".join(f"{one:,.10g}" for one in numbers[:4]) or "nothing"
            yield (
                f"{pivot.name}: {known[field]} of {field} for {place} is {expected:,.10g}; {pivot.sheet}!"
                f"{pivot.location} shows {there} there"
            )


def _labelled_rows(lines: Sequence[Sequence[Any]], width: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the labels of each row, with outer ones carried down; `()` for the total row."""
    carried = [""] * width
    for at, line in enumerate(lines):
        labels = [str(label_of(one)) if one is not None else "" for one in line[:width]]
        inner = next((n for n, one in enumerate(labels) if one), width)
        carried = [*carried[:inner], *labels[inner:]]
        yield tuple(carried), at


def _numbers_at(
    lines: Sequence[Sequence[Any]], labelled: Sequence[tuple[tuple[str, ...], int]], row: tuple[str, ...], column: Any
) -> list[float]:
    """Return the numbers of a row, at a column if it has a heading; for a total those of the last row."""
    found = [at for labels, at in labelled if row and labels == row]
    at = found[-1] if found else len(lines) - 1 if not row else None
    if at is None:
        return []
    width = len(labelled[0][0])
    if column is not None:
        for line in lines[:at]:
            right = next((n for n, one in enumerate(line) if n >= width and str(label_of(one)) == str(column)), None)
            if right is not None:
                return [lines[at][right]] if is_number(lines[at][right]) else []
    return [one for one in lines[at][width:] if is_number(one)]
