"""Numbers of headings and equations of a docx file, which programs continue; python-docx does not write them."""

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from apps.office.libraries import XmlElement
from apps.office.word.fields import append_field, headings
from apps.office.word.ranges import make_element, w

if TYPE_CHECKING:
    from docx.document import Document as DocxDocument

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MAX_LEVEL = 6
_HEADING = re.compile(r"^heading (\d)$", re.IGNORECASE)


def number_headings(document: "DocxDocument", are_numbered: Sequence[bool]) -> None:
    """Number the headings as 1, 1.1, ..., by a list that is part of their styles.

    Args:
        document: Document as returned by `docx.Document`.
        are_numbered: True for each heading that gets a number, in order; others, and those after the last one, are
            taken out of the list.
    """
    paragraphs = [(level, paragraph) for level, _, paragraph in headings(document)]
    if not any(are_numbered) or len(paragraphs) < len(are_numbered):
        return
    root = document.part.numbering_part.element
    number = _add_list(root)
    for style in document.styles:
        match = _HEADING.match(style.name or "")
        if match and int(match[1]) <= _MAX_LEVEL:
            properties = style.element.get_or_add_pPr().get_or_add_numPr()
            properties.get_or_add_ilvl().set(w("val"), str(int(match[1]) - 1))
            properties.get_or_add_numId().set(w("val"), number)
        elif style.type == 1 and style.base_style is not None and _HEADING.match(style.base_style.name or ""):
            _take_out(style.element)  # such as the title of the table of contents
    for at, (_, paragraph) in enumerate(paragraphs):
        if at >= len(are_numbered) or not are_numbered[at]:
            _take_out(paragraph)


def _take_out(element: Any) -> None:
    """Take a paragraph or a style out of the list of its style."""
    element.get_or_add_pPr().get_or_add_numPr().get_or_add_numId().set(w("val"), "0")


def _add_list(root: XmlElement) -> str:
    """Add a list of several levels to the numbering part, and return its number."""
    abstracts, lists = root.findall(w("abstractNum")), root.findall(w("num"))
    abstract = str(1 + max((int(one.get(w("abstractNumId"), "0")) for one in abstracts), default=0))
    number = str(1 + max((int(one.get(w("numId"), "0")) for one in lists), default=0))
    levels = []
    for level in range(_MAX_LEVEL):
        text = ".".join(f"%{place}" for place in range(1, level + 2))
        levels.append(
            make_element(
                root,
                "lvl",
                make_element(root, "start", val="1"),
                make_element(root, "numFmt", val="decimal"),
                make_element(root, "pStyle", val=f"Heading{level + 1}"),
                make_element(root, "suff", val="space"),
                make_element(root, "lvlText", val=text),
                make_element(root, "lvlJc", val="left"),
                make_element(root, "pPr", make_element(root, "ind", left="0", firstLine="0")),
                ilvl=str(level),
            )
        )
    kind = make_element(root, "multiLevelType", val="multilevel")
    new = make_element(root, "abstractNum", kind, *levels, abstractNumId=abstract)
    if lists:
        lists[0].addprevious(new)
    else:
        root.append(new)
    root.append(make_element(root, "num", make_element(root, "abstractNumId", val=abstract), numId=number))
    return number


def number_equations(document: "DocxDocument") -> None:
    """Number the displayed equations at the right margin, each in its own paragraph."""
    section = document.sections[0]
    width = ((section.page_width or 0) - (section.left_margin or 0) - (section.right_margin or 0)) // 635  # twips
    for number, displayed in enumerate(list(document.element.body.iter(f"{_M}oMathPara")), 1):
        paragraph = displayed.getparent()
        if paragraph.tag != w("p"):
            continue
        _split_around(paragraph, displayed)
        first = make_element(paragraph, "r", make_element(paragraph, "tab"))
        displayed.addprevious(first)
        for equation in displayed.findall(f"{_M}oMath"):
            displayed.addprevious(equation)
        paragraph.remove(displayed)
        text = make_element(paragraph, "t", text="(")
        paragraph.append(make_element(paragraph, "r", make_element(paragraph, "tab"), text))
        append_field(paragraph, "SEQ Equation \\* ARABIC", str(number))
        paragraph.append(make_element(paragraph, "r", make_element(paragraph, "t", text=")")))
        properties = paragraph.get_or_add_pPr()
        stops = make_element(
            paragraph,
            "tabs",
            make_element(paragraph, "tab", val="center", pos=str(width // 2)),
            make_element(paragraph, "tab", val="right", pos=str(width)),
        )
        properties._insert_tabs(stops)


def _split_around(paragraph: XmlElement, displayed: XmlElement) -> None:
    """Move the texts before and after an equation to paragraphs of their own."""
    children = [child for child in paragraph if child.tag != w("pPr")]
    at = children.index(displayed)
    for is_before, moved in ((True, children[:at]), (False, children[at + 1 :])):
        runs = [child for child in moved if "".join(child.itertext()).strip() or child.tag == f"{_M}oMath"]
        if not runs:
            continue
        own = [child for child in moved if child.tag not in (w("bookmarkStart"), w("bookmarkEnd"))]
        other = make_element(paragraph, "p", *(deepcopy(one) for one in paragraph.findall(w("pPr"))), *own)
        if is_before:
            paragraph.addprevious(other)
        else:
            paragraph.addnext(other)
