"""Cases on documents that ship inside packages: templates, a specification, a photograph, a README."""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from apps.office.libraries import PdfReader
from apps.office.libreoffice import convert, find_soffice
from apps.office.markdown import Manuscript, write_docx
from apps.office.suite.case import Failures, OfficeCase, prepare_nothing
from apps.office.suite.impress_kinds import load_deck
from apps.office.suite.package_files import PackageFile, with_package_file
from apps.office.suite.writer_kinds import load_document
from apps.office.word.fields import add_caption, headings, sequence_fields
from envs.errors import require

PHOTO = PackageFile(kind="python", package="matplotlib", path="sample_data/grace_hopper.jpg")
DECK = PackageFile(kind="python", package="python-pptx", path="templates/default.pptx")
LETTER = PackageFile(kind="debian", package="libreoffice-common", path="officorr/Modern_business_letter_serif.ott")
AGENDA = PackageFile(kind="debian", package="libreoffice-common", path="agenda/1simple.ott")
SPECIFICATION = PackageFile(kind="debian", package="shared-mime-info", path="shared-mime-info-spec.pdf")
README = PackageFile(kind="npm", package="npm", path="README.md")


def shipped_document_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    yield _photo()
    yield _every_layout()
    yield _letter()
    yield _placeholders()
    yield _bookmarks()
    yield _pages()
    yield _readme()


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


_BODY = (
    "We have received the three crates of lamps that you sent on 4 May.",
    "Two of the lamps are broken; please send us two of the same kind.",
)


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


def _outline(reader: PdfReader, marks: Any, level: int = 1) -> Iterator[list[str]]:
    for bookmark in marks:
        if isinstance(bookmark, list):
            yield from _outline(reader, bookmark, level + 1)
        else:
            yield [str(level), str(bookmark.title), str(reader.get_destination_page_number(bookmark) + 1)]


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
