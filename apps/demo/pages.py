"""HTML of the pages, with all data escaped, and parsers of posted forms."""

import re
from collections.abc import Mapping
from datetime import date
from html import escape

from apps.demo.store import CATEGORIES, CURRENCIES, Expense, State, StoreSettings

_MONEY = re.compile(r"(\d{1,7})(?:[.,](\d{1,2}))?")

Errors = dict[str, str]


def parse_cents(text: str) -> int | None:
    """Parse `12`, `12.5` or `12,50` into cents; return None if it is not an amount."""
    match = _MONEY.fullmatch(text.strip())
    if match is None:
        return None
    return int(match[1]) * 100 + int((match[2] or "0").ljust(2, "0"))


def render_cents(cents: int) -> str:
    """Return `1234.50`, the format of the form."""
    return f"{cents // 100}.{cents % 100:02d}"


def parse_expense(form: Mapping[str, str], expense_id: int = 0) -> Expense | Errors:
    """Parse an expense from posted fields; return errors by field name if it is invalid."""
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


def parse_settings(form: Mapping[str, str]) -> StoreSettings | Errors:
    """Parse settings from posted fields; return errors by field name if they are invalid."""
    errors: Errors = {}
    cents = parse_cents(form.get("budget", ""))
    if cents is None:
        errors["budget"] = "Enter an amount, such as 500"
    currency = form.get("currency", "")
    if currency not in CURRENCIES:
        errors["currency"] = "Choose a currency"
    if errors or cents is None:
        return errors
    return StoreSettings(currency=currency, monthly_budget_cents=cents)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


BLANK_FORM: Mapping[str, str] = {}


def render_money(cents: int, currency: str) -> str:
    """Return `1,234.50 EUR`, the displayed format."""
    return f"{cents // 100:,}.{cents % 100:02d} {currency}"


def render_expenses(
    state: State, *, form: Mapping[str, str] = BLANK_FORM, errors: Errors | None = None, flash: str = ""
) -> str:
    """Render the first page: the form on the left, the table on the right."""
    table = _render_table(state)
    fields = _render_fields(form, errors or {})
    body = f"""
    <section class="card form"><h2>New expense</h2>
      <form method="post" action="/expenses" novalidate autocomplete="off">{fields}
        <button class="primary">Add expense</button>
      </form>
    </section>
    <section class="card wide"><h2>Expenses</h2>{table}</section>"""
    return _render_page("Expenses", body, flash)


def render_edit(expense: Expense, *, form: Mapping[str, str] | None = None, errors: Errors | None = None) -> str:
    """Render the page that changes one expense."""
    fields = _render_fields(form if form is not None else _to_form(expense), errors or {})
    body = f"""
    <section class="card form"><h2>Edit expense</h2>
      <form method="post" action="/expenses/{expense.id}" novalidate autocomplete="off">{fields}
        <button class="primary">Save changes</button> <a class="button" href="/">Cancel</a>
      </form>
    </section>"""
    return _render_page("Edit", body)


def render_summary(
    state: State, *, form: Mapping[str, str] | None = None, errors: Errors | None = None, flash: str = ""
) -> str:
    """Render the second page: totals by category, and the settings."""
    currency = state.settings.currency
    total = max(state.total_cents, 1)
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="num">{render_money(cents, currency)}</td>'
        f'<td class="track"><div class="bar" style="width:{cents * 100 // total}%"></div></td></tr>'
        for name, cents in state.totals_by_category().items()
    )
    values = form or {"currency": currency, "budget": render_cents(state.settings.monthly_budget_cents)}
    wrong = errors or {}
    left = render_money(max(state.settings.monthly_budget_cents - state.total_cents, 0), currency)
    body = f"""
    <section class="card wide"><h2>Summary by category</h2>
      <table><thead><tr><th>Category</th><th class="num">Amount</th><th>Share</th></tr></thead>
      <tbody>{rows}</tbody></table>
      {_render_total(state)}
      <p class="note">Left of the monthly budget: {left}</p>
    </section>
    <section class="card form"><h2>Settings</h2>
      <form method="post" action="/settings" novalidate autocomplete="off">
        {_select("Currency", "currency", CURRENCIES, values, wrong)}
        {_input("Monthly budget", "budget", "text", values, wrong)}
        <button class="primary">Save settings</button>
      </form>
    </section>"""
    return _render_page("Summary", body, flash)


def _render_page(title: str, body: str, flash: str = "") -> str:
    links = "".join(
        f'<a href="{address}"{" class=here" if name == title else ""}>{name}</a>'
        for name, address in (("Expenses", "/"), ("Summary", "/summary"))
    )
    note = f'<div class="flash" role="status">{escape(flash)}</div>' if flash else ""
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} - Pocketbook</title>
    <link rel="icon" href="data:,"><link rel="stylesheet" href="/static/style.css"></head>
    <body><header><h1>Pocketbook</h1><nav>{links}</nav>{note}</header><main>{body}</main></body></html>"""


def _render_table(state: State) -> str:
    if not state.expenses:
        return '<p class="note">Nothing here yet.</p>'
    rows = "".join(_render_row(expense, state.settings.currency) for expense in state.expenses)
    return f"""<table><thead><tr><th>Description</th><th>Category</th><th>Date</th><th>Paid back</th>
      <th class="num">Amount</th><th></th></tr></thead><tbody>{rows}</tbody></table>{_render_total(state)}"""


def _render_row(expense: Expense, currency: str) -> str:
    question = escape(f"Delete the expense {expense.description}?", quote=True)
    return f"""<tr><td>{escape(expense.description)}</td><td>{escape(expense.category)}</td><td>{expense.date}</td>
      <td>{"Yes" if expense.is_reimbursable else "No"}</td>
      <td class="num">{render_money(expense.amount_cents, currency)}</td>
      <td class="buttons"><a class="button" href="/expenses/{expense.id}/edit">Edit</a>
      <form method="post" action="/expenses/{expense.id}/delete" data-question="{question}"
        onsubmit="return confirm(this.dataset.question)"><button class="danger">Delete</button></form></td></tr>"""


def _render_total(state: State) -> str:
    return f'<p class="total">Total: <b>{render_money(state.total_cents, state.settings.currency)}</b></p>'


def _render_fields(form: Mapping[str, str], errors: Errors) -> str:
    ticked = " checked" if "reimbursable" in form else ""
    return f"""
        {_input("Description", "description", "text", form, errors)}
        {_input("Amount", "amount", "text", form, errors)}
        {_select("Category", "category", ("", *CATEGORIES), form, errors)}
        {_input("Date", "date", "date", form, errors)}
        <label class="tick"><input type="checkbox" name="reimbursable" value="yes"{ticked}> Reimbursable</label>"""


def _input(label: str, name: str, kind: str, form: Mapping[str, str], errors: Errors) -> str:
    value = escape(form.get(name, ""), quote=True)
    return (
        f'<label for="{name}">{label}</label><input id="{name}" name="{name}" type="{kind}" value="{value}">'
        + _render_error(name, errors)
    )


def _select(label: str, name: str, options: tuple[str, ...], form: Mapping[str, str], errors: Errors) -> str:
    chosen = form.get(name, "")
    rows = "".join(
        f'<option value="{option}"{" selected" * (option == chosen)}>{option or "Choose..."}</option>'
        for option in options
    )
    return f'<label for="{name}">{label}</label><select id="{name}" name="{name}">{rows}</select>' + _render_error(
        name, errors
    )


def _render_error(name: str, errors: Errors) -> str:
    return f'<div class="error">{escape(errors[name])}</div>' if name in errors else ""


def _to_form(expense: Expense) -> Mapping[str, str]:
    form = {
        "description": expense.description,
        "amount": render_cents(expense.amount_cents),
        "category": expense.category,
        "date": expense.date,
    }
    return form | ({"reimbursable": "yes"} if expense.is_reimbursable else {})
