"""Dates in the format that a field shows."""

import pytest

from apps.literal.do_keyboard import format_like


@pytest.mark.parametrize(
    ("text", "shown", "typed"),
    [
        ("2026-03-04", "mm/dd/yyyy", "03/04/2026"),
        ("2026-03-04", "mm / dd / yyyy 口", "03/04/2026"),
        ("2026-03-04", "dd.mm.yyyy", "04.03.2026"),
        ("2026-03-04", "TT.MM.JJJJ", "04.03.2026"),
        ("2026-03-04", "jj/mm/aaaa", "04/03/2026"),
        ("2026-03-04", "yyyy-mm-dd", "2026-03-04"),
        ("2026-03-04", "11/12/2025", "03/04/2026"),
        ("2026-03-04", "31/12/2025", "04/03/2026"),
        ("2026-03-04", "11.12.2025", "04.03.2026"),
        ("March 4, 2026", "mm/dd/yyyy", "03/04/2026"),
        ("4 March 2026", "yyyy-mm-dd", "2026-03-04"),
        ("2026-03-04 15:30", "mm/dd/yyyy, --:-- --", "03/04/2026\t15:30"),
        ("2026-03", "---------- ----", "March\t2026"),
        ("2026-03-04", "", None),
        ("2026-03-04", "Lunch with Bob", None),
        ("2026-02-30", "mm/dd/yyyy", None),
        ("Lunch", "mm/dd/yyyy", None),
    ],
)
def test_date_is_written_as_the_field_shows_dates(text: str, shown: str, typed: str | None) -> None:
    assert format_like(text, shown) == typed
