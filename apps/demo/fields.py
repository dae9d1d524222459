"""From what a browser posts to an expense, with an error for each field that is wrong."""

import re
from collections.abc import Mapping
from datetime import date

from apps.demo.store import CATEGORIES, CURRENCIES, Expense, Settings

_MONEY = re.compile(r"(\d{1,7})(?:[.,](\d{1,2}))?")

Errors = dict[str, str]


def parse_cents(text: str) -> int | None:
    """Cents of `12`, `12.5` or `12,50`; None when it is no amount."""
    match = _MONEY.fullmatch(text.strip())
    if match is None:
        return None
    return int(match[1]) * 100 + int((match[2] or "0").ljust(2, "0"))


def render_cents(cents: int) -> str:
    """`1234.50`, as typed into the form."""
    return f"{cents // 100}.{cents % 100:02d}"


def parse_expense(form: Mapping[str, str], expense_id: int = 0) -> Expense | Errors:
    """An expense from posted fields, or the errors by field name."""
    errors: Errors = {}
    description = form.get("description", "").strip()
    if not description:
        errors["description"] = "Description is required"
    elif len(description) > 80:
        errors["description"] = "At most 80 characters"
    cents = parse_cents(form.get("amount", ""))
    if not cents:
        errors["amount"] = "Enter an amount above 0, such as 12.50"
    category = form.get("category", "")
    if category not in CATEGORIES:
        errors["category"] = "Choose a category"
    day = form.get("date", "")
    if not _is_date(day):
        errors["date"] = "Choose a date"
    if errors or not cents:
        return errors
    return Expense(
        id=expense_id,
        description=description,
        amount_cents=cents,
        category=category,
        date=day,
        is_reimbursable="reimbursable" in form,
    )


def parse_settings(form: Mapping[str, str]) -> Settings | Errors:
    """Settings from posted fields, or the errors by field name."""
    errors: Errors = {}
    cents = parse_cents(form.get("budget", ""))
    if cents is None:
        errors["budget"] = "Enter an amount, such as 500"
    currency = form.get("currency", "")
    if currency not in CURRENCIES:
        errors["currency"] = "Choose a currency"
    if errors or cents is None:
        return errors
    return Settings(currency=currency, monthly_budget_cents=cents)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
