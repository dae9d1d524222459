"""Storage of the expense tracker: plain data in one JSON file."""

import json
import threading
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

CATEGORIES = ("Food", "Travel", "Lodging", "Office", "Other")
CURRENCIES = ("EUR", "USD", "GBP", "CHF")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expense:
    """One expense; amount in cents, date as ISO text."""

    id: int = 0
    description: str
    amount_cents: int
    category: str
    date: str
    is_reimbursable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Values of the Settings page; amounts in cents."""

    currency: str = "EUR"
    monthly_budget_cents: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Complete saved state."""

    expenses: tuple[Expense, ...] = ()
    settings: StoreSettings = StoreSettings()
    next_id: int = 1

    @property
    def total_cents(self) -> int:
        """Sum of all expenses."""
        return sum(expense.amount_cents for expense in self.expenses)

    def totals_by_category(self) -> dict[str, int]:
        """Return cents for each category with expenses, in the order of `CATEGORIES`."""
        sums: dict[str, int] = defaultdict(int)
        for expense in self.expenses:
            sums[expense.category] += expense.amount_cents
        return {category: sums[category] for category in CATEGORIES if category in sums}


SEED = State(
    expenses=(
        Expense(id=1, description="Old taxi", amount_cents=2300, category="Travel", date="2026-02-10"),
        Expense(
            id=2,
            description="Hotel Lisbon",
            amount_cents=31200,
            category="Lodging",
            date="2026-02-12",
            is_reimbursable=True,
        ),
        Expense(id=3, description="Printer paper", amount_cents=1290, category="Office", date="2026-02-20"),
    ),
    next_id=4,
)
"""Initial content of a new app."""


class ExpenseStore:
    """State on disk. Each change is written to a new file, which replaces the old one atomically."""

    def __init__(self, path: Path, seed: State = SEED) -> None:
        self._path = path
        self._lock = threading.Lock()
        if not path.exists():
            self._save(seed)

    def load(self) -> State:
        """Return the saved state."""
        data = json.loads(self._path.read_text(encoding="utf-8"))
        return State(
            expenses=tuple(Expense(**row) for row in data["expenses"]),
            settings=StoreSettings(**data["settings"]),
            next_id=data["next_id"],
        )

    def add(self, expense: Expense) -> Expense:
        """Save a new expense under a new number."""
        with self._lock:
            state = self.load()
            saved = replace(expense, id=state.next_id)
            self._save(replace(state, expenses=(*state.expenses, saved), next_id=state.next_id + 1))
        return saved

    def change(self, expense: Expense) -> None:
        """Replace the expense with this number."""
        with self._lock:
            state = self.load()
            rows = tuple(expense if row.id == expense.id else row for row in state.expenses)
            self._save(replace(state, expenses=rows))

    def delete(self, expense_id: int) -> None:
        """Delete the expense with this number."""
        with self._lock:
            state = self.load()
            self._save(replace(state, expenses=tuple(row for row in state.expenses if row.id != expense_id)))

    def set_settings(self, settings: StoreSettings) -> None:
        """Save the settings."""
        with self._lock:
            self._save(replace(self.load(), settings=settings))

    def _save(self, state: State) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(state), indent=2, ensure_ascii=False), encoding="utf-8")
        fresh.replace(self._path)
