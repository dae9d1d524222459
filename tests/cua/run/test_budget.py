"""A budget that many share: exact for steps and tool calls, to one call for tokens and money."""

import asyncio
import random
from collections.abc import Callable

import pytest

from cua.messages import Usage
from cua.run.budget import Budget, CapReachedError, Caps


async def spend(budget: Budget, make_usage: Callable[[], Usage]) -> int:
    """Call until the budget ends it; how many calls there were."""
    for number in range(10_000):
        try:
            async with budget.model_call() as reservation:
                await asyncio.sleep(0)
                reservation.usage = make_usage()
                await asyncio.sleep(random.random() / 1000)
        except CapReachedError:
            return number
    raise AssertionError("no limit held")


@pytest.mark.parametrize("num_agents", [1, 2, 100])
async def test_tokens_are_overshot_by_one_call_at_most(num_agents: int) -> None:
    sizes = random.Random(num_agents)
    parent = Budget(Caps(max_tokens=20_000))
    largest = 0

    def use() -> Usage:
        nonlocal largest
        used = Usage(input_tokens=sizes.randint(60, 100), output_tokens=sizes.randint(1, 20))
        largest = max(largest, used.total_tokens)
        return used

    children = [parent.make_child(Caps(max_steps=None)) for _ in range(num_agents)]
    await asyncio.gather(*(spend(child, use) for child in children))
    assert 20_000 <= parent.usage.total_tokens < 20_000 + largest
    assert sum(child.usage.total_tokens for child in children) == parent.usage.total_tokens


async def test_money_is_overshot_by_one_call_at_most() -> None:
    parent = Budget(Caps(max_cost_usd=1.0))
    await asyncio.gather(*(spend(parent.make_child(Caps()), lambda: Usage(cost_usd=0.013)) for _ in range(50)))
    assert parent.usage.cost_usd is not None
    assert 1.0 <= parent.usage.cost_usd < 1.0 + 0.013


async def test_calls_run_side_by_side_while_there_is_room() -> None:
    parent = Budget(Caps(max_tokens=100_000))
    open_now = most = 0

    async def call() -> None:
        nonlocal open_now, most
        async with parent.model_call() as reservation:
            open_now += 1
            most = max(most, open_now)
            await asyncio.sleep(0.001)
            open_now -= 1
            reservation.usage = Usage(input_tokens=10)

    await asyncio.gather(*(call() for _ in range(100)))
    assert most > 50


async def test_free_calls_do_not_wait_for_one_another() -> None:
    parent = Budget(Caps(max_cost_usd=1.0))
    async with parent.model_call():
        pass
    async with parent.model_call(), asyncio.timeout(1), parent.model_call():
        pass


async def test_a_call_that_fails_lets_others_go_on() -> None:
    parent = Budget(Caps(max_tokens=100))

    async def fail() -> None:
        async with parent.model_call():
            await asyncio.sleep(0.01)
            raise RuntimeError

    async def work() -> None:
        async with parent.model_call() as reservation:
            reservation.usage = Usage(input_tokens=10)

    async with asyncio.timeout(5):
        found = await asyncio.gather(fail(), work(), fail(), work(), return_exceptions=True)
    assert [type(one) for one in found] == [RuntimeError, type(None), RuntimeError, type(None)]
    assert parent.usage.total_tokens == 20


async def test_one_who_waits_can_be_cancelled() -> None:
    parent = Budget(Caps(max_tokens=100))
    async with parent.model_call() as reservation:
        waiting = asyncio.create_task(spend(parent, Usage))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        reservation.usage = Usage(input_tokens=10)
    async with asyncio.timeout(1), parent.model_call():
        pass


@pytest.mark.parametrize("num_agents", [1, 3, 100])
async def test_steps_are_counted_exactly_here_and_further_up(num_agents: int) -> None:
    parent = Budget(Caps(max_steps=150), name="the whole run")
    children = [parent.make_child(Caps(max_steps=4)) for _ in range(num_agents)]
    reasons = []
    for child in children:
        with pytest.raises(CapReachedError) as caught:
            for _ in range(1000):
                child.begin_step()
        reasons.append(str(caught.value))
    assert parent.num_steps == min(150, 4 * num_agents)
    assert reasons[0] == "4 of 4 steps used"
    assert reasons[-1] == ("the whole run: 150 of 150 steps used" if num_agents == 100 else "4 of 4 steps used")


def test_tool_calls_are_granted_up_to_the_limit() -> None:
    parent = Budget(Caps(max_calls=10))
    one, two = parent.make_child(Caps(max_calls=7)), parent.make_child(Caps())
    assert [one.take_calls(5), one.take_calls(5), two.take_calls(5), two.take_calls(1)] == [5, 2, 3, 0]
    for budget, reason in ((one, "7 of 7 tool calls used"), (two, "10 of 10 tool calls used")):
        with pytest.raises(CapReachedError, match=reason) as caught:
            budget.check()
        assert caught.value.cap == "calls"


async def test_a_lease_takes_a_small_part_of_what_is_left_and_one_call_near_a_limit() -> None:
    parent = Budget(Caps(max_steps=100, max_tokens=10_000))
    child = parent.make_child(Caps(max_steps=None))
    assert await child.lease(16) == 1  # the usage of a call is not known yet
    child.settle(Usage(input_tokens=10))
    assert await child.lease(16) == 1 + 4
    assert (parent.num_steps, child.num_steps) == (6, 6)
    child.settle(Usage(input_tokens=9_000))
    child.give_back(4)
    assert (parent.num_steps, parent.usage.total_tokens) == (2, 9_010)
    assert await child.lease(16) == 1
    assert await Budget(Caps(max_steps=None)).lease(16) == 16


async def test_calls_that_wait_recall_the_leases_of_others() -> None:
    parent = Budget(Caps(max_tokens=1000, max_steps=None))
    one, two = parent.make_child(Caps(max_steps=None)), parent.make_child(Caps(max_steps=None))
    assert await one.lease(16) == 1
    two.recalls.add(lambda: one.give_back(1))
    async with asyncio.timeout(5), two.model_call():
        assert parent.num_steps == 0
