"""Writing of pivot tables: definition, cache, records, and the displayed cells."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from apps.office.safe_xml import OfficeError
from apps.office.sheets.pivots import (
    FUNCTIONS,
    TOTAL,
    Aggregation,
    Pivot,
    PivotSource,
    is_number,
    label_of,
    pivot_frame,
    read_source,
)
from cua.errors import name_choices
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

_CAPTIONS = {"sum": "Sum of", "count": "Count of", "average": "Average of", "min": "Min of", "max": "Max of"}
_DATA = -2
"""Field number that represents the values. Source: ECMA-376 part 1, 18.10.1.90."""


def add_pivot(
    sheet: "Worksheet",
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
    name = name or f"Pivot{sum(len(worksheet._pivots) for worksheet in sheet.parent.worksheets) + 1}"
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
    table: PivotSource, rows: Sequence[str], values: Mapping[str, Aggregation], columns: Sequence[str]
) -> None:
    for name in (*rows, *columns, *values):
        if name not in table.names:
            raise OfficeError(f"{table.reference} has no field {name!r}.{name_choices(name, table.names)}")
    if not rows or not values or len(columns) > 1 or (columns and len(values) > 1):
        raise OfficeError(
            "expected at least one field of rows, at least one value, at most one field of columns, and with that one "
            "only one value"
        )
    if len({*rows, *columns}) < len(rows) + len(columns):
        raise OfficeError("a field is used more than once in the rows and columns of a pivot table")
    for field, aggregation in values.items():
        if aggregation not in FUNCTIONS:
            raise OfficeError(f"{aggregation!r} is not an aggregation; expected one of {', '.join(FUNCTIONS)}")
        wrong = next((value for value in table.column(field) if not is_number(value) and value is not None), None)
        if wrong is not None and aggregation != "count":
            raise OfficeError(
                f"the field {field!r} holds {wrong!r}; {aggregation} needs numbers"
                + (" (recalculate the workbook first)" if str(wrong).startswith("=") else "")
            )


def _write_cells(
    sheet: "Worksheet",
    anchor: str,
    frame: Mapping[tuple[tuple[object, ...], object, str], float],
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[str, str],
) -> str:
    """Write the displayed cells and return their range."""
    utils, styles = require("openpyxl.utils", "office"), require("openpyxl.styles", "office")
    letter, first_row = utils.cell.coordinate_from_string(anchor)
    first = utils.column_index_from_string(letter)
    row_keys = sorted({key[0] for key in frame if key[0]}, key=_order)
    column_keys: list[object] = sorted({key[1] for key in frame if key[1] is not None}, key=lambda key: _order((key,)))
    lines: list[list[object]] = []
    if columns:
        field = next(iter(values))
        caption = f"{_CAPTIONS[values[field]]} {field}"
        lines.append([caption, *[None] * (len(rows) - 1), columns[0], *[None] * len(column_keys)])
        lines.append([*rows, *column_keys, TOTAL])
        across: list[tuple[object, str]] = [(key, field) for key in (*column_keys, None)]
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


def _row_labels(key: tuple[object, ...], keys: Sequence[tuple[object, ...]], width: int) -> list[object]:
    """Return the labels of a row; outer fields are labelled only where they change."""
    at = keys.index(key)
    if not at:
        return list(key)
    earlier = keys[at - 1]
    same = next((n for n in range(width) if key[n] != earlier[n]), width)
    return [None] * same + list(key[same:])


def _order(key: tuple[object, ...]) -> tuple[object, ...]:
    return tuple((isinstance(value, str), value) for value in key)


def _definition(
    name: str,
    location: str,
    table: PivotSource,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[str, str],
    workbook: "Workbook",
) -> Any:
    module = require("openpyxl.pivot.table", "office")
    fields = [_pivot_field(module, table, field, rows, columns, values) for field in table.names]
    number = {field: at for at, field in enumerate(table.names)}
    across = [number[field] for field in columns] or ([_DATA] if len(values) > 1 else [])
    keys = set(zip(*([label_of(value) for value in table.column(field)] for field in rows), strict=True))
    items = {field: _items(table, field) for field in (*rows, *columns)}
    return module.TableDefinition(
        name=name,
        cacheId=10 + sum(len(worksheet._pivots) for worksheet in workbook.worksheets),
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
        rowFields=[module.RowColField(x=number[field]) for field in rows],
        rowItems=_row_items(module, sorted(keys, key=_order), [items[field] for field in rows]),
        colFields=[module.RowColField(x=number) for number in across],
        colItems=_column_items(module, len(items[columns[0]]) if columns else 0, len(values)),
        dataFields=[
            module.DataField(name=f"{_CAPTIONS[how]} {field}", fld=number[field], subtotal=how, baseField=0, baseItem=0)
            for field, how in values.items()
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
    module: ModuleType,
    table: PivotSource,
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Mapping[str, str],
) -> Any:
    axis = "axisRow" if name in rows else "axisCol" if name in columns else None
    plain = {"compact": False, "outline": False, "showAll": False, "dataField": name in values or None}
    if axis is None:
        return module.PivotField(**plain)
    items = [module.FieldItem(x=at) for at in range(len(_items(table, name)))]
    return module.PivotField(axis=axis, defaultSubtotal=False, items=items, **plain)


def _row_items(
    module: ModuleType, keys: Sequence[tuple[object, ...]], items: Sequence[Sequence[object]]
) -> list[object]:
    index = _index_class(module)
    row_items = []
    for at, key in enumerate(keys):
        numbers = [items[n].index(value) for n, value in enumerate(key)]
        same = 0
        if at:
            same = next((n for n in range(len(key)) if key[n] != keys[at - 1][n]), len(key))
        row_items.append(module.RowColItem(r=same, x=[index(v=position) for position in numbers[same:]]))
    row_items.append(module.RowColItem(t="grand", x=[index(v=0)]))
    return row_items


def _column_items(module: ModuleType, num_columns: int, num_values: int) -> list[object]:
    index = _index_class(module)
    if num_columns:
        column_items = [module.RowColItem(x=[index(v=position)]) for position in range(num_columns)]
        return [*column_items, module.RowColItem(t="grand", x=[index(v=0)])]
    if num_values > 1:
        return [module.RowColItem(i=position, x=[index(v=position)]) for position in range(num_values)]
    return [module.RowColItem()]


def _index_class(module: ModuleType) -> Any:
    return require("openpyxl.pivot.fields", "office").Index


def _cache(table: PivotSource, listed: set[str]) -> object:
    """Build the cache of a source; row and column fields list their values once, and records hold indices."""
    module, fields = require("openpyxl.pivot.cache", "office"), require("openpyxl.pivot.fields", "office")
    records = require("openpyxl.pivot.record", "office")
    sheet, _, cells = table.reference.rpartition("!")
    items = {field: _items(table, field) for field in listed}
    rows = []
    for line in table.records:
        entries = []
        for name, value in zip(table.names, line, strict=True):
            entries.append(
                fields.Index(v=items[name].index(label_of(value))) if name in items else _cache_value(fields, value)
            )
        rows.append(records.Record(_fields=entries))
    cache = module.CacheDefinition(
        refreshOnLoad=True,
        refreshedBy="cua-k25",
        createdVersion=6,
        refreshedVersion=6,
        minRefreshableVersion=3,
        recordCount=len(rows),
        cacheSource=module.CacheSource(
            type="worksheet", worksheetSource=module.WorksheetSource(ref=cells, sheet=sheet)
        ),
        cacheFields=[
            module.CacheField(name=name, numFmtId=0, sharedItems=_shared(module, fields, table, name, items))
            for name in table.names
        ],
        id="rId1",
    )
    cache.records = records.RecordList(r=rows)
    return cache


def _shared(
    module: ModuleType, fields: ModuleType, table: PivotSource, name: str, items: Mapping[str, Sequence[object]]
) -> Any:
    if name in items:
        listed = [_cache_value(fields, item) for item in items[name]]
        return module.SharedItems(_fields=listed, count=len(listed))
    numbers = [value for value in table.column(name) if is_number(value)]
    if not numbers or len(numbers) < len([value for value in table.column(name) if value is not None]):
        return module.SharedItems()
    return module.SharedItems(
        containsSemiMixedTypes=False,
        containsString=False,
        containsNumber=True,
        containsInteger=all(float(number).is_integer() for number in numbers) or None,
        minValue=min(numbers),
        maxValue=max(numbers),
    )


def _cache_value(fields: ModuleType, value: object) -> object:
    if value is None:
        return fields.Missing()
    if is_number(value):
        return fields.Number(v=value)
    return fields.Text(v=str(label_of(value)))


def _items(table: PivotSource, field: str) -> list[object]:
    """Return the distinct values of a field in order; a missing value is "(blank)"."""
    labels = {label_of(value) for value in table.column(field)}
    return sorted(labels, key=lambda label: (isinstance(label, str), label))
