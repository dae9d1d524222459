import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from apps.demo import DemoApp, ExpenseTask
from apps.demo.store import SEED, Expense, State
from apps.demo.task import INSTRUCTION, score_state
from envs import Terminate

LUNCH = {"description": "Team lunch", "amount": "48.50", "category": "Food", "date": "2026-03-04"}


def request(url: str, form: dict[str, str] | None = None) -> tuple[int, str]:
    data = None if form is None else urlencode(form).encode()
    try:
        with urllib.request.urlopen(url, data, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_add_edit_delete_over_http(tmp_path: Path) -> None:
    with DemoApp(tmp_path) as app:
        assert "Old taxi" in request(app.url)[1]
        assert request(f"{app.url}/expenses", {**LUNCH, "reimbursable": "yes"})[0] == 200
        lunch = Expense(
            id=4,
            description="Team lunch",
            amount_cents=4850,
            category="Food",
            date="2026-03-04",
            is_reimbursable=True,
        )
        assert app.state().expenses == (*SEED.expenses, lunch)
        assert 'value="48.50"' in request(f"{app.url}/expenses/4/edit")[1]
        request(f"{app.url}/expenses/4", {**LUNCH, "amount": "50"})
        assert app.state().expenses[-1] == replace(lunch, amount_cents=5000, is_reimbursable=False)
        request(f"{app.url}/expenses/4/delete", {})
        assert app.state().expenses == SEED.expenses
        request(f"{app.url}/settings", {"currency": "USD", "budget": "10"})
        assert "347.90 USD" in request(f"{app.url}/summary")[1]


def test_wrong_fields_are_named_and_nothing_is_saved(tmp_path: Path) -> None:
    with DemoApp(tmp_path) as app:
        status, page = request(f"{app.url}/expenses", {**LUNCH, "amount": "free"})
        assert status == 422
        assert "Enter an amount above 0" in page
        assert 'value="Team lunch"' in page
        assert request(f"{app.url}/settings", {"currency": "EUR", "budget": "lots"})[0] == 422
        assert app.state() == SEED


def test_text_is_escaped(tmp_path: Path) -> None:
    with DemoApp(tmp_path) as app:
        page = request(f"{app.url}/expenses", {**LUNCH, "description": "<b>\"&'</b>"})[1]
        assert "<b>&quot;" not in page.replace("&lt;b&gt;", "")
        assert "&lt;b&gt;&quot;&amp;&#x27;&lt;/b&gt;" in page


def test_pages_ask_for_nothing_outside(tmp_path: Path) -> None:
    with DemoApp(tmp_path) as app:
        for address in ("/", "/summary", "/expenses/1/edit", "/static/style.css"):
            text = request(app.url + address)[1]
            assert "http" not in text
            assert "//" not in text.replace("<!doctype", "")


def test_stop_frees_port_and_temporary_folder() -> None:
    app = DemoApp()
    url = app.start()
    app.stop()
    app.stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=2)


def test_state_needs_a_started_app() -> None:
    with pytest.raises(RuntimeError, match="start the app"):
        DemoApp().state()


KEPT = SEED.expenses[1:]
ADDED = Expense(
    id=4, description="Team lunch", amount_cents=4850, category="Food", date="2026-03-04", is_reimbursable=True
)


@pytest.mark.parametrize(
    ("expenses", "answer", "score"),
    [
        ((*KEPT, ADDED), "Total: 373.40 EUR", 1.0),
        ((*KEPT, ADDED), "373.40", 1.0),
        ((*KEPT, ADDED), None, 2 / 3),
        ((*KEPT, ADDED), "12.90 or 373.40", 2 / 3),
        ((*SEED.expenses, ADDED), "373.40", 2 / 3),
        (KEPT, "373.40", 2 / 3),
        (SEED.expenses, None, 0.0),
        ((*KEPT, replace(ADDED, amount_cents=4851)), "373.40", 0.0),
        ((*KEPT, ADDED, replace(ADDED, id=5)), "373.40", 1 / 3 + 1 / 3),
        ((ADDED,), "373.40", 0.0),
    ],
)
def test_score(expenses: tuple[Expense, ...], answer: str | None, score: float) -> None:
    assert score_state(State(expenses=expenses, next_id=9), answer) == pytest.approx(score)


class PageOnlyEnv:
    """As much of a browser as the task itself touches."""

    def __init__(self) -> None:
        self.url = ""
        self.terminate = Terminate(status="success", answer="373.40 EUR")

    async def goto(self, url: str) -> None:
        self.url = url


async def test_task_verifies_what_was_saved() -> None:
    env: Any = PageOnlyEnv()
    task = ExpenseTask()
    assert task.instruction == INSTRUCTION
    await task.setup(env)
    request(f"{env.url}/expenses", {**LUNCH, "reimbursable": "yes"})
    assert (await task.evaluate(env)).score == pytest.approx(1 / 3 + 1 / 3)
    request(f"{env.url}/expenses/1/delete", {})
    assert (await task.evaluate(env)).score == 1.0
    await task.teardown(env)
    assert (await task.evaluate(env)).score is None
