"""Expense tracker: pages, with all data escaped, routes over the store, and `DemoApp`, which serves it on loopback."""

import re
import socket
import tempfile
import threading
from collections.abc import Mapping
from datetime import date
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from apps.demo.store import CATEGORIES, CURRENCIES, SEED, Expense, ExpenseStore, State, StoreSettings
from envs.errors import EnvSetupError, require

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_MONEY = re.compile(r"(\d{1,7})(?:[.,](\d{1,2}))?")

Errors = dict[str, str]
BLANK_FORM: Mapping[str, str] = {}
_STATIC = Path(__file__).with_name("static")


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


class LoopbackServer:
    """Server of `app` on 127.0.0.1 until `stop`, as a context manager. The system selects the port."""

    def __init__(self, app: "Starlette") -> None:
        self._app = app
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self, timeout_s: float = 10.0) -> str:
        """Start serving and return the address, for example `http://127.0.0.1:40001`.

        Raises:
            EnvSetupError: If the server does not start in time.
        """
        uvicorn = require("uvicorn", "demo")
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else small responses wait 40 ms
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            self._app, log_level="error", lifespan="off", timeout_graceful_shutdown=1, ws="none", loop="asyncio"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="loopback-server", daemon=True
        )
        self._thread.start()
        if not _is_answering(self.url, timeout_s):
            raise EnvSetupError(f"the local web app at {self.url} did not answer within {timeout_s:g} s")
        return self.url

    def stop(self) -> None:
        """Stop serving and wait for the thread. May be called twice."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(timeout=5.0)
        self._server = self._thread = None

    def __enter__(self) -> "LoopbackServer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _is_answering(url: str, timeout_s: float) -> bool:
    """Return True if any response arrives in time; the socket queues the request until the server is ready."""
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(4) == b"HTTP"
    except OSError:
        return False


class DemoApp:
    """Expense tracker on a free loopback port, as a context manager.

    Args:
        folder: Folder of `expenses.json`; None for a temporary folder, removed after `stop`.
        seed: Initial content of a new file.
    """

    def __init__(self, folder: Path | None = None, seed: State = SEED) -> None:
        self._folder = folder
        self._seed = seed
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._store: ExpenseStore | None = None
        self._server: LoopbackServer | None = None

    def start(self) -> str:
        """Serve the app and return its address."""
        if self._folder is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="k25-demo-")
        folder = Path(self._scratch.name) if self._scratch else self._folder or Path()
        folder.mkdir(parents=True, exist_ok=True)
        self._store = ExpenseStore(folder / "expenses.json", self._seed)
        self._server = LoopbackServer(make_app(self._store))
        return self._server.start()

    def state(self) -> State:
        """Return the saved state, read from the file.

        Raises:
            RuntimeError: If the app was not started.
        """
        if self._store is None:
            raise RuntimeError("start the app before reading its state")
        return self._store.load()

    def stop(self) -> None:
        """Stop serving; remove a temporary folder. May be called twice."""
        if self._server is not None:
            self._server.stop()
        if self._scratch is not None:
            self._scratch.cleanup()
        self._server = self._scratch = None

    def __enter__(self) -> "DemoApp":
        self.url = self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def make_app(store: ExpenseStore) -> "Starlette":
    """Make the web application for a store."""
    require("starlette", "demo")
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    pages = _Pages(store)
    return Starlette(
        routes=[
            Route("/", pages.show_expenses),
            Route("/expenses", pages.add, methods=["POST"]),
            Route("/expenses/{id:int}/edit", pages.show_edit),
            Route("/expenses/{id:int}", pages.change, methods=["POST"]),
            Route("/expenses/{id:int}/delete", pages.delete, methods=["POST"]),
            Route("/summary", pages.show_summary),
            Route("/settings", pages.set_settings, methods=["POST"]),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ]
    )


class _Pages:
    """Route handlers, one method per route."""

    def __init__(self, store: ExpenseStore) -> None:
        self._store = store

    async def show_expenses(self, request: "Request") -> "Response":
        return _show(render_expenses(self._store.load(), flash=_flash_of(request)))

    async def show_summary(self, request: "Request") -> "Response":
        return _show(render_summary(self._store.load(), flash=_flash_of(request)))

    async def add(self, request: "Request") -> "Response":
        form = await _form_of(request)
        expense = parse_expense(form)
        if not isinstance(expense, Expense):
            return _show(render_expenses(self._store.load(), form=form, errors=expense), status=422)
        self._store.add(expense)
        return _go("/", flash="Saved")

    async def show_edit(self, request: "Request") -> "Response":
        expense = self._find(request)
        return _show(render_edit(expense)) if expense else _go("/", flash="This expense is gone")

    async def change(self, request: "Request") -> "Response":
        before = self._find(request)
        if before is None:
            return _go("/", flash="This expense is gone")
        form = await _form_of(request)
        after = parse_expense(form, before.id)
        if not isinstance(after, Expense):
            return _show(render_edit(before, form=form, errors=after), status=422)
        self._store.change(after)
        return _go("/", flash="Saved")

    async def delete(self, request: "Request") -> "Response":
        self._store.delete(request.path_params["id"])
        return _go("/", flash="Deleted")

    async def set_settings(self, request: "Request") -> "Response":
        form = await _form_of(request)
        settings = parse_settings(form)
        if not isinstance(settings, StoreSettings):
            return _show(render_summary(self._store.load(), form=form, errors=settings), status=422)
        self._store.set_settings(settings)
        return _go("/summary", flash="Saved")

    def _find(self, request: "Request") -> Expense | None:
        wanted = request.path_params["id"]
        return next((row for row in self._store.load().expenses if row.id == wanted), None)


async def _form_of(request: "Request") -> dict[str, str]:
    return dict(parse_qsl((await request.body()).decode("utf-8"), keep_blank_values=True))


def _flash_of(request: "Request") -> str:
    return request.cookies.get("flash", "").replace("_", " ")


def _show(html: str, status: int = 200) -> "Response":
    """Return a page; the flash message in it is then deleted."""
    from starlette.responses import HTMLResponse

    response = HTMLResponse(html, status_code=status)
    response.delete_cookie("flash")
    return response


def _go(address: str, *, flash: str) -> "Response":
    """Redirect the browser, with a message for the next page."""
    from starlette.responses import RedirectResponse

    response = RedirectResponse(address, status_code=303)
    response.set_cookie("flash", flash.replace(" ", "_"), samesite="strict")
    return response
