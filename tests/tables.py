"""Tables of small cases that are checked in one test."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def table(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Any], Any]:
    """Check all cases in one test and report every failure; takes the place of `pytest.mark.parametrize`.

    For cases of less than a millisecond, where an item of pytest for each would take longer than the case. May be
    stacked. The test function takes the parameters of the table and no fixtures.

    Args:
        names: Parameters, separated by commas.
        cases: A value for each case, or a tuple of them for several parameters; `pytest.param` without marks.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def values(case: Any) -> dict[str, Any]:
        if isinstance(case, type(pytest.param())):
            assert not case.marks, "a case of a table cannot be marked"
            case = case.values if len(wanted) > 1 else case.values[0]
        return dict(zip(wanted, case if len(wanted) > 1 else [case], strict=True))

    rows = [values(case) for case in cases]
    assert rows, "a table without a case checks nothing"

    def decorate(test: Any) -> Any:
        inner, earlier = getattr(test, "table", (test, [{}]))
        assert not inspect.iscoroutinefunction(inner), "a table does not await its test"
        combined = [row | more for row, more in product(rows, earlier)]

        def check_all() -> None:
            errors = []
            for row in combined:
                try:
                    inner(**row)
                except (Exception, pytest.fail.Exception) as error:  # the latter is of `pytest.raises`
                    error.add_note(f"case: {row!r}"[:2000])
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(combined)} cases failed", errors)

        check_all.__name__, check_all.__qualname__ = inner.__name__, inner.__qualname__
        check_all.__doc__, check_all.__module__ = inner.__doc__, inner.__module__
        check_all.table = (inner, combined)  # type: ignore[attr-defined]
        return check_all

    return decorate
