"""Typed references: those without a target are found, and those to other works are not."""

from pathlib import Path

import docx
import pytest
from docx.oxml import parse_xml

from apps.office.check.document import check_document
from apps.office.check.findings import CheckReport, RenderedFile
from apps.office.check.references import find_dangling
from apps.office.package import open_package
from apps.office.word.comments import add_comment

OWN = [
    "1 Introduction",
    "2.1 Method",
    "A Proofs",
    "Figure 1: A cup",
    "Figures 2–3. Two cups",
    "Table 1 Prices of cups",
    "Abbildung 1: Eine Tasse",
    "Figure 4.2: A part",
    "图1 杯子",
    "E = mc2 (1)",
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See Figure 7.", ["Figure 7"]),
        ("as Fig. 9 and Table 2 show (see Eq. (3))", ["Fig. 9", "Table 2", "Eq. (3)"]),
        ("Figures 1, 2 and 8 are cups; Figures 1 to 4 too.", ["Figures 1, 2 and 8", "Figures 1 to 4"]),
        ("Figure 12 shows a cup.", ["Figure 12"]),
        ("(see Section 5 and Appendix C)", ["Section 5", "Appendix C"]),
        ("siehe Abbildung 4 und Tab. 3", ["Abbildung 4", "Tab. 3"]),
        ("如图7所示，见表 2。", ["图7", "表 2"]),
        ("Figure 4.3 is missing, Figure 7 of this report as well.", ["Figure 4.3", "Figure 7"]),
        ("The cups are shown in\nFigure 9. Next sentence.", ["Figure 9"]),
        ("Voir la figure 4 et le tableau 2.", ["figure 4", "tableau 2"]),
        ("Véase la figura 4; la tabla 3 muestra los precios.", ["figura 4", "tabla 3"]),
    ],
)
def test_missing_targets_are_found(text: str, found: list[str]) -> None:
    assert [one.text for one in find_dangling([*OWN, text])] == found
    assert {one.at for one in find_dangling([*OWN, text])} == {len(OWN)}


@pytest.mark.parametrize(
    "text",
    [
        "See Figures 1-3, Figure 2b, Fig. 1(a), Table 1 and Equation (1), Section 2 and Appendix A.",
        "Figure 7 of [3], Figure 7 in [3], Fig. 2 in Smith et al. (2001), Figure 9 of Doe's book, [3, Figure 7].",
        "As Doe (2001, Fig. 3) says; their Table 5; Smith's Figure 8; Figure 3 from the report; (Doe 2001, Tab. 4).",
        'The letter says “see Figure 12 below” and "Table 9".',
        "Cf. Doe et al., Figure 7. Figure 7 in the report of the IPCC; Table 4 in the supplementary material.",
        "See Table S2 and Figure S1. Figure 3 million losses.",
        "Seat at table 5; figures 2024; a section 12 m long; in 7 figures; 100 tables; Section 230 protects.",
        "代表3个，地图5张, 如图1所示",
        "Figure 5: A new caption\nTable 2. Another\n",
        "siehe Abbildung 1",
    ],
)
def test_what_is_not_dangling(text: str) -> None:
    assert find_dangling([*OWN, text]) == []


def test_own_numbers_with_s_are_checked_if_the_document_has_such() -> None:
    assert [one.text for one in find_dangling(["Table S1: Cups", "See Table S2."])] == ["Table S2"]


def test_numbers_of_the_rendering_count() -> None:
    texts = ["See Section 2 and Equation 4 and Figure 1."]
    assert [one.text for one in find_dangling(texts)] == ["Section 2", "Equation 4", "Figure 1"]
    assert find_dangling(texts, lines=["a + b (4)", "Figure 1: A"], headings=["2 Method"]) == []


_NAMESPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def test_headers_notes_and_text_boxes_count_once(tmp_path: Path) -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>See Figure 7.</w:t></w:r></w:p></w:txbxContent>"
    choice = f"<mc:Choice Requires='wps'>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
    document = docx.Document()
    paragraph = document.add_paragraph("Figure 1: A cup")
    run = f"<w:r {_NAMESPACES}><mc:AlternateContent>{choice}</mc:AlternateContent></w:r>"
    paragraph._p.append(parse_xml(run))
    document.sections[0].header.paragraphs[0].text = "Figure 1, see Figure 8"
    document.sections[0].footer.paragraphs[0].text = "see Table 9"
    document.save(str(tmp_path / "a.docx"))
    report = CheckReport(file="a.docx", kind="docx")
    path = tmp_path / "a.docx"
    check_document(RenderedFile(path=path, package=open_package(path), pdf=None, pages=[]), report)
    found = [one.text.split("'")[1] for one in report.findings if one.code == "missing-target"]
    assert found == ["Figure 7", "Figure 8", "Table 9"]


def test_references_in_comments_are_warnings(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Figure 1: A cup")
    document.add_paragraph("More words about cups.")
    for text in ("Compare this with Figure 1.", "Figure 6 is better, see also Fig. 2 of [3]."):
        add_comment(document, "More words", text, author="Ann")
    path = tmp_path / "a.docx"
    document.save(str(path))
    report = CheckReport(file="a.docx", kind="docx")
    check_document(RenderedFile(path=path, package=open_package(path), pdf=None, pages=[]), report)
    found = [(one.level, one.text.split("'")[1], one.place) for one in report.findings if one.code == "missing-target"]
    assert found == [("warning", "Figure 6", "comment by Ann")]
