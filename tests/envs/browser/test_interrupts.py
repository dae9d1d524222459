"""Work that is raced against dialogs, crashes and death."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from envs.browser.settle import Interrupted, Interrupts, Reason

LONG_S = 20.0
SOON_S = 0.01


class Gate:
    """Work that goes on until it is let through."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.began = asyncio.Event()
        self.was_cancelled = False

    async def work(self, result: str = "done") -> str:
        self.began.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return result

    async def fail(self) -> str:
        await self.work()
        raise ValueError("it went wrong")


async def soon(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0)


async def overtaken(interrupts: Interrupts, gate: Gate, reason: Reason = "dialog") -> None:
    """Leave work of that gate behind."""
    race = asyncio.create_task(interrupts.race(gate.work(), LONG_S))
    await gate.began.wait()
    interrupts.signal(reason)
    with pytest.raises(Interrupted) as caught:
        await race
    assert caught.value.reason == reason


async def test_work_that_is_done_first_has_a_result() -> None:
    interrupts, gate = Interrupts(), Gate()
    gate.opened.set()
    assert await interrupts.race(gate.work("a"), LONG_S) == "a"
    with pytest.raises(ValueError, match="it went wrong"):
        await interrupts.race(gate.fail(), LONG_S)
    assert not interrupts.stranded


@pytest.mark.parametrize("reason", ["dialog", "crash", "died"])
async def test_work_that_is_overtaken_goes_on_behind(reason: Reason) -> None:
    interrupts, gate = Interrupts(), Gate()
    await overtaken(interrupts, gate, reason)
    assert len(interrupts.stranded) == 1
    gate.opened.set()
    await soon(lambda: not interrupts.stranded)
    assert not gate.was_cancelled


async def test_everybody_who_waits_is_told_and_only_those() -> None:
    interrupts, gates = Interrupts(), [Gate(), Gate()]
    races = [asyncio.create_task(interrupts.race(gate.work(), LONG_S)) for gate in gates]
    for gate in gates:
        await gate.began.wait()
    interrupts.signal("dialog")
    interrupts.signal("crash")  # they know already
    found = await asyncio.gather(*races, return_exceptions=True)
    assert [getattr(error, "reason", None) for error in found] == ["dialog", "dialog"]
    for gate in gates:
        gate.opened.set()
    assert await interrupts.race(gates[0].work("later"), LONG_S) == "later"


async def test_work_that_is_done_as_something_comes_up_counts_as_done() -> None:
    interrupts = Interrupts()

    async def work() -> str:
        interrupts.signal("dialog")
        return "done"

    assert await interrupts.race(work(), LONG_S) == "done"


async def test_work_that_takes_too_long_is_cancelled() -> None:
    interrupts, gate = Interrupts(), Gate()
    with pytest.raises(TimeoutError):
        await interrupts.race(gate.work(), SOON_S)
    await soon(lambda: not interrupts.stranded)
    assert gate.was_cancelled


async def test_while_a_person_is_waited_for_the_time_begins_anew() -> None:
    interrupts, gate, asked = Interrupts(), Gate(), 0

    def is_waiting() -> bool:
        nonlocal asked
        asked += 1
        if asked == 3:
            gate.opened.set()
        return asked < 5

    assert await interrupts.race(gate.work(), SOON_S, is_waiting) == "done"
    assert asked >= 3


async def test_nobody_is_waited_for_once_the_person_has_answered() -> None:
    interrupts, gate = Interrupts(), Gate()
    with pytest.raises(TimeoutError):
        await interrupts.race(gate.work(), SOON_S, lambda: False)
    assert gate.was_cancelled or interrupts.stranded


async def test_a_dialog_ends_the_wait_for_a_person() -> None:
    interrupts, gate = Interrupts(), Gate()

    def is_waiting() -> bool:
        interrupts.signal("dialog")
        return True

    with pytest.raises(Interrupted):
        await interrupts.race(gate.work(), SOON_S, is_waiting)
    gate.opened.set()
    await soon(lambda: not interrupts.stranded)


async def test_a_race_that_is_cancelled_takes_its_work_along() -> None:
    interrupts, gate = Interrupts(), Gate()
    race = asyncio.create_task(interrupts.race(gate.work(), LONG_S))
    await gate.began.wait()
    race.cancel()
    with pytest.raises(asyncio.CancelledError):
        await race
    await soon(lambda: gate.was_cancelled)
    interrupts.signal("dialog")  # nobody listens any more


@pytest.mark.long
async def test_nobody_hears_of_an_error_as_work_is_cancelled() -> None:
    """Such as of a mouse button that is let go after the browser was closed."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    interrupts, began = Interrupts(), asyncio.Event()

    async def press() -> None:
        began.set()
        try:
            await asyncio.sleep(LONG_S)
        finally:
            raise RuntimeError("the page is closed")

    race = asyncio.create_task(interrupts.race(press(), LONG_S))
    await began.wait()
    race.cancel()
    with pytest.raises(asyncio.CancelledError):
        await race
    await soon(lambda: not interrupts.stranded)
    del race
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_overtaken_work_is_waited_for() -> None:
    interrupts, gate = Interrupts(), Gate()
    await interrupts.rejoin(LONG_S)  # there is none: at once
    await overtaken(interrupts, gate)
    await interrupts.rejoin(SOON_S)  # it takes longer: no error
    assert len(interrupts.stranded) >= 1
    gate.opened.set()
    await interrupts.rejoin(LONG_S)
    await soon(lambda: not interrupts.stranded)
    assert not gate.was_cancelled


async def test_the_next_dialog_comes_up_while_overtaken_work_is_waited_for() -> None:
    interrupts, gate = Interrupts(), Gate()
    await overtaken(interrupts, gate)
    rejoin = asyncio.create_task(interrupts.rejoin(LONG_S))
    await asyncio.sleep(0)
    interrupts.signal("dialog")
    with pytest.raises(Interrupted):
        await rejoin
    gate.opened.set()
    await soon(lambda: not interrupts.stranded)


async def test_overtaken_work_is_given_up() -> None:
    interrupts, gate = Interrupts(), Gate()
    await overtaken(interrupts, gate)
    interrupts.drop()
    await soon(lambda: not interrupts.stranded)
    assert gate.was_cancelled


@pytest.mark.slow
@pytest.mark.parametrize("end", ["fail", "work"])
async def test_nobody_hears_of_how_overtaken_work_ended(end: str) -> None:
    """An error that nobody reads would be asyncio's complaint in the middle of a run."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    interrupts, gate = Interrupts(), Gate()
    work: Callable[[], Awaitable[str]] = getattr(gate, end)
    race = asyncio.create_task(interrupts.race(work(), LONG_S))  # type: ignore[arg-type]
    await gate.began.wait()
    interrupts.signal("dialog")
    with pytest.raises(Interrupted):
        await race
    gate.opened.set()
    await soon(lambda: not interrupts.stranded)
    del race
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
