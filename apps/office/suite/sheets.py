"""Cases on xlsx files: formulas, pivot tables, charts, rules."""

import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from apps.office.package import open_package
from apps.office.sheets.pivot_writer import add_pivot
from apps.office.sheets.pivots import check_pivot, read_pivots
from apps.office.suite.case import Failures, OfficeCase, open_checked
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl import Workbook

SHOPS, GOODS = ("North", "South", "East"), ("Pen", "Ink", "Paper", "Clip")


def sheet_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    for seed in range(1, 5):
        yield _totals(seed)
    for seed, (rows, columns, how) in enumerate(_PIVOTS, 10):
        yield _pivot(seed, rows, columns, how)
    for seed in (20, 21, 22):
        yield _chart(seed)
        yield _rules(seed)


def load_openpyxl() -> ModuleType:
    """Import and return openpyxl."""
    return require("openpyxl", "office")


def _sales(seed: int) -> "Workbook":
    """Return a workbook with one sheet of sales."""
    draw, workbook = random.Random(seed), load_openpyxl().Workbook()
    sheet = workbook.active
    sheet.title = "Sales"
    sheet.append(["Shop", "Item", "Units", "Price"])
    for _ in range(40):
        sheet.append([draw.choice(SHOPS), draw.choice(GOODS), draw.randint(1, 90), draw.randint(50, 990) / 10])
    return workbook


def write_sales(seed: int, folder: Path) -> None:
    """Write sales.xlsx."""
    _sales(seed).save(folder / "sales.xlsx")


def load_book(folder: Path, name: str = "sales.xlsx", *, values: bool = False) -> "Workbook":
    """Load a workbook of a folder after opening it safely."""
    return load_openpyxl().load_workbook(open_checked(folder / name), data_only=values)


def _totals(seed: int) -> OfficeCase:
    def act(folder: Path, *, as_values: bool) -> None:
        workbook = load_book(folder)
        sheet = workbook["Sales"]
        sheet["E1"], last = "Revenue", sheet.max_row
        total = 0.0
        for row in range(2, last + 1):
            value = round(sheet.cell(row, 3).value * sheet.cell(row, 4).value, 2)
            total += value
            sheet.cell(row, 5, value if as_values else f"=C{row}*D{row}")
        sheet.cell(last + 1, 1, "Total")
        sheet.cell(last + 1, 5, round(total, 2) if as_values else f"=SUM(E2:E{last})")
        workbook.save(folder / "sales.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        sheet, failures = load_book(folder)["Sales"], Failures()
        last = sheet.max_row
        failures.expect(last == 42 and sheet.cell(42, 1).value == "Total", "row 42 is not a row of totals")
        failures.expect(sheet["E1"].value == "Revenue", "column E is not called Revenue")
        formulas = [str(sheet.cell(row, 5).value).replace("$", "").replace(" ", "") for row in range(2, 42)]
        wanted = [{f"=C{row}*D{row}", f"=D{row}*C{row}", f"=PRODUCT(C{row},D{row})"} for row in range(2, 42)]
        failures.expect(
            all(formula in them for formula, them in zip(formulas, wanted, strict=True)), "column E has no formulas"
        )
        failures.expect(
            str(sheet.cell(42, 5).value).replace("$", "") == "=SUM(E2:E41)", "the total is not the sum of E2:E41"
        )
        return failures.messages

    return OfficeCase(
        name=f"totals-{seed}",
        family="edit",
        instruction="In sales.xlsx, add a column E Revenue with the product of units and price as formulas, and below the "
        "last row a row that says Total in column A and has the sum of the revenues in E, as a formula.",
        prepare=lambda folder: write_sales(seed, folder),
        check=check,
        solve=lambda folder: act(folder, as_values=False),
        miss=lambda folder: act(folder, as_values=True),
    )


_PIVOTS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("Shop",), (), "sum"),
    (("Item",), ("Shop",), "sum"),
    (("Shop",), ("Item",), "max"),
    (("Shop", "Item"), (), "average"),
    (("Item",), (), "count"),
)


def _pivot(seed: int, rows: tuple[str, ...], columns: tuple[str, ...], how: Any) -> OfficeCase:
    def check(folder: Path, answer: str) -> list[str]:
        package, failures = open_package(folder / "sales.xlsx"), Failures()
        pivots = read_pivots(package)
        failures.expect(len(pivots) == 1, f"{len(pivots)} pivot tables, expected 1")
        values = load_book(folder, values=True)
        for pivot in pivots[:1]:
            failures.expect(
                (pivot.rows, pivot.columns) == (rows, columns), f"its fields are {pivot.rows} and {pivot.columns}"
            )
            failures.expect(pivot.values == (("Units", how),), f"its values are {pivot.values}")
            failures.expect(pivot.sheet == "Pivot", f"it is on the sheet {pivot.sheet!r}")
            source = pivot.source.rpartition("!")[0].strip("'")
            failures.messages += check_pivot(pivot, values[source], values[pivot.sheet])
        return failures.messages

    def solve(folder: Path) -> None:
        workbook = load_book(folder)
        sheet = workbook.create_sheet("Pivot")
        add_pivot(sheet, workbook["Sales"], rows=rows, columns=columns, values={"Units": how})
        workbook.save(folder / "sales.xlsx")

    def miss(folder: Path) -> None:
        solve(folder)
        workbook = load_book(folder)
        workbook["Pivot"]._pivots.clear()  # the numbers alone look the same
        workbook.save(folder / "sales.xlsx")

    across = f" and {columns[0]} in the columns" if columns else ""
    return OfficeCase(
        name=f"pivot-{seed}",
        family="make",
        instruction=f"Add to sales.xlsx a sheet Pivot with a real pivot table of the sheet Sales: {' and then '.join(rows)} "
        f"in the rows{across}, the {how} of Units as its value.",
        prepare=lambda folder: write_sales(seed, folder),
        check=check,
        solve=solve,
        miss=miss,
    )


def _chart(seed: int) -> OfficeCase:
    def act(folder: Path, last: int) -> None:
        charts = require("openpyxl.chart", "office")
        workbook = load_book(folder)
        sheet = workbook["Shops"]
        chart = charts.BarChart()
        chart.title = "Units by shop"
        chart.add_data(charts.Reference(sheet, min_col=2, min_row=1, max_row=last), titles_from_data=True)
        chart.set_categories(charts.Reference(sheet, min_col=1, min_row=2, max_row=last))
        sheet.add_chart(chart, "D2")
        workbook.save(folder / "sales.xlsx")

    def prepare(folder: Path) -> None:
        workbook, draw = _sales(seed), random.Random(seed)
        sheet = workbook.create_sheet("Shops")
        sheet.append(["Shop", "Units"])
        for shop in SHOPS:
            sheet.append([shop, draw.randint(100, 900)])
        workbook.save(folder / "sales.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        package, failures = open_package(open_checked(folder / "sales.xlsx")), Failures()
        charts = [name for name in package.parts if "/charts/chart" in name and name.endswith(".xml")]
        failures.expect(len(charts) == 1, f"{len(charts)} charts, expected 1")
        for name in charts[:1]:
            root = package.xml(name)
            texts = [(reference.text or "").replace("$", "").replace("'", "") for reference in root.iter("{*}f")]
            failures.expect("Shops!B2:B4" in texts, f"its values are {texts}")
            failures.expect("Shops!A2:A4" in texts, f"its categories are {texts}")
            failures.expect("Units by shop" in "".join(root.itertext()), "it has no title Units by shop")
            failures.expect(any(True for _ in root.iter("{*}barChart")), "it is not a bar or column chart")
        return failures.messages

    return OfficeCase(
        name=f"chart-{seed}",
        family="make",
        instruction="Add to the sheet Shops of sales.xlsx a column chart of the units (B2:B4) by shop (A2:A4) with the title "
        '"Units by shop".',
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, 4),
        miss=lambda folder: act(folder, 3),
    )


def _rules(seed: int) -> OfficeCase:
    limit = 40 + seed

    def act(folder: Path, shown: int) -> None:
        rules = require("openpyxl.formatting.rule", "office")
        styles = require("openpyxl.styles", "office")
        validations = require("openpyxl.worksheet.datavalidation", "office")
        workbook = load_book(folder)
        sheet = workbook["Sales"]
        red = styles.PatternFill("solid", bgColor="FFC7CE")
        sheet.conditional_formatting.add(
            "C2:C41", rules.CellIsRule(operator="greaterThan", formula=[str(shown)], fill=red)
        )
        shops = validations.DataValidation(type="list", formula1=f'"{",".join(SHOPS)}"')
        sheet.add_data_validation(shops)
        shops.add("A2:A41")
        workbook.save(folder / "sales.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        sheet, failures = load_book(folder)["Sales"], Failures()
        rules = [
            (str(formatting.sqref), rule.operator, list(rule.formula))
            for formatting in sheet.conditional_formatting
            for rule in formatting.rules
        ]
        failures.expect(rules == [("C2:C41", "greaterThan", [str(limit)])], f"the conditional formats are {rules}")
        lists = [
            (str(validation.sqref), validation.type, validation.formula1)
            for validation in sheet.data_validations.dataValidation
        ]
        wanted = [("A2:A41", "list", f'"{",".join(SHOPS)}"')]
        failures.expect(lists == wanted, f"the validations are {lists}")
        return failures.messages

    return OfficeCase(
        name=f"rules-{seed}",
        family="edit",
        instruction=f"In the sheet Sales of sales.xlsx, have units above {limit} (C2:C41) filled by a conditional format, and "
        f"allow in A2:A41 only a list of {', '.join(SHOPS)}, in this order.",
        prepare=lambda folder: write_sales(seed, folder),
        check=check,
        solve=lambda folder: act(folder, limit),
        miss=lambda folder: act(folder, limit - 1),
    )
