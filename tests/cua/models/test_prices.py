from pathlib import Path

import pytest

from cua.errors import ConfigError
from cua.models.prices import Price, PriceTable, load_prices


def test_cost() -> None:
    price = Price(input=1.0, output=4.0, cached_input=0.25)
    assert price.cost_usd(1_000_000, 500_000, 400_000) == pytest.approx(0.6 + 0.1 + 2.0, rel=1e-12)
    assert Price(input=1.0, output=4.0).cost_usd(1_000_000, 0, 400_000) == 1.0
    assert price.cost_usd(10, 0, 99) == pytest.approx(10 * 0.25 / 1e6), "never more cached than sent"


def test_star_stands_for_the_rest() -> None:
    own, rest = Price(input=1, output=2), Price(input=0, output=0)
    assert PriceTable(prices={"a": own, "*": rest}).find("a") == own
    assert PriceTable(prices={"a": own, "*": rest}).find("b") == rest
    assert PriceTable(prices={"a": own}).find("b") is None


def test_file_from_setting_then_environment(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.json", tmp_path / "other.json"
    mine.write_text('{"m": {"input": 1, "output": 2, "source": "the vendor\'s page"}}')
    other.write_text('{"m": {"input": 3, "cached_input": 0.5, "output": 4}}')
    environ = {"K25_PRICES": str(other)}
    assert load_prices(mine, environ).find("m") == Price(input=1, output=2, source="the vendor's page")
    assert load_prices(None, environ).find("m") == Price(input=3, cached_input=0.5, output=4)
    assert load_prices(None, {}) == PriceTable()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"m": {"inptu": 1, "input": 1, "output": 2}}',
         "is wrong: m > inptu: Extra inputs are not permitted. Did you mean 'input'? "
         "Known: cached_input, input, output, source."),
        ('{"m": {"input": -1, "output": 2}}', "is wrong: m > input: Input should be greater than or equal to 0."),
        ('{"m": {"input": 1}}', "is wrong: m > output: Field required."),
        ('{"m": {"input": NaN, "output": 1}}', "is wrong: m > input: Input should be a finite number."),
        ("[]", "is wrong: Input should be a valid dictionary."),
        ("", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_prices(path)
    assert str(caught.value) == f"the price file {path} {complaint}"


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_prices(tmp_path / "none.json")
