"""Cases on xlsx files like OSWorld's LibreOffice Calc tasks, with original files and instructions."""

import csv
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.office.suite.case import Check, Failures, OfficeCase
from apps.office.suite.sheets import load_book, load_openpyxl
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

NAME = "data.xlsx"
Change = Callable[["Worksheet"], object]
Rows = list[Any]


def calc_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    yield _fill_blanks()
    yield _sort_with_formulas()
    yield _freeze()
    yield _transpose()
    yield _pad()
    yield _split()
    yield _weekends()
    yield _unique()
    yield _hide()
    yield _as_shown()


def values_of(sheet: "Worksheet") -> dict[str, Any]:
    """Return the values of a sheet by cell name, without empty cells."""
    return {cell.coordinate: cell.value for row in sheet.iter_rows() for cell in row if cell.value is not None}


def _case(name: str, instruction: str, rows: Rows, check: Check, solve: Change, miss: Change) -> OfficeCase:
    """Return a case on one workbook with one sheet, Data."""

    def prepare(folder: Path) -> None:
        workbook = load_openpyxl().Workbook()
        workbook.active.title = "Data"
        for row in rows:
            workbook.active.append(row)
        workbook.save(folder / NAME)

    def changed(change: Change, folder: Path) -> None:
        workbook = load_book(folder, NAME)
        change(workbook["Data"])
        workbook.save(folder / NAME)

    return OfficeCase(
        name=name,
        family="edit",
        instruction=f"In the sheet Data of {NAME}: {instruction} Leave all other cells as they are.",
        prepare=prepare,
        check=check,
        solve=lambda folder: changed(solve, folder),
        miss=lambda folder: changed(miss, folder),
    )


def _expecting(rows: Rows, new: Mapping[str, object]) -> Check:
    """Return a check that only the cells in `new` have changed."""

    def check(folder: Path, answer: str) -> list[str]:
        workbook = load_openpyxl().Workbook()
        for row in rows:
            workbook.active.append(row)
        wanted = {**values_of(workbook.active), **new}
        wanted = {cell: value for cell, value in wanted.items() if value is not None}
        values = values_of(load_book(folder, NAME)["Data"])
        wrong = sorted(cell for cell in wanted.keys() | values.keys() if wanted.get(cell) != values.get(cell))
        return [f"{cell} holds {values.get(cell)!r}, expected {wanted.get(cell)!r}" for cell in wrong[:8]]

    return check


def _set(values: Mapping[str, object]) -> Change:
    def change(sheet: "Worksheet") -> None:
        for cell, value in values.items():
            sheet[cell] = value

    return change


def _fill_blanks() -> OfficeCase:
    draw = random.Random(60)
    rows: Rows = [["Day", "Depot", "Driver", "Van", "Remark"]]
    new: dict[str, Any] = {}
    above: list[Any] = [None] * 3
    for number in range(2, 20):
        line = [f"{word}{draw.randint(1, 9)}" if number == 2 or draw.random() < 0.4 else None for word in "DEV"]
        above = [value or before for value, before in zip(line, above, strict=True)]
        new |= {f"{'BCD'[at]}{number}": above[at] for at in range(3) if line[at] is None}
        rows.append([number - 1, *line, "late" if draw.random() < 0.2 else None])
    late = {f"E{number}": "late" for number in range(3, 20)}
    return _case(
        "fill-from-above",
        "fill each empty cell of B2:D19 with the value above it. Remarks stay empty where they are.",
        rows,
        _expecting(rows, new),
        _set(new),
        lambda sheet: _set({**new, **late})(sheet),
    )


def _sort_with_formulas() -> OfficeCase:
    draw = random.Random(61)
    lines: Rows = [[f"Item {letter}", draw.randint(1, 40), draw.randint(100, 999) / 100] for letter in "KCTAQMBZFH"]
    rows: Rows = [["Item", "Count", "Price", "Value"], *([*line, f"=B{at}*C{at}"] for at, line in enumerate(lines, 2))]
    rows.append(["Total", None, None, "=SUM(D2:D11)"])
    ordered = sorted(lines, key=lambda line: -line[1] * line[2])

    def write(sheet: "Worksheet", *, carried: bool) -> None:
        for at, line in enumerate(ordered, 2):
            old = lines.index(line) + 2
            for column, value in enumerate([*line, f"=B{old if carried else at}*C{old if carried else at}"], 1):
                sheet.cell(at, column, value)

    new: dict[str, Any] = {}
    for at, line in enumerate(ordered, 2):
        new |= {f"A{at}": line[0], f"B{at}": line[1], f"C{at}": line[2], f"D{at}": f"=B{at}*C{at}"}
    return _case(
        "sort-with-formulas",
        "sort the ten items by Value, largest first. Header and Total stay in their rows; each Value stays the product "
        "of count and price of its own row, as a formula.",
        rows,
        _expecting(rows, new),
        lambda sheet: write(sheet, carried=False),
        lambda sheet: write(sheet, carried=True),
    )


def _freeze() -> OfficeCase:
    rows: Rows = [["Room", *range(1, 13)], *([f"R{n}", *(n * m % 7 for m in range(1, 13))] for n in range(1, 60))]

    def change(sheet: "Worksheet", place: str) -> None:
        sheet.freeze_panes = place
        sheet.sheet_view.zoomScale = 70

    def check(folder: Path, answer: str) -> list[str]:
        sheet, failures = load_book(folder, NAME)["Data"], Failures()
        failures.expect(sheet.freeze_panes == "B2", f"what is frozen ends at {sheet.freeze_panes}")
        failures.expect(sheet.sheet_view.zoomScale == 70, f"the zoom is {sheet.sheet_view.zoomScale}")
        return failures.messages + _expecting(rows, {})(folder, answer)

    return _case(
        "freeze-header-and-names",
        "keep row 1 and column A in view when one scrolls, and set the zoom to 70 %.",
        rows,
        check,
        lambda sheet: change(sheet, "B2"),
        lambda sheet: change(sheet, "A2"),
    )


def _transpose() -> OfficeCase:
    block: Rows = [["", "Mon", "Tue", "Wed", "Thu"], ["Oak", 3, 1, 4, 1], ["Elm", 5, 9, 2, 6]]
    rows: Rows = [["Trees by day"], *([None, *line] for line in block)]
    new = {f"{'BCD'[column]}{8 + row}": block[column][row] or None for column in range(3) for row in range(5)}
    shifted = {f"{cell[0]}{int(cell[1:]) + 1}": value for cell, value in new.items()}
    return _case(
        "transpose-block",
        "copy the table B2:F4, transposed, to B8 (the copy's upper left cell is B8).",
        rows,
        _expecting([["Trees by day"], *([None, *(value or None for value in line)] for line in block)], new),
        _set(new),
        _set(shifted),
    )


def _pad() -> OfficeCase:
    draw = random.Random(62)
    numbers = [
        draw.choice((draw.randint(1, 99), draw.randint(100, 99_999), draw.randint(10**6, 10**7 - 1))) for _ in range(12)
    ]
    rows: Rows = [["Old", "New"], *([number, None] for number in numbers)]
    new = {f"B{at}": f"{number:07}" for at, number in enumerate(numbers, 2)}
    return _case(
        "pad-numbers",
        "fill the column New with the numbers of the column Old as texts of seven digits, with zeros in front.",
        rows,
        _expecting(rows, new),
        _set(new),
        _set({f"B{at}": number for at, number in enumerate(numbers, 2)}),
    )


_PEOPLE = ("Ada Lind (Captain)", "Bo de Vries (Pilot)", "Chris Okafor (First Officer)", "Dana  Ruiz (Pilot)")


def _split() -> OfficeCase:
    rows: Rows = [["Person", "First", "Last", "Rank"], *([text, None, None, None] for text in _PEOPLE)]
    right: dict[str, Any] = {}
    wrong: dict[str, Any] = {}
    for at, text in enumerate(_PEOPLE, 2):
        name, _, rank = text.partition(" (")
        first, _, last = name.partition(" ")
        right |= {f"B{at}": first, f"C{at}": last.strip(), f"D{at}": rank.rstrip(")")}
        wrong |= {f"B{at}": first, f"C{at}": last.split()[-1], f"D{at}": rank.split()[0].rstrip(")")}
    return _case(
        "split-person",
        "split each Person into First (the first word), Last (all other words of the name, without spaces around them) "
        "and Rank (the text in brackets).",
        rows,
        _expecting(rows, right),
        _set(right),
        _set(wrong),
    )


def _weekends() -> OfficeCase:
    days = [date(2026, 5, 1) + timedelta(n) for n in range(31)]
    rows: Rows = [["Date", "Shift"], *([day, "early" if day.day % 2 else "late"] for day in days)]

    def fill(sheet: "Worksheet", numbers: Sequence[int]) -> None:
        red = require("openpyxl.styles", "office").PatternFill("solid", fgColor="FFFF0000")
        for at, day in enumerate(days, 2):
            if day.weekday() in numbers:
                sheet.cell(at, 1).fill = red

    def check(folder: Path, answer: str) -> list[str]:
        sheet, failures = load_book(folder, NAME)["Data"], Failures()
        for row in sheet.iter_rows():
            for cell in row:
                is_red = cell.fill.fill_type == "solid" and str(cell.fill.fgColor.rgb)[-6:] == "FF0000"
                is_weekend = cell.row > 1 and cell.column == 1 and days[cell.row - 2].weekday() >= 5
                failures.expect(is_red == is_weekend, f"{cell.coordinate} is {'' if is_red else 'not '}red")
        values = [cell.value for cell in sheet["A"][1:]]
        failures.expect(
            [getattr(value, "day", None) for value in values] == [day.day for day in days], "dates were changed"
        )
        return failures.messages[:8]

    return _case(
        "mark-weekends",
        "give the dates that are a Saturday or a Sunday (column A only) a red background (FF0000), directly and not by a "
        "conditional format.",
        rows,
        check,
        lambda sheet: fill(sheet, (5, 6)),
        lambda sheet: fill(sheet, (6,)),
    )


def _unique() -> OfficeCase:
    names = ["Oak", "Elm", "oak", "Ash", "Elm ", "Fir", "Ash", "Yew", "Oak", "Fir"]
    rows: Rows = [["All", "Once"], *([name, None] for name in names)]
    once = list(dict.fromkeys(name.strip().lower() for name in names))
    new = {f"B{at}": name.title() for at, name in enumerate(once, 2)}
    return _case(
        "unique-in-order",
        "write each tree of the column All once into the column Once from B2 on, in the order of their first "
        "appearance. Spaces and case make no difference; write them like Oak.",
        rows,
        _expecting(rows, new),
        _set(new),
        _set({f"B{at}": name for at, name in enumerate(sorted(new.values()), 2)}),
    )


def _hide() -> OfficeCase:
    draw = random.Random(63)
    rows: Rows = [
        ["Plot", "Yield"],
        *([f"P{n}", "N/A" if draw.random() < 0.3 else draw.randint(20, 90)] for n in range(1, 25)),
    ]
    missing = [at for at, row in enumerate(rows, 1) if row[1] == "N/A"]

    def check(folder: Path, answer: str) -> list[str]:
        sheet = load_book(folder, NAME)["Data"]
        hidden = [at for at in range(1, len(rows) + 1) if sheet.row_dimensions[at].hidden]
        failures = [] if hidden == missing else [f"the rows {hidden} are hidden, expected {missing}"]
        return failures + _expecting(rows, {})(folder, answer)

    def hide(sheet: "Worksheet") -> None:
        for at in missing:
            sheet.row_dimensions[at].hidden = True

    return _case(
        "hide-missing",
        "hide the rows whose Yield is N/A. Delete nothing and set no filter.",
        rows,
        check,
        hide,
        lambda sheet: [sheet.delete_rows(at) for at in reversed(missing)],
    )


def _as_shown() -> OfficeCase:
    rows: Rows = [("Paid", "Share", "Sum"), (date(2026, 3, 9), 0.125, 1234.5), (date(2026, 11, 30), 0.5, -7)]
    shown = [["Paid", "Share", "Sum"], ["09.03.2026", "12.5%", "1,234.50"], ["30.11.2026", "50.0%", "-7.00"]]

    def prepare(folder: Path) -> None:
        workbook = load_openpyxl().Workbook()
        for row in rows:
            workbook.active.append(row)
        for cells in workbook.active.iter_rows(min_row=2):
            for cell, form in zip(cells, ("DD.MM.YYYY", "0.0%", "#,##0.00"), strict=True):
                cell.number_format = form
        workbook.save(folder / NAME)

    def write(folder: Path, lines: Sequence[Sequence[object]]) -> None:
        with (folder / "data.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(lines)

    def check(folder: Path, answer: str) -> list[str]:
        with (folder / "data.csv").open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
        return [] if rows == shown else [f"the lines are {rows}"]

    return OfficeCase(
        name="csv-as-shown",
        family="convert",
        instruction=f"Export the sheet of {NAME} to data.csv (UTF-8, commas) with each value as it is shown on the screen, by "
        "its number format, such as 1,234.50.",
        prepare=prepare,
        check=check,
        solve=lambda folder: write(folder, shown),
        miss=lambda folder: write(folder, rows),
    )
