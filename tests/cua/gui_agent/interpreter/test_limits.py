"""Each limit of a block of code: what fills it passes, and one more is refused with the reason."""

from collections.abc import Callable
from typing import Any

import pytest

from cua.gui_agent.interpreter.limits import CodeBudget, CodeLimits, Refused, measure

LIMITS = CodeLimits(
    max_operations=10, max_size=100, max_depth=3, max_inputs=7, max_typed_chars=8, max_wait_s=2.5, max_actions=1
)


def enter_and_leave(budget: CodeBudget) -> None:
    budget.enter()
    budget.leave()


@pytest.mark.parametrize(
    ("fill", "more", "reason"),
    [
        (lambda b: b.spend(10), lambda b: b.spend(), "this code does too much work"),
        (lambda b: b.spend_time(2.5), lambda b: b.spend_time(0.1), "waits 2.6 s in all and at most 2.5 s are possible"),
        (lambda b: b.spend_inputs(7), lambda b: b.spend_inputs(1), "makes 8 clicks, key presses and wheel notches"),
        (lambda b: b.spend_typing(8), lambda b: b.spend_typing(1), "types 9 characters in all and at most 8"),
        (lambda b: [b.enter() for _ in range(3)], lambda b: b.enter(), "nested too deeply"),
        (lambda b: b.check_size(100), lambda b: b.check_size(101), r"would get too long \(more than 100 characters"),
        (lambda b: b.check("x" * 100), lambda b: b.check("x" * 101), r"is too long \(more than 100 characters"),
        (lambda b: [b.check_size(16) for _ in range(10)], lambda b: b.check_size(16), "too much work"),
        (lambda b: [b.check(["x" * 15]) for _ in range(10)], lambda b: b.check(["x" * 15]), "too much work"),
        (lambda b: [b.check_size(15) for _ in range(50)], lambda b: b.spend(11), "too much work"),
    ],
)
def test_what_fills_a_limit_passes_and_one_more_does_not(
    fill: Callable[[CodeBudget], Any], more: Callable[[CodeBudget], Any], reason: str
) -> None:
    budget = CodeBudget(limits=LIMITS)
    fill(budget)
    with pytest.raises(Refused, match=reason):
        more(budget)


def test_what_is_left_again_does_not_count_as_depth() -> None:
    budget = CodeBudget(limits=LIMITS)
    for _ in range(10):
        enter_and_leave(budget)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 0),
        ("abc", 3),
        (["ab", "c"], 5),
        (("ab", ("c",)), 6),
        ({"ab": ["c"]}, 5),
        ({"a": {"b": "c"}}, 5),
        (5, 0),
        (range(10**9), 0),
    ],
)
def test_characters_and_items_of_all_levels_are_counted(value: object, size: int) -> None:
    assert measure(value, size) == size
    if size:
        with pytest.raises(Refused, match=f"more than {size - 1} characters or items"):
            measure(value, size - 1)


def test_a_list_that_holds_itself_is_too_long() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(Refused, match="too long"):
        measure(value, 1000)


@pytest.mark.parametrize("value", [2**64 - 1, -(2**64) + 1, 0, True, 1.5, None, range(5)])
def test_numbers_of_64_bits_pass(value: object) -> None:
    assert CodeBudget().check(value) is value


@pytest.mark.parametrize(
    ("value", "reason"), [(2**64, "too large"), (-(2**64), "too large"), (1j, "complex numbers are not supported")]
)
def test_numbers_that_are_refused(value: object, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        CodeBudget().check(value)
