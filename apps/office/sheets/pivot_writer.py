"""Writing of pivot tables: definition, cache, records, and the displayed cells."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from apps.office.libraries import Sheet, Workbook
from apps.office.safe_xml import OfficeError
from apps.office.sheets.pivots import (
    FUNCTIONS,
    TOTAL,
    Aggregation,
    Pivot,
    Source,
    is_number,
    label_of,
    pivot_frame,
    read_source,
)
from cua.errors import name_choices
from envs.errors import require

_CAPTIONS = {"sum": "Sum of", "count": "Count of", "average": "Average of", "min": "Min of", "max": "Max of"}
_DATA = -2
"""Field number that represents the values. Source: ECMA-376 part 1, 18.10.1.90."""


def add_pivot(
    sheet: Sheet,
    source: Any,
    *,
    rows: Sequence[str],
    values: Mapping[str, Aggregation],
    columns: Sequence[str] = (),
    anchor: str = "A3",
    name: str = "",
) -> Pivot:
    """Add a pivot table to a sheet of openpyxl: definition, cache, records, and current values in its cells.

    Args:
        sheet: Target sheet.
        source: Sheet with the data: names in its first row, up to the first empty cell; one record per row.
        rows: One or more row fields.
        values: Aggregation by field; several only without `columns`.
        columns: At most one column field.
        anchor: Top left cell.
        name: Name of the table.

    Raises:
        OfficeError: If a field is missing, values are not numbers, or the layout is not supported.
    """
    table = read_source(source)
    _check_request(table, rows, values, columns)
    frame = pivot_frame(table, rows, columns, values)
    name = name or f"Pivot{sum(len(one._pivots) for one in sheet.parent.worksheets) + 1}"
    location = _write_cells(sheet, anchor, frame, rows, columns, values)
    definition = _definition(name, location, table, rows, columns, values, sheet.parent)
    definition.cache = _cache(table, {*rows, *columns})
    sheet.add_pivot(definition)
    return Pivot(
        name=name,
        sheet=sheet.title,
        location=location,
        source=table.reference,
        rows=tuple(rows),
        columns=tuple(columns),
        values=tuple(values.items()),
        num_records=len(table.records),
        fields=table.names,
    )


def _check_request(
    table: Source, rows: Sequence[str], values: Mapping[str, Aggregation], columns: Sequence[str]
) -> None:
    for one in (*rows, *columns, *values):
        if one not in table.names:
            raise OfficeError(f"{table.reference} has no field {one!r}.{name_choices(one, table.names)}")
    if not rows or not values or len(columns) > 1 or (columns and len(values) > 1):
        raise OfficeError(
            "expected at least one field of rows, at least one value, at most one field of columns, and with that one "
            "only one value"
        )
    if len({*rows, *columns}) < len(rows) + len(columns):
        raise OfficeError("a field stands in the rows and columns of a pivot table at most once")
    for field, aggregation in values.items():
        if aggregation not in FUNCTIONS:
            raise OfficeError(f"{aggregation!r} is no aggregation; expected one of {', '.join(FUNCTIONS)}")
        wrong = next((one for one in table.column(field) if not is_number(one) and one is not None), None)
        if wrong is not None and aggregation != "count":
            raise OfficeError(
                f"the field {field!r} holds {wrong!r}; {aggregation} needs numbers"
                + (" (recalculate the workbook first)" if str(wrong).startswith("=") else "")
            )


def _write_cells(
    sheet: Sheet,
    anchor: str,
    frame: Mapping[tuple[tuple[Any, ...], Any, str], float],
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[str, str],
) -> str:
    """Write the displayed cells and return their range."""
    utils, styles = require("openpyxl.utils", "office"), require("openpyxl.styles", "office")
    letter, first_row = utils.cell.coordinate_from_string(anchor)
    first = utils.column_index_from_string(letter)
    row_keys = sorted({key[0] for key in frame if key[0]}, key=_order)
    column_keys: list[Any] = sorted({key[1] for key in frame if key[1] is not None}, key=lambda one: _order((one,)))
    lines: list[list[Any]] = []
    if columns:
        field = next(iter(values))
        caption = f"{_CAPTIONS[values[field]]} {field}"
        lines.append([caption, *[None] * (len(rows) - 1), columns[0], *[None] * len(column_keys)])
        lines.append([*rows, *column_keys, TOTAL])
        across: list[tuple[Any, str]] = [(one, field) for one in (*column_keys, None)]
    else:
        lines.append([*rows, *(f"{_CAPTIONS[how]} {field}" for field, how in values.items())])
        across = [(None, field) for field in values]
    for key in [*row_keys, ()]:
        numbers = [frame.get((key, column, field)) for column, field in across]
        labels = _row_labels(key, row_keys, len(rows)) if key else [TOTAL, *[None] * (len(rows) - 1)]
        lines.append([*labels, *numbers])
    for down, line in enumerate(lines):
        for right, value in enumerate(line):
            cell = sheet.cell(row=first_row + down, column=first + right)
            cell.value = value
            if isinstance(value, str) and value[:1] in "=+-@":
                cell.data_type = "s"
            if down < len(lines) - len(row_keys) - 1 or down == len(lines) - 1:
                cell.font = styles.Font(bold=True)
    last = utils.get_column_letter(first + len(lines[0]) - 1)
    return f"{anchor}:{last}{first_row + len(lines) - 1}"


def _row_labels(key: tuple[Any, ...], keys: Sequence[tuple[Any, ...]], width: int) -> list[Any]:
    """Return the labels of a row; outer fields are labelled only where they change."""
    at = keys.index(key)
    if not at:
        return list(key)
    earlier = keys[at - 1]
    same = next((n for n in range(width) if key[n] != earlier[n]), width)
    return [None] * same + list(key[same:])


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((isinstance(one, str), one) for one in key)


def _definition(
    name: str,
    location: str,
    table: Source,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[str, str],
    workbook: Workbook,
) -> Any:
    module = require("openpyxl.pivot.table", "office")
    fields = [_pivot_field(module, table, one, rows, columns, values) for one in table.names]
    number = {one: at for at, one in enumerate(table.names)}
    across = [number[one] for one in columns] or ([_DATA] if len(values) > 1 else [])
    keys = set(zip(*([label_of(value) for value in table.column(one)] for one in rows), strict=True))
    items = {one: _items(table, one) for one in (*rows, *columns)}
    return module.TableDefinition(
        name=name,
        cacheId=10 + sum(len(one._pivots) for one in workbook.worksheets),
        dataCaption="Values",
        applyNumberFormats=False,
        applyBorderFormats=False,
        applyFontFormats=False,
        applyPatternFormats=False,
        applyAlignmentFormats=False,
        applyWidthHeightFormats=True,
        compact=False,
        compactData=False,
        outline=False,
        outlineData=False,
        gridDropZones=False,
        itemPrintTitles=True,
        useAutoFormatting=True,
        grandTotalCaption=TOTAL,
        createdVersion=6,
        updatedVersion=6,
        minRefreshableVersion=3,
        location=module.Location(
            ref=location, firstHeaderRow=1, firstDataRow=2 if columns else 1, firstDataCol=len(rows)
        ),
        pivotFields=fields,
        rowFields=[module.RowColField(x=number[one]) for one in rows],
        rowItems=_row_items(module, sorted(keys, key=_order), [items[one] for one in rows]),
        colFields=[module.RowColField(x=one) for one in across],
        colItems=_column_items(module, len(items[columns[0]]) if columns else 0, len(values)),
        dataFields=[
            module.DataField(name=f"{_CAPTIONS[how]} {one}", fld=number[one], subtotal=how, baseField=0, baseItem=0)
            for one, how in values.items()
        ],
        pivotTableStyleInfo=module.PivotTableStyle(
            name="PivotStyleLight16",
            showRowHeaders=True,
            showColHeaders=True,
            showRowStripes=False,
            showColStripes=False,
            showLastColumn=True,
        ),
    )


def _pivot_field(
    module: ModuleType, table: Source, name: str, rows: Sequence[str], columns: Sequence[str], values: Mapping[str, str]
) -> Any:
    axis = "axisRow" if name in rows else "axisCol" if name in columns else None
    plain = {"compact": False, "outline": False, "showAll": False, "dataField": name in values or None}
    if axis is None:
        return module.PivotField(**plain)
    items = [module.FieldItem(x=at) for at in range(len(_items(table, name)))]
    return module.PivotField(axis=axis, defaultSubtotal=False, items=items, **plain)


def _row_items(module: ModuleType, keys: Sequence[tuple[Any, ...]], items: Sequence[list[Any]]) -> list[Any]:
    index = _index_class(module)
    made = []
    for at, key in enumerate(keys):
        numbers = [items[n].index(one) for n, one in enumerate(key)]
        same = 0
        if at:
            same = next((n for n in range(len(key)) if key[n] != keys[at - 1][n]), len(key))
        made.append(module.RowColItem(r=same, x=[index(v=one) for one in numbers[same:]]))
    made.append(module.RowColItem(t="grand", x=[index(v=0)]))
    return made


def _column_items(module: ModuleType, num_columns: int, num_values: int) -> list[Any]:
    index = _index_class(module)
    if num_columns:
        made = [module.RowColItem(x=[index(v=one)]) for one in range(num_columns)]
        return [*made, module.RowColItem(t="grand", x=[index(v=0)])]
    if num_values > 1:
        return [module.RowColItem(i=one, x=[index(v=one)]) for one in range(num_values)]
    return [module.RowColItem()]


def _index_class(module: ModuleType) -> Any:
    return require("openpyxl.pivot.fields", "office").Index


def _cache(table: Source, listed: set[str]) -> Any:
    """Build the cache of a source; row and column fields list their values once, and records hold indices."""
    module, fields = require("openpyxl.pivot.cache", "office"), require("openpyxl.pivot.fields", "office")
    records = require("openpyxl.pivot.record", "office")
    sheet, _, cells = table.reference.rpartition("!")
    items = {one: _items(table, one) for one in listed}
    made = []
    for line in table.records:
        entries = []
        for name, value in zip(table.names, line, strict=True):
            entries.append(
                fields.Index(v=items[name].index(label_of(value))) if name in items else _cache_value(fields, value)
            )
        made.append(records.Record(_fields=entries))
    cache = module.CacheDefinition(
        refreshOnLoad=True,
        refreshedBy="cua-k25",
        createdVersion=6,
        refreshedVersion=6,
        minRefreshableVersion=3,
        recordCount=len(made),
        cacheSource=module.CacheSource(
            type="worksheet", worksheetSource=module.WorksheetSource(ref=cells, sheet=sheet)
        ),
        cacheFields=[
            module.CacheField(name=name, numFmtId=0, sharedItems=_shared(module, fields, table, name, items))
            for name in table.names
        ],
        id="rId1",
    )
    cache.records = records.RecordList(r=made)
    return cache


def _shared(module: ModuleType, fields: ModuleType, table: Source, name: str, items: Mapping[str, list[Any]]) -> Any:
    if name in items:
        listed = [_cache_value(fields, one) for one in items[name]]
        return module.SharedItems(_fields=listed, count=len(listed))
    numbers = [one for one in table.column(name) if is_number(one)]
    if not numbers or len(numbers) < len([one for one in table.column(name) if one is not None]):
        return module.SharedItems()
    return module.SharedItems(
        containsSemiMixedTypes=False,
        containsString=False,
        containsNumber=True,
        containsInteger=all(float(one).is_integer() for one in numbers) or None,
        minValue=min(numbers),
        maxValue=max(numbers),
    )


def _cache_value(fields: ModuleType, value: Any) -> Any:
    if value is None:
        return fields.Missing()
    if is_number(value):
        return fields.Number(v=value)
    return fields.Text(v=str(label_of(value)))


def _items(table: Source, field: str) -> list[Any]:
    """Return the distinct values of a field in order; a missing value is "(blank)"."""
    found = {label_of(one) for one in table.column(field)}
    return sorted(found, key=lambda one: (isinstance(one, str), one))
