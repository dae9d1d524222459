"""Cases on tables: reconciliation, broken formulas, conversion from and to CSV, questions about sums."""

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from apps.office.sheets.recalculate import ERRORS
from apps.office.sheets.workbook import write_text
from apps.office.suite.case import Failures, OfficeCase, open_checked
from apps.office.suite.sheets import GOODS, SHOPS, load_book, load_openpyxl, write_sales
from apps.office.word.fields import headings
from envs.errors import require


def table_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    for number, rows in enumerate(_TABLES, 1):
        yield _table(number, rows)
    for seed in range(30, 35):
        yield _reconcile(seed)
    for number, fault in enumerate(_BROKEN, 1):
        yield _repair(number, fault)
    for number in (1, 2):
        yield _from_csv(number)
        yield _to_csv(number)
    for seed in (40, 41, 42):
        yield _largest(seed)


def _ledgers(seed: int) -> tuple[dict[str, float], dict[str, float], list[tuple[str, str, str]]]:
    """Return our ledger, the bank's, and their differences."""
    draw = random.Random(seed)
    ours = {f"R-{1000 + n}": draw.randint(100, 99_999) / 100 for n in range(60)}
    theirs, wanted = dict(ours), []
    for key in draw.sample(sorted(ours), 3):
        del theirs[key]
        wanted.append((key, "missing at the bank", f"{ours[key]:.2f}"))
    for key in draw.sample(sorted(theirs), 3):
        theirs[key] = round(theirs[key] + draw.choice((-0.01, 10.0, 0.9)), 2)
        wanted.append((key, "different amount", f"{theirs[key] - ours[key]:.2f}"))
    for number in range(2):
        theirs[f"R-{2000 + number}"] = 5.5 + number
        wanted.append((f"R-{2000 + number}", "missing in the books", f"{5.5 + number:.2f}"))
    return ours, theirs, wanted


def _reconcile(seed: int) -> OfficeCase:
    ours, theirs, wanted = _ledgers(seed)

    def prepare(folder: Path) -> None:
        for name, ledger in (("books", ours), ("bank", theirs)):
            workbook, keys = load_openpyxl().Workbook(), list(ledger)
            random.Random(f"{seed}{name}").shuffle(keys)
            workbook.active.append(["Reference", "Amount"])
            for key in keys:
                workbook.active.append(
                    [f" {key.lower()}" if name == "bank" and key.endswith("7") else key, ledger[key]]
                )
            workbook.save(folder / f"{name}.xlsx")

    def act(folder: Path, rows: Sequence[tuple[str, str, str]]) -> None:
        workbook = load_openpyxl().Workbook()
        workbook.active.append(["Reference", "What", "Amount"])
        for key, problem, amount in sorted(rows):
            workbook.active.append([key, problem, float(amount)])
        workbook.save(folder / "differences.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        rows = [
            [cell.value for cell in line]
            for line in load_book(folder, "differences.xlsx", values=True).active.iter_rows()
        ]
        differences = {(str(row[0]).strip().upper(), str(row[1]).strip(), f"{float(row[2]):.2f}") for row in rows[1:]}
        failures = Failures()
        failures.expect(rows[0][:3] == ["Reference", "What", "Amount"], f"the first row is {rows[0]}")
        failures.expect(differences == set(wanted), f"wrong or missing: {sorted(differences ^ set(wanted))[:4]}")
        failures.expect(len(rows) == len(wanted) + 1, f"{len(rows) - 1} rows, expected {len(wanted)}")
        return failures.messages

    return OfficeCase(
        name=f"reconcile-{seed}",
        family="reconcile",
        instruction="Reconcile books.xlsx with bank.xlsx by reference; case and spaces around references do not matter. Make "
        "differences.xlsx with the columns Reference, What, Amount. What is one of: missing at the bank (Amount: that of the "
        "books), missing in the books (that of the bank), different amount (bank minus books).",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, wanted),
        miss=lambda folder: act(
            folder, [difference for difference in wanted if difference[1] != "missing in the books"]
        ),
    )


_BROKEN: tuple[Mapping[str, str], ...] = (
    {"cell": "B7", "broken": "=SUM(B2:B5)", "right": "=SUM(B2:B6)", "miss": "=SUM(B2:B4)+B5"},
    {"cell": "B8", "broken": "=B9/0", "right": "=AVERAGE(B2:B6)", "miss": "=IFERROR(B9/0,0)"},
    {"cell": "B8", "broken": "=AVERGE(B2:B6)", "right": "=AVERAGE(B2:B6)", "miss": "=MEDIAN(B2:B6)"},
    {"cell": "B7", "broken": "=#REF!+B6", "right": "=SUM(B2:B6)", "miss": "150"},
)


def _repair(number: int, fault: Mapping[str, str]) -> OfficeCase:
    def prepare(folder: Path) -> None:
        workbook = load_openpyxl().Workbook()
        sheet = workbook.active
        rows = [["Month", "Hours"], ["Jan", 11], ["Feb", 22], ["Mar", 33], ["Apr", 44], ["May", 40]]
        for row in (*rows, ["Total", "=SUM(B2:B6)"], ["Mean", "=AVERAGE(B2:B6)"]):
            sheet.append(row)
        sheet[fault["cell"]] = fault["broken"]
        workbook.save(folder / "hours.xlsx")

    def act(folder: Path, formula: str) -> None:
        workbook = load_book(folder, "hours.xlsx")
        workbook.active[fault["cell"]] = float(formula) if formula.isdigit() else formula
        workbook.save(folder / "hours.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        sheet, failures = load_book(folder, "hours.xlsx").active, Failures()
        formulas = {cell: str(sheet[cell].value).replace("$", "").replace(" ", "").upper() for cell in ("B7", "B8")}
        totals = {"=SUM(B2:B6)", "=B2+B3+B4+B5+B6"}
        means = {"=AVERAGE(B2:B6)", "=B7/5", "=SUM(B2:B6)/5", "=B7/COUNT(B2:B6)", "=SUM(B2:B6)/COUNT(B2:B6)"}
        failures.expect(formulas["B7"] in totals, f"the total is {formulas['B7']}")
        failures.expect(formulas["B8"] in means, f"the mean is {formulas['B8']}")
        failures.expect(
            not any(error in formula for formula in formulas.values() for error in ERRORS), "an error is left"
        )
        return failures.messages

    return OfficeCase(
        name=f"repair-{number}",
        family="edit",
        instruction="In hours.xlsx, the formula for the total or for the mean of the five months is wrong. Find out which, and "
        "correct it; it stays a formula.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, fault["right"]),
        miss=lambda folder: act(folder, fault["miss"]),
    )


_ROWS = {
    1: [("00123", "=SUM(A1:A9)", "12.5"), ("00045", "plain", "-3")],
    2: [("+49 30 555", "@home", "0.25"), ("007", "-dash", "1000")],
}


def _from_csv(number: int) -> OfficeCase:
    def prepare(folder: Path) -> None:
        with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("code", "note", "amount"), *_ROWS[number]])

    def act(folder: Path, *, is_careful: bool) -> None:
        workbook = load_openpyxl().Workbook()
        workbook.active.append(["code", "note", "amount"])
        for row, (code, note, amount) in enumerate(_ROWS[number], 2):
            for column, text in enumerate((code, note), 1):
                if is_careful:
                    write_text(workbook.active.cell(row, column), text)
                else:
                    workbook.active.cell(row, column, float(text) if text.isdigit() else text)
            workbook.active.cell(row, 3, float(amount))
        workbook.save(folder / "people.xlsx")

    def check(folder: Path, answer: str) -> list[str]:
        rows, failures = list(load_book(folder, "people.xlsx").active.iter_rows(min_row=2)), Failures()
        failures.expect(not any(cell.data_type == "f" for row in rows for cell in row), "a text became a formula")
        pairs = [(row[0].value, row[1].value) for row in rows]
        failures.expect(pairs == [row[:2] for row in _ROWS[number]], f"the texts are {pairs}")
        amounts = [row[2].value for row in rows]
        failures.expect(amounts == [float(row[2]) for row in _ROWS[number]], f"the amounts are {amounts}")
        return failures.messages

    return OfficeCase(
        name=f"from-csv-{number}",
        family="convert",
        instruction="Convert people.csv to people.xlsx (one sheet, header in row 1). Codes and notes stay the texts that they "
        "are, also where they look like numbers or formulas; amounts become numbers.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, is_careful=True),
        miss=lambda folder: act(folder, is_careful=False),
    )


def _to_csv(number: int) -> OfficeCase:
    names = ("Ann; Bo", 'Chris "C"', "Dana, E.") if number == 1 else ("Zoë", "line\nbreak", "plain")

    def prepare(folder: Path) -> None:
        workbook = load_openpyxl().Workbook()
        workbook.active.append(["name", "points"])
        for points, name in enumerate(names, 3):
            workbook.active.append([name, points])
        workbook.save(folder / "points.xlsx")

    def act(folder: Path, *, quotes: bool) -> None:
        rows = [("name", "points"), *((name, str(points)) for points, name in enumerate(names, 3))]
        with (folder / "points.csv").open(
            "w", newline="", encoding="utf-8" if quotes else "ascii", errors="replace"
        ) as file:
            if quotes:
                csv.writer(file).writerows(rows)
            else:
                file.write("\n".join(",".join(row) for row in rows))

    def check(folder: Path, answer: str) -> list[str]:
        with (folder / "points.csv").open(newline="", encoding="utf-8-sig") as file:
            rows = [tuple(row) for row in csv.reader(file) if row]
        failures = Failures()
        wanted = [("name", "points"), *((name, str(points)) for points, name in enumerate(names, 3))]
        failures.expect(rows == wanted, f"the rows are {rows}")
        return failures.messages

    return OfficeCase(
        name=f"to-csv-{number}",
        family="convert",
        instruction="Convert points.xlsx to points.csv: UTF-8, commas, quotes where they are needed, header first.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, quotes=True),
        miss=lambda folder: act(folder, quotes=False),
    )


def _largest(seed: int) -> OfficeCase:
    sums: dict[str, float] = {}
    for line in _rows_of(seed):
        sums[line[1]] = sums.get(line[1], 0) + line[2] * line[3]
    best = max(sums, key=lambda name: sums[name])
    second = sorted(sums, key=lambda name: -sums[name])[1]

    def check(folder: Path, answer: str) -> list[str]:
        failures = Failures()
        number = answer.replace(",", "").replace(" ", "")
        failures.expect(best.lower() in answer.lower(), f"the answer does not name {best}")
        failures.expect(f"{sums[best]:.2f}" in number, f"the answer does not say {sums[best]:.2f}")
        failures.expect(
            not any(name.lower() in answer.lower() for name in sums if name != best), "it names another item, too"
        )
        return failures.messages

    return OfficeCase(
        name=f"largest-{seed}",
        family="extract",
        instruction="Which item of sales.xlsx has the largest revenue (units times price, all rows), and how much is it? Answer "
        "with the item and the revenue with two decimals only.",
        prepare=lambda folder: write_sales(seed, folder),
        check=check,
        solve=lambda folder: f"{best}: {sums[best]:,.2f}",
        miss=lambda folder: f"{second}: {sums[second]:,.2f}",
    )


def _rows_of(seed: int) -> list[tuple[str, str, int, float]]:
    draw = random.Random(seed)
    return [
        (draw.choice(SHOPS), draw.choice(GOODS), draw.randint(1, 90), draw.randint(50, 990) / 10) for _ in range(40)
    ]


_TABLES: tuple[tuple[tuple[str, float], ...], ...] = (
    (("Paper", 12.5), ("Ink", 40.0), ("Pens", 7.25)),
    (("North", 310.0), ("South", 275.5), ("East", 99.0), ("West", 12.0)),
    (("Rent", 1200.0), ("Power", 88.4)),
)


def _table(number: int, rows: Sequence[tuple[str, float]]) -> OfficeCase:
    total = sum(value for _, value in rows)

    def prepare(folder: Path) -> None:
        lines = ["name,amount", *(f"{name},{value}" for name, value in rows)]
        (folder / "data.csv").write_text("\n".join(lines) + "\n", "utf-8")

    def act(folder: Path, shown: float) -> None:
        document = require("docx", "office").Document()
        document.add_heading("Amounts", 1)
        table = document.add_table(rows=0, cols=2, style="Table Grid")
        for cells in (("name", "amount"), *((name, f"{value:.2f}") for name, value in rows), ("Total", f"{shown:.2f}")):
            row = table.add_row()
            row.cells[0].text, row.cells[1].text = cells
        document.save(str(folder / "table.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = require("docx", "office").Document(str(open_checked(folder / "table.docx"))), Failures()
        failures.expect(len(document.tables) == 1, f"{len(document.tables)} tables, expected 1")
        cells = [[cell.text.strip() for cell in row.cells] for row in document.tables[0].rows]
        wanted = [[name, f"{value:.2f}"] for name, value in rows] + [["Total", f"{total:.2f}"]]
        failures.expect(cells[1:] == wanted, f"the table has {cells}")
        failures.expect([text for _, text, _ in headings(document)] == ["Amounts"], "there is no heading Amounts")
        return failures.messages

    return OfficeCase(
        name=f"table-{number}",
        family="make",
        instruction="Make table.docx: a heading (level 1) Amounts and one table of data.csv with its header row, amounts "
        "with two decimals, and a last row Total with their sum.",
        prepare=prepare,
        check=check,
        solve=lambda folder: act(folder, total),
        miss=lambda folder: act(folder, total - rows[-1][1]),
    )
