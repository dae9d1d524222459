"""Demo task: enter an expense, delete another one, read a sum; evaluated from the saved state."""

import re
from dataclasses import replace
from typing import Any

from apps.demo.app import DemoApp
from apps.demo.store import SEED, Expense, State
from envs import Task, TaskSpec, TaskVerdict

INSTRUCTION = (
    'Type "Team lunch" into Description. Type 48.50 into Amount. Select Food in Category. '
    "Set Date to 2026-03-04. Tick Reimbursable. Click Add expense. "
    'Click Delete in the row of "Old taxi". Click OK. Click Summary. Tell me the Total.'
)

_ADDED = Expense(description="Team lunch", amount_cents=4850, category="Food", date="2026-03-04", is_reimbursable=True)
_DELETED = "Old taxi"


class ExpenseTask(Task):
    """Task: add "Team lunch", delete "Old taxi", answer with the new total. `setup` starts the app."""

    instruction = INSTRUCTION
    spec = TaskSpec(id="demo/expenses")

    def __init__(self) -> None:
        self._app: DemoApp | None = None

    async def setup(self, env: Any) -> None:
        """Start a new app and open it. `env` needs `async goto(url)`, like `BrowserEnv`."""
        self._app = DemoApp()
        await env.goto(self._app.start())

    async def evaluate(self, env: Any) -> TaskVerdict:
        """Return the share of the three goals that was reached; 0 if anything else was changed."""
        if self._app is None:
            return TaskVerdict(None)
        answer = env.terminate.answer if env.terminate is not None else None
        return TaskVerdict(score_state(self._app.state(), answer))

    async def teardown(self, env: Any) -> None:
        """Stop the app."""
        if self._app is not None:
            self._app.stop()
            self._app = None


def score_state(state: State, answer: str | None) -> float:
    """Return the score in [0, 1] of a saved state and an answer."""
    kept = tuple(row for row in SEED.expenses if row.description != _DELETED)
    untouched = tuple(row for row in state.expenses if row in SEED.expenses and row.description != _DELETED)
    fresh = [replace(row, id=0) for row in state.expenses if row.id >= SEED.next_id]
    if untouched != kept or state.settings != SEED.settings or any(row != _ADDED for row in fresh):
        return 0.0
    goals = (
        fresh == [_ADDED],
        all(row.description != _DELETED for row in state.expenses),
        _amount_of(answer) == sum(row.amount_cents for row in (*kept, _ADDED)),
    )
    return sum(goals) / len(goals)


def _amount_of(answer: str | None) -> int | None:
    """Return the cents of the only amount with two decimals in the answer."""
    amounts = re.findall(r"\d[\d,]{0,30}\.\d{2}\b", answer or "")
    return int(re.sub(r"[,.]", "", amounts[0])) if len(amounts) == 1 else None
