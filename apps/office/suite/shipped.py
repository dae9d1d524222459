"""Cases on files that ship inside packages: share prices, passengers, templates, a specification, a photograph."""

import csv
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apps.office.libreoffice import convert, find_soffice
from apps.office.markdown import Manuscript, write_docx
from apps.office.package import open_package
from apps.office.sheets.pivot_writer import add_pivot
from apps.office.sheets.pivots import check_pivot, read_pivots
from apps.office.suite.case import Failures, OfficeCase, prepare_nothing
from apps.office.suite.impress_kinds import load_deck
from apps.office.suite.package_files import PackageFile, with_package_file
from apps.office.suite.sheets import load_book, load_openpyxl
from apps.office.suite.writer_kinds import load_document
from apps.office.word.fields import add_caption, headings, sequence_fields
from envs.errors import require

if TYPE_CHECKING:
    from pypdf import PdfReader

PRICES = PackageFile(kind="python", package="matplotlib", path="sample_data/msft.csv")
STOCKS = PackageFile(kind="python", package="matplotlib", path="sample_data/Stocks.csv")
TITANIC = PackageFile(kind="python", package="gradio", path="media_assets/data/titanic.csv")
PHOTO = PackageFile(kind="python", package="matplotlib", path="sample_data/grace_hopper.jpg")
DECK = PackageFile(kind="python", package="python-pptx", path="templates/default.pptx")
AGENDA = PackageFile(kind="debian", package="libreoffice-common", path="agenda/1simple.ott")
SPECIFICATION = PackageFile(kind="debian", package="shared-mime-info", path="shared-mime-info-spec.pdf")
README = PackageFile(kind="npm", package="npm", path="README.md")
_BODY = (
    "We have received the three crates of lamps that you sent on 4 May.",
    "Two of the lamps are broken; please send us two of the same kind.",
)


def shipped_cases() -> Iterator[OfficeCase]:
    """Yield all cases: tables, then documents."""
    yield from (_prices(), _busiest(), _yearly(), _passengers())
    yield from (_photo(), _every_layout(), _letter(), _placeholders(), _bookmarks(), _pages(), _readme())


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


LETTER = PackageFile(kind="debian", package="libreoffice-common", path="officorr/Modern_business_letter_serif.ott")


def _photo() -> OfficeCase:
    def act(folder: Path, *, keeps_shape: bool) -> None:
        document, cm = require("docx", "office").Document(), require("docx.shared", "office").Cm
        document.add_heading("Grace Hopper", 1)
        size = {"width": cm(8)} if keeps_shape else {"width": cm(8), "height": cm(8)}
        document.add_picture(str(folder / "hopper.jpg"), **size)
        add_caption(document.add_paragraph(), "Figure", "Grace Hopper in uniform")
        document.save(str(folder / "hopper.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder, "hopper.docx"), Failures()
        with require("PIL.Image", "office").open(folder / "hopper.jpg") as image:
            shape = image.width / image.height
        images = list(document.inline_shapes)
        failures.expect(len(images) == 1, f"{len(images)} images, expected 1")
        for placed in images:
            failures.expect(abs(placed.width / placed.height / shape - 1) < 0.02, "the photograph is stretched")
            failures.expect(abs(placed.width.cm - 8) < 0.1, f"it is {placed.width.cm:.1f} cm wide")
        captions = [paragraph.text for paragraph in document.paragraphs if paragraph.text.startswith("Figure")]
        failures.expect(len(sequence_fields(document.element.body, "Figure")) == 1, "there is no numbered caption")
        failures.expect(
            any("Grace Hopper in uniform" in caption for caption in captions), f"the captions are {captions}"
        )
        failures.expect([text for _, text, _ in headings(document)] == ["Grace Hopper"], "there is no such heading")
        return failures.messages

    case = OfficeCase(
        name="photo-with-caption",
        family="make",
        instruction="Make hopper.docx: a heading (level 1) Grace Hopper, the photograph hopper.jpg 8 cm wide and unstretched, "
        'and below it a numbered caption (a field that counts) "Figure 1: Grace Hopper in uniform".',
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, keeps_shape=True),
        miss=lambda folder: act(folder, keeps_shape=False),
    )
    return with_package_file(PHOTO, "hopper.jpg", case)


def _every_layout() -> OfficeCase:
    def act(folder: Path, count: int | None) -> None:
        presentation = load_deck(folder, "default.pptx")
        for layout in list(presentation.slide_layouts)[:count]:
            slide = presentation.slides.add_slide(layout)
            if slide.shapes.title is not None:
                slide.shapes.title.text_frame.text = layout.name
        presentation.save(str(folder / "layouts.pptx"))

    def check(folder: Path, answer: str) -> list[str]:
        wanted = [slide_layout.name for slide_layout in load_deck(folder, "default.pptx").slide_layouts]
        slides, failures = list(load_deck(folder, "layouts.pptx").slides), Failures()
        failures.expect(
            [slide.slide_layout.name for slide in slides] == wanted, "the slides have not all layouts in order"
        )
        for slide in slides:
            title = slide.shapes.title.text_frame.text if slide.shapes.title is not None else slide.slide_layout.name
            failures.expect(title == slide.slide_layout.name, f"the title of {slide.slide_layout.name} is {title!r}")
        return failures.messages

    case = OfficeCase(
        name="slide-of-every-layout",
        family="make",
        instruction="Make layouts.pptx of default.pptx: one slide for each of its slide layouts, in their order; a slide that "
        "has a title gets the name of its layout as title.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, None),
        miss=lambda folder: act(folder, -1),
    )
    return with_package_file(DECK, "default.pptx", case)


def _letter() -> OfficeCase:
    def act(folder: Path, texts: Sequence[str]) -> None:
        document = require("docx", "office").Document(str(convert(folder / "letter.ott", folder / "letter.docx")))
        lorem = [paragraph for paragraph in document.paragraphs if paragraph.text.startswith("Lorem ipsum")]
        for paragraph, text in zip(lorem, texts, strict=False):
            paragraph.runs[0].text = text
            for run in paragraph.runs[1:]:
                run.text = ""
        document.save(str(folder / "letter.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder, "letter.docx"), Failures()
        texts = [paragraph.text.strip() for paragraph in document.paragraphs if paragraph.text.strip()]
        failures.expect(not any("Lorem ipsum" in text for text in texts), "the text of the template is left")
        at = texts.index(_BODY[0]) if _BODY[0] in texts else -1
        failures.expect(at >= 0 and texts[at : at + 2] == list(_BODY), f"the paragraphs are {texts}")
        failures.expect(
            "We are looking forward to hearing from you soon." in texts[at:], "the end of the letter is gone"
        )
        failures.expect(any("Yours sincerely" in text for text in texts), "there is no Yours sincerely")
        return failures.messages

    two = " and ".join(f'"{text}"' for text in _BODY)
    case = OfficeCase(
        name="letter-of-a-template",
        family="convert",
        instruction=f"Make letter.docx of the template letter.ott, with these two paragraphs in the place of the two that begin "
        f"with Lorem ipsum: {two}. All else stays as the template has it.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, _BODY),
        miss=lambda folder: act(folder, _BODY[:1]),
        lacks=lambda: "" if find_soffice() else "LibreOffice is not installed",
    )
    return with_package_file(LETTER, "letter.ott", case)


def _placeholders() -> OfficeCase:
    def found(folder: Path) -> list[str]:
        zipfile = require("zipfile", "office")
        with zipfile.ZipFile(folder / "agenda.ott") as package:
            text = package.read("content.xml").decode("utf-8")
        return list(dict.fromkeys(re.findall(r"&lt;[\w-]+&gt;", re.sub(r"<[^>]+>", "", text))))

    def act(folder: Path, lines: Sequence[str]) -> None:
        names = [line.replace("&lt;", "<").replace("&gt;", ">") for line in lines]
        (folder / "placeholders.txt").write_text("\n".join(names) + "\n", "utf-8")

    def check(folder: Path, answer: str) -> list[str]:
        lines = [line.strip() for line in (folder / "placeholders.txt").read_text("utf-8").splitlines() if line.strip()]
        wanted = [line.replace("&lt;", "<").replace("&gt;", ">") for line in found(folder)]
        wrong = sorted(set(lines) ^ set(wanted))
        return (
            [] if sorted(lines) == sorted(wanted) else [f"{len(lines)} lines; missing, made up or twice: {wrong[:6]}"]
        )

    case = OfficeCase(
        name="placeholders-of-an-agenda",
        family="extract",
        instruction="List the placeholders of the template agenda.ott, which look like <name>, in placeholders.txt: one a "
        "line, with their angle brackets, each once.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, found(folder)),
        miss=lambda folder: act(folder, found(folder)[:-1]),
    )
    return with_package_file(AGENDA, "agenda.ott", case)


def _outline(reader: "PdfReader", marks: Any, level: int = 1) -> Iterator[list[str]]:
    for bookmark in marks:
        if isinstance(bookmark, list):
            yield from _outline(reader, bookmark, level + 1)
        else:
            page = reader.get_destination_page_number(bookmark)
            yield [str(level), str(bookmark.title), str(page if page is None else page + 1)]


def _bookmarks() -> OfficeCase:
    def rows(folder: Path) -> list[list[str]]:
        reader = require("pypdf", "office").PdfReader(str(folder / "specification.pdf"))
        return list(_outline(reader, reader.outline))

    def act(folder: Path, deepest: int) -> None:
        with (folder / "contents.csv").open("w", newline="", encoding="utf-8") as file:
            kept = [row for row in rows(folder) if int(row[0]) <= deepest]
            csv.writer(file).writerows([["level", "title", "page"], *kept])

    def check(folder: Path, answer: str) -> list[str]:
        with (folder / "contents.csv").open(newline="", encoding="utf-8-sig") as file:
            rows_read = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
        wanted = [["level", "title", "page"], *rows(folder)]
        wrong = [row for row in rows_read if row not in wanted]
        return [] if rows_read == wanted else [f"{len(rows_read)} rows, expected {len(wanted)}; wrong are {wrong[:3]}"]

    case = OfficeCase(
        name="contents-of-a-specification",
        family="extract",
        instruction="List all bookmarks of specification.pdf in contents.csv, in order, with the columns level (1 for the "
        "outermost), title, and page (the page of the file that it leads to, from 1).",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, 99),
        miss=lambda folder: act(folder, 1),
    )
    return with_package_file(SPECIFICATION, "specification.pdf", case)


def _pages() -> OfficeCase:
    def texts(folder: Path, name: str) -> list[str]:
        return [page.extract_text() for page in require("pypdf", "office").PdfReader(str(folder / name)).pages]

    def act(folder: Path, first: int) -> None:
        pypdf = require("pypdf", "office")
        reader, writer = pypdf.PdfReader(str(folder / "specification.pdf")), pypdf.PdfWriter()
        for page in reader.pages[first - 1 : first + 2]:
            writer.add_page(page)
        writer.write(str(folder / "part.pdf"))

    def check(folder: Path, answer: str) -> list[str]:
        pages, wanted = texts(folder, "part.pdf"), texts(folder, "specification.pdf")[2:5]
        return [] if pages == wanted else [f"{len(pages)} pages, which are not pages 3 to 5"]

    case = OfficeCase(
        name="pages-of-a-specification",
        family="convert",
        instruction="Put pages 3 to 5 of specification.pdf into part.pdf, as they are: text stays text.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, 3),
        miss=lambda folder: act(folder, 2),
    )
    return with_package_file(SPECIFICATION, "specification.pdf", case)


def _readme() -> OfficeCase:
    def wanted(folder: Path) -> list[tuple[int, str]]:
        text = re.sub(r"^```.*?^```", "", (folder / "README.md").read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        matches = re.findall(r"^(#+) +(.+?) *$", text, re.MULTILINE)
        return [(len(marks), _plain(re.sub(r"[*_`]", "", title))) for marks, title in matches]

    def act(folder: Path, change: Callable[[str], str]) -> None:
        text = change((folder / "README.md").read_text("utf-8"))
        write_docx(Manuscript(text=text, folder=folder), folder / "readme.docx", contents=False)

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder, "readme.docx"), Failures()
        found_headings = [(level, _plain(text)) for level, text, _ in headings(document)]
        failures.expect(found_headings == wanted(folder), f"the headings are {found_headings}")
        links = [relation for relation in document.part.rels.values() if relation.reltype.endswith("/hyperlink")]
        failures.expect(len(links) >= 5, f"{len(links)} links")
        return failures.messages

    case = OfficeCase(
        name="readme-to-docx",
        family="convert",
        instruction="Convert README.md to readme.docx: headings get the heading styles of their levels, links stay links.",
        prepare=prepare_nothing,
        check=check,
        solve=lambda folder: act(folder, str),
        miss=lambda folder: act(folder, lambda text: re.sub(r"^#+ ", "# ", text, flags=re.MULTILINE)),
    )
    return with_package_file(README, "README.md", case)


def _plain(text: str) -> str:
    """Return a text with straight quotation marks."""
    return text.translate(str.maketrans("“”‘’", "\"\"''"))
