"""Cases on documents that ship inside packages: templates, a specification, a photograph, a README."""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from apps.office.libraries import PdfReader
from apps.office.libreoffice import convert, find_soffice
from apps.office.markdown import Manuscript, write_docx
from apps.office.suite.case import Case, Faults, nothing
from apps.office.suite.impress_kinds import load_deck
from apps.office.suite.package_files import PackageFile, given_file
from apps.office.suite.writer_kinds import load_document
from apps.office.word.fields import add_caption, headings, sequence_fields
from envs.errors import require

PHOTO = PackageFile(kind="python", package="matplotlib", path="sample_data/grace_hopper.jpg")
DECK = PackageFile(kind="python", package="python-pptx", path="templates/default.pptx")
LETTER = PackageFile(kind="debian", package="libreoffice-common", path="officorr/Modern_business_letter_serif.ott")
AGENDA = PackageFile(kind="debian", package="libreoffice-common", path="agenda/1simple.ott")
SPECIFICATION = PackageFile(kind="debian", package="shared-mime-info", path="shared-mime-info-spec.pdf")
README = PackageFile(kind="npm", package="npm", path="README.md")


def shipped_document_cases() -> Iterator[Case]:
    """Yield all cases."""
    yield _photo()
    yield _every_layout()
    yield _letter()
    yield _placeholders()
    yield _bookmarks()
    yield _pages()
    yield _readme()


def _photo() -> Case:
    def act(folder: Path, *, keeps_shape: bool) -> None:
        document, cm = require("docx", "office").Document(), require("docx.shared", "office").Cm
        document.add_heading("Grace Hopper", 1)
        size = {"width": cm(8)} if keeps_shape else {"width": cm(8), "height": cm(8)}
        document.add_picture(str(folder / "hopper.jpg"), **size)
        add_caption(document.add_paragraph(), "Figure", "Grace Hopper in uniform")
        document.save(str(folder / "hopper.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder, "hopper.docx"), Faults()
        with require("PIL.Image", "office").open(folder / "hopper.jpg") as image:
            shape = image.width / image.height
        images = list(document.inline_shapes)
        faults.expect(len(images) == 1, f"{len(images)} images, expected 1")
        for one in images:
            faults.expect(abs(one.width / one.height / shape - 1) < 0.02, "the photograph is stretched")
            faults.expect(abs(one.width.cm - 8) < 0.1, f"it is {one.width.cm:.1f} cm wide")
        captions = [one.text for one in document.paragraphs if one.text.startswith("Figure")]
        faults.expect(len(sequence_fields(document.element.body, "Figure")) == 1, "there is no numbered caption")
        faults.expect(any("Grace Hopper in uniform" in one for one in captions), f"the captions are {captions}")
        faults.expect([text for _, text, _ in headings(document)] == ["Grace Hopper"], "there is no such heading")
        return faults.found

    case = Case(
        name="photo-with-caption",
        family="make",
        instruction="Make hopper.docx: a heading (level 1) Grace Hopper, the photograph hopper.jpg 8 cm wide and unstretched, "
        'and below it a numbered caption (a field that counts) "Figure 1: Grace Hopper in uniform".',
        prepare=nothing,
        check=check,
        solve=lambda folder: act(folder, keeps_shape=True),
        miss=lambda folder: act(folder, keeps_shape=False),
    )
    return given_file(PHOTO, "hopper.jpg", case)


def _every_layout() -> Case:
    def act(folder: Path, count: int | None) -> None:
        presentation = load_deck(folder, "default.pptx")
        for layout in list(presentation.slide_layouts)[:count]:
            slide = presentation.slides.add_slide(layout)
            if slide.shapes.title is not None:
                slide.shapes.title.text_frame.text = layout.name
        presentation.save(str(folder / "layouts.pptx"))

    def check(folder: Path, answer: str) -> list[str]:
        wanted = [one.name for one in load_deck(folder, "default.pptx").slide_layouts]
        slides, faults = list(load_deck(folder, "layouts.pptx").slides), Faults()
        faults.expect([one.slide_layout.name for one in slides] == wanted, "the slides have not all layouts in order")
        for one in slides:
            title = one.shapes.title.text_frame.text if one.shapes.title is not None else one.slide_layout.name
            faults.expect(title == one.slide_layout.name, f"the title of {one.slide_layout.name} is {title!r}")
        return faults.found

    case = Case(
        name="slide-of-every-layout",
        family="make",
        instruction="Make layouts.pptx of default.pptx: one slide for each of its slide layouts, in their order; a slide that "
        "has a title gets the name of its layout as title.",
        prepare=nothing,
        check=check,
        solve=lambda folder: act(folder, None),
        miss=lambda folder: act(folder, -1),
    )
    return given_file(DECK, "default.pptx", case)


_BODY = (
    "We have received the three crates of lamps that you sent on 4 May.",
    "Two of the lamps are broken; please send us two of the same kind.",
)


def _letter() -> Case:
    def act(folder: Path, texts: Sequence[str]) -> None:
        document = require("docx", "office").Document(str(convert(folder / "letter.ott", folder / "letter.docx")))
        lorem = [one for one in document.paragraphs if one.text.startswith("Lorem ipsum")]
        for paragraph, text in zip(lorem, texts, strict=False):
            paragraph.runs[0].text = text
            for run in paragraph.runs[1:]:
                run.text = ""
        document.save(str(folder / "letter.docx"))

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder, "letter.docx"), Faults()
        texts = [one.text.strip() for one in document.paragraphs if one.text.strip()]
        faults.expect(not any("Lorem ipsum" in one for one in texts), "the text of the template is left")
        at = texts.index(_BODY[0]) if _BODY[0] in texts else -1
        faults.expect(at >= 0 and texts[at : at + 2] == list(_BODY), f"the paragraphs are {texts}")
        faults.expect("We are looking forward to hearing from you soon." in texts[at:], "the end of the letter is gone")
        faults.expect(any("Yours sincerely" in one for one in texts), "there is no Yours sincerely")
        return faults.found

    two = " and ".join(f'"{text}"' for text in _BODY)
    case = Case(
        name="letter-of-a-template",
        family="convert",
        instruction=f"Make letter.docx of the template letter.ott, with these two paragraphs in the place of the two that begin "
        f"with Lorem ipsum: {two}. All else stays as the template has it.",
        prepare=nothing,
        check=check,
        solve=lambda folder: act(folder, _BODY),
        miss=lambda folder: act(folder, _BODY[:1]),
        lacks=lambda: "" if find_soffice() else "LibreOffice is not installed",
    )
    return given_file(LETTER, "letter.ott", case)


def _placeholders() -> Case:
    def found(folder: Path) -> list[str]:
        zipfile = require("zipfile", "office")
        with zipfile.ZipFile(folder / "agenda.ott") as package:
            text = package.read("content.xml").decode("utf-8")
        return list(dict.fromkeys(re.findall(r"&lt;[\w-]+&gt;", re.sub(r"<[^>]+>", "", text))))

    def act(folder: Path, lines: Sequence[str]) -> None:
        names = [one.replace("&lt;", "<").replace("&gt;", ">") for one in lines]
        (folder / "placeholders.txt").write_text("\n".join(names) + "\n", "utf-8")

    def check(folder: Path, answer: str) -> list[str]:
        lines = [line.strip() for line in (folder / "placeholders.txt").read_text("utf-8").splitlines() if line.strip()]
        wanted = [one.replace("&lt;", "<").replace("&gt;", ">") for one in found(folder)]
        wrong = sorted(set(lines) ^ set(wanted))
        return (
            [] if sorted(lines) == sorted(wanted) else [f"{len(lines)} lines; missing, made up or twice: {wrong[:6]}"]
        )

    case = Case(
        name="placeholders-of-an-agenda",
        family="extract",
        instruction="List the placeholders of the template agenda.ott, which look like <name>, in placeholders.txt: one a "
        "line, with their angle brackets, each once.",
        prepare=nothing,
        check=check,
        solve=lambda folder: act(folder, found(folder)),
        miss=lambda folder: act(folder, found(folder)[:-1]),
    )
    return given_file(AGENDA, "agenda.ott", case)


def _outline(reader: PdfReader, marks: Any, level: int = 1) -> Iterator[list[str]]:
    for one in marks:
        if isinstance(one, list):
            yield from _outline(reader, one, level + 1)
        else:
            yield [str(level), str(one.title), str(reader.get_destination_page_number(one) + 1)]


def _bookmarks() -> Case:
    def rows(folder: Path) -> list[list[str]]:
        reader = require("pypdf", "office").PdfReader(str(folder / "specification.pdf"))
        return list(_outline(reader, reader.outline))

    def act(folder: Path, deepest: int) -> None:
        with (folder / "contents.csv").open("w", newline="", encoding="utf-8") as file:
            kept = [row for row in rows(folder) if int(row[0]) <= deepest]
            csv.writer(file).writerows([["level", "title", "page"], *kept])

    def check(folder: Path, answer: str) -> list[str]:
        with (folder / "contents.csv").open(newline="", encoding="utf-8-sig") as file:
            found = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
        wanted = [["level", "title", "page"], *rows(folder)]
        wrong = [row for row in found if row not in wanted]
        return [] if found == wanted else [f"{len(found)} rows, expected {len(wanted)}; wrong are {wrong[:3]}"]

    case = Case(
        name="contents-of-a-specification",
        family="extract",
        instruction="List all bookmarks of specification.pdf in contents.csv, in order, with the columns level (1 for the "
        "outermost), title, and page (the page of the file that it leads to, from 1).",
        prepare=nothing,
        check=check,
        solve=lambda folder: act(folder, 99),
        miss=lambda folder: act(folder, 1),
    )
    return given_file(SPECIFICATION, "specification.pdf", case)


def _pages() -> Case:
    def texts(folder: Path, name: str) -> list[str]:
        return [page.extract_text() for page in require("pypdf", "office").PdfReader(str(folder / name)).pages]

    def act(folder: Path, first: int) -> None:
        pypdf = require("pypdf", "office")
        reader, writer = pypdf.PdfReader(str(folder / "specification.pdf")), pypdf.PdfWriter()
        for page in reader.pages[first - 1 : first + 2]:
            writer.add_page(page)
        writer.write(str(folder / "part.pdf"))

    def check(folder: Path, answer: str) -> list[str]:
        found, wanted = texts(folder, "part.pdf"), texts(folder, "specification.pdf")[2:5]
        return [] if found == wanted else [f"{len(found)} pages, which are not pages 3 to 5"]

    case = Case(
        name="pages-of-a-specification",
        family="convert",
        instruction="Put pages 3 to 5 of specification.pdf into part.pdf, as they are: text stays text.",
        prepare=nothing,
        check=check,
        solve=lambda folder: act(folder, 3),
        miss=lambda folder: act(folder, 2),
    )
    return given_file(SPECIFICATION, "specification.pdf", case)


def _readme() -> Case:
    def wanted(folder: Path) -> list[tuple[int, str]]:
        text = re.sub(r"^```.*?^```", "", (folder / "README.md").read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        found = re.findall(r"^(#+) +(.+?) *$", text, re.MULTILINE)
        return [(len(marks), _plain(re.sub(r"[*_`]", "", title))) for marks, title in found]

    def act(folder: Path, change: Callable[[str], str]) -> None:
        text = change((folder / "README.md").read_text("utf-8"))
        write_docx(Manuscript(text=text, folder=folder), folder / "readme.docx", contents=False)

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder, "readme.docx"), Faults()
        found = [(level, _plain(text)) for level, text, _ in headings(document)]
        faults.expect(found == wanted(folder), f"the headings are {found}")
        links = [one for one in document.part.rels.values() if one.reltype.endswith("/hyperlink")]
        faults.expect(len(links) >= 5, f"{len(links)} links")
        return faults.found

    case = Case(
        name="readme-to-docx",
        family="convert",
        instruction="Convert README.md to readme.docx: headings get the heading styles of their levels, links stay links.",
        prepare=nothing,
        check=check,
        solve=lambda folder: act(folder, str),
        miss=lambda folder: act(folder, lambda text: re.sub(r"^#+ ", "# ", text, flags=re.MULTILINE)),
    )
    return given_file(README, "README.md", case)


def _plain(text: str) -> str:
    """Return a text with straight quotation marks."""
    return text.translate(str.maketrans("“”‘’", "\"\"''"))
