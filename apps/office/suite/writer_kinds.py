"""Cases on docx files like OSWorld's LibreOffice Writer tasks, with original files and instructions."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from apps.office.libraries import XmlElement
from apps.office.suite.case import Check, Failures, OfficeCase, open_checked
from apps.office.word.fields import append_field
from envs.errors import require

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

NAME = "text.docx"
_TEXTS = (
    "The mill stands where the brook meets the road.",
    "It ground rye until 1931, and oats for two years after.",
    "Its wheel is of oak, 4 m wide, and turns once a minute in spring.",
    "Visitors are asked to keep off the weir.",
)
Change = Callable[["DocxDocument"], object]


def writer_cases() -> Iterator[OfficeCase]:
    """Yield all cases."""
    yield _spacing()
    yield _page_numbers()
    yield _strike()
    yield _subscript()
    yield _highlight()
    yield _to_table()
    yield _italics()


def load_document(folder: Path, name: str = NAME) -> "DocxDocument":
    """Load a document of a folder after opening it safely."""
    document: DocxDocument = require("docx", "office").Document(str(open_checked(folder / name)))
    return document


def _case(name: str, instruction: str, make: Change, check: Check, solve: Change, miss: Change) -> OfficeCase:
    """Return a case on one document."""

    def prepare(folder: Path) -> None:
        document = require("docx", "office").Document()
        make(document)
        document.save(str(folder / NAME))

    def changed(change: Change, folder: Path) -> None:
        document = load_document(folder)
        change(document)
        document.save(str(folder / NAME))

    return OfficeCase(
        name=name,
        family="edit",
        instruction=f"In {NAME}, {instruction}",
        prepare=prepare,
        check=check,
        solve=lambda folder: changed(solve, folder),
        miss=lambda folder: changed(miss, folder),
    )


def _write(document: "DocxDocument") -> None:
    for text in _TEXTS:
        document.add_paragraph(text)


def _same_text(document: "DocxDocument", failures: Failures, texts: Sequence[str] = _TEXTS) -> None:
    texts_found = [paragraph.text for paragraph in document.paragraphs if paragraph.text.strip()]
    failures.expect(texts_found == list(texts), f"the text was changed: {texts_found}")


def _spacing() -> OfficeCase:
    def space(document: "DocxDocument", count: int) -> None:
        for paragraph in document.paragraphs[:count]:
            paragraph.paragraph_format.line_spacing = 2.0

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder), Failures()
        spacings = [paragraph.paragraph_format.line_spacing for paragraph in document.paragraphs]
        is_so = spacings[:2] == [2.0, 2.0] and 2.0 not in spacings[2:]
        failures.expect(is_so, f"the lines are spaced {spacings}")
        _same_text(document, failures)
        return failures.messages

    instruction = "set the first two paragraphs, and no others, in double line spacing."
    return _case(
        "double-spacing", instruction, _write, check, lambda doc: space(doc, 2), lambda doc: space(doc, len(_TEXTS))
    )


def _page_numbers() -> OfficeCase:
    def number(document: "DocxDocument", *, is_field: bool) -> None:
        paragraph = document.sections[0].footer.paragraphs[0]
        paragraph.alignment = require("docx.enum.text", "office").WD_ALIGN_PARAGRAPH.LEFT
        if is_field:
            append_field(paragraph._p, "PAGE", "1")
        else:
            paragraph.add_run("1")

    def make(document: "DocxDocument") -> None:
        for number in range(60):
            document.add_paragraph(_TEXTS[number % 4])

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder), Failures()
        for section in document.sections:
            footers = [paragraph for paragraph in section.footer.paragraphs if _has_page_field(paragraph._p)]
            failures.expect(len(footers) == 1, f"{len(footers)} paragraphs of the footer have a field with the page")
            for paragraph in footers:
                side = paragraph.alignment if paragraph.alignment is not None else 0
                failures.expect(int(side) == 0, "the number does not stand on the left")
                failures.expect("\t" not in paragraph.text, "the number is moved by a tab")
        return failures.messages

    return _case(
        "page-numbers-left",
        "put the page number (a field that counts) at the bottom left of every page.",
        make,
        check,
        lambda doc: number(doc, is_field=True),
        lambda doc: number(doc, is_field=False),
    )


def _has_page_field(paragraph: XmlElement) -> bool:
    texts = [instruction.text or "" for instruction in paragraph.iter("{*}instrText")]
    texts += [
        value for field in paragraph.iter("{*}fldSimple") for key, value in field.attrib.items() if "instr" in key
    ]
    return any(text.split()[:1] == ["PAGE"] for text in texts)


def _strike() -> OfficeCase:
    def strike(document: "DocxDocument", at: int) -> None:
        for run in document.paragraphs[at].runs:
            run.font.strike = True

    def make(document: "DocxDocument") -> None:
        for text in _TEXTS:
            first, rest = text[:9], text[9:]
            paragraph = document.add_paragraph(first)
            paragraph.add_run(rest).bold = True
        document.add_paragraph("")

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder), Failures()
        filled = [paragraph for paragraph in document.paragraphs if paragraph.text.strip()]
        marks = [[bool(run.font.strike) for run in paragraph.runs if run.text.strip()] for paragraph in filled]
        failures.expect(all(marks[-1]), "not all of the last paragraph is struck through")
        failures.expect(not any(mark for line in marks[:-1] for mark in line), "another paragraph is struck through")
        is_bold = all(
            any(run.bold for run in paragraph.runs) and not all(run.bold for run in paragraph.runs)
            for paragraph in filled
        )
        failures.expect(is_bold, "what was bold is not so any more")
        _same_text(document, failures)
        return failures.messages

    instruction = "strike through the last paragraph that has text, and nothing else. Bold words stay bold."
    return _case("strike-last", instruction, make, check, lambda doc: strike(doc, 3), lambda doc: strike(doc, 2))


_FORMULAS = ("Water is H2O, and 2 glasses a day are not enough.", "Vents give off CO2 and SO2 since 2002.")
_LOWERED = tuple(
    (line, match.end() - 1) for line, text in enumerate(_FORMULAS) for match in re.finditer("[A-Z]2", text)
)


def _subscript() -> OfficeCase:
    def lower(document: "DocxDocument", *, every: bool) -> None:
        for number, text in enumerate(_FORMULAS):
            places = [at for line, at in _LOWERED if line == number]
            if every:
                places = [at for at, letter in enumerate(text) if letter == "2"]
            paragraph = document.paragraphs[number]
            paragraph.clear()  # type: ignore[no-untyped-call]
            for at, letter in enumerate(text):
                paragraph.add_run(letter).font.subscript = True if at in places else None

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder), Failures()
        lowered = []
        for number, paragraph in enumerate(document.paragraphs):
            at = 0
            for run in paragraph.runs:
                lowered += [(number, at + n) for n in range(len(run.text)) if run.font.subscript]
                at += len(run.text)
        failures.expect(lowered == list(_LOWERED), f"these letters are lowered: {lowered}")
        _same_text(document, failures, _FORMULAS)
        return failures.messages

    return _case(
        "subscript-formulas",
        "make the 2 of each chemical formula (H2O, CO2, SO2) a subscript; other digits stay as they are.",
        lambda document: [document.add_paragraph(text) for text in _FORMULAS],
        check,
        lambda doc: lower(doc, every=False),
        lambda doc: lower(doc, every=True),
    )


def _highlight() -> OfficeCase:
    def make(document: "DocxDocument") -> None:
        colors = require("docx.enum.text", "office").WD_COLOR_INDEX
        for number, text in enumerate(_TEXTS):
            paragraph = document.add_paragraph(text[:12])
            run = paragraph.add_run(text[12:])
            run.italic = True
            run.font.highlight_color = colors.YELLOW if number != 2 else colors.TURQUOISE

    def clear(document: "DocxDocument", *, all_colors: bool) -> None:
        yellow = require("docx.enum.text", "office").WD_COLOR_INDEX.YELLOW
        for run in (run for paragraph in document.paragraphs for run in paragraph.runs):
            if all_colors or run.font.highlight_color == yellow:
                run.font.highlight_color = None

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder), Failures()
        runs = [[run for run in paragraph.runs if run.text] for paragraph in document.paragraphs]
        marks = [[run.font.highlight_color for run in line if run.font.highlight_color] for line in runs]
        failures.expect(not any(marks[0] + marks[1] + marks[3]), "a yellow highlight is left")
        failures.expect(bool(marks[2]), "the turquoise highlight is gone")
        failures.expect(all(any(run.italic for run in line) for line in runs), "what was italic is not so any more")
        _same_text(document, failures)
        return failures.messages

    return _case(
        "remove-yellow",
        "remove all yellow highlights. Other highlights and italics stay.",
        make,
        check,
        lambda doc: clear(doc, all_colors=False),
        lambda doc: clear(doc, all_colors=True),
    )


_LINES = ("Mill,Built,Wheel", "Upper,1702,overshot", "Lower,1744,breast", "Town,1811,undershot")


def _to_table() -> OfficeCase:
    def make(document: "DocxDocument") -> None:
        document.add_paragraph("The mills of the valley:")
        for line in _LINES:
            document.add_paragraph(line)
        document.add_paragraph("All three stand, but none works.")

    def convert(document: "DocxDocument", *, keeps_lines: bool) -> None:
        lines = document.paragraphs[1:-1]
        table = document.add_table(0, 3)
        for line in _LINES:
            for cell, text in zip(table.add_row().cells, line.split(","), strict=True):
                cell.text = text
        lines[0]._p.addprevious(table._tbl)
        for paragraph in () if keeps_lines else lines:
            paragraph._p.getparent().remove(paragraph._p)

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder), Failures()
        failures.expect(len(document.tables) == 1, f"{len(document.tables)} tables, expected 1")
        cells = [[cell.text.strip() for cell in row.cells] for table in document.tables for row in table.rows]
        failures.expect(cells == [line.split(",") for line in _LINES], f"the cells are {cells}")
        left = [paragraph.text for paragraph in document.paragraphs if paragraph.text.strip()]
        failures.expect(left == ["The mills of the valley:", "All three stand, but none works."], f"left is {left}")
        kinds = [
            element.tag.rpartition("}")[2] for element in document.element.body if element.tag.endswith(("}tbl", "}p"))
        ]
        failures.expect("tbl" in kinds[1:-1], "the table does not stand between the two sentences")
        return failures.messages

    return _case(
        "commas-to-table",
        "turn the four lines with commas into a table of three columns in their place; the lines themselves go.",
        make,
        check,
        lambda doc: convert(doc, keeps_lines=False),
        lambda doc: convert(doc, keeps_lines=True),
    )


def _italics() -> OfficeCase:
    def make(document: "DocxDocument") -> None:
        pt = require("docx.shared", "office").Pt
        for text in _TEXTS:
            words = text.split()
            paragraph = document.add_paragraph()
            for at, word in enumerate(words):
                run = paragraph.add_run(word + (" " if at < len(words) - 1 else ""))
                run.italic, run.font.size = (True if at % 3 == 1 else None), pt(12)

    def enlarge(document: "DocxDocument", *, everything: bool) -> None:
        pt = require("docx.shared", "office").Pt
        for run in (run for paragraph in document.paragraphs for run in paragraph.runs):
            if run.italic or everything:
                run.font.size = pt(14)

    def check(folder: Path, answer: str) -> list[str]:
        document, failures = load_document(folder), Failures()
        for run in (run for paragraph in document.paragraphs for run in paragraph.runs if run.text.strip()):
            size = run.font.size.pt if run.font.size else None
            failures.expect(size == (14 if run.italic else 12), f"{run.text.strip()!r} is of {size} pt")
        is_kept = sum(bool(run.italic) for paragraph in document.paragraphs for run in paragraph.runs) >= len(_TEXTS)
        failures.expect(is_kept, "the italics are gone")
        _same_text(document, failures)
        return failures.messages[:8]

    return _case(
        "larger-italics",
        "set the italic words in 14 pt; they stay italic, and all others stay at 12 pt.",
        make,
        check,
        lambda doc: enlarge(doc, everything=False),
        lambda doc: enlarge(doc, everything=True),
    )
