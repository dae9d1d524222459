"""Cases on docx files like OSWorld's LibreOffice Writer tasks, with original files and instructions."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from apps.office.libraries import Document
from apps.office.suite.case import Case, Check, Faults, opened
from apps.office.word.fields import append_field
from envs.errors import require

NAME = "text.docx"
_TEXTS = (
    "The mill stands where the brook meets the road.",
    "It ground rye until 1931, and oats for two years after.",
    "Its wheel is of oak, 4 m wide, and turns once a minute in spring.",
    "Visitors are asked to keep off the weir.",
)
Change = Callable[[Any], object]


def writer_cases() -> Iterator[Case]:
    """Yield all cases."""
    yield _spacing()
    yield _page_numbers()
    yield _strike()
    yield _subscript()
    yield _highlight()
    yield _to_table()
    yield _italics()


def load_document(folder: Path, name: str = NAME) -> Any:
    """Load a document of a folder after opening it safely."""
    return require("docx", "office").Document(str(opened(folder / name)))


def _case(name: str, instruction: str, make: Change, check: Check, solve: Change, miss: Change) -> Case:
    """Return a case on one document."""

    def prepare(folder: Path) -> None:
        document = require("docx", "office").Document()
        make(document)
        document.save(str(folder / NAME))

    def changed(change: Change, folder: Path) -> None:
        document = load_document(folder)
        change(document)
        document.save(str(folder / NAME))

    return Case(
        name=name,
        family="edit",
        instruction=f"In {NAME}, {instruction}",
        prepare=prepare,
        check=check,
        solve=lambda folder: changed(solve, folder),
        miss=lambda folder: changed(miss, folder),
    )


def _write(document: Document) -> None:
    for text in _TEXTS:
        document.add_paragraph(text)


def _same_text(document: Document, faults: Faults, texts: Sequence[str] = _TEXTS) -> None:
    found = [one.text for one in document.paragraphs if one.text.strip()]
    faults.expect(found == list(texts), f"the text was changed: {found}")


def _spacing() -> Case:
    def space(document: Document, count: int) -> None:
        for paragraph in document.paragraphs[:count]:
            paragraph.paragraph_format.line_spacing = 2.0

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder), Faults()
        found = [one.paragraph_format.line_spacing for one in document.paragraphs]
        is_so = found[:2] == [2.0, 2.0] and 2.0 not in found[2:]
        faults.expect(is_so, f"the lines are spaced {found}")
        _same_text(document, faults)
        return faults.found

    instruction = "set the first two paragraphs, and no others, in double line spacing."
    return _case(
        "double-spacing", instruction, _write, check, lambda one: space(one, 2), lambda one: space(one, len(_TEXTS))
    )


def _page_numbers() -> Case:
    def number(document: Document, *, is_field: bool) -> None:
        paragraph = document.sections[0].footer.paragraphs[0]
        paragraph.alignment = require("docx.enum.text", "office").WD_ALIGN_PARAGRAPH.LEFT
        if is_field:
            append_field(paragraph._p, "PAGE", "1")
        else:
            paragraph.add_run("1")

    def make(document: Document) -> None:
        for number in range(60):
            document.add_paragraph(_TEXTS[number % 4])

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder), Faults()
        for section in document.sections:
            footers = [one for one in section.footer.paragraphs if _has_page_field(one._p)]
            faults.expect(len(footers) == 1, f"{len(footers)} paragraphs of the footer have a field with the page")
            for one in footers:
                side = one.alignment if one.alignment is not None else 0
                faults.expect(int(side) == 0, "the number does not stand on the left")
                faults.expect("\t" not in one.text, "the number is moved by a tab")
        return faults.found

    return _case(
        "page-numbers-left",
        "put the page number (a field that counts) at the bottom left of every page.",
        make,
        check,
        lambda one: number(one, is_field=True),
        lambda one: number(one, is_field=False),
    )


def _has_page_field(paragraph: Any) -> bool:
    texts = [one.text or "" for one in paragraph.iter("{*}instrText")]
    texts += [value for one in paragraph.iter("{*}fldSimple") for key, value in one.attrib.items() if "instr" in key]
    return any(text.split()[:1] == ["PAGE"] for text in texts)


def _strike() -> Case:
    def strike(document: Document, at: int) -> None:
        for run in document.paragraphs[at].runs:
            run.font.strike = True

    def make(document: Document) -> None:
        for text in _TEXTS:
            first, rest = text[:9], text[9:]
            paragraph = document.add_paragraph(first)
            paragraph.add_run(rest).bold = True
        document.add_paragraph("")

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder), Faults()
        filled = [one for one in document.paragraphs if one.text.strip()]
        marks = [[bool(run.font.strike) for run in one.runs if run.text.strip()] for one in filled]
        faults.expect(all(marks[-1]), "not all of the last paragraph is struck through")
        faults.expect(not any(mark for line in marks[:-1] for mark in line), "another paragraph is struck through")
        is_bold = all(any(run.bold for run in one.runs) and not all(run.bold for run in one.runs) for one in filled)
        faults.expect(is_bold, "what was bold is not so any more")
        _same_text(document, faults)
        return faults.found

    instruction = "strike through the last paragraph that has text, and nothing else. Bold words stay bold."
    return _case("strike-last", instruction, make, check, lambda one: strike(one, 3), lambda one: strike(one, 2))


_FORMULAS = ("Water is H2O, and 2 glasses a day are not enough.", "Vents give off CO2 and SO2 since 2002.")
_LOWERED = tuple((line, one.end() - 1) for line, text in enumerate(_FORMULAS) for one in re.finditer("[A-Z]2", text))


def _subscript() -> Case:
    def lower(document: Document, *, every: bool) -> None:
        for number, text in enumerate(_FORMULAS):
            places = [at for line, at in _LOWERED if line == number]
            if every:
                places = [at for at, letter in enumerate(text) if letter == "2"]
            paragraph = document.paragraphs[number]
            paragraph.clear()
            for at, letter in enumerate(text):
                paragraph.add_run(letter).font.subscript = True if at in places else None

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder), Faults()
        found = []
        for number, paragraph in enumerate(document.paragraphs):
            at = 0
            for run in paragraph.runs:
                found += [(number, at + n) for n in range(len(run.text)) if run.font.subscript]
                at += len(run.text)
        faults.expect(found == list(_LOWERED), f"these letters are lowered: {found}")
        _same_text(document, faults, _FORMULAS)
        return faults.found

    return _case(
        "subscript-formulas",
        "make the 2 of each chemical formula (H2O, CO2, SO2) a subscript; other digits stay as they are.",
        lambda document: [document.add_paragraph(text) for text in _FORMULAS],
        check,
        lambda one: lower(one, every=False),
        lambda one: lower(one, every=True),
    )


def _highlight() -> Case:
    def make(document: Document) -> None:
        colors = require("docx.enum.text", "office").WD_COLOR_INDEX
        for number, text in enumerate(_TEXTS):
            paragraph = document.add_paragraph(text[:12])
            run = paragraph.add_run(text[12:])
            run.italic = True
            run.font.highlight_color = colors.YELLOW if number != 2 else colors.TURQUOISE

    def clear(document: Document, *, all_colors: bool) -> None:
        yellow = require("docx.enum.text", "office").WD_COLOR_INDEX.YELLOW
        for run in (run for paragraph in document.paragraphs for run in paragraph.runs):
            if all_colors or run.font.highlight_color == yellow:
                run.font.highlight_color = None

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder), Faults()
        runs = [[run for run in one.runs if run.text] for one in document.paragraphs]
        marks = [[run.font.highlight_color for run in line if run.font.highlight_color] for line in runs]
        faults.expect(not any(marks[0] + marks[1] + marks[3]), "a yellow highlight is left")
        faults.expect(bool(marks[2]), "the turquoise highlight is gone")
        faults.expect(all(any(run.italic for run in line) for line in runs), "what was italic is not so any more")
        _same_text(document, faults)
        return faults.found

    return _case(
        "remove-yellow",
        "remove all yellow highlights. Other highlights and italics stay.",
        make,
        check,
        lambda one: clear(one, all_colors=False),
        lambda one: clear(one, all_colors=True),
    )


_LINES = ("Mill,Built,Wheel", "Upper,1702,overshot", "Lower,1744,breast", "Town,1811,undershot")


def _to_table() -> Case:
    def make(document: Document) -> None:
        document.add_paragraph("The mills of the valley:")
        for line in _LINES:
            document.add_paragraph(line)
        document.add_paragraph("All three stand, but none works.")

    def convert(document: Document, *, keeps_lines: bool) -> None:
        lines = document.paragraphs[1:-1]
        table = document.add_table(0, 3)
        for line in _LINES:
            for cell, text in zip(table.add_row().cells, line.split(","), strict=True):
                cell.text = text
        lines[0]._p.addprevious(table._tbl)
        for paragraph in () if keeps_lines else lines:
            paragraph._p.getparent().remove(paragraph._p)

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder), Faults()
        faults.expect(len(document.tables) == 1, f"{len(document.tables)} tables, expected 1")
        cells = [[cell.text.strip() for cell in row.cells] for table in document.tables for row in table.rows]
        faults.expect(cells == [line.split(",") for line in _LINES], f"the cells are {cells}")
        left = [one.text for one in document.paragraphs if one.text.strip()]
        faults.expect(left == ["The mills of the valley:", "All three stand, but none works."], f"left is {left}")
        kinds = [one.tag.rpartition("}")[2] for one in document.element.body if one.tag.endswith(("}tbl", "}p"))]
        faults.expect("tbl" in kinds[1:-1], "the table does not stand between the two sentences")
        return faults.found

    return _case(
        "commas-to-table",
        "turn the four lines with commas into a table of three columns in their place; the lines themselves go.",
        make,
        check,
        lambda one: convert(one, keeps_lines=False),
        lambda one: convert(one, keeps_lines=True),
    )


def _italics() -> Case:
    def make(document: Document) -> None:
        pt = require("docx.shared", "office").Pt
        for text in _TEXTS:
            words = text.split()
            paragraph = document.add_paragraph()
            for at, word in enumerate(words):
                run = paragraph.add_run(word + (" " if at < len(words) - 1 else ""))
                run.italic, run.font.size = (True if at % 3 == 1 else None), pt(12)

    def enlarge(document: Document, *, everything: bool) -> None:
        pt = require("docx.shared", "office").Pt
        for run in (run for paragraph in document.paragraphs for run in paragraph.runs):
            if run.italic or everything:
                run.font.size = pt(14)

    def check(folder: Path, answer: str) -> list[str]:
        document, faults = load_document(folder), Faults()
        for run in (run for paragraph in document.paragraphs for run in paragraph.runs if run.text.strip()):
            size = run.font.size.pt if run.font.size else None
            faults.expect(size == (14 if run.italic else 12), f"{run.text.strip()!r} is of {size} pt")
        is_kept = sum(bool(run.italic) for one in document.paragraphs for run in one.runs) >= len(_TEXTS)
        faults.expect(is_kept, "the italics are gone")
        _same_text(document, faults)
        return faults.found[:8]

    return _case(
        "larger-italics",
        "set the italic words in 14 pt; they stay italic, and all others stay at 12 pt.",
        make,
        check,
        lambda one: enlarge(one, everything=False),
        lambda one: enlarge(one, everything=True),
    )
