import json
from pathlib import Path

import pytest

from apps.demo.app import parse_cents, parse_expense, parse_settings, render_cents
from apps.demo.store import SEED, Expense, ExpenseStore, StoreSettings


def test_store_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "expenses.json"
    store = ExpenseStore(path)
    added = store.add(
        Expense(description="Crème & 日本", amount_cents=101, category="Food", date="2026-03-04", is_reimbursable=True)
    )
    store.delete(1)
    store.set_settings(StoreSettings(currency="CHF", monthly_budget_cents=5))

    state = ExpenseStore(path).load()
    assert state.expenses == (*SEED.expenses[1:], added)
    assert added.id == 4
    assert state.settings == StoreSettings(currency="CHF", monthly_budget_cents=5)
    assert [name.name for name in tmp_path.iterdir()] == ["expenses.json"]
    assert json.loads(path.read_text("utf-8"))["expenses"][-1]["description"] == "Crème & 日本"


def test_numbers_are_not_used_twice(tmp_path: Path) -> None:
    store = ExpenseStore(tmp_path / "e.json")
    expense = Expense(description="x", amount_cents=1, category="Food", date="2026-01-01")
    first = store.add(expense)
    store.delete(first.id)
    assert store.add(expense).id == first.id + 1


def test_totals_by_category_follow_the_fixed_order() -> None:
    assert SEED.total_cents == 34790
    assert list(SEED.totals_by_category().items()) == [("Travel", 2300), ("Lodging", 31200), ("Office", 1290)]


@pytest.mark.parametrize(
    ("text", "cents"),
    [("48.50", 4850), ("48,5", 4850), (" 7 ", 700), ("0", 0), ("", None), ("1.234", None), ("-3", None), ("x", None)],
)
def test_parse_cents(text: str, cents: int | None) -> None:
    assert parse_cents(text) == cents


@pytest.mark.parametrize("cents", [0, 5, 100, 4850, 123456])
def test_amounts_survive_the_form(cents: int) -> None:
    assert parse_cents(render_cents(cents)) == cents


def test_parse_expense() -> None:
    form = {"description": " Tea ", "amount": "2.40", "category": "Food", "date": "2026-03-04", "reimbursable": "yes"}
    assert parse_expense(form, 9) == Expense(
        id=9, description="Tea", amount_cents=240, category="Food", date="2026-03-04", is_reimbursable=True
    )
    assert parse_expense({"amount": "0", "date": "2026-02-30"}) == {
        "description": "Description is required",
        "amount": "Enter an amount above 0, such as 12.50",
        "category": "Choose a category",
        "date": "Choose a date",
    }


def test_parse_settings() -> None:
    assert parse_settings({"currency": "USD", "budget": "12"}) == StoreSettings(
        currency="USD", monthly_budget_cents=1200
    )
    assert parse_settings({"currency": "XXX", "budget": "?"}) == {
        "budget": "Enter an amount, such as 500",
        "currency": "Choose a currency",
    }
