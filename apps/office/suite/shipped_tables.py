"""Cases on tables that ship inside packages: share prices, and the passengers of a ship."""

import csv
import re
import statistics
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from apps.office.package import open_package
from apps.office.sheets.pivot_writer import add_pivot
from apps.office.sheets.pivots import check_pivot, read_pivots
from apps.office.suite.case import Failures, OfficeCase, prepare_nothing
from apps.office.suite.package_files import PackageFile, with_package_file
from apps.office.suite.sheets import load_book, load_openpyxl

PRICES = PackageFile(kind="python", package="matplotlib", path="sample_data/msft.csv")
STOCKS = PackageFile(kind="python", package="matplotlib", path="sample_data/Stocks.csv")
TITANIC = PackageFile(kind="python", package="gradio", path="media_assets/data/titanic.csv")


def shipped_table_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    yield _prices()
    yield _busiest()
    yield _yearly()
    yield _passengers()


def _price_rows(folder: Path) -> list[list[Any]]:
    """Return the header and the days of msft.csv as values, oldest first."""
    with (folder / "msft.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = [row for row in csv.reader(file) if row]
    days = [[datetime.strptime(row[0], "%d-%b-%y"), *map(float, row[1:])] for row in lines]
    return [header, *sorted(days)]


def _prices() -> OfficeCase:
    def act(folder: Path, *, as_dates: bool) -> None:
        workbook, rows = load_openpyxl().Workbook(), _price_rows(folder)
        workbook.active.title = "Prices"
        for row in rows:
            is_text = not as_dates and isinstance(row[0], datetime)
            workbook.active.append([row[0].strftime("%d-%b-%y") if is_text else row[0], *row[1:]])
        workbook.active.append(["Highest", None, None, None, f"=MAX(E2:E{len(rows)})"])
        workbook.save(folder / "prices.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        rows, failures = _price_rows(folder), Failures()
        sheet = load_book(folder, "prices.xlsx")["Prices"]
        cells = [[cell.value for cell in row[:7]] for row in sheet.iter_rows(max_row=len(rows))]
        wrong = next((at for at, (line, other) in enumerate(zip(cells, rows, strict=True), 1) if line != other), 0)
        failures.expect(not wrong, f"row {wrong} is {cells[wrong - 1]}")
        last = len(rows) + 1
        failures.expect(sheet.cell(last, 1).value == "Highest", f"cell A{last} is {sheet.cell(last, 1).value!r}")
        formula = str(sheet.cell(last, 5).value).replace("$", "")
        failures.expect(formula == f"=MAX(E2:E{last - 1})", f"cell E{last} is {formula}")
        return failures.messages

    case = OfficeCase(
        name="prices-to-workbook",
        family="convert",
        instruction="Make prices.xlsx of msft.csv: a sheet Prices with the same columns, the oldest day first, dates as real "
        "dates (the years are 2003) and figures as numbers. Below the last day, column A says Highest and column E has the "
        "highest Close as a formula.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, as_dates=True),
        miss=lambda folder: act(folder, as_dates=False),
    )
    return with_package_file(PRICES, "msft.csv", case)


def _busiest() -> OfficeCase:
    def day(folder: Path, key: Callable[[list[Any]], float]) -> str:
        return str(max(_price_rows(folder)[1:], key=key)[0].date())

    def check(folder: Path, answer: str) -> list[str]:
        dates, right = re.findall(r"\d{4}-\d\d-\d\d", answer), day(folder, lambda row: float(row[5]))
        return [] if dates == [right] else [f"the answer says {dates}"]

    case = OfficeCase(
        name="busiest-day",
        family="extract",
        instruction="On which day of msft.csv was the volume highest? Answer with the date only, such as 2003-01-31.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: day(folder, lambda row: float(row[5])),
        miss=lambda folder: day(folder, lambda row: float(row[2])),
    )
    return with_package_file(PRICES, "msft.csv", case)


def _yearly() -> OfficeCase:
    def means(folder: Path, *, blank_is_zero: bool) -> list[list[str]]:
        with (folder / "Stocks.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        years: dict[str, list[float]] = {}
        for row in rows:
            if row["GOOGL"] or blank_is_zero:
                years.setdefault(row["Date"][:4], []).append(float(row["GOOGL"] or 0))
        return [["year", "mean"], *([year, f"{statistics.fmean(prices):.2f}"] for year, prices in years.items())]

    def act(folder: Path, *, blank_is_zero: bool) -> None:
        with (folder / "yearly.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(means(folder, blank_is_zero=blank_is_zero))

    def check(folder: Path, answer: str) -> list[str]:
        with (folder / "yearly.csv").open(newline="", encoding="utf-8-sig") as file:
            rows_read = [row for row in csv.reader(file) if row]
        wrong = [row for row in rows_read if row not in means(folder, blank_is_zero=False)]
        is_whole = len(rows_read) == len(means(folder, blank_is_zero=False))
        return [] if is_whole and not wrong else [f"{len(rows_read)} rows, wrong are {wrong[:4]}"]

    case = OfficeCase(
        name="yearly-means",
        family="extract",
        instruction="Write yearly.csv with the columns year and mean: the mean of GOOGL in Stocks.csv over the months of each "
        "year that have a price, with two decimals, the earliest year first. Years without any price are left out.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, blank_is_zero=False),
        miss=lambda folder: act(folder, blank_is_zero=True),
    )
    return with_package_file(STOCKS, "Stocks.csv", case)


def _passengers() -> OfficeCase:
    def act(folder: Path, how: Any) -> None:
        workbook = load_openpyxl().Workbook()
        sheet = workbook.active
        sheet.title = "Passengers"
        with (folder / "titanic.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                sheet.append([int(value) if value.isdigit() else value or None for value in row])
        add_pivot(workbook.create_sheet("Pivot"), sheet, rows=("Pclass",), columns=("Sex",), values={"Survived": how})
        workbook.save(folder / "titanic.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        pivots, failures = read_pivots(open_package(folder / "titanic.xlsx")), Failures()
        values = load_book(folder, "titanic.xlsx", values=True)
        failures.expect(values["Passengers"].max_row == 892, f"{values['Passengers'].max_row} rows of passengers")
        failures.expect(len(pivots) == 1, f"{len(pivots)} pivot tables, expected 1")
        for pivot in pivots:
            fields = (pivot.rows, pivot.columns, pivot.values, pivot.sheet)
            failures.expect(fields == (("Pclass",), ("Sex",), (("Survived", "sum"),), "Pivot"), f"it has {fields}")
            failures.messages += check_pivot(pivot, values["Passengers"], values[pivot.sheet])
        return failures.messages

    case = OfficeCase(
        name="passengers-pivot",
        family="make",
        instruction="Make titanic.xlsx of titanic.csv: a sheet Passengers with all rows and columns (numbers as numbers), and "
        "a sheet Pivot with a real pivot table: Pclass in the rows, Sex in the columns, the sum of Survived as its value.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, "sum"),
        miss=lambda folder: act(folder, "count"),
    )
    return with_package_file(TITANIC, "titanic.csv", case)
