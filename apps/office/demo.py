"""Demo `cua office --demo`: a scripted agent makes four files in the sandbox; the verifier finds an error."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from apps.office.markdown import Manuscript, Style, write_docx, write_pdf
from apps.office.sheets.pivot_writer import add_pivot
from apps.office.sheets.workbook import save_workbook
from apps.office.slides import fill_body, new_slide, place_image, save_presentation
from apps.office.word.comments import add_comment, reply_to
from apps.office.word.revisions import insert_tracked, replace_tracked
from cua.messages import Reply, ToolCall
from cua.models.scripted import ScriptedModel
from envs.errors import require

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

INSTRUCTION = (
    "Make a report on how a cup of coffee cools (docx, with a comment and a tracked change, and the same as pdf), a "
    "workbook with the sales of a coffee shop and a pivot table, and three slides on both."
)
EXPECT = (
    "report.docx:comments=2",
    "report.docx:revisions=3",
    "report.docx:equations>=3",
    "report.pdf:equations>=3",
    "sales.xlsx:pivots=1",
    "sales.xlsx:charts=1",
    "slides.pptx:slides=3",
    "slides.pptx:notes=3",
)
_ROOM_C, _START_C, _RATE = 21.0, 88.0, 0.031
_DRINKS = (("Espresso", 2.2), ("Cappuccino", 3.4), ("Filter coffee", 2.8), ("Flat white", 3.6))
_SHOPS = ("Harbour", "Station", "Old town")
_TEXT = """# The question

A cup of coffee that stands on a table cools. How long does it stay above 60 °C, the temperature below which most
people call it lukewarm? Newton's law of cooling [@newton1701] gives an answer that agrees with measurements within
a degree [@ohare2004].[^1]

[^1]: The cup is taken to be stirred, so that it has one temperature.

# The law

The temperature $T$ falls in proportion to its distance from that of the room, $T_r$:

$$\\frac{dT}{dt} = -k\\,(T - T_r)$$

With $T_0$ at the beginning the solution is

$$T(t) = T_r + (T_0 - T_r)\\,e^{-kt}, \\qquad t = \\frac{1}{k}\\ln\\frac{T_0 - T_r}{T - T_r}$$

# The measurement

@fig:cooling shows the law for a cup of 250 ml, $k = 0.031$ per minute, and @tbl:times the times that follow from it.

![Temperature of a cup over an hour; the line is at 60 °C](cooling.png){#fig:cooling width=80%}

| Temperature | Minutes |
|------------:|--------:|
{rows}

: Time until a temperature is reached {#tbl:times}

# The answer

The coffee stays above 60 °C for 20 minutes. A lid halves the rate and doubles that time.
"""
_WORKS = """@article{newton1701, author = {Newton, Isaac}, title = {Scala graduum caloris},
 journal = {Philosophical Transactions}, year = {1701}, volume = {22}, pages = {824--829}}
@book{ohare2004, author = {O'Hare, Patricia}, title = {Heat in the Kitchen}, publisher = {Kettle Press}, year = {2004}}
"""


def minutes_until(temperature_c: float) -> float:
    """Return the minutes until the cup has a temperature, by Newton's law."""
    import math

    return math.log((_START_C - _ROOM_C) / (temperature_c - _ROOM_C)) / _RATE


def draw_cooling(path: Path) -> Path:
    """Draw the temperature over an hour."""
    numpy, plot = require("numpy", "office"), require("matplotlib.pyplot", "office")
    times = numpy.linspace(0, 60, 200)
    figure, axes = plot.subplots(figsize=(6, 3.2))
    axes.plot(times, _ROOM_C + (_START_C - _ROOM_C) * numpy.exp(-_RATE * times), color="#8B4513")
    axes.axhline(60, color="#888888", linestyle="--")
    axes.set(xlabel="minutes", ylabel="°C")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plot.close(figure)
    return path


def make_report(out: Path) -> None:
    """Write one text as `report.docx` and `report.pdf`, then add comments and tracked changes to the docx file."""
    out.mkdir(exist_ok=True)
    draw_cooling(Path("cooling.png"))
    rows = "\n".join(f"| {degrees} °C | {minutes_until(degrees):.1f} |" for degrees in (80, 70, 60, 50, 40))
    manuscript = Manuscript(
        text=_TEXT.replace("{rows}", rows), title="How a cup of coffee cools", author="cua office", bibliography=_WORKS
    )
    style = Style(color="6F4E37")
    write_pdf(manuscript, out / "report.pdf", style)
    path = write_docx(manuscript, out / "report.docx", style)
    document = require("docx", "office").Document(str(path))
    first = add_comment(document, "for 20 minutes", "With this cup only?", author="Reviewer")
    reply_to(document, first, "Yes, 250 ml and open.", author="Author")
    replace_tracked(document, "20 minutes", f"{minutes_until(60):.1f} minutes", author="Reviewer")
    insert_tracked(document, ", as far as it keeps the steam in,", after="A lid", author="Reviewer")
    document.save(str(path))


def make_sales(out: Path) -> None:
    """Write `sales.xlsx`: data, formulas, a chart, a conditional format, validation, an image, a pivot table."""
    import random

    openpyxl, styles = require("openpyxl", "office"), require("openpyxl.styles", "office")
    draw = random.Random(7)
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = "Sales"
    sheet.append(["Month", "Shop", "Drink", "Cups", "Price", "Revenue"])
    for month in range(1, 7):
        for shop in _SHOPS:
            for drink, price in _DRINKS:
                sheet.append([f"2026-{month:02d}", shop, drink, draw.randint(120, 900), price, None])
                sheet.cell(sheet.max_row, 6, f"=D{sheet.max_row}*E{sheet.max_row}").number_format = '#,##0.00 "€"'
                sheet.cell(sheet.max_row, 5).number_format = '0.00 "€"'
    for cell in sheet[1]:
        cell.font, cell.fill = styles.Font(bold=True, color="FFFFFF"), styles.PatternFill("solid", fgColor="6F4E37")
    for letter, width in zip("ABCDEF", (11, 13, 16, 9, 10, 15), strict=True):
        sheet.column_dimensions[letter].width = width
    sheet.freeze_panes, sheet.auto_filter.ref = "A2", sheet.dimensions
    _add_rules(sheet)
    _add_summary(workbook, sheet)
    pivot = workbook.create_sheet("Pivot")
    add_pivot(pivot, sheet, rows=["Shop"], columns=["Drink"], values={"Cups": "sum"}, name="CupsByShop")
    for letter in "ABCDEF":
        pivot.column_dimensions[letter].width = 15
    for worksheet in workbook.worksheets:
        worksheet.page_setup.orientation, worksheet.page_setup.fitToHeight = "landscape", 0 if worksheet is sheet else 1
        worksheet.sheet_properties.pageSetUpPr = require("openpyxl.worksheet.properties", "office").PageSetupProperties(
            fitToPage=True
        )
    save_workbook(workbook, out / "sales.xlsx")


def _add_rules(sheet: "Worksheet") -> None:
    rule = require("openpyxl.formatting.rule", "office")
    validation = require("openpyxl.worksheet.datavalidation", "office")
    last = sheet.max_row
    scale = rule.DataBarRule(start_type="num", start_value=0, end_type="max", color="C8A27C")
    sheet.conditional_formatting.add(f"D2:D{last}", scale)
    shops = validation.DataValidation(type="list", formula1=f'"{",".join(_SHOPS)}"', showErrorMessage=True)
    sheet.add_data_validation(shops)
    shops.add(f"B2:B{last}")


def _add_summary(workbook: "Workbook", sheet: "Worksheet") -> None:
    chart, image = require("openpyxl.chart", "office"), require("openpyxl.drawing.image", "office")
    styles = require("openpyxl.styles", "office")
    summary, last = workbook.create_sheet("Summary"), sheet.max_row
    summary.append(["Shop", "Cups", "Revenue", "Share"])
    for row, shop in enumerate(_SHOPS, 2):
        summary.append(
            [
                shop,
                f"=SUMIFS(Sales!D$2:D${last},Sales!B$2:B${last},A{row})",
                f"=SUMIFS(Sales!F$2:F${last},Sales!B$2:B${last},A{row})",
                f"=C{row}/C$5",
            ]
        )
    summary.append(["Total", "=SUM(B2:B4)", "=SUM(C2:C4)", "=SUM(D2:D4)"])
    for line in summary.iter_rows(min_row=2):
        line[1].number_format, line[2].number_format, line[3].number_format = "#,##0", '#,##0.00 "€"', "0.0 %"
    for cell in (*summary[1], *summary[5]):
        cell.font = styles.Font(bold=True)
    for letter in "ABCD":
        summary.column_dimensions[letter].width = 16
    bars = chart.BarChart()
    bars.title, bars.style, bars.legend = "Revenue by shop", 10, None
    bars.add_data(chart.Reference(summary, min_col=3, min_row=1, max_row=4), titles_from_data=True)
    bars.set_categories(chart.Reference(summary, min_col=1, min_row=2, max_row=4))
    bars.width, bars.height, bars.y_axis.scaling.min = 14, 7, 0
    summary.add_chart(bars, "A8")
    placed = image.Image("cooling.png")
    placed.width, placed.height = 320, 170
    summary.add_image(placed, "A24")


def make_slides(out: Path, *, is_draft: bool = False) -> None:
    """Write `slides.pptx`: a title, a chart, an image, with notes. In the draft a text overflows its frame."""
    presentation = require("pptx", "office").Presentation()
    chart_data, kinds = require("pptx.chart.data", "office"), require("pptx.enum.chart", "office")
    first = new_slide(presentation, "Title Slide", "Coffee, hot and sold", "Welcome. Two parts, three slides.")
    fill_body(first, ["How a cup cools, and who sells it"])
    second = new_slide(presentation, "Two Content", "The Harbour sells most", "The workbook has the formulas.")
    lines = ["Six months, three shops, four drinks", "A pivot table sums the cups", "Prices did not change"]
    if is_draft:
        body = second.placeholders[1].text_frame
        body.text = " ".join(lines * 6)
    else:
        fill_body(second, lines)
    frame = second.placeholders[2]
    data = chart_data.CategoryChartData()
    data.categories = list(_SHOPS)
    values = require("openpyxl", "office").load_workbook(out / "sales.xlsx", data_only=True)["Summary"]
    data.add_series("Revenue", [values.cell(row, 3).value for row in range(2, 5)])
    box = (frame.left, frame.top, frame.width, frame.height)
    frame._element.getparent().remove(frame._element)
    chart = second.shapes.add_chart(kinds.XL_CHART_TYPE.COLUMN_CLUSTERED, *box, data).chart
    chart.value_axis.minimum_scale = 0
    third = new_slide(presentation, "Title Only", "Above 60 °C for 17 minutes", "Newton's law, k = 0.031 per minute.")
    place_image(third, Path("cooling.png"), description="Temperature of a cup over an hour")
    save_presentation(presentation, out / "slides.pptx")


def scripted_agent() -> ScriptedModel:
    """Return a model that makes the four files with the functions above, and fixes what the verifier finds."""
    return ScriptedModel(_replies(), name="scripted: the demo of cua office")


def _replies() -> Iterator[Reply | str]:
    cells = (
        ("The report first: one text, two files.", "make_report(Path('out'))"),
        ("Now the workbook.", "make_sales(Path('out'))"),
        ("And the slides.", "make_slides(Path('out'), is_draft=True)"),
    )
    yield _cell(cells[0][0], f"from pathlib import Path\nfrom apps.office.demo import *\n{cells[0][1]}")
    for remark, code in cells[1:]:
        yield _cell(remark, code)
    yield Reply(
        content="I look at the report.",
        tool_calls=(ToolCall(id="check", name="check_office", arguments=json.dumps({"path": "out/report.docx"})),),
    )
    yield "report.docx, report.pdf, sales.xlsx and slides.pptx are in out/."
    yield _cell("The verifier is right: a text leaves its frame. I shorten it.", "make_slides(Path('out'))")
    yield "The slides are fixed: three short lines instead of the long text."


def _cell(remark: str, code: str) -> Reply:
    call = ToolCall(id="cell", name="ipython", arguments=json.dumps({"code": code}))
    return Reply(content=remark, tool_calls=(call,))
