"""The gate in front of an endpoint: how many get through, and what a refusal does to all of them."""

import asyncio
from dataclasses import replace

import pytest

from cua.errors import UnavailableError
from cua.models.gate import ON_WAIT, AgentWait, EndpointGate, OverloadedError, RetryClock, gate_of


class FakeClock:
    """Time that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def clock(self, share: float = 0.0) -> RetryClock:
        return RetryClock(
            now=lambda: self.now_s, sleep=self.sleep, uniform=lambda low, high: low + share * (high - low)
        )


async def refuse(gate: EndpointGate, retry_after_s: float | None = None) -> None:
    with pytest.raises(OverloadedError):
        async with gate.admit():
            raise OverloadedError("slow down", retry_after_s=retry_after_s)


async def test_no_more_than_the_limit_are_under_way_and_the_first_come_first() -> None:
    gate = EndpointGate(3)
    order: list[int] = []
    most = 0

    async def call(number: int) -> None:
        nonlocal most
        async with gate.admit():
            order.append(number)
            most = max(most, gate.num_open)
            await asyncio.sleep(0.001)

    await asyncio.gather(*(call(number) for number in range(50)))
    assert (most, order, gate.num_open) == (3, list(range(50)), 0)


async def test_a_gate_that_is_resized_admits_no_more_than_its_share() -> None:
    gate = EndpointGate(8)
    gate.resize(3)
    most = 0

    async def call() -> None:
        nonlocal most
        async with gate.admit():
            most = max(most, gate.num_open)
            await asyncio.sleep(0)

    await asyncio.gather(*(call() for _ in range(50)))
    assert most == 3
    gate.resize(5)
    await asyncio.gather(*(call() for _ in range(50)))
    assert most == 5


async def test_a_refusal_halves_what_is_under_way_and_calls_that_work_bring_it_back() -> None:
    gate = EndpointGate(64)
    holding = asyncio.Event()

    async def hold() -> None:
        async with gate.admit():
            await holding.wait()

    others = [asyncio.create_task(hold()) for _ in range(15)]
    await asyncio.sleep(0)
    await refuse(gate)
    assert gate.limit == 8.0
    holding.set()
    await asyncio.gather(*others)
    assert 9.0 < gate.limit < 10.0  # 15 calls worked: not quite two more
    for _ in range(3000):
        async with gate.admit():
            pass
    assert gate.limit == 64


async def test_refusals_of_calls_that_were_under_way_together_count_once() -> None:
    fake = FakeClock()
    gate = EndpointGate(64, clock=fake.clock())
    go = asyncio.Event()

    async def fail() -> None:
        with pytest.raises(OverloadedError):
            async with gate.admit():
                await go.wait()
                raise OverloadedError("slow down", retry_after_s=None)

    together = [asyncio.create_task(fail()) for _ in range(32)]
    await asyncio.sleep(0)
    fake.now_s += 1
    go.set()
    await asyncio.gather(*together)
    assert gate.limit == 16
    fake.now_s += 1
    for _ in range(10):
        fake.now_s += 1
        await refuse(gate)
    assert gate.limit == 1
    async with asyncio.timeout(1), gate.admit():  # one always gets through
        pass


async def test_a_wish_of_the_server_holds_all_back_with_jitter() -> None:
    fake = FakeClock()
    gate = EndpointGate(64, clock=fake.clock(share=0.5))
    await refuse(gate, retry_after_s=20)
    async with gate.admit():
        assert fake.slept == [21.0]  # and half of a tenth
    await refuse(gate, retry_after_s=300)
    async with gate.admit(max_away_s=299):  # is not held for longer than it may wait: its own refusal ends it
        assert fake.slept == [21.0]
    async with gate.admit(max_away_s=300):
        assert fake.slept == [21.0, 315.0]


async def test_one_who_gives_up_waiting_leaves_its_place_to_the_next() -> None:
    gate = EndpointGate(1)
    done: list[str] = []

    async def call(name: str) -> None:
        async with gate.admit():
            done.append(name)
            await asyncio.sleep(0.01)

    first, second, third = (asyncio.create_task(call(name)) for name in "abc")
    await asyncio.sleep(0.001)
    second.cancel()
    async with asyncio.timeout(2):
        await asyncio.gather(first, second, third, return_exceptions=True)
    assert (done, gate.num_open) == (["a", "c"], 0)


async def test_one_who_is_cancelled_at_its_turn_passes_it_on() -> None:
    gate = EndpointGate(1)

    async def call() -> None:
        async with gate.admit():
            await asyncio.sleep(0)

    async with asyncio.timeout(5):
        for _ in range(200):
            tasks = [asyncio.create_task(call()) for _ in range(5)]
            for number in range(8):
                await asyncio.sleep(0)
                tasks[number % 5].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert gate.num_open == 0
        await call()


async def test_all_who_name_an_endpoint_share_its_gate() -> None:
    assert gate_of("http://a/v1") is gate_of("http://a/v1")
    assert gate_of("http://a/v1") is not gate_of("http://b/v1")


async def fail(gate: EndpointGate) -> None:
    with pytest.raises(UnavailableError):
        async with gate.admit():
            raise UnavailableError("no connection")


async def test_while_an_endpoint_is_away_one_call_at_a_time_tries_it_and_a_success_lets_all_through() -> None:
    fake = FakeClock()
    gate = EndpointGate(64, clock=fake.clock())
    is_back = False
    most = num_calls = 0

    async def call() -> None:
        nonlocal most, num_calls
        while True:
            try:
                async with gate.admit():
                    most, num_calls = max(most, gate.num_open), num_calls + 1
                    await asyncio.sleep(0.001)
                    if not is_back:
                        raise UnavailableError("no connection")
                    return
            except UnavailableError:
                await asyncio.sleep(0)

    await fail(gate)
    tasks = [asyncio.create_task(call()) for _ in range(50)]
    await asyncio.sleep(0.05)
    assert most == 1
    assert sum(fake.slept) == pytest.approx(sum(min(15, 2**n) for n in range(len(fake.slept))), rel=0.01)
    is_back = True
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks)
    assert most > 10
    assert gate.limit == 64


async def test_calls_that_wait_for_an_endpoint_give_up_when_it_has_been_away_for_too_long() -> None:
    fake = FakeClock()
    gate = EndpointGate(64, clock=fake.clock())
    await fail(gate)
    fake.now_s += 2
    with pytest.raises(UnavailableError, match="still none"):
        async with gate.admit():  # has the only place while another call waits for it
            waiting = asyncio.create_task(enter(gate, 30))
            await asyncio.sleep(0)
            fake.now_s += 31
            raise UnavailableError("still none")
    with pytest.raises(UnavailableError, match=r"no connection .away for 33 s; the limit is 30 s, --set retry_time="):
        await waiting


async def enter(gate: EndpointGate, max_away_s: float) -> None:
    async with gate.admit(max_away_s=max_away_s):
        pass


async def test_a_call_that_comes_after_a_long_outage_tries_the_endpoint() -> None:
    fake = FakeClock()
    gate = EndpointGate(64, clock=fake.clock())
    for _ in range(6):
        await fail(gate)
    fake.now_s += 600  # longer than the limits of those that came before
    async with gate.admit(max_away_s=5):  # it is back
        pass
    async with gate.admit(max_away_s=0):
        pass


async def test_an_outage_that_begins_while_a_call_waits_for_its_turn_is_reported_as_one() -> None:
    reports: list[AgentWait | None] = []
    known, failing, back = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def on_wait(wait: AgentWait | None) -> None:
        reports.append(wait)
        known.set()

    async def sleep(seconds: float) -> None:
        await back.wait()
        fake.now_s += seconds

    fake = FakeClock()
    gate = EndpointGate(1, clock=replace(fake.clock(), sleep=sleep))

    async def first() -> None:
        with pytest.raises(UnavailableError):
            async with gate.admit():
                await failing.wait()
                raise UnavailableError("no connection")

    async def second() -> None:
        ON_WAIT.set(on_wait)
        async with gate.admit():
            pass

    async with asyncio.timeout(10):
        tasks = [asyncio.create_task(first()), asyncio.create_task(second())]
        for event in (failing, back):
            await known.wait()
            known.clear()
            event.set()
        await asyncio.gather(*tasks)
    assert reports == [
        AgentWait(reason="the model's endpoint is busy"),
        AgentWait(reason="no connection", is_outage=True),
        None,
    ]


async def test_one_call_that_times_out_while_others_are_answered_is_no_outage() -> None:
    fake = FakeClock()
    gate = EndpointGate(64, clock=fake.clock())
    go = asyncio.Event()

    async def hang() -> None:
        with pytest.raises(UnavailableError):
            async with gate.admit():
                await go.wait()
                raise UnavailableError("no answer in time")

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    fake.now_s += 1
    async with gate.admit():
        pass
    go.set()
    await hanging
    async with gate.admit(max_away_s=0):
        assert fake.slept == []
