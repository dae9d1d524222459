"""What was typed and what a field shows: digits, signs and separators are equal, or it is another text."""

from apps.literal.verify_typed import compare_typed, is_readable
from tests.tables import table

LIKENESS = [
    ("49.90", "49.90", "same"),
    ("New York", "NewYork", "same"),
    ("10–12", "10-12", "same"),
    ("AB0", "ABO", "doubtful"),
    ("Illinois 10", "lllinois 1O", "doubtful"),
    ("Zoë", "Zoe", "doubtful"),
    ("1234567.5", "1,234,567.5", "doubtful"),
    ("5551234567", "(555)123-4567", "doubtful"),
    ("100", "1OO", "different"),
    ("49.90", "4990", "different"),
    ("4990", "49.90", "different"),
    ("49.90", "49,90", "different"),
    ("-350", "350", "different"),
    ("350", "-350", "different"),
    ("GA-4471", "GA-71", "different"),
    ("AB12CD", "ABCD", "different"),
    ("12.50", "12.5", "different"),
    ("00712", "712", "different"),
    ("1.234", "1234", "different"),
    ("annabel", "ANNABEL", "different"),
    ("13", "18", "different"),
    ("03/04/2026", "04/03/2026", "different"),
    ("x@y.org", "x@y.org,", "different"),
]


@table(("typed", "seen", "likeness"), LIKENESS)
def test_a_text_is_compared_sign_by_sign(typed: str, seen: str, likeness: str) -> None:
    assert compare_typed(typed, seen) == likeness


def test_what_cannot_be_read_back_is_known() -> None:
    assert is_readable("Zoë 12")
    assert is_readable("東京都")
    assert not is_readable("Москва")
    assert not is_readable("{{password}}")
    assert not is_readable("4")
