"""Typed references: those without a target are found, and those to other works are not."""

import pytest

from apps.office.check.references import find_dangling

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
        "Seat at table 5; figures 2024; a section 12 m long; in 7 figures; 100 tables; Section 230 protects.",
        "代表3个，地图5张, 如图1所示",
        "Figure 5: A new caption\nTable 2. Another\n",
        "siehe Abbildung 1",
    ],
)
def test_what_is_not_dangling(text: str) -> None:
    assert find_dangling([*OWN, text]) == []


def test_numbers_of_the_rendering_count() -> None:
    texts = ["See Section 2 and Equation 4 and Figure 1."]
    assert [one.text for one in find_dangling(texts)] == ["Section 2", "Equation 4", "Figure 1"]
    assert find_dangling(texts, lines=["a + b (4)", "Figure 1: A"], headings=["2 Method"]) == []
