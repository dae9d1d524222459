import pytest

from tests.tables import table
from visual_tools.charts.scales import Reading, TickMark, fit_scale, parse_label, parse_multiplier


@table(
    ("text", "exponent", "value"),
    [
        ("5", "", 5),
        ("−2.5", "", -2.5),
        ("·0.25", "", -0.25),
        (".5", "", 0.5),
        ("1,000", "", 1000),
        ("12 500", "", 12500),
        ("1,234,567.5", "", 1234567.5),
        ("0,25", "", 0.25),
        ("50%", "", 50),
        ("$10k", "", 10_000),
        ("3M", "", 3e6),
        ("2e-3", "", 0.002),
        ("O.5", "", 0.5),
        ("l0", "", 10),
        ("10", "−2", 0.01),
        ("10", "O", 1),
        ("10³", "", 1000),
        ("10°", "", 1),
        ("2×10", "3", 2000),
        ("-10", "2", -100),
    ],
)
def test_labels(text: str, exponent: str, value: float) -> None:
    assert parse_label(text, exponent)[0].value == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "a", "time (s)", "Jan", "12:30", "2024-01-02", "1.2.3", "-"])
def test_what_is_no_number(text: str) -> None:
    assert parse_label(text) == ()


def test_a_minus_may_be_lost() -> None:
    assert [reading.value for reading in parse_label("5")] == [5, -5]
    assert [reading.value for reading in parse_label("10", "2")] == [100, 0.01]


@pytest.mark.parametrize(
    ("text", "exponent", "expected"),
    [
        ("1e6", "", (1e6, 0.0)),
        ("1e−5", "", (1e-5, 0.0)),
        ("×10", "6", (1e6, 0.0)),
        ("×10⁶", "", (1e6, 0.0)),
        ("+2e3", "", (1.0, 2000.0)),
        ("1e-2+1.5e1", "", (0.01, 15.0)),
        ("", "", None),
        ("Title", "", None),
        ("12", "", None),
    ],
)
def test_multipliers(text: str, exponent: str, expected: tuple[float, float] | None) -> None:
    assert parse_multiplier(text, exponent) == (None if expected is None else pytest.approx(expected))


def mark(px: float, *values: float) -> TickMark:
    return TickMark(px=px, readings=tuple(Reading(value=value, weight=1.0) for value in values))


def test_a_misread_label_is_outvoted() -> None:
    scale = fit_scale([mark(0, 0), mark(50, 10), mark(100, 70), mark(150, 30), mark(200, 40)])

    assert scale is not None
    assert (scale.kind, scale.values) == ("linear", (0, 10, None, 30, 40))
    assert (scale.slope, scale.intercept) == (pytest.approx(0.2), pytest.approx(0, abs=1e-9))
    assert scale.residual_px == pytest.approx(0, abs=1e-6)


def test_logarithmic_and_falling_scales() -> None:
    log = fit_scale([mark(0, 1), mark(100, 10), mark(200, 100)])
    falling = fit_scale([mark(300, -1), mark(200, 0), mark(100, 1)])

    assert log is not None and (log.kind, log.slope) == ("log", pytest.approx(0.01))
    assert falling is not None and (falling.kind, falling.slope) == ("linear", pytest.approx(-0.01))


@pytest.mark.parametrize(
    "marks",
    [
        [],
        [mark(0, 1)],
        [mark(0), mark(9)],
        [mark(0, 1), mark(9, 1)],
        [mark(0, 1), mark(50, 7), mark(100, 3)],
        [mark(0, 5), mark(50, 1), mark(100, 9), mark(150, 2), mark(200, 8)],
    ],
)
def test_labels_that_do_not_agree_are_no_scale(marks: list[TickMark]) -> None:
    assert fit_scale(marks) is None
